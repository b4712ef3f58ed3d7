"""Integer K-norm noise: the points of its balls, the law of a coordinate against brute force, and the mechanisms."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from math import comb, factorial
from typing import Any

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.noise import JOINT_MECHANISMS, Exact
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw
from dprelease.noise.mechanisms.knorm import CountKNorm, KNormLaw, LinfKNorm
from dprelease.noise.mechanisms.lattice_ball import (
    Ball,
    coordinate_points,
    norm,
    numerator,
    points,
    squares,
    tail_points,
    unrank,
)
from dprelease.privacy.event import KNorm
from dprelease.privacy.rounding import CONTEXT, real
from tests.reference_comparisons import count_knorm_std, linf_knorm_std
from tests.unit.knorm_sums import BALLS, plain_norm, q_of, whole_mass

# ---------------------------------------------------------------- the balls


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("ball", BALLS)
def test_the_points_of_a_ball_are_counted_and_numbered_once_each(ball: Ball, k: int) -> None:
    for radius in range(4 if k > 3 else 6):
        inside = [z for z in product(range(-radius, radius + 1), repeat=k) if plain_norm(ball, z) <= radius]
        assert len(inside) == points(ball, k, radius)
        assert sorted(inside) == sorted(tuple(unrank(ball, k, radius, i)) for i in range(len(inside)))
        assert sum(z[0] ** 2 for z in inside) == squares(ball, k, radius)
        for value in range(-radius, radius + 1):
            assert sum(z[0] == value for z in inside) == coordinate_points(ball, k, radius, value)
        for margin in range(radius):
            assert sum(z[0] > margin for z in inside) == tail_points(ball, k, radius, margin)
        assert all(norm(ball, z) == plain_norm(ball, z) for z in inside)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 60])
@pytest.mark.parametrize("ball", BALLS)
def test_the_numerator_gives_the_number_of_points_of_every_ball(ball: Ball, k: int) -> None:
    """Equal at k + 1 radii and more, so equal as polynomials: Worpitzky's identity and its type B."""
    h = numerator(ball, k)
    assert len(h) == k + 1
    assert min(h) > 0
    assert h[0] == 1
    assert sum(h) == (factorial(k + 1) if ball == "count" else 2**k * factorial(k))
    for radius in (*range(k + 5), 1000, 10**9):
        assert sum(h[j] * comb(radius - j + k, k) for j in range(min(k, radius) + 1)) == points(ball, k, radius)


@pytest.mark.parametrize("k", [1, 2, 3, 8, 60])
@pytest.mark.parametrize("ball", BALLS)
def test_nothing_that_the_law_sums_is_negative(ball: Ball, k: int) -> None:
    """Forward differences at the start of every sum, on which its freedom from cancellation rests."""
    for margin in (0, 1, 17, 10**6):
        for values in (
            [points(ball, k, r) for r in range(k + 2)],
            [squares(ball, k, r) for r in range(k + 4)],
            [tail_points(ball, k, margin + 1 + i, margin) for i in range(k + 2)],
            [coordinate_points(ball, k, margin + i, margin) for i in range(k + 2)],
        ):
            rest = values
            while len(rest) > 1:
                assert rest[0] >= 0
                rest = [b - a for a, b in pairwise(rest)]
            assert rest == [0], "one difference more than the degree"


# ---------------------------------------------------------------- the law of a coordinate


