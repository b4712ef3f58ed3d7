"""What is drawn of a table of counts so that sums along one axis are told well: a whole-number matrix times its lines.

A *slice* of a table is one line of counts along the ordered axis, all other keys fixed. Of every slice x the whole
numbers F x are drawn, and F has an inverse, so that F^-1 of the noisy answer is x with noise whose sums err less than
those of independent noise. Three kinds of F. Proofs: docs/proofs/prefix-draws.md.

``root``: the lower triangular square root of the matrix of prefix sums, by columns of equal norm, rounded. With
f_k = C(2k, k) / 4^k (its entries: sum of f_k z^k = (1 - z)^(-1/2), whose square is the sum of all z^k) and
s_m = f_0^2 + ... + f_m^2, column j has the entries grain f_(i - j) / sqrt(s_(n - 1 - j)), i >= j. Fichtenberger,
Henzinger and Upadhyay 2023, "Constant matters: fine-grained error bound on differentially private continual
observation"; Henzinger, Upadhyay and Upadhyay 2023, "Almost tight error bounds on differentially private continual
counting". It is worked out in whole numbers (:func:`root_matrix`), so that it is the same on every machine.

``matrix``: any whole numbers, which the value holds itself.

``mirrored_prefixes`` and ``mirrored_ranges``: a falling line that is mirrored at both ends (``catalog.mirrored``), with
column j taken ``times[j]`` times, so that columns have nearly one norm. The value holds the line and the times.

>>> Factor(shape=(2, 3), axis=1, kind="root", grain=1024).matrix.tolist()
[[868, 0, 0], [434, 916, 0], [326, 458, 1024]]
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dprelease.canonical import GrownValue
from dprelease.catalog.mirrored import MIRRORS, Mirror, mirrored_rows
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["LEAST_GRAIN", "MOST_KEYS", "MOST_WRITTEN_OUT", "Factor", "factor_sensitivity", "root_matrix"]

LEAST_GRAIN = 1024  # epsilon is then within 2 parts in 10^6 of continuous noise (docs/proofs/prefix-draws.md, 4)
MOST_KEYS = 4096  # of the ordered column
MOST_WRITTEN_OUT = 128  # keys up to which a matrix is held, and every two columns are compared
_LARGEST_ENTRY = 2**20
_LARGEST_MIRRORED = 2**24  # squares of 4,096 of these add up to less than 2^61
_LARGEST = 2**61  # so large the exact numbers may be: the noise has the rest of 64 bits
_POINT = 40  # bits after the point of f_k

Whole = npt.NDArray[np.int32]


class Factor(GrownValue):
    """Which whole-number combinations of the lines of a table of counts are drawn.

    Attributes:
        shape: How many keys each column of the step's ``by`` has.
        axis: The position of the ordered column.
        kind: Which matrix.
        grain: About the norm of a column: the lattice of the noise is so fine.
        rows: The rows of ``matrix``, one tuple each; None for all others.
        line: l_0, ..., l_n of a mirrored line; None for all others.
        times: How often each column of a mirrored line is taken; None for all others.

    Raises:
        ValueError: If a column has no keys, the axis is none of them or has too many keys, or there are numbers where
            none belong, or not as many as keys, or too large ones, or a line that does not fall.
    """

    LATER: ClassVar[tuple[str, ...]] = ("rows", "line", "times")
    shape: tuple[int, ...]
    axis: int = Field(ge=0)
    kind: Literal["root", "matrix"] | Mirror
    grain: int = Field(ge=LEAST_GRAIN, le=_LARGEST_MIRRORED)
    rows: tuple[tuple[int, ...], ...] | None = None
    line: tuple[int, ...] | None = None
    times: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if min(self.shape, default=0) < 1 or self.axis >= len(self.shape):
            raise ValueError("a factor acts along a column of a table, and every column has at least one key")
        most = MOST_WRITTEN_OUT if self.kind == "matrix" else MOST_KEYS
        if self.length > most:
            raise ValueError(f"a factor of this kind has at most {most} keys")
        if self.mirror is None and self.grain > _LARGEST_ENTRY:
            raise ValueError("the lattice of such a factor is not so fine")
        if (self.rows is not None) != (self.kind == "matrix"):
            raise ValueError("a factor holds the rows of a matrix that nothing else says, and no others")
        if self.rows is not None:
            square = len(self.rows) == self.length and all(len(row) == self.length for row in self.rows)
            if not square or any(abs(entry) > _LARGEST_ENTRY for row in self.rows for entry in row):
                raise ValueError("the matrix of a factor has a row and a column for every key, and no huge numbers")
            if not any(map(any, self.rows)):
                raise ValueError("a factor whose matrix is 0 measures nothing")
        self._check_mirrored()
        return self

    def _check_mirrored(self) -> None:
        line, times = self.line, self.times
        if {line is not None, times is not None} != {self.mirror is not None}:
            raise ValueError("a mirrored line has its numbers and how often a column is taken, and nothing else has")
        if line is None or times is None:
            return
        if len(line) != self.length + 1 or len(times) != self.length:
            raise ValueError("a mirrored line has a number more than there are keys, and one factor for each of them")
        if min(line) < 0 or any(later > before for before, later in pairwise(line)) or line[0] == 0:
            raise ValueError("a mirrored line falls, from above 0, and never below")
        if min(times) < 1 or 2 * line[0] * max(times) > _LARGEST_MIRRORED:
            raise ValueError("a column of a mirrored line is taken once at least, and has no huge numbers")

    @property
    def mirror(self) -> Mirror | None:
        """How the line is mirrored; None if the matrix is of another kind."""
        return next((each for each in MIRRORS if each == self.kind), None)

    @property
    def length(self) -> int:
        """How many keys the ordered column has."""
        return self.shape[self.axis]

    @property
    def slices(self) -> int:
        """How many lines along the ordered column the table has."""
        return math.prod(self.shape) // self.length

    @property
    def matrix(self) -> Whole:
        """F, shape ``(keys, keys)``, read-only."""
        if self.mirror is not None and self.line is not None and self.times is not None:
            return _mirrored(self.mirror, self.line, self.times)
        return root_matrix(self.length, self.grain) if self.rows is None else _held(self.rows)

    @property
    def growth(self) -> int:
        """The largest sum of sizes along a row of F: by so much the answer can be larger than the counts."""
        return max(int(np.abs(part, dtype=np.int64).sum(axis=1).max()) for part in _bands(self.matrix))

    @property
    def most_rows(self) -> int:
        """The largest count of one cell with which every number fits: larger ones are clamped to it before the draw.

        Every partial sum of a row of F times counts in [-M, M] is at most growth M in size.
        """
        return _LARGEST // self.growth


@lru_cache(maxsize=2)  # one of 4,096 keys takes 67 MB
def root_matrix(keys: int, grain: int) -> Whole:
    """The square root of the matrix of prefix sums, with columns of equal norm, in whole numbers.

    With p_k = floor(2^40 C(2k, k) / 4^k) and r_m = floor(sqrt(p_0^2 + ... + p_m^2)) the entry in row i, column
    j <= i, is the whole number nearest to grain p_(i - j) / r_(n - 1 - j), the upper one of two. It is at least 1 on
    the diagonal (r_m < 2^41 for every m that is allowed, and p_0 = 2^40), so that the matrix has an inverse; and
    nothing on the way exceeds 2^62.

    Args:
        keys: n, at most ``MOST_KEYS``.
        grain: At most 2^20.

    Returns:
        Shape ``(keys, keys)``, read-only.
    """
    central, points, squares, norms = 1, [], 0, []
    for k in range(keys):
        points.append((central << _POINT) >> (2 * k))
        squares += points[-1] ** 2
        norms.append(math.isqrt(squares))
        central = central * 2 * (2 * k + 1) // (k + 1)
    line = np.array(points, dtype=np.int64) * (2 * grain)
    matrix = np.zeros((keys, keys), dtype=np.int32)
    for j in range(keys):
        norm = norms[keys - 1 - j]
        matrix[j:, j] = (line[: keys - j] + norm) // (2 * norm)
    matrix.flags.writeable = False
    return matrix


@lru_cache(maxsize=8)
def _held(rows: tuple[tuple[int, ...], ...]) -> Whole:
    matrix = np.array(rows, dtype=np.int32)
    matrix.flags.writeable = False
    return matrix


@lru_cache(maxsize=2)
def _mirrored(kind: Mirror, line: tuple[int, ...], times: tuple[int, ...]) -> Whole:
    """The matrix of a mirrored line: column j of it ``times[j]`` times; no entry exceeds ``_LARGEST_MIRRORED``."""
    matrix = np.empty((len(times), len(times)), dtype=np.int32)
    each = np.array(times, dtype=np.int64)
    for row, entries in zip(matrix, mirrored_rows(np.array(line, dtype=np.int64), kind), strict=True):
        row[...] = entries * each
    matrix.flags.writeable = False
    return matrix


def _bands(matrix: Whole) -> list[Whole]:
    """A matrix in bands of rows, so that no wide copy of a large one is made."""
    return [matrix[start : start + 256] for start in range(0, len(matrix), 256)]


def factor_sensitivity(
    factor: Factor, rows: int, neighboring: Neighboring, each: int = 1, in_slice: int | None = None
) -> Sensitivity:
    """How far one unit can move F x of all slices, in steps of its lattice.

    Every row adds at most ``each`` to one cell or counts nowhere; a unit has at most ``rows`` rows, in any cells, also
    all in one.

    Proof, in short (docs/proofs/prefix-draws.md). A unit changes the table by u - v with u, v >= 0 and at most
    ``rows`` in each (v = 0 or u = 0 for add or remove). A norm of the answer is convex in (u, v), so that it is largest
    at a corner: all rows of u in one cell a, all of v in one cell c, or none. That is ``rows`` times a column of F;
    or times the difference of two of one slice; or two columns in different slices, whose L1 and L2^2 add up. Of more
    than ``MOST_WRITTEN_OUT`` keys (a root or a mirrored line: no entry is negative) differences are not listed:
    |a - b|^2 <= |a|^2 + |b|^2 where no entry is negative, |a - b|_1 <= |a|_1 + |b|_1, and no entry of a - b is larger
    than one of a or b. A row changes entries of its own slice alone, at most all of them.

    Args:
        factor: The query.
        rows: The most rows of one unit that count (``Limits.rows``).
        neighboring: Which tables are neighbours.
        each: The most that one row adds: the clip of its weight.
        in_slice: The most rows of a unit in one slice, of a root matrix; None: all of them. Slices are drawn apart, so
            that their squares add up: of n(c) rows in slice c a unit moves at most n(c) columns of it, and the sum of
            n(c)^2 is largest where slices are full, f in_slice^2 + s^2 with rows = f in_slice + s. Where one unit takes
            the place of another, |a - b|^2 <= |a|^2 + |b|^2 in each slice, for no entry of a root is negative.

    Returns:
        The norms; ``shifts`` is empty, for the accountants read such fine lattices by their norms. L1, L2^2 and Linf
        are reached, but for those bounds of a single slice with many keys; L0 is where the matrix has no zeros.

    Raises:
        ValueError: If ``rows`` is not positive.
    """
    if rows < 1:
        raise ValueError("a unit has at least one row")
    replaced = neighboring is Neighboring.REPLACE_ONE
    l1, l2_squared, linf = _norms(factor.matrix, factor.slices > 1, replaced)
    fullest = rows if in_slice is None or factor.kind != "root" else min(rows, in_slice)
    full, rest = divmod(rows, fullest)
    return Sensitivity(
        l0=factor.length * min(factor.slices, 2 * rows if replaced else rows),
        l1=Fraction(rows * each * l1),
        l2_squared=Fraction((full * fullest**2 + rest**2) * each**2 * l2_squared),
        linf=Fraction(fullest * each * linf),
    )


def _norms(matrix: Whole, apart: bool, replaced: bool) -> tuple[int, int, int]:
    """L1, L2^2 and Linf for one row; ``apart``: whether there are several slices. Entries stay below 2^25."""
    l1, l2_squared, linf = _largest(matrix.T)
    if not replaced:
        return l1, l2_squared, linf
    if apart or len(matrix) > MOST_WRITTEN_OUT:
        if len(matrix) > MOST_WRITTEN_OUT and int(matrix.min()) < 0:
            raise ValueError("only a matrix without negative entries may have so many keys")
        most = (2 * l1, 2 * l2_squared, linf)
    else:
        most = (l1, l2_squared, linf)
    if len(matrix) > MOST_WRITTEN_OUT:
        return most
    pairs = [_largest(matrix.T[at + 1 :] - column) for at, column in enumerate(matrix.T[:-1])]
    one, two, three = zip(most, *pairs, strict=True)
    return max(one), max(two), max(three)


def _largest(moves: Whole) -> tuple[int, int, int]:
    """The largest L1, L2^2 and Linf of some rows; none of the sums reaches 2^62."""
    found = []
    for part in _bands(moves):
        sizes = np.abs(part, dtype=np.int64)
        squares = np.einsum("ij,ij->i", sizes, sizes)
        found.append((int(sizes.sum(axis=1).max()), int(squares.max()), int(sizes.max())))
    one, two, three = zip(*found, strict=True)
    return max(one), max(two), max(three)
