"""A bundle whose author, or whose author's enemy, chose the worst words, keys and numbers: it is still a publication."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

from dprelease.noise import Measurement
from dprelease.publish import render
from dprelease.publish.site.html import site_files
from tests.planned import plan_of
from tests.unit.publish_example import facts
from tests.unit.test_publish_pages import Outline, lengthy

WORD = "Donaudampfschifffahrt" * 14 + "sverein"  # more than 300 letters without a space
MARKUP = '<script>alert(1)</script><img src=x onerror="alert(2)">'
UNIT = "</td><b>EUR\u00a0net</b>"  # with a no-break space
AREAS = [f"A{at:03}" for at in range(200)]
ARABIC, SPACED = "الرباط", "Zürich\u00a0\u202f1"
ROWS = re.compile(rb'<th scope="row"[^>]*><bdi>(\d{5})</bdi>')
LABELS = {"A000": WORD, "A001": MARKUP, "A002": {"ar": ARABIC}, "A003": SPACED}
SPEC = f"""
dprelease: 1
release: {{name: hostile, period: 2024, title: {json.dumps(MARKUP)}, curator: {json.dumps(MARKUP)}}}
privacy: {{unit: {{entity: person}}, budget: {{epsilon: 2, delta: 1e-9}}}}
tables:
  people:
    account: acs
    source: {{file: people.csv}}
    columns:
      area: {{type: text, title: {json.dumps(MARKUP)}, keys: {json.dumps(AREAS)}, labels: {json.dumps(LABELS)}}}
      sex: {{type: integer, keys: [1, 2]}}
      income: {{type: decimal, range: [0, 100000], step: 1, measured_in: {json.dumps(UNIT)}}}
queries:
  areas:
    title: {json.dumps(WORD)}
    table: people
    by: [area]
    measures: {{persons: {{count: rows}}, average: {{mean: income}}}}
  everybody: {{title: {json.dumps(MARKUP)}, table: people, measures: {{persons: {{count: rows}}}}}}
  withheld: {{table: people, by: [sex], measures: {{total: {{sum: income}}}}}}
publish:
  formats: [csv, json, html]
  unreliable: {{relative_error_above: 0.5, show: blank}}
  interactive: INTERACTIVE
"""


@cache
def bundle(interactive: str = "false") -> Mapping[str, bytes]:
    """Counts of some thousands, and sums of noise alone, so that a table has not one number that is shown."""
    plan = plan_of(SPEC.replace("INTERACTIVE", interactive))
    found = {}
    for step in plan.steps:
        answers = np.arange(step.numbers or 1, dtype=np.int64) + 90_000
        found[step.id] = Measurement(step.id, answers * 0 if step.id.startswith("withheld") else answers)
    return render(plan, found, facts(plan)).files


def pages(interactive: str = "false") -> dict[str, str]:
    return {path: bytes(data).decode() for path, data in bundle(interactive).items() if path.endswith(".html")}


def told(text: str) -> str:
    """As ``Outline.text`` has it: every space is one plain space."""
    return re.sub(r"\s+", " ", text)


def table(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(bytes(bundle()[f"tables/{name}.csv"]).decode(), newline="")))


def test_words_of_the_author_are_letters_on_every_page() -> None:
    for path, text in pages().items():
        found = Outline(text)
        tags = {tag for tag, _ in found.tags}
        assert not tags & {"script", "img"}, path
        assert "<b>EUR" not in text, path
        assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")], path
        assert "<script>alert" not in text, path
    words = Outline(pages()["index.html"]).text
    assert MARKUP in words
    assert told(UNIT) in words
    assert WORD in words


def test_a_script_of_another_direction_is_marked_and_no_space_is_lost() -> None:
    whole = "".join(pages().values())
    assert f'<bdi lang="ar" dir="rtl">{ARABIC}</bdi>' in whole
    assert told(SPACED) in told(whole)
    assert [row["area"] for row in table("areas")] == AREAS


def test_every_row_is_on_a_page_before_any_script_runs() -> None:
    """With search and sorting the page is the same, and what is not run hides nothing."""
    for interactive in ("false", "true"):
        found = pages(interactive)
        for name in ("areas", "everybody"):
            whole = "".join(text for path, text in found.items() if name in path or path == "index.html")
            cells = html.unescape(whole)
            assert all(f"{int(row['persons']):,}" in cells for row in table(name)), name
        assert not [path for path, text in found.items() if re.search(r"<tr[^>]* hidden|<table[^>]* hidden", text)]


def test_a_table_of_one_row_and_one_without_a_number_say_so() -> None:
    (row,) = table("everybody")
    assert row["persons"]
    assert all(each["total"] == "" and each["total_status"] for each in table("withheld"))
    words = "".join(Outline(text).text for text in pages().values())
    assert "withheld" in words
    assert not {"nan", "inf"} & set(words.split())


@pytest.mark.nightly
@pytest.mark.parametrize(("rows", "measures"), [(100_000, 2), (1_000, 100)])
def test_every_row_of_a_large_table_is_on_one_page_below_a_megabyte(rows: int, measures: int) -> None:
    made = site_files(lengthy(rows, measures), {})
    assert max(map(len, made.values())) < 1_000_000
    shown = [key for path, page in made.items() if path != "index.html" for key in ROWS.findall(page)]
    assert len(shown) == rows * (len(shown) // rows)
    assert len(set(shown)) == rows
    assert sum(page.count(b"<figure") for page in made.values()) <= 12
