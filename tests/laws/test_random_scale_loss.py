"""What a draw of one random scale costs: enumerated on coarse grids, by other integrals, and with planted halves."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from dprelease.noise.mechanisms.random_scale import RandomScaleMechanism, scale_table
from dprelease.plan.verify.events import draws_of_event
from dprelease.plan.verify.mathematics.delta import delta_of
from dprelease.plan.verify.mathematics.draws import Loss
from dprelease.plan.verify.mathematics.sphere import SphereGroup, _density_of, is_quadrature, sphere_epsilon
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.event import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    KNorm,
    RandomScale,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.theorems import single
from dprelease.privacy.theorems.joint.random_scale import (
    has_curve,
    random_scale_delta,
    random_scale_losses,
    random_scale_near,
    random_scale_rho,
)
from dprelease.privacy.theorems.joint.sphere_profile import BEYOND, SphereProfile

F = Fraction
Floats = npt.NDArray[np.float64]
TABLE = ((0.6, 1.0, 1.4), (3, 5, 2))  # stretches and weights of another table: any is a mechanism


def drawn(k: int, scale: Fraction, rows: int = 1) -> RandomScale:
    return RandomScaleMechanism().event(scale, k, F(rows))


def listed(numbers: int, scale: float, table: tuple[tuple[float, ...], tuple[int, ...]]) -> tuple[Floats, int]:
    """The mixture's mass at every point of a box of whole numbers, and how far the box goes."""
    stretches, weights = table
    reach = math.ceil(scale * max(stretches) * 6.5)
    places = np.arange(-reach, reach + 1)
    total = np.zeros((len(places),) * numbers)
    for stretch, weight in zip(stretches, weights, strict=True):
        one = np.exp(-((places / (scale * stretch)) ** 2) / 2)
        one /= one.sum()
        mass = one
        for _ in range(numbers - 1):
            mass = np.multiply.outer(mass, one)
        total += weight / sum(weights) * mass
    return total, reach


def lattice_delta(law: Floats, change: tuple[int, ...], epsilon: float) -> float:
    """The sum of (P - e^epsilon Q)_+ with Q the law moved by whole numbers; what leaves the box has no other law."""
    moved = np.zeros_like(law)
    here = tuple(slice(max(0, c), len(law) + min(0, c)) for c in change)
    there = tuple(slice(max(0, -c), len(law) + min(0, -c)) for c in change)
    moved[here] = law[there]
    return float(np.maximum(law - math.exp(epsilon) * moved, 0).sum())


@pytest.mark.parametrize(
    ("counts", "scale", "unit", "total", "epsilon"),
    [
        (2, 6.0, 4, 5, 0.5),
        (2, 6.0, 4, 5, 2.0),
        pytest.param(3, 2.6, 2, 3, 1.0, marks=pytest.mark.slow),
        pytest.param(3, 2.6, 2, 3, 3.0, marks=pytest.mark.slow),
    ],
)
def test_no_row_costs_more_than_the_certificate_on_a_coarse_grid(
    counts: int, scale: float, unit: int, total: int, epsilon: float
) -> None:
    """All rows, coming and going; the box is cut at 6.5 deviations, which is far below delta.

    On so coarse a grid delta is that of the line to a few per cent, and below the bound by section 4 of the proof.
    """
    law, _ = listed(counts + 1, scale, TABLE)
    profile = SphereProfile(counts, TABLE[0], TABLE[1], 3000)
    length = math.sqrt(counts * unit**2 + total**2)
    found = []
    for row, sign in product(product((0, 1), repeat=counts), (1, -1)):
        change = tuple(sign * each for each in (total, *((2 * v - 1) * unit for v in row)))
        found.append(lattice_delta(law, change, epsilon))
    assert max(found) == pytest.approx(min(found), rel=1e-9), "every row costs the same, in both directions"
    bound = profile.bound(length / scale, epsilon)
    assert bound * 0.93 < max(found) < bound * 1.02
    least, reach, numbers = scale * TABLE[0][0], len(law) / 2 * math.sqrt(counts + 1), counts + 1
    over, under = numbers / (8 * least**2), reach**2 / (8 * least**4)
    assert max(found) <= math.exp(over) * profile.bound(length / scale, max(0.0, epsilon - under - over)) + 1e-9
    # half of the noise is found out
    half, _ = listed(counts + 1, scale / 2, TABLE)
    assert lattice_delta(half, change, epsilon) > 1.5 * bound


