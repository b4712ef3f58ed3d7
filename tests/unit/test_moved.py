"""What moves between two plans: everything that does is told, by how much, and nothing else."""

from __future__ import annotations

import json
import re
from datetime import date
from fractions import Fraction
from functools import cache

import pytest

from dprelease.catalog.table import TimeFilter
from dprelease.cli.commands.diff import moved_facts, print_moved
from dprelease.plan.document import Derived, Invariant, ReleasePlan
from dprelease.plan.explain.changes import Block, Comes, Moved, moved
from dprelease.publish import render
from dprelease.publish.bundle.package import planned_files
from tests.planned import SPEC, plan_of
from tests.unit import publish_example as example
from tests.workloads import GEO, areas, crosstabs, ordinary, spec_of

TEXT = SPEC.replace("  budget:", "  accounting: zcdp\n  budget:")  # planned in a fifth of the time
POPULATION = "  population: {table: people, by: [region, sex], measures: {persons: {count: rows}}}\n"


@cache
def census(*queries: str, budget: str = "{epsilon: 2, delta: 1e-9}") -> ReleasePlan:
    text = spec_of(*queries, budget=budget)
    text = text.replace("  budget:", "  accounting: zcdp\n  budget:", 1)
    marginals = any("marginals" in query for query in queries)
    return plan_of(text if marginals else text.replace("postprocess: [consistent]\n", ""), {"geo": GEO.encode()})


@cache
def survey(*pairs: tuple[str, str]) -> ReleasePlan:
    text = TEXT
    for old, new in pairs:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return plan_of(text)


def block(found: Moved, name: str) -> Block:
    return next(each for each in found.blocks if each.name == name)


def whats(found: Moved) -> list[str]:
    """What differs, but for figures that follow from the rest."""
    return [each.what for each in found.differences if not each.what.startswith(("loss by ", "unspent", "certified"))]


def margin(plan: ReleasePlan, query: str, measure: str) -> Fraction:
    (found,) = (each.margin for each in plan.outputs if (each.query, each.measure) == (query, measure))
    assert found is not None
    return Fraction(found)


def test_nothing_moves_between_a_plan_and_itself() -> None:
    for plan in (survey(), census(ordinary(), crosstabs(), areas()), example.plan()):
        again = ReleasePlan.from_canonical(plan.canonical())
        found = moved(plan, again)
        assert found.differences == ()
        assert found.comes == ()
        assert [each.name for each in found.blocks] == list(found.unmoved)
        assert {each.times for each in found.blocks} <= {None, (Fraction(1), Fraction(1))}


QUERIES = (ordinary(), areas("share: 2"), areas("budget: {rho: 1/100}"), areas("target: {count: {margin: 60}}"))


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("query", QUERIES, ids=["shared", "workload", "pinned", "target"])
def test_a_workload_that_comes_moves_others_by_the_factor_between_their_margins(query: str) -> None:
    before, after = census(query), census(query, crosstabs("share: 3"))
    found = moved(before, after)
    (comes,) = found.comes
    assert comes == Comes("crosstabs", after.workload("crosstabs").tables, workload=True, added=True)
    assert whats(found) == ["workload crosstabs"]
    (other,) = found.blocks
    assert len(other.numbers) == len(before.outputs)
    for number in other.numbers:
        ends = [margin(plan, number.query, number.measure) for plan in (before, after)]
        assert number.times == ends[1] / ends[0]
        assert number.moved is (ends[0] != ends[1])
    shares = [sum(step.share for step in plan.steps if step.answers[0].query == other.name) for plan in (before, after)]
    assert other.shares == tuple(shares)


def test_what_is_pinned_has_the_same_noise_for_another_share() -> None:
    query = areas("budget: {rho: 1/100}")
    found = block(moved(census(query, ordinary()), census(query, ordinary(), crosstabs())), "areas")
    assert found.other_noise == ()
    assert not found.moved
    there = block(moved(census(query, ordinary()), census(query, ordinary(), crosstabs())), "population")
    assert there.moved
    assert there.times is not None
    assert there.times[0] > 1


def test_what_goes_is_what_comes_the_other_way_round() -> None:
    one, two = census(ordinary(), areas(), crosstabs()), census(areas())
    there, back = moved(one, two), moved(two, one)
    assert [(each.name, each.added) for each in there.comes] == [("population", False), ("crosstabs", False)]
    assert {(each.name, each.added) for each in back.comes} == {("population", True), ("crosstabs", True)}
    ahead, behind = block(there, "areas"), block(back, "areas")
    for number, other in zip(ahead.numbers, behind.numbers, strict=True):
        assert number.times is not None
        assert other.times == 1 / number.times


