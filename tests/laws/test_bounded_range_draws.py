"""Choices and key selections against their claims: every tiny table, every neighbour, the exact law of the output.

The laws are read off the code by its decision tree: every choice is forced in turn, and its weights and levels are
written down. What a step claims is `docs/proofs/exponential-mechanism.md` and `docs/proofs/key-selection.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.noise import Exact, ExactHistogram, ExponentialQuantile, ExponentialTopK, OptimalSelection
from dprelease.noise.mechanisms import exponential as module
from dprelease.noise.mechanisms.threshold import Coins, least_threshold, threshold_delta
from dprelease.plan.document.mechanisms import event_of
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.theorems import bounded_range
from dprelease.privacy.unit import Neighboring
from tests.laws.exact import black_box, moved, together
from tests.reference_events import quantile_event, top_k_event

Reals = npt.NDArray[np.float64]
Rows = tuple[int, ...]
ADD, REPLACE = Neighboring.ADD_REMOVE, Neighboring.REPLACE_ONE
SCALE = Fraction(3, 2)
FRACTIONS = [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(2, 3), Fraction(1)]
LOOSE = 1e-12
LAST = 3  # grid values 0..3
MOST = 6  # other rows in a cell: so many are needed to reach the range at 1/4 with two rows


def law_of(draw: Callable[[], npt.NDArray[np.int64]], scale: Fraction) -> dict[tuple[int, ...], float]:
    """Every answer of a draw with its probability, all its choices forced in turn."""
    found: dict[tuple[int, ...], float] = {}
    paths: list[tuple[tuple[int, ...], float]] = [((), 1.0)]

    class _More(Exception):
        pass

    while paths:
        path, chance = paths.pop()
        steps = iter(path)
        open_choice: list[tuple[Sequence[int], Sequence[Fraction]]] = []

        class Forced:
            def __init__(self, weights: Sequence[int], levels: Sequence[int], powers: module.Powers) -> None:
                assert powers._scale % scale == 0, "levels are in whole parts of the scale"
                self.weights, self.levels = weights, [level / (powers._scale / scale) for level in levels]

            def draw(
                self,
                below: object,
                steps: Iterator[int] = steps,
                open_choice: list[tuple[Sequence[int], Sequence[Fraction]]] = open_choice,
            ) -> int:
                for step in steps:
                    return step
                open_choice.append((self.weights, self.levels))
                raise _More

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "LevelChoice", Forced)
            try:
                answer = tuple(draw().tolist())
                found[answer] = found.get(answer, 0.0) + chance
            except _More:
                weights, levels = open_choice[0]
                masses = np.array([float(w) for w in weights]) * np.exp(
                    -np.array([float(v - min(levels)) for v in levels]) / float(scale)
                )
                masses /= masses.sum()
                paths += [((*path, i), chance * float(mass)) for i, mass in enumerate(masses)]
    return found


@lru_cache(maxsize=1 << 14)
def quantile_law(rows: Rows, at: Fraction) -> Reals:
    """Probabilities of 0..LAST for one cell: of each piece from the code, and uniform inside."""
    where, value = np.zeros(len(rows), dtype=np.int64), np.array(rows, dtype=np.int64)
    histogram = ExactHistogram(1, where, value, np.ones_like(where))

    class Middle:
        """`below` that stays at the first value of a piece."""

        def __enter__(self) -> Middle:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        @staticmethod
        def below(limit: int) -> int:
            return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Entropy", Middle)
        found = law_of(lambda: ExponentialQuantile().draw(histogram, at, 0, LAST, SCALE), SCALE)
    starts = sorted(start for (start,) in found)
    law = np.empty(LAST + 1)
    for start, after in zip(starts, [*starts[1:], LAST + 1], strict=True):
        law[start:after] = found[start,] / (after - start)
    return law


def score(rows: Rows, at: Fraction, x: int) -> Fraction:
    n = len(rows)
    return max(sum(row < x for row in rows) - at * n, sum(row > x for row in rows) - (1 - at) * n, Fraction(0))


def multisets(most: int, least: int = 0) -> list[Rows]:
    return [rows for n in range(least, most + 1) for rows in combinations_with_replacement(range(LAST + 1), n)]


def claimed(event: Event) -> float:
    one = event.event if isinstance(event, Repeated) else event
    assert isinstance(one, BoundedRange)
    return float(one.epsilon * (event.count if isinstance(event, Repeated) else 1))


def losses(before: Rows, after: Rows, at: Fraction) -> Reals:
    return np.asarray(np.log(quantile_law(tuple(sorted(after)), at) / quantile_law(tuple(sorted(before)), at)))


@pytest.mark.parametrize("at", FRACTIONS)
def test_the_law_of_the_code_is_the_exponential_mechanism(at: Fraction) -> None:
    for rows in multisets(4):
        weights = np.array([math.exp(-score(rows, at, x) / SCALE) for x in range(LAST + 1)])
        assert quantile_law(rows, at) == pytest.approx(weights / weights.sum(), rel=1e-13)


@pytest.mark.thin
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("at", FRACTIONS)
def test_a_quantile_of_one_cell_stays_in_its_range_and_reaches_it(at: Fraction, rows: int) -> None:
    """One cell: units of up to so many rows added, and replaced."""
    event = quantile_event
    added, replaced = (claimed(event(SCALE, at, how, rows=rows, cells=1)) for how in (ADD, REPLACE))
    widest, largest = {ADD: 0.0, REPLACE: 0.0}, {ADD: 0.0, REPLACE: 0.0}
    for rest in multisets(MOST if at == Fraction(1, 4) else 4):
        for new, old in product(multisets(rows), repeat=2):
            loss = losses(rest + old, rest + new, at)
            how = REPLACE if old and new else ADD
            widest[how] = max(widest[how], float(np.ptp(loss)))
            largest[how] = max(largest[how], float(abs(loss).max()))
    for how, claim in ((ADD, added), (REPLACE, replaced)):
        assert max(widest[how], largest[how]) <= claim + LOOSE
        assert widest[how] == pytest.approx(claim, rel=1e-9)


@pytest.mark.parametrize("at", FRACTIONS)
def test_the_profile_of_a_quantile_is_below_that_of_its_range(at: Fraction) -> None:
    event = quantile_event(SCALE, at, ADD)
    assert isinstance(event, BoundedRange)
    for place in (-1, -0.5, 0, 0.3, 0.9):
        x = Fraction(place) * event.epsilon
        bound = float(bounded_range.delta(event.epsilon, x)) + LOOSE
        for rest, new in product(multisets(3), range(LAST + 1)):
            p, q = quantile_law(tuple(sorted((*rest, new))), at), quantile_law(rest, at)
            for first, second in ((p, q), (q, p)):
                assert float(np.maximum(first - math.exp(x) * second, 0).sum()) <= bound


@pytest.mark.thin
@pytest.mark.parametrize("at", [Fraction(0), Fraction(1, 4), Fraction(1, 2)])
@pytest.mark.parametrize(("groups", "rows", "total"), [(1, 1, 1), (2, 1, 2), (2, 2, 3), (2, 2, 2)])
def test_a_unit_in_several_cells_stays_in_the_sum_of_its_ranges(
    at: Fraction, groups: int, rows: int, total: int
) -> None:
    """Four cells. The loss of the whole output is a sum over cells, so its extremes are sums of extremes."""
    # what a unit can do to one cell: (rows that leave, rows that come) -> the widest range over all tables and values
    widest: dict[tuple[int, int], float] = {}
    for gone, new in product(range(rows + 1), repeat=2):
        ranges = (
            float(np.ptp(losses(rest + old, rest + come, at)))
            for rest in multisets(MOST)
            for old in multisets(gone, gone)
            for come in multisets(new, new)
        )
        widest[gone, new] = max(ranges)
    held = [
        spread
        for spread in product(range(rows + 1), repeat=4)
        if sum(spread) <= total and sum(n > 0 for n in spread) <= groups
    ]
    event = quantile_event
    added = claimed(event(SCALE, at, ADD, rows=rows, groups=groups, total=total, cells=4))
    replaced = claimed(event(SCALE, at, REPLACE, rows=rows, groups=groups, total=total, cells=4))
    most_added = max(sum(widest[0, n] for n in spread) for spread in held)
    pairs = ((sum(widest[c] for c in zip(old, new, strict=True)), old, new) for old in held for new in held)
    most_replaced = max(wide for wide, _, _ in pairs)
    assert most_added <= added + LOOSE
    assert most_replaced <= replaced + LOOSE
    if (groups, rows, total) != (2, 2, 3):  # three rows of at most two a cell are charged as two full cells
        assert most_added == pytest.approx(added, rel=1e-9)
        assert most_replaced == pytest.approx(replaced, rel=1e-9)


# ---------------------------------------------------------------- the most frequent keys


@cache
def top_law(counts: tuple[int, ...], k: int) -> dict[tuple[int, ...], float]:
    return law_of(lambda: ExponentialTopK().draw(Exact(np.array(counts)), k, SCALE), SCALE)


def test_the_law_of_top_k_is_rounds_without_replacement() -> None:
    for counts in product(range(3), repeat=3):
        for order, chance in top_law(counts, 2).items():
            left, wanted = list(range(3)), 1.0
            for key in order:
                weights = {i: math.exp(counts[i] / SCALE) for i in left}
                wanted *= weights[key] / sum(weights.values())
                left.remove(key)
            assert chance == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("change", [1, 2])
@pytest.mark.parametrize("neighboring", [ADD, REPLACE])
def test_every_round_of_top_k_stays_in_its_range_and_all_in_their_sum(neighboring: Neighboring, change: int) -> None:
    """Units that add up to ``change`` to each of three counts, added or replaced; the table beside them is anything."""
    k = 2
    one = claimed(top_k_event(SCALE, 1, neighboring, change=change))
    whole = claimed(top_k_event(SCALE, k, neighboring, change=change))
    widest = farthest = 0.0
    unit = list(product(range(change + 1), repeat=3))
    for rest in product(range(2), repeat=3):
        for old, new in product([(0, 0, 0)] if neighboring is ADD else unit, unit):
            before = top_law(tuple(a + b for a, b in zip(rest, old, strict=True)), k)
            after = top_law(tuple(a + b for a, b in zip(rest, new, strict=True)), k)
            farthest = max(farthest, *(abs(math.log(after[order] / before[order])) for order in before))
            for first in range(3):  # the second round, given the first; and the first
                rounds = [o for o in before if o[0] == first]
                both = [math.log(after[o] / before[o]) for o in rounds]
                widest = max(widest, max(both) - min(both))
            firsts = [
                math.log(sum(after[o] for o in after if o[0] == f) / sum(before[o] for o in before if o[0] == f))
                for f in range(3)
            ]
            widest = max(widest, max(firsts) - min(firsts))
    assert widest == pytest.approx(one, rel=1e-9)
    assert one * 0.5 < farthest <= whole + LOOSE


# ---------------------------------------------------------------- private keys


@cache
def shown(noise: str, scale: float, threshold: int, count: int) -> float:
    """P(count + noise >= threshold), from the lattice; a key that does not occur is never shown."""
    k = np.arange(-400, 401, dtype=np.float64)
    weight = np.exp(-np.abs(k) / scale) if noise == "laplace" else np.exp(-(k**2) / 2 / scale**2)
    return float(weight[k >= threshold - count].sum() / weight.sum()) if count else 0.0


def subsets(chances: Sequence[float]) -> Reals:
    """The law of a set of independent keys: 2^keys probabilities."""
    law = np.ones(1)
    for chance in chances:
        law = np.multiply.outer(law, np.array([1 - chance, chance])).ravel()
    return law


def units(keys: int, groups: int) -> list[tuple[int, ...]]:
    """Which keys one unit can hold, as 0/1 vectors; the empty one is a unit that is not there."""
    chosen = [held for n in range(groups + 1) for held in combinations(range(keys), n)]
    return [tuple(int(key in held) for key in range(keys)) for held in chosen]


def worst(law: Callable[[Rows], Reals], rests: list[Rows], groups: int, how: Neighboring, epsilon: float) -> float:
    """The largest hockey-stick over all tables and neighbours, in both directions."""
    found = 0.0
    choices = units(len(rests[0]), groups)
    pairs = [(choices[0], new) for new in choices] if how is ADD else list(combinations(choices[1:], 2))
    for rest in rests:
        for old, new in pairs:
            if old != new:
                p = law(tuple(a + b for a, b in zip(rest, old, strict=True)))
                q = law(tuple(a + b for a, b in zip(rest, new, strict=True)))
                for first, second in ((p, q), (q, p)):
                    found = max(found, float(np.maximum(first - math.exp(epsilon) * second, 0).sum()))
    return found


@pytest.mark.thin
@pytest.mark.parametrize(
    ("noise", "scale"), [("laplace", Fraction(1)), ("laplace", Fraction(3)), ("gaussian", Fraction(3, 2))]
)
@pytest.mark.parametrize(("groups", "how"), [(1, ADD), (2, ADD), (1, REPLACE), (2, REPLACE)])
def test_a_threshold_costs_no_more_than_its_event(noise: str, scale: Fraction, groups: int, how: Neighboring) -> None:
    """Exact hockey-sticks of the whole mechanism against noise on shared keys composed with delta for the unit's own."""
    assert noise in ("laplace", "gaussian")
    threshold = least_threshold(noise, scale, Fraction(1, 50), groups)
    delta = threshold_delta(noise, scale, threshold, groups)  # type: ignore[arg-type]
    sides = 1 if how is ADD else 2
    event = event_of(f"{noise}_threshold", scale, Sensitivity.of_shifts((1,) * (sides * groups)), delta=delta)
    assert isinstance(event, Composed)
    hidden, unseen = event.events
    assert isinstance(hidden, DiscreteLaplace | DiscreteGaussian)
    assert isinstance(unseen, Approximate)
    claim = together([moved(hidden, (1,) * (sides * groups)), black_box(unseen)])
    counts = (0, 1, threshold - 1, threshold, threshold + 2)
    rests = [tuple(rest) for rest in combinations_with_replacement(counts, sides * groups)]

    def law(table: Rows, at: int = threshold) -> Reals:
        return subsets([shown(noise, float(scale), at, count) for count in table])

    pure = float(sides * groups / scale)
    for epsilon in (0.0, 0.2 * pure, 0.6 * pure, 0.9 * pure):
        assert worst(law, rests, groups, how, epsilon) <= claim.delta(epsilon) + LOOSE
    # from the pure epsilon on, only what one unit alone holds is left: it reaches the claim, and one less breaks it
    if noise == "laplace":
        assert worst(law, rests, groups, how, pure) == pytest.approx(float(delta), rel=1e-9)
        assert worst(lambda table: law(table, threshold - 1), rests, groups, how, pure) > 1.2 * float(delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(Fraction(1), Fraction(1, 50)), (Fraction(1, 3), Fraction(1, 20))])
