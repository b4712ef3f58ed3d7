"""Attempts to make an accountant claim less than the truth: extreme and unequal draws, huge counts, edges of lattices.

The truth is listed in integers of 1,700 bits, from nothing but the mass functions: outcomes in two halves, of which one
is sorted with its tail sums. It is good to e-300 and below while losses stay below 700.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, combinations_with_replacement
from math import comb, log
from typing import Any, Literal, NamedTuple

import mpmath
import numpy as np
import pytest

from dprelease.errors import UnsupportedEvent
from dprelease.plan.verify.mathematics.draws import Cell, worst
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.kov_many import Smoothed
from dprelease.privacy.event import (
    Approximate,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Parallel,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.unit import Neighboring

BITS, FINE = 1700, 1 << 420
ONE = 1 << BITS
M: Any = mpmath.MPContext()
M.prec = 1800
SHORT: Any = mpmath.MPContext()
SHORT.dps = 60

Outcome = tuple[int, int, int]
"""Loss in units of 1 / FINE, probabilities under both laws in units of 1 / ONE."""


class Piece(NamedTuple):
    """One cell that moves: a pure black box, or noise of a scale with its shift."""

    kind: Literal["pure", "laplace", "gaussian", "smooth"]
    value: Fraction
    shift: int = 1


def real(value: Fraction) -> Any:
    return M.mpf(value.numerator) / value.denominator


def fixed(value: Any) -> int:
    return int(M.floor(value * ONE))


def loss_of(value: Fraction) -> int:
    return round(value * FINE)


@lru_cache(maxsize=256)
def outcomes(piece: Piece) -> list[Outcome]:
    """All outputs of one cell, listed from the mass function."""
    value, s = piece.value, piece.shift
    if piece.kind == "pure":
        return several(piece, 1)
    if piece.kind == "smooth":
        return list(quantised(value))
    if piece.kind == "laplace":
        q, step = M.exp(-1 / real(value)), loss_of(1 / value)
        under_p = [1 / (1 + q), *((1 - q) * q**k / (1 + q) for k in range(1, s)), q**s / (1 + q)]
        return [((s - 2 * k) * step, fixed(under_p[k]), fixed(under_p[s - k])) for k in range(s + 1)]
    reach = int(17 * float(value)) + 3 + 2 * s
    weight = [M.exp(-((M.mpf(k) / real(value)) ** 2) / 2) for k in range(reach + s + 1)]
    whole = weight[0] + 2 * sum(weight[1:])
    top, step = loss_of(Fraction(s * s) / (2 * value**2)), loss_of(s / value**2)
    span = range(-reach, reach + 1)
    return [(top - k * step, fixed(weight[abs(k)] / whole), fixed(weight[abs(k - s)] / whole)) for k in span]


def quantised(size: Fraction, cells: int = 800) -> Iterator[Outcome]:
    """Continuous Laplace noise of which only the interval is reported: never more lossy than the noise itself."""
    falls = [M.exp(-real(size) * j / cells) for j in range(cells + 1)]
    yield loss_of(size), fixed(M.mpf(1) / 2), fixed(falls[-1] / 2)
    yield -loss_of(size), fixed(falls[-1] / 2), fixed(M.mpf(1) / 2)
    for j in range(cells):
        p, q = (falls[j] - falls[j + 1]) / 2, (falls[cells - j - 1] - falls[cells - j]) / 2
        yield int(M.nint(M.log(p / q) * FINE)), fixed(p), fixed(q)


def together(one: Iterable[Outcome], other: list[Outcome]) -> list[Outcome]:
    merged: dict[int, list[int]] = {}
    for first, p, q in one:
        for second, u, v in other:
            entry = merged.setdefault(first + second, [0, 0])
            entry[0] += p * u >> BITS
            entry[1] += q * v >> BITS
    return [(loss, p, q) for loss, (p, q) in merged.items()]


def several(piece: Piece, n: int) -> list[Outcome]:
    """The same cell n times: a binomial law where it is pure."""
    if piece.kind == "pure":
        ratio, step, terms = M.exp(-real(piece.value)), loss_of(piece.value), [0] * (n + 1)
        middle = int(n * ratio / (1 + ratio))  # from there outwards: the ends may be far below 1 / ONE
        terms[middle] = fixed(comb(n, middle) * ratio**middle / (1 + ratio) ** n)
        falls, rises = fixed(ratio), fixed(1 / ratio)
        for j in range(middle, n):
            terms[j + 1] = (terms[j] * falls >> BITS) * (n - j) // (j + 1)
        for j in range(middle, 0, -1):
            terms[j - 1] = (terms[j] * rises >> BITS) * j // (n - j + 1)
        return [((n - 2 * j) * step, terms[j], terms[n - j]) for j in range(n + 1)]
    found = outcomes(piece)
    for _ in range(n - 1):
        found = together(found, outcomes(piece))
    return found


class Truth:
    """The composed loss, listed."""

    def __init__(self, pieces: Counter[Piece], failures: Iterable[tuple[Fraction, int]] = ()) -> None:
        halves: list[list[Outcome]] = [[(0, ONE, ONE)], [(0, ONE, ONE)]]
        for group in sorted((several(*item) for item in pieces.items()), key=len, reverse=True):
            halves.sort(key=len)
            halves[0] = together(halves[0], group)
        self.few, many = sorted(halves, key=len)
        many.sort()
        self.losses = [loss for loss, _, _ in many]
        self.above_p = [*accumulate((p for _, p, _ in reversed(many)), initial=0)][::-1]
        self.above_q = [*accumulate((q for _, _, q in reversed(many)), initial=0)][::-1]
        self.kept = M.mpf(1)
        for delta, n in failures:
            self.kept *= (1 - real(delta)) ** n

    def delta(self, epsilon: Fraction) -> Any:
        at, p, q = loss_of(epsilon), 0, 0
        for loss, one_p, one_q in self.few:
            first = bisect_right(self.losses, at - loss)
            p += one_p * self.above_p[first]
            q += one_q * self.above_q[first]
        excess = (M.mpf(p) - M.exp(real(epsilon)) * q) / (M.mpf(ONE) * ONE)
        return 1 - self.kept + self.kept * max(excess, M.mpf(0))


def hold(event: Event, truth: Truth, deltas: Iterable[Fraction], epsilons: Iterable[Fraction]) -> int:
    """Every accountant in both directions; returns how many claims were held against the truth."""
    checked = 0
    deltas, epsilons = list(deltas), list(epsilons)
    for accountant in ACCOUNTANTS.values():
        for delta in deltas:
            try:
                epsilon = accountant.epsilon(event, delta)
            except UnsupportedEvent:
                continue
            assert epsilon >= 0
            if epsilon < 700:
                assert truth.delta(epsilon) <= real(delta) * (1 + M.mpf(10) ** -12), (accountant.name, event, delta)
                checked += 1
        for epsilon in epsilons:
            try:
                found = accountant.delta(event, epsilon)
            except UnsupportedEvent:
                continue
            assert 0 <= found <= 1
            least = truth.delta(epsilon) * (1 - M.mpf(10) ** -18) - M.mpf(10) ** -150
            assert real(found) >= least, (accountant.name, event, epsilon)
            checked += 1
    return checked


def drawn(choose: random.Random) -> tuple[Event, list[Piece], list[tuple[Fraction, int]]]:
    """One draw with its cells: extreme as often as not."""

    def log_uniform(low: float, high: float) -> Fraction:
        found = Fraction(float(np.exp(choose.uniform(log(low), log(high)))))
        return max(found.limit_denominator(choose.choice([10**3, 10**6, 2**60])), Fraction(1, 1000))

    kind = choose.choice(["pure", "fails", "laplace", "gaussian", "pure"])
    if kind in ("pure", "fails"):
        box = Approximate(epsilon=log_uniform(1e-6, 20), delta=Fraction(kind == "fails") / 10 ** choose.randint(2, 30))
        return box, [Piece("pure", box.epsilon)], [(box.delta, 1)]
    change = tuple(choose.randint(1, choose.choice([1, 3, 20])) for _ in range(choose.choice([1, 1, 2])))
    if kind == "laplace":
        scale = log_uniform(0.2, choose.choice([20, 1e7]))
        moved: Event = DiscreteLaplace(scale=scale, sensitivity=Sensitivity.of_shifts(change))
        return moved, [Piece("laplace", scale, c) for c in change], []
    scale = log_uniform(0.4, 8)
    moved = DiscreteGaussian(scale=scale, sensitivity=Sensitivity.of_shifts(change))
    return moved, [Piece("gaussian", scale, c) for c in change], []


def outcomes_of(pieces: Counter[Piece]) -> tuple[int, int]:
    small, large = 1, 1
    each = {"pure": 1, "laplace": 1, "gaussian": 0, "smooth": 0}
    sizes = [
        n * (p.shift if each[p.kind] else int(34 * float(p.value)) + 5 * p.shift + 6) + 1 for p, n in pieces.items()
    ]
    for size in sorted(sizes, reverse=True):
        small, large = sorted((small * size, large))
    return small, large


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(4, 60))])
def test_no_claim_about_random_unequal_draws_is_below_the_truth(seed: int) -> None:
    choose, checked = random.Random(seed), 0
    while not checked:
        events, pieces, failures = [], Counter[Piece](), []
        for _ in range(choose.randint(1, 6)):
            event, cells, fails = drawn(choose)
            n = choose.choice([1, 1, 2, 3, 40]) if cells[0].kind == "pure" else 1
            events.append(Repeated(event=event, count=n))
            pieces.update({cell: n * m for cell, m in Counter(cells).items()})
            failures += [(delta, n) for delta, _ in fails]
        tops = [n * (p.value if p.kind == "pure" else p.shift / p.value * 4) for p, n in pieces.items()]
        if outcomes_of(pieces)[0] > 400 or outcomes_of(pieces)[1] > 6_000 or sum(tops) > 200:
            continue
        truth, top = Truth(pieces, failures), sum(tops, Fraction(0))
        deltas = [
            Fraction(10) ** -choose.randint(1, 40),
            Fraction(float(truth.delta(Fraction(0)))) * Fraction(9999, 10000),
        ]
        least = 1 - truth.kept
        deltas = [delta for delta in deltas if 0 < delta < 1 and real(delta) > least]
        epsilons = [Fraction(0), top * Fraction(choose.random()), top * (1 - Fraction(1, 10 ** choose.randint(2, 30)))]
        checked = hold(Composed(events=tuple(events)), truth, deltas, epsilons)


@pytest.mark.slow
@pytest.mark.parametrize(("each", "count"), [("1/1000000", 100_000), ("1/100", 5_000), ("1/10", 2_000), ("19", 30)])
def test_very_many_equal_draws_are_a_binomial_sum(each: str, count: int) -> None:
    one = Fraction(each)
    truth, event = Truth(Counter({Piece("pure", one): count})), Repeated(event=Approximate(epsilon=one), count=count)
    at_zero = Fraction(float(truth.delta(Fraction(0))))
    deltas = [Fraction(1, 10**40), Fraction(1, 10**9), min(at_zero, Fraction(3, 10)) * Fraction(999, 1000)]
    assert hold(event, truth, deltas, [Fraction(0), one * count / 7, one * count * Fraction(999, 1000)])


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(("base", "apart", "count"), [("1/3", "1e-9", 20), ("2", "1e-5", 12), ("1/100", "1e-12", 40)])
def test_draws_that_are_almost_on_a_lattice_read_next_to_its_points(base: str, apart: str, count: int) -> None:
    one, other = Fraction(base), Fraction(base) * (1 + Fraction(apart))
    truth = Truth(Counter({Piece("pure", one): count, Piece("pure", other): count}))
    event = Composed(events=tuple(Repeated(event=Approximate(epsilon=e), count=count) for e in (one, other)))
    point = 2 * one * (count // 3)
    near = [point + Fraction(sign * 10**k, 10**15) for sign in (-1, 1) for k in (0, 6)]
    assert hold(event, truth, [Fraction(1, 10**30), Fraction(1, 10)], [point, *near])
    for delta in (Fraction(1, 10**30), Fraction(1, 10**6)):  # the bound for very many, which the table makes way for
        found = Smoothed.at({one: count, other: count}, log_delta=log(delta)).epsilon(delta)
        assert truth.delta(found) <= real(delta)


@pytest.mark.thin(first=3)
@pytest.mark.parametrize("power", [4, 8, 12, 16, 18, 30, 60, 300])
def test_next_to_the_sum_of_all_epsilons_nothing_fails_or_is_lost(power: int) -> None:
    """A float of epsilon can lie above the largest loss: once a search asked for 10^16 frequencies there."""
    choose = random.Random(power)
    for _ in range(5):
        sizes = [Fraction(choose.uniform(0.01, 3)) for _ in range(choose.randint(1, 4))] + [Fraction(5, 7)]
        event, total = Composed(events=tuple(Approximate(epsilon=e) for e in sizes)), sum(sizes, Fraction(0))
        truth = Truth(Counter(Piece("pure", e) for e in sizes))
        small = Fraction(1, 10**power)
        assert hold(event, truth, [small], [total * (1 - small), total])
        claim, true = ACCOUNTANTS["pld"].delta(event, total * (1 - small)), truth.delta(total * (1 - small))
        assert real(claim) <= (true * M.mpf("1.05") if power <= 12 else M.mpf(10) ** -12)
        assert ACCOUNTANTS["pld"].epsilon(event, small) <= total


def test_far_below_every_likely_loss_delta_is_one_at_once() -> None:
    boxes = Approximate(epsilon=Fraction(1, 3))
    for shift in (40, 1000):
        wide = DiscreteGaussian(scale=Fraction(500000001, 10**9), sensitivity=Sensitivity.of_one_cell(shift))
        assert 1 - ACCOUNTANTS["pld"].delta(Composed(events=(wide, boxes)), Fraction(5000 * (shift > 40))) < 1e-9


@pytest.mark.thin(first=2)
@pytest.mark.parametrize("epsilon", ["0", "1/2", "2", "9"])
def test_continuous_noise_beside_integer_noise(epsilon: str) -> None:
    """Laplace noise reported in 800 intervals is not more lossy than itself; a Gaussian mixes analytic curves."""
    at = Fraction(epsilon)
    smooth, integer = Fraction(7, 5), Fraction(3, 2)
    one = Laplace(scale=1 / smooth, sensitivity=Sensitivity.of_one_cell(1))
    other = DiscreteGaussian(scale=integer, sensitivity=Sensitivity.of_one_cell(2))
    truth = Truth(Counter({Piece("smooth", smooth): 1, Piece("gaussian", integer, 2): 1}))
    event = Composed(events=(one, other))
    assert hold(event, truth, [Fraction(1, 10**12), Fraction(1, 5)], [at])
    assert real(ACCOUNTANTS["pld"].delta(event, at)) <= truth.delta(at) * (1 + M.mpf(10) ** -4)

    normal = Gaussian(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1))
    mixed = SHORT.mpf(0)
    for loss, p, _ in outcomes(Piece("gaussian", integer, 2)):
        left = (SHORT.mpf(at.numerator) / at.denominator - SHORT.mpf(loss) / FINE) * 2
        above, below = (SHORT.erfc((left + SHORT.mpf(sign) / 4) / SHORT.sqrt(2)) / 2 for sign in (-1, 1))
        mixed += SHORT.mpf(p) / ONE * (above - SHORT.exp(left / 2) * below)
    claim = real(ACCOUNTANTS["pld"].delta(Composed(events=(normal, other)), at))
    assert mixed <= claim <= mixed * (1 + M.mpf(10) ** -5)


@pytest.mark.parametrize("relation", list(Neighboring))
def test_parts_in_parallel_beside_other_draws(relation: Neighboring) -> None:
    boxes = [Fraction(1, 2), Fraction(2, 3), Fraction(1, 7)]
    parts = tuple(Approximate(epsilon=e) for e in boxes)
    beside = DiscreteLaplace(scale=Fraction(3), sensitivity=Sensitivity.of_shifts((4, 1)))
    event = Composed(events=(Parallel(events=parts, neighboring=relation), beside))
    touched = [boxes[1]] if relation is Neighboring.ADD_REMOVE else boxes[:2]
    cells = Counter([*(Piece("pure", e) for e in touched), *(Piece("laplace", Fraction(3), c) for c in (4, 1))])
    assert hold(event, Truth(cells), [Fraction(1, 10**20), Fraction(1, 10)], [Fraction(0), Fraction(1), Fraction(2)])


def test_a_claim_a_millionth_lower_would_be_found_out() -> None:
    pieces = Counter({Piece("pure", Fraction(1, 9)): 300, Piece("laplace", Fraction(3), 2): 2})
    truth = Truth(pieces)
    draws = DiscreteLaplace(scale=Fraction(3), sensitivity=Sensitivity.of_shifts((2, 2)))
    event = Composed(events=(draws, Repeated(event=Approximate(epsilon=Fraction(1, 9)), count=300)))
    for delta in (Fraction(1, 10**12), Fraction(1, 100)):
        epsilon = ACCOUNTANTS["pld"].epsilon(event, delta)
        assert truth.delta(epsilon * (1 - Fraction(1, 10**6))) > real(delta) >= truth.delta(epsilon)


def moves(q: Fraction, shifts: Iterable[int]) -> dict[int, Fraction]:
    """Exact law of the loss of discrete Laplace cells in units of 1 / scale, with q = exp(-1 / scale) rational."""
    law = {0: Fraction(1)}
    for s in shifts:
        one = {s: 1 / (1 + q), -s: q**s / (1 + q)} | {s - 2 * k: (1 - q) * q**k / (1 + q) for k in range(1, s)}
        merged: Counter[int] = Counter()
        for (first, p), (second, u) in ((a, b) for a in law.items() for b in one.items()):
            merged[first + second] += p * u  # type: ignore[assignment]
        law = dict(merged)  # type: ignore[arg-type]
    return law


def profile(law: dict[int, Fraction], x: Fraction, q: Fraction) -> Fraction:
    """Delta at epsilon = ln x."""
    return sum((p * (1 - x * q**loss) for loss, p in law.items() if x * q**loss < 1), Fraction(0))


@pytest.mark.parametrize("q", [Fraction(1, 1000), Fraction(1, 10), Fraction(7, 10), Fraction(99, 100)])
def test_one_cell_that_moves_by_the_sum_dominates_several_exactly(q: Fraction) -> None:
    """docs/proofs/discrete-laplace-curves.md, Lemma 1 and Theorem 3: no tolerance, at and between all kinks."""
    vectors = [*combinations_with_replacement(range(1, 7), 2), (1, 1, 1), (3, 2, 2), (1,) * 6]
    for vector in vectors:
        total = sum(vector)
        several_cells, one_cell, less = moves(q, vector), moves(q, [total]), moves(q, [total - 1])
        points = [
            (x * (4 - i) + x / q * i) / 4 for j in range(-total - 1, total + 1) for x in [q**-j] for i in (0, 1, 2)
        ]
        assert all(profile(several_cells, x, q) <= profile(one_cell, x, q) for x in points)
        assert any(profile(several_cells, x, q) > profile(less, x, q) for x in points)
        assert all(profile(one_cell, q ** (2 * j - total), q) == 1 - q**j for j in range(total + 1))


def test_ways_are_dropped_only_for_one_cell_of_equal_scale_that_moves_by_the_sum() -> None:
    def way(*shifts: int) -> tuple[Cell, ...]:
        return tuple(Cell("laplace", Fraction(5), s) for s in shifts)

    assert worst((way(2, 1), way(3), way(1, 1, 1))) == (way(3),)
    assert worst((way(2, 2), way(3))) == (way(2, 2), way(3))
    gaussian = ((Cell("gaussian", Fraction(5), 3),), (Cell("gaussian", Fraction(5), 2),) * 2)
    assert worst(gaussian) == gaussian
