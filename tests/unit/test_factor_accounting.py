"""What prefix draws cost: on their fine lattices all but what continuous Gaussian noise would."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dprelease.catalog.factor import Factor, factor_sensitivity
from dprelease.plan.lower.ranges import mirrored_factor, near_optimal
from dprelease.plan.verify.events import draws_of_event
from dprelease.plan.verify.loss import _holds
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.event import Composed, DiscreteGaussian
from dprelease.privacy.theorems import gaussian
from dprelease.privacy.unit import Neighboring

DELTA = Fraction(1, 10**6)
HELD = Factor(
    shape=(51, 7), axis=1, kind="matrix", grain=2**12, rows=tuple(map(tuple, near_optimal(7, "all").tolist()))
)
LONG = mirrored_factor((1, 300), 1, "all")
ROOT = Factor(shape=(2, 1000), axis=1, kind="root", grain=2**14)


def drawn(factor: Factor, mu: float, relation: Neighboring, rows: int) -> tuple[DiscreteGaussian, Fraction]:
    """A draw that has this mu, and its square to the last digit."""
    known = factor_sensitivity(factor, rows, relation)
    scale = Fraction(math.sqrt(known.l2_squared) / mu)
    return DiscreteGaussian(scale=scale, sensitivity=known), known.l2_squared / scale**2


@pytest.mark.parametrize("relation", Neighboring)
@pytest.mark.parametrize("rows", [1, 10])
@pytest.mark.parametrize("factor", [HELD, ROOT, LONG])
@pytest.mark.parametrize("mu", [0.2, 3.0])
def test_a_draw_costs_what_one_continuous_gaussian_costs(
    factor: Factor, mu: float, rows: int, relation: Neighboring
) -> None:
    event, squared = drawn(factor, mu, relation, rows)
    continuous = gaussian.epsilon(squared, DELTA)
    found = ACCOUNTANTS["pld"].epsilon(event, DELTA)
    assert continuous <= found <= continuous * (1 + Fraction(1, 10**5))
    assert _holds("pld", draws_of_event(event), found, DELTA)
    assert not _holds("pld", draws_of_event(event), found * Fraction(99, 100), DELTA)


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_every_accountant_takes_them_and_claims_no_less(name: str) -> None:
    events = [drawn(factor, 0.5, Neighboring.ADD_REMOVE, 2) for factor in (HELD, ROOT, LONG)]
    event = Composed(events=tuple(each for each, _ in events))
    found = ACCOUNTANTS[name].epsilon(event, DELTA)
    assert found >= gaussian.epsilon(sum((square for _, square in events), Fraction(0)), DELTA)
    assert _holds(name, draws_of_event(event), found, DELTA)
