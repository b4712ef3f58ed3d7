"""What residual draws cost: on their fine lattices all but what continuous Gaussian noise would, and soon worked out."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import floor, isqrt, prod
from time import process_time

import pytest

from dprelease.catalog.residual import Residual, grain_for, residual_sensitivity
from dprelease.plan.document import Step
from dprelease.plan.verify.events import draws_of_event
from dprelease.plan.verify.loss import _holds
from dprelease.plan.verify.whole_plan import has_room
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.pld import _covering, _is_known
from dprelease.privacy.event import Composed, DiscreteGaussian, Sensitivity
from dprelease.privacy.theorems import gaussian, single
from dprelease.privacy.theorems.loss_bound import ComposedLoss
from dprelease.privacy.theorems.total_loss import CellLaw
from dprelease.privacy.unit import Neighboring
from tests.planned import plan_of

ADULT = (9, 7, 15, 6, 5, 2, 42, 100)
DELTA = Fraction(1, 10**6)
# mu of the one Gaussian that is (1, 1e-6) and (10, 1e-6)-private
MU = {1: 0.2365, 10: 1.9}


def residual(*sizes: int) -> Residual:
    axes = tuple(range(len(sizes)))
    return Residual(shape=sizes, axes=axes, grain=grain_for(sizes, axes))


def workload(mu: float, relation: Neighboring = Neighboring.ADD_REMOVE, rows: int = 1) -> tuple[Composed, Fraction]:
    """All 93 residuals of the three-way marginals, with unequal parts of mu^2, and the mu^2 that they have."""
    chosen = [sizes for count in range(4) for sizes in combinations(ADULT, count)]
    weights = [1 / (1 + at % 7) for at in range(len(chosen))]
    draws, squared = [], Fraction(0)
    for sizes, weight in zip(chosen, weights, strict=True):
        known = residual_sensitivity(residual(*sizes), rows, relation)
        scale = Fraction(math.sqrt(known.l2_squared / Fraction(mu**2 * weight / sum(weights))))
        draws.append(DiscreteGaussian(scale=scale, sensitivity=known))
        squared += known.l2_squared / scale**2
    return Composed(events=tuple(draws)), squared


@pytest.mark.parametrize("relation", Neighboring)
@pytest.mark.parametrize("target", MU)
def test_93_residual_draws_cost_what_one_continuous_gaussian_costs(target: int, relation: Neighboring) -> None:
    event, squared = workload(MU[target], relation, rows=2)
    continuous = gaussian.epsilon(squared, DELTA)
    found = ACCOUNTANTS["pld"].epsilon(event, DELTA)
    assert len(event.events) == 93
    assert continuous <= found <= continuous * (1 + Fraction(1, 10**6))
    assert _holds("pld", draws_of_event(event), found, DELTA)
    assert not _holds("pld", draws_of_event(event), found * Fraction(99, 100), DELTA)


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_every_accountant_takes_them_and_claims_no_less(name: str) -> None:
    event, squared = workload(MU[1])
    found = ACCOUNTANTS[name].epsilon(event, DELTA)
    assert found >= gaussian.epsilon(squared, DELTA)
    assert _holds(name, draws_of_event(event), found, DELTA)
    if name in ("zcdp", "rdp"):
        assert found <= gaussian.epsilon(squared, DELTA) * Fraction(109, 100)


@pytest.mark.parametrize("sizes", [(2,), (3,), (2, 3), (5, 4), (2, 2, 2)])
@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_the_price_by_norms_is_the_price_by_the_lattice(sizes: tuple[int, ...], mu: float) -> None:
    """The change of a residual of one row is the same multiset for every row: composed exactly, cell by cell.

    The lattice's own epsilon is certified to a few parts in 10^7, from above.
    """
    known = residual_sensitivity(residual(*sizes), 1, Neighboring.ADD_REMOVE)
    scale = Fraction(math.sqrt(known.l2_squared) / mu)
    grain = residual(*sizes).grain
    entries = Counter({grain: 1})
    for n in sizes:
        entries = Counter({entry * (n - 1): often for entry, often in entries.items()}) + Counter(
            {entry: often * (n - 1) for entry, often in entries.items()}
        )
    assert sum(entries.values()) == prod(sizes)
    lattice = ComposedLoss(Counter({CellLaw("bell", scale, entry): often for entry, often in entries.items()}))
    found = ACCOUNTANTS["pld"].epsilon(DiscreteGaussian(scale=scale, sensitivity=known), DELTA)
    exact = lattice.epsilon(DELTA)
    assert exact * (1 - Fraction(3, 10**7)) <= found <= exact * (1 + Fraction(2, 10**6))


def listed(known: Sensitivity) -> list[int]:
    """The covering vector of an unknown one, to its end and by its definition."""
    places = [
        min(floor(known.linf), floor(known.l1 / i), isqrt(floor(known.l2_squared / i))) for i in range(1, known.l0 + 1)
    ]
    return [place for place in places if place]


UNKNOWN = [
    Sensitivity(l0=1, l1=Fraction(3), l2_squared=Fraction(9), linf=Fraction(3)),
    Sensitivity(l0=4, l1=Fraction(4), l2_squared=Fraction(4), linf=Fraction(1)),
    Sensitivity(l0=5, l1=Fraction(20), l2_squared=Fraction(49), linf=Fraction(5)),
    Sensitivity(l0=900, l1=Fraction(15, 2), l2_squared=Fraction(55, 3), linf=Fraction(7, 2)),
    residual_sensitivity(residual(3, 4), 2, Neighboring.REPLACE_ONE),
]


@pytest.mark.parametrize("known", UNKNOWN)
def test_the_covering_vector_is_the_one_by_definition_and_exact_where_it_has_no_larger_norm(known: Sensitivity) -> None:
    assert list(_covering(known)) == listed(known)
    assert _is_known(known) == (sum(c * c for c in listed(known)) <= known.l2_squared)


def test_a_draw_of_a_billion_cells_is_priced_without_listing_them() -> None:
    start = process_time()
    for scale in (100, 10**5):  # below and above what is read by the Gaussian bound alone
        square = Fraction(scale**2, 4)
        known = Sensitivity(l0=10**9, l1=10 * square, l2_squared=square, linf=Fraction(7))
        assert ACCOUNTANTS["pld"].epsilon(DiscreteGaussian(scale=Fraction(scale), sensitivity=known), DELTA) > 1
    assert process_time() - start < 5


def test_a_near_epsilon_of_many_cells_is_certified_and_near() -> None:
    for sizes in ((2,), (3, 4), (42, 100, 15)):
        for mu, delta in ((0.01, DELTA), (0.3, DELTA / 93), (2.0, Fraction(1, 10**12))):
            known = residual_sensitivity(residual(*sizes), 1, Neighboring.ADD_REMOVE)
            atom = DiscreteGaussian(scale=Fraction(math.sqrt(known.l2_squared) / mu), sensitivity=known)
            near = single.near_epsilon(atom, delta)
            assert single.delta(atom, near) <= delta
            assert near <= single.epsilon(atom, delta) * (1 + Fraction(1, 10**4))


def step_of(residual: Residual, scale: Fraction) -> Step:
    """As far as it matters for its room."""
    step = plan_of().steps[0]
    return step.model_copy(update={"residual": residual, "scale": scale, "mechanism": "discrete_gaussian"})


def test_a_residual_has_room_if_its_counts_and_its_noise_do() -> None:
    widest = (2**63 - 1 - 2**61) // 11
    assert has_room(step_of(residual(42, 100, 15), Fraction(widest)))
    assert not has_room(step_of(residual(42, 100, 15), Fraction(widest + 1)))
    # contrasts that grow by more than 2^29 would clamp counts of 2^32 rows
    largest = Residual(shape=(2,), axes=(0,), grain=2**28)
    assert largest.most_rows == 2**32
    assert has_room(step_of(largest, Fraction(1000)))
    assert not has_room(step_of(Residual(shape=(2,), axes=(0,), grain=2**28 + 1), Fraction(1000)))
