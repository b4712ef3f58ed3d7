"""Weighted totals of every engine are the reference engine's, whatever stands in the column of weights."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _pytest.mark.structures import ParameterSet

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Computed, Source, Table, TableBounds
from dprelease.catalog.weight import RowWeight
from dprelease.engines import ENGINES, NAMED
from dprelease.errors import Unsupported
from tests.conformance.people import answers, integers
from tests.conformance.reference_engine import ReferenceEngine

WEIGHTS = [
    "", " ", "nan", "NaN", "inf", "-inf", "1e308", "-1e308", "1e400", "9" * 400, "-" + "9" * 400, "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-1", "-0.0", "0", "0.4999", "0.5", "0.005", "0.015", "1.005", "1", "2.5",
    "3", "499", "499.994", "499.995", "500", "500.004", "500.01", "501", "2068", "x", "1,5", "1e-400", "7e2",
]  # fmt: skip
STEPS = {"decimal": Fraction(1, 100), "integer": Fraction(1), "coarse": Fraction(10), "computed": Fraction(1, 100)}


def survey(kind: str, shape: str, *, units: bool) -> Table:
    """A table of records with a weight of some type; ``computed``: half of what the file has."""
    step, typed = STEPS[kind], "integer" if kind in ("integer", "coarse") else "decimal"
    weight = Column(name="w", type=typed, step=step)
    columns: list[Column] = [
        Column(name="who", type="integer"),
        Column(name="sex", type="integer", keys=(1, 2)),
        Column(name="town", type="text", keys=("x", "y", "z")),
        Column(name="pay", type="integer", range=integers(-50, 1000)),
        weight,
    ]
    if kind == "computed":
        columns.append(Column(name="half", type="decimal", step=step, derivation=Computed(sql="w / 2")))
    return Table(
        name="t",
        account="a",
        source=Source(file=f"rows*.{shape}", format=shape),
        columns=tuple(columns),
        unit_id="who" if units else None,
        bounds=TableBounds(max_rows=3) if units else None,
    )


def asked(kind: str) -> tuple[Quantity, ...]:
    """One of every kind that has weights, with conditions, beside some that have none."""
    step = STEPS[kind]
    weight = RowWeight(column="half" if kind == "computed" else "w", step=step, clip=int(500 / step))
    summed = Quantity(kind="sum", column="pay", low=-50, high=900, weight=weight)
    plain = (
        Quantity(kind="rows", weight=weight),
        Quantity(kind="rows", weight=weight, where="pay > 10"),
        Quantity(kind="nonnull", column="pay", weight=weight),
        Quantity(kind="nonnull", column="pay", weight=weight, where="town = 'x'"),
        Quantity(kind="balance", column="pay", weight=weight, where="pay < 20"),
        Quantity(kind="balance", weight=weight, where="pay < 20"),
        Quantity(kind="rest", weight=weight, where="pay < 20"),
        Quantity(kind="rest", column="pay", weight=weight, where="pay < 20"),
        summed,
        summed.model_copy(update={"centre": 425, "where": "sex = 1"}),
    )
    return (*plain, Quantity(kind="rows"), Quantity(kind="sum", column="pay", low=-50, high=900))


def lines() -> list[list[str]]:
    """Every odd weight in several cells, with and without a value to sum."""
    generator = np.random.default_rng(7)
    found = []
    for at, weight in enumerate(WEIGHTS * 6):
        pay = ["", "12", "-99", "5000", "20", "x"][generator.integers(6)]
        found.append([str(at % 31), "123"[generator.integers(3)], "xyzq"[generator.integers(4)], pay, weight])
    return found


def write(folder: Path, shape: str, rows: list[list[str]]) -> None:
    names = ["who", "sex", "town", "pay", "w"]
    if shape == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([names, *rows])
        (folder / "rows.csv").write_text(text.getvalue())
        return

    def number(value: str) -> float | None:
        try:
            return float(value)
        except ValueError:
            return None

    columns: dict[str, Any] = {
        name: [row[at] if name == "town" else number(row[at]) for row in rows] for at, name in enumerate(names)
    }
    columns["who"] = pa.array([int(row[0]) for row in rows], pa.int64())
    columns["sex"] = pa.array([int(row[1]) for row in rows], pa.int64())
    pq.write_table(pa.table(columns), folder / "rows.parquet")


def cases() -> Iterator[ParameterSet]:
    """Every engine; what runs the steps of another one in tasks has each type of weight at night, and two by day."""
    by_day = {("decimal", "csv", False), ("coarse", "parquet", True)}
    for name in ENGINES:
        for case in product(STEPS, ("csv", "parquet"), (False, True)):
            marks = [pytest.mark.nightly] * (name in NAMED and case not in by_day)
            yield pytest.param(name, *case, marks=marks)


@pytest.mark.parametrize(("name", "kind", "shape", "units"), list(cases()))
def test_weighted_totals_are_those_of_the_reference(
    name: str, kind: str, shape: str, units: bool, tmp_path: Path
) -> None:
    table = survey(kind, shape, units=units)
    write(tmp_path, shape, lines())
    oracle = ReferenceEngine(tmp_path, {})
    groupings: list[tuple[tuple[str, ...], dict[str, Any]]] = [((), {}), (("sex", "town"), {})]
    groupings += [(("town",), {"where": "pay > 0"}), (("sex",), {"complete": ("sex", "town")})]
    if units:
        groupings += [(("sex", "town"), {"max_groups": 1, "max_rows_per_group": 2}), (("sex",), {"max_groups": 1})]
    engine = ENGINES[name](tmp_path, {})
    for by, more in groupings:
        wanted = answers(oracle, table, by, asked(kind), **more)
        assert answers(engine, table, by, asked(kind), **more) == wanted, (name, by, more)
        alone = answers(engine, table, by, asked(kind)[:1], **more)  # one weighted count by itself
        assert alone == wanted[:1], (name, by, more)
    engine.close()
    assert max(abs(total) for part in wanted for total in part) > 500


@pytest.mark.parametrize("weight", ["500", "501", "1e300"])
def test_one_record_more_of_the_largest_weight_moves_its_cell_by_the_clip(weight: str, tmp_path: Path) -> None:
    table = survey("decimal", "csv", units=False)
    fewer, more = (tmp_path / name for name in ("fewer", "more"))
    for folder, rows in ((fewer, []), (more, [["7", "1", "x", "20", weight]])):
        folder.mkdir()
        write(folder, "csv", [*lines(), *rows])
    for engine_type in ENGINES.values():
        counted = []
        for folder in (fewer, more):
            engine = engine_type(folder, {})
            counted.append(np.array(answers(engine, table, ("sex", "town"), asked("decimal")[:1])[0]))
            engine.close()
        assert (counted[1] - counted[0]).tolist() == [50_000, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.nightly] * (each in NAMED)) for each in ENGINES]
)
def test_kept_combinations_of_weighted_and_plain_counts_are_told_apart(name: str, tmp_path: Path) -> None:
    """One engine is asked for both, over the same complete rows, in both orders."""
    table = survey("integer", "csv", units=False)
    write(tmp_path, "csv", lines() * 40)  # so many that combinations are kept with their totals
    weighted, plain = asked("integer")[0], Quantity(kind="rows")
    oracle, more = ReferenceEngine(tmp_path, {}), {"complete": ("sex", "town")}
    asked_by: list[tuple[str, ...]] = [(), ("sex",), ("town",), ("sex", "town")]
    wanted = {(each, by): answers(oracle, table, by, [each], **more) for each in (plain, weighted) for by in asked_by}
    engine = ENGINES[name](tmp_path, {})
    for quantity, by in product((plain, weighted, plain, weighted), asked_by):
        assert answers(engine, table, by, [quantity], **more) == wanted[quantity, by]
    engine.close()


def test_a_weight_that_could_not_be_multiplied_is_refused(tmp_path: Path) -> None:
    table = survey("integer", "csv", units=False)
    write(tmp_path, "csv", lines())
    weight = RowWeight(column="w", step=Fraction(1), clip=2**40)
    wide = Quantity(kind="sum", column="pay", low=0, high=2**23, weight=weight)
    for engine_type in ENGINES.values():
        engine = engine_type(tmp_path, {})
        with pytest.raises(Unsupported, match="62 bits"):
            answers(engine, table, (), [wide])
        with pytest.raises(Unsupported, match="no number"):
            answers(engine, table, (), [Quantity(kind="rows", weight=weight.model_copy(update={"column": "town"}))])
        engine.close()
