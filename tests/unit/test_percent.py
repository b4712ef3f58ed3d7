"""Percentages in plans and in what is published: the same draws, figures in percent, and a unit in every format."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.errors import BrokenPromiseError, SpecError
from dprelease.flows.pages import plan_rows
from dprelease.measures.text import FormulaTerm
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.changes import moved
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.base import Content
from dprelease.publish.formats.datapackage import text_files
from dprelease.publish.formats.jsonstat import jsonstat_files
from dprelease.publish.formats.parquet import parquet_files
from dprelease.publish.formats.sdmx import sdmx_files
from dprelease.publish.formats.xlsx import sheets_of
from dprelease.publish.rounded import rounded_tables
from dprelease.spec.load import load
from tests.planned import plan_of
from tests.unit import formats_example
from tests.unit.test_weights import TOTALS, WEIGHT
from tests.unit.test_weights import spec as weighted

HEAD = """
dprelease: 1
release: {{name: NAME, period: 2024}}
privacy:
  unit: {{entity: person}}
  budget: {{epsilon: EPSILON, delta: 1e-9}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      region: {{type: text, keys: ["01", "02", "06"]}}
      income: {{type: integer, range: [0, 100]}}
queries:
  income:
    table: people
    by: [region]
"""
SPEC = (
    HEAD.replace("NAME", "rates").replace("EPSILON", "1")
    + """\
    expect: {{persons: 1200}}
    {more}
    measures:
      persons: {{count: rows}}
      poor: {{count: rows, where: "income < 20"}}
      total: {{sum: income, clip: [0, 100]}}
      rate: {{ratio: [poor, persons]{show}}}
      per_head: {{ratio: [total, persons]{show}}}
publish: {{formats: [csv, parquet, xlsx, html, json, sdmx]}}
"""
)
PERCENT = ", show: percent"


def planned(show: str = PERCENT, more: str = "") -> ReleasePlan:
    return plan_of(SPEC.format(show=show, more=more))


def test_a_plan_draws_the_same_and_tells_its_figures_in_percent() -> None:
    plain, percent = planned(""), planned()
    assert percent.steps == plain.steps
    assert percent.loss == plain.loss
    told = {each.measure: each for each in plain.outputs}
    for each in percent.outputs:
        before, times = told[each.measure], 100 if each.measure in ("rate", "per_head") else 1
        assert float(each.margin or "nan") == pytest.approx(times * float(before.margin or "nan"), rel=1e-6)
    assert verify(percent) == verify(plain)
    assert '"show"' not in plain.canonical()
    assert ReleasePlan.from_canonical(percent.canonical()) == percent


def test_verify_refuses_a_plan_that_tells_a_percentage_as_a_share() -> None:
    plan = planned()
    outputs = tuple(
        each.model_copy(update={"margin": str(float(each.margin or 0) / 100)}) if each.measure == "rate" else each
        for each in plan.outputs
    )
    with pytest.raises(BrokenPromiseError, match="more accurate than it is"):
        verify(plan.model_copy(update={"outputs": outputs}))


def test_a_target_is_in_percent() -> None:
    plan = planned(more="target: {rate: {margin: 5}}")
    (told,) = (each for each in plan.outputs if each.measure == "rate")
    assert 1 < float(told.margin or "nan") <= 5


def measured(plan: ReleasePlan) -> dict[str, Measurement]:
    """Noisy numbers of three regions: a large one, one with nearly all poor, and one of noise alone."""
    persons, poor, total = np.array([[1200, 30, 3], [240, 29, -2], [60_000, 900, 70]])
    made = {"rows": persons, "balance": 2 * poor - persons, "sum": total}
    return {
        step.id: Measurement(
            step.id, np.concatenate([poor if _is_poor(part) else made[part.kind] for part in step.parts])
        )
        for step in plan.steps
    }


def _is_poor(part: Quantity) -> bool:
    return part.kind == "rows" and part.where is not None


def content(plan: ReleasePlan) -> Content:
    return formats_example.content(plan, measured(plan))


def test_a_percentage_is_judged_as_the_share_that_it_is() -> None:
    plain, percent = (content(planned(show)).tables[0].measures for show in ("", PERCENT))
    for one, other in zip(plain, percent, strict=True):
        assert list(one.status) == list(other.status)
        times = 100 if other.unit else 1
        np.testing.assert_allclose(other.lower, times * one.lower, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(other.upper, times * one.upper, rtol=1e-12)
    assert [each.unit for each in percent] == ["", "", "", "percent", "percent"]
    assert len(set(percent[3].status)) > 1


def test_a_percentage_is_rounded_in_percent() -> None:
    made = content(planned(more="round: {rate: 0.5}"))
    (before,), (after,) = made.tables, rounded_tables(made.plan, made.tables)
    exact, rounded = before.measures[3], after.measures[3]
    assert rounded.value[0] == 20
    assert rounded.unit == "percent"
    assert (rounded.value * 2 % 1 == 0).all()
    assert (rounded.lower <= exact.lower).all()
    assert (rounded.upper >= exact.upper).all()


def test_every_format_says_that_it_is_in_percent() -> None:
    made = content(planned())
    files = {
        **text_files(made, {}), **jsonstat_files(made, {}), **sdmx_files(made, {}), **parquet_files(made, {}),
    }  # fmt: skip
    fields = json.loads(files["datapackage.json"])["resources"][0]["schema"]["fields"]
    told = {each["name"]: each.get("description", "") for each in fields}
    for ending in ("", "_se", "_margin", "_lower", "_upper"):
        assert "in percent" in told[f"rate{ending}"]
        assert "percent" not in told[f"poor{ending}"]
    line = files["tables/income.csv"].decode().splitlines()[1].split(",")
    header = files["tables/income.csv"].decode().splitlines()[0].split(",")
    row = dict(zip(header, line, strict=True))
    assert float(row["rate"]) == pytest.approx(20)
    assert float(row["rate_lower"]) < 20 < float(row["rate_upper"]) < 100
    stat = json.loads(next(data for path, data in files.items() if path.endswith("income.json")))
    units = stat["dimension"][stat["id"][-1]]["category"]["unit"]
    assert units["rate_upper"]["label"] == "percent"
    assert "label" not in units.get("poor", {})
    lines = files["tables/income.sdmx.csv"].decode().splitlines()
    at = lines[0].split(",").index("UNIT_MEASURE")
    assert {row.split(",")[at] for row in lines[1:] if ",rate," in row} == {"PT"}
    assert {row.split(",")[at] for row in lines[1:] if ",poor," in row} == {""}
    metadata = pq.read_schema(io.BytesIO(files["tables/income.parquet"])).metadata
    assert metadata[b"percent"] == b"rate, per_head"
    sheets = sheets_of(made, files)
    assert any("rate: in percent" in text for sheet in sheets for text in sheet.lines)


def test_tables_without_a_percentage_are_as_they_were() -> None:
    made = content(planned(""))
    assert "UNIT_MEASURE" not in sdmx_files(made, {})["tables/income.sdmx.csv"].decode()
    assert b"percent" not in pq.read_schema(io.BytesIO(parquet_files(made, {})["tables/income.parquet"])).metadata
    derived = replace(made.tables[0].measures[3], measure=None)
    assert derived.unit == ""


COUNTED = (
    HEAD.replace("NAME", "shares").replace("EPSILON", "2")
    + """\
    measures:
      m: {{quantiles: income, at: [0.5], clip: [0, 100], from: counts, edges: [0, 20, 50]{more}}}
"""
)


def test_a_share_below_a_value_can_be_in_percent() -> None:
    plain, percent = (plan_of(COUNTED.format(more=f", below: [20]{show}")) for show in ("", PERCENT))
    assert percent.steps == plain.steps
    assert '"show"' not in plain.canonical()
    verify(percent)
    numbers = {each.id: Measurement(each.id, np.arange(each.numbers or 0) * 997 + 5000) for each in plain.steps}
    one, other = (formats_example.content(plan, numbers).tables[0].measures for plan in (plain, percent))
    assert [each.unit for each in other] == ["", "percent"]
    np.testing.assert_array_equal(one[0].value, other[0].value)
    np.testing.assert_allclose(other[1].value, 100 * one[1].value, rtol=1e-14)
    np.testing.assert_allclose(other[1].standard_error, 100 * one[1].standard_error, rtol=1e-14)
    np.testing.assert_allclose(other[1].lower, 100 * one[1].lower, rtol=1e-12)
    np.testing.assert_allclose(other[1].upper, 100 * one[1].upper, rtol=1e-12)
    assert list(one[1].status) == list(other[1].status)
    assert (other[1].value > 1).any()


def test_percent_beside_no_share_is_refused() -> None:
    with pytest.raises(SpecError, match="DPR-S587"):
        load(COUNTED.format(more=PERCENT), "spec.yaml")
    with pytest.raises(SpecError, match="show"):
        load(
            SPEC.format(show="", more="").replace("persons: {count: rows}", "persons: {count: rows, show: percent}"),
            "spec.yaml",
        )
    with pytest.raises(SpecError, match="percent"):
        load(SPEC.format(show=", show: permille", more=""), "spec.yaml")


def test_diff_takes_a_percentage_for_the_same_noise() -> None:
    plain, percent = planned(""), planned()
    (changed,) = moved(plain, percent).blocks
    times = {each.measure: each.times for each in changed.numbers}
    assert times["rate"] == pytest.approx(1, rel=1e-3)
    assert times["persons"] == 1
    back = {each.measure: each.times for each in moved(percent, plain).blocks[0].numbers}
    assert back["rate"] == pytest.approx(1, rel=1e-3)


def test_a_sampling_error_is_in_percent_as_well() -> None:
    sampled = ", sampling: {deff: 2, mean_weight: 50, fraction: 0.02}}"
    asked = weighted(TOTALS, WEIGHT.replace("}", sampled))
    plain, percent = plan_of(asked), plan_of(asked.replace("[men, n]", "[men, n], show: percent"))
    assert plain.steps == percent.steps
    kinds = {"balance": -3000}  # a third of all are men
    numbers = {
        step.id: Measurement(
            step.id, np.concatenate([np.arange(3) + kinds.get(each.kind, 9000) for each in step.parts])
        )
        for step in plain.steps
    }
    one, other = (formats_example.content(plan, numbers).tables[0].measures for plan in (plain, percent))
    (before,), (after,) = ([each for each in found if each.name == "share"] for found in (one, other))
    assert before.sampling_error is not None
    assert after.sampling_error is not None
    assert before.total_margin is not None
    assert after.total_margin is not None
    assert (before.sampling_error > 0).any()
    np.testing.assert_allclose(after.sampling_error, 100 * before.sampling_error, rtol=1e-12)
    np.testing.assert_allclose(after.total_margin, 100 * before.total_margin, rtol=1e-12)


def test_the_plan_writes_percent_beside_a_margin() -> None:
    told = {each["measure"]: each["margin"] for each in plan_rows(planned())}
    assert told["rate"].endswith(" %")
    assert not told["poor"].endswith(" %")


def test_the_formula_of_the_bundle_gives_the_published_percentage() -> None:
    """By plain arithmetic on the measurements, as a stranger does it with ``recipe.json``."""
    plan = planned()
    found, made = measured(plan), content(plan)
    (query,), worked_out = plan.queries, 0
    for published in made.tables[0].measures:
        if not published.unit:
            continue
        steps = [(plan.step(feed.step), feed.part) for feed in query.inputs[published.name]]
        terms = [FormulaTerm(f"x{at}", step.parts[part]) for at, (step, part) in enumerate(steps)]
        formula = query.measures[published.name].formula(terms)
        for row, value in enumerate(published.value):
            numbers = {
                f"x{at}": Fraction(int(np.split(found[step.id].values, len(step.parts))[part][row]))
                for at, (step, part) in enumerate(steps)
            }
            names = {"clip": lambda x, low, high: min(max(x, low), high), **numbers}
            if np.isnan(value):
                assert any(eval(each, {"__builtins__": {}}, names) for each in formula.blank)
            else:
                exact = eval(formula.text, {"__builtins__": {}}, names)
                assert value == pytest.approx(float(exact), rel=1e-12)
                worked_out += 1
    assert worked_out >= 4


@pytest.mark.parametrize("budget", ["{epsilon: 1, delta: 1e-9}", "{epsilon: 1}", "{rho: 1/10, delta: 1e-9}"])
@pytest.mark.parametrize("expect", ["expect: {persons: 1200}", ""])
def test_a_percentage_takes_nothing_from_other_queries(budget: str, expect: str) -> None:
    """What is shared out by errors goes by the errors of a measure beside one another, not by its unit."""
    both = [
        SPEC.format(show=show, more="")
        .replace("expect: {persons: 1200}", expect)
        .replace("{epsilon: 1, delta: 1e-9}", budget)
        .replace(
            "publish:",
            "  again: {table: people, by: [], measures: {n: {count: rows}, m: {mean: income, clip: [0, 100]}}}\npublish:",
        )
        for show in ("", PERCENT)
    ]
    plain, percent = map(plan_of, both)
    assert percent.steps == plain.steps
    assert percent.allocation == plain.allocation
    verify(percent)
