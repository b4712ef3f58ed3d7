"""Which steps share a pass: what differs in its ``where`` alone, where that changes no number, and never too much."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.catalog.aggregate import Quantity, TotalsCube
from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import Batch, ReleasePlan
from dprelease.plan.explain.facts import passes_texts
from tests.planned import plan_of
from tests.unit.test_draw import Zeros, drawn_of, reserved

HEAD = """
dprelease: 1
release: {name: survey, period: 2024}
privacy: {unit: {entity: person}, budget: {epsilon: 5, delta: 1e-6}, noise: laplace}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: integer, keys: [1, 2]}
      age: {type: integer, range: [0, 120]}
      pay: {type: integer, range: [0, 1000]}
  visits:
    account: people
    unit_id: person
    source: {file: visits.csv}
    bounds: {max_rows: 4}
    columns:
      page: {type: text, keys: [a, b]}
      seconds: {type: integer, range: [0, 60]}
queries:
"""
COUNT = "measures: {n: {count: rows}}"


def planned(*queries: str) -> ReleasePlan:
    return plan_of(HEAD + "".join(f"  q{at}: {{{each}}}\n" for at, each in enumerate(queries)))


def passes(*queries: str) -> list[Batch]:
    return list(planned(*queries).batches())


def test_counts_that_differ_in_their_where_share_passes_of_fifty() -> None:
    queries = [f"table: people, where: age > {at}, {COUNT}" for at in range(100)]
    queries += [f"table: people, by: [sex], where: age > {at}, measures: {{n: {{sum: pay}}}}" for at in range(20)]
    found = passes(*queries)
    assert [(batch.by, len(batch.steps)) for batch in found] == [((), 50), ((), 50), (("sex",), 20)]
    assert {batch.grouping.where for batch in found} == {None}
    for batch in found:
        for step in batch.steps:
            (asked,) = batch.asked(step)
            assert asked == step.aggregate.quantity.model_copy(update={"where": step.aggregate.where})


def test_a_measure_with_a_where_of_its_own_counts_what_both_keep() -> None:
    one, other = "where: age > 7 OR pay = 1", "where: sex = 1 OR sex IS NULL"
    (batch,) = passes(
        f"table: people, {one}, measures: {{n: {{count: rows, {other}}}}}", f"table: people, where: age > 8, {COUNT}"
    )
    assert [batch.asked(step)[0].where for step in batch.steps] == [
        "(age > 7 OR pay = 1) AND (sex = 1 OR sex IS NULL)",
        "age > 8",
    ]


def test_a_pass_of_one_where_looks_at_its_rows_alone() -> None:
    where, pay = "where: age > 7", "measures: {total: {sum: pay}}"
    (batch,) = passes(f"table: people, {where}, {COUNT}", f"table: people, {where}, {pay}")
    assert (batch.grouping.where, batch.moved) == ("age > 7", {})


@pytest.mark.parametrize(
    "query",
    [
        "by: [page], bounds: {max_groups: 1}",
        "by: [page], bounds: {max_rows_per_group: 1, max_groups: 2}",
        "by: [page], keys: private, bounds: {max_groups: 1}",
    ],
)
def test_what_bounds_act_on_keeps_its_where(query: str) -> None:
    """Which rows of a unit are kept depends on the rows that are looked at: one pass of all rows would keep others."""
    measures = "measures: {n: {count: units}}" if "private" in query else COUNT
    found = passes(*(f"table: visits, {query}, where: seconds > {at}, {measures}" for at in range(3)))
    assert [(batch.grouping.where, batch.moved) for batch in found] == [(f"seconds > {at}", {}) for at in range(3)]


def test_a_balance_keeps_the_rows_that_are_looked_at() -> None:
    """It weighs rows that count against rows that do not: of which rows, its grouping says."""
    plan = planned(*(f"table: people, where: age > {at}, {COUNT}" for at in range(2)))
    balance = Quantity(kind="balance", column="pay")
    steps = [
        step.model_copy(update={"aggregate": step.aggregate.model_copy(update={"quantity": balance})})
        for step in plan.steps
    ]
    found = plan.model_copy(update={"steps": tuple(steps)}).batches()
    assert [(batch.grouping.where, batch.asked(batch.steps[0])) for batch in found] == [
        ("age > 0", (balance,)),
        ("age > 1", (balance,)),
    ]


def test_a_where_that_is_too_long_with_another_one_keeps_its_pass() -> None:
    long = " OR ".join(f"age = {at}" for at in range(150))
    found = passes(
        f"table: people, where: {long}, measures: {{n: {{count: rows, where: {long.replace('age', 'pay')}}}}}",
        f"table: people, where: age > 8, {COUNT}",
    )
    assert sorted(str(batch.grouping.where)[:7] for batch in found) == ["age = 0", "age > 8"]


def test_a_pass_holds_no_more_numbers_than_fit() -> None:
    """Of 900,000 cells two tables make a pass, and a third one the next."""
    text = HEAD.replace("keys: [1, 2]", "keys: {from: 1, to: 900000}")
    each = "{table: people, by: [sex], where: age > %d, measures: {n: {count: rows}}}"
    plan = plan_of(text + "".join(f"  q{at}: {each % at}\n" for at in range(3)))
    assert [len(batch.steps) for batch in plan.batches()] == [2, 1]


def test_groupings_that_nest_are_added_up_from_one_cube() -> None:
    """Three tables and the total; not what is bounded, has a ``where`` of its own, or is no sum over rows."""
    text = HEAD.replace("sex: {type", "town: {type: integer, keys: {from: 1, to: 50}}\n      sex: {type")
    count, middle = "measures: {n: {count: rows}}", "measures: {m: {quantiles: pay, at: [0.5]}}"
    queries = [f"table: people, by: [{by}], {count}" for by in ("town, sex", "sex", "town", "")]
    queries += [f"table: people, by: [sex], {middle}", f"table: visits, by: [page], {COUNT}"]
    plan = plan_of(text + "".join(f"  q{at}: {{{each}}}\n" for at, each in enumerate(queries)))
    cubes = {batch.by: batch.cube for batch in plan.batches()}
    (cube,) = {cube for cube in cubes.values() if cube is not None}
    assert (cube.by, [each.kind for each in cube.quantities]) == (("sex", "town"), ["rows"])
    assert {by for by in cubes if cubes[by]} == {("town", "sex"), ("sex",), ("town",), ()}
    assert passes_texts(plan) == (
        "table people: 5 draws in 4 passes",
        "table people: 4 groupings are added up from one count by sex, town",
    )


def test_a_cube_is_small_and_of_no_keys_that_only_one_grouping_has() -> None:
    """Of 3,000 counties by 50 towns there would be more combinations than many a table has rows."""
    text = HEAD.replace(
        "sex: {type",
        "town: {type: integer, keys: {from: 1, to: 50}}\n      county: {type: integer, keys: {from: 1, to: 3000}}\n"
        "      sex: {type",
    )
    tables = ("county", "town, sex", "sex", "town")
    queries = [f"table: people, by: [{by}], measures: {{n: {{count: rows}}}}" for by in tables]
    plan = plan_of(text + "".join(f"  q{at}: {{{each}}}\n" for at, each in enumerate(queries)))
    cubes = {batch.by: batch.cube and batch.cube.by for batch in plan.batches()}
    assert cubes == {
        ("county",): None,
        ("town", "sex"): ("sex", "town"),
        ("sex",): ("sex", "town"),
        ("town",): ("sex", "town"),
    }


def test_a_cube_holds_what_two_groupings_ask_for_where_three_ask_for_another_total() -> None:
    """The sum of two of them, and not that of the third one; without the counts there is no cube for two."""
    text = HEAD.replace("sex: {type", "town: {type: integer, keys: {from: 1, to: 50}}\n      sex: {type")
    total, other = "sum: pay, clip: [0, 100]", "sum: pay, clip: [0, 50]"
    counts = [f"table: people, by: [{by}], measures: {{n: {{count: rows}}}}" for by in ("town, sex", "sex", "town")]
    sums = [
        f"table: people, by: [{by}], measures: {{t: {{{each}}}}}"
        for by, each in (("sex", total), ("town", total), ("town, sex", other))
    ]

    def cube_of(queries: list[str]) -> TotalsCube | None:
        plan = plan_of(text + "".join(f"  q{at}: {{{each}}}\n" for at, each in enumerate(queries)))
        (cube,) = {batch.cube for batch in plan.batches()}
        return cube

    cube = cube_of([*counts, *sums])
    assert cube is not None
    assert [(each.kind, each.high) for each in cube.quantities] == [("rows", 1), ("sum", 100)]
    assert cube_of(sums) is None


class Failing(Zeros):
    """An engine whose last number has another shape than planned."""

    def aggregate(self, *args: object, **named: object) -> tuple[object, ...]:  # type: ignore[override]
        boxes = super().aggregate(*args, **named)  # type: ignore[arg-type]
        return (*boxes[:-1], type(boxes[-1])(boxes[-1]._Exact__values.repeat(2)))  # type: ignore[union-attr, call-arg]


def test_the_answers_of_a_batch_are_committed_together_or_not_at_all(tmp_path: Path) -> None:
    plan = planned(*(f"table: people, where: age > {at}, {COUNT}" for at in range(5)))
    ledger, identity = reserved(plan, tmp_path), (plan.release.name, plan.release.period, plan.fingerprint())
    (batch,) = plan.batches()
    with pytest.raises(BrokenPromiseError, match="another number of cells"):
        drawn_of(batch, plan, ledger, Failing())
    assert ledger.measured(*identity) == frozenset()
    before = [entry.sequence for entry in ledger.entries()][-1]
    answers = drawn_of(batch, plan, ledger, Zeros())
    assert [answer.step for answer in answers] == [step.id for step in plan.steps]
    assert [entry.sequence for entry in ledger.entries()][-1] == before + 5, "an entry for every step"
    again = drawn_of(batch, plan, ledger, Failing())
    assert [each.to_bytes() for each in again] == [each.to_bytes() for each in answers]
    assert ledger.check() == ()
