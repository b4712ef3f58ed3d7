"""A small table of people, and engines asked about it, for the tests of every engine."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Catalog, Column, Range, Source, Table, TableBounds
from dprelease.engines import ENGINES, Engine
from dprelease.noise.exact import Exact, ExactHistogram, ExactKeys, open_exact, open_histogram, open_keys

REGIONS = ReferenceTable(columns={"area": ("a", "b", "A", "7", "x"), "region": ("n", "s", "n", "w", "s"), "rank": (1, 2, 3, 400, 5)})  # fmt: skip
COUNT = Quantity(kind="rows")
SECRET = bytes(range(32))


def integers(low: int, high: int) -> Range:
    return Range(low=Fraction(low), high=Fraction(high))


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
VISITED = Table(
    name="t",
    account="a",
    source=Source(file="rows-*.parquet", format="parquet"),
    columns=(
        Column(name="id", type="text"),
        Column(name="sex", type="integer", keys=(0, 1)),
        Column(name="n", type="integer"),
    ),
    unit_id="id",
    bounds=TableBounds(max_rows=3),
)
"""Rows of units in several files of Parquet, for engines that read them in parts."""

ASKED = (COUNT, Quantity(kind="nonnull", column="pay"), Quantity(kind="sum", column="pay", low=0, high=1000))
BY = ("sex", "town")


def people(kind: str, folder: Path, *contents: bytes, by: tuple[str, ...] = BY) -> list[list[int]]:
    folder.mkdir()
    for at, content in enumerate(contents):
        (folder / f"people{at}.csv").write_bytes(content)
    engine = ENGINES[kind](folder, {})
    try:
        return answers(engine, PEOPLE, by, ASKED)
    finally:
        engine.close()


HEAD = b"sex,town,pay\n"
GOOD = [f"{at % 2 + 1},{'xy'[at % 3 % 2]},{at}\n".encode() for at in range(60)]


def boxes(
    engine: Engine, table: Table, by: tuple[str, ...], asked: Sequence[Quantity], **bounds: Any
) -> tuple[Exact | ExactHistogram, ...]:
    """One table asked about; ``bounds`` are the other fields of a grouping."""
    grouping = Grouping(table=table.name, by=by, **bounds)
    return engine.aggregate(Catalog(tables={table.name: table}), grouping, asked, {"regions": REGIONS}, SECRET)


def answers(engine: Engine, table: Table, by: tuple[str, ...], asked: Sequence[Quantity], **bounds: Any) -> list[Any]:
    return [opened(box) for box in boxes(engine, table, by, asked, **bounds)]


def opened(box: Exact | ExactHistogram | ExactKeys) -> Any:
    """The values of a box, in one order: tests look inside the boundary."""
    if isinstance(box, Exact):
        return open_exact(box).tolist()
    if isinstance(box, ExactKeys):
        keys, counts = open_keys(box)
        return list(zip(keys, counts.tolist(), strict=True))
    cells, *entries = open_histogram(box)
    found: dict[tuple[int, int], int] = {}
    for cell, value, count in zip(*(part.tolist() for part in entries), strict=True):
        found[cell, value] = found.get((cell, value), 0) + count
    return cells, sorted((cell, value, count) for (cell, value), count in found.items() if count)
