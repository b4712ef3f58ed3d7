"""Which cells of a unit stay, and how many rows and units are in each: against one unit, one cell, one block at a time."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.engines.duck import bounding
from dprelease.engines.unit_cells import CellCounts, CellOrder, CountBounds, CountedRows, UnitRows, first_of_each
from dprelease.errors import BrokenPromiseError
from tests.conformance.people import SECRET
from tests.conformance.reference_rows import enciphered
from tests.conformance.unit_tables import asked, bounds, catalog_of, opening, quantities, visits, write

FAR = [-(2**63), 2**63 - 1, 0, 1, -1]  # no number of a unit and a cell fits in 64 bits
IDS: dict[str, list[Any]] = {
    "integer": list(range(40)),
    "far": [*FAR, *range(2, 30)],
    "text": ["", "a", "ä", "a\u0308", "17", *(f"u{at}" for at in range(30))],
}
SUM = Quantity(kind="sum", column="seconds", low=0, high=50)
COUNTS_ALONE = [each for each in quantities() if each.kind in ("rows", "units") and not (each.where or each.weight)]


def rows_of(kind: str, seed: int, cells: int, rows: int = 900) -> tuple[list[Any], list[int]]:
    draw = random.Random(seed)
    ids = [draw.choice(IDS[kind]) if draw.random() < 0.9 else IDS[kind][0] for _ in range(rows)]
    return ids, [min(int(draw.expovariate(0.1)), cells - 1) for _ in range(rows)]


def by_hand(kind: str, ids: list[Any], cells: list[int], bounds: CountBounds) -> tuple[Counter[int], Counter[int]]:
    """Rows and units by cell, one unit after the other."""
    table = visits(unit="text" if kind == "text" else "integer")
    of_unit: defaultdict[Any, Counter[int]] = defaultdict(Counter)
    for unit, cell in zip(ids, cells, strict=True):
        of_unit[unit][cell] += 1
    rows, units = Counter[int](), Counter[int]()
    for unit, held in of_unit.items():
        order = sorted(held, key=lambda cell: (enciphered(table, SECRET, str(unit), cell), cell))
        for cell in order[: bounds.cells]:
            rows[cell] += min(held[cell], bounds.rows_in_cell or held[cell])
            units[cell] += 1
    return rows, units


@pytest.mark.parametrize("of", [50, 2**40])  # with a place in memory for each cell, and without
@pytest.mark.parametrize("kind", IDS)
def test_counts_are_those_of_one_unit_after_the_other(kind: str, of: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, cells = rows_of(kind, 1, 50)
    array = pa.array(ids, pa.string() if kind == "text" else pa.int64())
    for bound in (
        CountBounds(),
        CountBounds(cells=3),
        CountBounds(rows_in_cell=2),
        CountBounds(1, 1),
        CountBounds(7, 3),
    ):
        for size in (10, 10**6):  # units in many slices, of which some unit is longer than one, and all in one
            monkeypatch.setattr("dprelease.engines.unit_cells._SLICE", size)
            found = CountedRows("t", bound, CellOrder(SECRET), of).counts(array, np.array(cells))
            rows, units = by_hand(kind, ids, cells, bound)
            assert dict(zip(found.cells.tolist(), found.rows.tolist(), strict=True)) == dict(rows)
            assert dict(zip(found.cells.tolist(), found.units.tolist(), strict=True)) == dict(units)
            assert found.looked_at == len(ids)


def test_parts_of_the_units_add_up() -> None:
    ids, cells = rows_of("integer", 2, 20)
    counted = CountedRows("t", CountBounds(3, 2), CellOrder(SECRET), 20)
    whole = counted.counts(pa.array(ids), np.array(cells))
    parts = [
        counted.counts(pa.array([each for each in ids if each % 3 == at]), np.array(
            [cell for each, cell in zip(ids, cells, strict=True) if each % 3 == at]
        ))
        for at in range(3)
    ]  # fmt: skip
    again = CellCounts.together(parts)
    for name in ("cells", "rows", "units"):
        assert getattr(again, name).tolist() == getattr(whole, name).tolist()
    assert again.looked_at == whole.looked_at


def test_equal_places_go_by_their_turn() -> None:
    """Places of few bits, so that the numbers by which groups are cut off tell nothing."""
    draw = np.random.default_rng(3)
    for bits in (0, 1, 2, 5, 64):
        sizes = draw.integers(4, 9, 200)
        places = draw.integers(0, 2**bits, int(sizes.sum()), dtype=np.uint64, endpoint=False) if bits < 64 else (
            draw.integers(0, 2**63, int(sizes.sum()), dtype=np.uint64))  # fmt: skip
        for shifted in (places, places << np.uint64(64 - bits) if 0 < bits < 64 else places):
            stays = first_of_each(shifted, sizes, 3)
            start = 0
            for size in sizes:
                group = shifted[start : start + size].tolist()
                kept = [at for _, at in sorted(zip(group, range(size), strict=True))[:3]]
                assert np.flatnonzero(stays[start : start + size]).tolist() == sorted(kept)
                start += size


def test_the_order_is_uniform_over_cells() -> None:
    """Of 40,000 units in five cells each two stay: every cell equally often, but for 6 standard deviations."""
    units = np.repeat(np.arange(40_000), 5)
    counted = CountedRows("t", CountBounds(cells=2), CellOrder(SECRET), 5)
    found = counted.counts(pa.array(units), np.tile(np.arange(5), 40_000))
    assert abs(found.units - 16_000).max() < 6 * (40_000 * 0.4 * 0.6) ** 0.5


@pytest.mark.parametrize(
    ("bound", "name"),
    [
        (CountBounds(cells=2), "max_groups"),
        (CountBounds(rows_in_cell=3), "max_rows_per_group"),
        (CountBounds(rows=8), "max_rows after joins"),
    ],
)
def test_what_breaks_a_bound_is_refused(bound: CountBounds, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountedRows, "_left", lambda _, some: (np.ones(len(some.unit), dtype=np.bool_), some.rows))
    counted = CountedRows("t", bound, CellOrder(SECRET), 5)
    ids = pa.array([1] * 9)
    with pytest.raises(BrokenPromiseError, match=f"DPR-B200.* {name};"):
        counted.counts(ids, np.array([0, 0, 0, 0, 1, 1, 2, 2, 2]))
    fits = CountedRows("t", CountBounds(3, 4, 9), CellOrder(SECRET), 5)
    assert fits.counts(ids, np.array([0, 0, 0, 0, 1, 1, 2, 2, 2])).rows.tolist() == [4, 2, 3]


def test_rows_without_an_id_are_told_apart_by_their_numbers() -> None:
    counted = CountedRows("t", CountBounds(1, 1), CellOrder(SECRET), 3)
    ids, cells = pa.array([None, 1, None, 1]), np.array([2, 0, 2, 0])
    found = counted.counts(ids, cells, np.array([1, 0, 2, 0]))
    assert (found.cells.tolist(), found.rows.tolist(), found.units.tolist()) == ([0, 2], [1, 2], [1, 2])
    for numbers in (np.array([1, 0, 1, 0]), None):
        with pytest.raises(BrokenPromiseError, match="one row of each unit"):
            counted.counts(ids, cells, numbers)


def test_an_id_has_its_own_number() -> None:
    order = CellOrder(SECRET)
    assert order.unit_numbers(pa.array([-1, 5])).tolist() == [2**64 - 1, 5]
    assert len(set(order.unit_numbers(pa.array(IDS["text"])).tolist())) == len(IDS["text"])
    units = UnitRows(pa.array(FAR), np.zeros(5, dtype=np.uint8), 3)
    assert sorted(np.concatenate([each.ids().to_numpy() for each in units.slices()]).tolist()) == sorted(FAR)


@pytest.mark.parametrize("unit", ["text", "integer", "date"])
@pytest.mark.parametrize("null_id", ["drop", "unit"])
@pytest.mark.parametrize("at_once", [20, 3])  # a few parts, and more than are read from all rows
@pytest.mark.thin
def test_units_looked_at_some_after_the_others_are_the_reference_engines(
    at_once: int, unit: str, null_id: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(5)
    ids = {"text": ["a", "b", "ä", None], "integer": ["1", "2", "-9", None], "date": ["2024-02-29", "2024-03-01", None]}
    rows = [
        [draw.choice(ids[unit]), draw.choice(["DE", "FR", "US", None]), "a", "2024-02-29", at % 99, 1, draw.choice([True, None])]
        for at in range(60)
    ]  # fmt: skip
    table = visits(unit=unit, null_id=null_id)
    write(tmp_path, table, rows)
    monkeypatch.setattr(bounding, "_AT_ONCE", at_once)
    groupings = [Grouping(table="visits", by=("country", "adult"), **bound) for bound in bounds()[1::3]]
    found: list[list[Any]] = []
    for kind in ("reference", "duckdb"):
        with opening(kind, tmp_path) as engine:
            asking = [(grouping, each) for grouping in groupings for each in (COUNTS_ALONE, [*COUNTS_ALONE, SUM])]
            found.append([asked(engine, catalog_of(table), grouping, each) for grouping, each in asking])
    assert found[0] == found[1]
