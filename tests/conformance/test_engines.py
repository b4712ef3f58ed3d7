"""Every engine in ``ENGINES`` gives the reference engine's numbers, whatever the table and the rows."""

from __future__ import annotations

import csv
import datetime as dt
import io
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Catalog, Column, Join, Source, Table
from dprelease.engines import ENGINES
from tests.conformance.people import ASKED, BY, COUNT, GOOD, HEAD, PEOPLE, SECRET, answers, integers, opened
from tests.conformance.reference_engine import ReferenceEngine
from tests.tiers import few

ODD = [
    "", " ", "N", "nan", "NaN", "inf", "-inf", "Infinity", "1e308", "-1e308", "1e309", "1e400", "-1e400", "1e-400",
    "9" * 400, "-" + "9" * 400, "0" * 400 + "7", "1e99999999999999999999", "1e-99999999999999999999", "\x00", "1\x00",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "15400.0", "15400.",
    "15400.5", "1.5e1", "10e-1", "1e3", "-0", "-0.0", "+3", " 3 ", "\t3", "3 4", "0x1F", "1_000", "1,5", ".5", ".", "-",
    "e5", "٣", "true", "T", "FALSE", "f", "yes", "2024-02-29", "2023-02-29", "0000-01-01", "20240229", "2024-2-9",
    "2024-02-29T10:00:00", "2024-02-29 24:61", "a", "A", "ä", "a\u0308", "a\rb", 'say "hi"', "'; drop table t; --", "b,c",
    "2.5", "-2.5", "0.5", "0.49999999999999994", "1.005", "7", "8", "1", "2", "0", "-7",
]  # fmt: skip
TEXTS = st.sampled_from(ODD)
LIKELY = st.sampled_from(["1", "2", "3", "a", "b", "7", "-7", "true", "0", "2024-02-29", "2.5", "99"])
GARBAGE = [
    b'"', b'"a', b'a"b', b'1,"2', b'"1"x,2,3,4,5,6', b'"' * 7, b",", b"," * 40, b"\xff\xfe\x80,1,2", b"\x00\x00",
    b"\r\r\r", b"a\rb\rc", b"1,2\r,3", b'""",""', b"\xe2\x82", b"1,2,3,4,5,6,7,8",
]  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """A table with a column of every type and a join, with options drawn."""
    outside = st.sampled_from(["clamp", "null"])
    maybe = st.booleans()
    columns = (
        Column(name="area", type="text", keys=("b", "", "a", "7"), null=draw(st.sampled_from([None, "a"]))),
        Column(
            name="Code",
            type="integer",
            keys=draw(st.sampled_from([(2, 1, 3, -7, 2**62), (1, 2, 3), (-7,), (2**63 - 2, 2**63 - 1)])),
            range=draw(st.sampled_from([None, integers(1, 3), integers(-(2**70), 2**70)])),
            outside=draw(outside),
            null=draw(st.sampled_from([None, 3])),
        ),
        Column(name="code", type="boolean", keys=(True, False), null=True if draw(maybe) else None),
        Column(name="day", type="date", keys=("2024-02-29", "2024-03-01")),
        Column(
            name="amount",
            type="decimal",
            range=draw(st.sampled_from([integers(-5, 100), integers(-(2**80), 2**80)])),
            outside=draw(outside),
        ),
        Column(name="seen at", type="timestamp"),
        Column(name="region", type="text", keys=("s", "n"), reference="regions", null="n" if draw(maybe) else None),
        Column(name="rank", type="integer", range=integers(0, 9), reference="regions"),
    )
    nulls = draw(st.sampled_from([(), ("",), ("", "N", "7", "-7")]))
    shape = draw(st.sampled_from(["csv", "parquet"]))
    join = Join(reference="regions", on="area", add=("region", "rank"))
    source = Source(file=f"rows-*.{shape}", format=shape, null_values=nulls)
    return Table(name="t", account="a", source=source, columns=columns, joins=(join,))


