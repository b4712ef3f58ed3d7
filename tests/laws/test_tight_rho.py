"""The least rho of pure noise, and the law of a K-norm draw: against lists of outcomes and neighbours, with no formula."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.noise.mechanisms.lattice_ball import Ball
from dprelease.plan.verify.events import draws_of_event
from dprelease.plan.verify.loss import _holds
from dprelease.plan.verify.mathematics.delta import total_rho as rho_again
from dprelease.plan.verify.mathematics.top_loss import top_mass
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.rdp import curve_of
from dprelease.privacy.accountants.rho import plain_rho, rough_rho, zcdp_rho
from dprelease.privacy.event import Approximate, DiscreteLaplace, KNorm, Repeated, Sensitivity
from dprelease.privacy.filters import Terms, spent_before, spent_on
from dprelease.privacy.theorems.concentrated import rho_to_epsilon
from dprelease.privacy.theorems.lattice import knorm_top
from dprelease.privacy.theorems.single import delta as profile
from tests.laws.exact import Law, cell

F = Fraction
ONE = Sensitivity.of_one_cell(1)
BALLS: tuple[Ball, ...] = ("count", "linf")
SCALES = [F(1, 4), F(2, 3), F(1), F(4, 3)]
ORDERS = [1 + 10.0 ** (k / 8) for k in range(-24, 25)]
EPSILONS = [F(0), F(1, 10), F(1, 3), F(1), F(2)]


def knorm(ball: Ball, k: int, scale: Fraction) -> KNorm:
    return KNorm(ball=ball, dimension=k, scale=scale, gauge=F(1))


def norm(ball: Ball, z: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = (
        np.maximum(z.max(axis=1), 0) + np.maximum(-z.min(axis=1), 0) if ball == "count" else np.abs(z).max(axis=1)
    )
    return found


@cache
def box(ball: Ball, k: int, scale: Fraction) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Every integer vector of a box, and its chance; beyond the box there is less than 1e-9."""
    reach = {1: 60, 2: 40, 3: 34}[k] if scale > 1 else {1: 40, 2: 28, 3: 24}[k]
    line = np.arange(-reach, reach + 1)
    points = np.stack(np.meshgrid(*[line] * k, indexing="ij"), axis=-1).reshape(-1, k)
    weight = np.exp(-norm(ball, points) / float(scale))
    return points, weight / weight.sum()


def neighbours(ball: Ball, k: int) -> Iterator[tuple[int, ...]]:
    """What one row changes: counts all up or all down; or, of ``linf``, each by at most 1."""
    signs = [(0, 1), (0, -1)] if ball == "count" else [(-1, 0, 1)]
    for sign in signs:
        yield from (change for change in product(sign, repeat=k) if any(change))


def listed(ball: Ball, k: int, scale: Fraction, change: tuple[int, ...]) -> Law:
    points, mass = box(ball, k, scale)
    steps = norm(ball, points - np.array(change)) - norm(ball, points)
    losses, place = np.unique(steps, return_inverse=True)
    return Law(losses / float(scale), np.bincount(place, weights=mass).astype(np.float64))


@pytest.mark.thin
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("ball", BALLS)
def test_no_neighbour_loses_all_more_often_than_is_said_and_the_worst_one_does(
    ball: Ball, k: int, scale: Fraction
) -> None:
    laws = [listed(ball, k, scale, change) for change in neighbours(ball, k)]
    said = float(knorm_top(ball, k, scale))
    tops = [float(law.mass[law.losses > 0.5 / float(scale)].sum()) for law in laws]
    assert all({round(loss * float(scale)) for loss in law.losses} <= {-1, 0, 1} for law in laws)
    assert max(tops) == pytest.approx(said, rel=2e-7)
    for epsilon in EPSILONS:
        true = max(law.delta(float(epsilon)) for law in laws)
        assert true == pytest.approx(float(profile(knorm(ball, k, scale), epsilon)), rel=2e-7, abs=1e-9)
    for order in (1.01, 1.5, 3.0, 20.0):
        assert max(law.renyi(order) for law in laws) == pytest.approx(
            float(curve_of(knorm(ball, k, scale)).certified(order - 1)), rel=2e-6
        )