@pytest.mark.parametrize(("k", "reach"), [(1, 60), (2, 40), (3, 26), (4, 14)])
@pytest.mark.parametrize("ball", BALLS)
def test_the_law_of_a_coordinate_by_brute_force(ball: Ball, k: int, reach: int) -> None:
    scale = {1: Fraction(4, 5), 2: Fraction(4, 5), 3: Fraction(1, 2), 4: Fraction(1, 3)}[k]
    axes = np.meshgrid(*[np.arange(-reach, reach + 1)] * k, indexing="ij", sparse=True)
    top, bottom = axes[0], -axes[0]
    for axis in axes[1:]:
        top, bottom = np.maximum(top, axis), np.maximum(bottom, -axis)
    top, bottom = np.maximum(top, 0), np.maximum(bottom, 0)
    length = top + bottom if ball == "count" else np.maximum(top, bottom)
    mass = np.exp(-length / float(scale))
    mass = mass.sum(axis=tuple(range(1, k))) / mass.sum()
    values = np.arange(-reach, reach + 1)
    law = KNormLaw(ball, scale, k)
    assert [law.mass(int(value)) for value in values[:: max(1, reach // 6)]] == pytest.approx(
        list(mass[:: max(1, reach // 6)]), rel=1e-8, abs=1e-10
    )
    assert law.variance == pytest.approx(float((mass * values**2).sum()), rel=1e-8)
    for margin in range(8):
        assert law.tail(margin) == pytest.approx(float(mass[np.abs(values) > margin].sum()), rel=1e-8, abs=1e-10)


@pytest.mark.thin
@pytest.mark.parametrize(
    "confidence", [Fraction(1, 2), Fraction(95, 100), 1 - Fraction(1, 10**9), 1 - Fraction(1, 10**40)]
)
@pytest.mark.parametrize(
    ("k", "scale"), [(1, Fraction(7, 3)), (3, Fraction(1, 4)), (5, Fraction(2)), (60, Fraction(1, 5))]
)
@pytest.mark.parametrize("ball", BALLS)
def test_a_margin_is_the_smallest_that_holds(ball: Ball, k: int, scale: Fraction, confidence: Fraction) -> None:
    """The tail summed anew, radius by radius from far out: a point of the ball of radius r has |z_1| > m or not."""
    law, q = KNormLaw(ball, scale, k), q_of(scale)
    margin = law.margin(confidence)

    def outside(m: int) -> Any:
        reach = m + int((170 + 40 * k) * scale) + 200
        over = CONTEXT.fsum(
            (points(ball, k, r) - sum(coordinate_points(ball, k, r, t) for t in range(-m, m + 1)) if m < r else 0)
            * q**r
            for r in range(reach, m, -1)
        )
        return over * (1 - q) / whole_mass(ball, k, q)

    assert outside(margin) <= real(1 - confidence)
    assert margin == 0 or outside(margin - 1) > real(1 - confidence)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(12345, 7)])
@pytest.mark.parametrize("ball", BALLS)
def test_one_quantity_has_discrete_laplace_noise(ball: Ball, scale: Fraction) -> None:
    law, laplace = KNormLaw(ball, scale, 1), DiscreteLaplaceLaw(scale)
    assert law.variance == pytest.approx(laplace.variance, rel=1e-14)
    for confidence in (Fraction(1, 2), Fraction(95, 100), 1 - Fraction(1, 10**12)):
        assert law.margin(confidence) == laplace.margin(confidence)
    q = float(q_of(scale))
    assert law.mass(-2) == pytest.approx((1 - q) / (1 + q) * q**2, rel=1e-12)


def test_a_margin_needs_a_confidence_below_one() -> None:
    with pytest.raises(BrokenPromiseError):
        KNormLaw("linf", Fraction(1), 2).margin(Fraction(1))


def test_continuous_standard_deviations() -> None:
    """Golden cases kn-1, kn-5, knc-5 and knc-20, and the limit of the integer law for a large scale."""
    assert linf_knorm_std(1, 1) == pytest.approx(1.4142135623730951, rel=1e-12)
    assert linf_knorm_std(5, 1) == pytest.approx(3.7416573867739413, rel=1e-12)
    assert count_knorm_std(5, 1) == pytest.approx(3.0550504633038935, rel=1e-12)
    assert count_knorm_std(20, 1) == pytest.approx(9.183318209303941, rel=1e-12)
    for k in (1, 3, 20):
        for mechanism, std in ((LinfKNorm(), linf_knorm_std), (CountKNorm(), count_knorm_std)):
            assert mechanism.law(Fraction(10**6), k).variance ** 0.5 == pytest.approx(std(k, 1e-6), rel=1e-10)


# ---------------------------------------------------------------- the mechanisms


@pytest.mark.parametrize("name", sorted(JOINT_MECHANISMS))
def test_joint_noise_keeps_boxes_and_cells_in_their_places(name: str) -> None:
    """At a scale where noise other than 0 has chance exp(-1000)."""
    values = [np.arange(i, i + 4, dtype=np.int64) * 7 for i in range(3)]
    noisy = JOINT_MECHANISMS[name].draw_joint([Exact(each) for each in values], Fraction(1, 1024))
    assert [each.tolist() for each in noisy] == [each.tolist() for each in values]
    assert all(each.dtype == np.int64 for each in noisy)


@pytest.mark.parametrize("name", sorted(JOINT_MECHANISMS))
def test_joint_noise_is_fresh_in_every_cell_and_call(name: str) -> None:
    zeros = [Exact(np.zeros(200, dtype=np.int64)) for _ in range(2)]
    first, second = (JOINT_MECHANISMS[name].draw_joint(zeros, Fraction(10**6)) for _ in range(2))
    assert len(np.unique(np.stack([*first, *second], axis=1), axis=0)) == 200
    assert len(np.unique(np.concatenate([*first, *second]))) > 780


@pytest.mark.parametrize("name", sorted(JOINT_MECHANISMS))
def test_joint_noise_saturates_at_64_bits(name: str) -> None:
    limits = np.iinfo(np.int64)
    box = Exact(np.array([limits.min, limits.max] * 50, dtype=np.int64))
    if name != "random_scale":  # drawn on a fine grid of 64 bits: more than 2^38 rows of noise are refused
        for noisy in JOINT_MECHANISMS[name].draw_joint([box, box], Fraction(10**30)):
            assert set(noisy.tolist()) == {limits.min, limits.max}
    for near in JOINT_MECHANISMS[name].draw_joint([box, box], Fraction(100)):
        assert (near[::2] < limits.min + 10_000).all()
        assert (near[1::2] > limits.max - 10_000).all()


def test_joint_noise_on_no_cells() -> None:
    noisy = CountKNorm().draw_joint([Exact(np.zeros(0, dtype=np.int64))] * 2, Fraction(3))
    assert [each.shape for each in noisy] == [(0,), (0,)]


@pytest.mark.parametrize(("lengths", "scale"), [((), 1), ((2, 3), 1), ((2, 2), 0), ((2, 2), -1)])
def test_joint_noise_refuses_what_it_cannot_do(lengths: tuple[int, ...], scale: int) -> None:
    boxes = [Exact(np.full(length, 77, dtype=np.int64)) for length in lengths]
    with pytest.raises(BrokenPromiseError) as caught:
        LinfKNorm().draw_joint(boxes, Fraction(scale))
    assert "77" not in str(caught.value)


def test_names_and_events() -> None:
    assert sorted(JOINT_MECHANISMS) == ["count_knorm", "linf_knorm", "random_scale", "total_residual"]
    for name, ball in zip(("count_knorm", "linf_knorm"), BALLS, strict=True):
        event = JOINT_MECHANISMS[name].event(Fraction(5, 2), 3, Fraction(2))
        assert event == KNorm(ball=ball, dimension=3, scale=Fraction(5, 2), gauge=Fraction(2))
