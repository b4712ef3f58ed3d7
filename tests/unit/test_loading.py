"""Only what is looked at is read, the short ways say what the long ones say, and a failing block leaves no table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.dialect import Dialect
from dprelease.catalog.table import Catalog, Column, Join, Range, Source, Table, TableBounds, TimeFilter, Zeros
from dprelease.engines.declared import Loading, loading, unjoined
from dprelease.engines.duck import array_totals, bounding, pipeline, query
from dprelease.engines.duck import loading as room
from dprelease.engines.duck.backend import locked_connection
from dprelease.engines.duck.cells import key_places
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.engines.files.csv_lines import split_lines
from dprelease.engines.files.in_turn import in_turn
from dprelease.engines.files.parquet import parquet_blocks
from dprelease.engines.files.plain_lines import split_plain
from dprelease.engines.files.reader import FileReader
from dprelease.engines.files.rows import typed_with_steps
from dprelease.engines.files.source import stored_blocks
from dprelease.engines.files.values import READ
from dprelease.errors import BrokenPromiseError, DpReleaseError, EngineError, Unavailable
from dprelease.noise.exact import Exact, open_exact
from tests.tiers import few

SECRET, COUNT = bytes(32), Quantity(kind="rows")
PIECES = [
    b"1", b"22", b"a", b"", b" ", b",", b",", b",", b"\n", b"\n", b"\r\n", b"\r", b'"', b'"', b'"x"', b'""', b'"a,b"',
    b'"a""b"', b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xc3\xa4", b"'", b";",
]  # fmt: skip


@settings(max_examples=few(2000, 300), deadline=None)
@example(b'"a,b"\n1,2\n', 2, ",")
@example(b'""\n\nx\n', 1, ",")
@example(b"\xef\xbb\xbf1,2\n3,4\n", 2, ",")
@example(b'"\xef\xbb\xbf1",2\n3,4\n', 2, ",")
@example(b'a"b,"c\nd",e\n', 2, ",")
@example(b"1;\xff\n;\r\n", 2, ";")
@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join), st.integers(1, 4), st.sampled_from([",", ";"]))
def test_plain_blocks_are_read_as_all_others_are(block: bytes, width: int, delimiter: Any) -> None:
    """Row by row, whatever quotes, line ends, marks and bytes there are."""
    dialect, wanted = Dialect(delimiter=delimiter), list(range(width))
    plain = split_plain(block + b"\n", width, wanted, {0}, dialect)
    if plain is not None:
        known = split_lines(block + b"\n", width, wanted, dialect)
        rows = [sorted(zip(*(column.to_pylist() for column in each), strict=True)) for each in (plain, known)]
        assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("block", "quote"),
    [(b"1,2\n,\r\n\n3,4\n", '"'), (b'"1","2"\n"",x y\n', '"'), (b"'1',\"\n", "'"), (b'"1",2\n', None)],
)
def test_ordinary_blocks_are_plain(block: bytes, quote: Any) -> None:
    """Else the law above would say nothing."""
    assert split_plain(block, 2, [0, 1], (), Dialect(quote=quote)) is not None


NUMBERS = st.text("0123456789-.", max_size=20)
NEAR = st.sampled_from(["", "-", ".", "-.", "5.", ".5", "-0", "-0.0", "007", "0x1F", "1e3", "inf", "nan", " 1", "+1"])


@settings(max_examples=few(1000, 200), deadline=None)
@given(
    st.lists(st.one_of(st.none(), NUMBERS, NUMBERS, NEAR), max_size=6), st.sampled_from([(), ("",), ("-9", "", "x")])
)
def test_texts_of_digits_mean_what_each_of_them_means(texts: list[str | None], nulls: tuple[str, ...]) -> None:
    cents = Fraction(1, 100)
    for kind in ("integer", "decimal"):
        column = Column(name="n", type=kind, range=Range(low=Fraction(-(10**30)), high=Fraction(10**30)))
        grids = (cents,) if kind == "decimal" else ()
        together = typed_with_steps(column, pa.array(texts, pa.string()), nulls, grids)
        alone = [typed_with_steps(column, pa.array([text, "x"], pa.string()), nulls, grids) for text in texts]
        for at, array in enumerate(together):
            assert array.to_pylist() == [each[at][0].as_py() for each in alone]
        read = [None if text is None or text in nulls else READ[kind](text) for text in texts]
        if all(isinstance(value, int | float | None) and abs(value or 0) < 2**63 for value in read):
            assert together[0].to_pylist() == read


def people(**more: Any) -> Table:
    columns = (
        Column(name="sex", type="integer", keys=(1, 2)),
        Column(name="area", type="text", keys=("a", "b")),
        Column(name="pay", type="decimal"),
        Column(name="note", type="text"),
        Column(name="region", type="text", keys=("n", "s"), reference="regions"),
    )
    fields = {"joins": (Join(reference="regions", on="area", add=("region",)),), "columns": columns, **more}
    return Table(name="people", account="a", source=Source(file="people.csv", format="csv"), **fields)


def wanted(table: Table, *quantities: Quantity, **grouping: Any) -> tuple[list[str], list[str]]:
    catalog = Catalog(
        tables={table.name: table}, zeros={"never": Zeros(reference="none", columns=("area", "sex"), cells=(0,))}
    )
    found = loading(catalog, Grouping(**{"table": table.name, "by": (), **grouping}), quantities or (COUNT,))["people"]
    return sorted(found.values), sorted(found.places)


def test_only_what_is_looked_at_is_wanted() -> None:
    table, pay = people(), Quantity(kind="sum", column="pay", low=0, high=9)
    assert wanted(table) == ([], [])
    assert wanted(table, by=("sex", "area")) == ([], ["area", "sex"])
    assert wanted(table, by=("region", "sex")) == (["area"], ["sex"])
    assert wanted(table, by=("area", "region")) == (["area"], [])
    assert wanted(table, pay, by=("sex",), where="area = 'a'") == (["area", "pay"], ["sex"])
    assert wanted(table, COUNT.model_copy(update={"where": "sex = 1"}), by=("sex",)) == (["sex"], [])
    assert wanted(table, by=("area",), complete=("sex", "area"), zeros="never") == (["area", "sex"], [])
    assert wanted(table, by=("area",), private=True) == (["area"], [])
    assert wanted(table, Quantity(kind="distinct", column="note"), by=("sex",)) == (["note"], ["sex"])


def test_where_rows_of_a_unit_are_chosen_everything_is_wanted() -> None:
    """A sample goes by the whole content of a row: with fewer columns it would be another one."""
    table, pay = people(unit_id="id"), Quantity(kind="sum", column="pay", low=0, high=9)
    everything: tuple[list[str], list[str]] = (["area", "id", "note", "pay", "sex"], [])
    assert wanted(table, by=("sex",), max_groups=2, max_rows_per_group=1) == (["id"], ["sex"])
    assert wanted(table, pay, by=("sex",), max_groups=2) == (["id", "pay"], ["sex"])
    assert wanted(table, pay, by=("sex",), max_rows_per_group=1) == everything
    assert wanted(people(unit_id="id", bounds=TableBounds(max_rows=3)), by=("sex",)) == everything


def test_more_can_be_answered_from_values_than_from_places() -> None:
    places, values = Loading(frozenset(), frozenset({"a"})), Loading(frozenset({"a"}))
    assert values.covers(places)
    assert not places.covers(values)
    assert places | values == values
    assert (places | Loading(frozenset({"b"}))).places == {"a"}


def of_area(engine: DuckDBEngine, **grouping: Any) -> list[int]:
    catalog = Catalog(tables={"people": people(joins=(), columns=people().columns[:4])})
    (box,) = engine.aggregate(catalog, Grouping(table="people", by=("area",), **grouping), (COUNT,), {}, b"")
    assert isinstance(box, Exact)
    return [int(value) for value in open_exact(box)]


def test_unexpected_questions_read_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_totals, "_CELLS", 0)
    (tmp_path / "people.csv").write_text("sex,area,pay,note\n1,a,2.5,x\n2,b,7,y\n2,b,x,\n")
    catalog = Catalog(tables={"people": people(joins=(), columns=people().columns[:4])})
    engine = DuckDBEngine(tmp_path, {})
    areas = [Grouping(table="people", by=by) for by in (("area",), ())]
    engine.expect(catalog, [(grouping, (COUNT,)) for grouping in areas])
    assert of_area(engine) == [1, 2]
    kept = [
        row[0]
        for row in engine._backend.con.execute("SELECT column_name FROM duckdb_columns() WHERE NOT internal").fetchall()
    ]
    assert kept == ["c1_at"]
    assert of_area(engine, where="pay > 3") == [0, 1]
    assert of_area(engine, where="sex = 2") == [0, 2]
    assert len(engine._backend.con.execute("SHOW TABLES").fetchall()) == 2
    engine.close()


def test_rows_that_one_question_is_about_are_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "people.csv").write_text("sex,area,pay,note\n1,a,2.5,x\n2,b,7,y\n2,b,x,\n")
    catalog = Catalog(tables={"people": people(joins=(), columns=people().columns[:4])})
    monkeypatch.setattr(array_totals, "_CELLS", 0)
    engine, readings = DuckDBEngine(tmp_path, {}), list[int]()
    blocks = FileReader.blocks

    def counted(*given: Any) -> Iterator[Any]:
        readings.append(1)
        return blocks(*given)

    monkeypatch.setattr(FileReader, "blocks", counted)
    engine.expect(catalog, [(Grouping(table="people", by=("area",)), (COUNT,))])
    for times in (1, 2):  # a second time it was not told of: the source is read again
        assert of_area(engine) == [1, 2]
        assert len(readings) == times
        assert engine._backend.con.execute("SHOW TABLES").fetchall() == []
    assert catalog.tables["people"].fingerprint() in engine._read
    engine.close()


def test_rows_pass_where_they_meet_no_other_table() -> None:
    """A stream has no number of rows that DuckDB knows: in a join it could be held whole."""
    pay = Quantity(kind="sum", column="pay", low=0, high=9)

    def passes(*quantities: Quantity, table: Table | None = None, **grouping: Any) -> bool:
        catalog = Catalog(
            tables={"people": table or people()},
            zeros={"never": Zeros(reference="none", columns=("area", "sex"), cells=(0,))},
            exclusions={"some": (0,)},
        )
        return unjoined(catalog, Grouping(table="people", **{"by": (), **grouping}), quantities or (COUNT,))

    assert passes()
    assert passes(pay, by=("sex", "area"))
    assert passes(pay, by=("sex",), where="area = 'a' AND note IS NULL")
    assert passes(by=("area",), complete=("area", "sex"))
    assert not passes(pay, by=("area",), where="area = 'a'")  # by its value, which is looked for among the keys
    assert not passes(by=("region",))  # of a public join
    assert not passes(by=("sex",), where="region = 'n'")
    assert not passes(by=("sex",), complete=("area", "sex"), zeros="never")
    assert not passes(by=("sex",), excluding="some")
    assert not passes(by=("sex",), private=True)


@pytest.mark.parametrize("cells", [0, 2**18], ids=["statements", "arrays"])
@pytest.mark.parametrize("questions", [1, 2])
@pytest.mark.parametrize(
    ("raised", "told"),
    [(Unavailable("gone", code="DPR-E101"), "gone"), (ValueError("a row: 42"), "failed .ValueError")],
)
def test_what_stops_a_reading_is_told_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, told: str, questions: int, cells: int
) -> None:
    """Whether rows are kept or pass: its own word if it is one of ours, else none of a driver's."""
    monkeypatch.setattr(array_totals, "_CELLS", cells)
    (tmp_path / "people.csv").write_text("sex,area,pay,note\n1,a,2.5,x\n2,b,7,y\n")
    catalog = Catalog(tables={"people": people(joins=(), columns=people().columns[:4])})

    def stopping(*given: Any) -> Iterator[Any]:
        yield from stored_blocks(*given)
        raise raised

    monkeypatch.setattr("dprelease.engines.files.reader.stored_blocks", stopping)
    engine = DuckDBEngine(tmp_path, {})
    engine.expect(catalog, [(Grouping(table="people", by=by), (COUNT,)) for by in (("area",), ())[:questions]])
    with pytest.raises(DpReleaseError, match=told) as error:
        of_area(engine)
    assert "42" not in str(error.value)
    assert engine._backend.con.execute("SHOW TABLES").fetchall() == []
    assert engine._read == set()
    engine.close()


