"""Two releases are compared as arrays, and the result is what a dictionary of all cells gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example as such_as
from hypothesis import given
from hypothesis import strategies as st

from dprelease.catalog.table import Column, Key
from dprelease.estimate import PublishedTable
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan, Workload
from dprelease.publish import published_tables
from dprelease.publish.base import key_as_text
from dprelease.publish.bundle.compare import NumberChange, Released, aligned, compare_releases
from dprelease.publish.measured import inputs_of, queries_as_tables, workload_tables
from tests.planned import plan_of
from tests.unit.choices_example import choices, measured
from tests.workloads import GEO, areas, crosstabs, ordinary, spec_of

Rows = list[tuple[Key, ...]]
SURROGATE = "\udc80"  # is spelled out, and then is the text below
KEYS = ("red", "über", "=cmd", "a,b", "red shoes", SURROGATE, "\\udc80")


def table(rows: Rows, columns: int) -> PublishedTable:
    return PublishedTable(
        name="t",
        title="",
        key_columns=tuple(Column(name=f"c{at}", type="text") for at in range(columns)),
        keys=tuple([row[at] for row in rows] for at in range(columns)),
        measures=(),
        confidence=Fraction(95, 100),
        cells=len(rows),
    )


ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), st.integers(-2, 2), st.booleans()), max_size=12)


@given(ROWS, ROWS, st.integers(0, 3))
@such_as([("a", 1, True), ("b", 1, True)], [("b", 1, True), ("a", 1, True)], 1)
@such_as([("a", 1, True), ("b", 1, True), ("a", 2, True)], [("a", 1, True), ("c", 0, False)], 1)
def test_rows_are_aligned_as_a_dictionary_does_it(one: Rows, two: Rows, columns: int) -> None:
    one, two = [row[:columns] for row in one], [row[:columns] for row in two]
    places = [{tuple(map(key_as_text, row)): at for at, row in enumerate(rows)} for rows in (one, two)]
    expected = [(at, places[1][key]) for key, at in places[0].items() if key in places[1]]
    first, second = aligned(table(one, columns), table(two, columns))
    found = [np.arange(len(rows))[at].tolist() for rows, at in ((one, first), (two, second))]
    assert list(zip(*found, strict=True)) == expected


def test_more_combinations_than_a_number_can_tell_apart_are_aligned_too() -> None:
    rows: Rows = [tuple(range(at, at + 70)) for at in range(9)]
    first, second = aligned(table(rows, 70), table(rows[::-2], 70))
    assert np.arange(9)[first].tolist() == [0, 2, 4, 6, 8]
    assert np.arange(5)[second].tolist() == [4, 3, 2, 1, 0]


Cell = tuple[str, str, tuple[str, ...]]


def cells(released: Released, confidence: Fraction | None = None) -> dict[Cell, tuple[float, float]]:
    """Value and margin by table, measure and keys, one Python object for each."""
    plan = released.plan
    if confidence is not None:
        publish = plan.publish.model_copy(update={"confidence": confidence, "unreliable_above": None})
        plan = plan.model_copy(update={"publish": publish})
    found: dict[Cell, tuple[float, float]] = {}
    for each in published_tables(plan, released.measurements):
        rows = list(zip(*each.keys, strict=True)) if each.keys else [()] * each.cells
        for measure in each.measures:
            for at, keys in enumerate(rows):
                place = (each.name, measure.name, tuple(map(key_as_text, keys)))
                found[place] = (float(measure.value[at]), float(measure.margin[at]))
    return found


def naively(first: Released, second: Released, confidence: Fraction) -> tuple[list[NumberChange], int, int]:
    """The changes, how many numbers were compared, and how many could not be."""
    one, two = cells(first), cells(second)
    both = [place for place in one if place in two]
    fit = [place for place in both if all(map(math.isfinite, (*one[place], *two[place])))]
    each = 1 - (1 - confidence) / (2 * max(len(fit), 1))
    one, two = cells(first, each), cells(second, each)
    changes = []
    for place in fit:
        (before, margin), (after, other) = one[place], two[place]
        if abs(after - before) > margin + other:
            changes.append(NumberChange(*place, before, after, margin + other))
    changes.sort(key=lambda each: -abs(each.after - each.before) / max(each.noise, 1e-300))
    return changes, len(fit), len(both) - len(fit)


def release(chance: np.random.Generator, far: float, changes: Mapping[str, object]) -> Released:
    """The example with other keys, another cell left out, and some numbers that moved."""
    keys = tuple((KEYS[at],) for at in chance.permutation(len(KEYS))[: chance.integers(0, len(KEYS) + 1)])
    plan = choices(**changes)  # type: ignore[arg-type]
    left_out = {"not_applicable(country,new)": (int(chance.integers(0, 6)),)}
    plan = plan.model_copy(update={"catalog": plan.catalog.model_copy(update={"exclusions": left_out})})
    found = {}
    for name, each in measured(keys).items():
        moved = np.where(chance.random(len(each.values)) < far, chance.integers(-4000, 4000, len(each.values)), 0)
        still = name in ("terms.keys", "top.pages") or any(step.choosing for step in plan.steps if step.id == name)
        found[name] = each if still else Measurement(name, each.values + moved, keys=each.keys)
    return Released(plan, found)


@pytest.mark.parametrize("seed", range(12))
def test_releases_are_compared_as_a_dictionary_of_all_cells_does_it(seed: int) -> None:
    chance = np.random.default_rng(seed)
    publish = choices().publish.model_copy(update={"unreliable_show": ("flag", "blank")[seed % 2]})
    one, two = (release(chance, far, {"publish": publish}) for far in (0.0, (0.0, 0.3, 1.0)[seed % 3]))
    confidence = Fraction(1, 2) if seed % 4 == 0 else Fraction(99, 100)
    found = compare_releases(one, two, confidence)
    changes, compared, left_out = naively(one, two, confidence)
    assert (found.compared, found.left_out) == (compared, left_out)
    assert list(found.changes) == changes
    assert compared > 0 or seed % 3 == 2  # where everything moved, all rows may be suppressed
    assert changes or seed % 3 != 1


def drawn(plan: ReleasePlan, seed: int) -> dict[str, Measurement]:
    chance = np.random.default_rng(seed)
    return {step.id: Measurement(step.id, chance.integers(0, 5000, step.cells or 0)) for step in plan.steps}


def test_only_the_tables_that_are_asked_for_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(spec_of(ordinary(), crosstabs(), areas()), {"geo": GEO.encode()})
    inputs = inputs_of(plan, drawn(plan, 1))
    every = {each.name: each for each in queries_as_tables(plan, inputs)}
    made = []

    def told(plan: ReleasePlan, workload: Workload, *more: Any) -> dict[str, PublishedTable]:
        made.append(workload.name)
        return workload_tables(plan, workload, *more)

    monkeypatch.setattr("dprelease.publish.measured.workload_tables", told)
    assert [each.name for each in queries_as_tables(plan, inputs, {"population"})] == ["population"]
    assert made == []
    wanted = ["crosstabs__race", "population", "crosstabs__sex"]
    found = queries_as_tables(plan, inputs, wanted)
    assert sorted(each.name for each in found) == sorted(wanted)
    assert made == ["crosstabs"]
    for each in found:
        assert each.measures[0].value.tolist() == every[each.name].measures[0].value.tolist()
        assert each.measures[0].margin.tolist() == every[each.name].measures[0].margin.tolist()
    assert queries_as_tables(plan, inputs, []) == ()


def test_tables_of_a_workload_are_compared_cell_by_cell() -> None:
    plan = plan_of(spec_of(ordinary(), crosstabs()), {"geo": GEO.encode()})
    one = Released(plan, drawn(plan, 2))
    assert compare_releases(one, one, Fraction(95, 100)).changes == ()
    two = Released(plan, drawn(plan, 3))
    found = compare_releases(one, two, Fraction(95, 100))
    changes, compared, left_out = naively(one, two, Fraction(95, 100))
    assert (len(found.changes), found.compared, found.left_out) == (len(changes), compared, left_out)
    assert list(found.changes) == changes
