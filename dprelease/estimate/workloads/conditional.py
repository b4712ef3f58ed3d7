"""What the estimates of siblings are worth once their parent is known, residual by residual.

Of the best linear unbiased estimates z* of residual b, given that the parent has theta' (:mod:`~.hierarchy`):

    the mean of a child is ``z* + h (theta' - z*')``, z*' that of the parent, and its precision ``1/u``

with the shares h and the variances from below u of the tree's passes, for siblings under the condition that they add
up to theta'. At the top nothing is given: the mean is z*, the precision ``1/v* = 1/u``. The densities of the top and of
all families multiply to that of the whole tree: nothing of the covariance is left out on the way down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from dprelease.estimate.workloads.contrast import part
from dprelease.estimate.workloads.design import Axes, Design, Floats, Table, Whole
from dprelease.estimate.workloads.hierarchy import Passes, passes
from dprelease.estimate.workloads.reconcile import measured_variances

__all__ = ["Conditional", "conditionals", "exact_tables", "saying_all"]

_SURE = 100.0  # an exact residual weighs so much more than the best uncertain one: the rounds stay few


@dataclass(frozen=True, eq=False)
class Conditional:
    """One level.

    Attributes:
        sizes: Keys of the attributes of the joint table, in its order.
        precision: By residual (positions in ``sizes``): ``1/u`` times the cells that it is spread over, shape
            ``(nodes,)``; above 0 and finite wherever a node has a sibling, and at the top.
        shares: By residual: h, shape ``(nodes,)``; empty at the top.
    """

    sizes: tuple[int, ...]
    precision: Mapping[Axes, Floats]
    shares: Mapping[Axes, Floats]

    def weights(self, nodes: Whole) -> Floats:
        """The precisions at the places of a split table; shape ``(*sizes, *shape of nodes)``."""
        return self._spread(self.precision, nodes)

    def moves(self, nodes: Whole) -> Floats:
        """The shares at the places of a split table; shape ``(*sizes, *shape of nodes)``."""
        return self._spread(self.shares, nodes)

    def _spread(self, parts: Mapping[Axes, Floats], nodes: Whole) -> Floats:
        found = np.ones((*self.sizes, *nodes.shape))
        for b, numbers in parts.items():
            found[part(tuple(range(len(self.sizes))), b, self.sizes)[1:]] = numbers[nodes]
        return found


def exact_tables(design: Design) -> tuple[Table, ...]:
    """The tables that are drawn without noise."""
    return tuple((take.level, take.axes) for take in design.taken if take.variance == 0 and not take.residual)


def saying_all(exact: Iterable[Table]) -> Table | None:
    """The one of exact tables that all others follow from; None where there is none.

    A table of attributes A at a level says the tables of all attributes within A there and above.

    >>> saying_all([(0, (1,)), (2, (0, 1)), (1, ())]), saying_all([(0, (1,)), (2, ())])
    ((2, (0, 1)), None)
    """
    found = tuple(exact)
    return next((one for one in found if all(_says(one, other) for other in found)), None)


def _says(one: Table, other: Table) -> bool:
    return other[0] <= one[0] and set(other[1]) <= set(one[1])


def conditionals(design: Design, joint: Axes) -> tuple[Conditional, ...]:
    """The conditional estimates of every level, for the table of these attributes, which contains all published sets.

    Residuals of exact draws have a variance of 0: they get the largest precision of others, 100 times. Where one exact
    table says all (:func:`saying_all`), the sums that it fixes are conditions, and these numbers of no consequence.
    """
    place = {axis: each for each, axis in enumerate(joint)}
    sizes = tuple(design.sizes[axis] for axis in joint)
    known: dict[tuple[float, ...], Passes] = {}
    precision: list[dict[Axes, Floats]] = [{} for _ in range(design.tree.levels)]
    shares: list[dict[Axes, Floats]] = [{} for _ in range(design.tree.levels)]
    for b, own in measured_variances(design).items():
        found = known[own] = known.get(own) or passes(design.tree, own)
        at, spread = tuple(place[axis] for axis in b), prod(design.sizes[axis] for axis in joint if axis not in b)
        for level, variances in enumerate(found.below):
            with np.errstate(divide="ignore"):
                precision[level][at] = spread / variances
            if level:
                shares[level][at] = found.shares[level - 1]
    return tuple(Conditional(sizes, _capped(each), moved) for each, moved in zip(precision, shares, strict=True))


def _capped(precision: dict[Axes, Floats]) -> dict[Axes, Floats]:
    """Without infinite ones."""
    largest = max((float(each[np.isfinite(each)].max(initial=0)) for b, each in precision.items() if b), default=0.0)
    limit = _SURE * largest if largest > 0 else 1.0
    return {b: np.minimum(each, limit) for b, each in precision.items()}
