"""What a replaced row costs behind total-and-residual noise: exact pairs of every two rows, and every accountant.

The neighbours are enumerated from rows, the probabilities from the noise's definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dprelease.errors import BrokenPromiseError
from dprelease.noise.mechanisms.total_residual import total_share
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.events import draws_of_event
from dprelease.plan.verify.mathematics.delta import delta_of
from dprelease.plan.verify.mathematics.delta import total_rho as total_rho_again
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.base import pure_epsilon
from dprelease.privacy.event import Repeated, TotalResidual
from dprelease.privacy.group import of_event
from dprelease.privacy.theorems.joint import total_residual
from dprelease.privacy.theorems.joint.total_residual import (
    ResponsePair,
    replaced_ways,
    response_pair,
    total_residual_delta,
    total_residual_rho,
)
from tests.planned import plan_of

from .exact import Law, together
from .test_total_residual_loss import pair_of, reach_for

F = Fraction
SMALL = [(2, F(1, 2), F(7, 16)), (2, F(1, 4), F(1, 8)), (2, F(1, 3), F(1, 4))]
SLOW = [
    pytest.param(3, F(1, 4), F(3, 8), marks=pytest.mark.slow),
    pytest.param(3, F(1, 2), F(7, 16), marks=pytest.mark.slow),
]
ORDERS = 1 + np.exp(np.linspace(-5, 7, 40))


def draw_of(k: int, scale: Fraction, share: Fraction | None = None, *, replaced: bool = True) -> TotalResidual:
    return TotalResidual(dimension=k, share=share or total_share(k), scale=scale, rows=2, replaced=replaced)


def every_replacement(k: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """How the counts and the total of the cells change as one row takes the place of another, up to signs and cells."""
    rows = list(product((0, 1), repeat=k))
    for old, new in product(rows, rows):
        yield ((*(b - a for a, b in zip(old, new, strict=True)), 0),)  # in its cell
        yield (tuple(-a for a in (*old, 1)), (*new, 1))  # from one cell to another


def laws_of(k: int, scale: Fraction, share: Fraction) -> list[Law]:
    reach = reach_for(k, scale)
    cells = {cell for change in every_replacement(k) for cell in change}
    known = {cell: pair_of(k, scale, share, cell, reach) for cell in cells}
    return [together([known[cell] for cell in change]) for change in set(every_replacement(k))]


def deltas_of(draw: TotalResidual, laws: list[Law], claim: Callable[..., Any]) -> list[tuple[float, float]]:
    """True and claimed deltas of all laws at epsilons up to the largest, those of the losses among them."""
    top = float(pure_epsilon(draw) or 0)
    at = {top * n / 16 for n in range(16)} | {abs(float(loss)) * f for loss in laws[-1].losses for f in (1, 0.999)}
    epsilons = [F(each) for each in sorted(at) if each < top]
    return [(max(law.delta(float(epsilon)) for law in laws), float(claim(draw, epsilon))) for epsilon in epsilons]


@pytest.mark.parametrize(("k", "scale", "share"), [*SMALL, *SLOW])
def test_no_replaced_row_costs_more_than_is_claimed(k: int, scale: Fraction, share: Fraction) -> None:
    draw, laws = draw_of(k, scale, share), laws_of(k, scale, share)
    for true, claimed in deltas_of(draw, laws, total_residual_delta):
        assert true <= claimed * (1 + 1e-5) + 1e-8
    rho = float(total_residual_rho(draw))
    steepest = max(law.renyi(order) / order for law in laws for order in ORDERS)
    assert steepest <= rho * (1 + 1e-5)
    if (k, scale) != (3, F(1, 2)):  # where the parity of total and residuals is worth something, more is claimed
        assert steepest >= rho * (1 - 1e-2), "rho is reached"
    for way, law in zip(
        (2, 1), (max(laws, key=lambda law: law.losses[-1]), laws_of_complement(k, scale, share)), strict=True
    ):
        exact = law_of(replaced_ways(draw)[2 - way])
        whole = together([exact] * way)
        assert law.delta(0.0) <= whole.delta(0.0) * (1 + 1e-5)
        if (k, scale) != (3, F(1, 2)):
            assert law.delta(0.0) == pytest.approx(whole.delta(0.0), rel=1e-4)


def laws_of_complement(k: int, scale: Fraction, share: Fraction) -> Law:
    """Every count moves: a row that counts everywhere in the place of one that counts nowhere."""
    return pair_of(k, scale, share, (*(1,) * k, 0), reach_for(k, scale))


def law_of(pair: ResponsePair) -> Law:
    large, small, alike = map(float, pair)
    sizes = np.array([large, small, -small, -large])
    shares = np.array([alike, 1 - alike, 1 - alike, alike])
    return Law(sizes, shares / (1 + np.exp(-sizes)))


@pytest.mark.parametrize("plant", ["half", "no large loss", "one cell alone", "two cells alone"])
def test_a_planted_fault_is_found(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the larger response, none of it, and each of the two ways left out: each claims less than is true."""
    k, scale, share = SMALL[0]
    draw, laws = draw_of(k, scale, share), laws_of(k, scale, share)
    pair, (row, moved) = response_pair(draw), replaced_ways(draw)
    if plant == "half":
        monkeypatch.setattr(total_residual, "response_pair", lambda _: pair._replace(alike=pair.alike / 2))
    elif plant == "no large loss":
        monkeypatch.setattr(total_residual, "response_pair", lambda _: pair._replace(alike=F(0)))
    elif plant == "one cell alone":
        monkeypatch.setattr(total_residual, "response_pair", lambda _: moved)
    else:
        monkeypatch.setattr(total_residual, "response_pair", lambda _: row)
    found = deltas_of(draw, laws, total_residual.total_residual_delta)
    assert any(true > claimed * (1 + 1e-5) + 1e-8 for true, claimed in found)


