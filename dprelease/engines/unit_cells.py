"""In which cells are the rows of each unit, and which of them stay? Whole numbers in order, without a database.

A pair of a unit and a cell is one number of 64 bits: the place of the unit among those at hand, times the number of
cells, plus the cell. Sorted, the rows of a unit follow one another, and so do those of a pair; so pairs, their rows and
what a bound leaves of them are told by comparing neighbours, which costs a tenth of grouping them by a hash.

Which cells of a unit stay is decided by :class:`CellOrder`: a function of the secret, the unit's id and the cell, and
of nothing else. Where a unit stands among others, and which others there are, plays no part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.errors import BrokenPromiseError

__all__ = ["CellCounts", "CellOrder", "CountBounds", "CountedRows", "UnitRows", "broken_bound", "first_of_each"]

Numbers = npt.NDArray[np.uint64]
Marks = npt.NDArray[np.bool_]
_SLICE = 2**18  # rows that are looked at together: what is made of them stays in the caches of a processor
_DENSE = 2**22  # cells of which each has a place in memory


@dataclass(frozen=True, repr=False)
class CellOrder:
    """The order of a unit's cells: AES-256 of two numbers of 64 bits, that of the unit and that of the cell.

    The key is sha256("cells", secret). A block cipher is a permutation: different pairs have different blocks, of which
    the first 64 bits are looked at, as a little-endian number, as both halves of the block are written. Whoever does
    not know the key cannot tell the order from a random one (FIPS 197; the pseudo-random permutation that a block
    cipher is taken for), and the guarantee does not need that: it holds for every order that looks at one unit alone.

    Attributes:
        secret: 32 bytes, made for a release.
    """

    secret: bytes

    def unit_numbers(self, ids: pa.Array) -> Numbers:
        """The numbers of ids: of whole numbers themselves, of texts the first 64 bits of sha256(secret, text).

        Each text has its length before it, in characters, as in every keyed hash of this project (``duck.units``).
        """
        if pa.types.is_integer(ids.type):
            numbers: Numbers = ids.cast(pa.int64()).to_numpy().view(np.uint64)
            return numbers
        start = hashlib.sha256(self.secret.hex().encode())
        found = bytearray()
        for text in ids.to_pylist():
            each = start.copy()
            each.update(f"{len(text)}:{text}".encode())
            found += each.digest()[:8]  # as the bytes of the block
        return np.frombuffer(found, dtype="<u8")

    def places(self, units: Numbers, cells: Numbers) -> Numbers:
        """A number for each pair of the number of a unit and a cell: the lower one comes first."""
        from cryptography.hazmat.primitives.ciphers import Cipher  # few releases need it, and all would wait for it
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import ECB

        blocks = np.empty((len(units), 2), dtype="<u8")
        blocks[:, 0], blocks[:, 1] = units, cells
        key = hashlib.sha256(b"cells" + self.secret).digest()
        cipher = Cipher(AES(key), ECB()).encryptor()  # noqa: S305 - of single blocks that all differ
        out = np.empty(blocks.nbytes + 15, dtype=np.uint8)
        cipher.update_into(blocks.data.cast("B"), out.data)
        return out[: blocks.nbytes].view("<u8")[::2].astype(np.uint64)


@dataclass(frozen=True)
class CountBounds:
    """What a unit may have; None: any number.

    Attributes:
        cells: Cells of a unit.
        rows_in_cell: Rows of a unit in one cell.
        rows: Rows of a unit in all cells together, before these bounds act.
    """

    cells: int | None = None
    rows_in_cell: int | None = None
    rows: int | None = None


class UnitRows:
    """Rows of some units as sorted numbers of their pairs.

    Args:
        ids: Whose the rows are: whole numbers of 64 bits or texts, none of them null.
        cells: In which cells, each a number below ``of``.
        of: How many cells there are.
    """

    def __init__(self, ids: pa.Array, cells: npt.NDArray[np.integer], of: int) -> None:
        self._of = np.uint64(of)
        self._known: pa.Array | None = None
        self._first = 0
        places = self._places(ids)
        places *= self._of
        places += cells.astype(np.uint64, copy=False)
        places.sort()
        self._pairs = places

    def _places(self, ids: pa.Array) -> Numbers:
        """The place of each id; of whole numbers that are near one another its distance to the least."""
        found: Numbers
        if pa.types.is_integer(ids.type) and len(ids):
            ends = pc.min_max(ids)
            self._first = ends["min"].as_py()
            if (ends["max"].as_py() - self._first + 1) * int(self._of) < 2**64:
                found = ids.cast(pa.int64()).to_numpy().view(np.uint64) - np.uint64(self._first % 2**64)
                return found
        encoded = ids.dictionary_encode()
        self._known = encoded.dictionary
        found = encoded.indices.to_numpy().astype(np.uint64)
        return found

    def ids(self, places: Numbers) -> pa.Array:
        """The ids of units, by their places."""
        if self._known is not None:
            return self._known.take(pa.array(places.astype(np.int64)))
        return pa.array((places + np.uint64(self._first % 2**64)).view(np.int64))

    def slices(self) -> Iterator[CellRows]:
        """Some units after the others, all rows of each together."""
        start, rows = 0, len(self._pairs)
        while start < rows:
            end = start + _SLICE
            if end < rows:  # to the end of the unit that is there
                after = (self._pairs[end] // self._of + np.uint64(1)) * self._of
                end += int(np.searchsorted(self._pairs[end:], after))
            yield CellRows(self, self._pairs[start:end], self._of)
            start = end


class CellRows:
    """Pairs of some units with their cells, each once, in order, and the number of rows in each of them.

    Args:
        units: Knows who they are.
        rows: The sorted pair of every row.
        of: How many cells there are.
    """

    def __init__(self, units: UnitRows, rows: Numbers, of: np.uint64) -> None:
        at = np.flatnonzero(_begins(rows))
        pairs = rows[at]
        self._units = units
        self.rows = np.diff(at, append=len(rows))
        self.unit = pairs // of
        self.cell = pairs - self.unit * of

    def ids(self) -> pa.Array:
        """Whose each pair is."""
        return self._units.ids(self.unit)

    def kept(self, most: int, order: CellOrder) -> Marks:
        """Which pairs stay: of each unit the first ``most`` in the order of its cells."""
        starts = np.flatnonzero(_begins(self.unit))
        sizes = np.diff(starts, append=len(self.unit))
        crowded = sizes > most
        stays = np.ones(len(self.unit), dtype=np.bool_)
        if crowded.any():
            some = np.repeat(crowded, sizes)
            numbers = order.unit_numbers(self._units.ids(self.unit[starts[crowded]]))
            places = order.places(np.repeat(numbers, sizes[crowded]), self.cell[some])
            stays[some] = first_of_each(places, sizes[crowded], most)
        return stays


def first_of_each(places: Numbers, sizes: npt.NDArray[np.int64], most: int) -> Marks:
    """Which items stay of groups that follow one another: of each the ``most`` with the least place.

    Of equal places the earlier one comes first. A group and the first bits of a place make one number; sorted, the
    first one of each group that is left out says where the group is cut off. Where these bits do not tell on which
    side an item is, the group is sorted by itself.

    Args:
        places: Of every item.
        sizes: How many items each group has, all of them more than ``most``.
        most: How many stay of each.
    """
    bits = len(sizes).bit_length()
    group = np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes)
    mixed = (group << np.uint64(64 - bits)) | (places >> np.uint64(bits))
    ordered = np.sort(mixed)
    starts = np.cumsum(sizes) - sizes
    cuts = ordered[starts + most]
    stays: Marks = mixed < np.repeat(cuts, sizes)
    for at in np.flatnonzero(ordered[starts + most - 1] == cuts):
        these = slice(starts[at], starts[at] + sizes[at])
        stays[these] = np.argsort(np.argsort(places[these], kind="stable"), kind="stable") < most
    return stays


@dataclass(frozen=True)
class CellCounts:
    """How many rows and units are in each cell. Confidential.

    Attributes:
        looked_at: The rows that these were counted from.
        cells: The cells that have any, in rising order, shape ``(c,)``.
        rows: The rows in each of them.
        units: The units in each of them.
    """

    looked_at: int
    cells: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    units: npt.NDArray[np.int64]

    @classmethod
    def together(cls, parts: Sequence[CellCounts]) -> CellCounts:
        """The counts of several parts of the units, added up."""
        cells, at = np.unique(np.concatenate([part.cells for part in parts]), return_inverse=True)
        rows, units = np.zeros((2, len(cells)), dtype=np.int64)
        np.add.at(rows, at, np.concatenate([part.rows for part in parts]))
        np.add.at(units, at, np.concatenate([part.units for part in parts]))
        return cls(sum(part.looked_at for part in parts), cells, rows, units)


@dataclass(frozen=True)
class CountedRows:
    """Counts rows and units by cell, of what bounds leave of every unit; that is counted again before it is handed on.

    Attributes:
        table: Its name.
        bounds: What a unit may have.
        order: Which of a unit's cells stay.
        of: How many cells there are.
    """

    table: str
    bounds: CountBounds
    order: CellOrder
    of: int

    def counts(self, ids: pa.Array, cells: npt.NDArray[Any], alone: npt.NDArray[np.int64] | None = None) -> CellCounts:
        """The counts of some units, all rows of each.

        Args:
            ids: Whose the rows are; null for a row that is a unit of its own.
            cells: In which cells.
            alone: Numbers of rows without an id, which no other such row has.

        Raises:
            BrokenPromiseError: If what is left breaks a bound; says how many of nothing.
        """
        rows = len(ids)
        found: list[tuple[Numbers, npt.NDArray[np.int64]]] = []
        if ids.null_count:
            known = ids.is_valid()
            there = known.to_numpy(zero_copy_only=False)
            found.append(self._alone(cells[~there], None if alone is None else alone[~there]))
            ids, cells = ids.filter(known), cells[there]
        counted = rows - len(ids)
        for some in UnitRows(ids, cells, self.of).slices():
            counted += int(some.rows.sum())
            found.append(self._bounded(some))
        if counted != rows:
            raise broken_bound(self.table, "the number of rows")
        return self._tallied(rows, found)

    def _bounded(self, some: CellRows) -> tuple[Numbers, npt.NDArray[np.int64]]:
        """The cells of the pairs that stay, and the rows that count of each."""
        stays, rows = self._left(some)
        unit, cell, rows = some.unit[stays], some.cell[stays], rows[stays]
        self._check(unit, cell, rows)
        return cell, rows

    def _left(self, some: CellRows) -> tuple[Marks, npt.NDArray[np.int64]]:
        """Which pairs stay, and how many rows of every pair would count."""
        most, each = self.bounds.cells, self.bounds.rows_in_cell
        stays = np.ones(len(some.unit), dtype=np.bool_) if most is None else some.kept(most, self.order)
        return stays, some.rows if each is None else np.minimum(some.rows, each)

    def _check(self, unit: Numbers, cell: Numbers, rows: npt.NDArray[np.int64]) -> None:
        """Hold what every unit has left against its bounds, by nothing that bounded it.

        Pairs that rise are different, and those of a unit follow one another; so of more than g cells of a unit two
        are g places apart.
        """
        if not len(unit):
            return
        bounds, pairs = self.bounds, unit * np.uint64(self.of) + cell
        if not bool((pairs[1:] > pairs[:-1]).all()):
            raise broken_bound(self.table, "one number per unit and cell")
        if bounds.cells is not None and bool((unit[bounds.cells :] == unit[: -bounds.cells]).any()):
            raise broken_bound(self.table, "max_groups")
        if bounds.rows_in_cell is not None and int(rows.max()) > bounds.rows_in_cell:
            raise broken_bound(self.table, "max_rows_per_group")
        if bounds.rows is not None and int(np.add.reduceat(rows, np.flatnonzero(_begins(unit))).max()) > bounds.rows:
            raise broken_bound(self.table, "max_rows after joins")

    def _alone(
        self, cells: npt.NDArray[Any], numbers: npt.NDArray[np.int64] | None
    ) -> tuple[Numbers, npt.NDArray[np.int64]]:
        """Rows without an id: each is a unit, in one cell."""
        if numbers is None or len(np.unique(numbers)) != len(cells):
            raise broken_bound(self.table, "one row of each unit without an id")
        return cells.astype(np.uint64), np.ones(len(cells), dtype=np.int64)

    def _tallied(self, looked_at: int, found: Sequence[tuple[Numbers, npt.NDArray[np.int64]]]) -> CellCounts:
        cell = np.concatenate([np.empty(0, np.int64), *(each.astype(np.int64) for each, _ in found)])
        held = np.concatenate([np.empty(0, np.int64), *(each for _, each in found)])
        if self.of > _DENSE:
            cells, cell, units = np.unique(cell, return_inverse=True, return_counts=True)
            rows = np.zeros(len(cells), dtype=np.int64)
            np.add.at(rows, cell, held)
            return CellCounts(looked_at, cells, rows, units)
        units, rows = np.bincount(cell, minlength=self.of), np.zeros(self.of, dtype=np.int64)
        np.add.at(rows, cell, held)
        cells = np.flatnonzero(units)
        return CellCounts(looked_at, cells, rows[cells], units[cells])


def broken_bound(table: str, bound: str) -> BrokenPromiseError:
    """What is raised where bounded rows are more than was declared; it says how many of nothing."""
    return BrokenPromiseError(
        f"table {table!r}: the bounded rows break {bound}; nothing was drawn",
        hint="report this as a bug of dprelease; the budget of this step stays reserved",
        code="DPR-B200",
    )


def _begins(ordered: Numbers) -> Marks:
    """Where a number is not the one before it."""
    begins = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins
