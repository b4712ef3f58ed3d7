"""One unit with 100,000 rows: with it and without it, every exact number is nearly the same."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import TableBounds
from dprelease.privacy.unit import Neighboring
from tests.conformance.people import SECRET, opened
from tests.conformance.unit_tables import (
    REFERENCES,
    WITH_USERS,
    asked,
    assert_within,
    bounds,
    catalog_of,
    claimed,
    moved,
    opening,
    quantities,
    users,
    visits,
    write,
)

MANY = 100_000
RULES = {
    "sample": TableBounds(max_rows=7),
    "first": TableBounds(max_rows=7, truncate="first", order_by=("day", "seconds")),
    "last": TableBounds(max_rows=7, truncate="last", order_by=("amount",)),
    "loose": TableBounds(max_rows=10**6),
}


REACHED = (Quantity(kind="rows"), Quantity(kind="units"))


def some_rows(user: str, count: int) -> list[list[Any]]:
    draw = random.Random(user)
    days, places, pages = ["2024-02-29", "2024-03-01", None], ["DE", "FR", "US"], ["a", "b", "c", None]
    return [
        [user, draw.choice(places), draw.choice(pages), draw.choice(days), draw.randrange(-90, 120), *odds(draw)]
        for _ in range(count)
    ]


def odds(draw: random.Random) -> list[Any]:
    return [draw.choice([-1e9, -999.5, 0.0, 7.75, 999.0]), draw.choice([True, False])]


@cache
def few() -> list[list[Any]]:
    return [row for at in range(50) for row in some_rows(f"u{at}", 6)]


@cache
def many() -> list[list[Any]]:
    return some_rows("giant", MANY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everybody in ``with``, all but the one in ``without``: whatever is asked of them, the files are the same."""
    made = tmp_path_factory.mktemp("people")
    people = [[user, at % 3 + 1, "2024-02-29"] for at in range(9) for user in ("u1", "u2", "giant")]
    write(made / "with", visits("parquet"), [*few(), *many()])
    write(made / "without", visits("parquet"), few())
    for name in ("with", "without"):
        write(made / name, users("parquet"), [row for row in people if name == "with" or row[0] != "giant"])
    return made


# Every rule, and with and without what another table lends, on every commit; both for every rule at night.
ASKED = [
    pytest.param(rule, joined, marks=[pytest.mark.nightly] if (at + joined) % 2 else [])
    for at, rule in enumerate(RULES)
    for joined in (False, True)
]


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(("rule", "joined"), ASKED)
def test_a_unit_with_many_rows_moves_no_number_further_than_claimed(
    kind: str, rule: str, joined: bool, folder: Path
) -> None:
    table = visits("parquet", bounds=RULES[rule], private_joins=WITH_USERS if joined else ())
    catalog = catalog_of(table, users("parquet"))
    with opening(kind, folder / "with") as full, opening(kind, folder / "without") as less:
        for by, bound in (((), bounds()[0]), (("topic", "late", "country"), bounds()[8])):
            grouping = Grouping(table="visits", by=by, **bound)
            found = [asked(engine, catalog, grouping, quantities()) for engine in (less, full)]
            for quantity, before, after in zip(quantities(), *found, strict=True):
                change = moved(before, after)
                claim = claimed(catalog, grouping, quantity, Neighboring.ADD_REMOVE)
                assert_within(change, claim)
                if rule == "loose" and quantity in REACHED and bound:
                    assert sum(change) == claim.l1  # nothing but the bounds keeps the unit small


@pytest.mark.slow
def test_a_unit_with_many_rows_is_in_few_keys(kind: str, tmp_path: Path) -> None:
    """It raises at most ``max_groups`` of the counts that decide which keys appear, each by one."""
    table = visits("parquet", bounds=TableBounds(max_rows=10**6))
    rows = [[row[0], row[1], f"p{at}", *row[3:]] for at, row in enumerate(many())]
    write(tmp_path / "with", table, [*few(), *rows])
    write(tmp_path / "without", table, few())
    grouping = Grouping(table="visits", by=("page",), private=True, max_groups=2)
    found = []
    for name in ("without", "with"):
        with opening(kind, tmp_path / name) as engine:
            found.append(dict(opened(engine.units_by_key(catalog_of(table), grouping, REFERENCES, SECRET))))
    before, after = found
    assert before.items() <= after.items() or set(before) <= set(after)
    assert sorted(after[key] - before.get(key, 0) for key in after)[-3:] == [0, 1, 1]
