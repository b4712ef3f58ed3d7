"""The search for the outermost pieces finds what looking at every piece finds, bit by bit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.measures.tested import spreads as room
from dprelease.measures.tested.brackets import Brackets, first_kept, hull
from tests.statistical.test_spread_coverage import CONFIDENCE, HALF, TABLE, VARIANCE, drawn, laws

Floats = npt.NDArray[np.float64]


@pytest.mark.parametrize("pieces", [1, 2, 7, 24, 64, 89])
@pytest.mark.parametrize("from_end", [False, True])
def test_the_first_piece_of_every_cell(pieces: int, from_end: bool) -> None:
    """Of sets with holes, too; a block is kept if a piece of it is, or now and then though none is."""
    chance = np.random.default_rng(pieces)
    kept = chance.random((200, pieces)) < np.repeat([0.0, 0.01, 0.1, 0.9], 50)[:, None]
    asked = 0

    def block(
        rows: npt.NDArray[np.int64], first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        nonlocal asked
        asked += len(rows)
        assert (first >= 0).all()
        assert (last <= pieces).all()
        sizes = last - first
        assert (sizes & (sizes - 1) == 0).all()
        assert (sizes > 0).all()
        truly = np.array([kept[row, a:b].any() for row, a, b in zip(rows, first, last, strict=True)])
        return truly | ((sizes > 1) & (chance.random(len(rows)) < 0.1))

    found = first_kept(200, pieces, block, from_end=from_end)
    seen = kept[:, ::-1] if from_end else kept
    assert found.tolist() == np.where(seen.any(axis=1), seen.argmax(axis=1), pieces).tolist()
    assert pieces < 64 or asked < 200 * pieces / 2


def test_sets_of_quotients_are_those_of_every_bracket() -> None:
    chance = np.random.default_rng(3)
    borders = np.sinh(np.linspace(-4, 4, 301))
    table = Brackets(borders[:-1], borders[1:], np.hypot(9, 8 * borders[1:]) + chance.random(300))
    above, below = chance.normal(0, 60, 700), np.abs(chance.normal(0, 40, 700)) + 1e-3
    low, high = hull(above, below, table)
    least = np.maximum((above[:, None] - table.reach) / below[:, None], table.first)
    most = np.minimum((above[:, None] + table.reach) / below[:, None], table.last)
    within = least <= most
    lowest = np.where(within, least, np.inf).min(axis=1)
    highest = np.where(within, most, -np.inf).max(axis=1)
    some = within.any(axis=1)
    assert some.sum() > 600
    np.testing.assert_array_equal(low, np.where(some, lowest, np.nan))
    np.testing.assert_array_equal(high, np.where(some, highest, np.nan))


def ends_by_every_piece(test: room._Test, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """What the search is to find: all pieces of the variances beside all of the means, and of either end again."""

    def kept(left: Floats, right: Floats) -> npt.NDArray[np.bool_]:
        rows = np.repeat(np.arange(len(left)), left.shape[1])
        blocks = [np.full(len(rows), room._MEANS - 1 + at) for at in range(room._MEANS)]
        found = [test._possible(rows, block, left.ravel(), right.ravel()) for block in blocks]
        return np.asarray(np.any(found, axis=0).reshape(left.shape))

    def first(left: Floats, right: Floats, count: int, *, lower: bool) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        borders = room._pieces(left, right, count)
        pieces = kept(borders[:, :-1], borders[:, 1:])
        some, rows = pieces.any(axis=1), np.arange(len(left))
        at = pieces.argmax(axis=1) if lower else count - 1 - pieces[:, ::-1].argmax(axis=1)
        return borders[rows, at], borders[rows, at + 1], np.asarray(some)

    ends = []
    for lower in (True, False):
        left, right, some = first(least, most, room._COARSE, lower=lower)
        low, high, fine = first(left, right, room._FINE, lower=lower)
        end = np.where(fine, low, right) if lower else np.where(fine, high, left)
        ends.append(np.where(some, end, np.nan))
    return ends[0], ends[1]


@pytest.mark.parametrize("kind", ["laplace", "gauss"])
def test_sets_of_spreads_are_those_of_every_piece(kind: str) -> None:
    chance, size = np.random.default_rng(5), 60
    mean = chance.integers(1 - HALF, HALF, size).astype(float)
    deviation = np.minimum(chance.integers(0, HALF, size), HALF - np.abs(mean))
    rows = np.rint(10 ** chance.uniform(1, 4, size))
    square = VARIANCE.quantities(TABLE)[0]
    squares = (np.floor((mean**2 + deviation**2) / square.grain + 0.5) - square.offset) * rows
    noisy = [
        np.rint(each + drawn(law, size, chance))
        for each, law in zip((squares, mean * rows, rows), laws(kind), strict=True)
    ]
    some = noisy[2] >= 1
    squares, sums, counts = (each[some] for each in noisy)
    means = float(square.low - square.centre), float(square.high - square.centre)
    cells = room.Moments(squares, sums, counts, float(square.grain), float(square.offset), means, laws(kind))
    size = int(some.sum())
    first = np.clip(cells.sums / cells.counts - chance.uniform(0, 9000, size), -HALF, HALF)
    last = np.clip(cells.sums / cells.counts + chance.uniform(0, 9000, size), -HALF, HALF)
    scales = np.array([float(law.scale) for law in cells.laws])  # type: ignore[attr-defined]
    test = room._Test(cells, first, last, scales, float((1 - CONFIDENCE) * Fraction(4, 5)))
    least, most = np.zeros(size), np.full(size, float(HALF) ** 2)
    found, told = test.ends(least, most), ends_by_every_piece(test, least, most)
    for end, other in zip(found, told, strict=True):
        np.testing.assert_array_equal(end, other)
    assert (found[1] - found[0] < 0.5 * HALF**2).sum() > 10  # and some of them say something
