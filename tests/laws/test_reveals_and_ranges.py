"""Draws that reveal, choices of bounded range, and changes of which only norms are known: no claim is below the truth.

The truth is listed: every pair of outputs laws that such a draw may have on a small case, composed by hand, also where
the second choice is made after the first answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import atoms
from dprelease.privacy.accountants.reveals import peeled, total_reveal
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Parallel,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.unit import Neighboring

from .exact import Law, black_box, covered, moved, together, worst_delta

F = Fraction
DELTAS = (F(1, 10), F(1, 1000), F(1, 10**6))
PARTS = 10


def two_points(size: float, upper: float) -> Law:
    """Losses ``upper`` and ``upper - size``: the mean of exp(-loss) is one."""
    mass = math.expm1(upper - size) / math.expm1(-size)
    return Law(np.array([upper, upper - size]), np.array([mass, 1 - mass]))


def uppers(size: float) -> list[float]:
    return [size * k / PARTS for k in range(1, PARTS + 1)]


def chosen_after(first: Law, seconds: Iterable[Law]) -> Law:
    """One further law for each outcome of the first."""
    pairs = list(zip(first.losses, first.mass, seconds, strict=True))
    losses = np.concatenate([loss + second.losses for loss, _, second in pairs])
    return Law(losses, np.concatenate([mass * second.mass for _, mass, second in pairs]))


@lru_cache(maxsize=16)
def choices(size: float, rounds: int) -> tuple[Law, ...]:
    """Pairs of that many choices, each made after the answers before it; the last ones are all alike where many."""
    found = [two_points(size, upper) for upper in uppers(size)]
    for _ in range(rounds - 1):
        nexts = [two_points(size, upper) for upper in uppers(size)]
        ways = [found[k] for k in range(0, len(found), max(1, len(found) // 30))]
        found = [chosen_after(one, seconds) for one in ways for seconds in _answers(one, nexts)]
    return tuple(found)


def _answers(first: Law, nexts: list[Law]) -> Iterator[list[Law]]:
    # what comes next depends on whether the loss so far is high or low
    high = first.losses >= np.median(first.losses)
    for one, other in product(nexts, repeat=2):
        yield [one if each else other for each in high]


def hold(event: Event, laws: Iterable[Law], deltas: Iterable[Fraction] = DELTAS) -> dict[str, float]:
    """Every accountant in both directions; the smallest ratio of the true delta to the claimed one, by accountant."""
    laws = list(laws)
    tight: dict[str, float] = {}
    for name, accountant in ACCOUNTANTS.items():
        for delta in deltas:
            epsilon = accountant.epsilon(event, delta)
            true = worst_delta(laws, float(epsilon))
            assert true <= float(delta) * (1 + 1e-7), (name, event, delta)
            assert true <= float(accountant.delta(event, epsilon)) * (1 + 1e-7) + 1e-15, (name, event, delta)
            below = epsilon * F(9, 10)
            assert worst_delta(laws, float(below)) <= float(accountant.delta(event, below)) * (1 + 1e-7), (name, event)
            tight[name] = max(tight.get(name, 0.0), true / float(delta))
    return tight


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("size", ["1/20", "1/2", "3"])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_choices_made_one_after_the_other(size: str, rounds: int) -> None:
    event = Repeated(event=BoundedRange(epsilon=F(size)), count=rounds)
    tight = hold(event, choices(float(F(size)), rounds))
    assert tight["pld"] > 0.5  # so that a claim that is a little too small would be seen
    if rounds > 1:  # and it is: the profile of a range a tenth smaller
        less = Repeated(event=BoundedRange(epsilon=F(size) * F(9, 10)), count=rounds)
        claims = [(delta, ACCOUNTANTS["pld"].epsilon(less, delta)) for delta in DELTAS]
        assert any(worst_delta(choices(float(F(size)), rounds), float(e)) > float(d) for d, e in claims)


LAPLACE = DiscreteLaplace(scale=F(2), sensitivity=Sensitivity.of_shifts((2, 1)))
GAUSSIAN = DiscreteGaussian(scale=F(3, 2), sensitivity=Sensitivity.of_shifts((1, 1)))


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("beside", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("own", ["0", "1/2", "2"])
def test_a_reveal_and_a_choice_beside_noise(beside: DiscreteLaplace | DiscreteGaussian, own: str) -> None:
    box = Approximate(epsilon=F(own), delta=F(1, 10**4))
    event = Composed(events=(box, beside, Repeated(event=BoundedRange(epsilon=F(1, 3)), count=2)))
    fixed = together([black_box(box), moved(beside, beside.sensitivity.shifts[0])])
    pairs = [choice for k, choice in enumerate(choices(1 / 3, 2)) if k % 20 == 0]
    laws = [together([fixed, pair]) for pair in pairs]
    tight = hold(event, laws, (F(1, 10), F(1, 1000)))
    assert tight["pld"] > 0.5
    # without the reveal the claim would be false
    rest = Composed(events=event.events[1:])
    at = F(10001, 10**8)
    assert worst_delta(laws, float(ACCOUNTANTS["zcdp"].epsilon(rest, at))) > 0
    assert worst_delta(laws, 50.0) > 0.99e-4


@pytest.mark.parametrize("name", list(ACCOUNTANTS))
def test_reveals_compose_exactly_and_are_refused_beyond_delta(name: str) -> None:
    accountant, reveal = ACCOUNTANTS[name], Approximate(epsilon=F(0), delta=F(1, 100))
    many = Repeated(event=reveal, count=3)
    shown = 1 - F(99, 100) ** 3
    assert shown <= accountant.delta(many, F(0)) <= F(3, 100)
    assert accountant.epsilon(many, F(3, 100)) == 0
    for event in (many, Composed(events=(many, LAPLACE)), Composed(events=(many, GAUSSIAN))):
        with pytest.raises(UnsupportedEvent, match="deltas") as caught:
            accountant.epsilon(event, F(1, 50))
        assert "give the budget a delta of at least 0.0" in caught.value.hint
        assert accountant.rough_epsilon(event, 0.02) == math.inf
        assert shown <= accountant.delta(event, F(40)) <= 1
        if event is not many:
            assert 0 < accountant.epsilon(event, F(1, 20)) < math.inf


@pytest.mark.parametrize("relation", list(Neighboring))
def test_reveals_in_parallel_parts(relation: Neighboring) -> None:
    boxes = [Approximate(epsilon=F(1, 2), delta=F(1, 1000)), Approximate(epsilon=F(1), delta=F(1, 10**5))]
    event = Parallel(events=(*boxes, Approximate(epsilon=F(1, 3))), neighboring=relation)
    touched = [[box] for box in boxes] if relation is Neighboring.ADD_REMOVE else [boxes]
    tight = hold(event, [together(map(black_box, some)) for some in touched], (F(1, 10), F(1, 100)))
    assert min(tight.values()) > 0
    assert total_reveal(event) == (
        F(1, 1000) if relation is Neighboring.ADD_REMOVE else 1 - F(999, 1000) * F(99999, 10**5)
    )


def test_what_is_taken_apart_and_what_is_left() -> None:
    box, reveal = Approximate(epsilon=F(1), delta=F(1, 8)), Approximate(epsilon=F(0), delta=F(1, 4))
    found = peeled(atoms(Composed(events=(box, Approximate(epsilon=F(1)), Repeated(event=reveal, count=2), LAPLACE))))
    assert found.atoms == {Approximate(epsilon=F(1)): 2, LAPLACE: 1}
    assert found.failure == 1 - F(7, 8) * F(9, 16)
    assert found.total(F(0)) == found.failure
    assert found.total(found.slack(F(3, 4))) == F(3, 4)
    assert found.spent == F(5, 8) == total_reveal(Composed(events=(box, reveal, reveal)))


def unlisted(l0: int, l1: int, square: int, linf: int) -> Sensitivity:
    return Sensitivity(l0=l0, l1=F(l1), l2_squared=F(square), linf=F(linf))


NORMS = {"a unit of four rows": (3, 4, 6, 2), "many rows": (4, 6, 9, 3), "one cell counts": (2, 5, 25, 5)}


def vectors(known: Sensitivity) -> list[tuple[int, ...]]:
    """Every whole vector that has no norm above these; those that others cover are left out."""
    each = product(range(int(known.linf) + 1), repeat=known.l0)
    return covered(v for v in each if sum(v) <= known.l1 and sum(c * c for c in v) <= known.l2_squared)


@pytest.mark.thin
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("scale", ["1", pytest.param("5", marks=pytest.mark.nightly), "17"])
@pytest.mark.parametrize("norms", NORMS)
def test_norms_alone_bound_every_vector_that_has_them(
    norms: str, scale: str, kind: type[DiscreteLaplace | DiscreteGaussian]
) -> None:
    """Alone, and beside another draw; scales below and above that from which a Gaussian bound is proved."""
    known = unlisted(*NORMS[norms])
    draw = kind(scale=F(scale), sensitivity=known)
    laws = [moved(draw, vector) for vector in vectors(known)]
    tight = hold(draw, laws)
    if kind is DiscreteGaussian and scale == "17":
        assert tight["pld"] > 0.9
    beside = Approximate(epsilon=F(1, 4), delta=F(1, 10**5))
    more = [together([law, black_box(beside)]) for law in laws]
    hold(Composed(events=(draw, beside)), more, (F(1, 10), F(1, 1000)))


@pytest.mark.thin
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("scale", ["2", "18"])
def test_a_unit_of_rows_that_are_replaced(scale: str, kind: type[DiscreteLaplace | DiscreteGaussian]) -> None:
    """k rows change within their cells, by up to 3 each; the others leave one cell and enter another, by up to 2."""
    shifts = [(3,) * k + (2,) * (2 * (2 - k)) for k in range(3)]
    draw = kind(scale=F(scale), sensitivity=Sensitivity.of_shifts(*shifts))
    laws = [moved(draw, shift) for shift in shifts]
    hold(draw, laws)
    if kind is DiscreteLaplace:
        hold(Repeated(event=draw, count=2), [together([law, law]) for law in laws])


def test_cells_by_the_thousand_are_no_trouble() -> None:
    known = unlisted(3000, 30_000, 300_000, 10)
    for scale in ("4", "4000"):
        for kind in (DiscreteLaplace, DiscreteGaussian):
            draw = kind(scale=F(scale), sensitivity=known)
            for accountant in ACCOUNTANTS.values():
                assert 0 < accountant.epsilon(draw, F(1, 10**9)) < 10**6
                assert 0 < accountant.rough_epsilon(draw, 1e-9) < 10**6
