"""What total-and-residual noise costs, by brute force: every set of rows of a unit, every answer in a box, exact pairs.

The neighbours are enumerated from rows, the probabilities from the noise's definition; no formula that is checked is
used to make what it is checked against.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.noise.mechanisms.knorm import gauge
from dprelease.noise.mechanisms.total_residual import total_share
from dprelease.plan.verify.events import draws_of_event
from dprelease.plan.verify.mathematics.delta import delta_of
from dprelease.plan.verify.mathematics.delta import total_rho as total_rho_again
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import pure_epsilon
from dprelease.privacy.event import Repeated, TotalResidual
from dprelease.privacy.theorems.joint import total_residual
from dprelease.privacy.theorems.joint.total_residual import (
    ResponsePair,
    response_pair,
    total_residual_delta,
    total_residual_guess,
    total_residual_rho,
)
from dprelease.privacy.unit import Neighboring

from .exact import Law, together

F = Fraction
Vector = tuple[int, ...]
Floats = npt.NDArray[np.float64]


@lru_cache(maxsize=16)
def noise_of(k: int, share: Fraction, reach: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """Every (z, m) of a box, and N there at scale 1."""
    sides = [range(-reach, reach + 1)] * k + [range(-2 * reach, 2 * reach + 1)]
    at = np.array(list(product(*sides)))
    return at, size_of(at, share)


def size_of(at: npt.NDArray[np.int64], share: Fraction) -> Floats:
    residual = np.abs(2 * at[:, :-1] - at[:, -1:]).max(axis=1)
    return np.asarray(float(1 - share) * residual + float(share) * np.abs(at[:, -1]))


def pair_of(k: int, scale: Fraction, share: Fraction, change: Vector, reach: int) -> Law:
    """The exact loss where counts and total move by ``change``: its values and their probabilities."""
    at, before = noise_of(k, share, reach)
    losses = (size_of(at - np.array(change), share) - before) / float(scale)
    weight = np.exp(-before / float(scale))
    values, place = np.unique(np.round(losses, 12), return_inverse=True)
    mass = np.bincount(place.ravel(), weights=weight / weight.sum())
    return Law(values, mass.astype(np.float64))


def tables(k: int, cells: int, rows: int) -> Iterator[tuple[Vector, ...]]:
    """The k counts and the total of every cell, for every set of at most ``rows`` rows that one unit can have."""
    kinds = [(cell, (*bits, 1)) for cell in range(cells) for bits in product((0, 1), repeat=k)]
    for size in range(rows + 1):
        for chosen in combinations_with_replacement(kinds, size):
            yield tuple(
                tuple(sum(bits[i] for where, bits in chosen if where == cell) for i in range(k + 1))
                for cell in range(cells)
            )


def changes(k: int, cells: int, rows: int, neighboring: Neighboring) -> set[tuple[Vector, ...]]:
    """What one unit can change: added or removed, or replaced by another one."""
    mine = set(tables(k, cells, rows))
    others = {((0,) * (k + 1),) * cells} if neighboring is Neighboring.ADD_REMOVE else mine
    return {
        tuple(tuple(sign * (a - b) for a, b in zip(x, y, strict=True)) for x, y in zip(one, other, strict=True))
        for one in mine
        for other in others
        for sign in (1, -1)
    }


@lru_cache(maxsize=1 << 12)
def largest_loss(k: int, share: Fraction, change: Vector) -> float:
    at, before = noise_of(k, share, 5 if k == 2 else 3)
    return float(np.abs(size_of(at - np.array(change), share) - before).max())


@pytest.mark.parametrize("neighboring", list(Neighboring))
@pytest.mark.parametrize(("k", "cells", "rows"), [(2, 1, 1), (2, 2, 1), (2, 1, 2), (2, 2, 2), (3, 1, 1), (3, 2, 1)])
@pytest.mark.parametrize("share", [F(1, 4), F(31, 128)])
def test_every_neighbour_loses_at_most_its_rows(
    k: int, cells: int, rows: int, neighboring: Neighboring, share: Fraction
) -> None:
    """The largest loss of any neighbour over all answers is the claimed epsilon: not above it, and reached."""
    losses = {
        change: sum(largest_loss(k, share, cell) for cell in change) for change in changes(k, cells, rows, neighboring)
    }
    claimed = gauge("total", k, neighboring, cells, rows)
    event = TotalResidual(dimension=k, share=share, scale=F(3), rows=int(claimed))
    assert pure_epsilon(event) == claimed / 3
    assert max(losses.values()) <= claimed * (1 + 1e-12)
    reached = neighboring is Neighboring.ADD_REMOVE or cells > 1
    assert (max(losses.values()) > claimed * (1 - 1e-12)) is reached, "a row in place of another of one cell is less"
    assert max(losses.values()) > claimed / 2 * (1 + 1e-9) or not reached, "half of it would be found out"


SMALL = [(2, F(10, 11), F(4, 11)), (2, F(1, 2), F(7, 16)), (2, F(1, 4), F(1, 8)), (3, F(1, 4), F(3, 8))]
# where the coupling is below 0: between the zeros of 1 + 4 y + y^2
NEGATIVE = [(3, F(1, 2), F(7, 16)), (3, F(3, 5), F(7, 16))]


def reach_for(k: int, scale: Fraction) -> int:
    return 34 if k == 2 and scale > F(1, 2) else 17 if k == 2 else 11


@pytest.mark.parametrize(
    ("k", "scale", "share"),
    [
        pytest.param(*each, marks=pytest.mark.slow if each[0] == 3 or each == SMALL[0] else [])
        for each in SMALL + NEGATIVE
    ],
)
def test_a_row_has_the_same_four_outcomes_whatever_it_counts(k: int, scale: Fraction, share: Fraction) -> None:
    """The exact pair of every neighbour is one of two responses: losses, probabilities and profile."""
    draw = TotalResidual(dimension=k, share=share, scale=scale, rows=1)
    pair, reach = response_pair(draw), reach_for(k, scale)
    laws = [
        pair_of(k, scale, share, tuple(sign * each for each in (*bits, 1)), reach)
        for bits in combinations_with_replacement((0, 1), k)  # the counts are alike
        for sign in (1, -1)
    ]
    large, small, alike = map(float, pair)
    for law in laws:
        assert law.losses == pytest.approx([-large, -small, small, large], abs=1e-11)
        assert law.mass == pytest.approx(laws[0].mass, abs=1e-6)
        same = law.mass[0] + law.mass[3]
        if (k, scale, share) in NEGATIVE:
            assert same < alike - 1e-4, "more than independent is claimed for it"
        else:
            assert same == pytest.approx(alike, abs=1e-6)
        assert law.mass[3] / law.mass[0] == pytest.approx(np.exp(large), rel=1e-4)
        for epsilon in (F(0), pair.small / 2, pair.small, (pair.large + pair.small) / 2, pair.large * F(99, 100)):
            claimed = float(total_residual_delta(draw, epsilon))
            assert law.delta(float(epsilon)) <= claimed * (1 + 1e-5) + 1e-9
            if (k, scale, share) not in NEGATIVE:
                assert law.delta(float(epsilon)) == pytest.approx(claimed, rel=1e-4)


def test_the_four_outcomes_of_two_counts() -> None:
    """Worked out beforehand, by a program of its own."""
    large, small, alike = map(float, response_pair(TotalResidual(dimension=2, share=F(4, 11), scale=F(10, 11), rows=1)))
    masses = (
        alike / (1 + np.exp(-large)),
        (1 - alike) / (1 + np.exp(-small)),
        (1 - alike) / (1 + np.exp(small)),
        alike / (1 + np.exp(large)),
    )
    assert masses == pytest.approx((0.402840, 0.266005, 0.197061, 0.134094), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "scale", "share"), [SMALL[0], SMALL[3], NEGATIVE[0]])
def test_what_is_published_costs_no_more(k: int, scale: Fraction, share: Fraction) -> None:
    """The noisy total is dropped, which is post-processing: the pair of c + z alone is below, for every row."""
    draw, reach = TotalResidual(dimension=k, share=share, scale=scale, rows=1), reach_for(k, scale)
    at, size = noise_of(k, share, reach)
    weight = np.exp(-size / float(scale))
    chances: Counter[Vector] = Counter()
    for z, each in zip(map(tuple, at[:, :-1].tolist()), (weight / weight.sum()).tolist(), strict=True):
        chances[z] += each
    for bits in combinations_with_replacement((0, 1), k):
        for epsilon in (F(0), F(1, 10), F(1, 2)):
            factor = float(np.exp(float(epsilon)))
            delta = sum(
                max(0.0, p - factor * chances.get(tuple(a - b for a, b in zip(z, bits, strict=True)), 0.0))
                for z, p in chances.items()
            )
            assert delta <= float(total_residual_delta(draw, epsilon)) * (1 + 1e-5) + 1e-6


@pytest.mark.parametrize(("plant", "found"), [("half", True), ("uncoupled", True), ("as it is", False)])
def test_a_planted_fault_is_found(plant: str, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the probability of the larger loss, and a coupling that is left out, both claim less than is true."""
    k, scale, share = SMALL[1]
    draw = TotalResidual(dimension=k, share=share, scale=scale, rows=1)
    right = response_pair(draw)
    if plant == "half":
        monkeypatch.setattr(total_residual, "response_pair", lambda _: right._replace(alike=right.alike / 2))
    if plant == "uncoupled":
        monkeypatch.setattr(total_residual, "_coupling", lambda *_: 0)
        response_pair.cache_clear()
        wrong = response_pair(draw)
        response_pair.cache_clear()
        monkeypatch.setattr(total_residual, "response_pair", lambda _: wrong)
    law = pair_of(k, scale, share, (1, 0, 1), reach_for(k, scale))
    claims = [float(total_residual_delta(draw, right.large * F(n, 10))) for n in range(10)]
    exact = [law.delta(float(right.large) * n / 10) for n in range(10)]
    assert any(true > claim * (1 + 1e-5) for true, claim in zip(exact, claims, strict=True)) is found


