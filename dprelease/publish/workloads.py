"""The tables of a workload: its draws, reconciled, and what was asked for after that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from dprelease.estimate.adjust import adjusted
from dprelease.estimate.reconcile import node_variances, reconcile
from dprelease.estimate.tables import PublishedTable
from dprelease.estimate.workload_tables import Reconciled, workload_table
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan, Workload
from dprelease.plan.outputs import reach_of
from dprelease.plan.workload_design import design_of, lattice

__all__ = ["workload_tables"]


def workload_tables(
    plan: ReleasePlan, workload: Workload, measurements: Mapping[str, Measurement]
) -> dict[str, PublishedTable]:
    """Every table of a workload by its name, in published order.

    Args:
        plan: That was measured.
        workload: Of the plan.
        measurements: By step, held against the plan.
    """
    steps = {take.step: plan.taken(take.step) for take in workload.takes}
    design = design_of(workload, plan.catalog, steps)
    values = []
    for take in workload.takes:
        noisy = measurements[take.step].values / float(lattice(steps[take.step]))
        values.append(noisy.reshape(design.shape(take.level, take.axes)))
    estimates = reconcile(design, values)
    del values
    whole = "integer" in workload.post
    exact = [take.level for take, taken in zip(workload.takes, design.taken, strict=True) if taken.variance == 0]
    published = adjusted(
        design,
        estimates,
        non_negative="nonnegative" in workload.post,
        integer=whole,
        key=_key(workload, measurements),
        kept=max(exact, default=None),
    )
    variances = node_variances(design)
    reach, table = reach_of(workload, steps, plan.publish.confidence), plan.catalog.tables[workload.table]
    titles = {query.name: query.title for query in plan.queries if query.workload == workload.name}
    found = {}
    for name in workload.tables:
        place = workload.place(name)
        found[name] = workload_table(
            name,
            titles[name],
            tuple(map(table.column, workload.columns(*place))),
            workload.measure,
            Reconciled(estimates.pop(place), published.pop(place), variances[place], whole),
            reach=reach,
            confidence=plan.publish.confidence,
            unreliable_above=plan.publish.unreliable_above,
            unreliable_show=plan.publish.unreliable_show,
        )
    return found


def _key(workload: Workload, measurements: Mapping[str, Measurement]) -> bytes:
    """The fingerprint of what was measured: rounding goes by chance, and is the same every time."""
    told = hashlib.sha256(b"dprelease rounding of a workload 1")
    for take in workload.takes:
        told.update(bytes.fromhex(measurements[take.step].digest))
    return told.digest()
