"""Which draws does a change within a level reach? Recoded columns of small tables are changed, and the engine asked.

``reads_within`` may leave out no draw that such a change can move. Every row's value is changed in every way that keeps
the recoding, and the answers of the engine are compared; where the value may leave its level, they differ. Where a
level is said to hide a change, every commit tries a few of these ways, in an order without system, and the night all of
them. If a third of the ways moved the answer after all, every commit would find it with a chance of 94 %.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity
from dprelease.catalog.table import Binned, Catalog, Column, Computed, Mapped, Source, Table, TableBounds
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.noise.exact import Exact, open_exact, open_histogram
from dprelease.publish.accounting.levels import reads_within, recodings
from dprelease.publish.accounting.semantics import reads

# Six blocks lie in three areas, which lie in two regions; a number has two bands, which make one sort each.
BLOCKS, AREAS, REGIONS = tuple("abcdef"), ("ab", "cd", "ef"), ("west", "east")
AREA = Column(
    name="area", type="text", keys=AREAS,
    derivation=Mapped(of="block", pairs=tuple((block, AREAS[at // 2]) for at, block in enumerate(BLOCKS))),
)  # fmt: skip
REGION = Column(
    name="region", type="text", keys=REGIONS,
    derivation=Mapped(of="area", pairs=(("ab", "west"), ("cd", "west"), ("ef", "east"))),
)  # fmt: skip
BAND = Column(
    name="band", type="text", keys=("[0,2)", "[2,4)"),
    derivation=Binned(of="x", edges=tuple(map(Fraction, (0, 2, 4)))),
)  # fmt: skip
COLUMNS = (
    Column(name="block", type="text", keys=BLOCKS),
    Column(name="x", type="integer"),
    AREA,
    REGION,
    BAND,
    Column(name="twice", type="decimal", derivation=Computed(sql="x + x")),
)
DOMAIN: dict[str, tuple[str, ...]] = {"block": BLOCKS, "x": ("0", "1", "2", "3", "9")}
LEVEL_OF = {
    "area": {block: AREAS[at // 2] for at, block in enumerate(BLOCKS)},
    "region": {block: REGIONS[at // 4] for at, block in enumerate(BLOCKS)},
    "band": {"0": "low", "1": "low", "2": "high", "3": "high", "9": "none"},
}
ROWS = Quantity(kind="rows")
SUM = Quantity(kind="sum", column="x", low=-9, high=9)
MEDIAN = Quantity(kind="quantile", column="x", low=0, high=9, at=Fraction(1, 2))
# What is asked, and the pairs "column within level" that it must depend on.
CASES: dict[str, tuple[dict[str, Any], Quantity, set[str]]] = {
    "whole": ({"by": ()}, ROWS, set()),
    "regions": ({"by": ("region",)}, ROWS, set()),
    "areas": ({"by": ("area",)}, ROWS, {"block/region"}),
    "blocks": ({"by": ("block",)}, ROWS, {"block/region", "block/area"}),
    "area-and-region": ({"by": ("area", "region")}, ROWS, {"block/region"}),
    "bands": ({"by": ("band",)}, ROWS, set()),
    "sums": ({"by": ("region",)}, SUM, {"x/band"}),
    "medians": ({"by": ("region",)}, MEDIAN, {"x/band"}),
    "condition": ({"by": ("region",), "where": "x > 0"}, ROWS, {"x/band"}),
    "condition-on-a-band": ({"by": ("region",), "where": "band = '[0,2)'"}, ROWS, set()),
    "condition-on-an-area": ({"by": ("band",), "where": "area = 'ab'"}, ROWS, {"block/region"}),
    "computed": ({"by": ("region",), "where": "twice > 1"}, ROWS, {"x/band"}),
    # A row counts if its block has a key, which it has where the area or the region has one.
    "complete": ({"by": ("region",), "complete": ("block",)}, ROWS, set()),
    "complete-areas": ({"by": ("area",), "complete": ("block", "region")}, ROWS, {"block/region"}),
    "complete-band": ({"by": ("region",), "complete": ("band", "block")}, ROWS, set()),
    "complete-number": ({"by": ("band",), "complete": ("block",)}, SUM, {"x/band"}),
}
FEW = 7  # ways that every commit tries where none is said to matter; (2/3)^7 < 0.06
Rows = tuple[dict[str, str], ...]


def table(**more: Any) -> Table:
    return Table(name="main", account="a", source=Source(file="main.csv", format="csv"), columns=COLUMNS, **more)


def catalog(**more: Any) -> Catalog:
    return Catalog(tables={"main": table(**more)})


def rows(seed: int) -> Rows:
    return tuple(
        {"u": f"u{at // 3}", "block": BLOCKS[(at + seed) % 6], "x": DOMAIN["x"][(2 * at + seed) % 5]} for at in range(5)
    )


def within(level: str, base: Rows) -> Iterator[Rows]:
    """Every change of one row that keeps its level."""
    column = "x" if level == "band" else "block"
    for at, row in enumerate(base):
        for value in DOMAIN[column]:
            if value != row[column] and LEVEL_OF[level][value] == LEVEL_OF[level][row[column]]:
                yield (*base[:at], {**row, column: value}, *base[at + 1 :])


class Asking:
    """One engine that answers over many data sets: each of them in a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, count()
        self.engine = DuckDBEngine(folder, {})

    def answer(self, asked: dict[str, Any], quantity: Quantity, data: Rows, **more: Any) -> Any:
        file = f"main{next(self.number)}.csv"
        lines = [",".join(data[0]), *(",".join(row.values()) for row in data)]
        (self.folder / file).write_text("\n".join(lines) + "\n")
        made = table(**more).model_copy(update={"source": Source(file=file, format="csv")})
        tables = Catalog(tables={"main": made})
        boxes = self.engine.aggregate(tables, Grouping(table="main", **asked), (quantity,), {}, bytes(range(32)))
        return [
            open_exact(box).tolist() if isinstance(box, Exact) else [part.tolist() for part in open_histogram(box)[1:]]
            for box in boxes
        ]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    made = Asking(tmp_path_factory.mktemp("levels"))
    yield made
    made.engine.close()


