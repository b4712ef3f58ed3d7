"""Large tables: packed in memory, written in parts, checked by columns, and left out where no reader could take them."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.table import Column
from dprelease.errors import PublishError
from dprelease.estimate import Coded
from dprelease.plan.document import Publish, ReleasePlan
from dprelease.publish import check_bundle, check_publishable, render, write
from dprelease.publish.base import Publication
from dprelease.publish.bundle.checks import opened as check_opened
from dprelease.publish.bundle.folder import files_in
from dprelease.publish.formats import cube, jsonstat, parquet
from dprelease.publish.formats.cube import keys_repeat
from dprelease.publish.packed import Files, Packed, blocks_of, digest_in, kept, pack, size_in
from tests.unit import formats_example
from tests.unit.publish_example import facts, measurements, plan


def random_bytes(size: int) -> bytes:
    return np.random.default_rng(size).integers(48, 58, size, dtype=np.uint8).tobytes()


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is large."""
    monkeypatch.setattr("dprelease.publish.packed._SMALL", 100)
    monkeypatch.setattr("dprelease.publish.packed._PART", 150)
    monkeypatch.setattr(check_opened, "_SMALL", 100)


def asked(*formats: str, **changes: Any) -> ReleasePlan:
    return plan(publish=Publish.model_validate({"unreliable_above": Fraction(1, 2), "formats": formats}), **changes)


def test_a_small_file_is_its_bytes_and_a_large_one_is_packed() -> None:
    assert pack([b"ab", b"", b"c"]) == b"abc"
    assert pack([]) == b""
    blocks = [random_bytes(3_000_000 + at) for at in range(14)]
    whole = b"".join(blocks)
    found = pack(iter(blocks))
    assert isinstance(found, Packed)
    assert sum(len(part) for _, part in found.parts) < 0.6 * len(whole)
    files = Files({"large": found, "small": b"abc"})
    assert (size_in(files, "large"), digest_in(files, "large")) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert files["large"] == b"".join(blocks_of(files, "large")) == whole
    assert (size_in(files, "small"), list(blocks_of(files, "small"))) == (3, [b"abc"])
    assert digest_in({"small": b"abc"}, "small") == digest_in(files, "small")


def test_files_are_a_mapping_that_nobody_can_change() -> None:
    files = Publication({"b": b"1", "a": b"2"}).files
    assert list(files) == ["a", "b"]
    assert dict(files) == {"a": b"2", "b": b"1"} == dict(files.items())
    assert files == Publication({"a": b"2", "b": b"1"}).files
    with pytest.raises(TypeError):
        files["a"] = b""  # type: ignore[index] # the very thing that must fail


@pytest.mark.usefixtures("small_parts")
def test_a_bundle_of_large_files_is_written_and_checked_like_any_other(tmp_path: Path) -> None:
    made = asked("csv", "parquet")
    publication = render(made, measurements(), facts(made))
    assert isinstance(kept(publication.files)["tables/income.csv"], Packed)
    write(publication, tmp_path / "bundle")
    assert {path: (tmp_path / "bundle" / path).read_bytes() for path in files_in(tmp_path / "bundle")} == dict(
        publication.files
    )
    assert not [each for each in check_bundle(tmp_path / "bundle") if each.passed is False]
    before = (tmp_path / "bundle" / "tables" / "income.csv").stat().st_ino
    write(publication, tmp_path / "bundle")  # the same bundle is left alone
    assert (tmp_path / "bundle" / "tables" / "income.csv").stat().st_ino == before


def test_packing_changes_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    made = asked("csv", "parquet", "sdmx", "json")
    plain = dict(render(made, measurements(), facts(made)).files)
    monkeypatch.setattr("dprelease.publish.packed._SMALL", 100)
    monkeypatch.setattr("dprelease.publish.packed._PART", 150)
    assert dict(render(made, measurements(), facts(made)).files) == plain


