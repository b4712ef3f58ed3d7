"""Who is who: two ids that differ in one byte are two units, and one number is one unit, however it is stored."""

from __future__ import annotations

import datetime as dt
import hashlib
import tempfile
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, PrivateJoin, Source, Table, TableBounds
from dprelease.engines import ENGINES
from dprelease.privacy.unit import Neighboring
from tests.conformance.people import integers
from tests.conformance.unit_tables import asked, assert_within, claimed, moved, opening
from tests.tiers import few

UNITS, ROWS = Quantity(kind="units"), Quantity(kind="rows")
BITS = Quantity(kind="sum", column="bit", low=0, high=2**50)
EVERY = ["reference", *ENGINES]
MARK = "\ufdd0"  # what a canonical text of bytes begins with

# No two of these are one id: no UTF-8, cut short, almost alike, NUL, two normal forms, and what looks like an escape.
APART = [
    b"Ren\xe9", b"Ren\xe8", b"Ren\xc3\xa9", b"Rene\xcc\x81", b"Ren", b"\xff", b"\xfe", b"\xff\xfe", b"\xe2\x82", b"\xe2",
    b"\xed\xa0\x80", b"\xed\xa0\x81", b"\xc0\x80", b"\xef\xbf\xbd", b"\xef\xbf\xbe", b"a", b"a\0", b"a\0b", b"\0", b"\0\0",
    b"\0" * 8, b"\0" * 7 + b"\1", b"52656ee9", b"\\x52656ee9", b"x'52656ee9'", b"52656EE9",
    MARK.encode(), f"{MARK}52656ee9".encode(), f"{MARK}ff".encode(), f"{MARK}efb790".encode(), f"{MARK}FF".encode(),
    f"{MARK}efb7906666".encode(), MARK.encode()[:2], b" a", b"a ", b"A", b"17", b"017", b"17.0",
]  # fmt: skip


def table(shape: str, **more: Any) -> Table:
    """Rows of somebody, with a bit of their own: a sum says which rows are in it."""
    columns = [Column(name="bit", type="integer", range=integers(0, 2**50))]
    if more.pop("declared", False):
        columns.append(Column(name="who", type="text"))
    for join in more.get("private_joins", ()):
        columns.append(Column(name=join.add[0], type="integer", keys=(1, 2, 3), lent_by=join.table))
    source = Source(file=f"{more.get('name', 'rows')}*.{shape}", format=shape)
    fields = {"name": "rows", "account": "a", "unit_id": "who", **more}
    return Table(source=source, columns=tuple(columns), **fields)


def lender(shape: str, **more: Any) -> Table:
    columns = (Column(name="tenure", type="integer", keys=(1, 2, 3)),)
    source = Source(file=f"others*.{shape}", format=shape)
    return Table(name="others", account="a", source=source, columns=columns, unit_id="who", **more)


JOINED = (PrivateJoin(table="others", on="who", max_matches=1, add=("tenure",)),)


def save(folder: Path, one: Table, ids: Sequence[Any], values: Sequence[int], kind: Any = None) -> None:
    """Rows of (id, number) into a file: bytes as they are in CSV, as one Arrow array in Parquet."""
    folder.mkdir(exist_ok=True, parents=True)
    number = "tenure" if one.name == "others" else "bit"
    at = len(list(folder.glob(f"{one.name}*")))
    path = folder / f"{one.name}{at}.{one.source.format}"
    if one.source.format == "parquet":
        array = ids if isinstance(ids, pa.Array) else pa.array(ids, pa.binary() if kind is None else kind)
        pq.write_table(pa.table({"who": array, number: pa.array(values, pa.int64())}), path)
        return
    lines = [b'"' + raw.replace(b'"', b'""') + b'",%d\n' % value for raw, value in zip(ids, values, strict=True)]
    path.write_bytes(b"who,%s\n" % number.encode() + b"".join(lines))


def answers(kind: str, folder: Path, catalog: Catalog, by: tuple[str, ...] = (), **bound: Any) -> Any:
    grouping = Grouping(table="rows", by=by, **bound)
    with opening(kind, folder) as engine:
        return asked(engine, catalog, grouping, [UNITS, ROWS, BITS])


def catalog(*tables: Table) -> Catalog:
    return Catalog(tables={each.name: each for each in tables})


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("shape", ["csv", "parquet"])
def test_ids_that_differ_in_any_byte_are_two_units(shape: str, declared: bool, kind: str, tmp_path: Path) -> None:
    """Each has three rows, of which two stay: so many units, no one's rows are counted to another."""
    one = table(shape, declared=declared, bounds=TableBounds(max_rows=2))
    save(tmp_path, one, [raw for raw in APART for _ in range(3)], range(3 * len(APART)))
    units, rows, _ = answers(kind, tmp_path, catalog(one))
    assert (units, rows) == ([len(APART)], [2 * len(APART)])