@st.composite
def quantities(draw: st.DrawFn) -> Quantity:
    kind = draw(
        st.sampled_from(["rows", "nonnull", "balance", "rest", "sum", "square", "units", "distinct", "quantile"])
    )
    if kind in ("rows", "units"):
        return Quantity(kind=kind)
    if kind == "rest" or (kind == "balance" and draw(st.booleans())):
        column = draw(st.sampled_from([None, "area", "day"])) if kind == "rest" else None
        where = draw(st.sampled_from(["amount > 0", "rank < 5 or area is null"]))
        return Quantity(kind=kind, column=column, where=where)
    if kind in ("nonnull", "balance", "distinct"):
        names = ["area", "Code", "code", "day", "amount", "seen at", "region", "rank"]
        return Quantity(kind=kind, column=draw(st.sampled_from(names)))
    low = draw(st.sampled_from([-(2**61), -1000, 0, 2]))
    high = draw(st.sampled_from([3, 1000, 2**61]))
    step = draw(st.sampled_from([Fraction(1), Fraction(1, 100), Fraction(5), Fraction(2, 3)]))
    column = draw(st.sampled_from(["Code", "amount", "rank"]))
    if column == "Code" and step != 1:  # whole numbers on a coarse grid are exact up to 2 ** 51
        low, high = max(low, -1000), min(high, 1000)
    if kind == "square":
        low, high = max(low, -(2**44)), min(high, 2**44)
        centre = draw(st.sampled_from([0, -3, 2]))
        whole = Quantity(kind="square", column=column, step=step, low=low, high=high, centre=centre)
        least = max(1, -(-whole.squares[1] // 2**30))
        grain = draw(st.sampled_from([least, least + 1, 3 * least + 1]))
        return whole.model_copy(update={"grain": grain, "offset": draw(st.sampled_from([0, 7, 2**29]))})
    if kind == "quantile":
        return Quantity(kind="quantile", column=column, step=step, low=low, high=high, at=Fraction(1, 2))
    return Quantity(kind="sum", column=column, step=step, low=low, high=high, centre=draw(st.sampled_from([0, -3, 2])))


STORED = st.one_of(
    st.none(),
    TEXTS,
    LIKELY,
)
NATIVE: dict[str, st.SearchStrategy[Any]] = {
    "area": st.one_of(st.none(), st.integers(5, 8)),
    "Code": st.one_of(st.none(), st.floats(), st.sampled_from([1.0, 2.0, -0.0, 1e300, -7.0, 2.5])),
    "code": st.one_of(st.none(), st.integers(-1, 2)),
    "day": st.one_of(st.none(), st.sampled_from([dt.date(2024, 2, 29), dt.date(2024, 3, 1), dt.date(1, 1, 1)])),
    "amount": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    "seen at": st.one_of(st.none(), st.sampled_from([dt.datetime(2024, 2, 29, 23, 59), dt.datetime(9999, 12, 31)])),
}
NATIVE_2: dict[str, st.SearchStrategy[Any]] = {
    "area": st.one_of(st.none(), st.sampled_from([b"a", b"\xff", b"7"])),
    "Code": st.one_of(st.none(), st.sampled_from([Decimal("1.00"), Decimal("2.50"), Decimal("-7.00")])),
    "code": st.one_of(st.none(), st.booleans()),
    "day": st.one_of(st.none(), st.sampled_from([dt.datetime(2024, 2, 29, 23, 59), dt.datetime(1969, 12, 31, 23)])),
    "amount": st.one_of(st.none(), st.floats()),
    "seen at": STORED,
}


def source_names(table: Table) -> list[str]:
    return [column.name for column in table.columns if column.reference is None]


def line(values: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode()


@st.composite
def parts(draw: st.DrawFn, table: Table) -> list[bytes]:
    """The bytes of one or two files of a table."""
    names = source_names(table)
    native = draw(st.sampled_from([None, NATIVE, NATIVE_2]))
    made = []
    for _ in range(draw(st.integers(1, 2))):
        if table.source.format == "parquet":
            count = draw(st.integers(0, 12))
            columns = {
                name: draw(st.lists(native[name] if native else STORED, min_size=count, max_size=count))
                for name in names
            }
            sink = io.BytesIO()
            pq.write_table(pa.table(columns), sink)
            made.append(sink.getvalue())
            continue
        record = st.lists(st.one_of(TEXTS, LIKELY), min_size=len(names), max_size=len(names)).map(line)
        garbage = st.one_of(st.sampled_from(GARBAGE), st.binary(max_size=12)).map(lambda raw: raw + b"\n")
        rows = draw(st.lists(st.one_of(record, record, record, garbage), max_size=14))
        mark, end = draw(st.sampled_from([b"", b"\xef\xbb\xbf"])), draw(st.sampled_from([b"\n", b"\r\n"]))
        data = mark + line([*names])[:-1] + end + b"".join(rows)
        made.append(data if draw(st.booleans()) else data.removesuffix(b"\n"))
    return made


def agrees(kind: str, data: st.DataObject) -> None:
    table = data.draw(tables())
    files = data.draw(parts(table))
    some = st.lists(st.sampled_from(["area", "Code", "code", "day", "region"]), unique=True, max_size=3).map(tuple)
    by, complete = data.draw(some), data.draw(st.one_of(st.just(()), some))
    asked = data.draw(st.lists(quantities(), min_size=1, max_size=5))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, content in enumerate(files):
            (folder / f"rows-{at}.{table.source.format}").write_bytes(content)
        engine = ENGINES[kind](folder, {})
        engine.describe(table)
        found = answers(engine, table, by, asked, complete=complete)
        again = answers(engine, table, by, asked, complete=complete)
        engine.close()
        assert found == answers(ReferenceEngine(folder, {}), table, by, asked, complete=complete)
        assert found == again


@settings(max_examples=few(20, 6), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_engine_gives_the_numbers_of_the_reference_engine(kind: str, data: st.DataObject) -> None:
    agrees(kind, data)


@pytest.mark.nightly
@settings(max_examples=few(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_engine_gives_the_numbers_of_the_reference_engine_in_full(kind: str, data: st.DataObject) -> None:
    agrees(kind, data)


def test_a_row_joins_after_clamping_and_a_reference_key_as_it_is(kind: str, tmp_path: Path) -> None:
    """Reference keys beyond the range are no match: clamped too, two of them could double a row."""
    area = Column(name="area", type="integer", range=integers(1, 9))
    name = Column(name="name", type="text", keys=("in", "edge", "far", "out"), reference="areas")
    source, join = Source(file="t.csv", format="csv"), Join(reference="areas", on="area", add=("name",))
    table = Table(name="t", account="a", source=source, columns=(area, name), joins=(join,))
    areas = ReferenceTable(columns={"area": (1, 9, 10, 11), "name": ("in", "edge", "far", "out")})
    (tmp_path / "t.csv").write_text("area\n1\n9\n10\n11\n99\nx\n")
    engine = ENGINES[kind](tmp_path, {})
    catalog, grouping = Catalog(tables={"t": table}), Grouping(table="t", by=("name",))
    (box,) = engine.aggregate(catalog, grouping, (COUNT,), {"areas": areas}, SECRET)
    assert opened(box) == [1, 4, 0, 0]
    engine.close()


def test_rows_of_a_table_without_source_columns_are_counted(kind: str, tmp_path: Path) -> None:
    table = Table(name="t", account="a", source=Source(file="t.*", format="csv"), columns=())
    (tmp_path / "t.csv").write_text("n,m\n1,2\n3,4\n5\n")
    engine = ENGINES[kind](tmp_path, {})
    assert answers(engine, table, (), [COUNT, COUNT]) == [[3], [3]]
    engine.close()


def test_a_loaded_table_serves_later_batches(kind: str, tmp_path: Path) -> None:
    """All answers of a release come from one state of the files."""
    (tmp_path / "people.csv").write_bytes(HEAD + b"".join(GOOD))
    engine = ENGINES[kind](tmp_path, {})
    first = answers(engine, PEOPLE, BY, ASKED)
    (tmp_path / "people.csv").unlink()
    assert answers(engine, PEOPLE, BY, ASKED) == first
    engine.close()
