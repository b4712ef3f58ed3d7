"""The script of tables in a real browser, in every language of pages: its words, what it finds, and how it sorts.

Skipped where there is no Chromium. Nothing is fetched while it runs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dprelease.publish.site.html import html_files
from tests.pages.browser import CHROMIUM, Browser, opened
from tests.unit.languages_example import yearly

pytestmark = [
    pytest.mark.skipif(shutil.which(CHROMIUM) is None, reason=f"{CHROMIUM} is not installed"),
    pytest.mark.slow,
]
PATHS = {"de": "index.html", "fr": "fr/index.html", "en": "en/index.html"}
CLIPPED = "document.querySelector('table[data-table=clipped]')"
SHOWN = f"[...{CLIPPED}.tBodies[0].rows].filter((row) => !row.hidden)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for path, page in html_files(yearly(), {}).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(page)
    return folder


def visited(browser: Browser, page: Path) -> None:
    browser.send("Page.navigate", {"url": page.as_uri()})
    browser.until(f"location.href === {json.dumps(page.as_uri())} && document.readyState === 'complete'")


def numbers(browser: Browser) -> list[Any]:
    """The areas of the rows in the order in which they stand, with their numbers as they are written."""
    cells = "[row.cells[0].textContent, ...[...row.querySelectorAll('b')].map((each) => each.textContent)]"
    return list(browser.value(f"{SHOWN}.map((row) => {cells})"))


@pytest.mark.parametrize("tag", PATHS)
def test_rows_are_found_and_sorted_as_the_language_writes_words_and_numbers(
    tag: str, browser: Browser, site: Path
) -> None:
    visited(browser, site / PATHS[tag])
    assert browser.value(f"{CLIPPED}.querySelectorAll('thead button').length") == 4, "the policy let the script run"
    group, point = {"de": (".", ","), "fr": ("\u202f", ","), "en": (",", ".")}[tag]
    published = numbers(browser)
    rising = sorted(published, key=lambda row: float(row[2].replace(group, "").replace(point, ".")))
    assert [row[2] for row in published] != [row[2] for row in rising[::-1]]
    assert any(group in row[1] for row in published)
    assert any(point in row[3] for row in published)
    button = f"{CLIPPED}.querySelectorAll('thead button')[2].click()"
    browser.value(button)
    assert numbers(browser) == rising
    browser.value(button)
    assert numbers(browser) == rising[::-1]
    browser.value(button)
    assert numbers(browser) == published

    box = f"{CLIPPED}.closest('.scroll').previousElementSibling"
    words = {"de": "Zeilen suchen", "fr": "Chercher des lignes", "en": "Find rows"}[tag]
    assert browser.value(f"{box}.querySelector('label').textContent").strip() == words
    browser.value(
        f"(() => {{ const field = {box}.querySelector('input'); field.value = '3'; "
        "field.dispatchEvent(new Event('input')); })()"
    )
    assert [row[0] for row in numbers(browser)] == ["3"]
    status = {"de": "1 von 6 Zeilen", "fr": "1 sur 6 lignes", "en": "1 of 6 rows"}[tag]
    assert browser.value(f"{box}.querySelector('[role=status]').textContent") == status
