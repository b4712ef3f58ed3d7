"""Pages on paper: no row of a table lies on two sheets, wherever on a sheet its table begins.

Chromium gives a place between two rows that shall stay together the weight of a place within a row. A rule that kept the first
three rows of every table on one sheet made it cut one of them in an accounting page; the rule is gone.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from pypdf import PdfReader

from dprelease.publish import render
from tests.pages.test_axe import MISSING
from tests.unit import publish_example

pytestmark = pytest.mark.skipif(bool(MISSING), reason="; ".join(MISSING))
RUNNER = Path(__file__).with_name("paper.mjs")
HEIGHTS = tuple(str(height) for height in range(150, 240, 5))
CAREFREE = "@media print { .scroll, tr, caption, thead, tbody tr:first-child { break-inside: auto !important; } td, th { orphans: 1; widows: 1; } }"


def cut_rows(page: Path, folder: Path, css: str) -> tuple[int, list[str]]:
    """How many rows were printed, over all heights, and those that lie on two sheets."""
    folder.mkdir()
    subprocess.run(["node", RUNNER, page, folder, css, *HEIGHTS], timeout=300, check=True)
    seen, cut = 0, []
    for height in HEIGHTS:
        sheets = defaultdict(set)
        for at, sheet in enumerate(PdfReader(folder / f"{height}.pdf").pages):
            for row in re.findall(r"Q[SE](\d+x\d+)Q", sheet.extract_text()):
                sheets[row].add(at)
        seen += len(sheets)
        cut += [f"{height}: {row}" for row, found in sheets.items() if len(found) > 1]
    return seen, cut


def test_no_row_is_cut_between_two_sheets(tmp_path: Path) -> None:
    plan = publish_example.plan()
    whole = render(plan, publish_example.measurements(), publish_example.facts(plan)).files["accounting.html"].decode()
    parties = re.search(r'<section aria-labelledby="around">.*?</table>\n</div>', whole, re.DOTALL)
    assert parties is not None
    page = tmp_path / "accounting.html"
    page.write_text(f"{whole.partition('<main')[0]}<main>{parties.group()}</section></main></body></html>")
    seen, cut = cut_rows(page, tmp_path / "now", "")
    assert seen == 5 * len(HEIGHTS)
    assert cut == []
    assert cut_rows(page, tmp_path / "carefree", CAREFREE)[1]
