"""Quantiles and key selection as black boxes: what an attacker can prove from runs never exceeds the claim.

On a pair of neighbouring tables the event is chosen on one half of the runs; on the other half Clopper-Pearson gives a
lower bound of its probability under one table and an upper one under the other, together right with confidence
1 - 1e-9. The pairs are chosen so that the bounds come near: half of each claim is refuted. ``make nightly`` runs each
side 10^5 times. The figures are printed (``pytest -s``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.noise import SELECTIONS, ExactHistogram, ExactKeys, ExponentialQuantile, Key, OptimalSelection
from dprelease.noise.mechanisms.threshold import least_threshold, threshold_delta
from dprelease.privacy.event import Approximate, BoundedRange, DiscreteGaussian, DiscreteLaplace, Sensitivity
from dprelease.privacy.unit import Neighboring
from tests.laws.exact import black_box, moved, together
from tests.reference_events import quantile_event

MISS = 1e-9
FEW, FULL = 40_000, 100_000
RUNS = [FEW, pytest.param(FULL, marks=pytest.mark.nightly)]
SELECTING = [pytest.param(FULL, marks=pytest.mark.slow)]  # of fewer runs, half of a claim is missed now and then
Integers = npt.NDArray[np.int64]


def at_least(hits: int, runs: int) -> float:
    """Clopper-Pearson: the probability is above it, with confidence 1 - MISS / 2."""
    return float(stats.beta.ppf(MISS / 2, hits, runs - hits + 1)) if hits else 0.0


def at_most(hits: int, runs: int) -> float:
    return float(stats.beta.ppf(1 - MISS / 2, hits + 1, runs - hits)) if hits < runs else 1.0


def events(first: Integers, second: Integers, outcomes: int) -> list[npt.NDArray[np.bool_]]:
    """Sets of outcomes, the most telling ones first: those of the largest ratios on these runs."""
    p, q = (np.bincount(runs, minlength=outcomes) for runs in (first, second))
    order = np.argsort(-(p + 0.5) / (q + 0.5), kind="stable")
    sets = np.zeros((outcomes, outcomes), dtype=bool)
    for size in range(outcomes):
        sets[size:, order[size]] = True
    return list(sets[:-1])


def lower_bound(first: Integers, second: Integers, outcomes: int, value: Callable[[float, float], float]) -> float:
    """The largest lower bound of ``value(P(event), Q(event))``, rising in P and falling in Q, in both directions."""
    best = -math.inf
    half = len(first) // 2
    for one, other in ((first, second), (second, first)):

        def bound(p_runs: Integers, q_runs: Integers, event: npt.NDArray[np.bool_]) -> float:
            hits, misses = int(event[p_runs].sum()), int(event[q_runs].sum())
            return value(at_least(hits, len(p_runs)), at_most(misses, len(q_runs)))

        chosen = max(
            events(one[:half], other[:half], outcomes), key=lambda event: bound(one[:half], other[:half], event)
        )
        best = max(best, bound(one[half:], other[half:], chosen))
    return best


def epsilon_at(delta: float) -> Callable[[float, float], float]:
    """The epsilon that these two probabilities need at this delta."""
    return lambda p, q: math.log((p - delta) / q) if p > delta else 0.0


def delta_at(epsilon: float) -> Callable[[float, float], float]:
    """The delta that they need at this epsilon."""
    return lambda p, q: max(0.0, p - math.exp(epsilon) * q)


# ---------------------------------------------------------------- quantiles


def quantiles(rows: Sequence[int], at: Fraction, high: int, scale: Fraction, runs: int) -> Integers:
    """Independent runs on one table, on the grid 0..high."""
    cell, value = np.repeat(np.arange(runs), len(rows)), np.tile(np.array(rows, dtype=np.int64), runs)
    return ExponentialQuantile().draw(ExactHistogram(runs, cell, value, np.ones_like(cell)), at, 0, high, scale)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(
    ("at", "rows", "row", "high"),
    [
        # most of the mass lies right of the quantile and comes nearer to it; what lies left goes away
        (Fraction(1, 2), [5], 24, 24),
        (Fraction(9, 10), [0] * 9 + [4], 84, 84),
    ],
)
def test_a_quantile_never_tells_more_than_claimed(
    at: Fraction, rows: list[int], row: int, high: int, runs: int
) -> None:
    scale = max(at, 1 - at) / 2
    claim = quantile_event(scale, at, Neighboring.ADD_REMOVE, cells=1)
    assert claim == BoundedRange(epsilon=Fraction(4))
    found = lower_bound(
        quantiles(rows, at, high, scale, runs), quantiles([*rows, row], at, high, scale, runs), high + 1, epsilon_at(0)
    )
    print(f"quantile {at}: claimed 4, at least {found:.3f} with {runs} runs a side")
    assert found <= 4
    assert found > 2, "half of it, as for a monotone score, would be a false claim"


@pytest.mark.parametrize("runs", RUNS)
def test_a_quantile_with_a_replaced_row_never_tells_more_than_claimed(runs: int) -> None:
    """One cell: a row goes from one end to the other."""
    at, scale = Fraction(1, 2), Fraction(1, 2)
    claim = quantile_event(scale, at, Neighboring.REPLACE_ONE, cells=1)
    assert claim == BoundedRange(epsilon=Fraction(4))
    before, after = [0, 5, 5], [24, 5, 5]
    found = lower_bound(
        quantiles(before, at, 24, scale, runs), quantiles(after, at, 24, scale, runs), 25, epsilon_at(0)
    )
    print(f"quantile, row replaced: claimed 4, at least {found:.3f} with {runs} runs a side")
    assert 2 < found <= 4


# ---------------------------------------------------------------- private keys

Noise = Literal["laplace", "gaussian"]
Draw = Callable[[ExactKeys], tuple[tuple[Key, ...], ...]]


def selections(draw: Draw, table: dict[str, int], runs: int) -> Integers:
    """Independent runs on one table, all in one box; which of the keys a and b were shown, as 0..3."""
    keys = [(run, key) for run in range(runs) for key in table]
    found = np.zeros(runs, dtype=np.int64)
    for run, key in draw(ExactKeys(keys, np.tile(np.array(list(table.values()), dtype=np.int64), runs))):
        found[int(run)] += {"a": 1, "b": 2}[str(key)]
    return found


@pytest.mark.parametrize("runs", SELECTING)
@pytest.mark.parametrize(("noise", "scale"), [("laplace", Fraction(1)), ("gaussian", Fraction(1))])
def test_a_selection_by_threshold_never_tells_more_than_claimed(noise: Noise, scale: Fraction, runs: int) -> None:
    """A unit with two keys, of which others hold two, one or none. Delta is large, so that its part can be seen."""
    threshold = least_threshold(noise, scale, Fraction(3, 20), 2)
    delta = threshold_delta(noise, scale, threshold, 2)
    selection = SELECTIONS[f"{noise}_threshold"]
    hidden = (DiscreteLaplace if noise == "laplace" else DiscreteGaussian)(
        scale=scale, sensitivity=Sensitivity.of_shifts((1, 1))
    )
    unseen = black_box(Approximate(epsilon=Fraction(0), delta=delta))
    claim = together([moved(hidden, (1, 1)), unseen])

    def draw(at: int) -> Draw:
        return lambda keys: selection.draw(keys, scale, at)

    without: tuple[dict[str, int], ...] = ({"a": threshold - 1, "b": threshold - 1}, {"a": threshold - 1}, {})
    shared = ({"a": threshold, "b": threshold}, {"a": threshold, "b": 1}, {"a": 1, "b": 1})
    one, other = ([selections(draw(threshold), table, runs) for table in tables] for tables in (shared, without))
    for epsilon in (0.0, 0.5, 1.0, 2.0):

        def bound(first: Integers, second: Integers, epsilon: float = epsilon) -> float:
            return lower_bound(first, second, 4, delta_at(epsilon))

        found, claimed = max(map(bound, one, other)), claim.delta(epsilon)
        print(f"{noise} keys: at epsilon {epsilon} claimed {claimed:.4f}, at least {found:.4f} with {runs} runs a side")
        assert found <= claimed
        assert found > claimed / 2 or epsilon > 1  # beyond, a Gaussian claims what needs more than two answers to see

    # two keys that one unit alone holds: the delta of the threshold, which one less would break
    alone = {"a": 1, "b": 1}
    nothing = np.zeros(runs, dtype=np.int64)
    for at, holds in ((threshold, True), (threshold - 1, False)):
        found = lower_bound(selections(draw(at), alone, runs), nothing, 4, delta_at(0.0))
        print(f"{noise} keys held alone, threshold {at}: claimed {float(delta):.4f}, at least {found:.4f}")
        assert (found <= delta) is holds
        assert found > delta / 2


@pytest.mark.parametrize("runs", RUNS)
def test_the_optimal_selection_never_tells_more_than_claimed(runs: int) -> None:
    epsilon, delta = Fraction(2), Fraction(1, 20)
    half = OptimalSelection().half_point(epsilon, delta)

    def draw(keys: ExactKeys) -> tuple[tuple[Key, ...], ...]:
        return OptimalSelection().draw(keys, epsilon, delta)

    for count in (0, half - 2, half - 1):
        before, after = ({"a": n} if n else {} for n in (count, count + 1))
        first, second = (selections(draw, table, runs) for table in (before, after))
        found = lower_bound(first, second, 2, epsilon_at(float(delta)))
        most = lower_bound(first, second, 2, delta_at(float(epsilon)))
        print(
            f"optimal keys at {count}: claimed (2, 0.05), at least ({found:.3f}, 0.05) and (2, {most:.4f}), {runs} runs"
        )
        assert found <= epsilon
        assert most <= delta
        if not count:
            assert most > delta / 2
        else:
            assert found > 1