GRID = [
    draw_of(k, scale, share)
    for k in (2, 5, 12, 20, 60)
    for scale in (F(1, 10), F(1, 3), F(1), F(7, 2), F(40), F(10**5))
    for share in (total_share(k), F(1, 16), F(127, 256))
]


@pytest.mark.thin
@pytest.mark.parametrize("draw", GRID, ids=lambda draw: f"{draw.dimension}-{draw.scale}-{draw.share}")
def test_the_verifier_derives_the_same_ways(draw: TotalResidual) -> None:
    """Two cells and one cell, apart; its delta is the larger one of theirs, and never above the claim."""
    (ways,) = draws_of_event(draw)
    two, (one,) = ways
    row, moved = replaced_ways(draw)
    assert [(cell.value, cell.small) for cell in (*two, one)] == [(row.large, row.small)] * 2 + [(moved.large, 0)]
    assert float(one.alike) == pytest.approx(float(moved.alike), abs=1e-9)
    assert total_rho_again({ways: 1}) == pytest.approx(float(total_residual_rho(draw)), rel=1e-6)
    laws = [together([law_of(row)] * 2), law_of(moved)]
    for part in (F(1, 10), F(1, 2), F(19, 20)):
        epsilon = 2 * row.large * part
        true = max(law.delta(float(epsilon)) for law in laws)
        assert delta_of({ways: 1}, epsilon) == pytest.approx(true, rel=1e-5, abs=1e-300)
        assert true <= float(total_residual_delta(draw, epsilon)) * (1 + 1e-9)


@pytest.mark.parametrize("draw", [each for each in GRID if each.scale < 1000][::2], ids=str)
def test_rho_is_the_least_that_holds_at_every_order(draw: TotalResidual) -> None:
    row, moved = replaced_ways(draw)
    laws, rho = [together([law_of(row)] * 2), law_of(moved)], float(total_residual_rho(draw))
    assert all(law.renyi(order) <= rho * order * (1 + 1e-9) for law in laws for order in ORDERS)
    assert max(law.renyi(1.0001) for law in laws) >= rho * (1 - 1e-3)
    assert rho <= float(total_residual_rho(draw.model_copy(update={"replaced": False}))) * (1 + 1e-9)


