"""Totals in arrays: those of the reference engine and of statements, whatever the rows hold."""

from __future__ import annotations

import tempfile
from datetime import date, timedelta
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, Source, Table, TimeFilter
from dprelease.engines import DuckDBEngine, Engine
from dprelease.engines.base import scrubbed
from dprelease.engines.duck import array_totals
from dprelease.engines.duck.array_totals import ArrayTotals
from dprelease.engines.duck.loading import Layout
from dprelease.engines.files import parquet
from dprelease.engines.files.in_turn import THREADS
from dprelease.errors import DpReleaseError, EngineError
from tests.conformance.people import COUNT, REGIONS, SECRET, integers, opened
from tests.conformance.reference_engine import ReferenceEngine
from tests.conformance.test_engines import parts, tables
from tests.tiers import few

CENTS = Fraction(1, 100)
PAID = Quantity(kind="sum", column="pay", step=CENTS, low=-500, high=2000, centre=50)
AGES = Quantity(kind="sum", column="age", low=3, high=60, centre=7)
TENS = Quantity(kind="sum", column="age", step=Fraction(10, 3), low=1, high=30, centre=2)
MEDIAN = Quantity(kind="quantile", column="age", low=-5, high=90, at=Fraction(1, 2))
PAY_CLASSES = Quantity(kind="quantile", column="pay", step=CENTS, low=0, high=900, grain=100)
PRESENT = [Quantity(kind="nonnull", column=name) for name in ("age", "pay", "day")]
ASKED = (COUNT, PAID, AGES, COUNT, TENS, *PRESENT, MEDIAN, PAY_CLASSES)
WIDE = Quantity(kind="sum", column="age", low=-(2**33), high=2**33)
CONTRIBUTED = 2**32  # the largest that one row may contribute


def people(kind: str) -> Table:
    columns = (
        Column(name="area", type="text", keys=("b", "a", "b", "none"), null="none"),
        Column(name="run", type="integer", keys=(3, 4, 5)),
        Column(name="odd", type="integer", keys=(7, -2, 2**63 - 1, 2**70)),
        Column(name="age", type="integer", range=integers(-(2**62), 2**62), outside="null"),
        Column(name="pay", type="decimal", range=integers(-10, 30), step=CENTS),
        Column(name="day", type="date"),
    )
    return Table(name="t", account="a", source=Source(file=f"t-*.{kind}", format=kind), columns=columns)


def write(folder: Path, kind: str, files: int = 3, rows: int = 700) -> None:
    """Rows with nulls, values that are no keys, and numbers on halves of a step and beyond every limit."""
    for number in range(files):
        at = range(number * rows, (number + 1) * rows)
        stored = {
            "area": [("a", "b", None, "c", "none")[each % 5] for each in at],
            "run": [(2, 3, 4, None, 5, 6, -(2**63))[each % 7] for each in at],
            "odd": [(7, -2, 2**63 - 1, 0, None)[each % 11 % 5] for each in at],
            "age": [None if each % 13 == 0 else (each * 7919) % 120 - 20 for each in at],
            "pay": [None if each % 17 == 0 else (each * 104729) % 5000 / 200 - 5 for each in at],
            "day": [("2024-02-29", "x", None)[each % 3] for each in at],
        }
        if kind == "csv":
            pv.write_csv(pa.table(stored), folder / f"t-{number}.csv")
        else:
            pq.write_table(pa.table(stored), folder / f"t-{number}.parquet", row_group_size=99)


