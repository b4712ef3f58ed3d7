"""Files that are too large to be held are checked some rows after the others, and not a bit less."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dprelease.canonical import dumps, sha256
from dprelease.errors import PublishError
from dprelease.publish import check_bundle, kept_beside, render, write
from dprelease.publish import packed as packing
from dprelease.publish.bundle import read_tables
from dprelease.publish.bundle.checks import opened
from dprelease.publish.bundle.checks.opened import read_bundle
from dprelease.publish.bundle.read_tables import csv_columns
from dprelease.publish.formats import parquet
from dprelease.publish.manifest import Manifest, sums_file
from dprelease.publish.packed import Packed, kept, pack
from tests.unit.publish_example import facts, measurements, plan


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small one whose files are all taken for large ones, and are read in many blocks."""
    monkeypatch.setattr(opened, "_SMALL", 0)
    monkeypatch.setattr(read_tables, "_BLOCK", 200)
    monkeypatch.setattr(parquet, "_ROWS", 3)
    write(render(plan(), measurements(), facts(plan())), tmp_path / "bundle")
    return tmp_path / "bundle"


def _forge(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["files"][name] = {"sha256": sha256(data), "bytes": len(data)}
    (folder / "manifest.json").write_text(dumps(manifest) + "\n")
    (folder / "SHA256SUMS").write_bytes(sums_file(Manifest.from_canonical(dumps(manifest)), None))


def _failed(folder: Path) -> dict[str, str]:
    return {check.name: check.detail for check in check_bundle(folder) if check.passed is False}


def test_a_bundle_of_large_files_passes_and_none_of_them_is_held(bundle: Path) -> None:
    assert _failed(bundle) == {}
    found, _ = read_bundle(bundle)
    assert found is not None
    assert not any(isinstance(data, bytes) for data in kept(found.sound).values())


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda lines: [*lines[:-1], lines[-1].replace(b",", b"0,", 1)], "tables"),  # another key
        (lambda lines: [*lines, lines[-1]], "tables"),  # a row too many
        (lambda lines: lines[:-1], "tables"),
        (lambda lines: [line.replace(b"ok", b"\xff") for line in lines], "values"),
        (lambda lines: [line.replace(b"ok", b"no") for line in lines], "values"),
        (lambda lines: [lines[0], *(line.replace(b".", b"1.", 1) for line in lines[1:])], "values"),
    ],
)
def test_what_is_wrong_in_a_large_table_is_found(bundle: Path, change: object, found: str) -> None:
    name = "tables/income.csv"
    lines = (bundle / name).read_bytes().removesuffix(b"\r\n").split(b"\r\n")
    _forge(bundle, name, b"\r\n".join(change(lines)) + b"\r\n")  # type: ignore[operator]
    told = _failed(bundle)
    assert name in told.get(found, ""), told


def test_what_is_wrong_in_large_measurements_is_found(bundle: Path) -> None:
    name = next(str(path.relative_to(bundle)) for path in sorted(bundle.glob("measurements/*.csv")))
    data = (bundle / name).read_bytes()
    for changed in (data + data.split(b"\r\n")[-2] + b"\r\n", data.replace(b"\r\n", b"\n"), b"x" + data):
        _forge(bundle, name, changed)
        assert name in _failed(bundle)["measurements"]


def test_reading_ends_at_the_first_row_too_many_whatever_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a billion rows does not fill the memory of who checks it."""
    monkeypatch.setattr(read_tables, "_BLOCK", 4096)
    names, block = ("a", "b"), b"1,2\r\n"
    read = list[int]()

    def blocks() -> Iterator[bytes]:
        yield b"a,b\r\n"
        for at in range(10**6):
            read.append(at)
            yield 100 * block

    monkeypatch.setattr(Packed, "blocks", lambda _: blocks())
    endless = Packed(10**9, "", ())
    with pytest.raises(ValueError, match="more rows than there may be"):
        csv_columns(endless, names, {"b": "whole"}, 1000)
    assert 0 < len(read) < 5000


def test_a_large_file_that_is_changed_after_its_hash_was_taken_is_not_believed(bundle: Path) -> None:
    found, _ = read_bundle(bundle)
    assert found is not None
    name = "tables/income.csv"
    (bundle / name).write_bytes((bundle / name).read_bytes().replace(b"ok", b"no"))
    assert found.sound.get(name) is None
    assert name in found.sound


def test_large_files_wait_beside_the_bundle_without_a_name_and_have_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = dict(render(plan(), measurements(), facts(plan())).files)
    monkeypatch.setattr(packing, "_SMALL_BESIDE", 100)
    monkeypatch.setattr(packing, "_PART", 64)
    target = tmp_path / "releases" / "one"  # not there yet
    with kept_beside(target):
        assert os.listdir(tmp_path) == []
        made = render(plan(), measurements(), facts(plan()))
        waiting = [data for data in kept(made.files).values() if isinstance(data, Packed)]
        assert len(waiting) > 4
        assert not any(isinstance(part, bytes) for data in waiting for _, part in data.parts)
        assert os.listdir(tmp_path) == []
        assert dict(made.files) == expected
        write(made, target)
    assert {path: (target / path).read_bytes() for path in expected} == expected
    with pytest.raises(ValueError, match="closed file"):
        next(waiting[0].blocks())


def test_a_disk_without_room_for_them_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with kept_beside(tmp_path), pytest.raises(PublishError, match="No space left on device") as caught:
        pack(b"x" * packing._PART for _ in range(3))
    assert caught.value.code == "DPR-W204"
