"""Confidential tables meet on the unit's id: nobody meets nobody, and which matches stay is the unit's own affair."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Column, PrivateJoin, Range, Source, Table
from dprelease.engines import ENGINES
from dprelease.privacy.unit import Neighboring
from tests.conformance.unit_tables import (
    WITH_USERS,
    asked,
    assert_within,
    catalog_of,
    claimed,
    hidden,
    moved,
    opening,
    users,
    visits,
    write,
)

EVERY = ["reference", *ENGINES]
ASKS = [Quantity(kind="rows"), Quantity(kind="nonnull", column="tenure"), Quantity(kind="units")]


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(("ids", "declared"), [(("text", "text"), True), (("text", "text"), False), (("integer", "text"), True), (("integer", "integer"), True)])  # fmt: skip
def test_rows_without_an_id_meet_no_rows_without_an_id(
    kind: str, ids: tuple[str, str], declared: bool, tmp_path: Path
) -> None:
    """Both tables keep rows of nobody (`null_id: unit`), each of them a unit: three stay alone beside four."""
    mine = visits(unit=ids[0], private_joins=WITH_USERS, null_id="unit")
    theirs = users(unit=ids[1], null_id="unit")
    catalog = catalog_of(mine if declared else hidden(mine), theirs)
    write(tmp_path, mine, [[each, "DE", "a", None, 1, 1, None] for each in [None, None, None, "7", "8"]])
    write(tmp_path, theirs, [[None, 2, None]] * 4 + [["7", 1, None], ["7", 3, None]])
    with opening(kind, tmp_path) as engine:
        assert asked(engine, catalog, Grouping(table="visits", by=()), ASKS) == [[6], [2], [5]]
        by = Grouping(table="visits", by=("tenure",))
        assert asked(engine, catalog, by, ASKS[:1]) == [[1, 0, 1]]


@pytest.mark.thin
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("more", ["visits", "users"])
def test_one_row_of_nobody_moves_one_number_by_one(kind: str, more: str, tmp_path: Path) -> None:
    """A row without an id is one unit: beside many others without one it moves what it is in, and lends to nobody."""
    mine, theirs = visits(private_joins=WITH_USERS, null_id="unit"), users(null_id="unit")
    catalog, grouping = catalog_of(mine, theirs), Grouping(table="visits", by=("tenure",), max_rows_per_group=2)
    found = []
    for extra in (0, 1):
        folder = tmp_path / str(extra)
        rows, people = 20 + extra * (more == "visits"), 5 + extra * (more == "users")
        write(folder, mine, [[None, "DE", "a", None, 1, 1, None]] * rows + [["x", "DE", "a", None, 1, 1, None]])
        write(folder, theirs, [[None, 2, None]] * people + [["x", 2, None]])
        with opening(kind, folder) as engine:
            found.append(asked(engine, catalog, grouping, ASKS) + asked(engine, catalog, grouping.model_copy(update={"by": ()}), ASKS))  # fmt: skip
    for quantity, before, after in zip(ASKS * 2, *found, strict=True):
        assert_within(moved(before, after), claimed(catalog, grouping, quantity, Neighboring.ADD_REMOVE))
    if more == "users":
        assert found[0] == found[1]


UNITS, MATCHES = 18, 3


def lent_bits() -> Catalog:
    """Each unit has one row, and meets three that differ in a bit alone: a sum says which of the three stayed."""
    limits = Range(low=Fraction(0), high=Fraction(2**60))
    bit = Column(name="bit", type="integer", range=limits)
    rows = Table(
        name="rows",
        account="a",
        source=Source(file="rows*.csv", format="csv"),
        columns=(Column(name="place", type="text", keys=("x", "y")), bit.model_copy(update={"lent_by": "bits"})),
        unit_id="who",
        private_joins=(PrivateJoin(table="bits", on="who", max_matches=MATCHES, add=("bit",)),),
    )
    source = Source(file="bits*.csv", format="csv")
    return Catalog(
        tables={"rows": rows, "bits": Table(name="bits", account="a", source=source, columns=(bit,), unit_id="who")}
    )


def kept(kind: str, folder: Path, who: list[int], seed: int, **bound: int) -> list[int]:
    catalog, draw = lent_bits(), random.Random(seed)
    rows = [[f"u{at}", "xy"[at % 2]] for at in who]
    lent = [[f"u{at}", 1 << (MATCHES * at + each)] for at, each in product(who, range(MATCHES))]
    draw.shuffle(rows)
    draw.shuffle(lent)
    write(folder, catalog.tables["rows"], rows, names=("who", "place"))
    write(folder, catalog.tables["bits"], lent, parts=1 + seed % 2, names=("who", "bit"))
    asks = [Quantity(kind="sum", column="bit", low=0, high=2**60)]
    with opening(kind, folder) as engine:
        (found,) = asked(engine, catalog, Grouping(table="rows", by=("place",), **bound), asks)
    return [int(each) for each in found]


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("most", [1, 2])
def test_matches_that_alone_differ_are_chosen_by_their_own_content(kind: str, most: int, tmp_path: Path) -> None:
    """By the documented order, whatever else is in the files and in which order: no engine decides, nor another unit."""
    everybody = list(range(UNITS))
    expected = kept("reference", tmp_path / "reference", everybody, 0, max_rows_per_group=most)
    assert sum(each.bit_count() for each in expected) == most * UNITS
    for seed in range(3):
        assert kept(kind, tmp_path / f"{seed}", everybody, seed, max_rows_per_group=most) == expected
    few = [at for at in everybody if at % 3]
    mask = sum(0b111 << (MATCHES * at) for at in few)
    alone = kept(kind, tmp_path / "few", few, 7, max_rows_per_group=most)
    assert alone == [each & mask for each in expected]
