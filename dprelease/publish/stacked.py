"""Many small tables of one form as one long table, so that what is done for a column is done once for all of them.

A table of one number takes as long to write as one of some thousand, for each of its columns is made with calls of
libraries that are meant for long ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dprelease.estimate import Coded, PublishedMeasure, PublishedTable, coded
from dprelease.publish.columns import endings

__all__ = ["Stack", "end_to_end", "stacks"]

_SMALL = 1 << 10  # rows of a table that is worth it
_MOST = 1 << 16  # rows of a stack


@dataclass(frozen=True, eq=False)
class Stack:
    """Tables with the same columns, and all of their rows.

    Attributes:
        tables: In published order.
        whole: Their rows as those of one table, one table's behind the other's; all else is that of the first one.
    """

    tables: tuple[PublishedTable, ...]
    whole: PublishedTable

    def parts(self) -> Iterator[tuple[PublishedTable, int, int]]:
        """Each table, with its first row in ``whole`` and the one behind its last."""
        first = 0
        for table in self.tables:
            yield table, first, first + table.cells
            first += table.cells


def stacks(tables: Sequence[PublishedTable]) -> Iterator[Stack]:
    """The tables, small ones with others of their form; no table is in two stacks."""
    open_to: dict[tuple[Any, ...], list[PublishedTable]] = {}
    rows: dict[tuple[Any, ...], int] = {}
    for table in tables:
        if table.cells > _SMALL:
            yield Stack((table,), table)
            continue
        form = _form(table)
        if form in open_to and rows[form] + table.cells > _MOST:
            yield _stacked(open_to.pop(form))
            rows[form] = 0
        open_to.setdefault(form, []).append(table)
        rows[form] = rows.get(form, 0) + table.cells
    yield from map(_stacked, open_to.values())


def _form(table: PublishedTable) -> tuple[Any, ...]:
    """What tables have in common whose columns are written alike; keys are where they are declared, or all texts."""
    keys = tuple((each.name, each.type, each.keys is None) for each in table.key_columns)
    numbers = tuple((each.name, each.places, each.integer, endings(each), each.base) for each in table.measures)
    return keys, numbers


def _stacked(tables: Sequence[PublishedTable]) -> Stack:
    if len(tables) == 1:
        return Stack((tables[0],), tables[0])
    whole = replace(
        tables[0],
        keys=tuple(map(end_to_end, zip(*(table.keys for table in tables), strict=True))),
        measures=tuple(map(_measure, zip(*(table.measures for table in tables), strict=True))),
        cells=sum(table.cells for table in tables),
    )
    return Stack(tuple(tables), whole)


def _measure(several: Sequence[PublishedMeasure]) -> PublishedMeasure:
    names = [each.name for each in fields(several[0]) if isinstance(getattr(several[0], each.name), np.ndarray)]
    numbers: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in several]) for name in names}
    return replace(several[0], **numbers, status=end_to_end([each.status for each in several]))


def end_to_end(columns: Sequence[Sequence[Any]]) -> Coded[Any]:
    """Categorical columns behind one another; ``True`` is not ``1``."""
    places: dict[tuple[type, Any], int] = {}
    codes = []
    for column in map(coded, columns):
        here = [places.setdefault((type(key), key), len(places)) for key in column.keys]
        codes.append(np.array(here, dtype=np.int32)[column.codes])
    return Coded(tuple(key for _, key in places), np.concatenate(codes))
