"""A published table as a cube, for the formats that know dimensions and observations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Column
from dprelease.estimate import RANK, Coded, PublishedMeasure, PublishedTable, coded, statuses
from dprelease.measures import Measure
from dprelease.publish.base import key_as_text
from dprelease.publish.columns import P_VALUE, SAMPLING_ERROR, TOTAL_MARGIN, UNADJUSTED, UNADJUSTED_ERROR, endings

__all__ = [
    "PARTS",
    "UNROUNDED",
    "Cube",
    "Dimension",
    "as_cube",
    "bare_measure",
    "keys_repeat",
    "numbered",
    "numbers_of",
    "parts_of",
]

Floats = npt.NDArray[np.float64]
ROW = "row"
_AT_ONCE = 1 << 20  # rows
# The numbers of a measure, by the ending of their column in a CSV file.
PARTS = {
    "": "value", "_se": "standard_error", "_margin": "margin", "_lower": "lower", "_upper": "upper",
    SAMPLING_ERROR: "sampling_error", TOTAL_MARGIN: "total_margin",
    UNADJUSTED: "unadjusted", UNADJUSTED_ERROR: "standard_error", P_VALUE: "p_value",
}  # fmt: skip
# Of these every digit is published, whatever the grid of the number itself is.
UNROUNDED = ("_se", SAMPLING_ERROR, TOTAL_MARGIN, UNADJUSTED, UNADJUSTED_ERROR, P_VALUE)


@dataclass(frozen=True)
class Dimension:
    """One key column.

    Attributes:
        name: As the author declared it.
        codes: Its key in every row, as text.
        declared: Its public keys as text, in published order; None where it has none.
        labels: Words for codes.
        title: What a reader sees in the place of its name; empty: the name.
    """

    name: str
    codes: Coded[str]
    declared: tuple[str, ...] | None
    labels: Mapping[str, str]
    title: str = ""


@dataclass(frozen=True, eq=False)
class Cube:
    """Rows told apart by their dimensions, each with one observation of every measure.

    Attributes:
        dimensions: In published order; no two rows have the same codes in all of them.
        measures: At least one.
        rows: How many.
    """

    dimensions: tuple[Dimension, ...]
    measures: tuple[PublishedMeasure, ...]
    rows: int


def as_cube(table: PublishedTable) -> Cube:
    """The table as a cube.

    A list of the most frequent keys has no numbers: its ranks become the observations. A derived table can have
    several rows with the same keys: a dimension ``row``, from 1, then tells them apart.
    """
    columns, keys, measures = table.key_columns, table.keys, table.measures
    if not measures and columns and columns[0].name == RANK:
        measures = (bare_measure(RANK, None, np.array(list(keys[0]), dtype=np.float64), whole=True),)
        columns, keys = columns[1:], keys[1:]
    found = [_dimension(column, codes) for column, codes in zip(columns, keys, strict=True)]
    if keys_repeat(table):
        numbers = Coded([str(row) for row in range(1, table.cells + 1)], np.arange(table.cells))
        found.append(Dimension(name=ROW, codes=numbers, declared=None, labels={}))
    return Cube(dimensions=tuple(found), measures=measures, rows=table.cells)


def keys_repeat(table: PublishedTable) -> bool:
    """Whether two rows have the same keys; only a derived table can have such."""
    if not table.key_columns:
        return table.cells > 1
    if table.cells < 2 or _rise(table):
        return False
    place, places = np.zeros(table.cells, dtype=np.int64), 1
    for keys in map(coded, table.keys):
        if places * len(keys.keys) >= 2**62:
            _, place = np.unique(place, return_inverse=True)
            places = table.cells
        place = place * len(keys.keys) + keys.codes
        places *= len(keys.keys)
    place.sort()
    return bool((place[1:] == place[:-1]).any())


def _rise(table: PublishedTable) -> bool:
    """Whether the places of the keys rise from row to row, as those of all declared keys do; some rows at a time."""
    columns = list(map(coded, table.keys))
    if math.prod(len(keys.keys) for keys in columns) >= 2**62:
        return False
    before = -1
    for first in range(0, table.cells, _AT_ONCE):
        last = min(first + _AT_ONCE, table.cells)
        place = np.zeros(last - first, dtype=np.int64)
        for keys in columns:
            place *= len(keys.keys)
            place += keys.part(first, last)
        if place[0] <= before or (place[1:] <= place[:-1]).any():
            return False
        before = int(place[-1])
    return True


def parts_of(measure: PublishedMeasure) -> list[str]:
    """The endings of the numbers that a measure has, in published order."""
    return [each for each in endings(measure) if each in PARTS]


def numbers_of(measure: PublishedMeasure, ending: str) -> list[float | int | None]:
    """Numbers of a measure as the CSV file has them: on its grid, whole ones as integers, None where none is published.

    Args:
        measure: The measure.
        ending: Which of its numbers: a key of ``PARTS``.
    """
    numbers: list[float] = getattr(measure, PARTS[ending]).tolist()
    if ending in UNROUNDED or measure.places is None:
        return [number if math.isfinite(number) else None for number in numbers]
    places = None if measure.integer else measure.places
    return [round(number, places) if math.isfinite(number) else None for number in numbers]


def numbered(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """The names, with a number behind each that is there already where capitals do not count.

    >>> numbered(["a", "A", "b", "a_2"], taken=["B"])
    ['a', 'A_2', 'b_2', 'a_2_2']
    """
    seen = {name.lower() for name in taken}
    found = []
    for name in names:
        made, number = name, 1
        while made.lower() in seen:
            number += 1
            made = f"{name}_{number}"
        seen.add(made.lower())
        found.append(made)
    return found


def _dimension(column: Column, keys: Sequence[bool | int | str]) -> Dimension:
    declared = tuple(map(key_as_text, column.keys)) if column.keys is not None else None
    codes = coded(keys).mapped(key_as_text)
    return Dimension(name=column.name, codes=codes, declared=declared, labels=dict(column.labels), title=column.title)


def bare_measure(name: str, measure: Measure | None, value: Floats, *, whole: bool = False) -> PublishedMeasure:
    """Numbers of which nothing else is known: no error, no margin and no interval.

    Args:
        name: Their name.
        measure: What they are, where that is known.
        value: Shape ``(cells,)``.
        whole: Whether they are whole numbers.
    """
    nothing, no = np.full(value.shape, np.nan), np.zeros(value.shape, dtype=bool)
    rest = (nothing, nothing, nothing, nothing, statuses(no, no), 0 if whole else None, whole)
    return PublishedMeasure(name, measure, value, *rest)
