"""A table with one of its key columns across: a column for each of its keys, where the author asks for that.

It is what pages show. Files keep one row for each cell, which is what programs want.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.names import Foreign
from dprelease.estimate import Coded, PublishedMeasure, PublishedTable, coded
from dprelease.publish.base import key_as_text
from dprelease.words import phrase

__all__ = ["with_across"]


def with_across(table: PublishedTable, across: str) -> PublishedTable:
    """The table with a measure for each key of a column and each of its measures.

    Measures are named by the labels of the keys, behind the measure's own title where there are several. The order of
    rows and of keys is that of the table.

    Args:
        table: With at least two key columns, and every combination of the keys across with the other ones once.
        across: The column whose keys become columns.

    Raises:
        ValueError: If it has not; the plan's checks have seen to that.
    """
    at = next(place for place, column in enumerate(table.key_columns) if column.name == across)
    others = [place for place in range(len(table.key_columns)) if place != at]
    places = _places([coded(table.keys[place]).codes for place in others])
    own = coded(table.keys[at])
    columns = list(dict.fromkeys(own.codes.tolist()))
    rows = int(places.max(initial=-1)) + 1
    cells = np.full((rows, len(columns)), -1, dtype=np.int64)
    cells[places, [columns.index(code) for code in own.codes.tolist()]] = np.arange(table.cells)
    if (cells < 0).any() or cells.size != table.cells:
        raise ValueError("a combination of keys is missing, or stands twice")
    names = _names(table, at, [key_as_text(own.keys[code]) for code in columns])
    measures = [
        _column(measure, f"{measure.shown}: {name}" if len(table.measures) > 1 else name, cells[:, place])
        for measure in table.measures
        for place, name in enumerate(names)
    ]
    return replace(
        table,
        key_columns=tuple(table.key_columns[place] for place in others),
        keys=tuple(_taken(table.keys[place], cells[:, 0]) for place in others),
        measures=tuple(measures),
        cells=rows,
    )


def _places(codes: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """For each row which combination it is of, in the order in which they first occur."""
    found: dict[tuple[int, ...], int] = {}
    rows = zip(*(each.tolist() for each in codes), strict=True)
    return np.array([found.setdefault(row, len(found)) for row in rows], dtype=np.int64)


def _names(table: PublishedTable, at: int, keys: Sequence[str]) -> list[str]:
    """The labels of the keys; the key beside it where two have one label."""
    labels = [_stripped(table.key_columns[at].labels.get(key, key)) or phrase("(empty)") for key in keys]
    return [f"{label} ({key})" if labels.count(label) > 1 else label for label, key in zip(labels, keys, strict=True)]


def _stripped(label: str) -> str:
    """Without blanks around it; foreign words stay marked as such."""
    return Foreign(label.strip(), label.tag) if isinstance(label, Foreign) else label.strip()


def _column(measure: PublishedMeasure, name: str, rows: npt.NDArray[np.int64]) -> PublishedMeasure:
    numbers: dict[str, Any] = {
        each.name: getattr(measure, each.name)[rows]
        for each in fields(measure)
        if isinstance(getattr(measure, each.name), np.ndarray)
    }
    return replace(measure, name=name, title="", status=_taken(measure.status, rows), **numbers)


def _taken(column: Sequence[Any], rows: npt.NDArray[np.int64]) -> Coded[Any]:
    held = coded(column)
    return Coded(held.keys, held.codes[rows])
