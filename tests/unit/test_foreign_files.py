"""Files as other programs write them: each is read as it says, or refused by name; none is nulls without a word."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter

from dprelease.catalog.table import Column, Source, Table
from dprelease.engines.files.reader import FileReader
from dprelease.engines.files.rows import typed
from dprelease.errors import DpReleaseError, Unsupported

MOMENT = dt.datetime(2024, 2, 29, 10, 0, 0, 123456)


def read(folder: Path, file: str, columns: Sequence[Column], form: str = "") -> list[tuple[Any, ...]]:
    """The rows of a file under declared columns, after it was described."""
    kind: Any = form or file.rsplit(".", 1)[1]
    table = Table(name="t", account="a", source=Source(file=file, format=kind), columns=tuple(columns))
    reader = FileReader(folder, {})
    reader.describe(table)
    found = [
        [typed(column, raw).to_pylist() for column, raw in zip(columns, block, strict=True)]
        for block in reader.blocks(table, columns)
    ]
    return [row for block in found for row in zip(*block, strict=True)]


PARQUET: dict[str, tuple[Any, Any, list[Any]]] = {
    "dictionary": (pa.array(["x", None, "x"]).dictionary_encode(), "text", ["x", None, "x"]),
    "nanoseconds": (pa.array([1709200800123456789], pa.timestamp("ns")), "timestamp", ["2024-02-29T10:00:00.123456789"]),
    "a zone": (pa.array([MOMENT], pa.timestamp("us", tz="Asia/Kathmandu")), "timestamp", ["2024-02-29T10:00:00.123456"]),
    "decimal256": (pa.array([Decimal("1.50"), None], pa.decimal256(60, 2)), "decimal", [1.5, None]),
    "half": (pa.array(np.array([1.5, np.nan], np.float16)), "decimal", [1.5, None]),
    "fixed": (pa.array([b"abc", None], pa.binary(3)), "text", ["abc", None]),
    "view": (pa.array(["x", None], pa.string_view()), "text", ["x", None]),
    "large": (pa.array(["x"], pa.large_string()), "text", ["x"]),
    "nothing": (pa.nulls(2), "integer", [None, None]),
}  # fmt: skip


@pytest.mark.parametrize("kind", PARQUET)
def test_every_type_of_parquet_that_means_something_is_read(kind: str, tmp_path: Path) -> None:
    array, declared, expected = PARQUET[kind]
    pq.write_table(pa.table({"a": array}), tmp_path / "t.parquet")
    assert read(tmp_path, "t.parquet", [Column(name="a", type=declared)]) == [(each,) for each in expected]


def test_moments_of_96_bits_are_read(tmp_path: Path) -> None:
    times = pa.array([MOMENT, None], pa.timestamp("ns"))
    pq.write_table(pa.table({"a": times}), tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    found = read(tmp_path, "t.parquet", [Column(name="a", type="timestamp")])
    assert found == [("2024-02-29T10:00:00.123456",), (None,)]


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (pa.array([[1]]), "list"),
        (pa.array([{"alice": 1}]), "struct"),
        (pa.array([[("alice", 1)]], pa.map_(pa.string(), pa.int64())), "map"),
        (pa.array([dt.time(1)]), "time64"),
        (pa.array([5], pa.duration("s")), "duration"),
    ],
)
def test_a_type_of_parquet_that_means_nothing_is_refused(array: Any, told: str, tmp_path: Path) -> None:
    """Where it is declared, and before a row is read; what is within it is not shown."""
    pq.write_table(pa.table({"a": array, "b": pa.array(["x"])}), tmp_path / "t.parquet")
    assert read(tmp_path, "t.parquet", [Column(name="b", type="text")]) == [("x",)]
    with pytest.raises(Unsupported, match="DPR-E146") as caught:
        read(tmp_path, "t.parquet", [Column(name="b", type="text"), Column(name="a", type="text")])
    assert f"'a' of the type {told}," in str(caught.value)
    assert "alice" not in str(caught.value)


A_B = (Column(name="a", type="text"), Column(name="b", type="text"))


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        ("\ufeffa,b\r\n1,2\r\n".encode(), [("1", "2")]),
        ('\ufeff"a","b"\n1,2\n'.encode(), [("1", "2")]),
        ("a,b\n1,2\n\ufeff3,4\n".encode(), [("1", "2"), ("\ufeff3", "4")]),
        (b"a,A,b\n1,9,2\n", [("1", "2")]),
        (b"a,b,\n1,2,\n", [("1", "2")]),
        (b"a,b\n1,\x00\n3,4\n", [("1", "\x00"), ("3", "4")]),
        ("a,b\n1,x\u2028y\x0b\x0c\x85\n".encode(), [("1", "x\u2028y\x0b\x0c\x85")]),
        (b"a,b", []),
    ],
)
def test_lines_of_other_programs_are_read(data: bytes, rows: list[tuple[str, str]], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    assert read(tmp_path, "t.csv", A_B) == rows


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        ("a,b\n1,2\n".encode("utf-16"), "DPR-E301", "UTF-16"),
        ("a,b\n1,2\n".encode("utf-16-le"), "DPR-E301", "UTF-16"),
        ("a,b\n1,2\n".encode("utf-32"), "DPR-E301", "save the file as CSV in UTF-8"),
        (b"a,b\r1,2\r3,4\r", "DPR-E303", "lines that end in"),
        (b"a,a,b\n1,9,2\n", "DPR-E302", "'a'"),
        (b"sep=;\na;b\n1;2\n", "DPR-E301", '`delimiter: ";"`'),
        (b"\n\na,b\n1,2\n", "DPR-E303", "`skip: 2`"),
        (b"a\x00,b\n1,2\n", "DPR-E301", "zero bytes"),
    ],
)
def test_lines_that_are_not_read_are_told_with_what_to_do(data: bytes, code: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(DpReleaseError) as caught:
        read(tmp_path, "t.csv", A_B)
    assert caught.value.code == code
    assert says in f"{caught.value} {caught.value.hint}"


def test_a_stata_file_of_1996_is_read(tmp_path: Path) -> None:
    """Version 105, which nothing writes any more: its head, types, names, sorting, formats, labels, and rows."""
    head = struct.pack("<BBBBHi", 105, 2, 1, 0, 2, 2) + b"label".ljust(32, b"\0") + b"01 Jan 1996 10:00\0"
    names = b"a".ljust(9, b"\0") + b"b".ljust(9, b"\0")
    formats = b"%9.0g".ljust(12, b"\0") + b"%3s".ljust(12, b"\0")
    rows = struct.pack("<d3s", 1.0, b"xy\0") + struct.pack("<d3s", 2.5, b"zzz")
    kinds = b"d" + bytes([0x7F + 3])
    (tmp_path / "t.dta").write_bytes(
        head + kinds + names + b"\0" * 6 + formats + b"\0" * 18 + b"\0" * 64 + b"\0" * 3 + rows
    )
    columns = [Column(name="a", type="decimal"), Column(name="b", type="text")]
    assert read(tmp_path, "t.dta", columns) == [(1.0, "xy"), (2.5, "zzz")]


def test_a_workbook_that_counts_from_1904_has_the_same_days(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(tmp_path / "t.xlsx", {"date_1904": True}) as book:
        sheet, shown = book.add_worksheet(), book.add_format({"num_format": "yyyy-mm-dd"})
        sheet.write_row(0, 0, ["a", "b"])
        sheet.write_datetime(1, 0, dt.datetime(2024, 2, 29), shown)
        sheet.write_formula(1, 1, "=1+1", None, 2)  # what was saved with it counts
    columns = [Column(name="a", type="date"), Column(name="b", type="integer")]
    assert read(tmp_path, "t.xlsx", columns) == [("2024-02-29", 2)]


def test_folders_of_hive_say_what_their_writers_meant(tmp_path: Path) -> None:
    known = {"a/b": "a/b", "50 %": "50 %", "\xfc": "\xfc", "k=v": "k=v", "__HIVE_DEFAULT_PARTITION__": None}
    for value in known:
        place = tmp_path / f"p={quote(value, safe='')}" / "x.parquet"
        place.parent.mkdir()
        pq.write_table(pa.table({"a": [value]}), place)
    columns = [Column(name="a", type="text"), Column(name="p", type="text", partition=True)]
    assert dict(read(tmp_path, "p=*/*.parquet", columns)) == known


def test_a_delta_table_with_a_checkpoint_and_removed_files_has_the_rows_of_its_version(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="the extra `delta` is not installed")
    from dprelease.catalog.table import DeltaSource

    lake = tmp_path / "lake"
    for at in range(3):
        deltalake.write_deltalake(lake, pa.table({"a": pa.array([at, at + 10], pa.int64())}), mode="append")
    deltalake.DeltaTable(lake).create_checkpoint()
    deltalake.DeltaTable(lake).delete("a = 1")
    deltalake.DeltaTable(lake).optimize.compact()
    column = Column(name="a", type="integer")
    found = {}
    for version in (2, 3, 4):
        source = DeltaSource(file="lake", version=version)
        reader = FileReader(tmp_path, {})
        table = Table(name="t", account="a", source=source, columns=(column,))
        found[version] = sorted(each for block in reader.blocks(table, (column,)) for each in block[0].to_pylist())
    assert found == {2: [0, 1, 2, 10, 11, 12], 3: [0, 2, 10, 11, 12], 4: [0, 2, 10, 11, 12]}
