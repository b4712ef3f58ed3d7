"""Plans of prefixes and ranges: the way that errs least is taken, goals are met, and every lie is caught."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from dprelease.catalog.factor import Factor, factor_sensitivity
from dprelease.errors import BrokenPromiseError, PlanError
from dprelease.estimate.ranges import Which, rows_of_a_line, variances_of
from dprelease.plan.design.ranges import optimal_gaussian, prefix_gram, range_gram, total_error, tree_information
from dprelease.plan.document import Feed, PlannedRanges, ReleasePlan, Step
from dprelease.plan.explain.facts import plan_facts
from dprelease.plan.lower.ranges import has_inverse, near_optimal
from dprelease.plan.verify.whole_plan import has_room, verify
from dprelease.privacy.unit import Neighboring
from tests.planned import plan_of

HEAD = """
dprelease: 1
release: {name: ages, period: 2024, title: Ages}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: text, keys: [f, m]}
      age: {type: integer, keys: {from: 0, to: 30}}
      day: {type: date, keys: {from: 2024-01-01, to: 2024-07-31}}
      income: {type: decimal, range: [0, 1000]}
queries:
"""
PREFIXES = """
  distribution:
    table: people
    by: [sex, age]
    ranges: {of: age, which: prefixes}
    measures: {persons: {count: rows}}