def test_a_statement_that_looks_twice_reads_twice() -> None:
    """Nothing depends on how often DuckDB scans rows that pass: a stream that had ended would be no rows."""
    table = people(joins=(), columns=people().columns[:1])
    layout, readings = room.Layout(table, Loading(frozenset(), frozenset({"sex"})), {}), list[int]()

    def read() -> Iterator[list[Any]]:
        readings.append(1)
        yield from ([pa.array(["1", "2", "2"])], [pa.array(["1"])])

    connection = locked_connection().con
    connection.register("passing", room.PassingRows(layout, read))
    both = "SELECT count(*) FROM passing AS one JOIN passing AS other ON one.c0_at <> other.c0_at"
    assert connection.execute(both).fetchall() == [(8,)]
    assert len(readings) == 2
    assert connection.execute("SELECT count(*) FROM passing").fetchall() == [(4,)]
    assert len(readings) == 3


def test_row_groups_without_a_row_of_the_period_are_left_out_by_what_their_rows_say(tmp_path: Path) -> None:
    days = [date(2024, 1, day) for day in range(1, 13)]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": range(12), "day": [*days[:8], None, None, None, days[0]]}), path, row_group_size=4)
    time = TimeFilter(column="day", type="date", start=date(2024, 1, 6), end=date(2024, 1, 8))
    source = Source(file="t.parquet", format="parquet")
    table = Table(name="t", account="a", source=source, columns=(Column(name="n", type="integer"),), time=time)
    (block,) = parquet_blocks(table, path, ["n", "day"], [])
    assert block[0].to_pylist() == [4, 5, 6, 7]
    engine = DuckDBEngine(tmp_path, {})
    (box,) = engine.aggregate(Catalog(tables={"t": table}), Grouping(table="t", by=()), (COUNT,), {}, b"")
    assert isinstance(box, Exact)
    assert open_exact(box).tolist() == [2]
    engine.close()


