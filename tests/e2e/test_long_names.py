"""The longest name that a table may have, 91 letters, is a file in every format; a longer one is refused first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import command
from tests.workloads import crosstabs, small_workloads, spec_of

pytestmark = pytest.mark.slow

LONGEST = 91
KEY = "k" * 40
FORMATS = {"csv": "csv", "parquet": "parquet", "json": "json", "sdmx": "sdmx.csv"}


def _spec(letters: int) -> str:
    """A workload whose one table is named by itself and a key column, both long."""
    name = "t" * (letters - len(KEY) - len("__"))
    text = spec_of(crosstabs(name=name).replace("of: [sex, race, band], ways: [0, 1, 2]", f"of: [{KEY}], ways: [1]"))
    return text.replace("html]", "html, xlsx, json, sdmx]").replace("band: {", f"{KEY}: {{")


def test_a_name_of_91_letters_is_published_in_every_format_and_one_more_is_refused(tmp_path: Path) -> None:
    small_workloads(tmp_path, _spec(LONGEST + 1), rows=300)
    refused = command(tmp_path, "validate", "spec.yaml", code=2)
    assert "DPR-S660" in refused
    assert "has 92 letters, more than 91" in refused
    (tmp_path / "spec.yaml").write_text(_spec(LONGEST), encoding="utf-8")
    command(tmp_path, "run", "spec.yaml", "--direct")
    bundle = tmp_path / "releases" / "census" / "2030"
    name = next(path.stem for path in (bundle / "tables").glob("t*.parquet"))
    assert len(name) == LONGEST
    for ending in FORMATS.values():
        assert (bundle / "tables" / f"{name}.{ending}").stat().st_size > 0
    assert (bundle / "tables" / "workbook.xlsx").stat().st_size > 0
    assert "rendered again" in command(tmp_path, "verify", str(bundle))
