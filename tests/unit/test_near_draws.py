"""Many draws in floats: every accountant says of them what it says of the same events, to the last digit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

from dprelease.plan.allocate import domain
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import atoms
from dprelease.privacy.accountants.near import CellDraws, NearDraws, only_change
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.theorems.total_loss import total_of_floats
from tests.planned import SPEC, planned_anew

Noise = Literal["discrete_laplace", "discrete_gaussian"]
NOISES: tuple[Noise, ...] = ("discrete_laplace", "discrete_gaussian")


def near(noise: Noise, number: int = 200, *, least: float = 90.0, changes: tuple[int, ...] = (1, 1, 3)) -> NearDraws:
    """Draws of rising scales, some of them more than once and some that move by more than one step."""
    scales = least * (1 + np.arange(number) / number) ** 1.5
    moved = [changes[at % len(changes)] for at in range(number)]
    return NearDraws(noise, moved, [1 + at % 2 for at in range(number)], scales)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", ACCOUNTANTS)
@pytest.mark.parametrize("least", [0.6, 90.0, 3000.0])
def test_every_accountant_says_the_same_of_the_events(name: str, noise: Noise, least: float) -> None:
    draws = near(noise, least=least)
    found = ACCOUNTANTS[name].rough_epsilon(draws, 1e-6)
    expected = ACCOUNTANTS[name].rough_epsilon(draws.event, 1e-6)
    if (name, noise) == ("basic", "discrete_laplace"):  # a sum of floats for one of rationals
        assert found == pytest.approx(expected, rel=1e-15)
    else:
        assert found == expected > 0


@pytest.mark.parametrize("delta", [1e-12, 0.0])
def test_laplace_noise_has_a_figure_at_a_delta_of_0(delta: float) -> None:
    draws = near("discrete_laplace")
    for name in ("basic", "rdp", "pld"):
        assert ACCOUNTANTS[name].rough_epsilon(draws, delta) == pytest.approx(
            ACCOUNTANTS[name].rough_epsilon(draws.event, delta), rel=1e-15
        )


def test_equal_draws_are_one_atom_drawn_more_often() -> None:
    draws = NearDraws("discrete_gaussian", [2, 2, 1], [1, 4, 2], np.array([8.5, 8.5, 8.5]))
    assert {(atom.sensitivity.l1, n) for atom, n in atoms(draws).items()} == {(2, 5), (1, 2)}  # type: ignore[union-attr]


def test_losses_on_a_lattice_are_left_to_exact_numbers() -> None:
    assert total_of_floats("staircase", np.array([2.0, 4.0]), [1, 1], [1, 1]) is None
    for name in ACCOUNTANTS:
        draws = NearDraws("discrete_laplace", [1, 1], [40, 70], np.array([64.0, 128.0]))
        assert ACCOUNTANTS[name].rough_epsilon(draws, 1e-6) == ACCOUNTANTS[name].rough_epsilon(draws.event, 1e-6)


def test_a_change_is_known_of_one_cell_alone() -> None:
    assert only_change(Sensitivity.of_one_cell(7)) == 7
    assert only_change(Sensitivity.of_shifts((1, 1))) == 0
    assert only_change(Sensitivity(l0=1, l1=Fraction(3), l2_squared=Fraction(9), linf=Fraction(3))) == 0


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", ACCOUNTANTS)
@pytest.mark.parametrize("least", [0.6, 90.0, 3000.0])  # the last ones reach beyond what is read over its lattice
def test_every_accountant_certifies_the_same_of_cells_and_of_their_event(name: str, noise: Noise, least: float) -> None:
    rough = near(noise, 12, least=least)
    draws = CellDraws(noise, rough.changes, rough.counts, [Fraction(scale) for scale in rough.scales.tolist()])
    delta = Fraction(1, 10**6)
    assert ACCOUNTANTS[name].epsilon_of_cells(draws, delta) == ACCOUNTANTS[name].epsilon(draws.event, delta) > 0


def test_equal_cells_are_one_law_drawn_more_often() -> None:
    draws = CellDraws("discrete_gaussian", [2, 2, 1], [1, 4, 2], [Fraction(17, 2)] * 3)
    once = CellDraws("discrete_gaussian", [1, 2], [2, 5], [Fraction(17, 2)] * 2)
    found = [ACCOUNTANTS["pld"].epsilon_of_cells(each, Fraction(1, 10**6)) for each in (draws, once)]
    assert found[0] == found[1] == ACCOUNTANTS["pld"].epsilon(draws.event, Fraction(1, 10**6))


def seventy(head: str) -> str:
    """A spec of as many counts, each with a share of its own."""
    columns = "".join(f"      c{at}: {{type: integer, range: [0, 9]}}\n" for at in range(70))
    counts = "".join(
        f"  q{at}: {{table: people, by: [], share: {1 + at / 70:.4g}, measures: {{n: {{count: c{at}}}}}}}\n"
        for at in range(70)
    )
    return f"{head}{columns}queries:\n{counts}"


HEAD = SPEC[: SPEC.index("      region")]


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_a_plan_is_the_same_without_them(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = seventy(HEAD.replace("privacy:\n", f"privacy:\n  noise: {noise}\n"))
    made: list[CellDraws] = []

    def recorded(*given: Any) -> CellDraws:
        made.append(CellDraws(*given))
        return made[-1]

    monkeypatch.setattr(domain, "CellDraws", recorded)
    planned = planned_anew(text)
    assert made
    monkeypatch.setattr(domain, "_MANY", 1000)
    assert planned_anew(text).canonical() == planned.canonical()


def test_what_many_draws_charge_is_told_in_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    charges: list[tuple[str, float, float]] = []
    told = domain.Domain._near_charge

    def both(self: domain.Domain, scales: Any) -> float | None:
        if (near := told(self, scales)) is not None:
            ((account, events),) = self._charged(scales)
            charges.append((self.candidate.noise, near, float(self.planning.charge(account, events).epsilon)))
        return near

    monkeypatch.setattr(domain.Domain, "_near_charge", both)
    planned_anew(seventy(HEAD))
    assert {noise for noise, _, _ in charges} == {"laplace", "gaussian"}
    assert [near for _, near, _ in charges] == pytest.approx([exact for *_, exact in charges], rel=1e-8)