def test_rows_that_are_counted_twice_are_a_broken_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a number that is capped afterwards the bound proves nothing: it is held against a count of the rows."""
    (tmp_path / "people.csv").write_text("id,sex,area,pay,note\n1,1,a,2,x\n1,1,a,2,x\n2,2,b,7,y\n")
    table = people(unit_id="id", joins=(), columns=people().columns[:4])
    catalog = Catalog(tables={"people": table})
    grouping = Grouping(table="people", by=("sex",), private=True, max_rows_per_group=1)
    keys = [(1,), (2,)]
    plain = query.paired

    def doubled(*given: Any) -> Any:
        pairs = plain(*given)
        return pairs.mutate(held=pairs["held"] * 2)

    engine = DuckDBEngine(tmp_path, {})
    (box,) = engine.aggregate(catalog, grouping, (COUNT,), {}, SECRET, keys)
    assert isinstance(box, Exact)
    assert open_exact(box).tolist() == [1, 1]
    monkeypatch.setattr(pipeline, "paired", doubled)
    with pytest.raises(BrokenPromiseError, match="DPR-B200"):
        engine.aggregate(catalog, grouping, (COUNT,), {}, SECRET, keys)
    engine.close()


def test_rows_of_public_cells_that_are_looked_at_twice_are_a_broken_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts of public cells are made beside the engine, whose own count of the rows is what they are held against."""
    (tmp_path / "people.csv").write_text("id,sex,area,pay,note\n1,1,a,2,x\n1,1,a,2,x\n2,2,b,7,y\n")
    table = people(unit_id="id", joins=(), columns=people().columns[:4])
    catalog, grouping = Catalog(tables={"people": table}), Grouping(table="people", by=("sex",), max_rows_per_group=1)
    plain = bounding._by_units

    def twice(*given: Any, **more: Any) -> Any:
        there, parts = plain(*given, **more)
        known = list(parts)
        return there, iter([*known, *known])

    engine = DuckDBEngine(tmp_path, {})
    (box,) = engine.aggregate(catalog, grouping, (COUNT,), {}, SECRET)
    assert isinstance(box, Exact)
    assert open_exact(box).tolist() == [1, 1]
    monkeypatch.setattr(bounding, "_by_units", twice)
    with pytest.raises(BrokenPromiseError, match=r"DPR-B200.* the number of rows;"):
        engine.aggregate(catalog, grouping, (COUNT,), {}, SECRET)
    engine.close()


