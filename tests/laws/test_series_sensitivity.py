"""How far one unit moves all draws of a series, by listing every neighbouring stream of a tiny shape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.catalog.series.aims import Aim
from dprelease.catalog.series.band import Band
from dprelease.catalog.series.best_band import best_band
from dprelease.privacy.event import Sensitivity

PERIODS, CELLS, ROWS = 4, 2, 2
FINE = 256  # the lattice of a band is fine, and the lists are short where its numbers are small
COUNTS = [unit for unit in product(range(ROWS + 1), repeat=CELLS) if sum(unit) <= ROWS]
SIGNED = [unit for unit in product(range(-ROWS, ROWS + 1), repeat=CELLS) if sum(map(abs, unit)) <= ROWS]

Whole = npt.NDArray[np.int64]
Unit = tuple[int, ...]
History = Sequence[Sequence[Unit]]
"""What period j is when period t is released, by t and by j."""


def _drawn(numbers: Sequence[int], history: History) -> Whole:
    """The exact numbers of every period's draw, one after the other, from what is read for it."""
    found = []
    for at in range(PERIODS):
        total = np.zeros(CELLS, dtype=np.int64)
        for lag, each in enumerate(numbers):
            if lag <= at:
                total += each * np.array(history[at][at - lag])
        found.append(total)
    return np.concatenate(found)


def _histories(units: Sequence[Unit], readings: int) -> Iterator[History]:
    """A unit of each period, as it is at every reading of its period: late, revised, or cut by another key."""
    none = (0,) * CELLS
    for own in range(PERIODS):
        last = min(own + readings, PERIODS)
        for vintages in product(units, repeat=last - own):
            read = dict(zip(range(own, last), vintages, strict=True))
            yield [[read.get(at, none) if j == own else none for j in range(PERIODS)] for at in range(PERIODS)]


def _moves(numbers: Sequence[int], units: Sequence[Unit]) -> Whole:
    """How each of these units moves the draws when it comes, on top of other rows."""
    others = [[(7 * at + j, 3 * j) for j in range(PERIODS)] for at in range(PERIODS)]
    before = _drawn(numbers, others)
    found = []
    for history in _histories(units, len(numbers)):
        both = [
            [tuple(np.add(one, other)) for one, other in zip(*each, strict=True)]
            for each in zip(others, history, strict=True)
        ]
        found.append(_drawn(numbers, both) - before)
    return np.array(found)


def _reach(numbers: Sequence[int], *, replaced: bool = False, signed: bool = False) -> Sensitivity:
    one = Sensitivity(l0=ROWS, l1=ROWS, l2_squared=ROWS**2, linf=ROWS)
    return Band(coefficients=tuple(FINE * each for each in numbers)).reach(one, replaced=replaced, signed=signed)


def _norms(moves: Whole) -> tuple[int, int, int]:
    sizes = np.abs(moves).reshape(-1, PERIODS * CELLS)
    return int(sizes.sum(axis=1).max()), int((sizes**2).sum(axis=1).max()), int(sizes.max())


@pytest.mark.parametrize("numbers", [(5, 3, 1), (5, -3, 1), (5, 3), (7,)])
def test_a_unit_that_comes_or_goes_moves_a_series_by_no_more_than_told_and_so_much(numbers: tuple[int, ...]) -> None:
    told = _reach(numbers)

    norms = _norms(_moves(numbers, COUNTS))

    assert list(norms) == [told.l1 / FINE, told.l2_squared / FINE**2, told.linf / FINE]
    assert norms[1] == ROWS**2 * sum(each**2 for each in numbers)


def test_the_figure_of_the_page() -> None:
    """docs/proofs/series.md: 5, 3, 1 over four periods, two cells, two rows."""
    moves = _moves((5, 3, 1), COUNTS)

    assert (len(moves), _norms(moves)[1]) == (474, 140)


@pytest.mark.parametrize(
    ("numbers", "units", "signed", "reached"),
    [
        ((5, 3, 1), COUNTS, False, 280),
        ((5, 3), COUNTS, False, 272),
        ((5, -3, 1), COUNTS, False, 424),
        ((5, 3), SIGNED, True, 544),
    ],
)
def test_a_unit_in_the_place_of_another_moves_a_series_by_no_more_than_told(
    numbers: tuple[int, ...], units: list[Unit], signed: bool, reached: int
) -> None:
    """The two may be of different periods. Where a number of the band is negative, or a row's, they can pull alike."""
    moves, told = _moves(numbers, units), _reach(numbers, replaced=True, signed=signed)

    squares = (moves**2).sum(axis=1)
    most = int((squares[:, None] + squares[None, :] - 2 * moves @ moves.T).max())

    assert most == reached
    assert most <= told.l2_squared / FINE**2 <= 4 * _norms(moves)[1]
    largest = max(int(np.abs(moves - each).max()) for each in moves)
    total = max(int(np.abs(moves - each).sum(axis=1).max()) for each in moves)
    assert largest <= told.linf / FINE
    assert total <= told.l1 / FINE
    if not signed and min(numbers) > 0:
        assert [most, largest] == [told.l2_squared / FINE**2, told.linf / FINE]


