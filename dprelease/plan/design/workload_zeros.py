"""What structural zeros are worth to a workload: the same draws, with smaller variances."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dprelease.estimate.workloads.design import Design, StructuralZeros
from dprelease.estimate.workloads.zeros import cell_variances, possible_cells
from dprelease.plan.design.workload_strategy import Strategy
from dprelease.spec.fields.workloads import Minimize

__all__ = ["Spared", "spared"]


@dataclass(frozen=True)
class Spared:
    """A strategy beside zeros.

    Attributes:
        strategy: The same draws; its variances are means over the cells that are not 0 by declaration.
        gain: How many times the noise it would have without its zeros, the root of how much more of what is made
            least; None where it has none, or they are worth nothing.
    """

    strategy: Strategy
    gain: float | None = None


def spared(strategy: Strategy, zeros: StructuralZeros | None, design: Design, minimize: Minimize) -> Spared:
    """What the zeros of a workload are worth to the strategy that was chosen without them.

    The objective stays that without zeros, for comparisons with other strategies. A table of which no cell is possible
    has no variance.

    Args:
        strategy: Of which every table is determined; a workload with zeros has no levels.
        zeros: The zeros of the workload; None: it has none.
        design: The draws of the strategy, with the variances that they have where its own variances hold, and what is
            exact.
        minimize: What is made least.
    """
    if zeros is None or strategy.undetermined:
        return Spared(strategy)
    found, sets = cell_variances(design), design.sets
    means = np.zeros((1, len(sets)))
    number = np.zeros((1, len(sets)))
    for at, axes in enumerate(sets):
        inside = possible_cells(design, axes)
        number[0, at] = np.count_nonzero(inside)
        whole = np.broadcast_to(found[0, axes][0], inside.shape)
        means[0, at] = whole[inside].mean() if inside.any() else 0.0
    weights = number if minimize == "cells" else (number > 0).astype(np.float64)
    without, beside = float((weights * strategy.variances).sum()), float((weights * means).sum())
    if minimize == "worst":
        without = float(strategy.variances[number > 0].max())
        beside = max(float(each.max()) for each in found.values())
    means.setflags(write=False)
    gain = math.sqrt(without / beside) if beside > 0 else None
    return Spared(replace(strategy, variances=means), gain if gain is not None and gain > 1 else None)
