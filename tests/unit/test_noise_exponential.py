"""The exponential mechanism, from its definition: scores row by row, masses in 50 digits, every digit pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.noise import CHOICES, Exact, ExactHistogram, ExponentialQuantile, ExponentialTopK
from dprelease.noise.mechanisms.exponential import LevelChoice, Powers, ScoreLaw, pieces
from dprelease.privacy.event import BoundedRange, Repeated
from dprelease.privacy.rounding import CONTEXT, real
from dprelease.privacy.unit import Neighboring
from tests.reference_events import quantile_event, top_k_event

QUANTILE, TOP = ExponentialQuantile(), ExponentialTopK()
ADD, REPLACE = Neighboring.ADD_REMOVE, Neighboring.REPLACE_ONE
FRACTIONS = [Fraction(0), Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1)]
TINY = CONTEXT.mpf(10) ** -50


def score(rows: Sequence[int], at: Fraction, x: int) -> Fraction:
    """Its definition, word by word."""
    n = len(rows)
    return max(sum(row < x for row in rows) - at * n, sum(row > x for row in rows) - (1 - at) * n, Fraction(0))


def tables(low: int, high: int, most: int) -> Iterator[tuple[int, ...]]:
    for n in range(most + 1):
        yield from combinations_with_replacement(range(low, high + 1), n)


def by_point(rows: Sequence[int], at: Fraction, low: int, high: int) -> list[Fraction]:
    """What `pieces` says about every grid value."""
    held = sorted(Counter(rows).items())
    starts, widths, levels = pieces([v for v, _ in held], [c for _, c in held], at, low, high)
    assert all(b == a + w for a, w, b in zip(starts, widths, [*starts[1:], high + 1], strict=True))
    assert starts[0] == low
    assert min(widths) > 0
    return [Fraction(level, at.denominator) for width, level in zip(widths, levels, strict=True) for _ in range(width)]


@pytest.mark.parametrize("at", FRACTIONS)
def test_pieces_are_the_score_of_every_grid_value(at: Fraction) -> None:
    for rows in tables(-2, 2, 5):
        found = by_point(rows, at, -2, 2)
        assert found == [score(rows, at, x) for x in range(-2, 3)]
        assert min(found) == 0, "the bound of the rank error rests on it"


def test_pieces_of_far_values_and_many_rows() -> None:
    low, high = -(2**63), 2**63 - 1
    starts, widths, levels = pieces([low, 5, high], [10**9, 3, 10**9], Fraction(1, 3), low, high)
    assert starts == [low, low + 1, 5, 6, high]
    assert sum(widths) == 2**64
    n = 2 * 10**9 + 3
    assert levels == [0, *(3 * rank - n for rank in (10**9, 10**9, 10**9 + 3, 10**9 + 3))]


# ---------------------------------------------------------------- the choice


@pytest.mark.parametrize("scale", [Fraction(1, 7), Fraction(5, 2), Fraction(10**9, 3), Fraction(1, 10**6)])
@pytest.mark.parametrize("bits", [40, 200])
def test_powers_enclose_and_are_close(scale: Fraction, bits: int) -> None:
    powers = Powers(scale)
    for level in (0, 1, 255, 256, 257, 10**6 + 3, 2**40 + 2**20 + 1, powers.cut(bits) - 1, powers.cut(bits)):
        low, high = powers.bounds(level, bits)
        with CONTEXT.workdps(120):
            exact = CONTEXT.exp(-CONTEXT.mpf(level) * scale.denominator / scale.numerator) * 2**bits
            assert low <= exact <= high
        assert high - low <= 40
        assert powers.bounds(level, bits) == (low, high)


def steps_of(weights: Sequence[int], levels: Sequence[int], scale: Fraction) -> list[CONTEXT.mpf]:
    least = min(levels)
    masses = [w * CONTEXT.exp(-(v - least) / real(scale)) for w, v in zip(weights, levels, strict=True)]
    return [CONTEXT.fsum(masses[: j + 1]) / CONTEXT.fsum(masses) for j in range(len(masses))]


CASES = [
    ([1], [7]),
    ([1, 1, 1], [5, 5, 5]),  # ties
    ([3, 1, 0, 2], [4, 0, 2, 1]),
    ([1, 10**6, 1], [0, 40, 3]),
    ([1, 1, 1], [0, 10**9, 1]),  # levels far apart: one index is all but impossible
    ([1, 10**12, 1], [10**9, 0, 10**9 + 1]),
    ([2**64, 1], [10, 0]),
]


@pytest.mark.parametrize("scale", [Fraction(1, 50), Fraction(3, 2), Fraction(10**10)])
@pytest.mark.parametrize(("weights", "levels"), CASES)
def test_a_choice_is_the_exact_inverse_of_its_distribution(
    weights: list[int], levels: list[int], scale: Fraction
) -> None:
    """Every pattern of 1 and of 9 digits: a certain answer is right, and few are not certain."""
    steps = steps_of(weights, levels, scale)
    choice = LevelChoice(weights, levels, Powers(scale))
    for bits in (1, 9):
        undecided = 0
        for digits in range(1 << bits):
            index = choice.certain(digits, bits)
            if index is None:
                undecided += 1
            else:
                assert weights[index]
                assert digits + 1 <= steps[index] * 2**bits + TINY
                assert index == 0 or steps[index - 1] * 2**bits <= digits + TINY
        assert undecided <= len(weights), "at most the interval around each step, and the end of 1"


@pytest.mark.parametrize("scale", [Fraction(1, 50), Fraction(3, 2), Fraction(10**10)])
@pytest.mark.parametrize(("weights", "levels"), CASES)
def test_the_sums_enclose_the_distribution_closely(weights: list[int], levels: list[int], scale: Fraction) -> None:
    low, high = LevelChoice(weights, levels, Powers(scale)).sums(64)
    for head_low, head_high, step in zip(low, high, steps_of(weights, levels, scale), strict=True):
        least = CONTEXT.mpf(head_low) / (head_low + high[-1] - head_high)
        most = CONTEXT.mpf(head_high) / (head_high + low[-1] - head_low)
        assert least <= step + TINY
        assert step <= most + TINY
        assert most - least < CONTEXT.mpf(2) ** -64


def test_what_is_all_but_impossible_is_drawn_from_the_digits_that_say_so() -> None:
    """P(0) is about e^-1000, 1443 binary digits: only that many zeros draw it, and fewer do not decide."""
    choice = LevelChoice([1, 1], [1000, 0], Powers(Fraction(1)))
    assert choice.certain(0, 64) is None
    assert choice.certain(0, 1400) is None
    assert choice.certain(1, 1400) == 1
    assert choice.certain(0, 1500) == 0
    asked: list[int] = []

    def zeros(limit: int) -> int:
        asked.append(limit)
        return 0

    assert choice.draw(zeros) == 0
    assert asked == [1 << 64] + [1 << 128] * 11


def test_a_choice_with_nothing_to_choose_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        LevelChoice([0, 0], [1, 2], Powers(Fraction(1)))


# ---------------------------------------------------------------- quantiles


def of(*cells: Sequence[int]) -> ExactHistogram:
    """One entry per row, in any order."""
    pairs = [(index, row) for index, rows in enumerate(cells) for row in rows]
    where = np.array([index for index, _ in pairs], dtype=np.int64)
    return ExactHistogram(len(cells), where, np.array([row for _, row in pairs], dtype=np.int64), np.ones_like(where))


def test_a_tiny_scale_draws_the_quantile_itself() -> None:
    cells: tuple[list[int], ...] = ([3], [9, 1, 4], [2, 8], [5] * 7 + [6], [])
    drawn = [QUANTILE.draw(of(*cells), Fraction(1, 2), 0, 10, Fraction(1, 1000)).tolist() for _ in range(40)]
    for row in drawn:
        assert row[0] == 3
        assert row[1] == 4
        assert 2 <= row[2] <= 8
        assert row[3] == 5
    assert len({row[4] for row in drawn}) > 5, "an empty cell is uniform"
    assert QUANTILE.draw(of([4, 6, 9]), Fraction(0), 4, 20, Fraction(1, 1000)).tolist() == [4]
    assert QUANTILE.draw(of([4, 6, 9]), Fraction(1), 0, 9, Fraction(1, 1000)).tolist() == [9]


def test_a_huge_scale_and_the_widest_grid() -> None:
    low, high = -(2**63), 2**63 - 1
    drawn = QUANTILE.draw(of(*[[0]] * 200), Fraction(1, 2), low, high, Fraction(10**30))
    assert drawn.dtype == np.int64
    assert len(np.unique(drawn)) == 200
    assert (drawn < 0).any()
    assert (drawn > 0).any()


def test_one_grid_value_no_cell_and_no_row() -> None:
    assert QUANTILE.draw(of([5, 5], []), Fraction(1, 2), 5, 5, Fraction(1)).tolist() == [5, 5]
    assert QUANTILE.draw(of(), Fraction(1, 2), 0, 5, Fraction(1)).shape == (0,)


def test_the_order_and_the_form_of_the_entries_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Spy(LevelChoice):
        def __init__(self, weights: Sequence[int], levels: Sequence[int], powers: Powers) -> None:
            seen.append((tuple(weights), tuple(levels)))
            super().__init__(weights, levels, powers)

    monkeypatch.setattr("dprelease.noise.mechanisms.exponential.LevelChoice", Spy)
    forms = [
        ([0, 2, 2, 2], [4, 1, 9, 9], [1, 1, 1, 1]),
        ([2, 0, 2], [9, 4, 1], [2, 1, 1]),
        ([2, 1, 0, 2, 1], [9, 3, 4, 1, 7], [2, 0, 1, 1, 0]),
    ]
    for cell, value, count in forms:
        histogram = ExactHistogram(3, np.array(cell), np.array(value), np.array(count))
        QUANTILE.draw(histogram, Fraction(1, 2), 0, 10, Fraction(1))
    assert seen[:3] == seen[3:6] == seen[6:]


def test_a_histogram_of_many_values_and_far_levels_is_drawn_in_time() -> None:
    values = np.arange(0, 10**9, 10**9 // 50_000, dtype=np.int64)
    histogram = ExactHistogram(1, np.zeros_like(values), values, np.full_like(values, 20_000))
    drawn = QUANTILE.draw(histogram, Fraction(1, 2), 0, 10**9, Fraction(3))
    assert abs(int(drawn[0]) - 5 * 10**8) <= 10**9 // 50_000


@pytest.mark.parametrize(
    ("at", "low", "high", "scale"),
    [
        (Fraction(1, 2), 0, 3, Fraction(1)),  # 4 is outside
        (Fraction(1, 2), 5, 9, Fraction(1)),
        (Fraction(1, 2), 9, 0, Fraction(1)),
        (Fraction(3, 2), 0, 9, Fraction(1)),
        (Fraction(1, 2), 0, 9, Fraction(0)),
    ],
)
def test_what_cannot_be_drawn_is_refused_without_a_value(at: Fraction, low: int, high: int, scale: Fraction) -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        QUANTILE.draw(of([4]), at, low, high, scale)
    assert "4" not in str(caught.value)


# ---------------------------------------------------------------- the most frequent


def test_top_k_with_a_tiny_scale_is_the_order_of_the_counts() -> None:
    counts = Exact(np.array([3, 2**62, -(2**62), 9, 8]))
    assert TOP.draw(counts, 5, Fraction(1, 1000)).tolist() == [1, 3, 4, 0, 2]
    assert TOP.draw(counts, 2, Fraction(1, 1000)).tolist() == [1, 3]


def test_top_k_never_draws_a_key_twice() -> None:
    for _ in range(50):
        assert sorted(TOP.draw(Exact(np.zeros(6, dtype=np.int64)), 6, Fraction(1)).tolist()) == list(range(6))


@pytest.mark.parametrize(("k", "scale"), [(0, Fraction(1)), (3, Fraction(1)), (1, Fraction(0))])
def test_top_k_refuses_what_it_cannot_draw(k: int, scale: Fraction) -> None:
    with pytest.raises(BrokenPromiseError):
        TOP.draw(Exact(np.array([1, 2])), k, scale)


# ---------------------------------------------------------------- costs and margins


def test_the_events() -> None:
    scale, at = Fraction(4), Fraction(9, 10)

    def bounded(length: Fraction, count: int) -> BoundedRange | Repeated:
        one = BoundedRange(epsilon=length / scale)
        return one if count == 1 else Repeated(event=one, count=count)

    one_row = 2 * Fraction(9, 10)
    assert quantile_event(scale, at, ADD) == bounded(one_row, 1)
    assert quantile_event(scale, 1 - at, ADD) == bounded(one_row, 1)
    assert quantile_event(scale, at, REPLACE) == bounded(2 * one_row, 1)
    assert quantile_event(scale, at, REPLACE, cells=1) == bounded(Fraction(2), 1)
    assert quantile_event(scale, at, ADD, rows=3, groups=5) == bounded(3 * one_row, 5)
    assert quantile_event(scale, at, REPLACE, rows=3, groups=5, cells=4) == bounded(6 * one_row, 4)
    assert quantile_event(scale, at, ADD, rows=3, groups=5, total=3) == bounded(3 * one_row, 1)
    assert quantile_event(scale, at, ADD, rows=3, groups=5, total=2) == bounded(2 * one_row, 1)
    assert quantile_event(scale, at, ADD, rows=3, groups=5, total=4) == bounded(3 * one_row, 2)
    for end in (Fraction(0), Fraction(1)):
        assert quantile_event(scale, end, ADD, rows=3) == bounded(Fraction(3), 1)
        assert quantile_event(scale, end, REPLACE, rows=3, cells=1) == bounded(Fraction(3), 1)
        assert quantile_event(scale, end, REPLACE, rows=3, cells=2) == bounded(Fraction(6), 1)
    assert top_k_event(scale, 3, ADD) == bounded(Fraction(1), 3)
    assert top_k_event(scale, 1, REPLACE, change=2) == bounded(Fraction(4), 1)
    assert {name: choice.name for name, choice in CHOICES.items()} == {
        name: name for name in ("exponential_quantile", "exponential_top_k", "exponential_clip")
    }


def test_the_rows_of_a_unit_never_fill_more_groups_than_charged() -> None:
    """Every way to spread rows over cells, packed as the proof says: merge while two groups fit into one cell's limit."""
    for limit in range(1, 5):
        for groups in range(1, 6):
            for rows in combinations_with_replacement(range(1, limit + 1), groups):
                charged = quantile_event(Fraction(1), Fraction(1), ADD, rows=limit, groups=groups, total=sum(rows))
                held = list(rows)
                while len(held) > 1 and sum(sorted(held)[:2]) <= limit:
                    held = [sum(sorted(held)[:2]), *sorted(held)[2:]]
                assert len(held) <= (charged.count if isinstance(charged, Repeated) else 1)


@pytest.mark.parametrize("at", [Fraction(1, 4), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2)])
def test_the_rank_bound_holds_and_is_not_far_off(scale: Fraction, at: Fraction) -> None:
    for confidence in (Fraction(1, 2), Fraction(19, 20), Fraction(999, 1000)):
        bound = ScoreLaw(scale, 5).margin(confidence)
        assert 0 <= real(bound) - real(scale) * CONTEXT.log(5 / real(1 - confidence)) < 1
        for rows in tables(0, 4, 4):
            levels = [score(rows, at, x) for x in range(5)]
            weights = [CONTEXT.exp(-real(level / scale)) for level in levels]
            above = CONTEXT.fsum(w for w, level in zip(weights, levels, strict=True) if level > bound)
            assert above <= real(1 - confidence) * CONTEXT.fsum(weights)