def test_tables_that_come_to_a_workload_are_counted_and_the_others_compared() -> None:
    found = moved(census(crosstabs(ways="[0, 1]")), census(crosstabs(ways="[0, 1, 2]")))
    told = {each.what: (each.before, each.after) for each in found.differences}
    assert told["tables of crosstabs"] == ("4 tables", "7 tables, 3 of them new")
    assert told["draws of crosstabs"] == ("residuals, 4 draws", "residuals, 7 draws")
    assert len(block(found, "crosstabs").tables) == 4
    assert found.comes == ()


def test_a_query_that_becomes_a_workload_changes_its_form() -> None:
    one = census(ordinary(), areas())
    found = moved(one, census(crosstabs(name="population"), areas()))
    assert ("form of population", "a table", "7 tables") in [(d.what, d.before, d.after) for d in found.differences]


def test_a_draw_that_is_only_called_otherwise_did_not_move() -> None:
    """Draws are named after the first query that they serve."""
    twin = "  twin: {table: people, by: [region, sex], measures: {all: {count: rows}}}\n"
    both = survey((POPULATION, POPULATION + twin))
    plan = survey()
    steps = tuple(step.model_copy(update={"id": step.id.replace("population", "other")}) for step in plan.steps)
    text = plan.canonical().replace('"population.rows"', '"other.rows"')
    assert plan.steps != steps
    assert moved(plan, ReleasePlan.from_canonical(text)).unmoved == ("population", "income")
    assert moved(both, plan).comes == (Comes("twin", ("twin",), workload=False, added=False),)


def test_another_mechanism_and_scale_are_told_with_every_draw() -> None:
    plans = (plan_of(SPEC), plan_of(SPEC.replace(POPULATION, "")))  # what is left alone finds a better one
    found = block(moved(*plans), "income")
    persons = found.numbers[0]
    assert (persons.measure, persons.draws[0].quantity) == ("persons", ("rows", "rows"))
    assert persons.draws[0].mechanism == ("count_knorm", "discrete_gaussian")
    before, after = (Fraction(scale) for scale in persons.draws[0].scale)
    steps = [next(step for step in plan.steps if step.aggregate.quantity.kind == "rows" and step.id.startswith("inc"))
             for plan in plans]  # fmt: skip
    assert [before, after] == [step.scale for step in steps]
    assert len(found.numbers[2].draws) == 2
    assert not [each for each in found.asked if each.what.startswith(("sensitivity", "gauge"))]


def test_a_workload_is_one_line_and_its_tables_are_there_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    found = moved(census(areas("share: 2")), census(areas("share: 2"), crosstabs("share: 3")))
    print_moved(found)
    said = capsys.readouterr().out.splitlines()
    (line,) = (each for each in said if each.startswith("areas"))
    assert re.search(r" 9 of 9 tables +100.0%  40.0% +± [\d.]+ to [\d.]+  ± [\d.]+ to [\d.]+  1\.58", line)
    facts = moved_facts(found)
    assert json.loads(json.dumps(facts)) == facts
    ((workload,), (comes,)) = facts["queries"], facts["added"]
    assert (workload["name"], workload["tables"], len(workload["numbers"])) == ("areas", 9, 9)
    assert workload["numbers"][0]["margin"]["times"] == workload["numbers"][0]["times"]
    assert (comes["name"], len(comes["tables"])) == ("crosstabs", 7)


def test_the_same_noise_for_another_share_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    query = areas("budget: {rho: 1/100}")
    print_moved(moved(census(query, ordinary()), census(query, ordinary(), crosstabs())))
    said = capsys.readouterr().out
    assert "the same noise for another share of the budget: areas" in said
    assert "1 query: nothing moved (areas)" in said


CHANGED = {
    ("epsilon: 1,", "epsilon: 2,"): ["budget"],
    ("title: A survey", "title: Another"): ["title"],
    ("name: survey", "name: other"): ["release"],
    ("by: [region, sex]", "by: [sex]"): ["keys of population"],
    ("keys: [1, 2]", "keys: [1, 2, 3]"): ["definition of table people", "keys of sex in population"],
    ("    share: 2\n", "    share: 3\n"): ["goal of income"],
    ("    share: 2\n", "    budget: {epsilon: 1/2}\n"): ["goal of income"],
    ("persons: 12000", "persons: 13000"): ["expect of income"],
    ("{mean: income, clip: [0, 200000]}", "{mean: income, clip: [0, 100000]}"): ["measure average of income"],
    ("      persons: {count: rows}\n", ""): ["measures of income"],
    ("queries:\n", "publish: {confidence: 0.9, formats: [csv]}\nqueries:\n"): ["confidence", "formats"],
    ("accounting: zcdp", "accounting: basic"): ["accounting"],
    ("    share: 2\n", "    share: 2\n    where: sex = 1\n"): ["rows of income"],
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGED, ids=lambda change: change[1].strip()[:40])
def test_what_is_asked_otherwise_is_told_by_name(change: tuple[str, str]) -> None:
    old, new = change
    text = TEXT.replace("expect: {persons: 12000}", "") if old == "      persons: {count: rows}\n" else TEXT
    assert old in text
    before, after = plan_of(text), plan_of(text.replace(old, new, 1))
    found = whats(moved(before, after))
    drawn = ("sensitivity of", "gauge of", "draws of", "high of income sum", "centre of income sum")
    assert [each for each in found if not each.startswith(drawn)] == CHANGED[change]