def counted_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Parquet files of any length are read in runs of row groups; how many runs each reading had."""
    monkeypatch.setattr(parquet, "_FEW", 1)
    read, runs = ArrayTotals.read, list[int]()

    def counted(totals: ArrayTotals, parts: Any) -> None:
        runs.append(len(parts))
        read(totals, parts)

    monkeypatch.setattr(ArrayTotals, "read", counted)
    return runs


def told(engine: Engine, table: Table, by: tuple[str, ...], asked: tuple[Quantity, ...], **more: Any) -> list[Any]:
    grouping = Grouping(table=table.name, by=by, **more)
    return [opened(box) for box in engine.aggregate(Catalog(tables={"t": table}), grouping, asked, {}, SECRET)]


def expecting(
    folder: Path, table: Table, by: tuple[str, ...], asked: tuple[Quantity, ...], **more: Any
) -> DuckDBEngine:
    engine = DuckDBEngine(folder, {})
    engine.expect(Catalog(tables={"t": table}), [(Grouping(table="t", by=by, **more), asked)])
    return engine


def has_begun(engine: DuckDBEngine) -> bool:
    """Whether a statement was made, or is going to be."""
    return engine._backend._begun is not None


@pytest.mark.parametrize("shape", ["csv", "parquet"])
@pytest.mark.parametrize("together", [1, 50, 2**16])
def test_many_small_files_are_few_blocks(
    shape: str, together: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_totals, "_TOGETHER", together)
    made = []
    found = array_totals._block_totals

    def counted(*given: Any) -> Any:
        made.append(1)
        return found(*given)

    monkeypatch.setattr(array_totals, "_block_totals", counted)
    table = people(shape)
    write(tmp_path, shape, files=30, rows=20)
    some = told(expecting(tmp_path, table, ("run",), ASKED), table, ("run",), ASKED)
    assert some == told(ReferenceEngine(tmp_path, {}), table, ("run",), ASKED)
    assert len(made) == {1: 30, 50: 10, 2**16: 1}[together]


@pytest.mark.parametrize("shape", ["csv", "parquet"])
@pytest.mark.parametrize("by", [(), ("run",), ("area", "run"), ("odd", "area", "run")])
def test_they_are_those_of_a_statement_and_of_the_reference(shape: str, by: tuple[str, ...], tmp_path: Path) -> None:
    table = people(shape)
    write(tmp_path, shape)
    engine, other, reference = expecting(tmp_path, table, by, ASKED), DuckDBEngine(tmp_path, {}), ReferenceEngine(tmp_path, {})  # fmt: skip
    found = told(engine, table, by, ASKED)
    assert not has_begun(engine)
    assert found == told(reference, table, by, ASKED) == told(other, table, by, ASKED)
    assert has_begun(other)
    assert len({str(each) for each in found[1:]}) > 2  # there is something to tell apart
    assert told(engine, table, by, ASKED) == found
    engine.close()
    assert engine._arrays == {}  # as no row is there any more
    other.close()


@pytest.mark.parametrize("files", [1, 2, 30])
def test_they_are_the_same_by_runs_of_row_groups(files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, table = counted_runs(monkeypatch), people("parquet")
    write(tmp_path, "parquet", files=files, rows=1200 if files == 1 else 350)
    engine, reference = expecting(tmp_path, table, ("area", "run"), ASKED), ReferenceEngine(tmp_path, {})
    assert told(engine, table, ("area", "run"), ASKED) == told(reference, table, ("area", "run"), ASKED)
    assert not has_begun(engine)
    assert runs == [2 * THREADS]


def test_runs_are_of_rows_of_the_period_and_have_what_their_paths_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row groups without a row of the period are in runs as well; one partition is of no key, and one has no value."""
    runs = counted_runs(monkeypatch)
    for number, town in enumerate(("x", "y", "other", "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / "data" / f"town={town}"
        folder.mkdir(parents=True)
        rows = range(400 * (number + 1))
        days = [date(2024, 1, 1) + timedelta(days=at // 25) for at in rows]
        stored = pa.table({"age": [at % 90 for at in rows], "day": days})
        pq.write_table(stored, folder / "t.parquet", row_group_size=40)
    table = Table(
        name="t",
        account="a",
        source=Source(file="data/town=*/*.parquet", format="parquet"),
        columns=(
            Column(name="town", type="text", keys=("y", "x"), partition=True),
            Column(name="age", type="integer", range=integers(0, 120)),
        ),
        time=TimeFilter(column="day", type="date", start=date(2024, 1, 9), end=date(2024, 1, 20)),
    )
    asked = (COUNT, Quantity(kind="sum", column="age", low=0, high=70, centre=20))
    engine, other = expecting(tmp_path, table, ("town",), asked), DuckDBEngine(tmp_path, {})
    found = told(engine, table, ("town",), asked)
    assert not has_begun(engine)
    assert found == told(other, table, ("town",), asked)
    assert found[0] == [275, 200]  # eleven days of 25 rows, of which the shorter file has eight
    assert runs == [2 * THREADS]
    engine.close()
    other.close()


def test_the_first_error_of_runs_is_told_and_quotes_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another one took the place of while the first one was read."""
    runs, table = counted_runs(monkeypatch), people("parquet")
    write(tmp_path, "parquet", files=30, rows=40)
    engine = expecting(tmp_path, table, ("run",), ASKED)
    reader = engine._reader(table)
    parts = reader.parts(table, table.columns)
    for number in (7, 29):
        (tmp_path / f"t-{number}.parquet").write_bytes(b"canary")
    with pytest.raises(EngineError, match="ArrowInvalid") as raised:
        scrubbed("looking", lambda: ArrayTotals.read(engine._arrays_of(table), parts))  # type: ignore[arg-type]
    assert "canary" not in f"{raised.value}{raised.value!r}"
    assert [len(parts)] == runs == [2 * THREADS]
    engine.close()


def test_several_questions_are_answered_from_one_reading_and_from_shared_cubes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows without a key in a column count where that column is not asked for, and where it must be complete not."""
    table = people("parquet")
    write(tmp_path, "parquet")
    names = ("area", "run", "odd")
    groupings: list[dict[str, Any]] = [
        *({"by": tuple(some)} for size in range(4) for some in permutations(names, size)),
        *({"by": some, "complete": names} for some in ((), ("run",), ("odd", "area"))),
    ]
    asked: list[tuple[Grouping, tuple[Quantity, ...]]] = [
        (Grouping(table="t", **each), (ASKED if at % 2 else (COUNT, MEDIAN, AGES))) for at, each in enumerate(groupings)
    ]
    engine, reference = DuckDBEngine(tmp_path, {}), ReferenceEngine(tmp_path, {})
    engine.expect(Catalog(tables={"t": table}), asked)
    readings = []
    read = ArrayTotals.read

    def counted(totals: ArrayTotals, blocks: Any) -> None:
        readings.append(len(totals._cubes))
        read(totals, blocks)

    monkeypatch.setattr(ArrayTotals, "read", counted)
    for grouping, some in [*asked, *asked[::-1]]:
        more = {"complete": grouping.complete}
        assert told(engine, table, grouping.by, some, **more) == told(reference, table, grouping.by, some, **more)
    assert not has_begun(engine)
    assert len(readings) == 1
    assert readings[0] < 8  # of 16 groupings, and nine quantities
    other = (Quantity(kind="sum", column="age", high=5),)
    assert told(engine, table, ("run",), other) == told(reference, table, ("run",), other)  # what nobody expected
    assert has_begun(engine)
    engine.close()


@settings(max_examples=few(60, 10), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_they_are_those_of_the_reference_for_any_rows(data: st.DataObject) -> None:
    """In one reading, or by runs of row groups where there are enough of them."""
    table = data.draw(tables())
    files = data.draw(parts(table))
    columns = st.lists(st.sampled_from(["area", "Code", "code", "day"]), unique=True, max_size=3).map(tuple)
    catalog = Catalog(tables={table.name: table})
    clips = {
        "step": st.sampled_from([Fraction(1), Fraction(5, 2)]),
        "low": st.sampled_from([-1000, 0, 2]),
        "high": st.sampled_from([3, 1000]),
    }
    numbers = st.sampled_from(["amount", "Code"])
    sums = st.builds(Quantity, kind=st.just("sum"), column=numbers, centre=st.sampled_from([0, -3, 2]), **clips)
    histograms = st.builds(Quantity, kind=st.just("quantile"), column=numbers, at=st.just(Fraction(1, 4)), **clips)
    present = st.sampled_from(["area", "Code", "code", "day", "amount", "seen at"])
    counts = st.one_of(st.just(COUNT), present.map(lambda name: Quantity(kind="nonnull", column=name)))
    questions = []
    for _ in range(data.draw(st.integers(1, 4))):
        grouping = Grouping(
            table=table.name, by=data.draw(columns), complete=data.draw(st.one_of(st.just(()), columns))
        )
        asked = data.draw(st.lists(st.one_of(counts, sums, histograms), min_size=1, max_size=3))
        questions.append((grouping, tuple(asked)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, content in enumerate(files):
            (folder / f"rows-{at}.{table.source.format}").write_bytes(content)
        engine, reference = DuckDBEngine(folder, {}), ReferenceEngine(folder, {})
        engine.expect(catalog, questions)
        arrays = engine._arrays_of(table)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parquet, "_FEW", data.draw(st.sampled_from([1, 2**20])))
            for grouping, some in questions:
                found, expected = (
                    [opened(box) for box in each.aggregate(catalog, grouping, some, {"regions": REGIONS}, SECRET)]
                    for each in (engine, reference)
                )
                assert found == expected
        assert has_begun(engine) == (arrays is None)
        target(float(arrays is not None and len(questions)))
        engine.close()


@pytest.mark.parametrize("few", [1, 2**20], ids=["by runs", "in order"])
@pytest.mark.parametrize("rows", [2**30, 2**31])
def test_a_total_goes_on_beyond_64_bits_and_is_handed_on_in_62(
    rows: int, few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if each of three files had 2^30 or 2^31 rows that all contribute the most there is."""
    monkeypatch.setattr(parquet, "_FEW", few)
    table, largest = people("parquet"), Quantity(kind="sum", column="age", low=0, high=CONTRIBUTED)
    write(tmp_path, "parquet", files=3, rows=1)
    found = array_totals._block_totals

    def enlarged(*arguments: Any) -> Any:
        _, totals = found(*arguments)
        return rows, {place: np.full(total.shape, 2**62) for place, total in totals.items()}

    monkeypatch.setattr(array_totals, "_block_totals", enlarged)
    assert told(expecting(tmp_path, table, (), (largest,)), table, (), (largest,)) == [[2**62]]


def test_a_block_of_many_rows_is_added_up_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = people("parquet")
    write(tmp_path, "parquet")
    expected = told(DuckDBEngine(tmp_path, {}), table, ("run",), ASKED)
    monkeypatch.setattr(array_totals, "_WIDE", 10)
    monkeypatch.setattr(array_totals, "_ROWS", 100)
    assert told(expecting(tmp_path, table, ("run",), ASKED), table, ("run",), ASKED) == expected


def test_the_largest_contributions_are_exact_as_doubles(tmp_path: Path) -> None:
    """Odd ones, whose sum over a block has all of its bits; a double of more bits would lose the last one."""
    rows = 1 << 18
    pq.write_table(pa.table({"n": [CONTRIBUTED - 1] * rows}), tmp_path / "t-0.parquet", row_group_size=rows)
    table = Table(
        name="t",
        account="a",
        source=Source(file="t-*.parquet", format="parquet"),
        columns=(Column(name="n", type="integer", range=integers(0, 2**40)),),
    )
    asked = (Quantity(kind="sum", column="n", low=0, high=CONTRIBUTED),)
    engine = expecting(tmp_path, table, (), asked)
    assert told(engine, table, (), asked) == [[(CONTRIBUTED - 1) * rows]]
    assert not has_begun(engine)
    assert array_totals._ROWS * array_totals._LARGEST <= 2**53


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        ((WIDE,), {}),
        ((COUNT,), {"where": "age > 3"}),
        ((Quantity(kind="rows", where="age > 3"),), {}),
        ((Quantity(kind="sum", column="pay", step=Fraction(1, 3)),), {}),
        ((Quantity(kind="sum", column="age", step=Fraction(5), low=-3, high=9),), {}),
        ((COUNT, Quantity(kind="quantile", column="age", high=2**18, at=Fraction(1, 2))), {}),
        ((Quantity(kind="square", column="age"),), {}),
        ((Quantity(kind="distinct", column="age"),), {}),
        ((Quantity(kind="balance", column="age"),), {}),
    ],
    ids=("wide", "where", "condition", "thirds", "fives", "quantile", "square", "distinct", "balance"),
)
def test_everything_else_is_asked_by_statements(
    asked: tuple[Quantity, ...], more: dict[str, Any], tmp_path: Path
) -> None:
    table = people("parquet")
    write(tmp_path, "parquet", files=1)
    engine = expecting(tmp_path, table, ("run",), asked, **more)
    assert has_begun(engine)
    assert told(engine, table, ("run",), asked, **more) == told(
        ReferenceEngine(tmp_path, {}), table, ("run",), asked, **more
    )
    engine.close()


def test_more_cells_than_a_block_has_rows_are_groups_of_a_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "parquet", files=1)
    table = people("parquet")
    assert not has_begun(expecting(tmp_path, table, ("area", "run"), (COUNT,)))
    monkeypatch.setattr(array_totals, "_CELLS", 19)
    assert has_begun(expecting(tmp_path, table, ("area", "run"), (COUNT,)))  # of 20 places, 8 of them for no key


def test_rows_are_of_the_state_that_was_fingerprinted(tmp_path: Path) -> None:
    write(tmp_path, "parquet", files=1)
    table = people("parquet")
    engine = expecting(tmp_path, table, ("run",), ASKED)
    engine.fingerprint(table, SECRET)
    told(engine, table, ("run",), ASKED)
    pq.write_table(pa.table({"run": [3]}), tmp_path / "t-0.parquet")
    with pytest.raises(EngineError, match="DPR-E105"):
        engine.fingerprint(table, SECRET)


def test_an_error_quotes_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "parquet", files=1)
    table = people("parquet")
    engine = expecting(tmp_path, table, ("run",), ASKED)

    def failing(*_: Any) -> Any:
        raise ValueError("canary 123")

    monkeypatch.setattr(Layout, "typed", failing)
    with pytest.raises(DpReleaseError) as raised:
        told(engine, table, ("run",), ASKED)
    error: BaseException | None = raised.value
    assert "ValueError" in str(error)
    while error is not None:
        assert "canary" not in f"{error}{error!r}{getattr(error, '__notes__', '')}"
        error = error.__cause__ or error.__context__
