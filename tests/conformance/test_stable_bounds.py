"""A change of one unit changes nothing of the others, and moves no exact number further than claimed."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Collection, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, Source, Table, TableBounds
from dprelease.engines import ENGINES, NAMED
from dprelease.privacy.unit import Neighboring
from tests.conformance.unit_tables import (
    WITH_USERS,
    asked,
    assert_within,
    bounds,
    catalog_of,
    claimed,
    moved,
    opening,
    quantities,
    table_bounds,
    users,
    visits,
    write,
)

BY = [(), ("country",), ("country", "late"), ("topic", "adult"), ("tenure",), ("union", "tenure")]


def engines(cases: Iterable[int], often: Collection[int]) -> Iterator[Any]:
    """Every case of every engine; of an engine that tables name, all but some at night, as those of ``kind``."""
    for name, case in product(ENGINES, cases):
        yield pytest.param(name, case, marks=[pytest.mark.nightly] * (name in NAMED and case not in often))


def random_visit(draw: random.Random, user: str | None) -> list[Any]:
    return [
        user,
        draw.choice(["DE", "FR", "US", None]),
        draw.choice(["a", "b", "c"]),
        draw.choice(["2024-02-29", "2024-03-01", None]),
        draw.choice([-50, 0, 9, 10, 40, 99, None]),
        draw.choice([-1000, -7.25, 0, 99.5, 1e9, None]),
        draw.choice([True, False, None]),
    ]


def random_user(draw: random.Random, user: str) -> list[Any]:
    return [user, draw.choice([1, 2, 3, None]), draw.choice(["2024-02-29", None])]


@pytest.mark.thin(every=3)
@pytest.mark.parametrize(("kind", "seed"), [*(("reference", at) for at in range(60)), *engines(range(6), {1, 2})])
def test_one_unit_moves_no_number_further_than_claimed(kind: str, seed: int) -> None:
    """Two tables that differ in all rows of one unit, in both confidential files."""
    draw = random.Random(seed)
    table = visits(
        null_id=draw.choice(["drop", "unit"]),
        bounds=TableBounds(max_rows=draw.choice([1, 2, 4, 7]), truncate="sample"),
        private_joins=WITH_USERS if seed % 4 < 2 else (),
    )
    catalog = catalog_of(table, users(bounds=draw.choice(table_bounds()[:3])))
    by = draw.choice(BY if table.private_joins else BY[:4])
    asking: dict[str, Any] = {"by": by, "where": draw.choice([None, "seconds >= 0"]), **draw.choice(bounds())}
    asking["complete"] = draw.choice([(), ("adult", "union"), ("band", "country", "topic")])
    grouping = Grouping(table="visits", **asking)
    replaced = seed % 2 == 0
    others = [random_visit(draw, draw.choice(["p", "q", "r", None])) for _ in range(draw.randrange(12))]
    found = []
    for version in range(2):
        mine = draw.randrange(1, 15) if version or replaced else 0
        rows = [*others, *(random_visit(draw, "x") for _ in range(mine))]
        people = [random_user(random.Random(at), "pqr"[at % 3]) for at in range(7)]
        people += [random_user(draw, "x") for _ in range(4 if mine else 0)]
        draw.shuffle(rows)
        draw.shuffle(people)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder, table, rows)
            write(folder, catalog.tables["users"], people)
            with opening(kind, folder) as engine:
                found.append(asked(engine, catalog, grouping, quantities()))
    relation = Neighboring.REPLACE_ONE if replaced else Neighboring.ADD_REMOVE
    for quantity, before, after in zip(quantities(), *found, strict=True):
        assert_within(moved(before, after), claimed(catalog, grouping, quantity, relation))


WHO = ("p", "q", "r", "s")


def marked(null_id: str, bound: TableBounds | None) -> Catalog:
    """A table in which every row has a bit of its own: the sum of a cell says which rows are in it."""
    columns = (
        Column(name="user", type="text"),
        Column(name="who", type="text", keys=WHO),
        Column(name="group", type="integer", keys=(1, 2, 3)),
        Column(name="bit", type="integer"),
    )
    source = Source(file="marked*.csv", format="csv")
    table = Table(
        name="marked", account="a", source=source, columns=columns, unit_id="user", null_id=null_id, bounds=bound
    )
    return Catalog(tables={"marked": table})


@pytest.mark.thin(every=10)
@pytest.mark.parametrize("rule", range(4))
@pytest.mark.parametrize(("kind", "bound"), [*(("reference", at) for at in range(9)), *engines((0, 4, 8), {4})])
def test_the_rows_that_stay_of_a_unit_depend_on_no_other_unit(kind: str, bound: int, rule: int, tmp_path: Path) -> None:
    """Cells are units here: when rows of one unit come and go, only its own cells move, whatever the bounds."""
    rules = [
        None,
        TableBounds(max_rows=2),
        TableBounds(max_rows=2, truncate="first", order_by=("group",)),
        TableBounds(max_rows=3, truncate="last", order_by=("bit",)),
    ]
    catalog = marked("drop", rules[rule])
    grouping = Grouping(table="marked", by=("who", "group"), **bounds()[bound])
    asks = [Quantity(kind="sum", column="bit", low=0, high=2**40)]
    draw = random.Random(bound)
    rows = [[who, who, draw.randrange(1, 4), 2**at] for at, who in enumerate(WHO * 7)]
    names = ("user", "who", "group", "bit")
    with opening(kind, tmp_path / "all") as engine:
        write(tmp_path / "all", catalog.tables["marked"], rows, names=names)
        (whole,) = asked(engine, catalog, grouping, asks)
    for at, who in enumerate(WHO):
        fewer = [row for row in rows if row[0] != who or row[3] % 3 == 1]
        draw.shuffle(fewer)
        write(tmp_path / who, catalog.tables["marked"], fewer, names=names)
        with opening(kind, tmp_path / who) as engine:
            (less,) = asked(engine, catalog, grouping, asks)
        assert {cell // 3 for cell in range(12) if less[cell] != whole[cell]} <= {at}
    sizes = [[whole[at * 3 + cell].bit_count() for cell in range(3)] for at in range(4)]
    most = {
        name: size or 99 for name, size in grouping.model_dump(include={"max_groups", "max_rows_per_group"}).items()
    }
    assert all(sum(1 for size in each if size) <= most["max_groups"] for each in sizes)
    assert all(size <= most["max_rows_per_group"] for each in sizes for size in each)
    limit = rules[rule]
    assert limit is None or all(sum(each) <= limit.max_rows for each in sizes)
