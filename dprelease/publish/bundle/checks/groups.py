"""What a bundle says of groups of units and of exchanges, held against what is proved: for bundles of any version.

A later version may prove less loss than an earlier one said: what was said then stays true. It may also know that what
was said was never true; that has a name (``ledger.model.repriced``), and is told with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.groups import shown_of
from dprelease.plan.verify.reach import keys_of_one
from dprelease.privacy.convert import converted
from dprelease.publish.accounting.semantics import group_at

__all__ = ["as_written_before", "untrue"]

_ERRATUM = "key-selection"
_SUMMED = 1e-3  # of a probability: a wide Gaussian's is bounded by a continuous one's
_ROUNDED = Fraction(1, 10**9)  # of a figure, where decimal text was rounded up


def as_written_before(steps: Sequence[Any], plan: ReleasePlan) -> list[Any]:
    """The steps of ``accounting.json`` as versions wrote them that took selections of keys apart."""
    return [
        {**step, "event": converted(event, 1).model_dump(mode="json")}
        for step, event in zip(steps, plan.events, strict=True)
    ]


def untrue(said: Any, expected: Sequence[Mapping[str, Any]], plan: ReleasePlan) -> list[str]:
    """What is wrong with the rows that say what each change of the data costs; nothing: every one of them is proved."""
    if not isinstance(said, list) or len(said) != len(expected):
        return ["it has other rows"]
    return [why for row, ours in zip(said, expected, strict=True) for why in _wrong(row, ours, plan)]


def _wrong(row: Any, ours: Mapping[str, Any], plan: ReleasePlan) -> Iterator[str]:
    if row == ours:
        return
    same = isinstance(row, dict) and {**row, "loss": None} == {**ours, "loss": None}
    if not same:
        yield "it has other rows"
        return
    if row["loss"] is None:
        return  # it claims nothing
    try:
        epsilon, delta = (Fraction(row["loss"][name]) for name in ("epsilon", "delta"))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        yield f"{ours['what']}: it is no loss"
        return
    if ours["loss"] is not None and _at_least((epsilon, delta), ours["loss"]):
        return  # larger than it needs to be
    if ours["kind"] == "group":
        units = ours["size"]
        shown = _shown(plan, units)
        if shown > float(delta) * (1 + _SUMMED):
            yield (
                f"{ours['what']}: epsilon {row['loss']['epsilon']} at delta {row['loss']['delta']} is false, for keys "
                f"that {units} units alone hold are shown with probability {shown:.3g} (erratum {_ERRATUM})"
            )
            return
        proved = group_at(plan, units, delta)
        if proved is not None and proved <= epsilon * (1 + _ROUNDED):
            return
    yield f"{ours['what']}: it is less than is proved"


def _at_least(claimed: tuple[Fraction, Fraction], ours: Mapping[str, str]) -> bool:
    return claimed[0] >= Fraction(ours["epsilon"]) and claimed[1] >= Fraction(ours["delta"])


def _shown(plan: ReleasePlan, units: int) -> float:
    """With which probability some key is shown that so many units alone hold: no delta below that is true."""
    by_threshold = [step for step in plan.steps if step.selecting is not None and step.mechanism != "optimal_selection"]
    each = [shown_of(step, keys_of_one(plan, step), units) for step in by_threshold]
    return 1.0 if max(each, default=0.0) >= 1 else -math.expm1(math.fsum(math.log1p(-shown) for shown in each))
