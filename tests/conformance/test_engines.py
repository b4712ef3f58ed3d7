"""Every engine in ``ENGINES`` gives the reference engine's numbers, and nothing that a row holds can change how."""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
import random
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

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Column, Join, Range, Source, Table
from dprelease.engines import ENGINES, Engine
from dprelease.errors import Unsupported
from dprelease.noise.exact import open_exact
from tests.conformance.reference_engine import ReferenceEngine

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
REGIONS = ReferenceTable(columns={"area": ("a", "b", "A", "7", "x"), "region": ("n", "s", "n", "w", "s"), "rank": (1, 2, 3, 400, 5)})  # fmt: skip
COUNT = Quantity(kind="rows")


def integers(low: int, high: int) -> Range:
    return Range(low=Fraction(low), high=Fraction(high))


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
            keys=(2, 1, 3, -7, 2**62),
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
    kind = draw(st.sampled_from(["rows", "nonnull", "balance", "sum", "square"]))
    if kind == "rows":
        return COUNT
    if kind in ("nonnull", "balance"):
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


def answers(engine: Engine, table: Table, by: tuple[str, ...], asked: Sequence[Quantity]) -> list[list[int]]:
    return [open_exact(box).tolist() for box in engine.aggregate(table, by, asked, {"regions": REGIONS})]


@pytest.mark.parametrize("kind", ENGINES)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_engine_gives_the_numbers_of_the_reference_engine(kind: str, data: st.DataObject) -> None:
    table = data.draw(tables())
    files = data.draw(parts(table))
    by = tuple(data.draw(st.lists(st.sampled_from(["area", "Code", "code", "day", "region"]), unique=True, max_size=3)))
    asked = data.draw(st.lists(quantities(), min_size=1, max_size=5))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, content in enumerate(files):
            (folder / f"rows-{at}.{table.source.format}").write_bytes(content)
        engine = ENGINES[kind](folder, {})
        engine.describe(table)
        found = answers(engine, table, by, asked)
        again = answers(engine, table, by, asked)
        engine.close()
        assert found == answers(ReferenceEngine(folder, {}), table, by, asked)
        assert found == again


# --- one hostile row, every other row as before ---------------------------------------------------------------------

PEOPLE = Table(
    name="people",
    account="a",
    source=Source(file="people*.csv", format="csv"),
    columns=(
        Column(name="sex", type="integer", keys=(1, 2)),
        Column(name="town", type="text", keys=("x", "y")),
        Column(name="pay", type="integer", range=integers(0, 1000)),
    ),
)
ASKED = (COUNT, Quantity(kind="nonnull", column="pay"), Quantity(kind="sum", column="pay", low=0, high=1000))
BY = ("sex", "town")


@pytest.fixture(params=ENGINES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def people(kind: str, folder: Path, *contents: bytes, by: tuple[str, ...] = BY) -> list[list[int]]:
    folder.mkdir()
    for at, content in enumerate(contents):
        (folder / f"people{at}.csv").write_bytes(content)
    engine = ENGINES[kind](folder, {})
    try:
        return [open_exact(box).tolist() for box in engine.aggregate(PEOPLE, by, ASKED, {})]
    finally:
        engine.close()


HEAD = b"sex,town,pay\n"
GOOD = [f"{at % 2 + 1},{'xy'[at % 3 % 2]},{at}\n".encode() for at in range(60)]
HOSTILE = {
    "unclosed quote": b'1,"x,5\n',
    "a lone quote": b'"\n',
    "quote bomb": b'"' * 100_001 + b"\n",
    "quote bomb of pairs": b'1,"' + b'""' * 50_000 + b'",5\n',
    "text after a quote": b'1,"x"y,5\n',
    "too few fields": b"1,x\n",
    "too many fields": b"1,x,5,6\n",
    "invalid UTF-8": b"1,\xff\xfe\xc3,5\n",
    "a cut UTF-8 sequence": b"1,\xe2\x82\n",
    "NUL": b"1,\x00,\x00\n",
    "carriage returns": b"1,x\r1,y,5\r2,x,7\n",
    "one field of a megabyte": b"1," + b"z" * 2**20 + b",5\n",
    "a line too long to be a row": b"1,x," + b"5" * (2**24) + b"\n",
    "a number too long": b"1,q," + b"9" * 5000 + b"\n",
    "an exponent too long": b"1,q,1e" + b"9" * 5000 + b"\n",
    "not a number": b"NaN,q,inf\n",
    "escape by backslash": b'1,"x\\",5\n',
    "empty lines": b"\n\n\r\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_hostile_row_leaves_every_other_row_alone(kind: str, name: str, tmp_path: Path) -> None:
    """No hostile row here falls in a cell, so the cells are those of the file without it, wherever it stands."""
    clean = people(kind, tmp_path / "clean", HEAD + b"".join(GOOD))
    for at in (0, 30, 60):
        rows = [*GOOD[:at], HOSTILE[name], *GOOD[at:]]
        assert people(kind, tmp_path / f"hostile{at}", HEAD + b"".join(rows)) == clean


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "empty lines"])
def test_a_hostile_row_is_one_row(kind: str, name: str, tmp_path: Path) -> None:
    """Without keys it counts once, like every row."""
    found = people(kind, tmp_path / "all", HEAD + b"".join([*GOOD, HOSTILE[name]]), by=())
    assert found[0] == [len(GOOD) + 1]


