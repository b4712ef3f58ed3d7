"""What ``postprocess`` asks for beyond consistency: non-negative tables, tables in whole numbers, or both."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dprelease.errors import PlanError
from dprelease.estimate.design import Design, Floats, Table
from dprelease.estimate.nonnegative import joint_set, marginals, nonnegative
from dprelease.estimate.whole import whole

__all__ = ["adjusted"]


def adjusted(
    design: Design,
    tables: Mapping[Table, Floats],
    *,
    non_negative: bool,
    integer: bool,
    key: bytes = bytes(32),
    kept: int | None = None,
) -> dict[Table, npt.NDArray[np.generic]]:
    """Reconciled tables made non-negative, or whole, or first the one and then the other; they stay consistent.

    Args:
        design: What is published.
        tables: Every published table, as reconciled.
        non_negative: Whether numbers below 0 are not allowed.
        integer: Whether only whole numbers are.
        key: Of the rounding: 32 bytes that the measurements of the workload fix.
        kept: The lowest level whose totals are exact; these and all above stay as they are.

    Returns:
        By (level, set) as given; float64, or int64 where they are whole.

    Raises:
        PlanError: DPR-P161, if no published set contains all others.
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
    joint = [tables[level, largest] for level in range(design.tree.levels)]
    if non_negative:
        joint = list(nonnegative(design, joint))
    if integer:
        return marginals(design.sets, whole(design.tree, joint[-1], key, kept))
    found = marginals(design.sets, joint)
    for level in range(0 if kept is None else kept + 1):
        if (level, ()) in found:
            found[level, ()] = np.rint(found[level, ()])  # whole, but for the rounding of floats
    return found
