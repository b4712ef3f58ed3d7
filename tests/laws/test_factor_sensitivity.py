"""The sensitivity of a factor by brute force: every two neighbouring tables of a unit with up to three rows.

The verifier's own derivation must agree with it, and a plan that claims anything else must be refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement, product
from math import comb, prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dprelease.catalog.aggregate import BoundedAggregate, Quantity
from dprelease.catalog.factor import MOST_WRITTEN_OUT, Factor, factor_sensitivity, root_matrix
from dprelease.catalog.mirrored import MIRRORS
from dprelease.catalog.residual import Residual
from dprelease.catalog.table import Catalog, Column, Source, Table, TableBounds
from dprelease.errors import BrokenPromiseError
from dprelease.estimate.ranges import Which
from dprelease.plan.document import Step
from dprelease.plan.lower.ranges import mirrored_factor, near_optimal
from dprelease.plan.verify.factor import _derived, _root, check_factor
from dprelease.plan.verify.lines.mirrored_line import unrolled
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring
from tests.tiers import few

Integers = npt.NDArray[np.int64]
GRAIN = 1024
SHAPES = [(1,), (2,), (3,), (5,), (2, 2), (2, 3), (3, 2), (1, 3), (3, 3), (2, 2, 2), (2, 3, 2), (5, 4), (8,)]
BOTH: tuple[Which, ...] = ("prefixes", "all")
ODD = ((3, -1, 0, 2), (-2, 4, -3, 0), (0, 0, 5, -5), (1, 1, 1, 1))  # with negative entries, and zeros


def matrices(shape: tuple[int, ...], axis: int) -> Iterator[Factor]:
    keys = shape[axis]
    yield Factor(shape=shape, axis=axis, kind="root", grain=GRAIN)
    for which in BOTH:
        yield mirrored_factor(shape, axis, which)
        rows = tuple(map(tuple, near_optimal(keys, which).tolist()))
        yield Factor(shape=shape, axis=axis, kind="matrix", grain=GRAIN, rows=rows)
    if keys <= len(ODD):
        yield Factor(shape=shape, axis=axis, kind="matrix", grain=GRAIN, rows=tuple(row[:keys] for row in ODD[:keys]))


def cases() -> Iterator[tuple[Factor, int, Neighboring]]:
    for shape, rows, relation in product(SHAPES, (1, 2, 3), Neighboring):
        tables = comb(prod(shape) + rows, rows) ** (2 if relation is Neighboring.REPLACE_ONE else 1)
        if tables * prod(shape) > 60_000:
            continue
        for axis in range(len(shape)):
            for factor in matrices(shape, axis):
                yield factor, rows, relation


CASES = list(cases())
every_case = pytest.mark.parametrize(
    ("factor", "rows", "relation"),
    [pytest.param(*case, id=f"{at}-{case[0].shape}-{case[0].axis}-{case[0].kind}") for at, case in enumerate(CASES)],
)


def units(rows: int, cells: int) -> Integers:
    """Every table of a unit with at most so many rows, one in each line."""
    found = [
        np.bincount(np.array(where, dtype=np.int64), minlength=cells)
        for held in range(rows + 1)
        for where in combinations_with_replacement(range(cells), held)
    ]
    return np.array(found)


def query(factor: Factor) -> Integers:
    """The matrix of the whole table, by Kronecker products."""
    parts = (
        factor.matrix.astype(np.int64) if at == factor.axis else np.eye(n, dtype=np.int64)
        for at, n in enumerate(factor.shape)
    )
    return reduce(np.kron, parts, np.ones((1, 1), dtype=np.int64))


def norms(moves: Integers) -> tuple[int, Fraction, Fraction, Fraction]:
    sizes = np.abs(moves)
    return (
        int((sizes > 0).sum(axis=1).max()),
        Fraction(int(sizes.sum(axis=1).max())),
        Fraction(int((sizes**2).sum(axis=1).max())),
        Fraction(int(sizes.max())),
    )


def moved(factor: Factor, rows: int, relation: Neighboring) -> Integers:
    """The change of the answer for every two neighbours."""
    answers = units(rows, prod(factor.shape)) @ query(factor).T
    if relation is Neighboring.ADD_REMOVE:
        return answers
    return (answers[:, None] - answers[None, :]).reshape(-1, answers.shape[1])


@pytest.mark.thin
@every_case
def test_no_neighbour_moves_a_factor_further_than_claimed_and_one_moves_it_as_far(
    factor: Factor, rows: int, relation: Neighboring
) -> None:
    claim = factor_sensitivity(factor, rows, relation)
    l0, *others = norms(moved(factor, rows, relation))
    assert [claim.l1, claim.l2_squared, claim.linf] == others
    assert claim.shifts == ()
    assert l0 <= claim.l0
    if factor.kind == "root":  # its first column has no zero
        assert l0 == claim.l0


def test_there_are_cases_where_a_difference_of_two_columns_is_worst() -> None:
    """Or nothing here would look at negative entries."""
    one = [case for case in CASES if case[0].slices > 1 and case[2] is Neighboring.REPLACE_ONE]
    least = [2 * factor_sensitivity(factor, rows, Neighboring.ADD_REMOVE).l2_squared for factor, rows, _ in one]
    found = [factor_sensitivity(*case).l2_squared for case in one]
    assert sum(many > few for many, few in zip(found, least, strict=True)) > 5


@pytest.mark.parametrize("relation", Neighboring)
@pytest.mark.parametrize("most", [1, 2])
def test_tables_that_are_clamped_are_no_further_apart(relation: Neighboring, most: int) -> None:
    factor, rows = Factor(shape=(2, 3), axis=1, kind="root", grain=GRAIN), 2
    claim = factor_sensitivity(factor, rows, relation)
    unit = units(rows, 6)
    for others in units(2, 6):
        clamped = np.minimum(unit + others, most)
        left = clamped[:1] if relation is Neighboring.ADD_REMOVE else clamped
        found = norms(((clamped[:, None] - left[None, :]) @ query(factor).T).reshape(-1, 6))
        assert found[0] <= claim.l0
        assert found[1] <= claim.l1
        assert found[2] <= claim.l2_squared
        assert found[3] <= claim.linf


@pytest.mark.thin
@every_case
def test_the_verifier_finds_the_same(factor: Factor, rows: int, relation: Neighboring) -> None:
    derived = _derived(factor.matrix.astype(np.int64), factor.slices, rows, 1, relation)
    assert derived == factor_sensitivity(factor, rows, relation)


@pytest.mark.parametrize("keys", [MOST_WRITTEN_OUT, MOST_WRITTEN_OUT + 1, 300])
@pytest.mark.parametrize("lines", [1, 2])
@pytest.mark.parametrize("kind", ["root", "prefixes", "all"])
def test_many_keys_are_bounded_by_two_lines_which_reach_the_bound(kind: Any, keys: int, lines: int) -> None:
    factor = Factor(shape=(lines, keys), axis=1, kind="root", grain=2**14)
    if kind != "root":
        factor = mirrored_factor((lines, keys), 1, kind)
    claim = factor_sensitivity(factor, 1, Neighboring.REPLACE_ONE)
    matrix = factor.matrix.astype(np.int64)
    pairs = [norms(matrix.T - column) for column in matrix.T]
    squared = max(pair[2] for pair in pairs)
    assert all(squared <= claim.l2_squared and pair[1] <= claim.l1 and pair[3] <= claim.linf for pair in pairs)
    assert squared >= claim.l2_squared * Fraction(96 if kind == "root" else 99, 100)  # so little does one line lose
    alone = norms(matrix.T)
    if lines == 2:
        assert (claim.l1, claim.l2_squared, claim.linf) == (2 * alone[1], 2 * alone[2], alone[3])
    assert _derived(matrix, lines, 1, 1, Neighboring.REPLACE_ONE) == claim


@settings(max_examples=few(40), deadline=None)
@given(st.integers(1, 200), st.integers(1024, 2**20))
def test_a_root_is_the_same_by_binomial_coefficients(keys: int, grain: int) -> None:
    found = root_matrix(keys, grain)
    assert np.array_equal(found, _root(keys, grain))
    assert int(np.diag(found).min()) >= 1  # so that it has an inverse
    assert not np.triu(found, 1).any()


def test_the_largest_root_is_the_same_and_near_the_square_root_of_the_prefix_sums() -> None:
    keys, grain = 1500, 2**14
    found = root_matrix(keys, grain)
    assert np.array_equal(found, _root(keys, grain))
    lengths = np.linalg.norm(found.astype(np.float64), axis=0)
    assert np.abs(lengths / grain - 1).max() < 1e-4


@settings(max_examples=few(40), deadline=None)
@given(st.data())
def test_a_mirrored_line_that_falls_has_no_negative_entry_and_is_the_same_by_its_endless_form(
    data: st.DataObject,
) -> None:
    """Whatever falls, and not only what the planner finds."""
    keys = data.draw(st.integers(1, 40))
    line = sorted(data.draw(st.lists(st.integers(0, 4000), min_size=keys, max_size=keys)), reverse=True)
    line = [data.draw(st.integers(max(1, line[0]), 4001)), *line]
    times = tuple(data.draw(st.lists(st.integers(1, 2000), min_size=keys, max_size=keys)))
    kind = data.draw(st.sampled_from(MIRRORS))
    factor = Factor(shape=(keys,), axis=0, kind=kind, grain=2**20, line=tuple(line), times=times)
    assert int(factor.matrix.min()) >= 0
    derived = unrolled(factor, keys)
    assert derived is not None
    assert np.array_equal(factor.matrix, derived)
    for i, j in product(range(keys), repeat=2):  # as section 8 of the proof says
        if kind == "mirrored_prefixes":
            image = line[i + j + 1] if i + j + 1 <= keys else -line[2 * keys - i - j]
        else:
            image = -[*line, 0][i + j + 2 if i + j + 2 <= keys + 1 else 2 * keys - i - j]
        assert factor.matrix[i, j] == times[j] * (line[abs(i - j)] + image)


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("keys", [2, 3, 129, 1000])
def test_the_columns_of_a_mirrored_line_have_nearly_one_norm(keys: int, which: Which) -> None:
    factor = mirrored_factor((keys,), 0, which)
    lengths = np.linalg.norm(factor.matrix.astype(np.float64), axis=0)
    assert factor.grain * 0.995 < lengths.min() <= lengths.max() <= factor.grain


def planned(factor: Factor, rows: int, relation: Neighboring) -> tuple[Any, Step]:
    """A plan as far as the check reads it, and one step of it; by a, b, c, ... with the keys of the factor's shape."""
    names = tuple("abcdef"[: len(factor.shape)])
    keys = tuple(
        Column(name=name, type="integer", keys=tuple(range(n))) for name, n in zip(names, factor.shape, strict=True)
    )
    table = Table(
        name="t",
        account="x",
        source=Source(file="t.csv", format="csv"),
        columns=(*keys, Column(name="u", type="text")),
        unit_id="u",
        bounds=TableBounds(max_rows=rows),
    )
    step = Step(
        id="q.prefixes",
        answers=(),
        aggregate=BoundedAggregate(table="t", by=names, quantity=Quantity(kind="rows")),
        mechanism="discrete_gaussian",
        sensitivity=factor_sensitivity(factor, rows, relation),
        scale=Fraction(1000),
        share=Fraction(1),
        cells=prod(factor.shape),
        factor=factor,
    )
    return SimpleNamespace(catalog=Catalog(tables={"t": table}), neighboring=relation), step