def test_an_empty_line_is_no_row(kind: str, tmp_path: Path) -> None:
    found = people(kind, tmp_path / "all", HEAD + b"\n\r\n".join(GOOD) + b"\n\n", by=())
    assert found[0] == [len(GOOD)]


def test_order_and_files_do_not_matter(kind: str, tmp_path: Path) -> None:
    rows = [*GOOD, *(row for name, row in HOSTILE.items() if len(row) < 200_000)]
    first = people(kind, tmp_path / "first", HEAD + b"".join(rows))
    mixed = random.Random(7).sample(rows, len(rows))
    assert people(kind, tmp_path / "mixed", HEAD + b"".join(mixed)) == first
    assert people(kind, tmp_path / "split", HEAD + b"".join(mixed[:9]), HEAD, HEAD + b"".join(mixed[9:])) == first
    assert people(kind, tmp_path / "crlf", (HEAD + b"".join(rows)).replace(b"\n", b"\r\n")) == first
    assert people(kind, tmp_path / "bom", b"\xef\xbb\xbf" + HEAD + b"".join(rows)) == first


def test_columns_may_stand_in_another_order_with_others_between(kind: str, tmp_path: Path) -> None:
    moved = [b",".join((b"junk", *reversed(row.strip().split(b",")))) + b"\n" for row in GOOD]
    clean = people(kind, tmp_path / "clean", HEAD + b"".join(GOOD))
    assert people(kind, tmp_path / "moved", b"other,pay,town,sex\n" + b"".join(moved)) == clean


def test_an_empty_table_has_every_cell(kind: str, tmp_path: Path) -> None:
    assert people(kind, tmp_path / "empty", HEAD) == [[0] * 4] * 3
    assert people(kind, tmp_path / "bare", HEAD.strip(), by=()) == [[0]] * 3


def test_quoted_rows_in_number(kind: str, tmp_path: Path) -> None:
    """100,000 rows, half of them with quotes, commas inside quotes and doubled quotes, over several blocks."""
    rows = [
        (str(at % 2 + 1), ("x", "y", "a, b", 'say "x"')[at % 4], str(at % 1500))
        for at in range(100_000)
    ]  # fmt: skip
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(rows)
    found = people(kind, tmp_path / "quoted", HEAD + text.getvalue().encode())
    expected = [
        [sum(1 if number < 2 else min(int(c), 1000) for a, b, c in rows if (int(a), b) == cell) for cell in CELLS]
        for number in range(3)
    ]
    assert found == expected


CELLS = [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


def test_totals_beyond_64_bits_are_clamped(kind: str, tmp_path: Path) -> None:
    column = Column(name="n", type="integer", range=integers(-(2**62), 2**62))
    table = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(column,))
    (tmp_path / "t.csv").write_text("n\n" + "9999999999999999999\n" * 5)
    engine = ENGINES[kind](tmp_path, {})
    asked = [Quantity(kind="sum", column="n", low=-(2**62), high=2**62)]
    assert answers(engine, table, (), asked) == [[2**62]]
    (tmp_path / "u.csv").write_text("n\n" + "-1e30\n" * 5)
    other = table.model_copy(update={"source": Source(file="u.csv", format="csv")})
    assert answers(engine, other, (), asked) == [[-(2**62)]]
    engine.close()


def test_the_grid_holds_for_every_double(kind: str, tmp_path: Path) -> None:
    """Doubles beyond 64 bits, and beyond the largest double once multiplied, end at the clip; halves go outwards."""
    column = Column(name="x", type="decimal", range=integers(-(2**1020), 2**1020))
    table = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(column,))
    (tmp_path / "t.csv").write_text("x\n1e308\n-1e308\n1e306\n1e30\n-1e30\n0.125\n-0.125\n0.49999999999999994\n")
    sums = [(-(2**60), 2**61, Fraction(1, 10**6)), (-10, 2**62, Fraction(1, 4)), (-3, 3, Fraction(1))]
    asked = [Quantity(kind="sum", column="x", low=low, high=high, step=step) for low, high, step in sums]
    engine = ENGINES[kind](tmp_path, {})
    found = answers(engine, table, (), asked)
    engine.close()
    assert found == answers(ReferenceEngine(tmp_path, {}), table, (), asked)
    assert found[2] == [3]  # 3 - 3 + 3 + 3 - 3 + 0 + 0 + 0