def test_every_epsilon_is_read_back_from_its_delta() -> None:
    for draw in (_draw(2, F(1, 2), F(7, 16)), _draw(20, F(1), total_share(20)), _draw(60, F(10), total_share(60))):
        large = response_pair(draw).large
        for n in range(1, 20):
            epsilon = large * F(n, 20)
            delta = total_residual_delta(draw, epsilon)
            assert float(total_residual_guess(draw, delta)) == pytest.approx(float(epsilon), rel=1e-9)
        assert total_residual_guess(draw, F(99, 100)) == 0


def _draw(k: int, scale: Fraction, share: Fraction, rows: int = 1) -> TotalResidual:
    return TotalResidual(dimension=k, share=share, scale=scale, rows=rows)


GRID = [
    _draw(k, scale, share, rows)
    for k in (2, 3, 5, 12, 20, 60)
    for scale in (F(1, 10), F(1, 3), F(1), F(7, 2), F(40), F(10**5))
    for share in (total_share(k), F(1, 16), F(127, 256))
    for rows in (1, 2)
]


@pytest.mark.thin
@pytest.mark.parametrize("draw", GRID, ids=lambda draw: f"{draw.dimension}-{draw.scale}-{draw.share}-{draw.rows}")
def test_the_verifier_derives_the_same_pair(draw: TotalResidual) -> None:
    """By sums over radii and Lipschitz' formula, and its rho as the largest of many orders."""
    (cells,) = draws_of_event(draw)
    ((cell,),) = cells
    pair = response_pair(draw)
    assert (cell.value, cell.small) == (pair.large, pair.small)
    assert float(cell.alike) == pytest.approx(float(pair.alike), abs=1e-9)
    assert total_rho_again({cells: 1}) == pytest.approx(float(total_residual_rho(draw)), rel=1e-7)
    for part in (F(1, 10), F(1, 2), F(19, 20)):
        exact = float(total_residual_delta(draw, pair.large * part))
        assert delta_of({cells: 1}, pair.large * part) == pytest.approx(exact, rel=1e-6)


