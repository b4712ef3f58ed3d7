"""What a plan says of impossible combinations, held against its references, tables and draws a second time.

No sensitivity depends on them, for they are left out row by row (``catalog.aggregate.Grouping``); but who reads a table
must be told the same of it as the engine does, and no cell may be missing that a combination does not stand for.
"""

from __future__ import annotations

import math

from dprelease.catalog.table import Zeros
from dprelease.plan.document import ReleasePlan, Workload
from dprelease.plan.verify_reach import require

__all__ = ["check_zeros"]


def check_zeros(plan: ReleasePlan) -> None:
    """Every list is of a workload without levels, of the columns of its reference, and of rows of that workload alone.

    Raises:
        BrokenPromiseError: If one is not.
    """
    workloads = {each.name: each for each in plan.workloads}
    for name, zeros in plan.catalog.zeros.items():
        require(name in workloads, f"{name} has impossible combinations, and is no workload")
        _check_list(plan, workloads[name], zeros)
    for query in plan.queries:
        own = query.workload if query.workload in plan.catalog.zeros else None
        if query.workload is not None:
            require(query.zeros == own, f"{query.name} counts rows that its workload does not, or not all of them")
            within = own is not None and set(plan.catalog.zeros[own].columns) <= set(query.by)
            require(query.excluding == (own if within else None), f"{query.name} has not the cells that are possible")
    allowed = {
        (take.step, each.name) for each in plan.workloads if each.name in plan.catalog.zeros for take in each.takes
    }
    for step in plan.measured:
        asked = step.aggregate
        own_rows = asked.zeros is None or (step.id, asked.zeros) in allowed
        require(own_rows, f"{step.id} leaves out rows that are none of its workload's")
        whole = asked.excluding is None or asked.excluding not in plan.catalog.zeros
        require(whole, f"{step.id} leaves out impossible cells, which are drawn with the others")


def _check_list(plan: ReleasePlan, workload: Workload, zeros: Zeros) -> None:
    """Cells of columns of the workload, in its order; just the columns that the reference has."""
    require(not workload.levels, f"{workload.name} has impossible combinations beside levels")
    require(zeros.reference in plan.catalog.references, f"{workload.name} has impossible combinations of no reference")
    declared = set(plan.catalog.references[zeros.reference].columns)
    ordered = tuple(name for name in workload.attributes if name in declared)
    require(zeros.columns == ordered and set(ordered) == declared, f"{zeros.reference} is of other columns")
    table = plan.catalog.tables[workload.table]
    every = math.prod(len(table.column(name).keys or ()) for name in zeros.columns)
    proper = list(zeros.cells) == sorted(set(zeros.cells)) and all(0 <= cell < every for cell in zeros.cells)
    require(proper and 0 < len(zeros.cells) < every, f"{zeros.reference} lists what is no cell, or every cell")
