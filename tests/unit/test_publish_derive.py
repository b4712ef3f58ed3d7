"""Derived tables: what SQL is allowed, that it is total, and that its margins are those of the noise."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from dprelease.errors import PlanError, PublishError
from dprelease.noise import JOINT_MECHANISMS, MECHANISMS, Measurement
from dprelease.noise.mechanisms.exponential import ScoreLaw
from dprelease.plan.document import Derived
from dprelease.publish import Publication, check_publishable, render
from dprelease.publish.derive.replicate import noise_of
from dprelease.publish.derive.sql import check_derive
from dprelease.publish.derive.tables import derived_tables
from dprelease.publish.derive.terms import Columns
from dprelease.publish.measured import inputs_of, queries_as_tables
from tests.planned import plan_of as planned
from tests.unit.choices_example import DERIVED, KEYS, choices, measured
from tests.unit.publish_example import facts

TABLES = {
    "a": Columns(keys={"state": "text", "sex": "integer", "adult": "boolean", "day": "date"}, numbers=("n", "avg pay")),
    "b": Columns(keys={"state": "text", "code": "integer"}, numbers=("m",)),
    "select": Columns(keys={}, numbers=("x",)),
}
ALLOWED = [
    "select state, n from a",
    'select state, "avg pay" / n as r from a',
    "select a.state, n - m as d from a join b on a.state = b.state",
    "select a.state, n - m as d from a inner join b on (b.state = a.state and b.code = a.sex)",
    "select state, n, m from a left join b using (state)",
    "select x.state, x.n - y.n as d from a as x join a y on x.state = y.state and x.day = y.day",
    "select state, sum(n) as n, avg(n) v, min(n) as l, max(n) as h, count(*) as c, count(n) as f from a group by state",
    "select sum(n) / count(*) as r from a",
    "select state, adult, sum(n) as n from a where adult and not sex in (1, 2) or day >= '2024-01-01' group by state, adult",
    "select state, case when n > 10 then n when sex = 1 then -n else null end as r from a",
    "select state, round(sqrt(abs(n)) + ln(exp(n)), 2) as r from a where n between 1 and 5 and n is not null",
    "select state, coalesce(n, 0) + least(n, 3, sex) + greatest(n, 1) * nullif(n, 2) + floor(n) + ceil(n) as r from a",
    "select n from a where state = 'it''s'",
    "select " + " + ".join(["n"] * 70) + " as n from a",
    'select x from "select"',
    "SELECT state, N FROM a".replace("N", "n"),
]  # fmt: skip
HOSTILE = [
    ("", "P151"), ("nonsense from", "P15"), ("select", "P15"), ("drop table a", "P151"), ("select 1 as x", "P151"),
    ("select n from a; drop table a", "P151"), ("select n from a; select n from a", "P151"),
    ("insert into a values (1)", "P151"), ("copy a to 'x.csv'", "P151"), ("pragma database_list", "P151"),
    ("attach 'x.db'", "P151"), ("install httpfs", "P15"), ("set threads = 4", "P151"), ("call pragma_version()", "P15"),
    ("select * from a", "P151"), ("select a.* from a", "P15"), ("select columns('n') from a", "P15"),
    ("select n from read_csv('/etc/passwd')", "P151"), ("select n from '/etc/passwd'", "P15"),
    ("select n from \"/etc/passwd\"", "P152"), ("select n from main.a", "P151"), ("select n from x.y.a", "P151"),
    ("select n from (select n from a) t", "P151"), ("select (select max(n) from a) as n from a", "P151"),
    ("select n from a where n in (select n from a)", "P151"), ("select n from a where exists (select 1 from a)", "P151"),
    ("with t as (select n from a) select n from t", "P151"), ("select n from a union select m from b", "P151"),
    ("select distinct n from a", "P151"), ("select n from a limit 1", "P151"), ("select n from a order by n", "P151"),
    ("select n from a offset 1", "P151"), ("select n from a using sample 1", "P15"), ("select n from a tablesample 1", "P15"),
    ("select state, sum(n) as n from a group by state having sum(n) > 1", "P151"), ("select n from a qualify n > 1", "P151"),
    ("select state, sum(n) as n from a group by rollup (state)", "P15"), ("select sum(n) as n from a group by all", "P15"),
    ("select sum(n) over () as n from a", "P151"), ("select sum(distinct n) as n from a", "P151"),
    ("select sum(n) filter (where n > 1) as n from a", "P151"), ("select sum(sum(n)) as n from a", "P153"),
    ("select n from a, b", "P151"), ("select n from a cross join b", "P151"), ("select n from a natural join b", "P15"),
    ("select n from a full join b on a.state = b.state", "P151"), ("select n from a right join b on a.state = b.state", "P151"),
    ("select n from a semi join b on a.state = b.state", "P151"), ("select n from a asof join b on a.state = b.state", "P15"),
    ("select n from a join b on a.state < b.state", "P151"), ("select n from a join b on a.n = b.m", "P153"),
    ("select n from a join b on a.state = b.state or true", "P151"), ("select n from a join b on a.state = b.code", "P153"),
    ("select n from a join b on true", "P151"), ("select n from a join a on a.state = a.state", "P152"),
    ("select n from a lateral join b on true", "P15"), ("select n from a join b on a.state = 'x'", "P153"),
    ("select b.state, n from a left join b on a.state = b.state", "P153"), ("select state, n from a join b on a.state = b.state", "P152"),
    ("select b.state, sum(n) as n from a left join b on a.state = b.state group by b.state", "P153"),
    ("select getenv('HOME') as n from a", "P151"), ("select random() as n from a", "P151"), ("select n::int as n from a", "P151"),
    ("select cast(n as varchar) as n from a", "P151"), ("select n || 'x' as n from a", "P151"), ("select [n] as n from a", "P15"),
    ("select {'a': n} as n from a", "P15"), ("select n[1] as n from a", "P15"), ("select current_date as n from a", "P151"),
    ("select now() as n from a", "P151"), ("select pow(n, 2) as n from a", "P151"), ("select n % 2 as n from a", "P151"),
    ("select n // 2 as n from a", "P151"), ("select ~n as n from a", "P15"), ("select n & 1 as n from a", "P151"),
    ("select state like 'x' as n from a", "P151"), ("select regexp_matches(state, 'x') as n from a", "P151"),
    ("select n_se from a", "P152"), ("select n_margin from a", "P152"), ("select q0.v0 from a", "P152"), ("select rowid from a", "P152"),
    ("select replicate from a", "P152"), ("select c.n from a", "P152"), ("select nn from a", "P152"), ("select n from aa", "P152"),
    ("select state from a", "P153"), ("select n, n from a", "P153"), ("select n, sex as N from a", "P153"), ("select n + 1 from a", "P153"),
    ("select state = 'x' as t, n from a", "P153"), ("select state + 1 as n from a", "P153"), ("select n + state as n from a", "P153"),
    ("select n from a where n", "P153"), ("select n from a where state = 1", "P153"), ("select n from a where sum(n) > 1", "P153"),
    ("select n from a where not n", "P153"), ("select state, sum(n) as n from a", "P153"), ("select sum(n) as s, n from a", "P153"),
    ("select state, n, sum(n) as s from a group by state", "P153"), ("select sum(n) as n from a group by n", "P153"),
    ("select sum(n) as n from a group by 1", "P153"), ("select sum(state) as n from a", "P153"), ("select min(state) as s from a", "P153"),
    ("select case when n then 1 end as n from a", "P153"), ("select case when n > 1 then n else state end as n from a", "P153"),
    ("select n from a where state is true", "P151"), ("select n from a where n = all (select 1)", "P15"),
    ("select round(n, sex) as n from a", "P151"), ("select round(n, 400) as n from a", "P151"), ("select 1e999 * n as n from a", "P151"),
    ("select n from a where state = 'a\x00b'", "P15"), ("select n as \"a\"\"b\", n from a where 'x", "P15"),
    ("select " + "(" * 5000 + "n" + ")" * 5000 + " as n from a", "P15"), ("select " + "abs(" * 100 + "n" + ")" * 100 + " as n from a", "P15"),
    ("select " + "abs(" * 26 + "n" + ")" * 26 + " as n from a", "P151"),
    ("select n from a join b on " + " and ".join(["a.state = b.state"] * 500), "P151"),
    ("select " + " + ".join(["n"] * 100) + " as n from a", "P151"), ("select " + "- " * 30 + "n as n from a", "P151"),
    ("select n from a -- " + "x" * 30_000, "P150"),
]  # fmt: skip


@pytest.mark.parametrize("sql", ALLOWED)
def test_what_is_on_the_list_is_read(sql: str) -> None:
    found = check_derive(sql, TABLES)
    assert found.outputs
    for text in (found.plain, found.replicated):
        for name in ("state", "sex", "avg pay", '"'):
            assert name not in text.removeprefix("select "), "every name in what runs is our own"


@pytest.mark.parametrize(("sql", "code"), HOSTILE, ids=[sql[:60] for sql, _ in HOSTILE])
def test_everything_else_is_refused_with_what_to_write(sql: str, code: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_derive(sql, TABLES)
    assert caught.value.code.startswith(f"DPR-{code}")
    assert caught.value.hint


def plan_of(*sql: str) -> Any:
    return choices(tuple(Derived(name=f"d{at}", title="", sql=each) for at, each in enumerate(sql)))


def rows(made: Publication, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(made.files[f"tables/{name}.csv"].decode(), newline="")))


@cache
def derived(sql: str) -> list[dict[str, str]]:
    made = plan_of(sql)
    return rows(render(made, measured(), facts(made)), "d0")


def test_a_difference_of_counts_has_the_margin_of_its_noise() -> None:
    """Two draws of scale 12: the standard error is 12 sqrt(2), the margin 1.96 times that, as near as 1,000 draws tell."""
    first = derived("select country, new, visits - users as d from countries")[0]
    assert (first["country"], first["new"], first["d"], first["d_status"]) == ("DE", "true", "900.0", "ok")
    assert float(first["d_se"]) == pytest.approx(12 * 2**0.5, rel=0.1)
    assert float(first["d_margin"]) == pytest.approx(1.96 * 12 * 2**0.5, rel=0.15)


def test_numbers_of_one_draw_err_together() -> None:
    """What is taken from itself has no noise; a total of the cells has that of its parts."""
    first = derived("select country, new, visits - visits as none, share * visits - long as same from countries")[0]
    assert float(first["none"]) == float(first["none_se"]) == float(first["none_margin"]) == 0
    assert float(first["same_margin"]) < 1e-9
    (total,) = derived("select sum(visits) as t from countries")
    assert float(total["t"]) == 1000 + 1001 + 1002 + 1003  # the fifth cell is suppressed
    assert float(total["t_se"]) == pytest.approx(12 * 2, rel=0.1)


def test_rows_are_in_the_order_of_keys_and_tables_are_joined_by_them() -> None:
    found = derived("select country, sum(visits) as n from countries group by country")
    assert [row["country"] for row in found] == ["DE", "FR", "US"]
    pairs = derived(
        "select x.country, x.visits - y.visits as d from countries x join countries y using (country) where x.new and not y.new"
    )
    assert [(row["country"], float(row["d"])) for row in pairs] == [("DE", -1.0), ("FR", -1.0)]
    terms = derived("select term, visits * 2 as n from terms")
    assert [(row["term"], row["n"]) for row in terms] == [(key[0], f"{2.0 * (50 + at)}") for at, key in enumerate(KEYS)]


def test_a_left_join_keeps_rows_whose_numbers_are_then_blank() -> None:
    found = derived(
        "select c.country, c.visits - t.visits as d from countries c left join terms t on c.country = t.term"
    )
    assert len(found) == 5
    assert {row["d"] for row in found} == {""}
    assert {row["d_status"] for row in found} == {"blank"}


def test_a_quantile_has_no_law_and_so_no_margin() -> None:
    found = derived("select country, new, average - middle_q50 as gap, visits as n from countries where middle_q90 > 0")
    assert found[0]["gap"] == "0.0"
    assert {row["gap_margin"] + row["gap_se"] + row["n_margin"] for row in found} == {""}


COUNTED = """
dprelease: 1
release: {name: incomes, period: 2024}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: text, keys: [f, m]}
      income: {type: integer, range: [0, 30]}
