"""The pages in a real browser, looked at by axe-core: what ``test_publish_pages`` cannot see without one.

Skipped where there is no Chromium, no Node or no axe-core. To run it: ``npm install --prefix DIR axe-core``, then set
``DPRELEASE_AXE=DIR/node_modules/axe-core/axe.min.js``. Nothing is fetched while it runs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dprelease.publish import published_tables, render, write
from dprelease.publish.base import Content
from dprelease.publish.bundle.checks.checking_page import checking_page
from dprelease.publish.bundle.checks.opened import read_bundle
from dprelease.publish.products.listed import Listed
from dprelease.publish.products.releases import overview_files
from dprelease.publish.site.html import html_files, site_files
from dprelease.release.publishing.overview import write_overview
from tests.unit import formats_example, languages_example, publish_example, test_hostile_bundle, test_site_series
from tests.unit.workload_example import content as of_workloads
from tests.unit.workload_example import workload

AXE = os.environ.get("DPRELEASE_AXE", "")
CHROMIUM = os.environ.get("CHROMIUM", "chromium")
RUNNER = Path(__file__).with_name("axe.mjs")
MISSING = [
    reason
    for reason, found in (
        (f"{CHROMIUM} is not installed", shutil.which(CHROMIUM)),
        ("node is not installed", shutil.which("node")),
        ("DPRELEASE_AXE does not name axe.min.js of axe-core", AXE and Path(AXE).is_file()),
    )
    if not found
]
pytestmark = pytest.mark.skipif(bool(MISSING), reason="; ".join(MISSING))
GRAVE = {"serious", "critical"}


def looked_at(*pages: Path) -> list[dict[str, Any]]:
    done = subprocess.run(["node", RUNNER, AXE, *pages], capture_output=True, text=True, timeout=300, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 3 * len(pages), done.stderr
    assert done.returncode == any(_grave(each) or each["sideways"] > 0 for each in found)
    return found


def _grave(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in found["violations"] if each["impact"] in GRAVE]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bundles, their overview, a hostile index, the pages of a long table, and those of a workload."""
    folder = tmp_path_factory.mktemp("releases")
    census = workload("census", ("race", "adult", "sex"), (0, 1, 2), ("region", "state"), "Race, age and sex")
    sizes = {"region": 4, "state": 6, "race": 7, "adult": 2, "sex": 2}
    plan = publish_example.plan()
    write(render(plan, publish_example.measurements(), publish_example.facts(plan)), folder / "monitor/2024")
    bundle, _ = read_bundle(folder / "monitor/2024")
    assert bundle is not None
    assert bundle.facts is not None
    listed = Listed("monitor/2024", bundle.manifest, bundle.facts, plan)
    for path, data in overview_files([listed], ["broken/2020"]).items():
        (folder / path).write_bytes(data)
    for name, content in (
        ("chosen", formats_example.chosen()),
        ("across", _across()),
        ("hostile", formats_example.hostile()),
        ("long", formats_example.hostile(tuple(f"{at:04d}" for at in range(1200)))),
        ("workload", of_workloads(census, sizes=sizes)),
    ):
        for path, data in site_files(content, {}).items():
            target = folder / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    made = languages_example.plan()
    write(
        render(made, languages_example.measured(made), publish_example.facts(made)),
        folder / "tongues/bevoelkerung/2024-03",
    )
    assert write_overview(folder / "tongues") == ""
    for path, data in html_files(languages_example.yearly(), {}).items():
        target = folder / "yearly" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    test_site_series.released(folder / "months", [1, 2, 3, 5])
    assert write_overview(folder / "months") == ""
    (folder / "worst").mkdir()
    for path, text in test_hostile_bundle.pages().items():
        (folder / "worst" / path).write_text(text, encoding="utf-8")
    (folder / "verify.html").write_bytes(checking_page([]))
    return folder


