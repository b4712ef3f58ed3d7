"""The public description of data: declared by the author, never measured."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Literal

from pydantic import StrictBool, StrictInt, StrictStr

from dprelease.canonical import Value

__all__ = ["Catalog", "Column", "ColumnType", "Join", "Key", "Range", "Reference", "Source", "Table"]

ColumnType = Literal["text", "integer", "decimal", "boolean", "date", "timestamp"]
# Text, integer or boolean; a date key is its ISO text. Strict, so that True never becomes 1 nor "06" six.
Key = StrictBool | StrictInt | StrictStr


class Range(Value):
    """Declared inclusive limits of a number; public knowledge, never the observed ones."""

    low: Fraction
    high: Fraction


class Column(Value):
    """One column as declared.

    Attributes:
        name: Its name in the source (or in the reference that a join adds it from).
        type: How its text or stored value is read.
        keys: Its public key set in published order, or None where it has none.
        labels: Key (as text) to the words that a reader sees.
        range: For integer and decimal: values outside are clamped or become null.
        step: The grid of sums: values are rounded to multiples of it before they are clipped.
        outside: What happens to a number outside ``range``.
        null: The key that a null belongs to; None: a null belongs to no cell.
        measured_in: The unit of its numbers, such as EUR, as a reader sees it.
        reference: The reference that a join adds this column from; None: it is in the source.
    """

    name: str
    type: ColumnType
    keys: tuple[Key, ...] | None = None
    labels: dict[str, str] = {}
    range: Range | None = None
    step: Fraction = Fraction(1)
    outside: Literal["clamp", "null"] = "clamp"
    null: Key | None = None
    measured_in: str = ""
    reference: str | None = None

    @property
    def cells(self) -> int:
        """How many public keys it has."""
        return len(self.keys or ())


class Join(Value):
    """A left join with a public reference whose key is unique: it adds columns and never rows."""

    reference: str
    on: str
    add: tuple[str, ...]


class Source(Value):
    """Where the rows are, as written (``${env:NAME}`` stays unresolved, so that no secret enters a plan)."""

    file: str
    format: Literal["csv", "parquet"]
    null_values: tuple[str, ...] = ("",)


class Reference(Value):
    """A public file, pinned by its content."""

    name: str
    file: str
    sha256: str
    columns: dict[str, ColumnType]


class Table(Value):
    """One confidential table; every row is one privacy unit."""

    name: str
    account: str
    source: Source
    columns: tuple[Column, ...]
    joins: tuple[Join, ...] = ()

    def column(self, name: str) -> Column:
        """The declared column of that name.

        Raises:
            KeyError: If there is none.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def cells(self, by: tuple[str, ...]) -> int:
        """The number of cells of the full cross product of the keys of ``by`` (1 where it is empty)."""
        return prod(self.column(name).cells for name in by)


class Catalog(Value):
    """Everything declared that a plan needs, by name."""

    tables: dict[str, Table]
    references: dict[str, Reference] = {}
