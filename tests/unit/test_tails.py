"""The probability of a loss above epsilon: exact laws, all that can be made of them, and dp_accounting."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import mpmath
import pytest

from dprelease.privacy.accountants.pld import Pld
from dprelease.privacy.event import Composed, DiscreteGaussian, DiscreteLaplace, Event, Sensitivity
from dprelease.privacy.rounding import upper
from dprelease.privacy.tails import Curve, chance_above, largest_but_for

ONE = Sensitivity.of_one_cell(1)
Pair = tuple[list[mpmath.mpf], list[mpmath.mpf]]


def exact_curve(p: list[mpmath.mpf], q: list[mpmath.mpf]) -> Curve:
    """The curve of both orders of one pair, from its masses alone."""

    def delta(epsilon: Fraction) -> Fraction:
        factor = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        sides = (sum(max(a - factor * b, 0) for a, b in zip(x, y, strict=True)) for x, y in ((p, q), (q, p)))
        return min(Fraction(1), upper(max(sides)))

    return delta


def above(p: list[mpmath.mpf], q: list[mpmath.mpf], epsilon: Fraction) -> float:
    factor = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    return float(sum(a for a, b in zip(p, q, strict=True) if a > factor * b))


def gaussian(scale: int) -> Pair:
    """Masses of discrete Gaussian noise on whole numbers, and moved by one."""
    reach = range(-12 * scale, 12 * scale + 2)
    one = [mpmath.exp(-mpmath.mpf(k * k) / (2 * scale * scale)) for k in reach]
    two = [mpmath.exp(-mpmath.mpf((k - 1) ** 2) / (2 * scale * scale)) for k in reach]
    total = mpmath.fsum(one)
    return [m / total for m in one], [m / total for m in two]


def laplace(scale: int, shift: int) -> Pair:
    rate = mpmath.mpf(1) / scale
    reach = range(-60 * scale, 60 * scale + shift + 1)
    return [mpmath.exp(-rate * abs(k)) * mpmath.tanh(rate / 2) for k in reach], [
        mpmath.exp(-rate * abs(k - shift)) * mpmath.tanh(rate / 2) for k in reach
    ]


LAWS: dict[str, tuple[Pair, Event]] = {
    "gaussian 2": (gaussian(2), DiscreteGaussian(scale=Fraction(2), sensitivity=ONE)),
    "gaussian 5": (gaussian(5), DiscreteGaussian(scale=Fraction(5), sensitivity=ONE)),
    "laplace 3, moved by 4": (
        laplace(3, 4),
        DiscreteLaplace(scale=Fraction(3), sensitivity=Sensitivity.of_one_cell(4)),
    ),
}
EPSILONS = [Fraction(k, 10) for k in (1, 3, 5, 10, 13, 20)]


@pytest.mark.parametrize("name", LAWS)
def test_it_is_above_the_exact_probability_and_of_its_size(name: str) -> None:
    (p, q), event = LAWS[name]

    def curve(epsilon: Fraction) -> Fraction:
        return Pld().delta(event, epsilon)

    for epsilon in EPSILONS:
        true = max(above(p, q, epsilon), above(q, p, epsilon))
        for told in (chance_above(curve, epsilon), chance_above(exact_curve(p, q), epsilon)):
            assert true <= float(told) * (1 + 1e-12)
            assert float(told) <= max(3.5 * true, 1e-12)


@pytest.mark.parametrize("name", LAWS)
def test_but_for_delta_the_loss_is_no_larger(name: str) -> None:
    (p, q), event = LAWS[name]
    for epsilon in EPSILONS:
        delta = Pld().delta(event, epsilon)
        if not delta:
            assert above(p, q, epsilon) == 0
            continue
        most = largest_but_for(lambda e: Pld().delta(event, e), epsilon, delta)
        assert most is not None
        assert most > epsilon
        assert above(p, q, most) <= float(delta)
        assert above(p, q, epsilon) > float(delta)  # which is what pages got wrong


def coarser(size: int) -> Iterator[list[int]]:
    """Every way to put outcomes into groups."""
    for groups in product(range(size), repeat=size):
        if all(group <= max(groups[:at], default=-1) + 1 for at, group in enumerate(groups)):
            yield list(groups)


def test_it_holds_for_whatever_is_made_of_the_outcome_where_the_exact_probability_does_not() -> None:
    p = [mpmath.mpf(k) / 100 for k in (2, 8, 30, 30, 20, 10)]
    q = [mpmath.mpf(k) / 100 for k in (0.5, 3.4, 21.1, 35, 25, 15)]
    epsilon = Fraction(9, 10)
    bound, own, largest = chance_above(exact_curve(p, q), epsilon), above(p, q, epsilon), 0.0
    for groups in coarser(len(p)):
        parts = range(max(groups) + 1)
        one = [mpmath.fsum(p[i] for i, g in enumerate(groups) if g == part) for part in parts]
        two = [mpmath.fsum(q[i] for i, g in enumerate(groups) if g == part) for part in parts]
        largest = max(largest, above(one, two, epsilon))
    assert own < largest <= float(bound)


def test_some_mechanism_with_the_curve_reaches_the_bound() -> None:
    """The proof's: the least right side p as the mass of one outcome just above epsilon."""
    p, q = gaussian(3)
    curve, epsilon = exact_curve(p, q), Fraction(1)
    grid = [epsilon * k / 400 for k in range(1, 401)]
    mass = min(float(curve(epsilon - t)) / -math.expm1(-float(t)) for t in grid)
    just = float(epsilon) + 1e-9
    for k in range(400):
        e = float(epsilon) * k / 400
        assert mass * (1 - math.exp(e - just)) <= float(curve(Fraction(e))) * (1 + 1e-6)
    assert mass <= float(chance_above(curve, epsilon)) <= mass * 1.02


def test_the_edges() -> None:
    assert chance_above(lambda _: Fraction(0), Fraction(1)) == 0
    assert chance_above(lambda _: Fraction(1), Fraction(1)) == 1
    assert chance_above(lambda _: Fraction(1, 2), Fraction(0)) == 1
    assert largest_but_for(lambda _: Fraction(1, 10), Fraction(1), Fraction(1, 10)) is None
    assert largest_but_for(lambda _: Fraction(0), Fraction(1), Fraction(1, 10)) == 1


def composed() -> Event:
    """A little like the first release of the starter: two sizes of Gaussian noise, many cells."""
    return Composed(
        events=(
            *(DiscreteGaussian(scale=Fraction(31), sensitivity=ONE) for _ in range(20)),
            *(DiscreteGaussian(scale=Fraction(57), sensitivity=ONE) for _ in range(30)),
        )
    )


def test_dp_accounting_finds_a_smaller_probability_and_not_a_much_smaller_one() -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    one = pld.from_discrete_gaussian_mechanism(31, value_discretization_interval=1e-4).self_compose(20)
    two = pld.from_discrete_gaussian_mechanism(57, value_discretization_interval=1e-4).self_compose(30)
    both = one.compose(two)
    event, epsilon = composed(), Fraction(1)
    losses, masses = both._pmf_remove.to_dense_pmf()._lower_loss * 1e-4, both._pmf_remove.to_dense_pmf()._probs
    true = sum(float(m) for k, m in enumerate(masses) if losses + k * 1e-4 > float(epsilon))
    told = float(chance_above(lambda e: Pld().delta(event, e), epsilon))
    assert true > 5 * float(Pld().delta(event, epsilon))
    assert true * 0.99 <= told <= 2.9 * true
