"""Fresh noise for the tables of a workload, for margins of what SQL makes of them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from dprelease.errors import PlanError
from dprelease.estimate.workloads.zeros import estimated, possible_cells
from dprelease.plan.design.workload_design import design_of, lattice
from dprelease.plan.document import ReleasePlan, Workload
from dprelease.publish.derive.replicate import noise_of

__all__ = ["check_size", "errors_again"]

Floats = npt.NDArray[np.float64]
_MOST_DRAWN = 100_000  # noisy numbers of a workload: a thousand times as many are drawn and reconciled


def check_size(plan: ReleasePlan, used: Collection[str]) -> None:
    """Refuse SQL over a workload whose noise is too large to be drawn a thousand times.

    Args:
        plan: The plan.
        used: Names of the tables that the SQL reads.

    Raises:
        PlanError: DPR-P159; names the workload.
    """
    for workload in plan.workloads:
        drawn = sum(plan.taken(take.step).cells or 0 for take in workload.takes)
        if drawn > _MOST_DRAWN and set(workload.tables) & set(used):
            raise PlanError(
                f"a derived table reads workload {workload.name!r}, of which {drawn:,} numbers are drawn",
                detail=f"its margins take a thousand times as many; at most {_MOST_DRAWN:,} are done",
                hint="publish the table as a query of its own, or derive it from the files afterwards",
                code="DPR-P159",
            )


def errors_again(
    plan: ReleasePlan, workload: Workload, wanted: Collection[str], replicates: int, chance: np.random.Generator
) -> dict[str, Floats]:
    """The errors of tables under fresh draws of all of the workload's noise, one replicate after the other.

    Reconciling is linear, so that the errors of the estimates are what the noise alone becomes. What was made
    non-negative or whole afterwards is not repeated: the margins are those of the estimates.

    Args:
        plan: The plan.
        workload: The workload of the plan.
        wanted: Names of tables of the workload.
        replicates: How many.
        chance: Where the noise comes from.

    Returns:
        By table, shape ``(replicates * cells,)``.
    """
    steps = {take.step: plan.taken(take.step) for take in workload.takes}
    design = design_of(workload, plan.catalog, steps)
    found: dict[str, list[Floats]] = {name: [] for name in wanted}
    for _ in range(replicates):
        values = []
        for take in workload.takes:
            step, shape = steps[take.step], design.shape(take.level, take.axes)
            drawn = noise_of(step.law, 1, int(np.prod(shape)), chance)
            values.append(drawn.reshape(shape) / lattice(step))
        tables = estimated(design, values)
        for name, errors in found.items():
            place = workload.place(name)
            errors.append(tables[place][:, possible_cells(design, place[1])].reshape(-1))
    return {name: np.concatenate(errors) for name, errors in found.items()}
