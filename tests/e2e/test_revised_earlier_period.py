"""An earlier period that was revised: the newest publication is compared with, for ever, and the bundle says which."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tests.project import command, one_table

pytestmark = pytest.mark.slow

SPEC = """dprelease: 1
release: {name: monthly, period: 2024-01, curator: Example Office}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1/2, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: "people-*.csv"}
    time: {column: day, type: date}
    columns:
      region: {type: text, keys: [n, s]}
      day: {type: date}
queries:
  people:
    table: people
    by: [region]
    measures: {n: {count: rows}}
    compare: {more: {measure: n, change_from: previous}}
derive:
  apart:
    earlier: {before: {query: people, period: previous}}
    sql: "select now.region, now.n as n, before.n as was, now.n - before.n as more from people as now join before on
      now.region = before.region"
schedule: {cron: "0 6 5 * *", timezone: Europe/Paris, period: month, revisions: [1m, 12m]}
publish: {formats: [csv, html]}
"""


def rows(folder: Path, number: int, day: str, count: int) -> None:
    text = "region,day\n" + "".join(f"{'ns'[k % 2]},{day}\n" for k in range(count))
    (folder / f"people-{number}.csv").write_text(text, encoding="utf-8")


def column(bundle: Path, table: str, name: str) -> list[float]:
    with (bundle / f"tables/{table}.csv").open(encoding="utf-8", newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def test_the_revision_that_was_newest_then_is_compared_with(tmp_path: Path) -> None:
    folder = one_table(tmp_path, SPEC, "region,day", [("n", "2024-01-05")])
    (folder / "people.csv").unlink()
    rows(folder, 1, "2024-01-05", 4000)
    rows(folder, 2, "2024-02-05", 6000)
    january, february = (folder / "releases/monthly" / each for each in ("2024-01", "2024-02"))
    command(folder, "run", "spec.yaml", "--direct")
    first = column(january, "people", "n")
    rows(folder, 3, "2024-01-20", 2000)  # late
    command(folder, "run", "spec.yaml", "--direct", "--revision", "1")
    revised = column(january, "people", "n")
    assert all(one - two > 500 for one, two in zip(revised, first, strict=True))

    command(folder, "run", "spec.yaml", "--direct", "--period", "2024-02")
    assert column(february, "apart", "was") == revised
    facts = json.loads((february / "facts.json").read_text(encoding="utf-8"))["earlier"]
    manifest = january / "manifest.json"
    (told,) = facts
    assert (told["period"], told["revision"]) == ("2024-01", 1)
    recipe = json.loads((february / "measurements/recipe.json").read_text(encoding="utf-8"))
    for taken in (recipe["derived"][0]["earlier"]["before"], recipe["compared"][0]):
        assert (taken["period"], taken["revision"]) == ("2024-01", 1)
    page = re.sub("<[^>]*>", "", (february / "index.html").read_text(encoding="utf-8"))
    assert "beside 2024-01, as it was published (ledger entry" in page
    assert "revision 1, manifest " + told["manifest"][:12] in page
    assert manifest.is_file()
    assert "measurements of 2024-01 are those of its bundle" in command(folder, "verify", str(february))

    before = {path: path.read_bytes() for path in february.rglob("*") if path.is_file()}
    rows(folder, 4, "2024-01-25", 2000)
    command(folder, "run", "spec.yaml", "--direct", "--revision", "2")
    assert column(january, "people", "n") != revised
    command(folder, "publish", "monthly/2024-02")
    assert before == {path: path.read_bytes() for path in february.rglob("*") if path.is_file()}
    assert "FAIL" not in command(folder, "verify", str(february))