HELD = Factor(
    shape=(3, 4), axis=1, kind="matrix", grain=4096, rows=tuple(map(tuple, near_optimal(4, "prefixes").tolist()))
)
LONG = mirrored_factor((2, 200), 1, "prefixes")
ROOT = Factor(shape=(2, 200), axis=1, kind="root", grain=2**14)
OTHER = tuple(tuple(entry + (at == 0) for entry in row) for at, row in enumerate(HELD.rows or ()))


@pytest.mark.parametrize("relation", Neighboring)
@pytest.mark.parametrize("factor", [HELD, ROOT, LONG])
def test_a_step_that_claims_what_is_derived_passes(factor: Factor, relation: Neighboring) -> None:
    check_factor(*planned(factor, 2, relation))


@pytest.mark.parametrize("factor", [HELD, ROOT, LONG])
@pytest.mark.parametrize("norm", ["l0", "l1", "l2_squared", "linf"])
@pytest.mark.parametrize("times", [Fraction(1, 2), Fraction(2)])
def test_a_step_that_claims_another_norm_is_refused(factor: Factor, norm: str, times: Fraction) -> None:
    plan, step = planned(factor, 2, Neighboring.REPLACE_ONE)
    wrong = int(step.sensitivity.l0 * times) if norm == "l0" else getattr(step.sensitivity, norm) * times
    false = step.model_copy(update={"sensitivity": step.sensitivity.model_copy(update={norm: wrong})})
    with pytest.raises(BrokenPromiseError, match="another sensitivity"):
        check_factor(plan, false)


