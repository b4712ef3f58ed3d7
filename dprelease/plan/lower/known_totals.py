"""What must be true of a workload of which some tables are known exactly, and what these are worth."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dprelease.errors import PlanError
from dprelease.estimate.workloads.conditional import saying_all
from dprelease.plan.design.workload_objective import lost
from dprelease.plan.design.workload_strategy import Strategy
from dprelease.plan.document.workload import Workload
from dprelease.plan.lower.invariants import Known
from dprelease.spec.fields.workloads import Minimize

__all__ = ["check_known", "gained"]


def check_known(workload: Workload, strategy: Strategy, known: Sequence[Known]) -> None:
    """Something is left to be drawn, and what is done after the noise leaves what is exact as it is.

    Non-negative and whole tables keep one exact table, and with it all that follow from it: the cells of each of its
    keys are then numbers with one sum. Tables that say different things are not kept (for three of them no
    non-negative whole numbers with all these sums need to be near).

    Raises:
        PlanError: DPR-P107.
    """
    if not strategy.parts:
        raise PlanError(
            f"every table of {workload.name} follows from invariants, so that nothing of it is protected",
            hint="leave the query out, or some of its invariants",
            code="DPR-P107",
        )
    if not known or not set(workload.post) - {"consistent"} or saying_all((e.level, e.axes) for e in known):
        return
    lowest = max(known, key=lambda each: (each.level, len(each.axes)))
    other = next(each for each in known if not set(each.axes) <= set(lowest.axes))
    first, second = (", ".join(workload.columns(each.level, each.axes)) for each in (lowest, other))
    raise PlanError(
        f"invariants by {first} and by {second} would not both stay exact in {workload.name}: what is done after the "
        "noise keeps one exact table, and those that follow from it",
        hint="write `postprocess: [consistent]`, or leave one of the invariants out",
        code="DPR-P107",
    )


def gained(unaided: Strategy, found: Strategy, minimize: Minimize) -> float | None:
    """How many times the noise a workload would have without what it knows; None where it would be endless.

    Args:
        unaided: The best strategy that knows nothing.
        found: The one that was chosen.
        minimize: What is made least.
    """
    without, beside = lost(unaided, minimize), lost(found, minimize)
    return math.sqrt(without / beside) if math.isfinite(without) and beside > 0 else None