@pytest.mark.parametrize("order", [2, 3.5, 8])
def test_an_adversary_who_chooses_the_next_vintage_by_the_last_answer_gains_nothing(order: float) -> None:
    """Two periods, 5 and 3, one cell: Renyi divergence by sums over the lattice, both ways, against rho times order."""
    scale = 6.0
    values = np.arange(-160, 200, dtype=np.float64)

    def logarithms(shift: int) -> npt.NDArray[np.float64]:
        weights = -((values - shift) ** 2) / (2 * scale**2)
        return np.asarray(weights - np.log(np.exp(weights).sum()))

    def moment(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
        return float(np.exp(order * one + (1 - order) * other).sum())

    told = math.exp((order - 1) * order * (5**2 + 3**2) * ROWS**2 / (2 * scale**2))
    for sign in (1, -1):  # the unit comes, or goes
        first, then = (logarithms(5 * ROWS), logarithms(0))[::sign]
        # After each first answer the vintage, from no row to two, with which the second answer tells most.
        worst = max(moment(*(logarithms(3 * rows), logarithms(0))[::sign]) for rows in range(ROWS + 1))
        assert moment(first, then) * worst <= told * (1 + 1e-9)
        assert moment(first, then) * worst >= told * 0.99


def _with_gaps(numbers: Sequence[int], skipped: int | None, redrawn: int | None) -> tuple[Whole, list[int]]:
    """How every unit of two rows moves all draws, of which one period is never read, or one is drawn twice; its period.

    Written out by dates, and not by a matrix: what is drawn for a period reads it and the ones before it that are read.
    """
    there = [at for at in range(PERIODS) if at != skipped]
    draws = [at for at in there for _ in range(2 if at == redrawn else 1)]
    moves, owners = [], []
    for own in range(PERIODS):
        places = [there.index(at) - there.index(own) if own in there and at >= own else -1 for at in draws]
        lags = [lag if 0 <= lag < len(numbers) else None for lag in places]
        reads = [at for at, lag in enumerate(lags) if lag is not None]
        for vintages in product(COUNTS, repeat=len(reads)):
            moved = np.zeros((len(draws), CELLS), dtype=np.int64)
            for at, unit in zip(reads, vintages, strict=True):
                moved[at] = numbers[lags[at] or 0] * np.array(unit)
            moves.append(moved.reshape(-1))
            owners.append(own)
    return np.array(moves), owners


@pytest.mark.parametrize("skipped", range(1, PERIODS - 1))
def test_a_skipped_period_leaves_every_other_one_the_whole_column_and_no_more(skipped: int) -> None:
    moves, owners = _with_gaps((5, 3, 1), skipped, None)
    most = {own: int((moves[np.array(owners) == own] ** 2).sum(axis=1).max()) for own in set(owners)}

    assert most.pop(skipped) == 0  # nothing is read of it
    assert max(most.values()) <= _reach((5, 3, 1)).l2_squared / FINE**2
    assert most[0] == ROWS**2 * 35  # three draws read the first period, whichever is skipped


def test_one_more_draw_of_the_newest_period_costs_every_period_that_it_reads_no_more_than_another_column() -> None:
    """Charged 2 S to each of those that it reads, a unit loses S + c_k^2 of that at most, which is reached."""
    numbers, last = (5, 3, 1), PERIODS - 1
    moves, owners = _with_gaps(numbers, None, last)
    column = _reach(numbers).l2_squared / FINE**2

    for own in range(PERIODS):
        most = int((moves[np.array(owners) == own] ** 2).sum(axis=1).max())
        known = [numbers[at - own] for at in range(own, PERIODS) if at - own < len(numbers)]
        again = numbers[last - own] if last - own < len(numbers) else 0
        assert most == ROWS**2 * (sum(each**2 for each in known) + again**2)
        assert most <= (2 if again else 1) * column


def test_the_parts_that_a_replacement_costs_are_those_that_the_decision_names() -> None:
    """docs/decisions/0142: with the band of twelve months, of the month itself, the one before, and so on."""
    band = best_band(Aim.relative((3, 12, "ytd")), 12)

    parts = [each**2 / band.squared for each in band.coefficients]

    assert [round(each, 3) for each in parts[:7]] == [0.897, 0.058, 0.027, 0.005, 0.005, 0.003, 0.002]
    assert len(parts[7:]) == 5
    assert max(parts[7:]) < 0.0015
    assert sum(parts) == pytest.approx(1)


@pytest.mark.parametrize("order", [2, 5])
def test_what_is_charged_by_month_is_at_least_what_both_draws_of_the_newest_month_tell(order: float) -> None:
    """Three draws by 5, 3 of two months, the last one twice: the divergence of a unit of each, over the lattice."""
    scale, numbers = 40.0, (5, 3)
    values = np.arange(-600, 640, dtype=np.float64)

    def moment(shift: int) -> float:
        logs = [-((values - each) ** 2) / (2 * scale**2) for each in (shift, 0)]
        one, other = (each - np.log(np.exp(each).sum()) for each in logs)
        return float(np.exp(order * one + (1 - order) * other).sum())

    column = ROWS**2 * sum(each**2 for each in numbers) / (2 * scale**2)
    for moved in ((5, 3, 3), (5, 5)):  # of the first month, and of the last
        lost = math.log(math.prod(moment(ROWS * each) for each in moved)) / (order - 1) / order
        assert lost == pytest.approx(ROWS**2 * sum(each**2 for each in moved) / (2 * scale**2), rel=1e-6)
        assert lost <= 2 * column
        assert lost > column  # one column alone would not have been enough
