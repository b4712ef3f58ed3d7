"""What ``postprocess`` asks for beyond consistency: non-negative tables, tables in whole numbers, or both."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dprelease.errors import PlanError
from dprelease.estimate.workloads.conditional import exact_tables, saying_all
from dprelease.estimate.workloads.design import Design, Floats, Table
from dprelease.estimate.workloads.nonnegative import joint_set, marginals, nonnegative
from dprelease.estimate.workloads.whole import whole

__all__ = ["adjusted"]


def adjusted(
    design: Design,
    tables: Mapping[Table, Floats],
    *,
    non_negative: bool,
    integer: bool,
    key: bytes = bytes(32),
) -> dict[Table, npt.NDArray[np.generic]]:
    """Reconciled tables made non-negative, or whole, or first the one and then the other; they stay consistent.

    Exact tables stay as they are where one of them says all others.

    Args:
        design: What is published and what was drawn.
        tables: Every published table, as reconciled.
        non_negative: Whether numbers below 0 are not allowed.
        integer: Whether only whole numbers are.
        key: Of the rounding: 32 bytes that the measurements of the workload fix.

    Returns:
        By (level, set) as given; float64, or int64 where they are whole.

    Raises:
        PlanError: DPR-P161, if no published set contains all others.
        ValueError: If no exact table says all other ones; no plan asks for it.
    """
    if not (non_negative or integer):
        return dict(tables)
    largest = joint_set(design.sets)
    if largest is None:
        raise PlanError(
            "no published marginal contains all others, so that they cannot be made non-negative or whole together",
            detail="consistent non-negative whole numbers near the estimates need not exist without the joint table",
            hint="publish the marginal of all attributes, or leave `nonnegative` and `integer` out of `postprocess`",
            code="DPR-P161",
        )
    exact = exact_tables(design)
    kept = saying_all(exact)
    if exact and kept is None:
        raise ValueError("no exact table says all others, so that they do not stay exact")
    joint = [tables[level, largest] for level in range(design.tree.levels)]
    if non_negative:
        joint = list(nonnegative(design, joint))
    if integer:
        lowest, axes = (None, ()) if kept is None else (kept[0], tuple(largest.index(axis) for axis in kept[1]))
        return marginals(design.sets, whole(design.tree, joint[-1], key, lowest, axes))
    found = marginals(design.sets, joint)
    for level, axes in found:
        if kept is not None and level <= kept[0] and set(axes) <= set(kept[1]):
            found[level, axes] = np.rint(found[level, axes])  # whole, but for the rounding of floats
    return found
