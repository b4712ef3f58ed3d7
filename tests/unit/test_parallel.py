"""Accounts that are parallel by month: who may be charged to them, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.table import TimeFilter
from dprelease.errors import BrokenPromiseError, PlanError, SpecError
from dprelease.ledger import schemes
from dprelease.plan.document import Parallel, ReleasePlan
from dprelease.plan.forecast.horizon import Purse, coming
from dprelease.plan.forecast.largest_budget import largest_budget
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.unit import Neighboring
from dprelease.publish.accounting.registry import registry_yaml
from dprelease.publish.accounting.report import accounting_json, accounting_page
from dprelease.publish.accounting.threat_model import apart, apart_facts
from dprelease.publish.certificate.pdf import certificate_texts
from dprelease.release.planning import Target, plan_release
from dprelease.release.project import Project
from dprelease.spec.load import load
from dprelease.spec.project import load_policy, load_project
from tests.ledgers import SQLiteLedger, charges
from tests.ledgers import plan as bare_plan
from tests.unit.formats_example import plain

POLICY = """\
accounts:
  web: {unit: person-month, composition: zcdp, parallel: month, time: {column: seen, type: date},
    nests: {row: 20},
    lifetime: {epsilon: 4, delta: 1e-8}}
"""
SPEC = """\
dprelease: 1
release: {name: monitor, period: 2024-03}
privacy:
  unit: {entity: person, per: month}
  budget: {epsilon: 1/2, delta: 1e-9}
tables:
  visits:
    account: web
    source: {file: data/visits.csv}
    unit_id: who
    time: {column: seen, type: date}
    bounds: {max_rows: 3}
    columns:
      sex: {type: integer, keys: [1, 2]}
queries:
  visits: {table: visits, by: [sex], measures: {n: {count: rows}}}
