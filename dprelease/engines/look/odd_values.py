"""How many values of a column a release would not take as they are stored: null, unreadable, beyond keys or range.

Counts for the eyes of somebody who may see the data (``dprelease look``), and for nothing else: no release asks for
them. What is counted is what ``rows.typed_with_steps`` does to the very same arrays, found by asking it twice, once
without the declared range; so it cannot differ from what a release reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalog.dialect import Dialect
from dprelease.catalog.table import Column, Range
from dprelease.engines.files.rows import ARROW, is_text, typed, typed_with_steps, unwrapped
from dprelease.engines.files.values import BLANKS, LIMIT

__all__ = ["OddValues"]

_WIDEST = Range(low=Fraction(1 - LIMIT), high=Fraction(LIMIT - 1))
_FOREIGN = "\ufffd|[\uf780-\uf7ff]"  # what bytes become that mean nothing in UTF-8, or in another declared encoding


@dataclass
class OddValues:
    """Counts of one column, added up over blocks of rows. Confidential.

    Attributes:
        column: The declaration.
        values: Looked at.
        null: Stored as null, or as one of the texts that stand for it.
        unreadable: Not null, and nothing that the declared type can hold; of text: with bytes that mean nothing in
            the encoding of the file.
        not_listed: With a value that is none of the declared keys.
        outside: Read, and outside the declared range: moved to its end, or made null, as is declared.
    """

    column: Column
    values: int = 0
    null: int = 0
    unreadable: int = 0
    not_listed: int = 0
    outside: int = 0

    def add(self, stored: Any, declared: Any, nulls: Sequence[str], dialect: Dialect | None = None) -> None:
        """Add a block of stored values.

        Args:
            stored: An Arrow array as the file has it.
            declared: The same values as a release reads them.
            nulls: Texts that stand for null.
            dialect: How texts are written; None: plainly.
        """
        stored = unwrapped(stored)
        free = self._free()
        read = typed_with_steps(free, stored, nulls, (), dialect=dialect)[0]
        null = self._is_null(stored, read, nulls, dialect)
        self.null += _true(null)
        if self.column.type == "text":
            self.unreadable += _true(pc.match_substring_regex(read, _FOREIGN)) if is_text(stored.type) else 0
            self.unreadable += 0 if is_text(stored.type) else _true(pc.and_(pc.invert(null), read.is_null()))
        else:
            self.unreadable += _true(pc.and_(pc.invert(null), read.is_null()))
        if free is not self.column:
            same = pc.fill_null(pc.equal(read, declared), False)
            self.outside += _true(pc.and_(read.is_valid(), pc.invert(same)))
        self._count(declared)

    def add_made(self, made: Any) -> None:
        """Add a block of values that were joined or computed: an Arrow array of the declared type."""
        self.null += made.null_count
        self._count(made)

    def _count(self, declared: Any) -> None:
        self.values += len(declared)
        if self.column.keys is not None:
            fitting = [key for key in self.column.keys if not isinstance(key, int) or abs(key) < LIMIT]
            listed = pc.is_in(declared, value_set=pa.array(fitting, ARROW[self.column.type]))
            self.not_listed += _true(pc.and_(declared.is_valid(), pc.invert(listed)))

    def _free(self) -> Column:
        """The column without its range; of whole numbers one that holds all that have a place in 64 bits."""
        if self.column.range is None or self.column.type not in ("integer", "decimal"):
            return self.column
        widest = _WIDEST if self.column.type == "integer" else None
        return self.column.model_copy(update={"range": widest, "outside": "clamp"})

    def _is_null(self, stored: Any, read: Any, nulls: Sequence[str], dialect: Dialect | None) -> Any:
        """Which values are stored as null, or as a text that stands for it."""
        null = stored.is_null()
        if pa.types.is_floating(stored.type):  # what several programs write where there is no value
            null = pc.or_(null, pc.fill_null(pc.is_nan(stored.cast(pa.float64())), True))
        if not nulls:
            return null
        if not is_text(stored.type):
            anyhow = typed_with_steps(self._free(), stored, (), (), dialect=dialect)[0]
            return pc.or_(null, pc.and_(anyhow.is_valid(), read.is_null()))
        texts = typed(Column(name=self.column.name, type="text"), stored)
        if self.column.type != "text":
            texts = pc.utf8_trim(texts, BLANKS)
        return pc.or_(null, pc.is_in(texts, value_set=pa.array(nulls, pa.string())))


def _true(flags: Any) -> int:
    return int(pc.sum(flags).as_py() or 0)
