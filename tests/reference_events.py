"""What choices cost, derived once more: the ranges of docs/proofs/exponential-mechanism.md, by its own way to them.

What a plan is charged is ``catalog.sensitivity.choice_reach``, which comes to the same numbers by another proof.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from dprelease.privacy.event import BoundedRange, Event, Repeated
from dprelease.privacy.unit import Neighboring

__all__ = ["quantile_event", "top_k_event"]


def quantile_event(
    scale: Fraction,
    at: Fraction,
    neighboring: Neighboring,
    *,
    rows: int = 1,
    groups: int = 1,
    total: int | None = None,
    cells: int | None = None,
) -> Event:
    """What one quantile of every cell costs.

    A row added or removed changes the scores of its cell by amounts in an interval of length at most
    2 max(at, 1 - at), and a row replaced inside a cell by amounts in one of length at most 2; at the ends, where
    the score is monotone, both are 1. The draws of the cells of a unit are independent, so that their ranges add
    up: cells that hold no more rows together than one cell can are one event, and a unit with ``total`` rows fills
    fewer than 2 total / rows such groups. Proved in docs/proofs/exponential-mechanism.md, section 3.

    Args:
        scale: In ranks.
        at: The fraction, in [0, 1].
        neighboring: What one unit more or other means.
        rows: The most rows of one unit in one cell.
        groups: The most cells of one unit.
        total: The most rows of one unit in all cells, where that is below rows times groups.
        cells: The number of cells there are; with one, a replaced row stays in its cell.
    """
    inner = 0 < at < 1
    each = 2 * max(at, 1 - at) if inner else Fraction(1)
    whole = rows * groups if total is None else min(total, rows * groups)
    one = min(rows, whole)
    if neighboring is Neighboring.ADD_REMOVE:
        length = each * one
    else:
        length = Fraction(2 * one if inner else one) if cells == 1 else 2 * each * one
    most = min(groups, max(1, ceil(Fraction(2 * whole, max(one, 1))) - 1), groups if cells is None else cells)
    return _repeated(length / scale, most)


def top_k_event(scale: Fraction, k: int, neighboring: Neighboring, *, change: int = 1) -> Event:
    """What k rounds of a list of the most frequent keys cost.

    One unit added raises every count by at least 0 and at most ``change``: the changes lie in an interval of that
    length, and so does the loss of each round, whatever the rounds before have drawn. A replaced unit lowers by
    at most ``change`` and raises by at most ``change``: twice that length. The rounds are adaptive, each with the
    same range, fixed beforehand. Proved in docs/proofs/exponential-mechanism.md, section 4.
    """
    sides = 1 if neighboring is Neighboring.ADD_REMOVE else 2
    return _repeated(sides * change / scale, k)


def _repeated(length: Fraction, count: int) -> Event:
    one = BoundedRange(epsilon=length)
    return one if count == 1 else Repeated(event=one, count=count)
