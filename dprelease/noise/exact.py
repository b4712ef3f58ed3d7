"""The boxes around un-noised values: they can be carried, and they cannot be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError, ExactLeakError

__all__ = ["Exact", "ExactHistogram", "ExactKeys", "Key"]

Integers = npt.NDArray[np.int64]
Key = bool | int | str
"""One part of a key, as a plain value."""


class _Box:
    """What every box refuses."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _refuse(self, *_: Any) -> NoReturn:
        raise ExactLeakError("an un-noised value cannot be copied, compared, iterated or serialised")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse
    __iter__ = __len__ = __getitem__ = __array__ = __eq__ = __bool__ = __contains__ = _refuse
    __hash__ = None  # type: ignore[assignment] # unhashable on purpose


class Exact(_Box):
    """Exact integer values of one step, on its grid, one per cell: shape ``(cells,)``, type ``int64``.

    It refuses printing, formatting, comparing, copying, pickling and iterating, so that a value cannot reach a
    log, a cache or another process by accident. It is a guard rail, not a wall: only ``noise`` opens it.

    Raises:
        ExactLeakError: On every one of those.
    """

    __slots__ = ("__values",)

    def __init__(self, values: Integers) -> None:
        self.__values = np.ascontiguousarray(values, dtype=np.int64)


class ExactHistogram(_Box):
    """The exact values of every cell, as a sparse multiset of grid values; it refuses what :class:`Exact` refuses.

    Args:
        cells: The number of cells of the step; most of them may be empty.
        cell: The cell of each entry, 0..cells-1, shape ``(entries,)``.
        value: Its value in grid steps, same shape; a value may come several times, the counts then add up.
        count: How many rows of that cell have that value, at least 0, same shape.

    Raises:
        BrokenPromiseError: If the shapes differ, a cell does not exist or a count is negative; no value is told.
        ExactLeakError: On every attempt to look.
    """

    __slots__ = ("__cells", "__entries")

    def __init__(self, cells: int, cell: Integers, value: Integers, count: Integers) -> None:
        entries = tuple(np.ascontiguousarray(part, dtype=np.int64) for part in (cell, value, count))
        where, _, often = entries
        whole = len({part.shape for part in entries}) == 1 and where.ndim == 1 and cells >= 0
        if not whole or (where < 0).any() or (where >= cells).any() or (often < 0).any():
            raise BrokenPromiseError(
                "a histogram has entries of one length, in cells that exist, with counts from 0 on"
            )
        self.__cells = cells
        self.__entries = entries


class ExactKeys(_Box):
    """The keys that occur, each with its exact number of units; it refuses what :class:`Exact` refuses.

    Args:
        keys: Distinct keys of one length, of plain ``bool``, ``int`` and ``str``. A key without a unit is left out:
            that a key is listed at all is what the selection hides.
        count: How many units hold each key, at least 1, shape ``(keys,)``.

    Raises:
        BrokenPromiseError: If the lengths differ, a key comes twice, is of another type or has no unit; no key is told.
        ExactLeakError: On every attempt to look.
    """

    __slots__ = ("__count", "__keys")

    def __init__(self, keys: Sequence[tuple[Key, ...]], count: Integers) -> None:
        held = tuple(tuple(key) for key in keys)
        often = np.ascontiguousarray(count, dtype=np.int64)
        # 1 and True are equal, "1" is not: a column has one type, and in doubt the box does not close
        plain = all(type(part) in {bool, int, str} for key in held for part in key)
        whole = plain and len({len(key) for key in held}) <= 1 and len(set(held)) == len(held)
        if not whole or often.shape != (len(held),) or (often < 1).any():
            raise BrokenPromiseError("keys are distinct, of one length and of plain types, and each is held by a unit")
        self.__keys = held
        self.__count = often


def open_exact(exact: Exact) -> Integers:
    """The values; called by the mechanisms of this package and by nothing else (a repository test)."""
    values: Integers = exact._Exact__values  # type: ignore[attr-defined] # the one reader of the private name
    return values


def open_histogram(histogram: ExactHistogram) -> tuple[int, Integers, Integers, Integers]:
    """The number of cells, then cell, value and count of each entry; called as :func:`open_exact` is."""
    cell, value, count = histogram._ExactHistogram__entries  # type: ignore[attr-defined] # the one reader
    cells: int = histogram._ExactHistogram__cells  # type: ignore[attr-defined] # the one reader
    return cells, cell, value, count


def open_keys(keys: ExactKeys) -> tuple[tuple[tuple[Key, ...], ...], Integers]:
    """The keys and their counts; called as :func:`open_exact` is."""
    held: tuple[tuple[Key, ...], ...] = keys._ExactKeys__keys  # type: ignore[attr-defined] # the one reader
    count: Integers = keys._ExactKeys__count  # type: ignore[attr-defined] # the one reader
    return held, count