def claimed(asked: dict[str, Any], quantity: Quantity, **more: Any) -> set[str]:
    aggregate, tables = BoundedAggregate(table="main", **asked, quantity=quantity), catalog(**more)
    return {
        f"{attribute[1]}/{level}"
        for attribute, level in recodings(tables)
        if attribute in reads_within(aggregate, (quantity,), tables, (attribute[0], level))
    }


def moved(asking: Asking, asked: dict[str, Any], quantity: Quantity, tries: dict[str, int], **more: Any) -> set[str]:
    """The changes within a level that changed an answer somewhere; ``tries`` at most where a name is in it."""
    found = set()
    bases = [rows(seed) for seed in range(2)]
    before = [asking.answer(asked, quantity, base, **more) for base in bases]
    for level, column in (("area", "block"), ("region", "block"), ("band", "x")):
        name = f"{column}/{level}"
        ways = [(at, data) for at, base in enumerate(bases) for data in within(level, base)]
        random.Random(name).shuffle(ways)  # an order without system
        if any(asking.answer(asked, quantity, data, **more) != before[at] for at, data in ways[: tries.get(name)]):
            found.add(name)
    return found


def test_the_levels_of_a_catalog() -> None:
    main = "main"
    assert recodings(catalog()) == (((main, "block"), "area"), ((main, "block"), "region"), ((main, "x"), "band"))


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("case", CASES)
def test_a_change_within_a_level_moves_just_the_draws_that_are_said_to_depend_on_it(case: str, asking: Asking) -> None:
    asked, quantity, expected = CASES[case]
    assert claimed(asked, quantity) == expected
    few = {name: FEW for name in ("block/area", "block/region", "x/band") if name not in expected}
    assert moved(asking, asked, quantity, few) == expected


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_the_same_over_every_change(case: str, asking: Asking) -> None:
    asked, quantity, expected = CASES[case]
    assert moved(asking, asked, quantity, {}) == expected


def _one(area: Column) -> tuple[Column, ...]:
    return tuple(area if column.name == "area" else column for column in COLUMNS)


def _mapped(*pairs: tuple[str, str], otherwise: str | None = None) -> Mapped:
    return Mapped(of="block", pairs=pairs, otherwise=otherwise)


PAIRS = tuple((block, AREAS[at // 2]) for at, block in enumerate(BLOCKS))
# What a map does so that its level no longer says which blocks have a key: g is none of their keys.
LOOSE = {
    "a block more": AREA.model_copy(update={"derivation": _mapped(*PAIRS, ("g", "ef"))}),
    "an area for all others": AREA.model_copy(update={"derivation": _mapped(*PAIRS, otherwise="ef")}),
    "an area for nulls": AREA.model_copy(update={"null": "ef"}),
    "a block less": AREA.model_copy(update={"derivation": _mapped(*PAIRS[:-1])}),
}


@pytest.mark.parametrize("how", LOOSE)
def test_a_level_that_does_not_tell_which_rows_have_a_key_below_hides_less(how: str) -> None:
    tables = Catalog(tables={"main": table().model_copy(update={"columns": _one(LOOSE[how])})})
    aggregate = BoundedAggregate(table="main", by=("area",), complete=("block",), quantity=ROWS)
    assert ("main", "block") in reads_within(aggregate, (ROWS,), tables, ("main", "area"))


@pytest.mark.parametrize("how", ["a block more", "an area for all others"])
def test_power_there_a_change_within_the_level_moves_the_answer(how: str, asking: Asking, tmp_path: Path) -> None:
    """From f, which has a key, to g, which has none: both lie in the one area, and a row is gone."""
    (tmp_path / "main.csv").write_text("u,block,x\nu0,f,1\n")
    (tmp_path / "other.csv").write_text("u,block,x\nu0,g,1\n")
    answers = []
    engine = DuckDBEngine(tmp_path, {})
    for file in ("main.csv", "other.csv"):
        source = Source(file=file, format="csv")
        tables = Catalog(tables={"main": table().model_copy(update={"columns": _one(LOOSE[how]), "source": source})})
        grouping = Grouping(table="main", by=("area",), complete=("block",))
        (box,) = engine.aggregate(tables, grouping, (ROWS,), {}, bytes(range(32)))
        assert isinstance(box, Exact)
        answers.append(open_exact(box).tolist())
    engine.close()
    assert answers == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.slow
def test_where_rows_are_left_out_every_change_counts(asking: Asking) -> None:
    """Which of a unit's rows stay goes by all that is known of them, also by what is asked only through a level."""
    bounded = {"unit_id": "u", "bounds": TableBounds(max_rows=1)}
    every = {"block/region", "block/area", "x/band"}
    assert claimed({"by": ("region",)}, ROWS, **bounded) == every
    assert moved(asking, {"by": ("region",)}, ROWS, dict.fromkeys(every, FEW), **bounded) <= every


def test_taking_a_level_as_given_hides_nothing_else() -> None:
    for asked, quantity, _ in CASES.values():
        aggregate, tables = BoundedAggregate(table="main", **asked, quantity=quantity), catalog()
        whole = reads(aggregate, (quantity,), tables)
        for attribute, level in recodings(tables):
            found = reads_within(aggregate, (quantity,), tables, (attribute[0], level))
            assert found - {("main", level)} <= whole
            assert whole - found <= {attribute}