queries:
  middle:
    table: people
    by: [sex]
    measures:
      earners: {count: income}
      income: {quantiles: income, at: [0.1, 0.5, 0.9], clip: [0, 30], from: counts}
derive:
  d: {sql: "select sex, earners * 2 as twice, income_q50 - earners as gap from middle"}
"""


def test_a_quantile_from_counts_has_no_margin_either_and_takes_none_from_what_stands_beside_it() -> None:
    """Its draw is of all classes: drawn again as one number in each cell, it would be none, and nothing be published."""
    plan = planned(COUNTED)
    drawn = {step.id: Measurement(step.id, np.full(step.numbers or 0, 5000, dtype=np.int64)) for step in plan.steps}
    inputs = inputs_of(plan, drawn)
    (counts, *_), (table,) = plan.steps, derived_tables(plan, queries_as_tables(plan, inputs), inputs, seed=1)
    assert any(part.is_counted for step in plan.steps for part in step.parts)
    twice, gap = table.measures
    assert twice.value.tolist() == [10_000, 10_000]
    assert twice.standard_error == pytest.approx(np.full(2, 2 * counts.law.variance**0.5), rel=0.1)
    assert np.isfinite(gap.value).all()
    assert np.isnan([gap.margin, gap.standard_error]).all()


def test_a_row_that_many_replicates_do_not_have_has_no_margin() -> None:
    found = derived("select country, new, visits from countries where visits > 1000.5")
    assert [row["visits"] for row in found] == ["1001.0", "1002.0", "1003.0"]
    assert {row["visits_margin"] for row in found} == {""}
    safe = derived("select country, new, visits from countries where visits > 500")
    assert all(float(row["visits_margin"]) > 20 for row in safe[:4])


# All in one table: each of them is computed in every replicate, beside the others.
VALUES = (
    ("visits / (visits - visits)", ""), ("sqrt(-visits)", ""), ("ln(visits - visits)", ""), ("ln(-visits)", ""),
    ("exp(visits * visits)", ""), ("-exp(visits * visits)", ""), ("exp(-visits * visits)", "0.0"),
    ("sqrt(visits - 900)", "10.0"), ("round(visits / 3, 2)", "333.33"), ("coalesce(null, visits)", "1000.0"),
    ("exp(exp(exp(visits)))", ""), ("abs(0 - visits)", "1000.0"), ("floor(visits / 3) + ceil(visits / 3)", "667.0"),
)  # fmt: skip


def test_no_value_makes_it_fail() -> None:
    asked = ", ".join(f"{expression} as v{at}" for at, (expression, _) in enumerate(VALUES))
    found = derived(f"select country, new, {asked} from countries")[0]
    assert {text: found[f"v{at}"] for at, (text, _) in enumerate(VALUES)} == dict(VALUES)


def test_a_query_without_rows_is_a_table_without_rows() -> None:
    assert derived("select country, new, visits from countries where visits < 0") == []
    (total,) = derived("select count(*) as c, sum(visits) as s from countries where visits < 0")
    assert (total["c"], total["s"], total["s_status"]) == ("0.0", "", "blank")


def test_the_same_release_has_the_same_margins_and_another_one_others() -> None:
    made = choices(DERIVED)
    first, second = (render(made, measured(), facts(made)).files for _ in range(2))
    assert first == second
    other = {**measured(), "terms.rows": measured()["terms.rows"].__class__("terms.rows", np.array([1, 2, 3]))}
    again = render(made, other, facts(made)).files
    assert first["tables/gap.csv"] != again["tables/gap.csv"]


def test_what_cannot_be_derived_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(PlanError):
        check_publishable(plan_of("select secret from countries"))
    with pytest.raises(PublishError, match="two tables are named"):
        check_publishable(choices((Derived(name="Terms", title="", sql="select visits from terms"),)))
    with pytest.raises(PublishError, match="two columns named 'n_se'"):
        check_publishable(plan_of("select visits as n, visits as n_se from terms"))
    check_publishable(choices(DERIVED))


@pytest.mark.parametrize("scale", ["1/3", "2", "50", "1000", "1000000000"])
@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_fresh_noise_has_the_variance_and_margin_of_the_law(mechanism: str, scale: str) -> None:
    law = MECHANISMS[mechanism].law(Fraction(scale))
    (drawn,) = noise_of(law, 1, 100_000, np.random.default_rng(7))
    assert drawn.var() == pytest.approx(law.variance, rel=0.05)
    assert (np.abs(drawn) <= law.margin(Fraction(9, 10))).mean() > 0.895
    assert np.all(drawn == np.rint(drawn))


@pytest.mark.parametrize("dimension", [1, 2, 5, 20])
@pytest.mark.parametrize("mechanism", sorted(JOINT_MECHANISMS))
def test_fresh_joint_noise_is_that_of_its_ball(mechanism: str, dimension: int) -> None:
    if mechanism in ("total_residual", "random_scale") and dimension < 2:
        dimension = 3  # one count has no residual
    law: Any = JOINT_MECHANISMS[mechanism].law(Fraction(3), dimension)
    drawn = noise_of(law, dimension, 100_000, np.random.default_rng(7))
    for each in drawn:
        assert each.var() == pytest.approx(law.variance, rel=0.05)
        for value in (0, 2, 7):
            assert (each == value).mean() == pytest.approx(law.mass(value), abs=0.004)
    if dimension > 1:
        together = float((drawn[0] * drawn[1]).mean() / law.variance)
        assert abs(together) < 0.02 if mechanism == "linf_knorm" else together > 0.1


def test_a_choice_has_no_fresh_noise() -> None:
    assert not noise_of(ScoreLaw(Fraction(3), 9), 1, 10, np.random.default_rng(1)).any()
