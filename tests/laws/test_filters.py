"""What an account grants, held against an adversary who chooses each draw after the answers of those before it.

``worst`` finds the best adversary there is over a menu of draws: the hockey-stick divergence of a tree of draws is the
expected value of ``max(0, 1 - exp(epsilon - loss))`` at its leaves, so that the best choice at each node follows from
the best choices behind it. No tree over the menu that the account would grant is left out. The unsound ways of granting
are put through the same, and must be caught.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from typing import Literal

import mpmath
import pytest

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Sensitivity,
)
from dprelease.privacy.filters import Spent, Terms, account_loss, series_loss, spent_on, within
from dprelease.privacy.rounding import real
from dprelease.privacy.theorems.conversion import delta_at

F = Fraction
Law = tuple[tuple[float, float], ...]  # losses and their probabilities under P
Grants = Callable[[tuple[Event, ...]], bool]
ONE = Sensitivity.of_one_cell(1)


def response(epsilon: Fraction) -> Approximate:
    return Approximate(epsilon=epsilon)


def reveal(delta: Fraction) -> Approximate:
    return Approximate(epsilon=F(0), delta=delta)


def laws(event: Event) -> list[Law]:
    """Worst laws of a draw: of a bounded range several, of which none is the worst for all that follows."""
    if isinstance(event, Approximate):
        size, delta = float(event.epsilon), float(event.delta)
        truth = (1 - delta) / (1 + math.exp(-size))
        told = [(math.inf, delta), (size, truth), (-size, 1 - delta - truth)]
        return [tuple((loss, mass) for loss, mass in told if mass > 0)]
    if isinstance(event, BoundedRange):
        size = float(event.epsilon)
        uppers = [size * part / 8 for part in range(1, 8)]
        masses = [math.expm1(upper - size) / math.expm1(-size) for upper in uppers]
        return [((upper, m), (upper - size, 1 - m)) for upper, m in zip(uppers, masses, strict=True)]
    assert isinstance(event, DiscreteGaussian)
    scale = float(event.scale)
    weights = {k: math.exp(-k * k / (2 * scale**2)) for k in range(-int(8 * scale) - 2, int(8 * scale) + 3)}
    whole = sum(weights.values())
    return [tuple(((1 - 2 * k) / (2 * scale**2), weight / whole) for k, weight in weights.items())]


def excess(law: Iterable[tuple[float, float]], epsilon: float) -> float:
    return math.fsum(mass * -math.expm1(epsilon - loss) for loss, mass in law if loss > epsilon)


def together(one: Law, other: Law) -> Law:
    found: dict[float, float] = {}
    for a, p in one:
        for b, q in other:
            found[round(a + b, 9)] = found.get(round(a + b, 9), 0.0) + p * q
    return tuple(found.items())


def worst(menu: tuple[Event, ...], grants: Grants, epsilon: Fraction) -> float:
    """The largest delta at epsilon over all trees whose every path is granted; draws are named by their place."""
    known = {event: laws(event) for event in menu}
    granted = cache(lambda path: grants(tuple(menu[k] for k in path)))

    @cache
    def value(loss: float, path: tuple[int, ...]) -> float:
        best = max(0.0, -math.expm1(float(epsilon) - loss))
        for k, event in enumerate(menu):
            longer = tuple(sorted((*path, k)))
            if not granted(longer):
                continue
            for law in known[event]:
                ahead = math.fsum(
                    mass * (1.0 if one == math.inf else value(round(loss + one, 9), longer)) for one, mass in law
                )
                best = max(best, ahead)
        return best

    return value(0.0, ())


def filtered(terms: Terms, cap: Budget) -> Grants:
    return lambda path: within(terms, total(terms, path), cap)


MENUS: dict[str, tuple[Event, ...]] = {
    "responses": (response(F(1, 4)), response(F(3, 8)), response(F(5, 8)), response(F(3, 2))),
    "reveals": (response(F(1, 4)), response(F(1, 2)), response(F(3, 2)), reveal(F(1, 100)), reveal(F(1, 40))),
    "ranges": (response(F(1, 2)), BoundedRange(epsilon=F(1, 2)), BoundedRange(epsilon=F(1))),
    "gaussian": (response(F(1, 2)), DiscreteGaussian(scale=F(2), sensitivity=ONE), reveal(F(1, 40))),
}
CASES = [
    (Terms(composition="basic"), name, Budget(epsilon=F(1), delta=F(1, 20)))
    for name in ("responses", "reveals", "ranges")
] + [
    (terms, name, Budget(epsilon=epsilon, delta=F(1, 10)))
    for name in MENUS
    for epsilon in (F(1), F(3, 2))
    for terms in (
        Terms(composition="zcdp", selecting=F(1, 20)),
        Terms(composition="rdp", order=F(5, 2), selecting=F(1, 20)),
        Terms(composition="rdp", order=F(4), selecting=F(1, 20)),
        Terms(composition="rdp", order=F(10)),
    )
]


@pytest.mark.thin
@pytest.mark.parametrize(("terms", "name", "cap"), CASES)
def test_no_adversary_gets_more_than_the_cap_out_of_an_account(terms: Terms, name: str, cap: Budget) -> None:
    assert cap.epsilon is not None
    found = worst(MENUS[name], filtered(terms, cap), cap.epsilon)
    assert found <= float(cap.delta) * (1 + 1e-9)


@cache
def price(terms: Terms, event: Event) -> Spent:
    return spent_on(terms, event)


def total(terms: Terms, path: Iterable[Event]) -> Spent:
    spent = Spent()
    for event in path:
        spent = spent.plus(price(terms, event))
    return spent


def test_the_adversary_reaches_what_the_account_promises_and_catches_sums_that_are_too_small() -> None:
    """Power. One randomized response of just that epsilon meets the conversion at one order with equality."""
    terms, epsilon = Terms(composition="rdp", order=F(4)), F(3, 2)
    menu = tuple(response(F(143, 80) + F(k, 80)) for k in range(-8, 9))
    delta = delta_at(real(spent_on(terms, response(F(143, 80))).loss), 3.0, epsilon)
    cap = Budget(epsilon=epsilon, delta=delta * (1 + F(1, 10**6)))
    assert 0.9999 * float(cap.delta) < worst(menu, filtered(terms, cap), epsilon) <= float(cap.delta)

    def overdrawn(path: tuple[Event, ...]) -> bool:
        return within(terms, Spent(loss=total(terms, path).loss * F(97, 100)), cap)

    assert worst(menu, overdrawn, epsilon) > 1.02 * float(cap.delta)
    reveals, basic = MENUS["reveals"], Terms(composition="basic")
    two = Budget(epsilon=F(1), delta=F(1, 20))
    assert worst(reveals, filtered(basic, two), F(1)) == pytest.approx(1 - (39 / 40) ** 2)
    assert worst(reveals, filtered(basic, Budget(epsilon=F(1), delta=F(6, 100))), F(1)) > float(two.delta)


ATTACK = (response(F(1, 10)), response(F(81, 20)), response(F(9, 10)))
PATHS = [(ATTACK[0], ATTACK[1]), (ATTACK[0], *[ATTACK[2]] * 5)]


def attacked(epsilon: float) -> float:
    """A first answer, and after it one large draw where it was telling, five small ones where it was not."""
    (first,) = laws(ATTACK[0])
    reached = 0.0
    for loss, mass in first:
        law: Law = ((0.0, 1.0),)
        for event in PATHS[0 if loss > 0 else 1][1:]:
            law = together(law, laws(event)[0])
        reached += mass * excess(law, epsilon - loss)
    return reached


def short(grants: Grants, most: int) -> Grants:
    return lambda path: len(path) <= most and grants(path)


@pytest.mark.parametrize(("name", "times"), [("rdp", 1.14), ("pld", 1.39)])
def test_accountants_for_fixed_draws_certify_every_path_of_a_tree_that_breaks_the_promise(
    name: str, times: float
) -> None:
    """Why the best order afterwards, and PLD with parameters chosen after answers, grant nothing."""
    epsilon = F(4)
    delta = max(ACCOUNTANTS[name].delta(Composed(events=path), epsilon) for path in PATHS)
    assert attacked(4.0) > times * float(delta)

    def certified(path: tuple[Event, ...]) -> bool:
        some = any(not Counter(path) - Counter(whole) for whole in PATHS)
        return some and ACCOUNTANTS[name].delta(Composed(events=path), epsilon) <= delta

    assert worst(ATTACK, certified, epsilon) == pytest.approx(attacked(4.0), rel=1e-9)  # and it is found by itself
    for order in (F(3), F(6), F(10), F(14), F(20)):
        terms, cap = Terms(composition="rdp", order=order), Budget(epsilon=epsilon, delta=delta)
        assert not all(within(terms, total(terms, path), cap) for path in PATHS), "no fixed order grants both"
        assert worst(ATTACK, short(filtered(terms, cap), 7), epsilon) <= float(delta)


@pytest.mark.parametrize("composition", ["zcdp", "rdp"])
def test_reading_at_what_reveals_leave_breaks_for_who_turns_to_reveals_and_by_less_than_twice(
    composition: Literal["zcdp", "rdp"],
) -> None:
    """Why ``selecting`` is fixed: the best adversary against ``kept=None`` passes delta, but not twice delta."""
    epsilon, delta = F(3, 2), F(1, 5)
    order = F(4) if composition == "rdp" else None
    menu = (response(F(1, 5)), response(F(8, 5)), reveal(F(19, 100)))

    def left_over(path: tuple[Event, ...]) -> bool:
        try:
            return account_loss(composition, path, delta, order=order).epsilon <= epsilon
        except UnsupportedEvent:
            return False

    loose = worst(menu, left_over, epsilon)
    assert float(delta) < loose <= 2 * float(delta)
    terms = Terms(composition=composition, order=order, selecting=F(19, 200))
    assert worst((*menu, reveal(F(19, 400))), filtered(terms, Budget(epsilon=epsilon, delta=delta)), epsilon) <= 0.2


SERIES: list[dict[Event, int]] = [
    {response(F(1)): 1, response(F(1, 4)): 4, response(F(1, 2)): 2},
    {response(F(1, 2)): 3, reveal(F(1, 50)): 2, BoundedRange(epsilon=F(1)): 2},
    {DiscreteGaussian(scale=F(2), sensitivity=ONE): 2, response(F(3, 4)): 2},
]


@pytest.mark.parametrize("series", SERIES)
def test_the_members_of_a_series_may_come_in_any_order_after_any_answer_and_not_twice(series: dict[Event, int]) -> None:
    """The adversary chooses the next member, what it asks and when to stop; a member used again is caught."""
    delta = F(1, 16)
    loss = series_loss(series, delta)

    def members(path: tuple[Event, ...]) -> bool:
        return all(n <= series[event] for event, n in Counter(path).items())

    menu = tuple(series)
    reached = worst(menu, members, loss.epsilon)
    assert 0.8 * float(delta) < reached <= float(delta) * (1 + 1e-9)
    dearest = max(menu, key=lambda event: excess(laws(event)[0], 0.0))

    def reused(path: tuple[Event, ...]) -> bool:
        return len(path) <= sum(series.values()) and all(
            n <= series[event] + 2 * (event == dearest) for event, n in Counter(path).items()
        )

    assert worst(menu, reused, loss.epsilon) > float(delta)


def grown(choose: random.Random, menu: tuple[Event, ...], depth: int) -> tuple[list[tuple[float, float]], list[Event]]:
    """The leaves of a random adaptive tree, losses and masses, and the dearest path at the order 3."""
    if not depth:
        return [(0.0, 1.0)], []
    event = choose.choice(menu)
    leaves: list[tuple[float, float]] = []
    paths = []
    for loss, mass in choose.choice(laws(event)):
        behind, path = grown(choose, menu, depth - 1)
        leaves += [(loss + more, mass * part) for more, part in behind]
        paths.append([event, *path])
    return leaves, max(paths, key=lambda path: total(Terms(composition="rdp", order=F(3)), path).loss)


@pytest.mark.parametrize("seed", range(40))
def test_the_divergence_of_a_random_tree_is_at_most_that_of_its_dearest_path(seed: int) -> None:
    choose = random.Random(seed)
    leaves, path = grown(choose, (*MENUS["responses"], *MENUS["ranges"]), 5)
    bound = float(total(Terms(composition="rdp", order=F(3)), path).loss)
    there = math.log(math.fsum(mass * math.exp(2 * loss) for loss, mass in leaves)) / 2
    back = math.log(math.fsum(mass * math.exp(-3 * loss) for loss, mass in leaves)) / 2
    assert math.fsum(mass * math.exp(-loss) for loss, mass in leaves) == pytest.approx(1)
    assert max(there, back) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("order", [F(9, 8), F(13, 10), F(2), F(5, 2), F(33), F(1000)])
def test_a_divergence_at_one_order_is_the_enumerated_one_and_never_below(order: Fraction) -> None:
    terms, exact = Terms(composition="rdp", order=order), mpmath.MPContext()
    exact.dps = 80
    a = exact.mpf(order.numerator) / order.denominator  # 13/10 - 1 is no float, and the nearest one is below it
    for size in (F(1, 10**6), F(1, 3), F(1), F(7)):
        e = exact.mpf(size.numerator) / size.denominator
        p = 1 / (1 + exact.exp(-e))
        told = exact.log(p * exact.exp((a - 1) * e) + (1 - p) * exact.exp(-(a - 1) * e)) / (a - 1)
        found = spent_on(terms, response(size)).loss
        assert 0 <= exact.mpf(found.numerator) / found.denominator - told <= told * exact.mpf("1e-15") * float(order)
    for scale in (F(1, 2), F(3)):
        k = range(-int(80 * scale) - 40, int(80 * scale) + 41)
        t = exact.exp(-exact.mpf(scale.denominator) / scale.numerator)
        mass = [(1 - t) / (1 + t) * t ** abs(j) for j in k]
        shifted = [(1 - t) / (1 + t) * t ** abs(j - 2) for j in k]
        told = exact.log(sum(q * (m / q) ** a for m, q in zip(mass, shifted, strict=True))) / (a - 1)
        found = spent_on(terms, DiscreteLaplace(scale=scale, sensitivity=Sensitivity.of_one_cell(2))).loss
        ratio = exact.mpf(found.numerator) / found.denominator / told
        assert 1 - exact.mpf("1e-30") <= ratio <= 1 + exact.mpf("1e-13")