def test_a_smaller_clip_says_what_a_draw_hides_now() -> None:
    new = "{mean: income, clip: [0, 100000]}"
    found = moved(survey(), survey(("{mean: income, clip: [0, 200000]}", new)))
    assert "draws of income.average" in whats(found) or "high of income sum of income.average" in whats(found)


FOLLOW = frozenset(("format", "spec_fingerprint", "considered", "naive"))


@pytest.mark.parametrize("name", sorted(ReleasePlan.model_fields.keys() - FOLLOW))
def test_every_field_of_a_plan_that_differs_is_told(name: str) -> None:
    """Also one that came after the comparison was written, but for figures that follow from the rest."""
    plan = example.plan()
    invariant = Invariant(
        id="x", query="population", measure="persons", aggregate=plan.steps[0].aggregate, cells=8, why="the law"
    )
    values = {
        "release": plan.release.model_copy(update={"contact": "x"}),
        "budget": plan.budget.model_copy(update={"epsilon": Fraction(3)}),
        "accounts": (),
        "catalog": plan.catalog.model_copy(update={"references": {}}),
        "queries": plan.queries[1:],
        "steps": (plan.steps[0].model_copy(update={"scale": Fraction(21)}), *plan.steps[1:]),
        "loss": {},
        "outputs": plan.outputs[1:],
        "derive": (Derived(name="x", title="x", sql="x"),),
        "publish": plan.publish.model_copy(update={"unreliable_show": "blank"}),
        "workloads": plan.workloads,  # what is empty here differs above
        "invariants": (invariant,),
    }
    other = plan.model_copy(update={name: values.get(name, "another")})
    found = moved(plan, other)
    told = bool(found.differences) or any(block.moved for block in found.blocks)
    assert told is (name != "workloads")


def test_the_days_of_a_period_and_the_place_of_the_rows_are_no_other_definition() -> None:
    plan = example.plan()
    table = plan.catalog.tables["persons"]

    def of(first: date, last: date, **changes: object) -> ReleasePlan:
        time = TimeFilter(column="day", type="date", start=first, end=last)
        changed = table.model_copy(update={"time": time, **changes})
        return plan.model_copy(update={"catalog": plan.catalog.model_copy(update={"tables": {"persons": changed}})})

    march, april = of(date(2024, 3, 1), date(2024, 4, 1)), of(date(2024, 4, 1), date(2024, 5, 1))
    assert moved(march, april).differences == ()
    assert whats(moved(plan, april)) == ["definition of table persons"]
    (told,) = moved(march, of(date(2024, 4, 1), date(2024, 5, 1), unit_id="who")).differences
    assert (told.before, told.after) == ("unit id: none", "unit id: who")


def test_a_definition_says_which_column_is_another_one() -> None:
    wider = survey(("range: [-10000, 500000]", "range: [-10000, 400000]"), ("keys: [1, 2]", "keys: [2, 1]"))
    (told,) = (each for each in moved(survey(), wider).differences if each.what == "definition of table people")
    assert told.before == "keys of sex: 2 keys; range of income: low -10000, high 500000"
    assert told.after == "keys of sex: 2 keys, in another order; range of income: low -10000, high 400000"


EVERY = ("csv", "parquet", "xlsx", "json", "sdmx")


@pytest.mark.parametrize("formats", [EVERY, ("csv", "html"), ("parquet",), ("xlsx",)])
def test_the_planned_files_are_those_of_the_bundle_but_for_its_pages(formats: tuple[str, ...]) -> None:
    plan = example.plan()
    plan = plan.model_copy(update={"publish": plan.publish.model_copy(update={"formats": formats})})
    made = render(plan, example.measurements(), example.facts(plan)).files
    assert list(planned_files(plan)) == sorted(path for path in made if not path.startswith("pages/"))
