"""On which columns does an answer depend? Every column of small tables is changed, and the engine asked again.

``reads`` may name no column too few, or the loss of an attribute would be too small. Where a case can show it, it names
no column too many either: each of them changes the answer somewhere. On every commit a column that is said not to matter
is changed in a few ways, at night in all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity
from dprelease.catalog.reference import read_reference
from dprelease.catalog.table import (
    Binned,
    Catalog,
    Column,
    Computed,
    Join,
    Mapped,
    PrivateJoin,
    Reference,
    Source,
    Table,
    TableBounds,
    TimeFilter,
)
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.noise.exact import Exact, open_exact, open_histogram, open_keys
from dprelease.publish.accounting.semantics import Attribute, attributes, reads

SECRET = bytes(range(32))
K = Column(name="k", type="text", keys=("a", "b", "c"))
X, Y, Z = (Column(name=name, type="integer") for name in "xyz")
W, V = (Column(name=name, type="integer") for name in "wv")
DAY = Column(name="day", type="date")
LENT = Column(name="w", type="integer", lent_by="others")
SUM = Quantity(kind="sum", column="x", low=-9, high=9)
ROWS, UNITS = Quantity(kind="rows"), Quantity(kind="units")

# Values that a column can take; the first rows of every unit have different ones.
DOMAIN: dict[str, tuple[str, ...]] = {
    "k": ("a", "b", "c"),
    "x": ("1", "2", "7"),
    "y": ("-1", "2", "5"),
    "z": ("0", "3", "4"),
    "w": ("1", "2", "3"),
    "v": ("0", "1", "2"),
    "day": ("2024-03-01", "2024-03-31", "2024-04-01"),
}
Rows = tuple[dict[str, str], ...]
Data = dict[str, Rows]


def main(*columns: Column, **more: Any) -> Table:
    source = Source(file="main.csv", format="csv")
    return Table(name="main", account="a", source=source, columns=columns, **more)


def others(*columns: Column, **more: Any) -> Table:
    source = Source(file="others.csv", format="csv")
    return Table(name="others", account="a", source=source, columns=columns, unit_id="u", **more)


@dataclass(frozen=True)
class Case:
    """Tables, what is asked of the first one, and what is expected to matter."""

    name: str
    tables: tuple[Table, ...]
    quantities: tuple[Quantity, ...]
    matters: str
    grouping: dict[str, Any] = field(default_factory=dict)
    unseen: str = ""  # may matter, but not on these few rows

    @property
    def catalog(self) -> Catalog:
        reference = Reference(name="names", file="names.csv", sha256="0" * 64, columns={"k": "text", "topic": "text"})
        return Catalog(tables={table.name: table for table in self.tables}, references={"names": reference})

    @property
    def asked(self) -> Grouping:
        return Grouping(table="main", **{"by": ("k",), **self.grouping})


USERS = {"unit_id": "u"}
TOPIC = Column(name="topic", type="text", keys=("p", "q"), reference="names")
BAND = Column(
    name="band", type="text", keys=("[0,2)", "[2,9)"), derivation=Binned(of="y", edges=tuple(map(Fraction, (0, 2, 9))))
)
SORT = Column(name="sort", type="text", keys=("m", "n"), derivation=Mapped(of="k", pairs=(("a", "m"), ("b", "n"))))
TWICE = Column(name="twice", type="decimal", derivation=Computed(sql="x + z"))
LEND = (PrivateJoin(table="others", on="u", max_matches=1, add=("w",)),)
MARCH = TimeFilter(column="day", type="date", start=date(2024, 3, 1), end=date(2024, 4, 1))
CASES = (
    Case("keys", (main(K, X, Y, Z),), (ROWS,), "main.k"),
    Case("sum", (main(K, X, Y, Z),), (SUM,), "main.k main.x"),
    Case("where", (main(K, X, Y, Z),), (ROWS,), "main.k main.y", {"where": "y > 0"}),
    Case("measure-where", (main(K, X, Y, Z),), (ROWS, Quantity(kind="rows", where="z > 2")), "main.k main.z"),
    Case("complete", (main(K, X, Y, Z, BAND, SORT),), (ROWS,), "main.k main.y", {"by": ("sort",), "complete": ("band",)}),
    Case("complete-of-units", (main(K, X, Y, Z, BAND, **USERS),), (UNITS,), "main.k main.y", {"max_groups": 1, "complete": ("band",)}),
    Case("bins", (main(K, X, Y, Z, BAND),), (ROWS,), "main.y", {"by": ("band",)}),
    Case("map", (main(K, X, Y, Z, SORT),), (ROWS,), "main.k", {"by": ("sort",)}),
    Case("computed", (main(K, X, Y, Z, TWICE),), (ROWS,), "main.k main.x main.z", {"where": "twice > 4"}),
    Case("public-join", (main(K, X, Y, TOPIC, joins=(Join(reference="names", on="k", add=("topic",)),)),), (ROWS,), "main.k", {"by": ("topic",)}),
    Case("time", (main(K, X, DAY, time=MARCH),), (ROWS,), "main.k main.day"),
    Case("time-not-declared", (main(K, X, time=MARCH),), (ROWS,), "main.k main.day"),
    Case("private-keys", (main(K, X, Y, Z),), (), "main.k main.y", {"private": True, "where": "y > 0"}),
    Case("units", (main(K, X, Y, Z, **USERS),), (UNITS,), "main.k", {"max_groups": 1}),
    Case("cells-of-a-unit", (main(K, X, Y, Z, **USERS),), (SUM,), "main.k main.x main.y main.z", {"max_groups": 2, "max_rows_per_group": 1}),
    Case("sample", (main(K, X, Y, Z, **USERS, bounds=TableBounds(max_rows=1)),), (ROWS,), "main.k main.x main.y main.z"),
    Case("first", (main(K, X, Y, Z, **USERS, bounds=TableBounds(max_rows=2, truncate="first", order_by=("y",))),), (SUM,), "main.k main.x main.y main.z", unseen="main.z"),
    Case("lent", (main(K, X, Y, LENT, **USERS, private_joins=LEND), others(W, V)), (Quantity(kind="sum", column="w", low=0, high=9, per="unit_cell"),), "main.k others.w others.v", {"max_groups": 3}),
    Case("lent-but-not-used", (main(K, X, Y, LENT, **USERS, private_joins=LEND), others(W, V)), (UNITS,), "main.k", {"max_groups": 3}),
    Case("lent-and-sampled", (main(K, X, LENT, **USERS, private_joins=LEND), others(W, V)), (SUM,), "main.k main.x others.w others.v", {"max_groups": 3, "max_rows_per_group": 1}),
    Case("time-of-a-join", (main(K, X, LENT, **USERS, private_joins=(LEND[0].model_copy(update={"max_matches": 2}),)), others(W, time=MARCH)), (ROWS,), "main.k others.day", {"max_groups": 3}),
)  # fmt: skip

AT_NIGHT = ("measure-where", "map", "time-not-declared", "lent-but-not-used", "per-unit", "time-of-a-join", "units")


def rows_of(table: Table) -> Rows:
    """Two units with three rows each; without ids six units. No two rows are equal."""
    names = list(dict.fromkeys([*(column.name for column in table.columns if column.in_source), *_time(table)]))
    found = []
    for unit in range(2):
        for at in range(3):
            turn = {"k": (0, 0, 1), "y": (0, 0, 1)}
            values = {name: DOMAIN[name][(turn.get(name, (0, 1, 2))[at] + unit) % 3] for name in names}
            found.append({"u": f"u{unit}", **values})
    return tuple(found)


def _time(table: Table) -> list[str]:
    return [] if table.time is None else [table.time.column]


def changes(case: Case, base: Data, attribute: Attribute) -> list[Data]:
    """An attribute of a unit with other values, in one of its rows and in all of them; in an order without system."""
    table, column = attribute
    own, found = base[table], []
    for first in (0, 3):
        for value in DOMAIN[column]:
            for chosen in ((first,), (first + 1,), (first + 2,), (first, first + 1, first + 2)):
                new = tuple({**row, column: value} if at in chosen else row for at, row in enumerate(own))
                if new != own and (case.tables[0].unit_id is not None or len(chosen) == 1):
                    found.append({**base, table: new})
    random.Random(f"{case.name} {column}").shuffle(found)
    return found


class Asking:
    """One engine that answers over many data sets: each of them in files of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, count()
        self.engine = DuckDBEngine(folder, {})
        names = {"k": "text", "topic": "text"}
        self.references = {"names": read_reference(b"k,topic\na,p\nb,q\nc,q\n", names)}  # type: ignore[arg-type]

    def answer(self, case: Case, data: Data) -> Any:
        tables = {}
        for name, table in case.catalog.tables.items():
            file = f"{name}{next(self.number)}.csv"
            lines = [",".join(data[name][0]), *(",".join(row.values()) for row in data[name])]
            (self.folder / file).write_text("\n".join(lines) + "\n")
            tables[name] = table.model_copy(update={"source": Source(file=file, format="csv")})
        catalog = case.catalog.model_copy(update={"tables": tables})
        if case.asked.private:
            found = self.engine.units_by_key(catalog, case.asked, self.references, SECRET)
            return [str(part) for part in open_keys(found)]
        boxes = self.engine.aggregate(catalog, case.asked, case.quantities, self.references, SECRET)
        return [
            open_exact(box).tolist() if isinstance(box, Exact) else [part.tolist() for part in open_histogram(box)[1:]]
            for box in boxes
        ]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    made = Asking(tmp_path_factory.mktemp("attributes"))
    yield made
    made.engine.close()


