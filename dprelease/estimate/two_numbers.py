"""The noise of two numbers of one query together: of a number and a total that it is a part of, or of two groups.

Cells and totals of a query are sums of the same draws, or least squares estimates made of the same draws
(``estimate.totals``). Which weight a drawn cell has in each of two numbers depends on the keys that it has in common
with them alone, so that the draws fall into a few kinds, each with two weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from dprelease.estimate.totals import design_of_tables
from dprelease.estimate.workloads.design import Axes
from dprelease.estimate.workloads.tails import weights_by_keys
from dprelease.measures.comparing.parts import TwoSums
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw

__all__ = ["of_part_and_total", "of_two_groups"]

_Part = tuple[float, float, int, float]


def of_part_and_total(sizes: Sequence[int], drawn: Mapping[Axes, Law], axes: Axes, total: Axes) -> TwoSums:
    """The noise of a number of a table, and that of the total which it is a part of.

    Args:
        sizes: The number of keys of each column of the query.
        drawn: The law of the noise on a number of each table that was drawn, in steps, the cells among them.
        axes: The columns of the table, as positions.
        total: Those of the table of the total: fewer of them.
    """
    own, below = (prod(n for at, n in enumerate(sizes) if at not in each) for each in (axes, total))
    if len(drawn) == 1:
        (law,) = drawn.values()
        variance = _spread(law)
        return TwoSums(((1.0, 1.0, own, variance), (0.0, 1.0, below - own, variance)), _gaussian(drawn))
    design = design_of_tables(sizes, (axes, total), drawn)
    found: list[_Part] = []
    for (take, ones), (_, others) in zip(weights_by_keys(design, axes), weights_by_keys(design, total), strict=True):
        for same in _subsets(take.axes):
            times = prod(sizes[at] - 1 for at in take.axes if at not in same and at in axes)
            times *= prod(sizes[at] for at in take.axes if at not in axes)
            if any(at in same for at in take.axes if at not in axes) or not times:
                continue
            weights = (each[tuple(at for at in same if at in of)] for each, of in ((ones, axes), (others, total)))
            found.append((*weights, times, take.variance))  # type: ignore[arg-type]  # two weights
    return TwoSums(tuple(found), _gaussian(drawn))


def of_two_groups(sizes: Sequence[int], drawn: Mapping[Axes, Law], axes: Axes, along: int) -> TwoSums:
    """The noise of two numbers of a table that have different keys in one column, and the same ones in all others.

    Args:
        sizes: As of :func:`of_part_and_total`.
        drawn: The same.
        axes: The columns of the table, as positions.
        along: The column in which they differ, one of these.
    """
    if len(drawn) == 1:
        (law,) = drawn.values()
        own, variance = prod(n for at, n in enumerate(sizes) if at not in axes), _spread(law)
        return TwoSums(((1.0, 0.0, own, variance), (0.0, 1.0, own, variance)), _gaussian(drawn))
    found: list[_Part] = []
    for take, weights in weights_by_keys(design_of_tables(sizes, (axes,), drawn), axes):
        if along not in take.axes:  # of every cell of it both have the same
            continue
        both = tuple(at for at in take.axes if at in axes and at != along)
        free = prod(sizes[at] for at in take.axes if at not in axes)
        for same in _subsets(both):
            times = free * prod(sizes[at] - 1 for at in both if at not in same)
            near, far = weights[tuple(sorted((*same, along)))], weights[same]
            kinds = ((near, far, 1), (far, near, 1), (far, far, sizes[along] - 2))
            found += [(one, other, times * number, take.variance) for one, other, number in kinds if times * number]
    return TwoSums(tuple(found), _gaussian(drawn))


def _subsets(axes: Axes) -> list[Axes]:
    return [
        tuple(at for at, there in zip(axes, which, strict=True) if there)
        for which in product((False, True), repeat=len(axes))
    ]


def _gaussian(drawn: Mapping[Axes, Law]) -> bool:
    return all(isinstance(law, DiscreteGaussianLaw) for law in drawn.values())


def _spread(law: Law) -> float:
    return float(law.scale) ** 2 if isinstance(law, DiscreteGaussianLaw) else law.variance