@pytest.mark.parametrize("shape", ["csv", "parquet"])
def test_which_rows_of_such_a_unit_stay_is_the_documented_order(shape: str, kind: str, tmp_path: Path) -> None:
    one = table(shape, bounds=TableBounds(max_rows=2))
    save(tmp_path, one, [raw for raw in APART[:16] for _ in range(3)], [2**at for at in range(48)])
    found = answers(kind, tmp_path, catalog(one), max_rows_per_group=1)
    assert found == answers("reference", tmp_path, catalog(one), max_rows_per_group=1)


STORED = {
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "fixed_size_binary": pa.binary(8),
    "binary_view": pa.binary_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.binary()),
}


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("stored", STORED)
def test_hashed_ids_are_as_many_units_as_there_are_hashes(stored: str, kind: str, tmp_path: Path) -> None:
    """The first 8 bytes of SHA-256 of 20,000 numbers: with replacement characters 34 pairs of them would be one."""
    hashes = [hashlib.sha256(b"%d" % at).digest()[:8] for at in range(20_000)]
    assert len(set(hashes)) == 20_000
    one = table("parquet")
    save(tmp_path, one, hashes, [1] * len(hashes), STORED[stored])
    assert answers(kind, tmp_path, catalog(one), max_rows_per_group=1)[0] == [20_000]


