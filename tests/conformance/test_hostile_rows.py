"""One hostile row in a table of units: no exception, the same shape, and no more influence than one unit has."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.table import Table, TableBounds
from dprelease.errors import Unsupported
from dprelease.privacy.unit import Neighboring
from tests import warm_parser as parsers
from tests.conformance.people import SECRET, opened
from tests.conformance.unit_tables import (
    NAMES,
    REFERENCES,
    asked,
    assert_within,
    catalog_of,
    claimed,
    moved,
    opening,
    partitioned,
    quantities,
    visits,
    write,
)

warm_parser = parsers.warm_parser

CLEAN = ["h", "DE", "a", "2024-02-29", "12", "1.5", "true"]
NUMBERS = [
    "", " ", "NaN", "nan", "-NaN", "inf", "-inf", "Infinity", "-0.0", "-0", "5e-324", "1e-400", "1e308", "-1e308", "1e309",
    "9e18", "-9223372036854775808", "9223372036854775807", "18446744073709551616", "-18446744073709551617", "9" * 5000,
    "1e" + "9" * 500, "0x10", "1_0", "٣", "12abc", "1,5", "--1", "1e", "+", "=1+1", "true", "null",
]  # fmt: skip
DATES = ["", "2023-02-29", "0000-00-00", "2024-13-01", "10000-01-01", "-2024-01-01", "2024-02-30T25:61", "0001-01-01", "9999-12-31", "now"]  # fmt: skip
TEXTS = [
    "", " ", "z" * 100_000, "\x00", "a\x00b", "'", '"', '"" ""', "a\nb", "a\r\nb", "\ufeffa", "\u202e", "=cmd|' /C calc'!A0",
    "@SUM(1)", "+1", "-1", "'; drop table t; --", "NULL", "None", "$1", "{0}", "%s", "\\", "\\N", "\ud7ff", "\U0010ffff",
]  # fmt: skip
IDS = [*TEXTS, "01", " 1", "1.0", "true", "u1 ", "U1", "1:a", "-", "1:-", "u" * 100_000]


def hostile_rows() -> Iterator[list[str]]:
    """The clean row with one value replaced, column after column; then all values at once."""
    for at, values in ((0, IDS), (1, TEXTS), (2, TEXTS), (3, DATES), (4, NUMBERS), (5, NUMBERS), (6, NUMBERS)):
        for value in values:
            yield [*CLEAN[:at], value, *CLEAN[at + 1 :]]
    for each in (*TEXTS, *NUMBERS):
        yield [each] * 7


BROKEN = {
    "invalid UTF-8": b"h,DE,\xff\xfe,2024-02-29,12,1.5,true\n",
    "a broken id": b"\xc3\x28,DE,a,2024-02-29,12,1.5,true\n",
    "a cut sequence": b"h,DE,\xe2\x82,2024-02-29,12,1.5,true\n",
    "a lone surrogate": b"h,DE,\xed\xa0\x80,2024-02-29,12,1.5,true\n",
    "an open quote": b'h,DE,"a,2024-02-29,12,1.5,true\n',
    "a quote bomb": b'"' * 100_001 + b"\n",
    "a newline in quotes": b'h,DE,"a\nb",2024-02-29,12,1.5,true\n',
    "too few fields": b"h,DE\n",
    "too many fields": b"h,DE,a,2024-02-29,12,1.5,true,more\n",
    "NUL": b"\x00,\x00,\x00,\x00,\x00,\x00,\x00\n",
    "a megabyte": b"h,DE," + b"z" * 2**20 + b",2024-02-29,12,1.5,true\n",
}
NATIVE: dict[str, tuple[str, Any]] = {
    "bytes as an id": ("user", pa.array([b"\xff\xfe"])),
    "a number as an id": ("user", pa.array([float("nan")])),
    "an infinite id": ("user", pa.array([float("-inf")])),
    "an early day": ("day", pa.array([-(2**62)], pa.timestamp("us"))),
    "a late day": ("day", pa.array([2**31 - 1], pa.int32()).cast(pa.date32())),
    "2^64 - 1": ("seconds", pa.array([2**64 - 1], pa.uint64())),
    "-2^63": ("seconds", pa.array([-(2**63)])),
    "9e18": ("seconds", pa.array([9e18])),
    "NaN": ("amount", pa.array([float("nan")])),
    "infinity": ("amount", pa.array([float("inf")])),
    "minus zero": ("amount", pa.array([-0.0])),
    "the least double": ("amount", pa.array([5e-324])),
    "the largest double": ("amount", pa.array([1.7976931348623157e308])),
    "a long decimal": ("amount", pa.array([Decimal("9" * 38)])),
    "a number for a boolean": ("adult", pa.array([7])),
}
MEANINGLESS: dict[str, tuple[str, Any]] = {  # a type of which every value would be null
    "a list as an id": ("user", pa.array([[1]])),
    "a time that is no day": ("day", pa.array([dt.time(1, 2)])),
    "a structure": ("amount", pa.array([{"a": 1}])),
}
STATISTICAL = ("sav", "zsav", "dta", "xpt", "sas7bdat")
TABLE_BOUNDS = TableBounds(max_rows=3)
GROUPINGS = [
    Grouping(table="visits", by=()),
    Grouping(table="visits", by=("country", "late"), max_groups=2, max_rows_per_group=2),
    Grouping(table="visits", by=("day", "topic"), where="seconds >= 0 or seconds is null", max_groups=1),
]


def good_rows() -> list[list[Any]]:
    draw = random.Random(3)
    places = ["DE", "FR"]
    return [
        [f"u{draw.randrange(12)}", draw.choice(places), draw.choice("ab"), "2024-02-29", draw.randrange(90), 2.5, True]
        for _ in range(60)
    ]


def answers(kind: str, folder: Path, table: Table, groupings: Sequence[Grouping] = GROUPINGS) -> list[list[Any]]:
    """All quantities of some groupings, and the counts that select keys."""
    catalog = catalog_of(table)
    with opening(kind, folder) as engine:
        found = [asked(engine, catalog, grouping, quantities()) for grouping in groupings]
        private = Grouping(table="visits", by=("page",), private=True, max_groups=2)
        return [*found, opened(engine.units_by_key(catalog, private, REFERENCES, SECRET))]


def check(
    kind: str,
    folder: Path,
    table: Table,
    clean: list[list[Any]],
    relation: Neighboring,
    groupings: Sequence[Grouping] = GROUPINGS,
) -> None:
    """The hostile table against the clean one."""
    *found, keys = answers(kind, folder, table, groupings)
    *known, known_keys = clean
    for grouping, before, after in zip(groupings, known, found, strict=True):
        for quantity, old, new in zip(quantities(), before, after, strict=True):
            assert_within(moved(old, new), claimed(catalog_of(table), grouping, quantity, relation))
    names = dict(known_keys).keys() | dict(keys).keys()
    change = [abs(dict(keys).get(name, 0) - dict(known_keys).get(name, 0)) for name in names]
    assert sum(change) <= (2 if relation is Neighboring.ADD_REMOVE else 4)
    assert max(change) <= 1


def check_slots(kind: str, folder: Path, table: Table, slots: int) -> None:
    """Two folders, ``clean`` and ``mixed``: in every slot no more has changed than one unit may change."""
    catalog = catalog_of(table)
    with opening(kind, folder / "clean") as clean, opening(kind, folder / "mixed") as mixed:
        for by, bound in ((("slot", "late"), {"max_groups": 1}), (("slot", "country"), {})):
            grouping = Grouping(table="visits", by=by, **bound)
            known, found = (asked(engine, catalog, grouping, quantities()) for engine in (clean, mixed))
            for quantity, before, after in zip(quantities(), known, found, strict=True):
                change, claim = moved(before, after), claimed(catalog, grouping, quantity, Neighboring.ADD_REMOVE)
                width = len(change) // slots
                for at in range(slots):
                    assert_within(change[at * width : (at + 1) * width], claim)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("null_id", ["drop", "unit"])
def test_every_hostile_text_stays_in_its_cell(kind: str, null_id: str, tmp_path: Path) -> None:
    """All at once, each between good rows, of a unit and with a cell of its own: none takes another row along."""
    hostile = [[f"h{at}" if row[0] == "h" else row[0], *row[1:], at] for at, row in enumerate(hostile_rows())]
    lines = [b"%s,%d\n" % (line.rstrip(b"\n"), at) for at, line in enumerate(BROKEN.values(), len(hostile))]
    slots = len(hostile) + len(lines)
    good = [[f"g{at}", "DE", "b", "2024-02-29", at % 90, 2.5, True, at] for at in range(slots)]
    table = visits(slots=slots, null_id=null_id, bounds=TABLE_BOUNDS)
    write(tmp_path / "clean", table, good)
    write(tmp_path / "good", table, good[len(hostile) :])
    first, second = tmp_path / "mixed" / "visits0.csv", tmp_path / "mixed" / "visits1.csv"
    write(tmp_path / "mixed", table, [row for pair in zip(hostile, good, strict=False) for row in pair])
    head, *rest = (tmp_path / "good" / "visits0.csv").read_bytes().splitlines(keepends=True)
    second.write_bytes(head + b"".join(line for pair in zip(lines, rest, strict=True) for line in pair))
    assert first.exists()
    check_slots(kind, tmp_path, table, slots)


@pytest.mark.slow
def test_every_hostile_stored_value_stays_in_its_cell(kind: str, tmp_path: Path) -> None:
    """Each in a file of its own, in which its column has the type that it needs."""
    table = visits("parquet", slots=len(NATIVE), null_id="unit", bounds=TABLE_BOUNDS)
    good = [[f"g{at}", "DE", "b", "2024-02-29", at, 2.5, True, at] for at in range(len(NATIVE))]
    write(tmp_path / "clean", table, good)
    write(tmp_path / "mixed", table, good)
    for at, (column, values) in enumerate(NATIVE.values()):
        write_native(tmp_path / "mixed" / f"visits_{at}.parquet", at, column, values)
    check_slots(kind, tmp_path, table, len(NATIVE))


def write_native(path: Path, at: int, column: str, values: Any) -> None:
    row = {each: pa.array([value]) for each, value in zip(NAMES, CLEAN, strict=True)}
    pq.write_table(pa.table(row | {"user": pa.array([f"h{at}"]), "slot": pa.array([at]), column: values}), path)


@pytest.mark.parametrize("name", MEANINGLESS)
def test_a_stored_type_that_means_nothing_is_refused_whatever_its_values(name: str, tmp_path: Path) -> None:
    table = visits("parquet", slots=1, null_id="unit", bounds=TABLE_BOUNDS)
    write_native(tmp_path / "visits_0.parquet", 0, *MEANINGLESS[name])
    with opening("duckdb", tmp_path) as engine, pytest.raises(Unsupported, match="DPR-E146"):
        engine.describe(table)


@pytest.mark.slow
def test_every_hostile_text_means_what_it_means_to_the_reference_engine(kind: str, tmp_path: Path) -> None:
    table = visits(null_id="unit", bounds=TABLE_BOUNDS)
    write(tmp_path, table, [*good_rows(), *hostile_rows()])
    with (tmp_path / "visits0.csv").open("ab") as file:
        file.write(b"".join(BROKEN.values()))
    assert answers(kind, tmp_path, table) == answers("reference", tmp_path, table)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("shape", ["csv", "parquet"])
@pytest.mark.parametrize("names", [("user",), ("country", "page"), ("day", "seconds"), ("amount", "adult")])
def test_every_hostile_value_of_a_path_means_what_it_means_to_the_reference_engine(
    kind: str, names: tuple[str, ...], shape: str, tmp_path: Path
) -> None:
    """All that the name of a folder can hold, and what stands below it with bytes that are no text, or with no ``=``."""
    table = partitioned(visits(shape, null_id="unit", bounds=TABLE_BOUNDS), *names)
    at = [NAMES.index(name) for name in names]
    hostile = [row for row in hostile_rows() if all(len(quote(row[each])) < 200 for each in at)]
    write(
        tmp_path,
        table,
        [*good_rows(), *hostile] if shape == "csv" else [[str(each) for each in row] for row in hostile],
    )
    ending = os.fsencode("/".join(f"{name}=a" for name in names[1:]))
    some = next(tmp_path.glob(table.files.file))
    for raw in (
        b"\xff\xfe",
        b"%ff",
        b"%zz%4",
        b"%00",
        b"a=b",
        b"__HIVE_DEFAULT_PARTITION__",
        b"%5f_HIVE_DEFAULT_PARTITION__",
    ):
        place = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), names[0].encode() + b"=" + raw, ending)))
        place.mkdir(parents=True, exist_ok=True)
        (place / some.name).write_bytes(some.read_bytes())
    assert answers(kind, tmp_path, table) == answers("reference", tmp_path, table)


@pytest.mark.usefixtures("warm_parser")
@pytest.mark.slow
@pytest.mark.parametrize("shape", STATISTICAL)
def test_every_hostile_text_of_a_statistical_file_means_what_it_means_to_the_reference_engine(
    kind: str, shape: str, tmp_path: Path
) -> None:
    """Texts as these files can hold them: no zero byte, and no more than their places."""
    table = visits(shape, null_id="unit", bounds=TABLE_BOUNDS)
    rows = [[str(value).replace("\x00", "")[:50] for value in row] for row in [*good_rows(), *hostile_rows()]]
    write(tmp_path, table, rows)
    assert answers(kind, tmp_path, table) == answers("reference", tmp_path, table)


@pytest.mark.usefixtures("warm_parser")
@pytest.mark.thin(first=1)
@pytest.mark.parametrize("shape", STATISTICAL)
def test_hostile_numbers_of_a_statistical_file_stay_with_their_unit(kind: str, shape: str, tmp_path: Path) -> None:
    """A row of the most extreme numbers that the format holds, of a new unit and of one that is there.

    One grouping: what becomes of a number once it is read is tried with texts and with Parquet.
    """
    some = GROUPINGS[1:2]
    table = visits(shape, bounds=TABLE_BOUNDS)
    most = 7e75 if shape == "xpt" else 8e307 if shape == "dta" else 1.7e308
    rows = [["h" if row[0] == "u0" else row[0], row[1], row[2], None, *row[4:]] for row in good_rows()]
    write(tmp_path / "clean", table, rows)
    clean = answers(kind, tmp_path / "clean", table, some)
    for name, number in (("new", most), ("new", None), ("u1", -most), ("u1", -0.0)):
        write(tmp_path / "hostile", table, [*rows, [name, "\u202e", "'; --", None, number, number, number]])
        relation = Neighboring.REPLACE_ONE if name == "u1" else Neighboring.ADD_REMOVE
        check(kind, tmp_path / "hostile", table, clean, relation, some)


@pytest.mark.slow
@pytest.mark.parametrize("null_id", ["drop", "unit"])
def test_one_hostile_row_moves_no_number_further_than_one_unit(kind: str, null_id: str, tmp_path: Path) -> None:
    """One at a time, before and after the others; of a new unit, and of one that is there: that replaces its rows."""
    table = visits(null_id=null_id, bounds=TABLE_BOUNDS)
    write(tmp_path / "clean", table, good_rows())
    clean = answers(kind, tmp_path / "clean", table)
    some = [*hostile_rows()]
    for number, row in enumerate([some[5], some[-20], ["u1", *some[-20][1:]], ["u1", *some[120][1:]]]):
        write(tmp_path / "hostile", table, [*good_rows(), row] if number % 2 else [row, *good_rows()])
        relation = Neighboring.REPLACE_ONE if row[0] == "u1" else Neighboring.ADD_REMOVE
        check(kind, tmp_path / "hostile", table, clean, relation)


@pytest.mark.usefixtures("warm_parser")
@pytest.mark.thin(first=1)
@pytest.mark.parametrize("shape", ["csv", "parquet", "csv.gz", *STATISTICAL])
@pytest.mark.parametrize("null_id", ["drop", "unit"])
def test_an_empty_table_has_the_shape_of_a_full_one(kind: str, shape: str, null_id: str, tmp_path: Path) -> None:
    table = visits(shape, null_id=null_id, bounds=TABLE_BOUNDS)
    groupings = GROUPINGS[1:2] if shape in STATISTICAL else GROUPINGS  # their rows are a CSV's once they are read
    write(tmp_path / "full", table, good_rows())
    write(tmp_path / "empty", table, [])
    *full, _ = answers("reference", tmp_path / "full", table, groupings)
    *empty, keys = answers(kind, tmp_path / "empty", table, groupings)
    assert keys == []
    for some, none in zip(full, empty, strict=True):
        for old, new in zip(some, none, strict=True):
            moved(old, new)  # the same number of cells
            assert new == ([0] * len(new) if isinstance(new, list) else (old[0], []))
