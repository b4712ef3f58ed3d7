"""Charts of the accounting as drawings of lines: no script, a text alternative each, and their numbers as a table.

A :class:`Figure` holds plain numbers and texts; ``templates/accounting_macros.html.j2`` writes the SVG, whose colours
come from the style sheet. Coordinates are hundredths of a unit in a drawing of 360 by 240.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from dprelease.plan.document import ReleasePlan
from dprelease.publish.accounting.curves import Profile, fewest_misses, trade_off
from dprelease.publish.base import AccountFacts, AccountPoint, Facts
from dprelease.publish.numbers import at_least, at_most, percent, power_of_ten, round_step
from dprelease.words import amount, number_written, phrase

__all__ = ["ALPHAS", "Figure", "history_figures", "profile_figure", "trade_off_figure"]

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 340, 14, 196
_STEPS = 96  # pieces of a curve
_MOST_CHARGES = 200
ALPHAS = (Fraction(1, 1000), Fraction(1, 100), Fraction(5, 100), Fraction(1, 10), Fraction(1, 4), Fraction(1, 2))

Mark = tuple[str, str]  # a place along an axis, and its text
Line = tuple[Literal["curve", "reference"], str]  # what it is, a reference being a cap or guessing; and its points


@dataclass(frozen=True)
class Figure:
    """One chart.

    Attributes:
        name: A word that is part of an id on the page.
        title: Its heading.
        says: The text alternative: what a reader is to see.
        across: What the horizontal axis counts.
        up: What the vertical axis counts.
        lines: Drawn in this order.
        marks_across: Ticks of the horizontal axis.
        marks_up: Ticks of the vertical axis.
        head: Headings of the table of its numbers.
        rows: Its numbers, as texts.
        dots: Centres of dots.
    """

    name: str
    title: str
    says: str
    across: str
    up: str
    lines: tuple[Line, ...]
    marks_across: tuple[Mark, ...]
    marks_up: tuple[Mark, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    dots: tuple[Mark, ...] = ()


def profile_figure(plan: ReleasePlan, profile: Profile) -> Figure:
    """Delta at every epsilon, in powers of ten, with the certified pair marked."""
    certified = plan.loss[plan.certified]
    top = max(float(profile.points[-1][0]), float(certified.epsilon) * 1.5)
    smallest = math.floor(math.log10(certified.delta)) - 3 if certified.delta else -12

    def x(epsilon: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * epsilon / top

    def y(delta: float) -> float:
        power = max(math.log10(delta), smallest) if delta > 0 else smallest
        return _TOP + (_BOTTOM - _TOP) * power / smallest

    curve = [(x(top * at / _STEPS), y(profile.delta(top * at / _STEPS))) for at in range(_STEPS + 1)]
    powers = range(0, smallest - 1, -max(1, math.ceil(-smallest / 5)))
    dot = (_place(x(float(certified.epsilon))), _place(y(float(certified.delta))))
    pair = f"ε = {at_most(certified.epsilon, 4)}, δ = {at_most(certified.delta)}"
    return Figure(
        name="profile",
        title=phrase("δ at every ε: the privacy profile"),
        says=phrase(
            "A falling line: at a larger ε less remains for δ. A dot marks the certified loss, {pair}.", pair=pair
        ),
        across="ε",
        up="δ",
        lines=(("curve", _points(curve)),),
        dots=(dot,),
        marks_across=tuple((_place(x(tick)), text) for tick, text in _ticks(top)),
        marks_up=tuple((_place(y(10.0**power)), power_of_ten(power) if power else "1") for power in powers),
        head=("ε", phrase("δ at most")),
        rows=tuple((at_most(epsilon, 6), at_most(delta)) for epsilon, delta in profile.points),
    )


def trade_off_figure(profile: Profile) -> Figure:
    """The errors that an attacker must make: misses against false alarms."""

    def x(alpha: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * alpha

    def y(miss: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * miss

    corners = [(x(alpha), y(miss)) for alpha, miss in fewest_misses(profile.points)]
    guessing = [(x(0), y(1)), (x(1), y(0))]
    ticks = [(at / 4, f"{25 * at}\u00a0%") for at in range(5)]
    rows = tuple((f"{percent(a)}\u00a0%", f"{at_least(100 * trade_off(profile.points, a), 4)}\u00a0%") for a in ALPHAS)
    one = rows[ALPHAS.index(Fraction(5, 100))]
    return Figure(
        name="errors",
        title=phrase("The errors that no attacker avoids"),
        says=phrase(
            "A line that falls from all misses to none, below the straight line of guessing. Whoever accepts {alarms} "
            "of false alarms misses at least {misses}.",
            alarms=one[0],
            misses=one[1],
        ),
        across=phrase("false alarms"),
        up=phrase("misses"),
        lines=(("reference", _points(guessing)), ("curve", _points(corners))),
        marks_across=tuple((_place(x(at)), text) for at, text in ticks),
        marks_up=tuple((_place(y(at)), text) for at, text in ticks),
        head=(phrase("false alarms"), phrase("misses at least")),
        rows=rows,
    )


def history_figures(plan: ReleasePlan, facts: Facts) -> tuple[Figure, ...]:
    """For each account with two known charges or more its loss behind every one, beside its cap.

    Of one charge there is nothing to draw: its loss and the cap stand in the table of accounts.
    """
    found = []
    for at, account in enumerate(facts.accounts):
        points = [each for each in facts.history if each.account == account.name]
        if len(points) > 1:
            found.append(_history(f"history{at}", account, points))
    return tuple(found)


def _history(name: str, account: AccountFacts, points: Sequence[AccountPoint]) -> Figure:
    shown, cap = points[-_MOST_CHARGES:], account.cap.epsilon
    losses = [float(each.after.epsilon) for each in shown]
    top = max([*losses, float(cap or 0)]) * 1.05 or 1.0
    count = max(1, len(shown))

    def x(at: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * at / count

    def y(loss: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * loss / top

    stairs = [(x(at + side), y(loss)) for at, loss in enumerate(losses) for side in (0, 1)]
    lines: list[Line] = [("curve", _points(stairs))]
    if cap is not None:
        lines.insert(0, ("reference", _points([(x(0), y(float(cap))), (x(count), y(float(cap)))])))
    # Of a parallel account the last charge may be about another stretch of time than the largest.
    most = max(each.after.epsilon for each in shown)
    limit = phrase(" The dashed line is the cap, ε = {cap} at that δ.", cap=at_most(cap, 4)) if cap is not None else ""
    spread = sorted({0, (count - 1) // 2, count - 1})
    over = phrase("Stairs over the last {count} charges", count=amount(len(shown)))
    return Figure(
        name=name,
        title=phrase("Account {name}: loss of the period charged, behind every charge", name=account.name)
        if account.window
        else phrase("Account {name}: loss behind every charge", name=account.name),
        says=phrase(
            "{over}, up to ε = {most} at δ = {delta}.{limit}",
            over=over,
            most=at_most(most, 4),
            delta=at_most(account.after.delta),
            limit=limit,
        ),
        across=phrase("charges, the oldest first"),
        up=phrase("ε of the account"),
        lines=tuple(lines),
        marks_across=tuple((_place(x(at + 0.5)), _named(shown[at])) for at in spread),
        marks_up=tuple((_place(y(tick)), text) for tick, text in _ticks(top)),
        head=(phrase("ledger entry"), phrase("release"), phrase("period"), phrase("ε of the account, at most")),
        rows=tuple((amount(p.sequence), p.release, p.period, at_most(p.after.epsilon, 6)) for p in shown),
    )


def _named(point: AccountPoint) -> str:
    return point.period if len(point.period) <= 10 else f"{point.period[:9]}…"


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_place(x)},{_place(y)}" for x, y in places)


def _place(number: float) -> str:
    return f"{number + 0.0:.2f}"


def _ticks(top: float) -> list[tuple[float, str]]:
    """Round numbers from 0 up to the top, three to six of them."""
    step = round_step(top)
    unit = Decimal(f"{step:.3g}")
    return [(float(unit * at), number_written(f"{(unit * at).normalize():f}")) for at in range(int(top / step) + 1)]