def claimed(case: Case) -> set[str]:
    ids = {(table.name, table.unit_id) for table in case.tables}
    quantities = case.quantities or (UNITS,)
    aggregate = BoundedAggregate(**dict(case.asked), quantity=quantities[0])
    return {".".join(each) for each in reads(aggregate, quantities, case.catalog) if each not in ids}


def check(case: Case, asking: Asking, most: int) -> None:
    """Which attributes change the answer, against what is said of them; ``most`` tries where none is said to."""
    base = {table.name: rows_of(table) for table in case.tables}
    before, seen, said = asking.answer(case, base), set[str](), claimed(case)
    assert said == set(case.matters.split())
    for attribute in attributes(case.catalog):
        name = ".".join(attribute)
        tried = changes(case, base, attribute)
        hopeful = name in said and name not in case.unseen.split()
        if any(asking.answer(case, data) != before for data in (tried if hopeful else tried[:most])):
            seen.add(name)
    assert seen <= said
    assert said - seen == set(case.unseen.split())


@pytest.mark.thin(first=4)
@pytest.mark.parametrize("case", [case for case in CASES if case.name not in AT_NIGHT], ids=lambda case: case.name)
def test_every_column_that_changes_an_answer_is_read_and_no_other_is_said_to_be(case: Case, asking: Asking) -> None:
    check(case, asking, 2)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_same_over_every_change(case: Case, asking: Asking) -> None:
    check(case, asking, 1000)
