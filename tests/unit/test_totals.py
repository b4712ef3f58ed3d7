"""Totals of ordinary queries: their oracle table, sensitivities by brute force, laws, and plans that lie about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.noise import MECHANISMS
from dprelease.noise.weighted_sums import WeightedLaw, normal_reach
from dprelease.plan.design.totals import accuracy_of_tables
from dprelease.plan.document import PlannedQuery, PlannedTotals, ReleasePlan, Step
from dprelease.plan.verify.whole_plan import verify
from tests.planned import half_sensitivity, plan_of

CONFIDENCE = Fraction(95, 100)
NESTED = """
dprelease: 1
release: {{name: nested, period: 2024}}
privacy:
  unit: {{entity: person}}
  budget: {{rho: 1/2, delta: 1e-9}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      a: {{type: integer, keys: {{from: 1, to: {0}}}}}
      b: {{type: integer, keys: {{from: 1, to: {1}}}}}
      c: {{type: integer, keys: {{from: 1, to: {2}}}}}
queries:
  n:
    table: people
    by: [a, b, c]
    totals: [[], [a], [a, b]]
    {3}
    measures: {{n: {{count: rows}}}}
"""
MONEY = """
dprelease: 1
release: {{name: money, period: 2024}}
privacy:
  unit: {{entity: person}}
  neighboring: {relation}
  budget: {budget}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    {unit}
    columns:
      a: {{type: text, keys: [x, y]}}
      b: {{type: integer, keys: {{from: 1, to: {keys}}}}}
      pay: {{type: integer, range: [-2, 5]}}
queries:
  pay:
    table: people
    by: [a, b]
    totals: all
    expect: {{n: 200}}
    measures:
      n: {{count: rows}}
      paid: {{count: pay}}
      large: {{count: rows, where: "pay > 2"}}
      rate: {{ratio: [large, n]}}
      total: {{sum: pay, clip: [-2, 5]}}
      mean: {{mean: pay, clip: [-2, 5]}}
"""


def money(relation: str = "add_remove", *, keys: int = 12, pure: bool = False, rows: int = 1) -> ReleasePlan:
    unit = "" if rows == 1 else f"unit_id: who\n    bounds: {{max_rows: {rows}}}"
    budget = "{epsilon: 1}" if pure else "{epsilon: 1, delta: 1e-9}"
    text = MONEY.format(relation=relation, keys=keys, unit=unit, budget=budget)
    return plan_of(text if rows == 1 else text.replace("clip: [-2, 5]}", "clip: [-2, 5], clip_per: row}"))


def totals_of(query: PlannedQuery) -> PlannedTotals:
    assert query.totals is not None
    return query.totals


def errors(sizes: tuple[int, int, int], shares: str = "") -> dict[tuple[str, ...], tuple[float, float]]:
    plan = plan_of(NESTED.format(*sizes, shares))
    verify(plan)
    return {
        each.by: (each.expected.standard_error or 0.0, each.added_up.standard_error or 0.0)
        for each in accuracy_of_tables(plan, plan.queries[0])
    }


def shares(each: str, cells: str) -> str:
    return f'shares: {{tables: {{total: {each}, a: {each}, "a*b": {each}, "a*b*c": {cells}}}}}'


ORACLE = [  # standard errors of total, a, a x b and cells, as printed in the literature table of nested totals, mu = 1
    ((16, 5, 12), shares("1/4", "1/4"), (1.93, 1.76, 1.75, 1.92)),
    ((16, 5, 12), shares("1/60", "19/20"), (7.27, 5.14, 3.07, 1.01)),
    ((16, 5, 12), shares("1/30", "9/10"), (5.21, 4.14, 2.84, 1.04)),
    ((16, 5, 12), "", (3.71, 3.18, 2.53, 1.09)),
    ((50, 10, 10), shares("1/4", "1/4"), (1.98, 1.88, 1.82, 1.91)),
    ((50, 10, 10), shares("1/60", "19/20"), (7.62, 5.94, 2.90, 1.02)),
    ((50, 10, 10), shares("1/30", "9/10"), (5.40, 4.63, 2.74, 1.04)),
    ((50, 10, 10), shares("1/15", "4/5"), (3.83, 3.47, 2.50, 1.09)),
]
BY = [(), ("a",), ("a", "b"), ("a", "b", "c")]


@pytest.mark.parametrize(("sizes", "said", "known"), ORACLE)
def test_the_oracle_table_comes_out(sizes: tuple[int, int, int], said: str, known: tuple[float, ...]) -> None:
    found = errors(sizes, said)

    assert [round(found[by][0], 2) for by in BY] == list(known)


@pytest.mark.parametrize(
    ("sizes", "known"), [((16, 5, 12), (30.98, 7.75, 3.46, 1.0)), ((50, 10, 10), (70.7, 10.0, 3.16, 1.0))]
)
def test_adding_up_errs_as_the_oracle_says(sizes: tuple[int, int, int], known: tuple[float, ...]) -> None:
    found = errors(sizes)

    for by, error in zip(BY, known, strict=True):
        assert found[by][1] == pytest.approx(error, abs=0.05 if error > 50 else 0.005)


def test_what_has_ten_cells_or_fewer_is_added_up() -> None:
    plan = plan_of(NESTED.format(50, 10, 10, ""))

    drawn = totals_of(plan.queries[0]).drawn

    assert [table.by for table in drawn] == [("a",), ()]  # of a x b a total has ten cells
    assert [table.part for table in drawn] == [Fraction(1, 10)] * 2
    assert len(plan.steps) == 3


def test_without_anything_to_draw_a_plan_is_that_of_the_cells() -> None:
    with_totals = plan_of(NESTED.format(2, 2, 2, "").replace("totals: [[], [a], [a, b]]", "totals: all"))
    alone = plan_of(NESTED.format(2, 2, 2, "").replace("totals: [[], [a], [a, b]]", ""))

    assert totals_of(with_totals.queries[0]).drawn == ()
    assert [step.scale for step in with_totals.steps] == [step.scale for step in alone.steps]


# Rows for brute force: a key or none in each column, and a value or none.
Row = tuple[str | None, int | None, int | None]
POSSIBLE: list[Row] = [*product(("x", "y", None), (1, 2, None), (-2, 5, None))]


def moved(rows: tuple[Row, ...], step: Step) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What a unit's rows add to the cells of a step, by the meaning of the spec alone."""
    quantity, by = step.aggregate.quantity, step.aggregate.by
    cells = dict.fromkeys(product(*({"a": ("x", "y"), "b": (1, 2)}[name] for name in by)), 0)
    for a, b, pay in rows:
        if a is None or b is None:
            continue
        counts = pay is not None if quantity.kind in ("nonnull", "sum") or quantity.where else True
        if quantity.where is not None:
            counts = pay is not None and pay > 2
        value = {"rows": int(counts), "nonnull": int(counts), "balance": 1 if counts else -1}.get(quantity.kind)
        if value is None:
            value = pay - quantity.centre if pay is not None else 0
        if quantity.kind == "balance" and quantity.column is not None:
            value = 1 if pay is not None else -1
        cells[tuple({"a": a, "b": b}[name] for name in by)] += value
    return np.array(list(cells.values()), dtype=np.int64)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_sensitivities_are_the_largest_changes_of_all_neighbours(relation: str, rows: int) -> None:
    text = MONEY.format(
        relation=relation,
        keys=2,
        unit="" if rows == 1 else "unit_id: who\n    bounds: {max_rows: 2}",
        budget="{epsilon: 1, delta: 1e-9}",
    ).replace("totals: all", 'totals: [[a], []]\n    shares: {tables: {"a*b": 1/2, a: 1/4, total: 1/4}}')
    text = text if rows == 1 else text.replace("clip: [-2, 5]}", "clip: [-2, 5], clip_per: row}")
    plan = plan_of(text)
    units = [each for size in range(rows + 1) for each in combinations_with_replacement(POSSIBLE, size)]

    assert {step.aggregate.by for step in plan.steps} == {("a", "b"), ("a",), ()}
    for step in plan.steps:
        vectors = {tuple(moved(unit, step).tolist()) for unit in units}
        if relation == "add_remove":
            changes = vectors
        else:
            changes = {tuple(np.subtract(one, other).tolist()) for one in vectors for other in vectors}
        l1 = max(sum(map(abs, each)) for each in changes)
        l2 = max(sum(part * part for part in each) for each in changes)
        linf = max(max(map(abs, each)) for each in changes)
        claim = step.sensitivity
        assert (claim.l1, claim.l2_squared, claim.linf) == (l1, l2, linf), step.id


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("pure", [False, True])
def test_a_planted_half_of_each_sensitivity_is_refused(relation: str, rows: int, pure: bool) -> None:
    plan = money(relation, rows=rows, pure=pure)
    verify(plan)
    own = [step for step in plan.steps if step.aggregate.by in ((), ("a",))]

    assert own
    for step in own:
        with pytest.raises(BrokenPromiseError):
            verify(_with_step(plan, step, sensitivity=half_sensitivity(step).sensitivity))
        with pytest.raises(BrokenPromiseError):
            verify(_with_step(plan, step, scale=step.scale / 2))


def _with_step(plan: ReleasePlan, step: Step, **changes: object) -> ReleasePlan:
    other = step.model_copy(update=changes)
    return plan.model_copy(update={"steps": tuple(other if each is step else each for each in plan.steps)})


def _with_totals(plan: ReleasePlan, **changes: object) -> ReleasePlan:
    (query,) = plan.queries
    totals = totals_of(query).model_copy(update=changes)
    return plan.model_copy(update={"queries": (query.model_copy(update={"totals": totals}),)})


def _grouping(plan: ReleasePlan, **changes: object) -> ReleasePlan:
    """A step of the total of all that counts other rows."""
    step = next(step for step in plan.steps if step.aggregate.by == ())
    return _with_step(plan, step, aggregate=step.aggregate.model_copy(update=changes))


def _of_other(plan: ReleasePlan) -> ReleasePlan:
    """The totals of one measure are said to be those of another one."""
    tables = []
    for table in totals_of(plan.queries[0]).tables:
        inputs = dict(table.inputs)
        if inputs:
            inputs["n"] = inputs["paid"]
        tables.append(table.model_copy(update={"inputs": inputs}))
    return _with_totals(plan, tables=tuple(tables))


LIES: list[tuple[str, Callable[[ReleasePlan], ReleasePlan]]] = [
    ("rows without keys", lambda plan: _grouping(plan, complete=())),
    ("rows with fewer keys", lambda plan: _grouping(plan, complete=("a",))),
    ("other rows", lambda plan: _grouping(plan, where="pay > 2")),
    ("another quantity", _of_other),
    ("other parts", lambda plan: _with_totals(plan, part=Fraction(9, 10))),
    ("no tables", lambda plan: _with_totals(plan, tables=())),
    ("a table twice", lambda plan: _with_totals(plan, tables=(*totals_of(plan.queries[0]).tables,) * 2)),
    ("other columns", lambda plan: _with_totals(plan, by=("b", "a"))),
    (
        "all columns",
        lambda plan: _with_totals(
            plan,
            tables=tuple(
                each.model_copy(update={"by": ("a", "b")}) if each.by == () else each
                for each in totals_of(plan.queries[0]).tables
            ),
        ),
    ),
    (
        "cells of all rows",
        lambda plan: plan.model_copy(update={"queries": (plan.queries[0].model_copy(update={"complete": ()}),)}),
    ),
    (
        "a better cell",
        lambda plan: plan.model_copy(
            update={
                "outputs": tuple(
                    each.model_copy(update={"standard_error": str(float(each.standard_error or 0) * 0.99)})
                    for each in plan.outputs
                )
            }
        ),
    ),
    (
        "a narrower cell",
        lambda plan: plan.model_copy(
            update={
                "outputs": tuple(
                    each.model_copy(update={"margin": str(float(each.margin or 0) * 0.98)}) for each in plan.outputs
                )
            }
        ),
    ),
]


@pytest.mark.parametrize(("what", "lie"), LIES, ids=[what for what, _ in LIES])
def test_a_plan_that_lies_about_its_totals_is_refused(what: str, lie: Callable[[ReleasePlan], ReleasePlan]) -> None:
    plan = money()
    verify(plan)

    with pytest.raises(BrokenPromiseError):
        verify(lie(plan))


def _sums() -> Iterator[tuple[WeightedLaw, str]]:
    for scale in ("3/5", "5/4", "3", "20"):
        square = float(Fraction(scale)) ** 2
        for gaussian in (True, False):
            name = "discrete_gaussian" if gaussian else "discrete_laplace"
            variance = square if gaussian else MECHANISMS[name].law(Fraction(scale)).variance
            yield WeightedLaw(((1.0, 7, variance),), gaussian), scale
            yield WeightedLaw(((0.85, 1, variance), (-0.03, 4, variance), (0.15, 1, 4 * variance)), gaussian), scale


@pytest.mark.parametrize(("law", "scale"), list(_sums()))
def test_margins_of_weighted_sums_hold_and_are_near_the_least(law: WeightedLaw, scale: str) -> None:
    """Against 400,000 draws of the very laws; one standard deviation of a level of 0.05 is 0.00034."""
    chance, total, count = np.random.default_rng(7), np.zeros(400_000), 400_000
    for weight, times, variance in law.parts:
        wide = _scale(variance, gaussian=law.gaussian)
        for _ in range(times):
            total += weight * _drawn(wide, count, chance, gaussian=law.gaussian)
    margin = law.margin(CONFIDENCE)
    outside = float((np.abs(total) > margin + 1e-9).mean())

    assert outside < 0.05 + 5 * 0.00034
    nearer = margin - 1 if law.is_whole else margin * 0.955
    assert float((np.abs(total) > nearer).mean()) > 0.05 - 5 * 0.00034


def _scale(variance: float, *, gaussian: bool) -> float:
    return math.sqrt(variance) if gaussian else 1 / (2 * math.asinh(1 / math.sqrt(2 * variance)))


def _drawn(scale: float, count: int, chance: np.random.Generator, *, gaussian: bool) -> Any:
    at = np.arange(-int(40 * scale) - 20, int(40 * scale) + 21)
    mass = np.exp(-(at**2) / (2 * scale**2)) if gaussian else np.exp(-np.abs(at) / scale)
    return at[np.minimum(np.searchsorted(np.cumsum(mass / mass.sum()), chance.random(count)), len(at) - 1)]


def test_a_ripple_bounds_what_a_quotient_of_sums_strays_from_normal() -> None:
    """At quotients where the lattice shows most, for sums whose draws are coarse."""
    chance, count = np.random.default_rng(11), 400_000
    above, below = ((0.9, 1, 2.0), (0.05, 8, 2.0), (0.1, 1, 30.0)), ((0.8, 1, 3.0), (0.06, 8, 3.0), (0.2, 1, 20.0))
    laws = [WeightedLaw(parts, gaussian=True) for parts in (above, below)]
    drawn = []
    for law in laws:
        total = np.zeros(count)
        for weight, times, variance in law.parts:
            for _ in range(times):
                total += weight * _drawn(math.sqrt(variance), count, chance, gaussian=True)
        drawn.append(total)
    reach = normal_reach([sum(each) for each in zip(*(law.ripples for law in laws), strict=True)], 0.05)

    for quotient in (0.0, 0.5, 1.0, 9 / 8, 3.0):
        error = math.sqrt(laws[0].variance + quotient**2 * laws[1].variance)
        outside = np.abs(drawn[0] - quotient * drawn[1]) > reach * error
        assert float(outside.mean()) < 0.05 + 5 * 0.00034
    assert reach < 2.5
