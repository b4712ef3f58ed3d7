"""Group privacy: the formulas, and events scaled to k units against enumerated sums of k changes."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from dprelease.errors import PlanError, UnsupportedEvent
from dprelease.privacy import group
from dprelease.privacy.accountants.base import atoms, pure_epsilon
from dprelease.privacy.accountants.rdp import Rdp
from dprelease.privacy.accountants.rho import plain_rho
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    KNorm,
    Laplace,
    Parallel,
    Repeated,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.unit import Neighboring
from tests.reference_comparisons import renyi_of_a_group

HALF = Fraction(1, 2)


def test_the_formulas() -> None:
    assert group.pure(HALF, 3) == Fraction(3, 2)  # case group-pure
    assert group.approximate(HALF, Fraction(0), 3) == (Fraction(3, 2), Fraction(0))
    assert group.concentrated(Fraction(1, 10), 3) == Fraction(9, 10)  # case group-zcdp
    assert renyi_of_a_group(Fraction(32), HALF, 3) == (Fraction(4), Fraction(27, 2))
    assert renyi_of_a_group(Fraction(5), HALF, 0) == (Fraction(5), HALF)


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_deltas_grow_with_every_step(k: int) -> None:
    """The closed form against the chain of inequalities that proves it."""
    epsilon, delta = Fraction(3, 10), Fraction(1, 10**8)
    chained = 0.0
    for _ in range(k):
        chained = chained * 2.718281828459045 ** float(epsilon) + float(delta)
    found = group.approximate(epsilon, delta, k)
    assert found[0] == k * epsilon
    assert float(found[1]) == pytest.approx(chained, rel=1e-12)
    assert group.approximate(Fraction(0), delta, k)[1] == k * delta


def test_a_delta_never_passes_one() -> None:
    assert group.approximate(Fraction(1), Fraction(1, 10), 20)[1] == 1
    assert group.approximate(Fraction(1000), Fraction(1, 10), 10**6)[1] == 1
    with pytest.raises(UnsupportedEvent):
        group.of_event(Approximate(epsilon=Fraction(1), delta=Fraction(1, 10)), 20)


@pytest.mark.parametrize("k", [0, -1])
def test_a_group_has_units(k: int) -> None:
    for call in (
        lambda: group.pure(HALF, k),
        lambda: group.approximate(HALF, HALF, k),
        lambda: group.concentrated(HALF, k),
        lambda: group.of_event(Concentrated(rho=HALF), k),
        lambda: renyi_of_a_group(Fraction(2), HALF, k or -1),
    ):
        with pytest.raises(PlanError):
            call()
    with pytest.raises(PlanError):
        renyi_of_a_group(Fraction(3), HALF, 1)


SENSITIVITIES = [
    Sensitivity.of_one_cell(2),
    Sensitivity.of_shifts((2, 1)),
    Sensitivity.of_shifts((2,), (1, 1)),
]


def changes(one: Sensitivity, cells: int) -> set[tuple[int, ...]]:
    """Every change that one unit can make to that many cells."""
    reach = range(-int(one.linf), int(one.linf) + 1)
    found = set()
    for change in itertools.product(reach, repeat=cells):
        size = sorted((abs(c) for c in change if c), reverse=True)
        if any(len(size) <= len(s) and all(a <= b for a, b in zip(size, s, strict=False)) for s in one.shifts):
            found.add(change)
    return found


@pytest.mark.parametrize("one", SENSITIVITIES)
@pytest.mark.parametrize("k", [2, 3])
def test_sensitivities_cover_every_sum_of_k_changes_and_are_reached(one: Sensitivity, k: int) -> None:
    cells = 3
    event = group.of_event(DiscreteLaplace(scale=Fraction(5), sensitivity=one), k)
    assert isinstance(event, DiscreteLaplace)
    claimed = event.sensitivity
    sums = {(0,) * cells}
    for _ in range(k):
        sums = {tuple(a + b for a, b in zip(s, c, strict=True)) for s in sums for c in changes(one, cells)}
    assert max(sum(map(abs, s)) for s in sums) == claimed.l1
    assert max(sum(c * c for c in s) for s in sums) == claimed.l2_squared
    assert max(max(map(abs, s)) for s in sums) == claimed.linf
    assert max(sum(1 for c in s if c) for s in sums) == min(cells, claimed.l0)
    for s in sums if claimed.shifts else ():
        size = sorted((abs(c) for c in s if c), reverse=True)
        assert any(len(size) <= len(w) and all(a <= b for a, b in zip(size, w, strict=False)) for w in claimed.shifts)
    assert bool(claimed.shifts) == (one.l0 == 1)


def test_shifts_of_one_cell_are_the_partitions() -> None:
    one = DiscreteGaussian(scale=Fraction(3), sensitivity=Sensitivity.of_one_cell(2))
    scaled = group.of_event(one, 3)
    assert isinstance(scaled, DiscreteGaussian)
    assert set(scaled.sensitivity.shifts) == {(6,), (4, 2), (2, 2, 2)}
    assert scaled.sensitivity == Sensitivity.of_shifts((6,), (4, 2), (2, 2, 2))
    large = group.of_event(one, 500)
    assert isinstance(large, DiscreteGaussian)
    assert large.sensitivity.shifts == ()
    assert large.sensitivity.l2_squared == 10**6


def test_every_kind_of_event() -> None:
    laplace = Laplace(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1))
    gauss = Gaussian(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1))
    knorm = KNorm(ball="linf", dimension=2, scale=Fraction(4), gauge=Fraction(3))
    total = TotalResidual(dimension=20, share=Fraction(1, 5), scale=Fraction(4), rows=3)
    assert group.of_event(total, 2) == total.model_copy(update={"rows": 6})
    for pure in (laplace, knorm, total, Approximate(epsilon=HALF), BoundedRange(epsilon=HALF)):
        scaled = group.of_event(pure, 3)
        assert pure_epsilon(scaled) == 3 * (pure_epsilon(pure) or 0)  # type: ignore[arg-type]
        assert group.of_event(pure, 1) == pure
    for event in (gauss, laplace, Concentrated(rho=HALF), BoundedRange(epsilon=HALF), knorm):
        together = Composed(events=(Repeated(event=event, count=4), event))
        three = group.of_event(together, 3)
        one_rho, three_rho = (sum(n * plain_rho(atom) for atom, n in atoms(each).items()) for each in (together, three))
        assert three_rho == 9 * one_rho
        assert (
            total_rho(three) == three_rho if event != knorm else 3 * total_rho(together) < total_rho(three) < three_rho
        )
    box = group.of_event(Approximate(epsilon=HALF, delta=Fraction(1, 1000)), 2)
    assert isinstance(box, Approximate)
    assert (box.epsilon, box.delta) == group.approximate(HALF, Fraction(1, 1000), 2)


def part(rho: int) -> Event:
    return Concentrated(rho=Fraction(rho, 10))


def test_units_fall_into_parts_in_every_way() -> None:
    one = Parallel(events=(part(3), part(2), part(2)))
    scaled = group.of_event(one, 2)
    assert isinstance(scaled, Parallel)
    rhos = sorted(total_rho(case) for case in scaled.events)
    tenth = Fraction(1, 10)
    # both in one part: 4 x 3, 4 x 2; one in each: 3 + 2, 2 + 2
    assert rhos == [4 * tenth, 5 * tenth, 8 * tenth, 12 * tenth]
    replaced = group.of_event(Parallel(events=one.events, neighboring=Neighboring.REPLACE_ONE), 2)
    assert total_rho(replaced) == 16 * Fraction(3, 10)  # four times in or out of the largest part
    assert group.of_event(one, 1) == one
    assert group.of_event(Parallel(), 5) == Parallel(events=(Composed(),))


def test_too_many_ways_are_refused_at_once() -> None:
    many = Parallel(events=tuple(part(n) for n in range(1, 200)))
    with pytest.raises(UnsupportedEvent, match="ways"):
        group.of_event(many, 50)
    equal = Parallel(events=(part(1),) * 3)
    scaled = group.of_event(equal, 100)
    assert isinstance(scaled, Parallel)
    assert len(scaled.events) == 884  # partitions of 100 into at most three
    assert total_rho(scaled) == 1000


@pytest.mark.parametrize("k", [2, 4])
def test_a_group_of_draws_costs_more_than_k_times_in_rdp_but_no_more_than_the_pure_sum(k: int) -> None:
    event = Repeated(event=DiscreteLaplace(scale=Fraction(20), sensitivity=Sensitivity.of_one_cell(1)), count=30)
    delta = Fraction(1, 10**6)
    one, group_of_k = Rdp().epsilon(event, delta), Rdp().epsilon(group.of_event(event, k), delta)
    assert k * one < group_of_k <= k * Fraction(30, 20)