@pytest.mark.parametrize(("k", "scale", "count"), [(2, F(1, 2), 3), (12, F(1), 1), (20, F(4), 5), (60, F(2), 2)])
def test_accountants_against_every_mixture_of_ways(k: int, scale: Fraction, count: int) -> None:
    """A replaced row goes either way in each draw: no accountant is below any such composition, none above before."""
    draw, before = draw_of(k, scale), draw_of(k, scale, replaced=False)
    row, moved = map(law_of, replaced_ways(draw))
    laws = [together([row] * (2 * n) + [moved] * (count - n)) for n in range(count + 1)]
    events = [Repeated(event=each, count=count) for each in (draw, before)]
    for epsilon in (F(1, 4) * count / scale, F(3, 4) * count / scale, F(3, 2) * count / scale):
        true = max(law.delta(float(epsilon)) for law in laws)
        for name in ("pld", "rdp", "zcdp", "advanced", "basic"):
            now, then = (ACCOUNTANTS[name].delta(event, epsilon) for event in events)
            assert true * (1 - 1e-9) <= float(now)
            assert float(now) <= float(then) * (1 + 1e-9)
    epsilons = [float(ACCOUNTANTS["zcdp"].epsilon(event, F(1, 10**6))) for event in events]
    assert epsilons[0] < 0.9 * epsilons[1]
    assert ACCOUNTANTS["basic"].epsilon(events[0], F(0)) == 2 * count / scale


def test_several_units_are_rows_like_any_others() -> None:
    grown = of_event(draw_of(20, F(3)), 3)
    assert grown == TotalResidual(dimension=20, share=total_share(20), scale=F(3), rows=6)
    assert '"replaced"' not in grown.canonical()
    with pytest.raises(ValidationError, match="two rows"):
        TotalResidual(dimension=20, share=total_share(20), scale=F(3), rows=1, replaced=True)


def counts(relation: str, by: str = "[sex]") -> str:
    measures = ", ".join(f'n{at}: {{count: rows, where: "age > {at}"}}' for at in range(20))
    return f"""
dprelease: 1
release: {{name: survey, period: 2024}}
privacy:
  unit: {{entity: person}}
  neighboring: {relation}
  budget: {{epsilon: 1, delta: 1e-9}}
  accounting: basic
  noise: knorm
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      sex: {{type: integer, keys: [1, 2]}}
      age: {{type: integer, range: [0, 99]}}
queries:
  ages: {{table: people, by: {by}, measures: {{{measures}}}}}
"""


def test_a_plan_says_where_a_row_is_replaced_and_is_verified() -> None:
    plans = {relation: plan_of(counts(relation)) for relation in ("add_remove", "replace_one")}
    steps = {relation: plan.steps[0] for relation, plan in plans.items()}
    assert {step.mechanism for step in steps.values()} == {"total_residual"}
    assert {relation: step.replaced for relation, step in steps.items()} == {"add_remove": False, "replace_one": True}
    assert '"replaced"' not in plans["add_remove"].canonical()
    assert plan_of(counts("replace_one", "[]")).steps[0].mechanism == "linf_knorm"  # where it stays in its cell
    for plan in plans.values():
        verify(plan)
    planted = steps["add_remove"].model_copy(update={"replaced": True, "gauge": F(2)})
    with pytest.raises(BrokenPromiseError):
        verify(plans["add_remove"].model_copy(update={"steps": (planted,)}))
    older = steps["replace_one"].model_copy(update={"replaced": False})  # as it was planned before, at its own figures
    figures = plan_of_steps(plans["replace_one"], older)
    verify(figures)
    with pytest.raises(BrokenPromiseError, match="not what that accountant proves"):
        verify(plans["replace_one"].model_copy(update={"steps": (older,)}))


def plan_of_steps(plan: ReleasePlan, step: Any) -> ReleasePlan:
    """The plan with that one step, and the losses that the accountants give it."""
    loss = {
        name: each.model_copy(update={"epsilon": ACCOUNTANTS[name].epsilon(step.event, each.delta)})
        for name, each in plan.loss.items()
    }
    return plan.model_copy(update={"steps": (step,), "loss": loss})
