"""Columns of many rows and few different values: the values once, and for each row which of them it has.

>>> column = Coded(("a", "b"), np.array([0, 1, 1]))
>>> list(column), column[2], column[1:] == ("b", "b"), "c" in column, column.count("b")
(['a', 'b', 'b'], 'b', True, False, 2)
>>> list(crossed([("x", "y"), (1, 2)]))
[('x', 1), ('x', 2), ('y', 1), ('y', 2)]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from math import prod
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Key

__all__ = ["Coded", "Rows", "as_rows", "coded", "crossed"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
S = TypeVar("S")
Codes = npt.NDArray[Any]  # of some integer type
_AT_ONCE = 1 << 16


class Coded(Sequence[T_co]):
    """A read-only column; a part of it is again one, and equal to a tuple of the same values.

    Attributes:
        keys: The different values, none twice; some may not occur.
    """

    __slots__ = ("_codes", "_each", "_first", "_length", "keys")

    def __init__(self, keys: Sequence[T_co], codes: npt.ArrayLike) -> None:
        """A column by its codes.

        Args:
            keys: The different values.
            codes: Shape ``(rows,)``, whole numbers: the place in ``keys`` of each row's value.

        Raises:
            ValueError: If a code is no place in ``keys``.
        """
        held = np.asarray(codes)
        if held.ndim != 1 or (held.size and (int(held.min()) < 0 or int(held.max()) >= len(keys))):
            raise ValueError("codes are one-dimensional and places of keys")
        held = held.astype(np.int32) if held.dtype.kind not in "iu" or held.dtype.itemsize > 4 else held.view()
        held.flags.writeable = False
        self.keys: Sequence[T_co] = keys
        self._codes: Codes | None = held
        self._each, self._first, self._length = 1, 0, len(held)

    @classmethod
    def repeated(cls, keys: Sequence[T_co], each: int, rows: int) -> Coded[T_co]:
        """Every key ``each`` times, then again from the first one, for so many rows; it takes no memory."""
        made = cls(keys, np.zeros(0, dtype=np.int32))
        made._codes, made._each, made._length = None, each, rows
        return made

    @classmethod
    def of(cls, values: Sequence[T_co]) -> Coded[T_co]:
        """A column by its values; its keys are in the order in which they come, and ``True`` is not ``1``."""
        places: dict[tuple[type, Any], int] = {}
        codes = np.fromiter((places.setdefault((type(each), each), len(places)) for each in values), np.int32)
        return cls(tuple(key for _, key in places), codes)

    def mapped(self, change: Callable[[T_co], S]) -> Coded[S]:
        """The same rows with other values, made once for each key; two keys may get the same one."""
        found: Coded[S] = Coded(tuple(map(change, self.keys)), np.zeros(0, dtype=np.int32))
        found._codes, found._each, found._first, found._length = self._codes, self._each, self._first, self._length
        return found

    @property
    def codes(self) -> Codes:
        """For each row the place of its value in ``keys``: shape ``(rows,)``, whole numbers, read-only."""
        return self.part(0, self._length)

    def part(self, first: int, last: int) -> Codes:
        """The codes of the rows from ``first`` to ``last`` (not among them)."""
        if self._codes is not None:
            return self._codes[first:last]
        rows = np.arange(self._first + first, self._first + min(last, self._length), dtype=np.int64)
        return (rows // self._each % max(len(self.keys), 1)).astype(np.int32)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T_co]:
        for first in range(0, self._length, _AT_ONCE):
            yield from map(self.keys.__getitem__, self.part(first, first + _AT_ONCE).tolist())

    @overload
    def __getitem__(self, at: int) -> T_co: ...

    @overload
    def __getitem__(self, at: slice) -> Coded[T_co]: ...

    def __getitem__(self, at: int | slice) -> T_co | Coded[T_co]:
        if isinstance(at, slice):
            first, last, step = at.indices(self._length)
            if step != 1 or self._codes is not None:
                return Coded(self.keys, self.codes[at])
            found = Coded.repeated(self.keys, self._each, max(last - first, 0))
            found._first = self._first + first
            return found
        place = range(self._length)[at]
        return self.keys[int(self.part(place, place + 1)[0])]

    def where(self, value: object) -> npt.NDArray[np.bool_]:
        """In which rows it is."""
        equal = np.array([key == value for key in self.keys], dtype=bool)
        return equal[self.codes] if equal.any() else np.zeros(self._length, dtype=bool)

    def __contains__(self, value: object) -> bool:
        return value in self.keys and bool(self.where(value).any())

    def count(self, value: object) -> int:
        """How many rows have it."""
        return int(self.where(value).sum()) if value in self.keys else 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Coded | tuple):
            return NotImplemented
        if len(self) != len(other):
            return False
        if isinstance(other, Coded) and self.keys == other.keys:
            return bool((self.codes == other.codes).all())
        return all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # equal to tuples, which have another hash

    def __repr__(self) -> str:
        more = f" ... {self._length} in all" if self._length > 6 else ""
        return f"<{', '.join(map(repr, self[:6]))}{more}>"


def coded(values: Sequence[T]) -> Coded[T]:
    """A categorical column of these values; one that is categorical already is returned unchanged."""
    return values if isinstance(values, Coded) else Coded.of(values)


class Rows(Sequence[tuple[Key, ...]]):
    """The keys of the rows of a table, by column.

    Attributes:
        columns: One for each key column, all as long as there are rows.
    """

    __slots__ = ("_length", "columns")

    def __init__(self, columns: Sequence[Coded[Key]], rows: int) -> None:
        """Rows by their columns; how many must be said, for there may be no column.

        Raises:
            ValueError: If a column has another length.
        """
        if any(len(column) != rows for column in columns):
            raise ValueError("the columns have other lengths than there are rows")
        self.columns, self._length = tuple(columns), rows

    def without(self, left_out: Collection[int]) -> Rows:
        """All rows but those at these places."""
        if not left_out:
            return self
        kept = np.ones(self._length, dtype=bool)
        kept[np.fromiter(left_out, np.int64, len(left_out))] = False
        return Rows([Coded(each.keys, each.codes[kept]) for each in self.columns], int(kept.sum()))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[tuple[Key, ...]]:
        return iter(zip(*self.columns, strict=True)) if self.columns else iter([()] * self._length)

    @overload
    def __getitem__(self, at: int) -> tuple[Key, ...]: ...

    @overload
    def __getitem__(self, at: slice) -> Rows: ...

    def __getitem__(self, at: int | slice) -> tuple[Key, ...] | Rows:
        if isinstance(at, slice):
            return Rows([each[at] for each in self.columns], len(range(*at.indices(self._length))))
        place = range(self._length)[at]
        return tuple(each[place] for each in self.columns)


def crossed(keys: Sequence[Sequence[Key]]) -> Rows:
    """Every combination of the keys of some columns, row-major: the last column runs fastest; one row of no columns."""
    sizes = [len(each) for each in keys]
    rows = prod(sizes)
    return Rows(
        [Coded.repeated(each, prod(sizes[at + 1 :]), rows) for at, each in enumerate(keys)],
        rows,
    )


def as_rows(rows: Sequence[tuple[Key, ...]], columns: int) -> Rows:
    """Rows that are given one by one."""
    if isinstance(rows, Rows):
        return rows
    return Rows([Coded.of([row[at] for row in rows]) for at in range(columns)], len(rows))