"""
BY_ROW = [
    ("entity: person, per: month", "entity: row"),
    ("    unit_id: who\n", ""),
    ("    bounds: {max_rows: 3}\n", ""),
]


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def plan(spec: str = SPEC, policy: str = POLICY) -> ReleasePlan:
    settings = load_project("ledger: sqlite:///state/ledger.db\n", "dprelease.yaml", schemes())
    project = Project(Path("/somewhere"), settings, load_policy(policy, "policy.yaml"))
    return plan_release(Target(project, Path("spec.yaml"), load(spec, "spec.yaml")))


def problems(make: Callable[[], object]) -> list[tuple[str, int, str]]:
    with pytest.raises(SpecError) as caught:
        make()
    return [
        (each.code, each.where.line if each.where else 0, f"{each.summary} {each.hint}")
        for each in caught.value.problems
    ]


# --- who may be charged ---


def test_a_unit_of_one_month_is_planned_and_its_account_knows_what_it_is_parallel_by() -> None:
    made = plan()
    assert made.accounts[0].parallel == Parallel(per="month", column="seen", type="date")
    assert ReleasePlan.from_canonical(made.canonical()) == made
    verify(made)


@pytest.mark.parametrize("period", ["2024-03", "2024-03-09", "2024-W10", "2024-Q1", "2024"])
def test_rows_that_are_units_may_be_released_by_any_period(period: str) -> None:
    assert plan(changed(SPEC, *BY_ROW, ("2024-03", period))).release.period == period
    every = [("    unit_id: who\n", ""), ("    bounds: {max_rows: 3}\n", "")]
    assert plan(changed(SPEC, *every, ("2024-03", period))).release.period == period  # every row is one person-month


@pytest.mark.parametrize("period", ["2024-03-09", "2024-W11"])
def test_a_period_inside_one_month_may_have_units_with_ids(period: str) -> None:
    assert plan(changed(SPEC, ("2024-03", period))).release.period == period


NAMED = ("entity: person, per: month", "entity: person-month")  # the ids are said to name one person in one month
UNTIED: dict[str, tuple[list[tuple[str, str]], int, str]] = {
    "a unit of all time": ([("person, per: month", "person")], 4, "pays every time"),
    "a unit of a year": ([("per: month", "per: year")], 4, "write `unit: {entity: person, per: month}`"),
    "no time": ([NAMED, ("    time: {column: seen, type: date}\n", "")], 7, "`time: {column: seen, type: date}`"),
    "another column": ([("column: seen", "column: logged")], 11, "`time: {column: seen, type: date}`"),
    "read in another way": ([("type: date}\n    b", "type: timestamp}\n    b")], 11, "another `time`"),
    "a week in two months": ([NAMED, ("2024-03", "2024-W09")], 2, "touches 2 months"),
    "a quarter": ([NAMED, ("2024-03", "2024-Q1")], 2, "release a month, or a period inside one"),
    "ids of rows": ([("entity: person, per: month", "entity: row")], 10, "leave out `unit_id`"),
}


@pytest.mark.parametrize("name", UNTIED)
def test_a_spec_that_reads_more_than_units_of_one_month_is_refused_at_its_place(name: str) -> None:
    changes, line, says = UNTIED[name]
    found = problems(lambda: plan(changed(SPEC, *changes)))
    assert [(code, at) for code, at, _ in found] == [("DPR-S417", line)], found
    assert says in found[0][2]


def test_a_free_period_is_refused() -> None:
    found = problems(lambda: plan(changed(SPEC, ("2024-03", "spring"))))
    assert ("DPR-S590", 2) in [each[:2] for each in found]


JOINED = [
    ("columns:\n", "join: [{table: users, on: who, max_matches: 1, add: [age]}]\n    columns:\n      age: {type: integer, range: [0, 99]}\n"),
    (
        "queries:",
        "  users:\n    account: web\n    source: {file: data/users.csv}\n    unit_id: who\n"
        "    time: {column: seen, type: date}\n    columns: {age: {type: integer, range: [0, 99]}}\nqueries:",
    ),
]  # fmt: skip


def test_a_table_that_is_joined_is_read_by_the_same_time() -> None:
    joined = changed(SPEC, NAMED, *JOINED)
    assert plan(joined).catalog.tables["users"].time is not None
    untimed = joined.replace("    time: {column: seen, type: date}\n    columns: {age", "    columns: {age")
    found = problems(lambda: plan(untimed))
    assert [code for code, *_ in found] == ["DPR-S417"]
    assert "'users' has no `time`" in found[0][2]


POLICIES: dict[str, tuple[list[tuple[str, str]], int, str]] = {
    "a unit of all time": ([("unit: person-month", "unit: person")], 2, "write `unit: person-month`"),
    "a unit of another length": ([("unit: person-month", "unit: person-week")], 2, "pays every time"),
    "no unit at all": ([("unit: person-month", "unit: -month")], 2, "many months"),
    "a nested unit of all time": ([("row: 20", "person: 5")], 3, "write a unit of one month: `person-month`"),
    "no time": ([(", time: {column: seen, type: date}", "")], 2, "`time: {column: seen, type: date}`"),
    "a time alone": ([("parallel: month, ", "")], 2, "is for accounts with `parallel`"),
    "a series": ([("zcdp", "pld")], 2, "one series of draws"),
    "a window as well": ([("nests: {row: 20}", "window: {per: year, epsilon: 3, delta: 1e-8}")], 2, "leave out one"),
}


@pytest.mark.parametrize("name", POLICIES)
def test_what_the_policy_itself_says_wrong_is_told_there(name: str) -> None:
    changes, line, says = POLICIES[name]
    found = problems(lambda: load_policy(changed(POLICY, *changes), "policy.yaml"))
    assert [(code, at) for code, at, _ in found] == [("DPR-S598", line)], found
    assert says in found[0][2]


def test_no_other_stretch_is_known() -> None:
    (found,) = problems(lambda: load_policy(changed(POLICY, ("parallel: month", "parallel: hour")), "policy.yaml"))
    assert "one of: day, week, month, quarter, year" in found[2]


# --- the same again, from the plan ---


def _with_table(made: ReleasePlan, **update: Any) -> ReleasePlan:
    (name, table), *_ = made.catalog.tables.items()
    tables = {**made.catalog.tables, name: table.model_copy(update=update)}
    return made.model_copy(update={"catalog": made.catalog.model_copy(update={"tables": tables})})


def _with_account(made: ReleasePlan, **update: Any) -> ReleasePlan:
    return made.model_copy(update={"accounts": (made.accounts[0].model_copy(update=update),)})


def _untied() -> dict[str, tuple[ReleasePlan, str]]:
    made, time = plan(), plan().catalog.tables["visits"].time
    assert time is not None
    row = made.unit.model_copy(update={"entity": "row", "per": None})
    joined = plan(changed(SPEC, *JOINED))
    lent = joined.catalog.tables["users"].model_copy(update={"account": "other"})
    other = joined.catalog.model_copy(update={"tables": {**joined.catalog.tables, "users": lent}})
    quarter = TimeFilter(column="seen", type="date", start=time.start.replace(month=1), end=time.end)
    release = made.release.model_copy(update={"period": "2024-Q1"})
    return {
        "no time": (_with_table(made, time=None), "not read by the time"),
        "another column": (_with_table(made, time=time.model_copy(update={"column": "x"})), "not read by the time"),
        "read in another way": (_with_table(made, time=time.model_copy(update={"type": "timestamp"})), "not read by"),
        "ids beyond a month": (
            _with_table(made, time=quarter).model_copy(update={"release": release}),
            "for one unit, beyond one month",
        ),
        "ids of rows": (made.model_copy(update={"unit": row}), "for one unit"),
        "a unit of all time": (
            made.model_copy(update={"unit": made.unit.model_copy(update={"per": None})}),
            "is not of one month",
        ),
        "an account of all time": (_with_account(made, unit="person"), "is not of one month"),
        "nested units of all time": (_with_account(made, nests={"visit": 3}), "is not of one month"),
        "a series": (_with_account(made, composition="pld"), "a series"),
        "joined from another account": (joined.model_copy(update={"catalog": other}), "another one pays"),
    }


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("name", list(_untied()))
def test_a_plan_that_says_more_than_it_may_is_neither_verified_nor_charged(name: str, tmp_path: Path) -> None:
    wrong, says = _untied()[name]
    with pytest.raises(BrokenPromiseError, match=says):
        verify(wrong)
    if name in ("a unit of all time", "an account of all time"):  # these have no price either
        with pytest.raises(PlanError, match="DPR-P410"):
            charges(wrong)
        return
    with pytest.raises(BrokenPromiseError, match=rf"(?s)DPR-L907.*{says}"):
        SQLiteLedger(tmp_path / "l.db").reserve(wrong, charges(wrong))


# --- what follows from the plan ---


@pytest.mark.slow
def test_the_largest_budget_of_a_year_is_that_of_a_month() -> None:
    """Not divided by twelve, and not by anything: every month has the cap to itself."""
    from dprelease.plan.allocate.planner import allocate
    from dprelease.plan.resolve.catalog import resolve

    loaded = load(SPEC, "spec.yaml")
    (terms,) = plan().accounts
    catalog = resolve(loaded, {})
    found = [
        largest_budget(
            loaded.spec,
            lambda spec: allocate(spec, catalog, [terms], "s"),
            [Purse(terms, terms.lifetime)],
            coming("2024-03", releases),
            releases,
        ).limit
        for releases in (1, 12)
    ]
    assert found[0] == found[1]
    assert found[0] is not None


def test_what_is_not_promised_is_said() -> None:
    (said,) = apart(plan())
    assert "a person with rows in 12 months loses up to 12 times that" in said
    assert apart_facts(plan())["parallel"]["says"] == [said]
    assert apart(bare_plan()) == ()
    assert apart_facts(bare_plan()) == {}


@pytest.mark.parametrize("relation", list(Neighboring))
def test_every_page_and_the_certificate_say_what_is_not_promised(relation: Neighboring) -> None:
    """The cap of one account is per month; of an account whose releases add up nothing of this is said."""
    whole = plain()
    terms = whole.plan.accounts[0].model_copy(
        update={
            "unit": "person-month",
            "neighboring": relation,
            "parallel": Parallel(per="month", column="seen", type="date"),
        }
    )
    unit = whole.plan.unit.model_copy(update={"per": "month"})
    made = whole.plan.model_copy(update={"accounts": (terms,), "unit": unit})
    months = tuple(
        each.model_copy(update={"window": "2024-03", "unit": "person-month"}) for each in whole.facts.accounts
    )
    content = replace(whole, plan=made, facts=whole.facts.model_copy(update={"accounts": months}))
    (said,) = apart(made)
    assert ("two months together" in said) == (relation is Neighboring.REPLACE_ONE)
    assert said in certificate_texts(content)
    for write in (accounting_page, accounting_json, registry_yaml):
        text = " ".join(unescape(write(content).decode()).split())
        assert said in text, write.__name__
        assert "for each month by itself" not in write(whole).decode()
    (row, *_) = json.loads(accounting_json(content))["accounts"]
    assert row["window"] == "2024-03"
    assert "acs, 2024-03" in certificate_texts(content)