def test_text_columns_that_hold_no_text_are_read_as_their_bytes(kind: str, tmp_path: Path) -> None:
    """A file can say that a column is text and hold other bytes; a dictionary of them, too."""
    raw = pa.array([b"Ren\xe9", b"Ren\xe8", b"Ren\xe9"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    one = table("parquet")
    save(tmp_path, one, text, [1] * 3)
    save(tmp_path, one, raw.dictionary_encode(), [1] * 3)
    assert answers(kind, tmp_path, catalog(one), max_rows_per_group=1)[0] == [2]


@pytest.mark.parametrize("shape", ["csv", "parquet"])
def test_a_person_beside_one_with_almost_the_same_name_moves_no_more_than_claimed(
    shape: str, kind: str, tmp_path: Path
) -> None:
    """Of two merged ids one person's rows would make room for the other's: twice the claimed change."""
    one = table(shape, bounds=TableBounds(max_rows=10))
    both, found = [b"Ren\xe9"] * 10 + [b"Ren\xe8"] * 10, []
    save(tmp_path / "both", one, both, [1 << at for at in range(20)])
    save(tmp_path / "one", one, both[:10], [1 << at for at in range(10)])
    for folder in ("both", "one"):
        found.append(answers(kind, tmp_path / folder, catalog(one), max_rows_per_group=10))
    grouping = Grouping(table="rows", by=(), max_rows_per_group=10)
    for quantity, before, after in zip((UNITS, ROWS, BITS), *found, strict=True):
        assert_within(moved(before, after), claimed(catalog(one), grouping, quantity, Neighboring.ADD_REMOVE))
    assert found[0][2] == [2**20 - 1]
    assert found[1][2] == [2**10 - 1]


def test_two_persons_with_one_id_move_twice_what_one_may(kind: str, tmp_path: Path) -> None:
    """What a merge costs, were ids still merged: the factor of two of the proof is reached in L1, and is never exceeded."""
    one = table("csv", bounds=TableBounds(max_rows=10, truncate="last", order_by=("bit",)))
    columns = (Column(name="bit", type="integer", keys=tuple(range(20))),)
    one = one.model_copy(update={"columns": columns})
    grouping, found = Grouping(table="rows", by=("bit",)), []
    for rows in (20, 10):
        save(tmp_path / str(rows), one, [b"Ren"] * rows, range(rows))
        with opening(kind, tmp_path / str(rows)) as engine:
            found += asked(engine, catalog(one), grouping, [ROWS])
    change = moved(*found)
    claim = claimed(catalog(one), grouping, ROWS, Neighboring.ADD_REMOVE)
    assert sum(map(abs, change)) == 20 == 2 * claim.l1
    assert sum(each * each for each in change) == 20 <= 4 * claim.l2_squared


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("shapes", [("csv", "parquet"), ("parquet", "csv"), ("csv", "csv"), ("parquet", "parquet")])
def test_a_private_join_meets_the_very_same_bytes(shapes: tuple[str, str], kind: str, tmp_path: Path) -> None:
    """Rows of one name, tenures of another that only looks alike: nobody lends to a stranger, whatever the formats."""
    one, other = table(shapes[0], private_joins=JOINED), lender(shapes[1])
    save(tmp_path, one, APART, [1 << at for at in range(len(APART))])
    lending = APART[::2]
    save(tmp_path, other, lending, [at % 3 + 1 for at in range(len(lending))])
    found = answers(kind, tmp_path, catalog(one, other), ("tenure",), max_rows_per_group=1)
    expected = Counter({at % 3: 0 for at in range(3)})
    for at in range(len(lending)):
        expected[at % 3] += 1 << (2 * at)
    assert found[2] == [expected[at] for at in range(3)]


def test_somebody_without_a_row_moves_no_joined_row(kind: str, tmp_path: Path) -> None:
    """Ren\xe9 has the ten visits, Ren\xe8 only a tenure: it is lent to nobody."""
    one, other = table("csv", private_joins=JOINED), lender("csv")
    for name, lending in (("with", [b"Ren\xe9", b"Ren\xe8"]), ("without", [b"Ren\xe9"])):
        save(tmp_path / name, one, [b"Ren\xe9"] * 10, range(10))
        save(tmp_path / name, other, lending, [2, 1][: len(lending)])
    found = [answers(kind, tmp_path / each, catalog(one, other), ("tenure",), max_rows_per_group=10) for each in ("with", "without")]  # fmt: skip
    assert found[0] == found[1]
    assert found[0][1] == [0, 10, 0]


NUMBERS: dict[str, pa.Array] = {
    "int8": pa.array([17], pa.int8()),
    "int64": pa.array([17], pa.int64()),
    "uint64": pa.array([17], pa.uint64()),
    "half": pa.array(np.array([17], dtype=np.float16)),
    "float": pa.array([17], pa.float32()),
    "double": pa.array([17], pa.float64()),
    "decimal(10,2)": pa.array([Decimal("17.00")], pa.decimal128(10, 2)),
    "decimal(38,20)": pa.array([Decimal(17)], pa.decimal128(38, 20)),
    "decimal(76,30)": pa.array([Decimal(17)], pa.decimal256(76, 30)),
    "text": pa.array(["17"]),
    "large text": pa.array(["17"], pa.large_string()),
    "bytes": pa.array([b"17"]),
    "dictionary": pa.array(["17"]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", EVERY)
def test_one_number_is_one_unit_however_it_is_stored(kind: str, tmp_path: Path) -> None:
    """One file for each type; each has ten rows of unit 17, of which ten may stay in all."""
    one = table("parquet", bounds=TableBounds(max_rows=10))
    for array in NUMBERS.values():
        save(tmp_path, one, array.take(pa.array([0] * 10)), range(10))
    assert answers(kind, tmp_path, catalog(one), max_rows_per_group=10)[:2] == [[1], [10]]


SAME: dict[str, list[pa.Array]] = {
    "tens": [pa.array([1700]), pa.array([Decimal("1700.000")]), pa.array([1700.0])],
    "zero": [pa.array([0]), pa.array([-0.0]), pa.array([Decimal("0.00")], pa.decimal128(5, 2)), pa.array(["0"])],
    "a half": [pa.array([-0.5]), pa.array([Decimal("-0.500")], pa.decimal128(9, 3)), pa.array(["-0.5"])],
    "beyond 2^53": [pa.array([2**60]), pa.array([2.0**60]), pa.array([Decimal(2**60)], pa.decimal128(38, 0))],
    "beyond 2^63": [pa.array([2**63], pa.uint64()), pa.array([2.0**63]), pa.array([Decimal(2**63)])],
    "10^22": [pa.array([1e22]), pa.array([Decimal(10**22)]), pa.array([str(10**22)])],
    "2^70": [pa.array([2.0**70]), pa.array([Decimal(2**70)]), pa.array([str(2**70)])],
    "small": [pa.array([1e-7]), pa.array([Decimal("0.0000001")]), pa.array([Decimal("1E-7")], pa.decimal128(20, 12))],
    "yes": [pa.array([True]), pa.array(["true"])],
    "a day": [pa.array([dt.date(2024, 3, 7)]), pa.array([dt.date(2024, 3, 7)], pa.date64()), pa.array(["2024-03-07"])],
    "a moment": [
        pa.array([dt.datetime(2024, 3, 7, 5, 6)], kind)
        for kind in (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"))
    ] + [pa.array([dt.datetime(2024, 3, 7, 5, 6, tzinfo=dt.UTC)], pa.timestamp("us", "Europe/Berlin"))]
    + [pa.array(["2024-03-07T05:06:00"])],
    "a part of a second": [
        pa.array([dt.datetime(2024, 3, 7, 5, 6, 7, 500_000)], pa.timestamp(unit)) for unit in ("ms", "us", "ns")
    ] + [pa.array(["2024-03-07T05:06:07.5"])],
}  # fmt: skip


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("name", SAME)
def test_one_value_is_one_unit_however_it_is_stored(name: str, kind: str, tmp_path: Path) -> None:
    one = table("parquet")
    for array in SAME[name]:
        save(tmp_path, one, array, [1])
    assert answers(kind, tmp_path, catalog(one), max_rows_per_group=1)[0] == [1]


DIFFERENT: dict[str, list[pa.Array]] = {
    "neighbours": [pa.array([2**53, 2**53 + 1]), pa.array([2.0**53 + 2]), pa.array([Decimal(2**53 + 3)])],
    "decimals": [pa.array([Decimal("17.00"), Decimal("17.01"), Decimal("1.70"), Decimal("170.00"), Decimal("0.17")])],
    "tiny": [pa.array([5e-324, 1e-323, 1.5, 1.5000000000000002, 0.1]), pa.array([0.1], pa.float32())],
    "wide": [pa.array([Decimal(10**70), Decimal(10**70 + 1)], pa.decimal256(76, 4))],
    "text": [pa.array(["17", "017", "17.0", "17.00", "1.7e1", "+17", " 17"])],
    "moments": [pa.array(np.array(["2024-03-07T05:06:07.5", "2024-03-07T05:06:07.500000001"], "datetime64[ns]")), pa.array([dt.date(2024, 3, 7)])],
    "normal forms": [pa.array(["Ren\u00e9", "Rene\u0301"])],
}  # fmt: skip


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("name", DIFFERENT)
def test_different_values_are_different_units(name: str, kind: str, tmp_path: Path) -> None:
    one, count = table("parquet"), 0
    for array in DIFFERENT[name]:
        save(tmp_path, one, array, [1] * len(array))
        count += len(array)
    assert answers(kind, tmp_path, catalog(one), max_rows_per_group=1)[0] == [count]


NOBODY = pa.array([float("nan"), float("inf"), float("-inf"), None])


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(("null_id", "count"), [("drop", 0), ("unit", 4)])
def test_what_is_no_number_is_nobody(null_id: str, count: int, kind: str, tmp_path: Path) -> None:
    one = table("parquet", null_id=null_id)
    save(tmp_path, one, NOBODY, [1] * 4)
    assert answers(kind, tmp_path, catalog(one), max_rows_per_group=1)[0] == [count]


@pytest.mark.parametrize("kind", EVERY)
def test_null_values_are_compared_with_the_text_alone(kind: str, tmp_path: Path) -> None:
    """A replacement character that is listed is that character, and not what cannot be read."""
    one = table("csv")
    listed = ("", "\ufffd", f"{MARK}ff", "n/a")
    one = one.model_copy(update={"source": one.source.model_copy(update={"null_values": listed})})
    ids = [b"\xff", b"\xfe", "\ufffd".encode(), f"{MARK}ff".encode(), f"{MARK}fe".encode(), b"n/a", b"", b"a"]
    save(tmp_path, one, ids, [1 << at for at in range(len(ids))])
    assert answers(kind, tmp_path, catalog(one), max_rows_per_group=1)[2] == [0b10010011]


@st.composite
def files(draw: st.DrawFn) -> list[tuple[pa.DataType, list[bytes]]]:
    """Files of ids, each in a type of its own; ids of one file are often in another one, too."""
    pool = draw(st.lists(st.one_of(st.sampled_from(APART), st.binary(max_size=3)), min_size=1, max_size=6))
    kinds = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())]
    return draw(st.lists(st.tuples(st.sampled_from(kinds), st.lists(st.sampled_from(pool), max_size=9)), min_size=1, max_size=3))  # fmt: skip


@settings(max_examples=few(8, 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=files(), lent=files(), most=st.integers(1, 4), shape=st.sampled_from(["csv", "parquet"]))
def test_whatever_the_bytes_an_engine_tells_apart_what_the_reference_engine_does(
    kind: str, rows: Any, lent: Any, most: int, shape: str
) -> None:
    """Units, which of their rows stay, and whom they meet in another table, which may be in the other format."""
    one = table(shape, bounds=TableBounds(max_rows=most), private_joins=JOINED)
    other = lender("parquet" if len(lent) > 1 else shape)
    with tempfile.TemporaryDirectory() as name:
        folder, at = Path(name), 0
        for stored, ids in rows:
            save(folder, one, ids, [1 << (at + each) for each in range(len(ids))], stored)
            at += len(ids)
        for stored, ids in lent:
            save(folder, other, ids, [each % 3 + 1 for each in range(len(ids))], stored)
        found = [
            answers(each, folder, catalog(one, other), (), max_rows_per_group=most) for each in (kind, "reference")
        ]
        by_tenure = [answers(each, folder, catalog(one, other), ("tenure",), max_groups=1, max_rows_per_group=1) for each in (kind, "reference")]  # fmt: skip
    assert found[0] == found[1]
    assert found[0][0] == [len({raw for _, ids in rows for raw in ids if raw})]
    assert by_tenure[0] == by_tenure[1]