def on_lines(profile: SphereProfile, change: float, epsilon: float) -> float:
    """Delta as the mean over rho of the positive part of a difference of mixtures on a line, by plain sums."""
    rest, stretches = profile.rest, np.array(profile.stretches)
    shares = np.array(profile.weights) / sum(profile.weights)
    rho = np.linspace(0, stretches[-1] * (math.sqrt(rest) + 10), 401)[1:]
    x = np.linspace(-change - 9 * stretches[-1], 9 * stretches[-1], 3001)
    total = 0.0
    for at in rho:
        logs = (rest - 1) * math.log(at) - (at / stretches) ** 2 / 2 - rest * np.log(stretches)
        weights = shares * np.exp(logs - math.lgamma(rest / 2) + (1 - rest / 2) * math.log(2))
        if weights.max() < 1e-18:
            continue
        first, other = (
            weights / stretches / math.sqrt(2 * math.pi) @ np.exp(-(((x + by) / stretches[:, None]) ** 2) / 2)
            for by in (0.0, change)
        )
        total += float(np.maximum(first - math.exp(epsilon) * other, 0).sum())
    return total * float((rho[1] - rho[0]) * (x[1] - x[0]))


@pytest.mark.parametrize(("k", "scale", "epsilon"), [(40, F(20), F(1)), (100, F(45), F(1, 2)), (50, F(8), F(4))])
def test_the_certificate_is_just_above_two_other_integrals(k: int, scale: Fraction, epsilon: Fraction) -> None:
    draw = drawn(k, scale)
    claimed = float(random_scale_delta(draw, epsilon))
    profile = SphereProfile(k, tuple(map(float, draw.stretches)), draw.weights, 100)
    ratio = math.sqrt(draw.length_squared) / float(draw.scale)
    lines = on_lines(profile, ratio, float(epsilon))
    (cell,) = draws_of_event(draw)
    radii = delta_of({cell: 1}, epsilon)
    assert radii == pytest.approx(lines, rel=3e-4)
    assert profile.near(ratio, float(epsilon))[0] == pytest.approx(radii, rel=1e-6)
    assert radii <= claimed <= radii * 1.12
    # coarse cells bound it, too: what the cells are decides how sharp it is, and not whether it is true
    for cells in (40, 100, 400):
        assert SphereProfile(k, tuple(map(float, draw.stretches)), draw.weights, cells).bound(
            ratio, float(epsilon)
        ) >= radii * (1 - 1e-6)


def test_half_the_noise_a_part_in_a_hundred_less_and_other_tables_are_above_the_claim() -> None:
    draw, epsilon = drawn(50, F(59, 2)), F(1)
    claimed = float(random_scale_delta(draw, epsilon))
    table = scale_table(50)
    wrong: dict[str, dict[str, Any]] = {
        "half the noise": {"scale": draw.scale / 2},
        "a hundredth less": {"scale": draw.scale * F(99, 100)},
        "a row that moves the total further": {"total": table.total * 2},
        "small scales likelier": {"weights": (draw.weights[0] * 100, *draw.weights[1:])},
        "all scales a hundredth smaller": {"stretches": tuple(s * F(99, 100) for s in draw.stretches)},
    }
    for what, update in wrong.items():
        other = draw.model_copy(update=update)
        change = math.sqrt(other.length_squared) / float(other.scale)
        profile = SphereProfile(50, tuple(map(float, other.stretches)), other.weights, 100)
        assert profile.near(change, 1.0)[0] > claimed * 1.05, what
    for weights in (draw.weights[::-1], wrong["small scales likelier"]["weights"]):
        assert not is_quadrature(draw.model_copy(update={"weights": weights}))
    assert is_quadrature(draw)
    assert not is_quadrature(draw.model_copy(update={"dimension": 49}))
    with pytest.raises(ValidationError, match="rising"):
        RandomScale.model_validate({**draw.model_dump(), "stretches": draw.stretches[::-1]})


def test_delta_falls_and_epsilon_is_where_it_is_delta() -> None:
    draw = drawn(60, F(30))
    found = [random_scale_delta(draw, F(at, 8)) for at in range(16)]
    assert all(one > other for one, other in pairwise(found))
    assert float(found[0]) == pytest.approx(delta_of(draws_of_event(draw), F(0)), rel=1e-4)
    for delta in (F(1, 10**3), F(1, 10**6), F(1, 10**10)):
        epsilon = single.epsilon(draw, delta)
        assert delta * F(999_998, 10**6) <= random_scale_delta(draw, epsilon) <= delta
        assert random_scale_near(draw, float(delta)) == pytest.approx(float(epsilon), rel=1e-4)
        assert sphere_epsilon(draw, float(delta)) == pytest.approx(float(epsilon), rel=5e-3)
        assert sphere_epsilon(draw, float(delta)) < epsilon


@pytest.mark.parametrize(("k", "scale"), [(40, F(2)), (50, F(15)), (240, F(300))])
def test_the_verifier_s_density_adds_up_to_one_and_gives_delta(k: int, scale: Fraction) -> None:
    """Its own sum, and delta by the other integral, at deltas from near 1 to 1e-18."""
    draw = drawn(k, scale)
    law = _density_of(draw)
    both = law.density * (1 + np.exp(-law.losses))
    assert law.step * (both.sum() - both[0] / 2) == pytest.approx(1, rel=1e-6)
    profile = SphereProfile(k, tuple(map(float, draw.stretches)), draw.weights, 100)
    change = math.sqrt(draw.length_squared) / float(scale)
    for delta in (0.01, 1e-6, 1e-12, 1e-18):
        epsilon = sphere_epsilon(draw, delta)
        assert law.delta(epsilon)[0] == pytest.approx(delta, rel=1e-9)
        assert profile.near(change, epsilon)[0] == pytest.approx(delta, rel=1e-4)
        steeper = (law.delta(epsilon * (1 - 1e-6))[0] - law.delta(epsilon * (1 + 1e-6))[0]) / (2e-6 * epsilon)
        assert law.delta(epsilon)[1] == pytest.approx(steeper, rel=1e-4)


