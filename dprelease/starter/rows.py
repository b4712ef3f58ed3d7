"""Made-up rows for a rehearsal, from what a table declares: its keys and ranges. Never noise, never real."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from dprelease.catalog.table import Column, Table

__all__ = ["write_rows"]

Maker = Callable[[random.Random], str]
_ROWS_OF_ONE = 5  # rows of a unit that may have several, on average
_NAMES = 100  # of a text without keys


def write_rows(table: Table, path: Path, rows: int, seed: str) -> None:
    """Write a CSV of uniform draws from the declared keys and ranges, a few values of each column missing.

    Args:
        table: Whose source columns are written; columns that a join adds are left to the join.
        path: The file, replaced if it exists.
        rows: How many rows.
        seed: The same seed gives the same rows.
    """
    source = random.Random(seed)  # noqa: S311 - made-up data for a rehearsal, not noise
    columns = [column for column in table.columns if column.in_source]
    units = max(1, rows // _ROWS_OF_ONE)
    makers = [_names(units) if column.name == table.unit_id else _maker(column) for column in columns]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([column.name for column in columns])
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


def _names(count: int) -> Maker:
    return lambda source: f"made-up-{source.randint(1, count)}"


def _number(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else repr(float(value))
