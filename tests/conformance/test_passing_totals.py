"""Totals of rows that pass, in arrays: those of the reference engine and of statements, whatever the rows hold."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, Source, Table
from dprelease.engines import DuckDBEngine, Engine
from dprelease.engines.duck import passing_totals
from dprelease.engines.duck.loading import Layout
from dprelease.errors import DpReleaseError, EngineError
from tests.conformance.people import COUNT, REGIONS, SECRET, integers, opened
from tests.conformance.reference_engine import ReferenceEngine
from tests.conformance.test_engines import parts, tables
from tests.tiers import few

CENTS = Fraction(1, 100)
PAID = Quantity(kind="sum", column="pay", step=CENTS, low=-500, high=2000, centre=50)
AGES = Quantity(kind="sum", column="age", low=3, high=60, centre=7)
PRESENT = [Quantity(kind="nonnull", column=name) for name in ("age", "pay", "day")]
ASKED = (COUNT, PAID, AGES, COUNT, *PRESENT)
WIDE = Quantity(kind="sum", column="age", low=-(2**33), high=2**33)
CONTRIBUTED = 2**32  # what the largest value of these tables is clipped to


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
            pq.write_table(pa.table(stored), folder / f"t-{number}.parquet")


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
    assert told(engine, table, by, ASKED) == found  # a second time the source is read again
    engine.close()
    other.close()


@settings(max_examples=few(60, 10), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_they_are_those_of_the_reference_for_any_rows(data: st.DataObject) -> None:
    table = data.draw(tables())
    files = data.draw(parts(table))
    by = data.draw(st.lists(st.sampled_from(["area", "Code", "code", "day"]), unique=True, max_size=3).map(tuple))
    sums = st.builds(
        Quantity,
        kind=st.just("sum"),
        column=st.sampled_from(["amount", *({"Code"} - set(by))]),
        low=st.sampled_from([-1000, 0, 2]),
        high=st.sampled_from([3, 1000, 2**31]),
        centre=st.sampled_from([0, -3, 2]),
    )
    present = st.sampled_from(sorted({"area", "Code", "code", "day", "amount", "seen at"} - set(by)))
    counts = st.one_of(st.just(COUNT), present.map(lambda name: Quantity(kind="nonnull", column=name)))
    asked = tuple(data.draw(st.lists(st.one_of(counts, sums), min_size=1, max_size=4)))
    grouping, catalog = Grouping(table=table.name, by=by), Catalog(tables={table.name: table})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, content in enumerate(files):
            (folder / f"rows-{at}.{table.source.format}").write_bytes(content)
        engine, reference = DuckDBEngine(folder, {}), ReferenceEngine(folder, {})
        engine.expect(catalog, [(grouping, asked)])
        found = [
            [opened(box) for box in each.aggregate(catalog, grouping, asked, {"regions": REGIONS}, SECRET)]
            for each in (engine, reference)
        ]
        assert found[0] == found[1]
        on_steps = all(item.column != "amount" or item.kind != "sum" for item in asked)
        assert not has_begun(engine) or not on_steps  # the grids of this table's decimals are those of no quantity
        engine.close()


def test_a_total_goes_on_beyond_what_an_array_of_64_bits_is_sure_to_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people("parquet")
    write(tmp_path, "parquet")
    expected = told(DuckDBEngine(tmp_path, {}), table, ("run",), ASKED)
    monkeypatch.setattr(passing_totals, "_WIDE", 10)
    monkeypatch.setattr(passing_totals, "_ROWS", 100)
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
    assert passing_totals._ROWS * passing_totals._LARGEST <= 2**53


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        ((WIDE,), {}),
        ((COUNT,), {"where": "age > 3"}),
        ((COUNT,), {"complete": ("area",)}),
        ((Quantity(kind="rows", where="age > 3"),), {}),
        ((Quantity(kind="sum", column="pay", step=Fraction(1, 3)),), {}),
        ((Quantity(kind="sum", column="age", step=Fraction(5)),), {}),
        ((COUNT, Quantity(kind="quantile", column="age", high=100, at=Fraction(1, 2))), {}),
        ((Quantity(kind="square", column="age"),), {}),
        ((Quantity(kind="distinct", column="age"),), {}),
        ((Quantity(kind="balance", column="age"),), {}),
    ],
    ids=("wide", "where", "complete", "condition", "thirds", "fives", "quantile", "square", "distinct", "balance"),
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
    assert not has_begun(expecting(tmp_path, table, ("area", "run"), ASKED))
    monkeypatch.setattr(passing_totals, "_CELLS", 11)
    assert has_begun(expecting(tmp_path, table, ("area", "run"), ASKED))


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