@pytest.mark.thin
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("ball", BALLS)
def test_the_rho_of_a_joint_draw_is_that_of_its_worst_neighbour_at_its_steepest_order(
    ball: Ball, k: int, scale: Fraction
) -> None:
    laws = [listed(ball, k, scale, change) for change in neighbours(ball, k)]
    steepest = max(law.renyi(order) / order for law in laws for order in ORDERS)
    said = float(zcdp_rho(knorm(ball, k, scale)))
    assert steepest <= said * (1 + 1e-6)
    assert steepest >= said * 0.999  # the grid begins at the order 1.001
    assert said < 0.9 * float(plain_rho(knorm(ball, k, scale)))


@pytest.mark.parametrize("shift", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("scale", [F(1, 4), F(1), F(7, 3), F(30)])
def test_laplace_noise_is_steepest_at_the_order_one(scale: Fraction, shift: int) -> None:
    event = DiscreteLaplace(scale=scale, sensitivity=Sensitivity.of_one_cell(shift))
    law = cell("discrete_laplace", float(scale), shift)
    mean = float((law.losses * law.mass).sum())
    said = float(zcdp_rho(event))
    assert said == pytest.approx(mean, rel=1e-9)
    assert max(law.renyi(order) / order for order in ORDERS) <= said * (1 + 1e-9)
    assert said <= float(plain_rho(event))


def test_a_law_whose_zeros_are_not_imaginary_is_steeper_elsewhere() -> None:
    """So that the search of orders can fail: a rare large loss beside none at all."""
    epsilon, top = 5.0, 0.05
    low = top * math.exp(-epsilon)
    law = Law(np.array([-epsilon, 0.0, epsilon]), np.array([low, 1 - top - low, top]))
    assert top < (1 + math.exp(-epsilon / 2)) ** -2
    mean = float((law.losses * law.mass).sum())
    assert max(law.renyi(order) / order for order in ORDERS) > 1.2 * mean


@pytest.mark.parametrize("scale", [F(1, 8), F(1), F(3), F(50), F(10**4)])
@pytest.mark.parametrize("ball", BALLS)
def test_the_zeros_of_every_joint_draw_are_imaginary(ball: Ball, scale: Fraction) -> None:
    """The bound that the theorem needs is never the larger one, and the verifier's own sum finds the same chance."""
    for k in (1, 2, 3, 5, 10, 33, 60, 150):
        said = float(knorm_top(ball, k, scale))
        assert said * (1 + math.exp(-1 / (2 * float(scale)))) ** 2 > 1 + 1e-9
        assert top_mass(ball, k, scale) == pytest.approx(said, rel=1e-7)
        assert said <= 1 / (1 + math.exp(-1 / float(scale))) * (1 + 1e-12)


@pytest.mark.parametrize("changes", [(1, 1), (3, 1), (2, 2, 2), (7,), (4, 4, 1)])
@pytest.mark.parametrize("scale", [F(1, 3), F(2), F(40)])
def test_norms_alone_cost_no_less_than_the_vector(scale: Fraction, changes: tuple[int, ...]) -> None:
    known = Sensitivity.of_shifts(changes)
    vector = DiscreteLaplace(scale=scale, sensitivity=known)
    norms = DiscreteLaplace(scale=scale, sensitivity=known.model_copy(update={"shifts": ()}))
    whole = sum(zcdp_rho(DiscreteLaplace(scale=scale, sensitivity=Sensitivity.of_one_cell(c))) for c in changes)
    assert zcdp_rho(vector) == whole
    assert whole <= zcdp_rho(norms) <= plain_rho(norms)
    for event in (vector, norms):
        assert rho_again(draws_of_event(event)) == pytest.approx(float(zcdp_rho(event)), rel=1e-7)
        assert rough_rho(event) == pytest.approx(float(zcdp_rho(event)), rel=1e-8)


def test_norms_that_no_whole_change_has_are_not_read_as_one() -> None:
    half = Sensitivity(l0=1, l1=F(1, 2), l2_squared=F(1, 4), linf=F(1, 2))
    event = DiscreteLaplace(scale=F(1), sensitivity=half)
    assert zcdp_rho(event) == plain_rho(event) == F(1, 8)


def test_a_gauge_above_one_stays_randomized_response() -> None:
    event = KNorm(ball="count", dimension=4, scale=F(2), gauge=F(2))
    response = Approximate(epsilon=F(1))
    assert zcdp_rho(event) == zcdp_rho(response)
    assert float(zcdp_rho(response)) == pytest.approx(math.tanh(0.5))
    for name in ("pld", "rdp", "zcdp"):
        accountant = ACCOUNTANTS[name]
        assert accountant.epsilon(Repeated(event=event, count=9), F(1, 10**6)) == accountant.epsilon(
            Repeated(event=response, count=9), F(1, 10**6)
        )


@pytest.mark.parametrize("k", [2, 5, 20])
def test_many_joint_draws_cost_what_all_their_outcomes_say(k: int) -> None:
    """Forty of them, composed by convolving their three losses: in place of the accountant's contour."""
    scale, count = F(2), 40
    top = top_mass("count", k, scale)
    low = top * math.exp(-0.5)
    masses = np.ones(1)
    for _ in range(count):
        masses = np.convolve(masses, [low, 1 - top - low, top])
    law = Law(np.arange(-count, count + 1) / 2, masses)
    event = Repeated(event=knorm("count", k, scale), count=count)
    for epsilon in (F(1), F(4), F(9)):
        true = law.delta(float(epsilon))
        found = float(ACCOUNTANTS["pld"].delta(event, epsilon))
        assert true * (1 - 1e-9) <= found <= true * (1 + 1e-6)
        assert float(ACCOUNTANTS["rdp"].delta(event, epsilon)) >= true
    assert ACCOUNTANTS["pld"].delta(event, F(9)) < ACCOUNTANTS["pld"].delta(
        Repeated(event=Approximate(epsilon=F(1, 2)), count=count), F(9)
    )


@pytest.mark.parametrize(
    "event",
    [
        DiscreteLaplace(scale=F(3), sensitivity=ONE),
        knorm("count", 5, F(1)),
        knorm("linf", 3, F(2)),
        Approximate(epsilon=F(1, 2)),
    ],
)
def test_what_was_charged_before_was_never_less(event: DiscreteLaplace | KNorm | Approximate) -> None:
    for terms in (Terms(composition="zcdp"), Terms(composition="rdp", order=F(8))):
        before, now = spent_before(terms, event), spent_on(terms, event)
        assert before.loss >= now.loss > 0
        assert (before.loss > now.loss) == (terms.composition == "zcdp" or isinstance(event, KNorm))
    basic = Terms(composition="basic")
    assert spent_before(basic, event) == spent_on(basic, event)


EVENTS = [DiscreteLaplace(scale=F(3), sensitivity=ONE), knorm("count", 5, F(1))]


@pytest.mark.parametrize("event", EVENTS)
def test_a_plan_from_before_verifies_by_the_theorem_that_it_was_made_with(event: DiscreteLaplace | KNorm) -> None:
    """Today's figure and the one before it are what the accountant proves; one between them, or below, is not."""
    delta = F(1, 10**6)
    figures = [rho_to_epsilon(rho(event), delta) for rho in (zcdp_rho, plain_rho)]
    now, before = figures
    assert now < before
    draws = draws_of_event(event)
    assert all(_holds("zcdp", draws, figure, delta) for figure in figures)
    for other in (now * F(99, 100), (now + before) / 2, before * F(101, 100)):
        assert not _holds("zcdp", draws, other, delta)


def test_the_table_of_the_decision_is_right() -> None:
    page = Path("docs/decisions/0050-what-pure-noise-costs.md").read_text()
    cells = [float(zcdp_rho(DiscreteLaplace(scale=F(1), sensitivity=ONE)))]
    cells += [float(zcdp_rho(knorm("count", k, F(1)))) for k in (2, 5, 20, 50)]
    assert f"| rho now | {' | '.join(f'{cell:.3f}' for cell in cells)} |" in page
    assert 0.5 / cells[2] == pytest.approx(1.7, abs=0.05)