@pytest.mark.usefixtures("small_parts")
def test_a_large_file_that_is_changed_after_the_first_look_is_not_there(tmp_path: Path) -> None:
    made = asked("csv")
    write(render(made, measurements(), facts(made)), tmp_path / "bundle")
    opened, _ = check_opened.read_bundle(tmp_path / "bundle")
    assert opened is not None
    name = "tables/income.csv"
    assert opened.sound[name] == (tmp_path / "bundle" / name).read_bytes()
    data = bytearray((tmp_path / "bundle" / name).read_bytes())
    data[-5] ^= 1
    (tmp_path / "bundle" / name).write_bytes(bytes(data))
    assert opened.sound.get(name) is None


def test_parquet_groups_of_rows_are_written_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    content = formats_example.plain()
    whole = {path: pq.read_table(_source(data)) for path, data in parquet.parquet_files(content, {}).items()}
    monkeypatch.setattr(parquet, "_ROWS", 5)
    for path, data in parquet.parquet_files(content, {}).items():
        assert pq.ParquetFile(_source(data)).num_row_groups == -(-whole[path].num_rows // 5)
        assert pq.read_table(_source(data)).equals(whole[path])


def _source(data: bytes) -> Any:
    import pyarrow as pa

    return pa.BufferReader(data)


def test_a_table_too_large_for_json_stat_is_a_collection_that_names_the_csv_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jsonstat, "MOST_ROWS", 10)
    content = formats_example.plain(rehearsal=True)
    made = jsonstat.jsonstat_files(content, {"tables/income.csv": b""})
    found = json.loads(made["tables/income.json"])
    assert found["class"] == "collection"
    assert found["note"][0].startswith("REHEARSAL")
    assert "has 12 rows" in found["note"][1]
    assert {"href": "income.csv", "type": "text/csv"} in found["link"]["alternate"]
    assert json.loads(made["tables/population.json"])["class"] == "dataset"


def test_a_table_that_no_format_would_hold_is_refused_before_anything_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonstat, "MOST_ROWS", 10)
    for formats in (("xlsx",), ("html", "json")):
        with pytest.raises(PublishError, match=r"query 'income' has 12 rows") as caught:
            check_publishable(asked(*formats))
        assert caught.value.code == "DPR-W109"
        assert "csv or parquet" in caught.value.hint
    for formats in (("xlsx", "csv"), ("parquet",), ("sdmx",)):
        check_publishable(asked(*formats))


def test_keys_that_repeat_are_found_whatever_their_number() -> None:
    content = formats_example.plain()
    table = content.tables[0]
    assert not keys_repeat(table)
    wide = Column(name="wide", type="integer", keys=tuple(range(2**16)))
    generator = np.random.default_rng(1)
    columns = generator.integers(0, 2**16, (5, 1000))
    columns[:, 7] = columns[:, 990]
    for last, expected in ((1000, True), (990, False)):
        keys = tuple(tuple(column[:last].tolist()) for column in columns)
        made = type(table)("t", "T", (wide,) * 5, keys, (), Fraction(1, 2), last)
        assert keys_repeat(made) is expected
        assert (len(set(zip(*keys, strict=True))) < last) is expected


def test_rows_in_the_order_of_their_keys_are_told_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a row that is there twice is found wherever it stands, at the seam of two parts too."""
    monkeypatch.setattr(cube, "_AT_ONCE", 5)
    table = formats_example.plain().tables[0]
    columns = tuple(Column(name=name, type="integer", keys=tuple(range(4))) for name in ("one", "other"))
    rows = [(one, other) for one in range(4) for other in range(4)]

    def made(rows: list[tuple[int, int]]) -> Any:
        keys = tuple(Coded(tuple(range(4)), column) for column in zip(*rows, strict=True))
        return type(table)("t", "T", columns, keys, (), Fraction(1, 2), len(rows))

    assert cube._rise(made(rows))
    assert not keys_repeat(made(rows))
    assert not cube._rise(made(rows[::-1]))
    assert not keys_repeat(made(rows[::-1]))
    for at in range(len(rows)):
        assert keys_repeat(made([*rows[:at], rows[at], *rows[at:]]))
