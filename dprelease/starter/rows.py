"""Made-up rows for a rehearsal, from what a table declares: its keys and ranges. Never noise, never real."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from pathlib import Path

from dprelease.catalog.table import Column, Key, Table, TimeFilter

__all__ = ["write_rows"]

Maker = Callable[[random.Random], str]
_ROWS_OF_ONE = 5  # rows of a unit that may have several, on average
_NAMES = 100  # of a text without keys
_ELSEWHEN = 0.05  # of the rows have a time outside of the period


def write_rows(table: Table, path: Path, rows: int, seed: str) -> None:
    """Write a CSV of uniform draws from the declared keys and ranges, a few values of each column missing.

    The times of a table that has one are days, or moments, of the release's period, but for a few before and after it.

    Args:
        table: Whose source columns are written, and its time; columns that a join adds are left to the join.
        path: The file, replaced if it exists.
        rows: How many rows.
        seed: The same seed gives the same rows.
    """
    source = random.Random(seed)  # noqa: S311 - made-up data for a rehearsal, not noise
    columns = [column for column in table.columns if column.in_source]
    units = max(1, rows // _ROWS_OF_ONE)
    makers = [_names(units) if column.name == table.unit_id else _maker(column) for column in columns]
    names, time = [column.name for column in columns], table.time
    if time is not None:
        keys = next((column.keys for column in columns if column.name == time.column), None)
        at = names.index(time.column) if time.column in names else len(names)
        names[at : at + 1], makers[at : at + 1] = [time.column], [_times(time, keys or ())]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for _ in range(rows):
            writer.writerow([make(source) if source.random() > 0.02 else "" for make in makers])


def _maker(column: Column) -> Maker:
    if column.keys:
        texts = [str(key).lower() if isinstance(key, bool) else str(key) for key in column.keys]
        return lambda source: source.choice(texts)
    if column.range is not None:
        low, high, step = column.range.low, column.range.high, column.step
        steps = int((high - low) / step)
        return lambda source: _number(low + step * source.randint(0, steps))
    return _names(_NAMES)


def _times(time: TimeFilter, keys: tuple[Key, ...]) -> Maker:
    """Times of the period, on its declared days where it has any; a few as far before or after as it is long."""
    first, days = time.start.toordinal(), (time.end - time.start).days
    declared = [date.fromisoformat(str(key)).toordinal() for key in keys]
    inside = [day for day in declared if first <= day < first + days] or range(first, first + days)

    def make(source: random.Random) -> str:
        day = source.choice(inside)
        if source.random() < _ELSEWHEN:
            day += source.choice((-days, days))
        text = date.fromordinal(min(max(day, 1), date.max.toordinal())).isoformat()
        seconds = source.randrange(86400)
        clock = f"T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return text if time.type == "date" else text + clock

    return make


def _names(count: int) -> Maker:
    return lambda source: f"made-up-{source.randint(1, count)}"


def _number(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else repr(float(value))
