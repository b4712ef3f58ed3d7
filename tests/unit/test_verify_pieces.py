"""Every claim of a plan about its pieces has a lie that must be caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.factor import Factor
from dprelease.catalog.residual import Residual
from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.verify.whole_plan import check_pieces, verify
from tests.pieces import KINDS, planned

Lie = Callable[[Step], Step]


def _with(**update: object) -> Lie:
    return lambda step: step.model_copy(update=update)


def _of(**update: object) -> Lie:
    return lambda step: step.model_copy(update={"aggregate": step.aggregate.model_copy(update=update)})


CUT, TOP, OTHER = "areas.puma.sex.residual", "areas.region.sex.residual", "population.rows"
LIES: dict[str, tuple[str, Lie, str]] = {
    "another number": (CUT, _with(pieces=3), "another number of pieces than there are region keys"),
    "the top level": (TOP, _with(pieces=2), "no level above it"),
    "a query": (OTHER, _with(pieces=2), "pieces that the plan does not have"),
    "a workload without levels": ("crosstabs.sex.residual", _with(pieces=2), "pieces that the plan does not have"),
    "noise that is not independent": (CUT, _with(mechanism="count_knorm"), "noise that is not independent"),
    "a draw of several quantities": (CUT, _with(joined=(Quantity(kind="units"),)), "of another kind, too"),
    "contrasts of the level": (
        CUT,
        _with(residual=Residual(shape=(5, 2), axes=(0, 1), grain=1)),
        "contrasts its level",
    ),
    "sums of cells": (
        CUT,
        _with(factor=Factor(shape=(5, 2), axis=0, kind="root", grain=1024)),
        "adds up cells of its own",
    ),
    "a draw of units": (CUT, _of(quantity=Quantity(kind="units")), "no plain count"),
    "a draw with bounds": (CUT, _of(max_groups=1), "no plain count"),
    "a draw of rows without a key": (CUT, _of(complete=()), "no plain count"),
    "a draw by another column first": (CUT, _of(by=("sex", "puma")), "not by its level first"),
    "fewer cells": (CUT, _with(cells=8), "another shape|cells in no piece"),
    "an id that is taken": (OTHER, _with(id=f"{CUT}.piece-1"), "two measurements with one id"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_plan_that_cuts_what_cannot_be_cut_is_refused(lie: str) -> None:
    plan = planned(KINDS["residuals"])
    check_pieces(plan)
    name, change, why = LIES[lie]
    wrong = plan.model_copy(update={"steps": tuple(change(step) if step.id == name else step for step in plan.steps)})
    assert wrong != plan
    with pytest.raises(BrokenPromiseError, match=why):
        check_pieces(wrong)
    with pytest.raises(BrokenPromiseError):
        verify(wrong)


@pytest.mark.parametrize(
    ("update", "why"),
    [
        ({"nodes": (0, 2)}, "other nodes"),
        ({"nodes": (0, 1, 2, 3)}, "other nodes"),
        ({"column": "state"}, "other nodes"),
        ({"unit": 1}, "another unit"),
        ({"key": "N"}, "another unit"),
        ({"of": 3}, "another unit"),
        ({"level": 6}, "another size"),
    ],
)
def test_pieces_that_are_made_wrong_are_caught(
    update: dict[str, object], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second derivation knows nothing of the first one: what that gets wrong is told."""
    plan = planned(KINDS["residuals"])
    pieces = dict(plan.pieces)
    first, *rest = pieces[CUT]
    if set(update) <= {"nodes", "column"} and "unit" not in update:
        update = {"within": first.within.model_copy(update=update)}
    pieces[CUT] = (first.model_copy(update=update), *rest)
    monkeypatch.setattr(ReleasePlan, "pieces", property(lambda _: pieces))
    with pytest.raises(BrokenPromiseError, match=why):
        check_pieces(plan)
