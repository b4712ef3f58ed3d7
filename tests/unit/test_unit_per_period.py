"""A unit within a period: its id must not tie rows of two periods together, or its limits would bound something else."""

from __future__ import annotations

import pytest

from dprelease.errors import BrokenPromiseError, SpecError
from dprelease.plan.verify.whole_plan import verify
from dprelease.spec.load import load
from tests.unit.test_parallel import SPEC, changed, plan, problems

POLICY = "accounts:\n  web: {unit: person-month, composition: zcdp, lifetime: {epsilon: 4, delta: 1e-8}}\n"
TIME = ("    time: {column: seen, type: date}\n", "")
NAMED = ("entity: person, per: month", "entity: person-month")
BY_ROW = [("    unit_id: who\n", ""), ("    bounds: {max_rows: 3}\n", "")]


def kept(rows: list[tuple[str, int]], most: int) -> list[tuple[str, int]]:
    """The first rows of one id, as a limit keeps them."""
    return sorted(rows, key=lambda row: row[1])[:most]


def test_a_limit_over_two_months_lets_a_person_month_move_twice_as_much() -> None:
    """Why it is refused: with the limit on the id, one person-month is worth up to two limits of rows."""
    february = [("2024-02", day) for day in range(3)]
    january = [("2024-01", day - 10) for day in range(3)]
    without, whole = kept(february, 3), kept(january + february, 3)
    assert len(set(without) ^ set(whole)) == 6  # and not 3


@pytest.mark.parametrize("period", ["2024-03", "2024-03-09", "2024-W11"])
def test_a_period_inside_the_stretch_of_the_unit_is_planned(period: str) -> None:
    made = plan(changed(SPEC, ("2024-03", period)), POLICY)
    assert str(made.unit) == "person-month"
    verify(made)


@pytest.mark.parametrize(
    ("period", "says"), [("2024-Q1", "of 2024-Q1"), ("2024", "of 2024"), ("2024-W09", "of 2024-W09")]
)
def test_a_longer_period_is_refused_and_what_is_hinted_passes(period: str, says: str) -> None:
    ((code, line, text),) = problems(lambda: load(changed(SPEC, ("2024-03", period)), "s"))
    assert (code, line) == ("DPR-S596", 10)
    assert says in text
    assert "`unit: {entity: person-month}`" in text
    load(changed(SPEC, ("2024-03", period), NAMED), "s")


def test_a_table_without_a_time_is_refused_with_ids_and_taken_without() -> None:
    ((code, line, text),) = problems(lambda: load(changed(SPEC, TIME), "s"))
    assert (code, line) == ("DPR-S596", 10)
    assert "`time: {column: COLUMN, type: date}`" in text
    load(changed(SPEC, TIME, *BY_ROW), "s")


@pytest.mark.parametrize("per", ["visit", "trip"])
def test_units_within_what_is_no_time_are_the_authors_word(per: str) -> None:
    load(changed(SPEC, ("per: month", f"per: {per}"), ("2024-03", "2024")), "s")


@pytest.mark.parametrize("period", ["2024-Q1", "2024-W09"])
def test_the_plan_itself_is_refused_whoever_made_it(period: str) -> None:
    longer = plan(changed(SPEC, ("2024-03", period), NAMED), POLICY)
    forged = longer.model_copy(update={"unit": plan(SPEC, POLICY).unit})
    with pytest.raises(BrokenPromiseError, match="for one person-month, beyond one month"):
        verify(forged)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        load(changed(SPEC, ("2024-03", "2024-Q1"), ("max_rows: 3", "max_rows: 0")), "s")
    assert len({each.code for each in caught.value.problems}) == 2
