"""How far two data sets lie apart for a quantile that noise chooses: by the law that is claimed, worked out exactly.

It is the scores of two data sets that matter, and no norm of counts says how much of the claim an attack could show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.noise import ExactHistogram
from dprelease.noise.mechanisms.exponential import pieces
from dprelease.noise.truth import true_entries
from dprelease.plan.document import Step

__all__ = ["part_of_the_claim"]

Floats = npt.NDArray[np.float64]
Values = Mapping[int, int]
_LEAST = 0.005  # of the probability that an event must have to be of use to an attack of some thousand runs


def part_of_the_claim(step: Step, first: ExactHistogram, second: ExactHistogram) -> float:
    """The epsilon that events of some probability show, over the epsilon that is claimed; 1 at most.

    Cells are drawn independently, so that what all of them show together is at most the sum, which is what is compared.

    Args:
        step: A choice of quantiles.
        first: The values of every cell on one data set.
        second: On the other.
    """
    choosing, quantity = step.choosing, step.aggregate.quantity
    if choosing is None or quantity.at is None:
        raise TypeError(f"step {step.id} chooses no quantile")
    one, other = _by_cell(first), _by_cell(second)
    shown = sum(
        _epsilon(one.get(cell, {}), other.get(cell, {}), quantity.at, (quantity.low, quantity.high), step.scale)
        for cell in {*one, *other}
        if one.get(cell) != other.get(cell)
    )
    return min(1.0, shown / float(choosing.rounds * choosing.spread / step.scale))


def _by_cell(histogram: ExactHistogram) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for (cell, value), often in true_entries(histogram).items():
        found.setdefault(cell, {})[value] = often
    return found


def _epsilon(one: Values, other: Values, at: Fraction, grid: tuple[int, int], scale: Fraction) -> float:
    """The largest log ratio of the probabilities of one event, likely enough, in one direction or the other."""
    sides = [_pieces(values, at, grid, scale) for values in (one, other)]
    starts = np.union1d(sides[0][0], sides[1][0])
    widths = np.diff(np.append(starts, grid[1] + 1.0))
    logs = [levels[np.searchsorted(begun, starts, side="right") - 1] for begun, levels in sides]
    chances = [widths * np.exp(log - log.max()) for log in logs]
    here, there = (each / each.sum() for each in chances)
    return max(_shown(here, there), _shown(there, here))


def _shown(here: Floats, there: Floats) -> float:
    """Of the pieces with the largest ratios, more and more of them, the best that is likely enough."""
    order = np.argsort(there / np.maximum(here, 1e-300), kind="stable")
    above, below = np.cumsum(here[order]), np.cumsum(there[order])
    likely = above >= _LEAST
    ratios = np.log(above[likely] / np.maximum(below[likely], 1e-300))
    return max(0.0, float(ratios.max(initial=-math.inf)))


def _pieces(values: Values, at: Fraction, grid: tuple[int, int], scale: Fraction) -> tuple[Floats, Floats]:
    """Where the pieces of equal score begin, and the log of the chance of each of their values, but for a constant."""
    held = sorted(values)
    starts, _, levels = pieces(held, [values[value] for value in held], at, *grid)
    return np.array(starts, dtype=np.float64), -np.array(levels, dtype=np.float64) / float(scale * at.denominator)