"""
ALL = PREFIXES.replace("prefixes", "all").replace("distribution", "between")
PLAIN = "\n  plain: {table: people, by: [sex, age], measures: {n: {count: rows}}}\n"
OF = {"prefixes": prefix_gram, "all": range_gram}


def held(keys: int, which: Which) -> Factor:
    rows = tuple(map(tuple, near_optimal(keys, which).tolist()))
    return Factor(shape=(keys,), axis=0, kind="matrix", grain=4096, rows=rows)


def root(keys: int) -> Factor:
    return Factor(shape=(keys,), axis=0, kind="root", grain=2**14)


def error(factor: Factor, which: Which) -> float:
    """The total squared error at mu = 1, one row a unit."""
    square = float(factor_sensitivity(factor, 1, Neighboring.ADD_REMOVE).l2_squared)
    return square * float(variances_of(factor, factor.length, which).sum())


@pytest.mark.parametrize("which", ["prefixes", "all"])
@pytest.mark.parametrize("keys", [2, 3, 5, 17, 48, pytest.param(128, marks=pytest.mark.nightly)])
def test_a_matrix_is_within_a_hundredth_of_the_best_gaussian_noise(keys: int, which: Which) -> None:
    """Its root mean squared error, against what is certified by duality."""
    best = optimal_gaussian(OF[which](keys), tolerance=2e-3).lower_bound
    assert best <= error(held(keys, which), which) <= best * 1.01**2


@pytest.mark.parametrize(("which", "most"), [("prefixes", 1.02), ("all", 1.08)])
@pytest.mark.parametrize("keys", [48, *(pytest.param(keys, marks=pytest.mark.nightly) for keys in (200, 512))])
def test_a_root_is_near_the_best_gaussian_noise(keys: int, which: Which, most: float) -> None:
    best = optimal_gaussian(OF[which](keys), tolerance=2e-3).lower_bound
    assert best <= error(root(keys), which) <= best * most**2


@pytest.mark.parametrize("which", ["prefixes", "all"])
def test_a_binary_tree_is_never_better(which: Which) -> None:
    for keys in (2, 3, 4, 7, 8, 16, 33, 128):
        assert error(held(keys, which), which) < total_error(OF[which](keys), tree_information(keys))


@pytest.mark.parametrize("keys", [1, 2, 3, 30, 128])
def test_near_optimal_matrices_have_an_inverse_for_certain(keys: int) -> None:
    for which in ("prefixes", "all"):
        matrix = near_optimal(keys, which)
        assert has_inverse(matrix)
        matrix[-1] = matrix[: max(1, keys - 1)].sum(axis=0) if keys > 1 else 0
        assert not has_inverse(matrix)


def test_an_inverse_is_told_as_the_determinant_tells_it() -> None:
    chance = np.random.default_rng(1)
    for _ in range(200):
        matrix = chance.integers(-2, 3, (4, 4))
        assert has_inverse(matrix) == (round(float(np.linalg.det(matrix))) != 0)


@cache
def plan(queries: str = PREFIXES + ALL + PLAIN, privacy: str = "", table: str = "", age: str = "") -> ReleasePlan:
    text = HEAD.replace("  budget:", f"{privacy}  budget:").replace("    columns:", f"{table}    columns:")
    return plan_of(text.replace("keys: {from: 0, to: 30}", age or "keys: {from: 0, to: 30}") + queries)


def step(made: ReleasePlan, query: str = "distribution") -> Step:
    (found,) = (each for each in made.steps if each.answers[0].query == query)
    return found


def test_every_query_with_ranges_has_a_draw_of_its_own() -> None:
    made = plan()
    assert [each.id for each in made.steps] == ["plain.rows", "distribution.prefixes", "between.all"]
    assert [each.factor is None for each in made.steps] == [True, False, False]
    assert verify(made) == made.loss[made.certified]
    assert [each.step for each in made.queries[0].inputs["persons"]] == ["distribution.prefixes"]
    assert made.queries[0].ranges == PlannedRanges(of="age", which="prefixes")
    names = [[column.name for column in made.keys(query)] for query in made.queries]
    assert names == [["sex", "age_to"], ["sex", "age_from", "age_to"], ["sex", "age"]]
    assert ReleasePlan.from_canonical(made.canonical()) == made
    facts = {each["id"]: each for each in plan_facts(made)["steps"]}
    assert facts["distribution.prefixes"]["factor"]["kind"] == "matrix"
    assert "factor" not in facts["plain.rows"]


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("keys", [1, 2, 3, 5, 31, 128, 129, 200])
def test_the_way_with_the_least_mean_variance_is_taken_and_the_others_are_told(keys: int) -> None:
    made = plan(PREFIXES, age=f"keys: {{from: 1, to: {keys}}}")
    factor = step(made).factor
    if keys == 1:
        assert factor is None
        return
    assert factor is not None
    assert factor.kind == ("matrix" if keys <= 128 else "mirrored_prefixes")
    told = {each.name.removeprefix("distribution: "): float(each.noise) for each in made.considered}
    expected = {"counts of the keys", "binary tree"} | ({"square root of the prefix sums"} if keys <= 128 else set())
    assert set(told) >= expected
    assert all(noise >= 1 for name, noise in told.items() if name in expected)
    ours = float(step(made).sensitivity.l2_squared) * float(variances_of(factor, keys, "prefixes").mean())
    assert told["counts of the keys"] == pytest.approx(((keys + 1) / 2 / ours) ** 0.5, rel=1e-3)


def test_a_unit_that_has_few_rows_in_any_cell_is_better_off_with_the_counts_of_the_keys() -> None:
    """Fifty rows in fifty cells move independent noise by the root of 50, and a factor by up to 50 of its columns."""
    bounded = PREFIXES.replace("measures", "bounds: {max_groups: 50, max_rows_per_group: 1}\n    measures")
    made = plan(bounded, table="    unit_id: who\n")
    assert step(made).factor is None
    assert verify(made) == made.loss[made.certified]
    (other,) = (each for each in made.considered if each.name == "distribution: near-optimal matrix")
    assert float(other.noise) > 1.5
    one = plan(PREFIXES, table="    unit_id: who\n    bounds: {max_rows: 1}\n")
    assert step(one).factor is not None


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_what_is_told_is_what_the_noise_allows_the_worst_sum(relation: str) -> None:
    made = plan(privacy=f"  neighboring: {relation}\n")
    for output in made.outputs[:2]:
        drawn, which = step(made, output.query), "prefixes" if output.query == "distribution" else "all"
        variance = variances_of(drawn.factor, 31, which).max() * drawn.law.variance
        assert float(output.standard_error or 0) == pytest.approx(variance**0.5, rel=1e-5)
        assert float(output.standard_error or 0) >= variance**0.5
        assert float(output.margin or 0) == pytest.approx(1.959964 * variance**0.5, rel=1e-5)
    assert verify(made) == made.loss[made.certified]


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("queries", [PREFIXES, ALL])
def test_a_target_is_met_and_not_by_much_more(queries: str) -> None:
    for more in (
        "target: {persons: {margin: 100}}",
        "expect: {persons: 2000}\n    target: {persons: {relative: 0.05}}",
    ):
        made = plan(queries.rstrip() + f"\n    {more}\n" + PLAIN)
        margin = float(made.outputs[0].margin or 0)
        assert 100 * (1 - 1e-5) <= margin <= 100
        assert verify(made) == made.loss[made.certified]


def test_a_price_of_its_own_is_kept() -> None:
    made = plan(PREFIXES.rstrip() + "\n    budget: {epsilon: 1/4}\n" + PLAIN)
    alone = plan(PREFIXES, privacy="  at_most: {epsilon: 3, delta: 1e-8}\n")
    assert verify(made) == made.loss[made.certified]
    assert step(made).scale > 3 * step(alone).scale


def test_days_have_a_mirrored_line_and_a_budget_may_be_a_rho() -> None:
    text = PREFIXES.replace("age", "day")
    made = plan_of((HEAD + text).replace("{epsilon: 1, delta: 1e-9}", "{rho: 1/100, delta: 1e-9}"))
    factor = step(made).factor
    assert factor is not None
    assert (factor.kind, factor.shape, factor.axis) == ("mirrored_prefixes", (2, 213), 1)
    assert verify(made) == made.loss[made.certified]


def test_only_gaussian_noise_is_tried_where_all_share_a_budget() -> None:
    assert {each.mechanism for each in plan().steps} == {"discrete_gaussian"}
    with pytest.raises(PlanError, match="pinned queries and targets alone"):
        plan(PREFIXES.rstrip() + "\n    target: {persons: {margin: 1}}\n")


def _query(**update: Any) -> Callable[[ReleasePlan], ReleasePlan]:
    def lie(made: ReleasePlan) -> ReleasePlan:
        first, *others = made.queries
        return made.model_copy(update={"queries": (first.model_copy(update=update), *others)})

    return lie


def _step(**update: Any) -> Callable[[ReleasePlan], ReleasePlan]:
    def lie(made: ReleasePlan) -> ReleasePlan:
        steps = (e.model_copy(update=update) if e.id == "distribution.prefixes" else e for e in made.steps)
        return made.model_copy(update={"steps": tuple(steps)})

    return lie


def _output(**update: Any) -> Callable[[ReleasePlan], ReleasePlan]:
    def lie(made: ReleasePlan) -> ReleasePlan:
        first, *others = made.outputs
        return made.model_copy(update={"outputs": (first.model_copy(update=update), *others)})

    return lie


def _matrix(made: ReleasePlan) -> ReleasePlan:
    factor = step(made).factor
    assert factor is not None
    assert factor.rows is not None
    (first, *line), *others = factor.rows
    return _step(factor=factor.model_copy(update={"rows": ((first // 2, *line), *others)}))(made)


def _along(made: ReleasePlan) -> ReleasePlan:
    """A sound draw, of the other column."""
    factor = Factor(shape=(2, 31), axis=0, kind="root", grain=2**14)
    reach = factor_sensitivity(factor, 1, Neighboring.ADD_REMOVE)
    return _step(factor=factor, sensitivity=reach)(made)


def _fed(made: ReleasePlan) -> ReleasePlan:
    """A plain table that is fed by sums."""
    *others, last = made.queries
    wrong = last.model_copy(update={"inputs": {"n": (Feed(step="distribution.prefixes"),)}})
    return made.model_copy(update={"queries": (*others, wrong)})


LIES: dict[str, Callable[[ReleasePlan], ReleasePlan]] = {
    "another matrix": _matrix,
    "no factor": _step(factor=None),
    "along another column": _along,
    "less noise": _step(scale=Fraction(1000)),
    "sums of another column": _query(ranges=PlannedRanges(of="sex", which="prefixes")),
    "sums of no column": _query(ranges=PlannedRanges(of="day", which="prefixes")),
    "other sums": _query(ranges=PlannedRanges(of="age", which="all")),
    "no sums": _query(ranges=None),
    "a limit": _query(suppress_below=("persons", Fraction(3))),
    "a small error": _output(standard_error="1"),
    "a small margin": _output(margin="1"),
    "a plain table of sums": _fed,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_plan_that_lies_is_refused(lie: Callable[[ReleasePlan], ReleasePlan]) -> None:
    verify(plan())
    with pytest.raises(BrokenPromiseError, match="does not verify"):
        verify(lie(plan()))


def test_a_matrix_that_grows_too_much_has_no_room() -> None:
    found = step(plan())
    wide = Factor(shape=(2,), axis=0, kind="matrix", grain=4096, rows=((2**20, 0), (0, 2**20)))
    assert has_room(found)
    assert has_room(found.model_copy(update={"factor": wide}))
    assert not has_room(found.model_copy(update={"scale": Fraction(2**60)}))
    many = wide.model_copy(update={"shape": (1024,), "rows": ((2**20,) * 1024,) * 1024})
    assert not has_room(found.model_copy(update={"factor": many}))


def test_how_many_sums_a_line_has() -> None:
    assert [rows_of_a_line(5, which) for which in ("prefixes", "all")] == [5, 15]
