"""Many small queries: they share pages and files of measurements, and each table is written as if it were alone."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dprelease.canonical import indented
from dprelease.errors import CheckFailed
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.publish import Facts, check_bundle, render, write
from dprelease.publish.base import Content
from dprelease.publish.bundle.checks.opened import read_bundle
from dprelease.publish.bundle.checks.tables import tables_agree
from dprelease.publish.bundle.measurements import measurement_files, measurements_in
from dprelease.publish.bundle.package import planned_files
from dprelease.publish.bundle.research import research_paths
from dprelease.publish.bundle.step_files import RECIPE
from dprelease.publish.formats.datapackage import csv_files
from dprelease.publish.formats.parquet import parquet_files
from dprelease.publish.layouts import filed
from dprelease.publish.measured import published_tables
from dprelease.publish.packed import HashedFile, digest_in, only_hashed, pack
from dprelease.publish.site import paging
from dprelease.publish.stacked import stacks
from dprelease.regular import TooLarge, read_regular, regular_blocks
from tests.planned import SPEC, plan_of
from tests.unit import formats_example
from tests.unit.publish_example import facts

LARGE = 300  # rows: more than share a page or a file
MANY = SPEC.partition("queries:")[0].replace(
    "      sex:", f"      village: {{type: integer, keys: {{from: 1, to: {LARGE}}}}}\n      sex:"
) + "queries:\n" + "".join(
    [f"  one-{at}: {{table: people, where: income > {at}, measures: {{n: {{count: rows}}}}}}\n" for at in range(30)]
    + [f"  two{at}: {{table: people, by: [sex], where: income > {at}, measures: {{n: {{count: rows}}}}}}\n" for at in range(15)]
    + [
        f"  three{at}: {{table: people, by: [region], where: income > {at}, title: 'A & <b>', "
        "measures: {n: {count: rows}, pay: {mean: income, clip: [0, 200000]}}}\n"
        for at in range(5)
    ]
    + ["  middle: {table: people, by: [sex], measures: {m: {quantiles: income, at: [0.5]}}}\n"]
    + ["  large: {table: people, by: [village], measures: {n: {count: rows}}}\n"]
)  # fmt: skip


@pytest.fixture(scope="module")
def many() -> ReleasePlan:
    return plan_of(MANY)


def drawn(plan: ReleasePlan) -> dict[str, Measurement]:
    generator = np.random.default_rng(3)
    return {
        step.id: Measurement(step.id, generator.integers(0, 90, step.numbers or 0) - (step.cells == 2))
        for step in plan.measured
    }


@pytest.fixture(scope="module")
def files(many: ReleasePlan) -> Mapping[str, bytes]:
    return render(many, drawn(many), _facts(many)).files


def _facts(plan: ReleasePlan) -> Facts:
    return facts(plan).model_copy(update={"accounts": ()})


def _of_the_second_layout(plan: ReleasePlan) -> ReleasePlan:
    return plan.model_copy(update={"publish": plan.publish.model_copy(update={"layout": 2})})


def test_few_queries_have_the_layout_that_they_had_and_many_the_next() -> None:
    few = MANY.partition("queries:")[0] + "queries:\n" + "\n".join(MANY.partition("queries:\n")[2].splitlines()[:40])
    assert plan_of(few).publish.layout == 2
    more = f"{few}\n  more: {{table: people, measures: {{n: {{count: rows}}}}}}\n"
    assert plan_of(more).publish.layout == 3


def test_every_step_is_read_from_a_shared_file_as_the_recipe_says(
    many: ReleasePlan, files: Mapping[str, bytes]
) -> None:
    """By the module ``csv`` and the words of the recipe alone."""
    recipe, measured = json.loads(files[RECIPE]), drawn(many)
    shared = [step for step in recipe["steps"] if "rows_of" in step]
    assert len(shared) > 50
    assert recipe["words"]["rows_of"]
    assert len({step["file"] for step in shared}) < 6
    for step in recipe["steps"]:
        lines = list(csv.DictReader(io.StringIO(files[step["file"]].decode())))
        own = [line for line in lines if "rows_of" not in step or line[step["rows_of"]] == step["step"]]
        assert list(own[0]) == step["columns"]
        names = step["columns"][len(step["columns"]) - len(step["parts"]) :]
        values = [int(line[name]) for name in names for line in own]
        assert values == measured[step["step"]].values.tolist()
    assert measurements_in(many, files).keys() == measured.keys()
    assert all(found.digest == measured[name].digest for name, found in measurements_in(many, files).items())


def test_files_are_those_that_the_plan_foretells(many: ReleasePlan, files: Mapping[str, bytes]) -> None:
    expected = [path for path in files if not path.startswith("pages/") and path != "presentation.json"]
    assert sorted(expected) == list(planned_files(many))
    alone = planned_files(_of_the_second_layout(many))
    assert sum(path.startswith("measurements/") for path in alone) == len(many.steps) + 1 + len(research_paths(many))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"one-3.', b'"one-33.'),
        (b'"one-3.', b'"one-4.'),
        (b"\r\n", b"\n"),
        (b"step,", b"steps,"),
    ],
)
def test_a_shared_file_with_other_rows_is_refused(
    many: ReleasePlan, files: Mapping[str, bytes], old: bytes, new: bytes
) -> None:
    name = next(path for path in files if path.startswith("measurements/shared") and old in files[path])
    changed = files[name].replace(old, new, 1)
    assert changed != files[name]
    with pytest.raises(CheckFailed, match="shared"):
        measurements_in(many, {**files, name: changed})
    lines = files[name].splitlines(keepends=True)
    for rows in (lines[:-1], [*lines, lines[-1]], [lines[0], *lines[2:], lines[1]]):
        with pytest.raises(CheckFailed, match="shared"):
            measurements_in(many, {**files, name: b"".join(rows)})


def test_a_column_that_is_called_step_is_told_from_the_one_with_ids() -> None:
    plan = plan_of(MANY.replace("sex:", "step:").replace("[sex]", "[step]"))
    made = measurement_files(plan, drawn(plan))
    (file,) = {each["file"] for each in json.loads(made[RECIPE])["steps"] if each["columns"][1:2] == ["step"]}
    assert made[file].startswith(b"step_,step,value")
    assert measurements_in(plan, made).keys() == drawn(plan).keys()


def test_the_bundle_is_checked_whole(many: ReleasePlan, files: Mapping[str, bytes], tmp_path: Path) -> None:
    write(render(many, drawn(many), _facts(many)), tmp_path / "bundle")
    found = {each.name: each for each in check_bundle(tmp_path / "bundle")}
    for name in ("tables", "measurements", "values", "rendered again", "files", "nothing else"):
        assert found[name].passed, found[name]
    name = "measurements/shared-1.csv"
    text = files[name].decode().splitlines(keepends=True)
    value = int(text[1].rpartition(",")[2])
    _put(tmp_path / "bundle", name, (text[0] + text[1].replace(f",{value}", f",{value + 1}") + "".join(text[2:])))
    after = {each.name: each.passed for each in check_bundle(tmp_path / "bundle")}
    assert after["files"]  # whoever changes a file can change its hash
    assert not after["rendered again"]
    assert not after["values"]


def _put(bundle: Path, name: str, text: str) -> None:
    """Another file in the place of one, and its hash in the manifest."""
    data = text.encode()
    (bundle / name).write_bytes(data)
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    told = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    (bundle / "manifest.json").write_text(f"{told}\n", encoding="utf-8")


def test_of_files_made_again_one_is_read_and_of_all_others_each(
    many: ReleasePlan, files: Mapping[str, bytes], tmp_path: Path
) -> None:
    """A key that is changed in the file that was not made again is found, whichever format that is."""
    write(render(many, drawn(many), _facts(many)), tmp_path / "bundle")
    text = files["tables/two0.csv"].decode()
    _put(tmp_path / "bundle", "tables/two0.csv", text.replace("\r\n2,", "\r\n3,"))
    bundle, _ = read_bundle(tmp_path / "bundle")
    assert bundle is not None
    every = frozenset(files)
    assert not tables_agree(bundle, every)  # the one that is read is the other one
    assert "tables/two0.csv" in tables_agree(bundle, every - {"tables/two0.csv"})
    assert "tables/two0.csv" in tables_agree(bundle, every - {"tables/two0.csv", "tables/two0.parquet"})
    assert "tables/two0.csv" in tables_agree(bundle)


def test_every_small_table_is_on_one_page_where_the_index_leads_to(
    many: ReleasePlan, files: Mapping[str, bytes]
) -> None:
    pages = {path: files[path].decode() for path in files if path.startswith("pages/")}
    assert sorted(pages) == ["pages/1.html", "pages/2.html", "pages/large.html"]
    index = files["index.html"].decode()
    for query in many.queries:
        anchor = f'id="table-{query.name}"'
        holding = [path for path, text in pages.items() if text.count(anchor) == 1]
        assert len(holding) == (query.name != "large")
        assert all(text.count(anchor) < 2 for text in pages.values())
        link = f'href="{holding[0]}#table-{query.name}"' if holding else 'href="pages/large.html"'
        assert index.count(link) == 1
    assert '<a rel="next" href="../pages/2.html">' in pages["pages/1.html"]
    assert '<a rel="prev" href="../pages/1.html">' in pages["pages/2.html"]
    assert all("A & <b>" not in text for text in pages.values())
    for path, text in pages.items():
        for href in re.findall(r'href="\.\./([^"#]+)', text):
            assert href in files, f"{path} leads to {href}"
        for href in re.findall(r'href="#([^"]+)"', text):
            assert f'id="{href}"' in text, f"{path} leads to {href}"
        assert len(text) < paging.LARGEST_PAGE


def test_numbers_on_a_shared_page_are_those_of_a_page_of_its_own(many: ReleasePlan, files: Mapping[str, bytes]) -> None:
    old = _of_the_second_layout(many)
    alone = render(old, drawn(old), _facts(old)).files
    shared = files["pages/1.html"].decode() + files["pages/2.html"].decode()
    for query in many.queries:
        if query.name != "large":
            body = re.search(r"<tbody>.*</tbody>", alone[f"pages/{query.name}.html"].decode(), re.DOTALL)
            assert body is not None
            assert body[0] in shared
    same = [path for path in alone if path.startswith("tables/") and path.endswith((".csv", ".parquet"))]
    assert len(same) == 2 * len(many.queries)
    assert all(alone[path] == files[path] or path.endswith(".parquet") for path in same)


def test_a_page_has_no_more_tables_than_it_may(monkeypatch: pytest.MonkeyPatch, many: ReleasePlan) -> None:
    tables = published_tables(many, drawn(many))
    monkeypatch.setattr(paging, "MOST_SHARING", 7)
    places = paging.paged(tables, sharing=True)
    counts: dict[str, int] = {}
    for place in places:
        counts[place.pages[0].path] = counts.get(place.pages[0].path, 0) + place.shared
    assert max(counts.values()) == 7
    monkeypatch.setattr(paging, "LARGEST_PAGE", paging._FRAME + 20_000)
    assert 1 < len({place.pages[0].path for place in paging.paged(tables, sharing=True) if place.shared}) < len(tables)
    assert not any(place.shared for place in paging.paged(tables))


EXAMPLES = {
    "plain": formats_example.plain,
    "rehearsal": lambda: formats_example.plain(rehearsal=True),
    "blank": lambda: formats_example.plain(show="blank"),
    "hostile": formats_example.hostile,
    "chosen": formats_example.chosen,
    "whole": formats_example.whole,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_files_of_tables_that_are_written_together_are_those_of_each_alone(name: str) -> None:
    content = EXAMPLES[name]()
    several = [
        replace(table, name=f"{table.name}{at}", title=f"{table.title} {at}")
        for table in content.tables
        for at in range(3)
    ]
    reverse = [
        replace(each, keys=tuple(column[::-1] for column in each.keys), name=f"{each.name}r") for each in several
    ]
    together = replace(content, tables=(*several, *reverse))
    assert any(len(stack.tables) > 1 for stack in stacks(together.tables))
    for make in (csv_files, parquet_files):
        found = make(together, {})
        assert len(found) == len(together.tables)
        for table in together.tables:
            ((path, data),) = make(replace(content, tables=(table,)), {}).items()
            assert found[path] == data, path


def test_tables_are_stacked_by_form_and_no_further_than_there_is_room(
    monkeypatch: pytest.MonkeyPatch, many: ReleasePlan
) -> None:
    tables = filed(many, published_tables(many, drawn(many)))
    whole = list(stacks(tables))
    assert sorted(table.name for stack in whole for table in stack.tables) == sorted(each.name for each in tables)
    assert max(len(stack.tables) for stack in whole) == 30
    content = Content(many, tables, _facts(many), {})
    before = dict(csv_files(content, {})), dict(parquet_files(content, {}))
    monkeypatch.setattr("dprelease.publish.stacked._MOST", 5)
    assert max(stack.whole.cells for stack in stacks(tables) if len(stack.tables) > 1) <= 5
    assert (dict(csv_files(content, {})), dict(parquet_files(content, {}))) == before
    monkeypatch.setattr("dprelease.publish.csv_text._BYTES_AT_ONCE", 1)
    assert dict(csv_files(content, {})) == before[0]


def test_a_large_file_that_is_only_hashed_has_the_size_and_the_hash_that_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dprelease.publish.packed._SMALL", 10)
    blocks = [b"abc" * at for at in range(9)]
    with only_hashed():
        found, small = pack(iter(blocks)), pack([b"abc"])
    assert small == b"abc"
    assert isinstance(found, HashedFile)
    assert (len(found), found.sha256) == (108, hashlib.sha256(b"".join(blocks)).hexdigest())
    with pytest.raises(LookupError):
        list(found.blocks())
    kept = pack(iter(blocks))
    assert not isinstance(kept, HashedFile)
    assert digest_in({"a": kept}, "a") == found.sha256  # type: ignore[dict-item] # as a bundle keeps it


def test_blocks_of_a_file_are_its_bytes_and_end_where_it_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert [*regular_blocks(path, 10, at_once=4)] == [b"0123", b"4567", b"89"]
    assert read_regular(path, 10) == b"0123456789"
    with pytest.raises(TooLarge):
        read_regular(path, 9)
    blocks = regular_blocks(path, 10, at_once=4)
    assert next(blocks) == b"0123"
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(TooLarge):
        list(blocks)


VALUES = [
    {"a": [1, -2, "ä\n\"\\", True, None], "b": {}, "c": [], "d": {"e": [[], [{}], {"f": 1.5}]}, "": ()},
    {"int": 3, "less": -(10**30), "bool": True, "not": False, "none": None, "in": [2, False, {"one": 1}]},
    "text",
    [],
    7,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("plain", [True, False])
def test_indented_json_is_that_of_the_standard_library(value: object, plain: bool) -> None:
    assert indented(value, plain=plain) == json.dumps(value, indent=1, ensure_ascii=plain)


def test_indented_json_refuses_what_json_cannot_hold() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        indented({"a": float("nan")})
    with pytest.raises(TypeError):
        indented({1: 2})