@pytest.mark.parametrize(("groups", "how"), [(1, ADD), (2, ADD), (1, REPLACE)])
def test_the_optimal_selection_costs_no_more_than_its_event(
    epsilon: Fraction, delta: Fraction, groups: int, how: Neighboring
) -> None:
    coins = Coins(epsilon, delta)
    keys = groups * (1 if how is ADD else 2)
    event = event_of("optimal_selection", 1 / epsilon, Sensitivity.of_shifts((1,) * keys), delta=keys * delta)
    each = event.event if isinstance(event, Repeated) else event
    assert isinstance(each, Approximate)
    claim = together([black_box(each)] * (event.count if isinstance(event, Repeated) else 1))

    def chance(count: int) -> float:
        low, _, fine = coins.chance(count, 64)
        return float(Fraction(low, 1 << fine))

    half = OptimalSelection().half_point(epsilon, delta)
    sides = 1 if how is ADD else 2
    rests = [tuple(r) for r in combinations_with_replacement(range(2 * half + 2), sides * groups)]
    for at in (0.0, 0.5, 1.0, 2.0):
        found = worst(lambda table: subsets([chance(c) for c in table]), rests, groups, how, at * float(epsilon))
        assert found <= claim.delta(at * float(epsilon)) + LOOSE
        if at == 1 and groups == sides == 1:
            assert found == pytest.approx(float(delta), rel=1e-9)
