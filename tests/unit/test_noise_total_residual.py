"""Total-and-residual noise: its share, its law against sums over a box, and every choice of its sampler."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.noise import JOINT_MECHANISMS, Exact
from dprelease.noise.mechanisms import total_residual
from dprelease.noise.mechanisms.lattice_ball import numerator
from dprelease.noise.mechanisms.total_residual import (
    FEWEST,
    TotalResidualLaw,
    TotalResidualMechanism,
    TotalResidualSampler,
    total_residual_std,
    total_share,
)
from dprelease.noise.native.entropy import TiltedChoice
from dprelease.privacy.rounding import CONTEXT, real
from tests.reference_comparisons import count_knorm_std
from tests.unit.test_noise_knorm_sampler import _TooFar, collected, distribution, leaves

F = Fraction


@pytest.mark.parametrize("k", [2, 5, 12, 20, 30, 60, 100, 1000])
def test_the_share_is_near_the_best_one(k: int) -> None:
    def variance(share: float) -> float:
        return (k + 1) * (k + 2) / 12 / (1 - share) ** 2 + 1 / (2 * share**2)

    share = total_share(k)
    least = min(variance(at / 100_000) for at in range(1, 50_000))
    assert 0 < share < F(1, 2)
    assert share.denominator <= 256
    assert variance(float(share)) <= least * (1.003 if k <= 100 else 1.03)
    assert total_residual_std(k, 2.0) == pytest.approx(least**0.5 / 2, rel=1e-6)


def test_from_twelve_counts_on_it_has_less_noise_than_the_count_ball() -> None:
    better = [k for k in range(2, 200) if total_residual_std(k, 1) < count_knorm_std(k, 1)]
    assert better == list(range(FEWEST, 200))
    assert total_residual_std(10**6, 1) / count_knorm_std(10**6, 1) == pytest.approx(0.5**0.5, rel=1e-3)
    for k in (FEWEST, 20, 60):
        own, other = (JOINT_MECHANISMS[name].law(F(1), k).variance for name in ("total_residual", "count_knorm"))
        assert own < other


def test_one_count_has_no_residual() -> None:
    with pytest.raises(BrokenPromiseError, match="two counts"):
        total_share(1)


# scalars of docs/proofs/total-residual.md, section 6, worked out beforehand by another program
@pytest.mark.parametrize(("k", "deviation"), [(12, 5.8999), (20, 8.5091), (30, 11.6816), (50, 17.8840), (100, 33.0442)])
def test_the_deviation_of_a_count_at_epsilon_one(k: int, deviation: float) -> None:
    assert TotalResidualMechanism().law(F(1), k).variance ** 0.5 == pytest.approx(deviation, rel=2e-4)


def test_the_deviation_of_two_counts() -> None:
    law = TotalResidualLaw(F(10, 11), 2, F(4, 11))
    assert law.variance**0.5 == pytest.approx(2.245098, abs=1e-6)


@pytest.mark.parametrize(
    ("k", "scale", "share"), [(2, F(1, 2), F(4, 11)), (2, F(2, 3), F(1, 4)), (3, F(1, 2), F(2, 5))]
)
def test_the_law_of_a_count_is_the_sum_over_a_box(k: int, scale: Fraction, share: Fraction) -> None:
    """From nothing but exp(-N / scale) at every (z, m) of a box, outside of which is less than 1e-8."""
    reach = 26 if k == 2 else 14
    z = np.array(list(product(range(-reach, reach + 1), repeat=k)))
    weight = np.zeros(len(z))
    for m in range(-2 * reach, 2 * reach + 1):
        size = float(1 - share) * np.abs(2 * z - m).max(axis=1) + float(share) * abs(m)
        weight += np.exp(-size / float(scale))
    weight /= weight.sum()
    law = TotalResidualLaw(scale, k, share)
    for t in range(6):
        assert law.mass(t) == pytest.approx(float(weight[z[:, 0] == t].sum()), abs=1e-7)
        assert law.mass(-t) == law.mass(t)
        assert law.tail(t) == pytest.approx(float(weight[np.abs(z[:, 0]) > t].sum()), abs=1e-7)
    assert law.variance == pytest.approx(float((weight * z[:, 0] ** 2).sum()), rel=1e-5)


@pytest.mark.parametrize(
    ("k", "scale"),
    [(2, F(7, 3)), (5, F(1)), (12, F(3)), (20, F(1, 10)), pytest.param(60, F(1), marks=pytest.mark.slow)],
)
def test_the_law_of_a_count_is_the_sum_over_radii_and_totals(k: int, scale: Fraction) -> None:
    """Another way to the same: x_1 and m one by one, their weights by the numbers of points."""
    share = total_share(k)
    rates = float((1 - share) / scale), float(share / scale)
    reach = int(40 * (k + 40) * float(scale)) + 50
    radii = np.arange(reach + 1)
    logs = (k - 1) * np.log1p(radii) - rates[0] * radii
    weight = np.exp(logs - logs.max())
    totals = {parity: np.cumsum(np.where(radii % 2 == parity, weight, 0)[::-1])[::-1] for parity in (0, 1)}
    far = int(45 / rates[1]) + 2
    m = np.arange(-far, far + 1)
    beside = np.exp(-rates[1] * np.abs(m))
    law, found = TotalResidualLaw(scale, k, share), []
    places = range(int(6 * law.variance**0.5) + 5)
    for t in places:  # x = 2 t - m has m's parity
        x = np.abs(2 * t - m)
        even = np.where(m % 2 == 0, totals[0][np.minimum(x, reach)], totals[1][np.minimum(x, reach)])
        found.append(float((beside * even * (x <= reach)).sum()))
    ratio = found[0] / law.mass(0)
    for t in places:
        assert found[t] / ratio == pytest.approx(law.mass(t), rel=1e-7, abs=1e-13)


@pytest.mark.parametrize(
    ("k", "scale"),
    [(2, F(1, 3)), (12, F(1)), (20, F(10**4)), pytest.param(60, F(10**12), marks=pytest.mark.slow), (12, F(1, 50))],
)
@pytest.mark.parametrize("confidence", [F(1, 2), F(95, 100), 1 - F(1, 10**12)])
def test_a_margin_is_the_smallest_that_holds(k: int, scale: Fraction, confidence: Fraction) -> None:
    law = TotalResidualMechanism().law(scale, k)
    margin = law.margin(confidence)
    assert law.tail(margin) <= float(1 - confidence) * (1 + 1e-12)
    assert margin == 0 or law.tail(margin - 1) > float(1 - confidence) * (1 - 1e-12)


def test_no_margin_holds_for_certain() -> None:
    with pytest.raises(BrokenPromiseError, match="margin"):
        TotalResidualMechanism().law(F(3), 12).margin(F(1))


def test_a_large_scale_only_stretches_the_law() -> None:
    """No digits are lost where exp(-1 / scale) is all but 1: the tails are those of the continuous law."""
    small, large = (TotalResidualMechanism().law(scale, 20) for scale in (F(10**5), F(10**15)))
    assert large.variance / 1e20 == pytest.approx(small.variance, rel=1e-9)
    for share in (F(9, 10), 1 - F(1, 10**9)):
        assert large.margin(share) / 1e10 == pytest.approx(small.margin(share), rel=1e-5)


# ---------------------------------------------------------------- the sampler


@pytest.mark.parametrize(
    ("k", "scale", "share", "largest"),
    [(2, F(1, 2), F(4, 11), 5), (2, F(1), F(3, 8), 4), pytest.param(3, F(1, 2), F(1, 3), 2, marks=pytest.mark.slow)],
)
def test_a_vector_by_its_decision_tree(
    k: int, scale: Fraction, share: Fraction, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every path with R up to ``largest`` and m in -6..5, to 45 digits, against weights that are summed from their definition.

    P(z, R, m) is proportional to q^R s^|m| where 2 z - m is in the cube of R and of its parity. The components have
    their proved laws (tests of the K-norm sampler); how they are put together is the code's.
    """
    turns = 3
    q, s = (CONTEXT.exp(-real(each / scale)) for each in (1 - share, share))
    monkeypatch.setattr(total_residual, "geometric", lambda below, of: below(("geometric", of)))
    kept: list[TiltedChoice] = []

    class Tilted(TiltedChoice):
        def __init__(self, weights: Any, scale: Fraction) -> None:
            super().__init__(weights, scale)
            kept.append(self)

        def draw(self, below: Any, bits: int = 0) -> int:
            return int(below("tilted"))

    monkeypatch.setattr(total_residual, "TiltedChoice", Tilted)
    sampler = TotalResidualSampler(scale, k, share)
    steps = distribution(kept[0]._weights, kept[0]._scale)
    first = [after - before for before, after in zip([0, *steps], steps, strict=False)]
    sizes = {each.weight for terms in sampler._terms.values() for each in terms}
    sizes |= {sum(each.weight for each in terms) for terms in sampler._terms.values()}

    def chances(what: Any) -> list[Any]:
        if what == "tilted":
            return first
        if isinstance(what, tuple):
            ratio = CONTEXT.exp(-1 / real(what[1]))
            return [(1 - ratio) * ratio**g for g in range(turns)]
        if what > max(largest + 1, *sizes):
            raise _TooFar
        return [1 / CONTEXT.mpf(what)] * what

    def vector(below: Callable[[Any], int]) -> tuple[int, ...]:
        asked = 0

        def limited(what: Any) -> int:
            nonlocal asked
            asked += 1
            # first the term, then which of equal weight, k + 1 geometric variables, one more, and the point
            if asked > k + 4 and what > largest + 1:
                raise _TooFar
            return below(what)

        return tuple(sampler.vector(limited))

    found = collected(leaves(vector, chances, 0))
    whole = CONTEXT.fsum(
        CONTEXT.fsum((r + 1) ** k * q**r for r in range(p, 900, 2))
        * CONTEXT.fsum(s ** abs(m) for m in range(p - 2000, 2001, 2))
        for p in (0, 1)
    )
    exact: dict[tuple[int, ...], Any] = {}
    for m in range(-2 * turns, 2 * turns):
        for r in range(m % 2, largest + 1, 2):
            for x in product(range(-r, r + 1, 2), repeat=k):
                z = tuple((each + m) // 2 for each in x)
                exact[z] = exact.get(z, 0) + q**r * s ** abs(m) / whole
    assert set(found) == set(exact)
    for z, chance in exact.items():
        assert abs(found[z] - chance) < 1e-45


@pytest.mark.parametrize(("k", "share"), [(2, F(3, 8)), (3, F(5, 16)), (12, total_share(12)), (60, total_share(60))])
def test_the_terms_add_up_to_the_weight_of_all_noise(k: int, share: Fraction) -> None:
    """Sums over radii and totals against the finite sum that the first choice is made of."""
    scale = F(3, 2)
    sampler = TotalResidualSampler(scale, k, share)
    q, s = (CONTEXT.exp(-real(each / scale)) for each in (1 - share, share))
    unit = sampler._choice._scale
    weight = CONTEXT.fsum(w * CONTEXT.exp(-j / real(unit)) for j, w in enumerate(sampler._choice._weights))
    terms = weight / ((1 - q * q) ** (k + 1) * (1 - s * s))
    reach = 400 + 60 * k
    plain = sum(
        CONTEXT.fsum((r + 1) ** k * q**r for r in range(parity, reach, 2))
        * CONTEXT.fsum(s ** abs(m) for m in range(parity - 2000, 2001, 2))
        for parity in (0, 1)
    )
    assert abs(terms / plain - 1) < 1e-40


@pytest.mark.parametrize("k", [2, 5, 12])
def test_the_radius_has_its_law_for_either_parity(k: int) -> None:
    """A term's J and k + 1 geometric variables make R with P(R = r) proportional to (r+1)^k q^r: equal integers."""
    for parity, jumps, lift in ((0, numerator("linf", k), 1), (1, numerator("count", k - 1), 2**k)):
        for g in range(3 * k):
            ways = sum(h * comb(g - j + k, k) for j, h in enumerate(jumps) if j <= g)
            assert lift * ways == (2 * g + parity + 1) ** k


def test_draws_saturate_after_the_noise_and_come_in_order() -> None:
    top = np.iinfo(np.int64).max
    boxes = [Exact(np.array([0, top])), *(Exact(np.array([1000 * i, -top])) for i in range(1, 12))]
    answers = TotalResidualMechanism().draw_joint(boxes, F(1))
    assert [answer.dtype for answer in answers] == [np.int64] * 12
    assert all(abs(int(answer[0]) - 1000 * i) < 500 for i, answer in enumerate(answers))
    assert all(abs(int(answer[1])) > top - 500 for answer in answers)


@pytest.mark.parametrize(("boxes", "scale"), [(1, F(1)), (12, F(0)), (0, F(1))])
def test_what_cannot_be_drawn_is_refused(boxes: int, scale: Fraction) -> None:
    with pytest.raises(BrokenPromiseError):
        TotalResidualMechanism().draw_joint([Exact(np.array([1]))] * boxes, scale)
    with pytest.raises(BrokenPromiseError):
        TotalResidualMechanism().draw_joint([Exact(np.array([1])), Exact(np.array([1, 2]))], F(1))


def test_the_event_of_a_draw_counts_rows() -> None:
    event = TotalResidualMechanism().event(F(7), 20, F(2))
    assert (event.rows, event.scale, event.dimension, event.share) == (2, F(7), 20, total_share(20))
    assert TotalResidualMechanism().event(F(7), 20, F(3, 2)).rows == 2, "a part of a row is a row"
    assert TotalResidualMechanism().law(F(7), 20).share == event.share
