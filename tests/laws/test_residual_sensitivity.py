"""The sensitivity of a residual by brute force: every two neighbouring tables of a unit with up to three rows.

The verifier's own derivation must agree with it, and a plan that claims anything else must be refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from itertools import combinations, combinations_with_replacement, product
from math import comb, prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.residual import Residual, residual_sensitivity
from dprelease.catalog.table import Catalog, Column, Source, Table, TableBounds
from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import Step
from dprelease.plan.verify.residual import _derived, check_residual
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring
from tests.tiers import few

GRAIN = 3
SHAPES = [(), (1,), (2,), (3,), (5,), (2, 2), (2, 3), (3, 2), (1, 3), (3, 3), (2, 2, 2), (2, 2, 3), (3, 4, 2), (5, 5)]
Integers = npt.NDArray[np.int64]


def cases() -> Iterator[tuple[Residual, int, Neighboring]]:
    for shape, rows, relation in product(SHAPES, (1, 2, 3), Neighboring):
        tables = comb(prod(shape) + rows, rows) ** (2 if relation is Neighboring.REPLACE_ONE else 1)
        if tables * prod(shape) > 100_000:
            continue
        for count in range(len(shape) + 1):
            for axes in combinations(range(len(shape)), count):
                if all(shape[at] > 1 for at in axes):
                    yield Residual(shape=shape, axes=axes, grain=GRAIN), rows, relation


CASES = list(cases())
every_case = pytest.mark.parametrize(
    ("residual", "rows", "relation"),
    [pytest.param(*case, id=f"{case[0].shape}-{case[0].axes}-{case[1]}-{case[2]}") for case in CASES],
)


def units(rows: int, cells: int) -> Integers:
    """Every table of a unit with at most so many rows, one in each line."""
    found = [
        np.bincount(np.array(where, dtype=np.int64), minlength=cells)
        for held in range(rows + 1)
        for where in combinations_with_replacement(range(cells), held)
    ]
    return np.array(found)


def query(residual: Residual) -> Integers:
    factors = (
        n * np.eye(n, dtype=np.int64) - 1 if at in residual.axes else np.eye(n, dtype=np.int64)
        for at, n in enumerate(residual.shape)
    )
    return residual.grain * reduce(np.kron, factors, np.ones((1, 1), dtype=np.int64))


def norms(moves: Integers) -> tuple[int, Fraction, Fraction, Fraction]:
    sizes = np.abs(moves)
    return (
        int((sizes > 0).sum(axis=1).max()),
        Fraction(int(sizes.sum(axis=1).max())),
        Fraction(int((sizes**2).sum(axis=1).max())),
        Fraction(int(sizes.max())),
    )


def moved(residual: Residual, rows: int, relation: Neighboring) -> Integers:
    """The change of the answer for every two neighbours."""
    answers = units(rows, prod(residual.shape)) @ query(residual).T
    if relation is Neighboring.ADD_REMOVE:
        return answers
    return (answers[:, None] - answers[None, :]).reshape(-1, answers.shape[1])


def claimed(sensitivity: Sensitivity) -> tuple[int, Fraction, Fraction, Fraction]:
    return sensitivity.l0, sensitivity.l1, sensitivity.l2_squared, sensitivity.linf


@pytest.mark.thin
@every_case
def test_no_neighbour_moves_a_residual_further_than_claimed_and_one_moves_it_as_far(
    residual: Residual, rows: int, relation: Neighboring
) -> None:
    found = residual_sensitivity(residual, rows, relation)
    assert claimed(found) == norms(moved(residual, rows, relation))
    assert found.shifts == ()


@pytest.mark.parametrize("relation", Neighboring)
@pytest.mark.parametrize("most", [1, 2])
def test_tables_that_are_clamped_are_no_further_apart(relation: Neighboring, most: int) -> None:
    residual, rows = Residual(shape=(2, 3), axes=(0, 1), grain=GRAIN), 2
    claim = claimed(residual_sensitivity(residual, rows, relation))
    unit = units(rows, 6)
    for others in units(2, 6):
        clamped = np.minimum(unit + others, most)
        left = clamped[:1] if relation is Neighboring.ADD_REMOVE else clamped
        changes = ((clamped[:, None] - left[None, :]) @ query(residual).T).reshape(-1, 6)
        found = norms(changes)
        assert all(found[at] <= claim[at] for at in range(4))


@pytest.mark.thin
@every_case
def test_the_verifier_finds_the_same(residual: Residual, rows: int, relation: Neighboring) -> None:
    derived = _derived(residual.shape, residual.axes, residual.grain, rows, 1, relation)
    assert derived == residual_sensitivity(residual, rows, relation)


@settings(max_examples=few(60), deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 7, 50, 1000]), max_size=4),
    st.integers(0, 31),
    st.integers(1, 4),
    st.sampled_from(list(Neighboring)),
)
def test_the_verifier_finds_the_same_for_large_tables(
    sizes: list[int], chosen: int, rows: int, relation: Neighboring
) -> None:
    axes = tuple(at for at, n in enumerate(sizes) if n > 1 and chosen >> at & 1)
    residual = Residual(shape=tuple(sizes), axes=axes, grain=7)
    assert _derived(residual.shape, axes, 7, rows, 1, relation) == residual_sensitivity(residual, rows, relation)


def planned(residual: Residual, rows: int, relation: Neighboring) -> tuple[Any, Step]:
    """A plan as far as the check reads it, and one step of it; by a, b, c, ... with the keys of the residual's shape."""
    names = tuple("abcdef"[: len(residual.shape)])
    keys = tuple(
        Column(name=name, type="integer", keys=tuple(range(n))) for name, n in zip(names, residual.shape, strict=True)
    )
    table = Table(
        name="t",
        account="x",
        source=Source(file="t.csv", format="csv"),
        columns=(*keys, Column(name="u", type="text")),
        unit_id="u",
        bounds=TableBounds(max_rows=rows),
    )
    catalog = Catalog(tables={"t": table})
    cells = prod(residual.shape)
    step = Step(
        id="w.r",
        answers=(),
        aggregate=BoundedAggregate(table="t", by=names, quantity=Quantity(kind="rows")),
        mechanism="discrete_gaussian",
        sensitivity=residual_sensitivity(residual, rows, relation),
        scale=Fraction(1000),
        share=Fraction(1),
        cells=cells,
        residual=residual,
    )
    return SimpleNamespace(catalog=catalog, neighboring=relation), step