def test_a_block_that_fails_leaves_no_table_and_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "people.csv").write_text("sex,area,pay,note\n1,a,2.5,x\n")
    engine = DuckDBEngine(tmp_path, {})

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(5, "secret words")

    with monkeypatch.context() as patch:
        patch.setattr(room, "typed_with_steps", fail)
        with pytest.raises(EngineError, match=r"DPR-E103.*OSError") as caught:
            of_area(engine)
    assert "secret" not in str(caught.value)
    assert engine._backend.con.execute("SHOW TABLES").fetchall() == []
    assert of_area(engine) == [1, 0]
    engine.close()


def test_items_are_handed_on_in_order_and_a_failure_ends_it() -> None:
    begun: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            begun.append(number)
            yield number

    def halved(number: int) -> int:
        if number == 40:
            raise ZeroDivisionError
        return number // 2

    found: list[int] = []
    with pytest.raises(ZeroDivisionError):
        found.extend(in_turn(halved, numbers()))
    assert found == [number // 2 for number in range(40)]
    assert len(begun) < 60


def test_arrow_reads_no_line_that_is_not_plain() -> None:
    """Its words quote a line; nothing of it is shown, and the block is read the other way."""
    for block in (
        b"1,2\n\xff,1,2\n",
        b"1,2\n3\r4,5\n",
        b'"a,b"\n',
        b'1,2\n""\n',
        b'1,2\n""\r\n3,4\n',
        b"\xef\xbb\xbf1,2\n",
    ):
        assert split_plain(block, 2, [0, 1], (), Dialect()) is None


@pytest.mark.parametrize(("first", "keys"), [(1, 3000), (-5, 11), (2**63 - 9, 9), (1 - 2**63, 300), (-(2**40), 70_000)])
def test_places_of_keys_in_a_row_are_those_of_the_keys_with_and_without_nulls(first: int, keys: int) -> None:
    column = Column(name="k", type="integer", keys=tuple(range(first, first + keys)))
    ends = {-(2**63), 2**63 - 1, 0, *(end + by for end in (first, first + keys - 1) for by in (-1, 0, 1))}
    values = [None, *sorted(value for value in ends if -(2**63) <= value < 2**63)]
    whole = pa.array(values, pa.int64())
    found = key_places(column, whole)
    assert found.to_pylist() == [None if v is None or not 0 <= v - first < keys else v - first for v in values]
    assert key_places(column, whole[1:]).equals(found[1:])  # none of these is null
    assert key_places(column, whole[:0]).equals(found[:0])