FALSE = {
    "another matrix": {"factor": HELD.model_copy(update={"rows": OTHER})},
    "a root instead": {"factor": HELD.model_copy(update={"kind": "root", "rows": None})},
    "a root with rows": {"factor": HELD.model_copy(update={"kind": "root"})},
    "no rows": {"factor": HELD.model_copy(update={"rows": None})},
    "a row too few": {"factor": HELD.model_copy(update={"rows": (HELD.rows or ())[1:]})},
    "a huge number": {"factor": HELD.model_copy(update={"rows": ((2**40,) * 4, *(HELD.rows or ())[1:])})},
    "a coarse lattice": {"factor": HELD.model_copy(update={"grain": 1})},
    "another axis": {"factor": HELD.model_copy(update={"axis": 0})},
    "an axis beyond": {"factor": HELD.model_copy(update={"axis": 2})},
    "another shape": {"factor": HELD.model_copy(update={"shape": (4, 3)})},
    "another number of cells": {"cells": 7},
    "Laplace noise": {"mechanism": "discrete_laplace"},
    "a worst case": {"sensitivity": Sensitivity.of_shifts((1,))},
    "several quantities": {"joined": (Quantity(kind="rows", where="x"),)},
    "a residual": {"residual": Residual(shape=(3, 4), axes=(1,), grain=256)},
    "pieces": {"pieces": 2},
    "another quantity": {"aggregate": BoundedAggregate(table="t", by=("a", "b"), quantity=Quantity(kind="units"))},
    "some rows": {"aggregate": BoundedAggregate(table="t", by=("a", "b"), quantity=Quantity(kind="rows", where="x"))},
    "cells left out": {
        "aggregate": BoundedAggregate(table="t", by=("a", "b"), quantity=Quantity(kind="rows"), excluding="few")
    },
    "no factor": {"factor": None},
}


