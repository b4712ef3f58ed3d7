"""Two periods of one spec: the later one compares with the earlier one's bundle, in every format, and is checked so."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import openpyxl
import pyarrow.parquet as parquet
import pytest

from tests.project import command, one_table

pytestmark = pytest.mark.slow

SPEC = """dprelease: 1
release: {name: yearly, period: 2024, title: "People in {{ period }}", curator: Example Office}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1/2, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      region: {type: text, keys: [n, s, w]}
      sex: {type: integer, keys: [1, 2]}
      year: {type: integer, range: [2000, 2100]}
queries:
  people:
    title: "People in {{ period }} by region and sex"
    table: people
    where: "year = YEAR(DATE '{{ period.start }}')"
    by: [region, sex]
    totals: all
    measures: {n: {count: rows}}
    compare:
      share: {measure: n, share_of: total, show: percent}
      change: {measure: n, change_from: previous}
      growth: {measure: n, change_from: previous, show: percent}
      index: {measure: n, index_to: 2023}
      to_s: {measure: n, difference_from: {region: s}}
      pair: {measure: n, differences_between: sex}
    round: 10
publish: {formats: [csv, parquet, xlsx, html, json, sdmx]}
"""
COLUMNS = ("share", "change", "growth", "index", "to_s", "pair_1", "pair_2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which both years were released."""
    rows = [("nsw"[k % 3], 1 + k % 2, 2023 + (k % 5 > 1)) for k in range(5000)]
    made = one_table(tmp_path_factory.mktemp("yearly"), SPEC, "region,sex,year", rows)
    for period in ("2023", "2024"):
        command(made, "run", "spec.yaml", "--direct", "--period", period)
    return made


def bundle(folder: Path, period: str) -> Path:
    return folder / "releases" / "yearly" / period


def table(folder: Path, period: str) -> list[dict[str, str]]:
    with (bundle(folder, period) / "tables/people.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_first_period_has_blank_changes_and_an_index_of_a_hundred(folder: Path) -> None:
    for row in table(folder, "2023"):
        assert row["change"] == row["growth"] == ""
        assert float(row["index"]) == 100
        assert row["share"]
    page = (bundle(folder, "2023") / "index.html").read_text(encoding="utf-8")
    assert "no release of 2022 was published before this one" in page


def test_changes_are_those_of_the_two_published_tables(folder: Path) -> None:
    """Rounded to 10, a change is within 10 of the difference of two numbers that are rounded to 10 as well."""
    before = {(row["region"], row["sex"]): float(row["n"]) for row in table(folder, "2023")}
    for row in table(folder, "2024"):
        change, was = float(row["change"]), before[row["region"], row["sex"]]
        assert change % 10 == 0
        assert abs(change - (float(row["n"]) - was)) <= 10
        assert float(row["growth_lower"]) <= 100 * (float(row["n"]) / was - 1) + 5
        assert float(row["change_lower"]) <= change <= float(row["change_upper"])
        assert 0 < float(row["change_p"]) <= 1
        assert row["change_status"] in ("ok", "not_distinguishable")


def test_every_format_has_every_column(folder: Path) -> None:
    tables, rows = bundle(folder, "2024") / "tables", table(folder, "2024")
    stored = parquet.read_table(tables / "people.parquet").to_pydict()
    assert [str(value) for value in stored["change"]] == [row["change"] for row in rows]
    assert stored["change_p"] == [float(row["change_p"]) for row in rows]
    sheet = openpyxl.load_workbook(next(bundle(folder, "2024").rglob("*.xlsx")))["people"]
    words = {str(cell.value) for line in sheet.iter_rows() for cell in line}
    assert {*COLUMNS, "change: p-value", "not applicable [z]"} <= words
    told = json.loads((tables / "people.json").read_text(encoding="utf-8"))
    labels = told["dimension"]["metric"]["category"]["label"].values()
    assert any("change of n since 2023" in label for label in labels)
    lines = (tables / "people.sdmx.csv").read_text(encoding="utf-8").splitlines()
    assert "P_VALUE" in lines[0]
    assert sum(",growth,2024," in line for line in lines) == len(rows)
    package = json.loads((bundle(folder, "2024") / "datapackage.json").read_text(encoding="utf-8"))
    fields = {each["name"]: each for each in package["resources"][0]["schema"]["fields"]}
    assert fields["change_status"]["constraints"]["enum"] == ["ok", "not_distinguishable", "blank"]
    page = (bundle(folder, "2024") / "index.html").read_text(encoding="utf-8")
    assert "Benjamini and Hochberg" in page
    assert "beside 2023, as it was published (ledger entry" in page


def test_it_costs_nothing_and_is_written_again_byte_by_byte(folder: Path) -> None:
    plan = json.loads((bundle(folder, "2024") / "plan.json").read_text(encoding="utf-8"))
    assert all(answer["measure"] == "n" for step in plan["steps"] for answer in step["answers"])
    before = {path: path.read_bytes() for path in bundle(folder, "2024").rglob("*") if path.is_file()}
    command(folder, "publish", "yearly/2024")
    assert before == {path: path.read_bytes() for path in bundle(folder, "2024").rglob("*") if path.is_file()}


def test_a_stranger_checks_it_with_both_bundles_and_is_told_what_one_cannot_show(folder: Path, tmp_path: Path) -> None:
    assert "FAIL" not in (both := command(folder, "verify", str(bundle(folder, "2024"))))
    assert "measurements of 2023 are those of its bundle" in both
    half = bundle(folder, "2023").parent / ".dprelease-killed.tmp"  # of a publication that was killed
    shutil.copytree(bundle(folder, "2023"), half)
    (half / "registry.yaml").unlink()
    assert "FAIL" not in command(folder, "verify", str(bundle(folder, "2024")))
    shutil.rmtree(half)
    shutil.copytree(bundle(folder, "2024"), tmp_path / "alone" / "x")
    alone = command(folder, "verify", str(tmp_path / "alone" / "x"))
    assert "the bundle of 2023 is not beside this one" in alone
    forged = tmp_path / "forged"
    shutil.copytree(bundle(folder, "2023"), forged)
    data = next((forged / "measurements").glob("*.csv"))
    data.write_bytes(data.read_bytes().replace(b"1", b"2", 1))
    found = command(folder, "verify", str(tmp_path / "alone" / "x"), "--earlier", str(forged), code=7)
    assert any(line.startswith("FAIL") and "earlier periods" in line for line in found.splitlines())


@pytest.mark.parametrize(("code", "spoil"), [("DPR-P332", "gone"), ("DPR-P333", "changed")])
def test_an_earlier_bundle_that_is_gone_or_changed_stops_the_next_period(folder: Path, code: str, spoil: str) -> None:
    kept, place = folder / "kept", bundle(folder, "2024")
    shutil.copytree(place, kept)
    try:
        if spoil == "gone":
            shutil.rmtree(place)
        else:
            (place / "tables/people.csv").write_bytes(b"x")
        assert code in command(folder, "run", "spec.yaml", "--direct", "--period", "2025", code=3)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        kept.rename(place)
    assert "2025" not in command(folder, "ledger", "status")


def test_a_period_that_was_not_published_is_no_silent_blank(folder: Path) -> None:
    assert "DPR-P330" in command(folder, "run", "spec.yaml", "--direct", "--period", "2030", code=3)
