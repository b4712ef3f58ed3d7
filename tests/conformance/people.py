"""A small table of people, and engines asked about it, for the tests of every engine."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.engines import ENGINES, Engine
from dprelease.noise.exact import open_exact

REGIONS = ReferenceTable(columns={"area": ("a", "b", "A", "7", "x"), "region": ("n", "s", "n", "w", "s"), "rank": (1, 2, 3, 400, 5)})  # fmt: skip
COUNT = Quantity(kind="rows")


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
ASKED = (COUNT, Quantity(kind="nonnull", column="pay"), Quantity(kind="sum", column="pay", low=0, high=1000))
BY = ("sex", "town")


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


def answers(engine: Engine, table: Table, by: tuple[str, ...], asked: Sequence[Quantity]) -> list[list[int]]:
    return [open_exact(box).tolist() for box in engine.aggregate(table, by, asked, {"regions": REGIONS})]