def _across() -> Content:
    """Tables with a column across, which can be searched and sorted."""
    made = publish_example.plan()
    changes = {"across": {"population": "sex", "income": "sex"}, "interactive": True}
    made = made.model_copy(update={"publish": made.publish.model_copy(update=changes)})
    tables = published_tables(made, publish_example.measurements())
    return Content(made, tables, publish_example.facts(made), publish_example.measurements())


def walked(page: Path, *steps: str) -> list[dict[str, Any]]:
    command = ["node", str(RUNNER.with_name("keyboard.mjs")), str(page), *steps]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_table_is_searched_and_sorted_by_the_keyboard_alone(site: Path) -> None:
    page = site / "across/index.html"
    plain = walked(page)[0]
    assert plain["rows"] == ["Northeast 1", "Midwest 2", "South 3", "West 4"]
    to_field = next(at for at, each in enumerate(walked(page, *["Tab"] * 12)) if each["focus"] == "input")
    steps = ["=th", "Tab*2", "Tab", "Enter", "Enter", "Enter"]
    _, field, typed, head, second, rising, falling, back = walked(page, f"Tab*{to_field}", *steps)
    assert field["focus"] == "input"
    assert (typed["rows"], typed["status"]) == (["Northeast 1", "South 3"], "2 of 4 rows")
    assert (head["focus"], head["words"]) == ("button", "region")
    assert (second["words"], second["outline"]) == ("Male", "solid")
    assert (rising["rows"], rising["sorted"]) == (["Northeast 1", "South 3"], [None, "ascending", None])
    assert (falling["rows"], falling["sorted"]) == (["South 3", "Northeast 1"], [None, "descending", None])
    assert (back["rows"], back["sorted"]) == (typed["rows"], [None, None, None])


def test_no_page_has_a_serious_fault_or_scrolls_sideways(site: Path) -> None:
    pages = ["index.html", "monitor/2024/index.html", "monitor/2024/accounting.html", "chosen/index.html"]
    pages += ["across/index.html", "monitor/index.html"]
    pages += ["hostile/index.html", "long/pages/population-2.html", "workload/index.html"]
    pages += ["worst/index.html", "worst/accounting.html"]
    pages += ["months/regional-monitor/index.html", "months/regional-monitor/@periods/population.html"]
    pages += ["workload/pages/census.race.html", "workload/pages/census__state__race__sex.html"]
    found = looked_at(*(site / page for page in pages))
    assert [(each["page"], fault) for each in found for fault in each["violations"]] == []
    assert [each["page"] for each in found if each["sideways"] > 0] == []


def test_pages_in_german_and_french_and_the_checking_page_have_no_fault_either(site: Path) -> None:
    """Arabic labels and a map among them; the page that checks a bundle in a browser."""
    pages = ["tongues/bevoelkerung/2024-03/index.html", "tongues/bevoelkerung/2024-03/accounting.html", "verify.html"]
    pages += ["yearly/fr/index.html", "yearly/fr/accounting.html", "tongues/bevoelkerung/index.html"]
    found = looked_at(*(site / page for page in pages))
    assert [(each["page"], fault) for each in found for fault in each["violations"]] == []
    assert [each["page"] for each in found if each["sideways"] > 0] == []


def test_the_look_can_find_faults(site: Path, tmp_path: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    worse = text.replace("--muted: #4a5866", "--muted: #c0c0c0").replace("--muted: #a9b6c2", "--muted: #333333")
    (tmp_path / "pale.html").write_text(worse.replace('lang="en"', ""), encoding="utf-8")
    (tmp_path / "wide.html").write_text(
        text.replace("<main", '<div style="width: 200rem">wide</div><main'), encoding="utf-8"
    )
    found = looked_at(tmp_path / "pale.html", tmp_path / "wide.html")
    assert all({"color-contrast", "html-has-lang"} <= {each["id"] for each in one["violations"]} for one in found[:3])
    assert all(one["sideways"] > 0 for one in found[3:])
