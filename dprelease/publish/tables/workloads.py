"""The tables of a workload: its draws, reconciled, and what was asked for after that."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from dprelease.catalog.aggregate import left_out_of
from dprelease.estimate.adjust import adjusted
from dprelease.estimate.tables import PublishedTable
from dprelease.estimate.workloads.tables import Reconciled, workload_table
from dprelease.estimate.workloads.zeros import cell_variances, estimated
from dprelease.noise import Measurement
from dprelease.plan.design.accuracy import reach_of
from dprelease.plan.design.workload_design import design_of, lattice
from dprelease.plan.document import ReleasePlan, Workload

__all__ = ["workload_tables"]


def workload_tables(
    plan: ReleasePlan,
    workload: Workload,
    measurements: Mapping[str, Measurement],
    names: Collection[str] | None = None,
) -> dict[str, PublishedTable]:
    """The tables of a workload by their names, in published order.

    Args:
        plan: That was measured.
        workload: Of the plan.
        measurements: By step, held against the plan.
        names: Of the tables that are wanted; None: all of them. They are reconciled together whatever is wanted.
    """
    steps = {take.step: plan.taken(take.step) for take in workload.takes}
    design = design_of(workload, plan.catalog, steps)
    values = []
    for take in workload.takes:
        noisy = measurements[take.step].values / float(lattice(steps[take.step]))
        values.append(noisy.reshape(design.shape(take.level, take.axes)))
    estimates = estimated(design, values)
    del values
    whole = "integer" in workload.post
    published = adjusted(
        design,
        estimates,
        non_negative="nonnegative" in workload.post,
        integer=whole,
        key=_key(workload, measurements),
    )
    variances = cell_variances(design)
    reach, table = reach_of(workload, steps, plan.publish.confidence), plan.catalog.tables[workload.table]
    queries = {query.name: query for query in plan.queries if query.workload == workload.name}
    found = {}
    for name in (each for each in workload.tables if names is None or each in names):
        place = workload.place(name)
        found[name] = workload_table(
            name,
            queries[name].title,
            tuple(map(table.column, workload.columns(*place))),
            workload.measure,
            Reconciled(
                estimates.pop(place),
                published.pop(place),
                variances[place],
                whole,
                left_out_of(queries[name], plan.catalog),
            ),
            reach=reach,
            confidence=plan.publish.confidence,
            unreliable_above=plan.publish.unreliable_above,
            unreliable_show=plan.publish.unreliable_show,
            nearest=plan.publish.intervals == "nearest",
        )
    return found


def _key(workload: Workload, measurements: Mapping[str, Measurement]) -> bytes:
    """The fingerprint of what was measured: rounding goes by chance, and is the same every time."""
    told = hashlib.sha256(b"dprelease rounding of a workload 1")
    for take in workload.takes:
        told.update(bytes.fromhex(measurements[take.step].digest))
    return told.digest()
