"""A published table as a cube, for the formats that know dimensions and observations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dprelease.catalog.table import Column
from dprelease.estimate import RANK, PublishedMeasure, PublishedTable, Status
from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import key_text

__all__ = [
    "PARTS",
    "ROW",
    "Cube",
    "Dimension",
    "as_cube",
    "finite",
    "keys_repeat",
    "numbered",
    "numbers_of",
    "suppressed",
]

ROW = "row"
# The numbers of a measure, by the ending of their column in a CSV file.
PARTS = {"": "value", "_se": "standard_error", "_margin": "margin", "_lower": "lower", "_upper": "upper"}


@dataclass(frozen=True)
class Dimension:
    """One key column.

    Attributes:
        name: As the author declared it.
        codes: Its key in every row, as text.
        declared: Its public keys as text, in published order; None where it has none.
        labels: Words for codes.
    """

    name: str
    codes: tuple[str, ...]
    declared: tuple[str, ...] | None
    labels: Mapping[str, str]


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
        measures = (_ranks(np.array(keys[0], dtype=np.float64)),)
        columns, keys = columns[1:], keys[1:]
    found = [_dimension(column, codes) for column, codes in zip(columns, keys, strict=True)]
    if keys_repeat(table):
        numbers = tuple(str(row) for row in range(1, table.cells + 1))
        found.append(Dimension(name=ROW, codes=numbers, declared=None, labels={}))
    return Cube(dimensions=tuple(found), measures=measures, rows=table.cells)


def keys_repeat(table: PublishedTable) -> bool:
    """Whether two rows have the same keys; only a derived table can have such."""
    if not table.key_columns:
        return table.cells > 1
    return len(set(zip(*table.keys, strict=True))) < table.cells


def numbers_of(measure: PublishedMeasure, ending: str) -> list[float | int | None]:
    """Numbers of a measure as the CSV file has them: on its grid, whole ones as integers, None where none is published.

    Args:
        measure: The measure.
        ending: Which of its numbers: a key of ``PARTS``.
    """
    numbers: list[float] = getattr(measure, PARTS[ending]).tolist()
    if ending == "_se" or measure.places is None:
        return [number if math.isfinite(number) else None for number in numbers]
    places = None if measure.integer else measure.places
    return [round(number, places) if math.isfinite(number) else None for number in numbers]


def finite(number: float, places: int | None) -> str:
    """A number as the CSV file writes it; empty where nothing is published."""
    if not math.isfinite(number):
        return ""
    return repr(number) if places is None else f"{number:.{places}f}"


def suppressed(plan: ReleasePlan, table: PublishedTable) -> tuple[bool, ...]:
    """Which rows of a table were withheld because a noisy number of theirs was below the query's limit.

    The measure that decides is blank in exactly those: ``estimate`` withholds a row where it is below or unknown.
    """
    query = next((each for each in plan.queries if each.name == table.name and not table.derived), None)
    if query is None or query.suppress_below is None:
        return (False,) * table.cells
    decides = next(each for each in table.measures if each.name == query.suppress_below[0])
    return tuple(status == "blank" for status in decides.status)


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
    declared = tuple(map(key_text, column.keys)) if column.keys is not None else None
    return Dimension(name=column.name, codes=tuple(map(key_text, keys)), declared=declared, labels=dict(column.labels))


def _ranks(ranks: np.ndarray[tuple[int], np.dtype[np.float64]]) -> PublishedMeasure:
    nothing = np.full(ranks.shape, np.nan)
    ok: Status = "ok"
    return PublishedMeasure(
        name=RANK,
        measure=None,
        value=ranks,
        standard_error=nothing,
        margin=nothing,
        lower=nothing,
        upper=nothing,
        status=(ok,) * len(ranks),
        places=0,
        integer=True,
    )