SMALL = Residual(shape=(2, 3), axes=(0, 1), grain=171)
LARGE = Residual(shape=(51, 7, 9), axes=(1, 2), grain=17)


@pytest.mark.parametrize("relation", Neighboring)
@pytest.mark.parametrize("residual", [SMALL, LARGE])
def test_a_step_that_claims_what_is_derived_passes(residual: Residual, relation: Neighboring) -> None:
    check_residual(*planned(residual, 2, relation))


@pytest.mark.parametrize("residual", [SMALL, LARGE])
@pytest.mark.parametrize("norm", ["l0", "l1", "l2_squared", "linf"])
@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(2)])
def test_a_step_that_claims_another_norm_is_refused(residual: Residual, norm: str, factor: Fraction) -> None:
    plan, step = planned(residual, 2, Neighboring.REPLACE_ONE)
    wrong = int(step.sensitivity.l0 * factor) if norm == "l0" else getattr(step.sensitivity, norm) * factor
    false = step.model_copy(update={"sensitivity": step.sensitivity.model_copy(update={norm: wrong})})
    with pytest.raises(BrokenPromiseError, match="another sensitivity"):
        check_residual(plan, false)


FALSE = {
    "another grain": {"residual": SMALL.model_copy(update={"grain": 172})},
    "other axes": {"residual": SMALL.model_copy(update={"axes": (1,)})},
    "another shape": {"residual": SMALL.model_copy(update={"shape": (3, 2)})},
    "falling axes": {"residual": SMALL.model_copy(update={"axes": (1, 0)})},
    "axes beyond": {"residual": SMALL.model_copy(update={"axes": (0, 2)})},
    "another number of cells": {"cells": 7},
    "Laplace noise": {"mechanism": "discrete_laplace"},
    "a worst case": {"sensitivity": Sensitivity.of_shifts((1,))},
    "several quantities": {"joined": (Quantity(kind="rows", where="x"),)},
    "a gauge": {"gauge": Fraction(1)},
    "another quantity": {"aggregate": BoundedAggregate(table="t", by=("a", "b"), quantity=Quantity(kind="units"))},
    "cells left out": {
        "aggregate": BoundedAggregate(table="t", by=("a", "b"), quantity=Quantity(kind="rows"), excluding="few")
    },
    "no residual": {"residual": None},
}


@pytest.mark.parametrize("changed", FALSE.values(), ids=FALSE.keys())
def test_a_step_that_is_not_what_it_says_is_refused(changed: dict[str, Any]) -> None:
    plan, step = planned(SMALL, 2, Neighboring.ADD_REMOVE)
    with pytest.raises(BrokenPromiseError, match="does not verify"):
        check_residual(plan, step.model_copy(update=changed))


def test_a_column_with_one_key_is_refused() -> None:
    one = Residual(shape=(2, 1), axes=(0,), grain=1)
    plan, step = planned(one, 1, Neighboring.ADD_REMOVE)
    with pytest.raises(BrokenPromiseError, match="one key"):
        check_residual(plan, step.model_copy(update={"residual": one.model_copy(update={"axes": (0, 1)})}))