@pytest.mark.parametrize(
    "most", [9, 2**15, 2**15 + 1, 46_341, 10**7, 2**31 - 1, 2**31, 3 * 10**9, 10**12 + 7, 2**45 - 1]
)
def test_squares_are_exact_next_to_every_half_grain(kind: str, most: int, tmp_path: Path) -> None:
    """Values whose squares lie just below, on and just above the half of a grain, in cells of their own."""
    grain = max(1, -(-(most**2) // 2**30))
    grains = sorted(each for each in {grain, grain + 1, 2 * grain + 1} if each < 2**60)
    draw = random.Random(most)
    values = {0, 1, most - 1, most, -most, -most - 1, most + 1}
    for each in grains:
        for number in [0, 1, most**2 // each, *(draw.randrange(most**2 // each + 1) for _ in range(12))]:
            root = math.isqrt((2 * number + 1) * each // 2)
            values |= {root - 1, root, root + 1, -root, -root - 1}
    rows = sorted(values)
    key = Column(name="k", type="integer", keys=tuple(range(len(rows))))
    x = Column(name="x", type="integer", range=integers(-(2**62), 2**62))
    table = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(key, x))
    (tmp_path / "t.csv").write_text("k,x\n" + "".join(f"{at},{value}\n" for at, value in enumerate(rows)))
    asked = [
        Quantity(kind="square", column="x", low=-most, high=most, grain=each, offset=offset)
        for each in grains
        for offset in (0, 2**29)
    ]
    engine = ENGINES[kind](tmp_path, {})
    found = answers(engine, table, ("k",), asked)
    engine.close()
    assert found == answers(ReferenceEngine(tmp_path, {}), table, ("k",), asked)


def test_a_balance_is_one_for_every_value_and_minus_one_for_every_null(kind: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(HEAD + b"1,x,5\n1,x,\n1,x,what\n2,y,7\n2,y,-9\n3,x,5\n")
    asked = [Quantity(kind="balance", column="pay"), COUNT, Quantity(kind="nonnull", column="pay")]
    engine = ENGINES[kind](tmp_path, {})
    balance, rows, nonnull = answers(engine, PEOPLE, BY, asked)
    assert (balance, rows, nonnull) == ([-1, 0, 0, 2], [3, 0, 0, 2], [1, 0, 0, 2])
    (tmp_path / "people.csv").write_bytes(HEAD)
    engine.close()
    engine = ENGINES[kind](tmp_path, {})
    assert answers(engine, PEOPLE, (), asked) == [[0]] * 3
    engine.close()


@pytest.mark.parametrize(
    "wide",
    [
        Quantity(kind="square", column="pay", low=0, high=2**15 + 1),
        Quantity(kind="square", column="pay", low=-(2**50), high=2**50, grain=2**70),
    ],
)
def test_squares_that_do_not_fit_are_refused_before_anything_is_read(kind: str, wide: Quantity, tmp_path: Path) -> None:
    engine = ENGINES[kind](tmp_path, {})
    with pytest.raises(Unsupported, match="DPR-E206"):
        engine.aggregate(PEOPLE, BY, [wide], {})
    engine.close()


def test_a_row_joins_after_clamping_and_a_reference_key_as_it_is(kind: str, tmp_path: Path) -> None:
    """Reference keys beyond the range are no match: clamped too, two of them could double a row."""
    area = Column(name="area", type="integer", range=integers(1, 9))
    name = Column(name="name", type="text", keys=("in", "edge", "far", "out"), reference="areas")
    source, join = Source(file="t.csv", format="csv"), Join(reference="areas", on="area", add=("name",))
    table = Table(name="t", account="a", source=source, columns=(area, name), joins=(join,))
    areas = ReferenceTable(columns={"area": (1, 9, 10, 11), "name": ("in", "edge", "far", "out")})
    (tmp_path / "t.csv").write_text("area\n1\n9\n10\n11\n99\nx\n")
    engine = ENGINES[kind](tmp_path, {})
    (box,) = engine.aggregate(table, ("name",), (COUNT,), {"areas": areas})
    assert open_exact(box).tolist() == [1, 4, 0, 0]
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
    first = [open_exact(box).tolist() for box in engine.aggregate(PEOPLE, BY, ASKED, {})]
    (tmp_path / "people.csv").unlink()
    assert [open_exact(box).tolist() for box in engine.aggregate(PEOPLE, BY, ASKED, {})] == first
    engine.close()
