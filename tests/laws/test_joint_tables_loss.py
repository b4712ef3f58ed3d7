"""What one draw over several tables costs, by brute force: every row, every neighbour, every answer in a box.

Neighbours are made of rows, probabilities of the norm as it is defined; nothing that is checked is used for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from math import exp, log, tanh

import numpy as np
import pytest

from dprelease.noise import TABLES_MECHANISMS
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import pure_epsilon
from dprelease.privacy.accountants.rho import zcdp_rho
from dprelease.privacy.event import Event, KNorm
from dprelease.privacy.group import of_event
from dprelease.privacy.unit import Neighboring
from tests.tables_of_one_sum import Integers, listed, rows_of

F = Fraction
SIZES = [(2, 2), (2, 3), (3, 3), (2, 2, 2)]


def charged(scale: Fraction, gauge: Fraction) -> KNorm:
    """What a plan keeps of a draw."""
    event = TABLES_MECHANISMS["tables_knorm"].event(scale, gauge)
    assert isinstance(event, KNorm)
    return event


def pure(event: Event) -> Fraction:
    assert isinstance(event, KNorm)
    return pure_epsilon(event) or F(0)


def moves(sizes: tuple[int, ...], rows: int, neighboring: Neighboring) -> Integers:
    """What one unit with up to so many rows can change, each once; shape (moves, all cells)."""
    kinds = rows_of(sizes)
    held = [np.zeros(kinds.shape[1], dtype=np.int64)]
    for count in range(1, rows + 1):
        held += [kinds[list(chosen)].sum(axis=0) for chosen in combinations_with_replacement(range(len(kinds)), count)]
    tables = np.unique(np.array(held), axis=0)
    if neighboring is Neighboring.ADD_REMOVE:
        return np.concatenate([tables, -tables])
    return np.unique((tables[:, None] - tables[None]).reshape(-1, tables.shape[1]), axis=0)


def losses(sizes: tuple[int, ...], change: Integers, largest: int) -> Integers:
    """How far the norm moves at every answer, in the box of this size; at scale 1 that is the loss."""
    found = listed(sizes, largest)
    return np.asarray(found.norm(found.points - change) - found.norms)


def relations() -> Iterator[tuple[Neighboring, int, int]]:
    for rows in (1, 2):
        yield Neighboring.ADD_REMOVE, rows, rows
        yield Neighboring.REPLACE_ONE, rows, 2 * rows


@pytest.mark.parametrize("sizes", SIZES)
def test_the_largest_loss_of_any_neighbour_is_the_gauge_and_is_reached(sizes: tuple[int, ...]) -> None:
    for neighboring, rows, gauge in relations():
        found = [np.abs(losses(sizes, move, 6)).max() for move in moves(sizes, rows, neighboring)]
        assert max(found) == gauge
        event = charged(F(3), F(gauge))
        assert pure(event) == F(gauge, 3)
        assert pure(charged(F(3), F(gauge, 2))) < F(max(found).item(), 3)  # half a gauge is seen


@pytest.mark.parametrize("sizes", SIZES)
def test_a_single_row_has_two_losses_and_is_randomized_response(sizes: tuple[int, ...]) -> None:
    scale, largest = F(1, 2), 14 if sum(sizes) < 6 else 10
    law = listed(sizes, largest).law(scale)
    for move in moves(sizes, 1, Neighboring.ADD_REMOVE):
        if not move.any():
            continue
        moved = losses(sizes, move, largest)
        assert set(np.unique(moved)) == {-1, 1}
        up = float(law[moved == 1].sum())
        assert up == pytest.approx(1 / (1 + exp(-2)), abs=1e-6)


@pytest.mark.parametrize("name", list(ACCOUNTANTS))
def test_accountants_charge_what_the_listed_losses_say(name: str) -> None:
    event = charged(F(1), F(1))
    claimed = ACCOUNTANTS[name].epsilon(event, F(1, 100))
    # randomized response of 1: delta = a (1 - e^(epsilon - 1)), a its larger chance
    exact = 1 + log(1 - 0.01 * (1 + exp(-1)))
    assert float(claimed) >= exact - 1e-9
    if name == "pld":
        assert float(claimed) == pytest.approx(exact, rel=1e-6)
    assert float(zcdp_rho(event) or 0) == pytest.approx(tanh(0.5), rel=1e-9)


def test_several_units_cost_as_many_gauges() -> None:
    sizes = (2, 2)
    for units in (2, 3):
        found = max(np.abs(losses(sizes, move, 8)).max() for move in moves(sizes, units, Neighboring.ADD_REMOVE))
        assert pure(of_event(charged(F(1), F(1)), units)) == found == units


def test_a_norm_without_one_of_its_tables_is_found_out() -> None:
    """Planted: the noise is as if there were no second table. The second table then shows a row for certain, or nearly."""
    found = listed((2, 3), 6)
    points, change = found.points, rows_of((2, 3))[0]

    def wrong(at: Integers) -> Integers:
        return np.asarray(np.abs(at[:, :2]).sum(axis=1))

    replaced = rows_of((2, 3))[1] - change  # the same cell of the first table, and another one of the second
    assert np.abs(wrong(points - replaced) - wrong(points)).max() == 0  # it claims that nothing is lost,
    inside = {tuple(point) for point in points.tolist()}
    assert any(tuple(point) not in inside for point in (points - replaced).tolist())  # where not every answer can be


def test_tables_that_do_not_count_the_same_rows_would_show_it_at_once() -> None:
    """Why a row counts in every table or in none: without that, no answer of the one can be one of the other."""
    found = listed((2, 2), 6)
    inside = {tuple(point) for point in found.points.tolist()}
    missing = np.array([1, 0, 0, 0])  # a row in the first table alone
    assert not any(tuple(point) in inside for point in (found.points - missing).tolist())