@pytest.mark.parametrize("changed", FALSE.values(), ids=FALSE.keys())
def test_a_step_that_is_not_what_it_says_is_refused(changed: dict[str, Any]) -> None:
    plan, step = planned(HELD, 2, Neighboring.ADD_REMOVE)
    with pytest.raises(BrokenPromiseError, match="does not verify"):
        check_factor(plan, step.model_copy(update=changed))


LINE, TIMES = LONG.line or (), LONG.times or ()
FALSE_LINES: dict[str, dict[str, Any]] = {
    "the other mirror": {"kind": "mirrored_ranges"},
    "another line": {"line": (LINE[0] + 1, *LINE[1:])},
    "other times": {"times": (TIMES[0] * 2, *TIMES[1:])},
    "a line that rises": {"line": (*LINE[1:], LINE[0])},
    "a negative number": {"line": (*LINE[:-1], -1)},
    "a number too few": {"line": LINE[1:]},
    "a time too few": {"times": TIMES[1:]},
    "no times": {"times": None},
    "a column left out": {"times": (0, *TIMES[1:])},
    "huge numbers": {"times": (2**30, *TIMES[1:])},
    "rows": {"rows": HELD.rows},
    "a coarse lattice": {"grain": 1},
    "too fine a lattice": {"grain": 2**25},
}


@pytest.mark.parametrize("changed", FALSE_LINES.values(), ids=FALSE_LINES.keys())
def test_a_mirrored_line_that_is_not_what_it_says_is_refused(changed: dict[str, Any]) -> None:
    plan, step = planned(LONG, 2, Neighboring.ADD_REMOVE)
    with pytest.raises(BrokenPromiseError, match="does not verify"):
        check_factor(plan, step.model_copy(update={"factor": LONG.model_copy(update=changed)}))


@pytest.mark.parametrize("name", list(FALSE_LINES)[3:])
def test_a_mirrored_line_that_makes_no_sense_is_no_value(name: str) -> None:
    """The first three make sense, but are another draw than was planned."""
    with pytest.raises(ValidationError):
        Factor(**{**dict(LONG), **FALSE_LINES[name]})


@pytest.mark.parametrize(
    "wrong",
    [
        {"axis": 2},
        {"axis": -1},
        {"shape": (3, 0)},
        {"shape": (3, 5)},
        {"grain": 1023},
        {"kind": "root"},
        {"rows": None},
        {"rows": ((1,),)},
        {"kind": "root", "rows": None, "shape": (1, 4097)},
    ],
)
def test_a_factor_that_makes_no_sense_is_no_value(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Factor(**{**dict(HELD), **wrong})


def test_a_plan_without_a_factor_keeps_its_text() -> None:
    _, step = planned(HELD, 1, Neighboring.ADD_REMOVE)
    assert '"factor"' in step.canonical()
    assert '"factor"' not in step.model_copy(update={"factor": None}).canonical()
    assert '"rows"' not in ROOT.canonical()
    assert '"line"' not in ROOT.canonical() + HELD.canonical()
    assert '"times"' not in ROOT.canonical() + HELD.canonical()
