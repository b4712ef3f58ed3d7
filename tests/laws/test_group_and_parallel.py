"""Several units at once, units with many rows, and parts in parallel, against every change that they can really make."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from dprelease.errors import UnsupportedEvent
from dprelease.privacy import group
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import pure_epsilon
from dprelease.privacy.accountants.rho import zcdp_rho
from dprelease.privacy.event import (
    Approximate,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    KNorm,
    Parallel,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.unit import Neighboring
from tests.accountants import ANY_NOISE

from .exact import Cell, Law, cells_of, covered, knorm, moved, norm, of_cells, together, worst_delta

F = Fraction
Noise = DiscreteLaplace | DiscreteGaussian
DELTA = F(1, 10**5)
names = pytest.mark.parametrize("name", ANY_NOISE)
ADD, REPLACE = Neighboring.ADD_REMOVE, Neighboring.REPLACE_ONE


def held(name: str, event: Event, laws: list[Law], *, must: bool = True, tight: float = 0.0) -> None:
    """What an accountant claims for the event is never below the worst of these laws.

    With ``must`` it may not refuse; with ``tight`` its epsilon may not be that part of itself too large.
    """
    accountant = ACCOUNTANTS[name]
    try:
        claimed = accountant.epsilon(event, DELTA)
    except UnsupportedEvent:
        assert not must
        return
    assert worst_delta(laws, float(claimed)) <= float(DELTA) * (1 + 1e-7)
    if tight:
        assert worst_delta(laws, float(claimed) * (1 - tight)) > float(DELTA)
    for part in (F(1, 4), F(3, 4)):
        epsilon = claimed * part
        assert float(accountant.delta(event, epsilon)) >= worst_delta(laws, float(epsilon)) * (1 - 1e-7)


def changes(one: Sensitivity, cells: int) -> set[tuple[int, ...]]:
    """Every change that one unit can make to that many cells."""
    reach = range(-int(one.linf), int(one.linf) + 1)
    return {
        change
        for change in product(reach, repeat=cells)
        if covered([change]) == [()] or any(covered([change, shift]) == [shift] for shift in one.shifts)
    }


def sums(one: Sensitivity, k: int, cells: int = 3) -> list[tuple[int, ...]]:
    """Every change that k units can make to that many cells, but for those that another one covers."""
    single = changes(one, cells)
    found = {(0,) * cells}
    for _ in range(k):
        found = {tuple(a + b for a, b in zip(s, c, strict=True)) for s in found for c in single}
    return covered(found)


UNITS = [Sensitivity.of_one_cell(1), Sensitivity.of_one_cell(2), Sensitivity.of_shifts((2, 1))]
NOISES: list[tuple[type[Noise], int]] = [(DiscreteLaplace, 5), (DiscreteGaussian, 6), (DiscreteGaussian, 17)]


@pytest.mark.thin
@names
@pytest.mark.parametrize("one", UNITS, ids=["one cell", "twice", "two cells"])
@pytest.mark.parametrize(("kind", "scale"), NOISES, ids=["laplace", "gaussian", "wide gaussian"])
@pytest.mark.parametrize("k", [2, 3])
def test_a_group_never_costs_more_than_is_claimed(
    name: str, one: Sensitivity, kind: type[Noise], scale: int, k: int
) -> None:
    draw = kind(scale=F(scale), sensitivity=one)
    ways = [cells_of(draw, change) for change in sums(one, k)]
    narrow = kind is DiscreteGaussian and scale < 16  # the loss distribution then needs one vector
    for count in (1, 2):
        event = group.of_event(Repeated(event=draw, count=count), k)
        held(name, event, [of_cells(way * count) for way in ways], must=not (name == "pld" and narrow))


@pytest.mark.thin
@names
@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize(("kind", "scale"), NOISES, ids=["laplace", "gaussian", "wide gaussian"])
def test_a_unit_with_many_rows_is_a_group_of_rows(name: str, kind: type[Noise], scale: int, rows: int) -> None:
    """Each row changes one cell by one: the worst vectors of that many rows, and a group of one-row units."""
    row = kind(scale=F(scale), sensitivity=Sensitivity.of_one_cell(1))
    unit = kind(scale=F(scale), sensitivity=Sensitivity.of_shifts(*sums(row.sensitivity, rows, cells=rows)))
    assert group.of_event(row, rows) == unit
    bounded = kind(scale=F(scale), sensitivity=Sensitivity.of_shifts((rows,)))
    held(name, bounded, [moved(bounded, (rows,))], tight=1e-5 if name == "pld" else 0.0)
    try:
        whole = ACCOUNTANTS[name].epsilon(unit, DELTA)
    except UnsupportedEvent:
        return
    assert whole >= ACCOUNTANTS[name].epsilon(bounded, DELTA)  # one cell is among the ways


@pytest.mark.thin
@names
@pytest.mark.parametrize("k", [2, 3])
def test_norms_of_a_group_are_never_below_its_worst_vectors(name: str, k: int) -> None:
    """Where the worst vectors of one unit are listed, a group is claimed by norms alone; listing it again costs less."""
    one = Sensitivity.of_shifts((2, 1), (1, 1, 1))
    for kind, scale in NOISES:
        scaled = group.of_event(kind(scale=F(scale), sensitivity=one), k)
        assert isinstance(scaled, DiscreteLaplace | DiscreteGaussian)
        listed = kind(scale=F(scale), sensitivity=Sensitivity.of_shifts(*sums(one, k, cells=3)))
        for norm_of in ("l1", "l2_squared", "linf"):
            assert getattr(scaled.sensitivity, norm_of) >= getattr(listed.sensitivity, norm_of)
        try:
            claims = [ACCOUNTANTS[name].epsilon(event, DELTA) for event in (scaled, listed)]
        except UnsupportedEvent:
            continue
        assert claims[0] * (1 + F(1, 10**9)) >= claims[1]


@pytest.mark.thin
@names
@pytest.mark.parametrize("ball", ["count", "linf"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_group_under_knorm_noise(name: str, ball: str, k: int) -> None:
    """A unit moves one cell by any vector of its ball; k of them by any sum."""
    draw = KNorm.model_validate({"ball": ball, "dimension": 2, "scale": F(2), "gauge": F(2)})
    grid = np.array(list(product(range(-2, 3), repeat=2)))
    single = {tuple(map(int, v)) for v in grid[norm(ball, grid) <= 2]}
    found = {(0, 0)}
    for _ in range(k):
        found = {(a + c, b + d) for a, b in found for c, d in single}
    gauges = norm(ball, np.array(sorted(found)))
    worst = [v for v, gauge in zip(sorted(found), gauges, strict=True) if gauge == gauges.max()]
    event = group.of_event(draw, k)
    assert pure_epsilon(event) == F(int(gauges.max()), 2)  # type: ignore[arg-type]
    laws = [knorm(draw, change) for change in worst[: len(worst) // 2 + 1]]
    assert max(float(law.losses.max()) for law in laws) == pytest.approx(float(gauges.max()) / 2)
    if name == "zcdp":
        for law, order in product(laws, (1.5, 3, 20)):
            assert law.renyi(order) <= order * float(zcdp_rho(event) or 0)  # type: ignore[arg-type]
    held(name, event, laws)


@pytest.mark.parametrize("shift", [(1,), (1, 1), (2, 1), (3, 3), (1, 5)])
@pytest.mark.parametrize("scale", [F(1, 2), F(2), F(11, 2), F(30)])
def test_rho_of_independent_laplace_cells_is_above_every_renyi_divergence(
    scale: Fraction, shift: tuple[int, ...]
) -> None:
    """At most L2^2 / (2 b^2), not L1^2 / (2 b^2): cells are independent, so their divergences add up."""
    draw = DiscreteLaplace(scale=scale, sensitivity=Sensitivity.of_shifts(shift))
    law, rho = moved(draw, shift), float(zcdp_rho(draw) or 0)
    assert rho == pytest.approx(float((law.losses * law.mass).sum()), rel=1e-6)
    assert rho < sum(c * c for c in shift) / (2 * float(scale) ** 2)
    ratios = [law.renyi(order) / (order * rho) for order in (1 + 1e-4, 1.1, 1.5, 2, 3, 5, 10, 30, 100, 1000)]
    assert max(ratios) <= 1 + 1e-9
    assert max(ratios) > 0.999  # next to the order 1 there is no room


# Parts in parallel: a public rule gives every unit its part; in each part a table of two cells gets noise of its own.
PARTS: list[Noise] = [
    DiscreteLaplace(scale=F(3), sensitivity=Sensitivity.of_one_cell(1)),
    DiscreteGaussian(scale=F(4), sensitivity=Sensitivity.of_one_cell(1)),
    DiscreteLaplace(scale=F(7, 2), sensitivity=Sensitivity.of_one_cell(2)),
    DiscreteGaussian(scale=F(5), sensitivity=Sensitivity.of_one_cell(1)),
]


def replaceable(part: Noise) -> Noise:
    """The same noise when units are replaced: one may leave a cell of the part and enter another."""
    c = int(part.sensitivity.linf)
    return part.model_copy(update={"sensitivity": Sensitivity.of_shifts((c, c))})


def partitions() -> list[list[Noise]]:
    return [list(parts) for size in (2, 3) for parts in combinations(PARTS, size)]


def touched(parts: list[Noise], relation: Neighboring) -> list[list[Cell]]:
    """What moves in every way in which one unit can differ."""
    entered = [cells_of(part, (int(part.sensitivity.linf),)) for part in parts]
    if relation is ADD:
        return entered
    stays = [cells * 2 for cells in entered]
    return stays + [a + b for a, b in combinations(entered, 2)]


def parallel(parts: list[Noise], relation: Neighboring) -> Parallel:
    own = parts if relation is ADD else [replaceable(part) for part in parts]
    return Parallel(events=tuple(own), neighboring=relation)


@pytest.mark.thin
@names
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("parts", partitions(), ids=lambda parts: "+".join(str(PARTS.index(p)) for p in parts))
def test_parts_in_parallel_cover_every_unit(name: str, parts: list[Noise], relation: Neighboring) -> None:
    event, ways = parallel(parts, relation), touched(parts, relation)
    pure = all(isinstance(part, DiscreteLaplace) for part in parts)
    must = pure or name not in ("basic", "advanced")
    held(name, event, list(map(of_cells, ways)), must=must, tight=1e-6 if name == "pld" and relation is ADD else 0.0)
    # beside a draw on the whole, and twice: what one unit touches it touches each time
    whole = DiscreteLaplace(scale=F(5), sensitivity=Sensitivity.of_one_cell(1 if relation is ADD else 2))
    extra = cells_of(whole, (int(whole.sensitivity.linf),))
    beside = [of_cells(way + extra) for way in ways]
    held(name, Composed(events=(event, whole)), beside, must=must and (pure or name != "pld"))
    again = [of_cells(way * 2) for way in ways]
    held(name, Repeated(event=event, count=2), again, must=must and (pure or name != "pld"))


@names
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("k", [2, 3])
def test_a_group_falls_into_parts_in_every_way(name: str, relation: Neighboring, k: int) -> None:
    """Two parts, one cell each: k units added, or replaced, each leaving one part and entering the other or the same."""
    if relation is REPLACE and k == 3:
        k = 1
    parts = [PARTS[0], DiscreteLaplace(scale=F(9), sensitivity=Sensitivity.of_one_cell(2))]
    event = group.of_event(Parallel(events=tuple(parts), neighboring=relation), k)
    moves = range(-k, k + 1)
    if relation is ADD:  # that many units more or fewer in either part
        counts = [(a, b) for a in moves for b in moves if abs(a) + abs(b) <= k]
        vectors = [((abs(a),), (2 * abs(b),)) for a, b in counts]
    else:  # as many leave as enter, or stay and change by as much as one that enters
        vectors = [((a,), (2 * b,)) for a in range(k + 1) for b in range(2 * k + 1) if max(a, b) <= k]
    laws = [together([moved(parts[0], a), moved(parts[1], b)]) for a, b in vectors]
    held(name, event, laws)


def pairs() -> list[tuple[Event, Event]]:
    """Two parts of which the second is a part of the first, in a way that shows only when equal things are counted."""
    box = Approximate(epsilon=F(1, 10), delta=F(1, 1000))
    failing = (
        Composed(events=(box, Approximate(epsilon=F(1, 5), delta=F(1, 1000)))),
        Composed(events=(box, Approximate(epsilon=F(1, 5)))),
    )
    # equal in all that the Gaussian bound reads
    norms = Sensitivity(l0=2, l1=F(3), l2_squared=F(5), linf=F(2))
    wide = DiscreteGaussian(scale=F(20), sensitivity=norms)
    other = DiscreteGaussian(scale=F(20), sensitivity=norms.model_copy(update={"l1": F(4)}))
    return [failing, (Composed(events=(wide, other)), wide)]


@pytest.mark.parametrize("pair", pairs(), ids=["deltas", "bundles"])
def test_the_order_of_parts_does_not_matter_to_the_loss_distribution(pair: tuple[Event, Event]) -> None:
    accountant = ACCOUNTANTS["pld"]
    for epsilon in (F(1, 10), F(1, 3), F(1)):
        dear = accountant.delta(pair[0], epsilon)
        assert dear >= accountant.delta(pair[1], epsilon)
        for parts in (pair, pair[::-1]):
            assert accountant.delta(Parallel(events=parts), epsilon) == dear
        replaced = accountant.delta(Parallel(events=pair, neighboring=REPLACE), epsilon)
        assert replaced == accountant.delta(Composed(events=pair), epsilon)


def test_delta_far_beyond_the_reach_of_the_gaussian_bound_is_a_bound_all_the_same() -> None:
    """At a scale of 16 no tail below 1e-50 is proved: a larger delta is then told, where there once was an error."""
    accountant = ACCOUNTANTS["pld"]
    several = Sensitivity.of_shifts((2, 1), (1, 1, 1))
    event = DiscreteGaussian(scale=F(16), sensitivity=several)
    found = [accountant.delta(event, F(epsilon)) for epsilon in (1, 2, 4, 8, 30)]
    assert found == sorted(found, reverse=True)
    assert 0 < found[-1] < F(1, 10**30)
    with pytest.raises(UnsupportedEvent):
        accountant.epsilon(event, F(1, 10**80))
    part = Repeated(event=Approximate(epsilon=F(1)), count=12)
    together_ = Parallel(events=(event, part))
    assert accountant.epsilon(together_, DELTA) == accountant.epsilon(part, DELTA)
    assert accountant.delta(together_, accountant.epsilon(part, DELTA)) <= DELTA
