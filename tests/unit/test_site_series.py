"""Products over their periods: a page, a line with a band that breaks where a period is missing, and a feed."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from dprelease.publish import Restated, render, write
from dprelease.publish.base import Facts
from dprelease.publish.catalogue.entry import told_of
from dprelease.publish.catalogue.feed import Entry, feed
from dprelease.publish.products.series import panels_of
from dprelease.release.publishing.overview import write_overview
from tests.unit.publish_example import facts, measurements, plan
from tests.unit.test_publish_pages import Outline

ATOM = "{http://www.w3.org/2005/Atom}"


def row(region: str, value: str, lower: str, upper: str, status: str = "ok") -> dict[str, str]:
    found = {"region": region, "sex": "1", "persons": value, "persons_lower": lower, "persons_upper": upper}
    return {**found, "persons_status": status}


def released(root: Path, months: list[int], **changes: object) -> None:
    for month in months:
        made, period = plan(), f"2024-{month:02d}"
        release = made.release.model_copy(update={"period": period, "title": f"Visits, {period}"})
        publish = made.publish.model_copy(update={"formats": ("csv",)})
        made = made.model_copy(update={"release": release, "publish": publish})
        said = facts(made, ledger_sequence=month, ledger_hash=f"{month:064x}", **changes)
        write(render(made, measurements(), said), root / "regional-monitor" / period)


def test_twelve_periods_have_a_page_with_every_number_and_a_feed(tmp_path: Path) -> None:
    released(tmp_path, list(range(1, 13)))
    assert write_overview(tmp_path) == ""
    page = Outline((tmp_path / "regional-monitor/index.html").read_text(encoding="utf-8"))
    links = [str(attributes["href"]) for tag, attributes in page.tags if tag == "a" and attributes["href"] != "#main"]
    assert [link for link in links if link[:4] == "2024"] == [f"2024-{at:02d}/manifest.json" for at in range(12, 0, -1)]
    assert all((tmp_path / "regional-monitor" / link).is_file() for link in links)
    assert page.text.count("2,810 (2,771 to 2,849)") == 12
    assert "Visits: all periods" in page.text
    (data,) = page.data
    assert (data["@type"], len(data["dataset"])) == ("DataCatalog", 12)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.xml")}
    assert len(before) == 2
    assert write_overview(tmp_path) == ""
    assert {path: path.read_bytes() for path in before} == before


def test_a_missing_period_is_a_gap_and_a_withheld_number_is_no_zero() -> None:
    periods = ["2024-01", "2024-02", "2024-04", "2024-05", "2024-06"]
    texts = [("10", "8", "12"), ("12", "10", "14"), ("11", "9", "13"), ("", "", ""), ("14", "12", "16")]
    states = ["ok", "ok", "unreliable", "blank", "ok"]
    told = [
        (period, {"population": [row("1", *text, state)]})
        for period, text, state in zip(periods, texts, states, strict=True)
    ]
    (table,) = panels_of(plan(), told)
    (panel,) = table.panels
    assert panel.title == "Northeast, Male"
    assert [len(line.split()) for line in panel.lines] == [2, 1, 1]
    assert [len(band.split()) for band in panel.bands] == [4, 4, 4]
    assert [weak for _, _, weak in panel.dots] == [False, False, True, False]
    assert math.isnan(panel.points[3].value)
    assert panel.points[3].texts == ("not published", "")
    assert panel.points[0].texts == ("10", "(8 to 12)")
    assert table.periods == tuple(reversed(periods))
    places = [point.x for point in panel.points]
    assert (places[0], places[-1]) == (2.0, 98.0)
    assert places[2] - places[1] > 1.9 * (places[1] - places[0])  # as far apart as the days are


def test_periods_of_no_calendar_and_one_period_alone_have_no_line() -> None:
    told = {"population": [row("1", "10", "8", "12")]}
    assert panels_of(plan(), [("spring", told), ("summer", told)]) == ()
    assert panels_of(plan(), [("2024-01", told)]) == ()
    assert panels_of(plan(), [("2024-01", {}), ("2024-02", {})]) == ()


def entry(number: int, **changes: object) -> Entry:
    made = plan()
    said: Facts = facts(made, ledger_sequence=number, ledger_hash=f"{number:064x}", **changes)
    return Entry(told_of(made, said), said, "regional-monitor", "2024-03", "2024-03/index.html", ("a b/x.json", 9))


def test_a_feed_has_what_atom_demands_and_a_correction_says_why() -> None:
    restated = Restated(plan_fingerprint="a" * 64, sequence=3, reason="rows & <columns> were swapped\u202e")
    text = feed([entry(3), entry(8, restates=restated)], "Visits & more", "regional-monitor")
    root = ElementTree.fromstring(text)
    assert root.tag == f"{ATOM}feed"
    for each in (root, *root.findall(f"{ATOM}entry")):
        for name in ("id", "title", "updated"):
            assert len(each.findall(f"{ATOM}{name}")) == 1
        assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", each.findtext(f"{ATOM}id") or "")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", each.findtext(f"{ATOM}updated") or "")
        assert each.find(f"{ATOM}author/{ATOM}name") is not None
    first, second = root.findall(f"{ATOM}entry")
    assert (first.findtext(f"{ATOM}summary") or "").startswith(
        "Correction: rows & <columns> were swapped[U+202E]. Version 1."
    )
    assert first.findtext(f"{ATOM}id") != second.findtext(f"{ATOM}id")
    assert [each.get("href") for each in first.findall(f"{ATOM}link")] == ["2024-03/index.html", "a%20b/x.json"]
    again = ElementTree.fromstring(feed([entry(3)], "Other title", "regional-monitor"))
    assert again.findtext(f"{ATOM}id") == root.findtext(f"{ATOM}id")  # whatever comes later


def test_a_keyword_that_is_the_name_of_the_product_is_one_category() -> None:
    made = entry(3)
    told = replace(made.told, keywords=("income", made.name, "income"))
    root = ElementTree.fromstring(feed([replace(made, told=told)], "Releases", ""))
    assert [each.get("term") for each in root.iter(f"{ATOM}category")] == [made.name, "income"]


def test_an_empty_feed_is_still_one() -> None:
    root = ElementTree.fromstring(feed([], "Releases", ""))
    assert root.findtext(f"{ATOM}updated") == "1970-01-01T00:00:00Z"
    assert feed([entry(3, reserved_at="made up")], "Releases", "").count(b"<entry>") == 0
