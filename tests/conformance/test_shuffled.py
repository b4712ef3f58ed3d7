"""Rows in another order, in ten files, as text or as Parquet: the same exact numbers, byte for byte."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.table import Catalog, TableBounds
from dprelease.noise.exact import Exact, ExactHistogram, open_exact
from tests import warm_parser as parsers
from tests.conformance.people import SECRET, opened
from tests.conformance.unit_tables import (
    REFERENCES,
    WITH_USERS,
    bounds,
    catalog_of,
    opening,
    quantities,
    users,
    visits,
    write,
)

warm_parser = parsers.warm_parser

SAMPLE = TableBounds(max_rows=20)
FIRST = TableBounds(max_rows=5, truncate="first", order_by=("day",))  # many ties: the content of the row decides
LAST = TableBounds(max_rows=5, truncate="last", order_by=("seconds", "amount"))
CASES: dict[str, dict[str, Any]] = {
    "rows": {"unit_id": None},
    "units": {},
    "units with null ids": {"null_id": "unit", "bounds": SAMPLE},
    "sampled": {"bounds": SAMPLE},
    "first": {"bounds": FIRST},
    "last": {"bounds": LAST},
    "joined": {"bounds": SAMPLE, "private_joins": WITH_USERS},
}


BY = ("country", "topic")


def made_rows(count: int) -> list[list[Any]]:
    """Skewed: the first users have most rows; one row in eight is there twice."""
    draw = random.Random(11)
    rows: list[list[Any]] = []
    for _ in range(count):
        user = int(draw.paretovariate(0.7))
        rows.append(
            [
                None if user % 11 == 0 else f"u{user}",
                draw.choice(["DE", "FR", "US"]),
                draw.choice("abcdefgh"),
                draw.choice(["2024-02-29", "2024-03-01"]),
                draw.randrange(-60, 120),
                draw.uniform(-1100, 1100) if draw.random() < 0.9 else None,
                draw.random() < 0.5,
            ]
        )
        if draw.random() < 0.125:
            rows.append(rows[-1])
    return rows


def made_users() -> list[list[Any]]:
    draw = random.Random(12)
    return [[f"u{at % 50}", draw.randrange(1, 5), draw.choice(["2024-02-29", "2024-03-01"])] for at in range(300)]


def data_of(box: Exact | ExactHistogram) -> Any:
    return open_exact(box).tobytes() if isinstance(box, Exact) else opened(box)


def everything(kind: str, folder: Path, catalog: Catalog, bound: dict[str, Any]) -> Any:
    """All quantities of one query, and the keys of another."""
    rows = catalog.tables["visits"].unit_id is None
    asks = [each for each in quantities() if not rows or (each.per == "row" and each.kind != "units")]
    bound = {} if rows else bound
    with opening(kind, folder) as engine:
        found: list[Any] = [
            data_of(box)
            for box in engine.aggregate(catalog, Grouping(table="visits", by=BY, **bound), asks, REFERENCES, SECRET)
        ]
        private = Grouping(table="visits", by=("page", "day"), private=True, **bound)
        return [*found, opened(engine.units_by_key(catalog, private, REFERENCES, SECRET))]


COMPRESSED, STATISTICAL = ("csv.gz", "csv.zst"), ("sav", "zsav", "dta", "xpt", "sas7bdat")


@pytest.mark.usefixtures("warm_parser")
@pytest.mark.thin(every=3)
@pytest.mark.parametrize(("case", "bound"), [*zip(CASES, (0, 4, 5, 0, 1, 2, 8), strict=True)])
def test_order_files_and_format_change_no_byte(kind: str, case: str, bound: int, tmp_path: Path) -> None:
    rows, people = made_rows(1500), made_users()
    found = []
    shapes = [("csv", 1), ("csv", 10), ("parquet", 10), (COMPRESSED[bound % 2], 2), (STATISTICAL[bound % 5], 2)]
    for number, (shape, parts) in enumerate(shapes):
        folder = tmp_path / str(number)
        mine, theirs = visits(shape, **CASES[case]), users(shape, bounds=TableBounds(max_rows=4))
        random.Random(number).shuffle(rows)
        random.Random(number).shuffle(people)
        write(folder, mine, rows, parts)
        write(folder, theirs, people, parts)
        found.append(everything(kind, folder, catalog_of(mine, theirs), bounds()[bound]))
    assert found[1:] == found[:1] * 4


@pytest.mark.nightly
def test_order_changes_no_byte_of_a_large_table(kind: str, tmp_path: Path) -> None:
    """Enough rows for every thread of an engine to have its share."""
    rows, people = made_rows(200_000), made_users()
    found = []
    for number in range(3):
        mine, theirs = visits("parquet", **CASES["joined"]), users("parquet")
        random.Random(number).shuffle(rows)
        write(tmp_path / str(number), mine, rows, 1 + 9 * number)
        write(tmp_path / str(number), theirs, people)
        found.append(everything(kind, tmp_path / str(number), catalog_of(mine, theirs), bounds()[8]))
    assert found[1:] == found[:1] * 2
