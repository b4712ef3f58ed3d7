"""Texts from the data that a spreadsheet would run: escaped in CSV, one to one, and read back by what checks a bundle."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.publish import check_bundle, render
from dprelease.publish.bundle.measurements import as_published, measurement_files, measurements_in
from dprelease.publish.csv_text import escaped, unescaped
from dprelease.spec.load import load
from tests.planned import SPEC, plan_of
from tests.unit.choices_example import DERIVED, choices, measured
from tests.unit.publish_example import facts

KEYS = tuple((text,) for text in ("=cmd", "+1", "-1", "@x", "\t=1", "'tis", "a=b", "＝1", "\u202eabc", "06", ""))
ASKED = ["=cmd", "+1", "-1", "@x", "\t=1", "'tis", "＝1"]


def released(**publish: Any) -> tuple[ReleasePlan, Mapping[str, bytes]]:
    made = choices(DERIVED)
    shown = made.publish.model_copy(update={"layout": 2, "formats": ("csv", "parquet", "html"), **publish})
    made = made.model_copy(update={"publish": shown})
    return made, render(made, answers(), facts(made)).files


def answers() -> dict[str, Measurement]:
    return measured(KEYS)


def keys(data: bytes, column: str) -> list[str]:
    return [row[column] for row in csv.DictReader(io.StringIO(data.decode(), newline=""))]


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


@pytest.mark.slow
@given(st.text())
def test_escaping_is_one_to_one_and_leaves_no_formula(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert not escaped(text).startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1"])
def test_a_formula_that_is_not_escaped_is_no_key(text: str) -> None:
    with pytest.raises(ValueError, match="not escaped"):
        unescaped(text)


def test_selected_keys_are_escaped_wherever_they_stand_as_csv() -> None:
    plan, files = released()
    for path in ("tables/terms.csv", "measurements/terms.keys.csv", "measurements/terms.rows.csv"):
        found = keys(files[path], "term")
        assert [unescaped(text) for text in found] == [key for (key,) in KEYS]
        assert [unescaped(text) for text in found if text.startswith("'")] == ASKED
    assert {name: each.digest for name, each in measurements_in(plan, files).items()} == {
        name: each.digest for name, each in as_published(answers()).items()
    }


def test_parquet_has_the_key_itself_and_the_package_says_what_csv_has() -> None:
    import pyarrow.parquet as pq

    _, files = released()
    assert pq.read_table(io.BytesIO(files["tables/terms.parquet"])).column("term").to_pylist() == [
        key for (key,) in KEYS
    ]
    resources = {each["name"]: each for each in json.loads(files["datapackage.json"])["resources"]}
    (term, *_) = resources["terms"]["schema"]["fields"]
    assert term["dprelease"] == {"escaped": "'"}
    assert "apostrophe" in term["description"]
    others = [field for name, each in resources.items() if name != "terms" for field in each["schema"]["fields"]]
    assert not [field["name"] for field in others if "dprelease" in field and field["name"] != "term"]


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("how", [None, "escape", "keep"])
def test_such_a_bundle_verifies(tmp_path: Path, how: str | None) -> None:
    _, files = released(csv_formulas=how)
    assert [each for each in check_bundle(written(tmp_path, files)) if each.passed is False] == []
    raw = keys(files["tables/terms.csv"], "term") == [key for (key,) in KEYS]
    assert raw == (how == "keep")


def test_a_formula_put_into_a_published_table_is_found(tmp_path: Path) -> None:
    from dprelease.canonical import sha256
    from dprelease.publish.manifest import Manifest

    files = dict(released()[1])
    name = "tables/terms.csv"
    files[name] = files[name].replace(b'"\'=cmd"', b'"=cmd"')
    manifest = Manifest.from_canonical(files["manifest.json"])
    told = manifest.files[name].model_copy(update={"sha256": sha256(files[name]), "bytes": len(files[name])})
    files["manifest.json"] = manifest.model_copy(update={"files": {**manifest.files, name: told}}).to_bytes()
    wrong = {each.name: each.detail for each in check_bundle(written(tmp_path, files)) if each.passed is False}
    assert name in wrong["tables"]


def test_declared_keys_stay_as_they_are_unless_the_release_asks() -> None:
    text = SPEC.replace('"01", "02", "06"', '"=1", "02", "06"')
    for more, first in (
        ("", "=1"),
        ("publish: {csv_formulas: keep}\n", "=1"),
        ("publish: {csv_formulas: escape}\n", "'=1"),
    ):
        plan = plan_of(text + more)
        found = {
            name: Measurement(name, np.full(numbers or 0, 50, dtype=np.int64)) for name, numbers in plan.numbers.items()
        }
        files = measurement_files(plan, found)
        assert keys(files["measurements/population.rows.csv"], "region")[0] == first


def test_a_spec_that_says_nothing_of_formulas_keeps_its_fingerprint() -> None:
    assert "csv_formulas" not in load(SPEC, "s").spec.canonical()
    assert load(SPEC, "s").fingerprint != load(SPEC + "publish: {csv_formulas: escape}\n", "s").fingerprint


def test_what_reorders_text_is_written_out_on_pages() -> None:
    _, files = released()
    page = files["index.html"].decode()
    assert "\u202e" not in page
    assert "[U+202E]abc" in page