def law_of(pair: ResponsePair) -> Law:
    large, small, alike = map(float, pair)
    sizes = np.array([large, small, -small, -large])
    shares = np.array([alike, 1 - alike, 1 - alike, alike])
    return Law(sizes, shares / (1 + np.exp(-sizes)))


@pytest.mark.parametrize("draw", [each for each in GRID if each.rows == 1 and each.scale < 1000][::3], ids=str)
def test_rho_is_the_least_that_holds_at_every_order(draw: TotalResidual) -> None:
    """Renyi divergences of the four outcomes: at most rho times the order, and close to it next to order 1."""
    law, rho = law_of(response_pair(draw)), float(total_residual_rho(draw))
    orders = 1 + np.exp(np.linspace(-5, 7, 60))
    assert all(law.renyi(order) <= rho * order * (1 + 1e-9) for order in orders)
    assert law.renyi(1.0001) >= rho * (1 - 1e-3)
    assert rho < float(response_pair(draw).large) ** 2 / 2


@pytest.mark.parametrize(("k", "scale", "count"), [(2, F(1, 2), 3), (12, F(1), 1), (20, F(4), 5), (60, F(2), 2)])
def test_accountants_against_the_exact_composition(k: int, scale: Fraction, count: int) -> None:
    """The law of all draws together by convolution: pld is at it, rdp and zcdp above, and the verifier agrees."""
    draw = _draw(k, scale, total_share(k))
    event: Any = Repeated(event=draw, count=count)
    law = together([law_of(response_pair(draw))] * count)
    for epsilon in (F(1, 4) * count / scale, F(3, 4) * count / scale):
        true = law.delta(float(epsilon))
        found = {name: float(ACCOUNTANTS[name].delta(event, epsilon)) for name in ("pld", "rdp", "zcdp")}
        assert true * (1 - 1e-9) <= found["pld"] <= true * (1 + 1e-6)
        assert found["rdp"] >= true * (1 - 1e-9)
        assert found["zcdp"] >= found["rdp"] * (1 - 1e-9)
        assert delta_of(draws_of_event(event), epsilon) == pytest.approx(true, rel=1e-5)
    for delta in (F(1, 1000), F(1, 10**9)):
        epsilon = ACCOUNTANTS["pld"].epsilon(event, delta)
        assert law.delta(float(epsilon) * (1 + 1e-9)) <= float(delta)
        assert law.delta(float(epsilon) * (1 - 1e-5)) > float(delta) * (1 - 1e-9) or epsilon == count / scale
    assert ACCOUNTANTS["basic"].epsilon(event, F(0)) == count / scale


def test_the_loss_is_all_but_that_of_two_independent_responses() -> None:
    """Twelve counts and more at an epsilon of 1: the shared parity is worth less than a part in a million of rho."""
    for k in (12, 20, 60):
        share = float(total_share(k))
        apart = sum(size * np.tanh(size / 2) for size in (share, 1 - share))
        assert float(total_residual_rho(_draw(k, F(1), total_share(k)))) == pytest.approx(apart, rel=1e-6)