def test_the_verifier_turns_losses_one_by_one_and_in_blocks_alike() -> None:
    draw = drawn(50, F(20))
    losses, mass = _density_of(draw).both
    omega = np.linspace(0, 40, 7)
    tilted = mass * np.exp(3.0 * (losses - losses[-1]))
    one_by_one = [(tilted * np.exp(1j * each * (losses - 1.5))).sum() / tilted.sum() for each in omega]
    found = SphereGroup(draw, np.array([1]), 1.5).turned(3.0, omega)
    assert np.abs(found[0] - one_by_one).max() < 1e-12


def test_where_no_curve_is_certified_the_smallest_scale_counts() -> None:
    few, loud, several = drawn(12, F(20)), drawn(40, F(1, 4)), drawn(40, F(20), 2)
    for draw in (few, loud, several):
        assert not has_curve(draw)
        assert random_scale_delta(draw, F(1)) == ACCOUNTANTS["zcdp"].delta(draw, F(1))
    assert random_scale_rho(several) == 4 * random_scale_rho(drawn(40, F(20)))
    assert random_scale_delta(drawn(40, F(20), 0), F(0)) == 0
    # beyond what is followed nothing is claimed for free
    assert random_scale_delta(drawn(40, F(10**6)), F(1)) <= Fraction(BEYOND) * 4


ONE = Sensitivity.of_one_cell(1)
FAST = ("twelve", "Gaussian noise")
BESIDE: dict[str, Event] = {
    "two": Repeated(event=drawn(50, F(50)), count=2),
    "twelve": Repeated(event=drawn(50, F(120)), count=12),
    "two tables": Composed(events=(drawn(50, F(50)), drawn(100, F(80)))),
    "Laplace noise": Composed(events=(drawn(50, F(40)), DiscreteLaplace(scale=F(6), sensitivity=ONE))),
    "Gaussian noise": Composed(events=(drawn(50, F(40)), DiscreteGaussian(scale=F(9), sensitivity=ONE))),
    "K-norm noise": Composed(
        events=(drawn(50, F(40)), KNorm(ball="count", dimension=5, scale=F(4), gauge=F(1))),
    ),
}


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in BESIDE]
)
def test_beside_other_draws_the_claim_is_above_the_truth_and_near_it(name: str) -> None:
    """The truth by the verifier's transform of the density of the loss, which knows no points of a curve."""
    event, delta = BESIDE[name], F(1, 10**6)
    epsilon = ACCOUNTANTS["pld"].epsilon(event, delta)
    truth = delta_of(draws_of_event(event), epsilon)
    assert 0.8e-6 < truth < 1e-6
    assert epsilon < ACCOUNTANTS["zcdp"].epsilon(event, delta)
    assert ACCOUNTANTS["pld"].rough_epsilon(event, 1e-6) == pytest.approx(float(epsilon), rel=2e-3)
    half = delta_of(draws_of_event(event), epsilon / 2)
    assert half > 100 * float(delta)


def test_the_pair_of_points_is_above_the_curve() -> None:
    draw = drawn(50, F(59, 2))
    found = random_scale_losses(draw)
    losses = np.arange(len(found.masses) // 2, -len(found.masses) // 2, -1) * float(found.step)
    masses = np.array(found.masses)
    assert masses.min() >= 0
    assert masses.sum() + float(found.beyond) == pytest.approx(1, abs=1e-8)
    (cell,) = draws_of_event(draw)
    for epsilon, sharp in ((0.003, 1.01), (0.1, 1.01), (0.507, 1.05), (1.0, 1.1), (1.49, 3.0)):
        pair = float(found.beyond) + float((masses * np.maximum(-np.expm1(epsilon - losses), 0)).sum())
        truth = delta_of({cell: 1}, F(epsilon))
        assert truth <= pair <= truth * sharp


def test_rho_is_above_renyi_divergences_of_the_density() -> None:
    """E exp(t L) of the verifier's density: the claim is that of the smallest scale, about twice what is true."""
    draw = drawn(50, F(20))
    (((cell,),),) = draws_of_event(draw)
    assert float(cell.rho) == pytest.approx(float(random_scale_rho(draw)), rel=1e-12)
    orders = np.array([1e-3, 0.1, 1.0, 4.0, 10.0])
    moments = Loss.of({cell: 1}).moments(orders) + orders * float(cell.top)
    ratios = moments / (orders * (1 + orders)) / float(random_scale_rho(draw))
    assert (ratios < 1).all()
    assert ratios[0] > 0.45
