"""The rows of two tables that have the same keys, by the codes of their key columns: nothing is made for each row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Key
from dprelease.estimate import Coded, PublishedTable, coded
from dprelease.publish.base import key_text

__all__ = ["Places", "aligned"]

Integers = npt.NDArray[np.int64]
Places = Integers | slice  # of rows of a table; a slice: all of them, in their order
_LARGEST = 2**62


def aligned(one: PublishedTable, two: PublishedTable) -> tuple[Places, Places]:
    """The places of the rows that both tables have, in the order of the first one.

    Keys are the same where their texts are. Of several rows of a table with the same keys (which only keys that a
    selection chose can have, where a file cannot tell them apart) the last one counts, in the place of the first.

    Args:
        one: A table.
        two: Another one, with as many key columns.

    Returns:
        Places in the first and in the second table, as many.
    """
    first, second = _numbered(one, two)
    if len(first) == len(second) and bool((first == second).all()) and bool((first[1:] > first[:-1]).all()):
        return slice(None), slice(None)
    known, begin, last = _distinct(first)
    others, _, other_last = _distinct(second)
    _, at, other_at = np.intersect1d(known, others, assume_unique=True, return_indices=True)
    order = np.argsort(begin[at])
    return last[at][order], other_last[other_at][order]


def _distinct(numbers: Integers) -> tuple[Integers, Integers, Integers]:
    """Different numbers, rising, with the first and the last place of each."""
    found, first = np.unique(numbers, return_index=True)
    last = len(numbers) - 1 - np.unique(numbers[::-1], return_index=True)[1]
    return found, first, last


def _numbered(one: PublishedTable, two: PublishedTable) -> tuple[Integers, Integers]:
    """One number for the keys of every row, the same in both tables for the same keys; row-major where keys are."""
    first, second = np.zeros(one.cells, dtype=np.int64), np.zeros(two.cells, dtype=np.int64)
    size = 1
    for column, other in zip(one.keys, two.keys, strict=True):
        codes, others, count = _codes(coded(column), coded(other))
        if size * count > _LARGEST:
            _, numbers = np.unique(np.concatenate([first, second]), return_inverse=True)
            first, second, size = numbers[: one.cells], numbers[one.cells :], len(numbers)
        first, second, size = first * count + codes, second * count + others, size * count
    return first, second


def _codes(column: Coded[Key], other: Coded[Key]) -> tuple[Integers, Integers, int]:
    """The codes of two columns in one numbering of the texts of their keys, and how many there are."""
    kinds = {type(key) for each in (column, other) for key in each.keys}
    if len(kinds) < 2 and tuple(column.keys) == tuple(other.keys):  # keys of one type have texts of their own
        return column.codes.astype(np.int64), other.codes.astype(np.int64), max(len(column.keys), 1)
    texts, others = ([key_text(key) for key in each.keys] for each in (column, other))
    places = {text: at for at, text in enumerate(dict.fromkeys([*texts, *others]))}
    mine, theirs = (np.array([places[text] for text in each], dtype=np.int64) for each in (texts, others))
    return mine[column.codes], theirs[other.codes], max(len(places), 1)
