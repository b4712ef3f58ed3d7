"""Numbers that were moved after they were estimated: the estimate stands beside them, and their interval is its."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.publish import check_bundle, published_tables, render
from dprelease.publish.bundle.compare import Released, compare_releases
from tests.planned import plan_of
from tests.unit.publish_example import facts
from tests.unit.unadjusted_example import answers, bundle, moved_plan, of_the_first_layout, without_figures

TABLE = "areas__puma__sex__race"


def rows(files: Any, name: str, ending: str = "csv") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(files[f"tables/{name}.{ending}"].decode(), newline="")))


def estimates(plan: ReleasePlan) -> dict[str, Any]:
    """The tables as they are without anything done after least squares."""
    post = tuple(each.model_copy(update={"post": ("consistent",)}) for each in plan.workloads)
    plain = plan.model_copy(update={"workloads": post, "derive": ()})
    return {table.name: table.measures[0] for table in published_tables(plain, answers(plan))}


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(
    "post", ["[consistent, nonnegative, integer]", "[consistent, nonnegative]", "[consistent, integer]"]
)
def test_every_file_has_the_estimate_beside_a_number_that_was_moved(post: str) -> None:
    import pyarrow.parquet as pq

    plan = moved_plan(post)
    files, expected = bundle(plan), estimates(plan)[TABLE]
    found = rows(files, TABLE)
    assert [float(row["count_unadjusted"]) for row in found] == expected.value.tolist()
    assert any(float(row["count"]) != float(row["count_unadjusted"]) for row in found)
    half = 0.5 if plan.workloads[0].post[-1] == "integer" else 1e-9  # whole ends are the nearest ones
    value, low, high = (np.array([float(row[f"count{end}"]) for row in found]) for end in ("", "_lower", "_upper"))
    assert ((low <= value) & (value <= high)).all()
    assert (np.abs(low - np.minimum(expected.lower, value)) <= half).all()
    assert (np.abs(high - np.maximum(expected.upper, value)) <= half).all()
    assert [float(row["count_unadjusted_se"]) for row in found] == expected.standard_error.tolist()
    assert not {"count_se", "count_margin"} & set(found[0])
    stored = pq.read_table(io.BytesIO(files[f"tables/{TABLE}.parquet"])).column("count_unadjusted").to_pylist()
    assert stored == expected.value.tolist()
    cube = json.loads(files[f"tables/{TABLE}.json"])
    metrics = cube["dimension"]["metric"]["category"]["index"]
    assert metrics == ["count", "count_lower", "count_upper", "count_unadjusted", "count_unadjusted_se"]
    assert cube["value"][3::5] == stored
    assert [float(row["EST_UNADJUSTED"]) for row in rows(files, TABLE, "sdmx.csv")] == stored
    fields = next(
        each for each in json.loads(files["datapackage.json"])["resources"] if each["path"].endswith(f"{TABLE}.csv")
    )
    assert "before" in fields["schema"]["fields"][-2]["description"]
    assert fields["schema"]["fields"][-1]["name"] == "count_unadjusted_se"
    assert json.loads(files["accounting.json"])["dictionary"][TABLE]["count_unadjusted"]
    (recipe,) = json.loads(files["measurements/recipe.json"])["workloads"]
    assert "`count_unadjusted` is the number before" in recipe["how"][-1]


def test_no_other_number_has_one() -> None:
    files = bundle(moved_plan())
    assert "persons_unadjusted" not in rows(files, "population")[0]
    assert "persons_unadjusted" not in rows(files, "everybody")[0]
    assert "count_unadjusted" not in rows(bundle(moved_plan("[consistent]")), TABLE)[0]


@pytest.mark.slow
def test_what_sql_makes_of_moved_numbers_has_the_interval_of_what_it_makes_of_the_estimates() -> None:
    plan = moved_plan()
    found, women = rows(bundle(plan), "women"), estimates(plan)["areas__state__sex"].value[1::2]
    assert [float(row["women_unadjusted"]) for row in found] == pytest.approx(women)
    assert [float(row["women"]) for row in found] != pytest.approx(women)
    for row in found:
        middle = (float(row["women_lower"]) + float(row["women_upper"])) / 2
        assert middle == pytest.approx(float(row["women_unadjusted"]))


@pytest.mark.slow
def test_a_plan_from_before_keeps_its_text_and_its_files(tmp_path: Path) -> None:
    plan = of_the_first_layout(moved_plan())
    assert "layout" not in plan.canonical()
    assert "csv_formulas" not in plan.canonical()
    files = bundle(plan)
    assert list(rows(files, TABLE)[0])[-1] == "count_status"
    assert "EST_UNADJUSTED" not in rows(files, TABLE, "sdmx.csv")[0]
    assert "_unadjusted" not in "".join(data.decode("latin-1") for path, data in files.items() if "tables/" in path)
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    assert [each.name for each in check_bundle(tmp_path) if each.passed is False] == []


def test_verify_holds_the_estimates_against_the_measurements(tmp_path: Path) -> None:
    from dprelease.canonical import sha256
    from dprelease.publish.manifest import Manifest

    files = dict(bundle(moved_plan()))
    name = f"tables/{TABLE}.csv"
    before = rows(files, TABLE)[3]["count_unadjusted"]
    files[name] = files[name].replace(before.encode(), b"7.25")
    manifest = Manifest.from_canonical(files["manifest.json"])
    facts = manifest.files[name].model_copy(update={"sha256": sha256(files[name]), "bytes": len(files[name])})
    files["manifest.json"] = manifest.model_copy(update={"files": {**manifest.files, name: facts}}).to_bytes()
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    wrong = {each.name: each.detail for each in check_bundle(tmp_path) if each.passed is False}
    assert name in wrong["values"]


def test_two_releases_are_compared_by_their_estimates() -> None:
    """About 0, numbers that are made non-negative all look alike; their estimates do not."""
    plan = moved_plan()
    other = {name: type(each)(each.step, each.values - 10_000) for name, each in answers(plan).items()}
    found = compare_releases(Released(plan, answers(plan)), Released(plan, other), plan.publish.confidence)
    change = next(each for each in found.changes if each.query == "areas__region")
    assert change.after < 0


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(
    "post", ["[consistent, nonnegative, integer]", "[consistent, nonnegative]", "[consistent, integer]"]
)
@pytest.mark.parametrize("first", [False, True])
def test_pages_never_show_a_margin_beside_a_number_that_was_moved(post: str, first: bool) -> None:
    plan = of_the_first_layout(moved_plan(post)) if first else without_figures(moved_plan(post))
    page = bundle(plan)[f"pages/{TABLE}.html"].decode()
    table = page[page.index('<table class="estimates">') :]
    assert "±" not in table
    assert "before" in re.search("<caption.*?</caption>", table, re.S)[0]  # type: ignore[index]
    cells = re.findall(r"<tr>.*?</tr>", table, re.S)[1:]
    measure = estimates(plan)[TABLE]
    for cell, low, high in zip(cells, measure.lower, measure.upper, strict=True):
        told = re.search(r'class="before">[^<]*\(([^)]*) to ([^)]*)\)', cell)
        assert told is not None
        assert float(told[1].replace(",", "")) <= low + 1e-9
        assert float(told[2].replace(",", "")) >= high - 1e-9


def test_the_index_does_not_say_that_estimates_stay_where_numbers_were_moved() -> None:
    page = bundle(moved_plan())["index.html"].decode()
    assert "The estimate itself is not moved" not in page
    assert "Beside each number stands its margin: how far" not in page
    plain = moved_plan("[consistent]")
    assert "The estimate itself is not moved" in bundle(without_figures(plain))["index.html"].decode()
    assert "shown\nhere as the nearest possible one" in bundle(plain)["index.html"].decode()


def test_parquet_has_the_very_double_that_the_text_in_csv_reads_as() -> None:
    """Sums in steps of a hundredth: value times step is not always the double that is nearest to the decimal."""
    import pyarrow.parquet as pq

    plan = plan_of(CENTS)
    found = {
        name: Measurement(name, np.arange(1_713_000, 1_713_000 + (numbers or 0), dtype=np.int64))
        for name, numbers in plan.numbers.items()
    }
    told = facts(plan)
    files = render(plan, found, told.model_copy(update={"accounts": ()})).files
    stored = pq.read_table(io.BytesIO(files["tables/shops.parquet"]))
    for ending in ("", "_margin", "_lower", "_upper"):
        texts = [float(row[f"spent{ending}"]) for row in rows(files, "shops")]
        assert stored.column(f"spent{ending}").to_pylist() == texts
    old = render(of_the_first_layout(plan), found, facts(of_the_first_layout(plan)).model_copy(update={"accounts": ()}))
    before = pq.read_table(io.BytesIO(old.files["tables/shops.parquet"])).column("spent").to_pylist()
    assert before != [float(row["spent"]) for row in rows(files, "shops")]


CENTS = """dprelease: 1
release: {name: cents, period: 2024}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1}
tables:
  sales:
    account: sales
    source: {file: sales.csv}
    columns:
      shop: {type: integer, keys: {from: 1, to: 500}}
      amount: {type: decimal, range: [0, 100], step: 0.01}
queries:
  shops: {table: sales, by: [shop], measures: {spent: {sum: amount, clip: [0, 100]}}}
publish: {formats: [csv, parquet]}
"""


@pytest.mark.slow
def test_attributes_for_search_engines_stand_only_within_what_they_are_about() -> None:
    for path, data in bundle(moved_plan()).items():
        if path.endswith(".html"):
            text = data.decode()
            assert ("itemprop=" not in text) or (text.index("itemscope") < text.index("itemprop=")), path


@pytest.mark.slow
def test_how_many_numbers_are_unreliable_is_said_before_they_are_shown() -> None:
    text = bundle(moved_plan(more=", unreliable: {relative_error_above: 1/10}"))["index.html"].decode()
    section = text[text.index('<h2 id="table-population">') :]
    assert (
        section.index(" unreliable.</p>") < section.index('class="charts"') < section.index('<table class="estimates">')
    )
