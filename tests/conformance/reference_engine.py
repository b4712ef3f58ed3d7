"""The engine that is too simple to be wrong: one row at a time, Python integers and fractions, no vector in sight.

The oracle of the conformance tests. It shares no code with the engines: another CSV reader, other number reading.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Column, Table
from dprelease.noise import Exact

MOST = 2**62
SPACES = " \t\n\v\f\r"


class ReferenceEngine:
    """The protocol of ``dprelease.engines``, over files named without variables."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder

    def describe(self, table: Table) -> None:
        """Nothing to check: a test hands over what fits."""

    def close(self) -> None:
        """Nothing to close."""

    def aggregate(
        self,
        table: Table,
        by: tuple[str, ...],
        quantities: Sequence[Quantity],
        references: Mapping[str, ReferenceTable],
    ) -> tuple[Exact, ...]:
        """As the protocol says, the slow way."""
        order: dict[tuple[Any, ...], int] = {}
        for cell in product(*(table.column(name).keys or () for name in by)):
            order.setdefault(cell, len(order))
        sums = [[0] * table.cells(by) for _ in quantities]
        for raw in stored_rows(table, self.folder):
            row = meaning(table, raw, references)
            at = order.get(tuple(key(table.column(name), row[name]) for name in by))
            if at is None:
                continue
            for number, quantity in enumerate(quantities):
                sums[number][at] += contribution(table, row, quantity)
        return tuple(Exact(np.array([max(-MOST, min(MOST, total)) for total in column])) for column in sums)


def key(column: Column, value: Any) -> Any:
    return column.null if value is None else value


def contribution(table: Table, row: Mapping[str, Any], quantity: Quantity) -> int:
    if quantity.kind == "rows":
        return 1
    assert quantity.column is not None
    value = row[quantity.column]
    if quantity.kind == "balance":
        return -1 if value is None else 1
    if value is None:
        return 0
    if quantity.kind == "nonnull":
        return 1
    step = quantity.step
    if table.column(quantity.column).type == "integer":
        ratio: Fraction | float = value / Fraction(step)
    else:
        ratio = value * float(step.denominator) / float(step.numerator)
    if isinstance(ratio, float) and math.isinf(ratio):
        nearest = quantity.high if ratio > 0 else quantity.low
    else:
        exact = Fraction(ratio)
        nearest = int(abs(exact) + Fraction(1, 2)) * (1 if exact > 0 else -1)
    centred = max(quantity.low, min(quantity.high, nearest)) - quantity.centre
    if quantity.kind == "square":
        return math.floor(Fraction(centred**2, quantity.grain) + Fraction(1, 2)) - quantity.offset
    return centred


def meaning(table: Table, raw: Mapping[str, Any], references: Mapping[str, ReferenceTable]) -> dict[str, Any]:
    """The row as declared: typed, clamped, joined."""
    row: dict[str, Any] = {}
    for column in table.columns:
        if column.reference is None:
            text = text_of(raw[column.name], column)
            row[column.name] = within(column, value_of(column, text, table.source.null_values))
    for join in table.joins:
        public = references[join.reference].columns
        wanted = row[join.on]
        hits = [at for at, item in enumerate(public[join.on]) if wanted is not None and item == wanted]
        for name in join.add:
            column = table.column(name)
            text = text_of(public[name][hits[0]], column) if hits else None
            row[name] = within(column, value_of(column, text, ()))
    return row


def value_of(column: Column, text: str | None, nulls: Sequence[str]) -> Any:
    if text is None or text in nulls:
        return None
    if column.type == "text":
        return text
    text = text.strip(SPACES)
    if text in nulls:
        return None
    if column.type == "boolean":
        return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(text.lower())
    if column.type in ("date", "timestamp"):
        return _iso(text, column.type)
    number = _number(text)
    if number is None:
        return None
    if column.type == "decimal":
        return float(text) + 0.0 if math.isfinite(float(text)) else None
    if number.denominator != 1:
        return None
    whole = number.numerator
    return None if column.range is None and not -(2**63) <= whole < 2**63 else whole


def _number(text: str) -> Fraction | None:
    """The number that a text writes; an exponent beyond 9999 in size counts as 9999."""
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.ASCII | re.IGNORECASE):
        return None
    head, _, power = text.lower().partition("e")
    size = min(int(power.lstrip("+-") or "0"), 9999)
    return Fraction(head) * Fraction(10) ** (-size if power.startswith("-") else size)


def _iso(text: str, kind: str) -> str | None:
    try:
        if kind == "date":
            return text if len(text) == 10 and dt.date.fromisoformat(text) and text.isascii() else None
        return text if re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d", text) and dt.datetime.fromisoformat(text) else None
    except ValueError:
        return None


def within(column: Column, value: Any) -> Any:
    if value is None or column.range is None or column.type not in ("integer", "decimal"):
        return value
    low, high = column.range.low, column.range.high
    if column.type == "integer":  # what has no place in 64 bits is outside every range
        low, high = max(low, Fraction(1 - 2**63)), min(high, Fraction(2**63 - 1))
    if low <= value <= high:
        return value
    if column.outside == "null":
        return None
    limit = low if value < low else high
    return int(limit) if column.type == "integer" else float(limit)


def text_of(stored: Any, column: Column) -> str | None:
    """What a stored value reads as."""
    if stored is None or isinstance(stored, str):
        return stored
    if isinstance(stored, bytes):
        return stored.decode("utf-8", "replace")
    if isinstance(stored, bool):
        return "true" if stored else "false"
    if isinstance(stored, float):
        if not math.isfinite(stored):
            return None
        return str(int(stored)) if stored == int(stored) and abs(stored) < 2**63 else repr(stored)
    if isinstance(stored, dt.datetime):
        return str(stored.date()) if column.type == "date" else stored.isoformat(timespec="microseconds")
    if isinstance(stored, int | Decimal | dt.date):
        return str(stored)
    return None


def stored_rows(table: Table, folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob(table.source.file)):
        if table.source.format == "parquet":
            yield from pq.read_table(path).to_pylist()
            continue
        names: list[str] | None = None
        for record in path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            line = record.removesuffix(b"\r")
            if not line:
                continue
            cells = fields_of(line.decode("utf-8", "replace"))
            if names is None:
                assert cells is not None
                names = cells
            elif cells is None or len(cells) != len(names):
                yield dict.fromkeys(names)
            else:
                yield dict(zip(names, cells, strict=True))


def fields_of(line: str) -> list[str] | None:
    """One CSV line, character by character."""
    cells, field, state = [], "", "start"
    for char in line:
        if state == "quoted":
            if char == '"':
                state = "closed"
            else:
                field += char
        elif char == ",":
            cells.append(field)
            field, state = "", "start"
        elif state == "closed":
            if char != '"':
                return None
            field, state = field + '"', "quoted"
        elif state == "start" and char == '"':
            state = "quoted"
        else:
            field, state = field + char, "plain"
    return None if state == "quoted" else [*cells, field]
