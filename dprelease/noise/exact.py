"""The box around un-noised values: it can be carried, and it cannot be looked at."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dprelease.errors import ExactLeakError

__all__ = ["Exact"]

Integers = npt.NDArray[np.int64]


class Exact:
    """Exact integer values of one step, on its grid, one per cell: shape ``(cells,)``, type ``int64``.

    It refuses printing, formatting, comparing, copying, pickling and iterating, so that a value cannot reach a
    log, a cache or another process by accident. It is a guard rail, not a wall: only ``noise`` opens it.

    Raises:
        ExactLeakError: On every one of those.
    """

    __slots__ = ("__values",)

    def __init__(self, values: Integers) -> None:
        self.__values = np.ascontiguousarray(values, dtype=np.int64)

    def __repr__(self) -> str:
        return "<Exact>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "<Exact>"

    def _refuse(self, *_: Any) -> NoReturn:
        raise ExactLeakError("an un-noised value cannot be copied, compared, iterated or serialised")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse
    __iter__ = __len__ = __getitem__ = __array__ = __eq__ = __bool__ = _refuse
    __hash__ = None  # type: ignore[assignment] # unhashable on purpose


def open_exact(exact: Exact) -> Integers:
    """The values; called by the mechanisms of this package and by nothing else (a repository test)."""
    values: Integers = exact._Exact__values  # type: ignore[attr-defined] # the one reader of the private name
    return values
