"""Made-up units that a release tells most about: from the ends of what is declared, and a little beyond. Never real."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from dprelease.catalog.reference import References
from dprelease.catalog.table import Binned, Column, Computed, Key, Mapped, Table

__all__ = ["ExtremeUnits", "UnitRows"]

UnitRows = Mapping[str, Sequence[Mapping[str, str]]]
"""Rows by table; of each row the text of every column."""

_MOST_VALUES = 60  # of one column
_MOST_ROWS = 2_000  # of one unit
_UNBOUNDED = 3  # rows of a unit of which no number is declared
_MISSING = 0.04  # of the values
_NOBODY, _MEETING = 0.25, 0.5  # of units are rows without an id, and of these stand in the cells of the last one
_HUGE: Mapping[str, str] = {"integer": "99999999999999999999", "decimal": "1e308"}  # read as what is declared, or not
_PLAIN: Mapping[str, tuple[Key, ...]] = {
    "text": ("a", "b", "c"),
    "integer": (0, 1, 1000),
    "decimal": (0, 1, 1000),
    "boolean": (True, False),
    "date": ("2024-01-01", "2024-12-31"),
    "timestamp": ("2024-01-01T00:00:00", "2024-12-31T12:00:00"),
}
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
_TEXT = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True)
class _Made:
    """One table: the values to choose from by column, and the columns that say in which cell a row is."""

    table: Table
    values: Mapping[str, Sequence[str]]
    placing: frozenset[str]


class ExtremeUnits:
    """Makes units at random: the same seed makes the same ones.

    Args:
        tables: That the plan reads, by name.
        references: The public files.
        conditions: Texts of expressions, whose numbers and words are worth trying.
        seed: Of the choice of rows; noise has none.
    """

    def __init__(
        self, tables: Mapping[str, Table], references: References, conditions: Sequence[str], seed: str
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311 - made-up data for an audit, not noise
        computed = [c.derivation.sql for t in tables.values() for c in t.columns if isinstance(c.derivation, Computed)]
        words = [*conditions, *computed]
        self._made = {name: _made(table, references, words) for name, table in tables.items()}
        # Rows without an id may be units of their own in any table that units have rows in, beside the one asked for.
        self._alone = [made for made in self._made.values() if made.table.unit_id and made.table.null_id == "unit"]
        self._named = 0
        self._nobody: dict[str, Mapping[str, str]] = {}  # by table the last row without an id

    def header(self, name: str) -> tuple[str, ...]:
        """The columns of a table's rows."""
        return tuple(self._made[name].values)

    def keys(self, name: str, column: str) -> tuple[str, ...]:
        """Values of a column that are worth trying."""
        return tuple(self._made[name].values.get(column, ("a", "b", "c")))

    def unit(self, name: str) -> UnitRows:
        """A unit with rows in a table: one row, or as many as its bounds let it have, and now and then one too many.

        A unit of a table with ids has rows in all such tables, as many in each as count.
        """
        made = self._made[name]
        self._named += 1
        some = f"unit-{self._named}"
        if made.table.unit_id is None:
            return {name: [self._row(made)]}
        if self._alone and self._random.random() < _NOBODY:
            nobody = self._random.choice(self._alone)
            return {nobody.table.name: [self._without_id(nobody)]}
        of_units = {each: other for each, other in self._made.items() if other.table.unit_id is not None}
        return {each: self._rows(other, some) for each, other in of_units.items()}

    def _without_id(self, made: _Made) -> dict[str, str]:
        """A row of nobody, now and then where the last one is: whether they are taken for one unit shows there."""
        row, name = self._row(made), made.table.name
        if name in self._nobody and self._random.random() < _MEETING:
            row |= {column: self._nobody[name][column] for column in made.placing if column in row}
        row[str(made.table.unit_id)] = ""
        self._nobody[name] = row
        return row

    def _rows(self, made: _Made, unit: str) -> list[dict[str, str]]:
        bounds = made.table.bounds
        rows = min(_MOST_ROWS, bounds.max_rows if bounds else _UNBOUNDED) + self._random.choice((0, 0, 1))
        first, way = self._row(made), self._random.choice(("same", "spread", "other"))
        found = []
        for _ in range(rows):
            fresh = self._row(made)
            kept = {"same": set(first), "spread": set(first) - made.placing, "other": set()}[way]
            found.append({**fresh, **{column: first[column] for column in kept}, str(made.table.unit_id): unit})
        return found

    def _row(self, made: _Made) -> dict[str, str]:
        choose = self._random.choice
        return {
            column: "" if self._random.random() < _MISSING else choose(values) for column, values in made.values.items()
        }


def _made(table: Table, references: References, words: Sequence[str]) -> _Made:
    columns = [column for column in table.columns if column.in_source]
    values = {column.name: _values(column, table, references, words) for column in columns}
    if table.time is not None:
        start, last = table.time.start, table.time.end - timedelta(days=1)
        before = start - timedelta(days=1)
        tail = "" if table.time.type == "date" else "T12:00:00"
        keys = next((column.keys for column in columns if column.name == table.time.column), None)
        days = [str(key) for key in keys or () if start.isoformat() <= str(key) <= last.isoformat()]
        days = days or [start.isoformat(), last.isoformat()]
        values[table.time.column] = [day + tail for day in [*days * 4, before.isoformat()]]
    if table.unit_id is not None:
        values.setdefault(table.unit_id, ["unit"])
    placing = {column.name for column in columns if column.keys} | {join.on for join in table.joins}
    placing |= {c.derivation.of for c in table.columns if isinstance(c.derivation, Binned | Mapped)}
    return _Made(table, values, frozenset(placing))


def _values(column: Column, table: Table, references: References, words: Sequence[str]) -> list[str]:
    """What is worth trying in a column: its keys, ends, edges, what a join knows, and what conditions speak of."""
    found: list[Key | Fraction] = [*(column.keys or ())]
    if column.range is not None:
        low, high = column.range.low, column.range.high
        middle = low + (high - low) / 2 // column.step * column.step
        found += [low, high, low, high, middle, low - column.step, high + column.step]
    for join in table.joins:
        if join.on == column.name:
            found += references[join.reference].keys(column.name)
    for derived in table.columns:
        if isinstance(derived.derivation, Binned) and derived.derivation.of == column.name:
            found += derived.derivation.edges
        if isinstance(derived.derivation, Mapped) and derived.derivation.of == column.name:
            found += [value for value, _ in derived.derivation.pairs]
    if not column.keys and column.type in ("integer", "decimal"):
        found += [Fraction(number) for text in words for number in _NUMBER.findall(text)]
    if not column.keys and column.type == "text":
        found += [text.replace("''", "'") for each in words for text in _TEXT.findall(each)]
    found = found or [*_PLAIN[column.type]]
    step = max(1, len(found) // _MOST_VALUES)
    texts = [_text(value, column) for value in found[::step]]
    if column.range is not None and column.type in _HUGE:
        texts += [_HUGE[column.type], f"-{_HUGE[column.type]}"]
    return texts


def _text(value: Key | Fraction, column: Column) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Fraction):
        return str(int(value)) if column.type == "integer" or value.denominator == 1 else repr(float(value))
    return str(value)
