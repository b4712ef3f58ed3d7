"""What was measured of a workload, as the estimators take it: sizes, tree and the variance of every draw."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Catalog, Table
from dprelease.estimate.workloads.design import Design, Floats, StructuralZeros, Tree, WorkloadDraw
from dprelease.plan.design.workload_joint import table_with, variance_of_take
from dprelease.plan.document.invariant import Invariant, Measured
from dprelease.plan.document.workload import Take, Workload

__all__ = ["axes_of", "design_of", "lattice", "numbers_of_take", "tree_of", "zeros_in"]

Numbers = npt.NDArray[np.int64] | Floats


def tree_of(catalog: Catalog, hierarchy: str | None, levels: tuple[str, ...], table: Table) -> Tree:
    """The levels of a workload as a tree of nodes; one node where there are none."""
    if hierarchy is None:
        return Tree.flat()
    parents = catalog.hierarchies[hierarchy].parents
    return Tree(
        roots=table.column(levels[0]).cells, parents=tuple(np.asarray(each, dtype=np.int64) for each in parents)
    )


def zeros_in(catalog: Catalog, workload: str, attributes: tuple[str, ...]) -> StructuralZeros | None:
    """The impossible combinations of a workload of that name, by the positions of its attributes; None: it has none."""
    found = catalog.zeros.get(workload)
    return (
        None if found is None else StructuralZeros(tuple(attributes.index(name) for name in found.columns), found.cells)
    )


def lattice(step: Measured) -> int:
    """The divisor that turns a step's integers into row counts: 1 for a plain table of counts."""
    return 1 if isinstance(step, Invariant) or step.residual is None else step.residual.divisor


def axes_of(step: Measured, workload: Workload) -> tuple[tuple[int, ...], ...]:
    """The attributes of each table of a joint draw over tables, as positions; nothing for every other draw."""
    if isinstance(step, Invariant):
        return ()
    return tuple(tuple(workload.attributes.index(name) for name in table.by) for table in step.tables)


def numbers_of_take(workload: Workload, take: Take, step: Measured, values: Numbers, design: Design) -> Floats:
    """What a measurement says of one take, in counts, shape ``(nodes, *keys)``.

    Args:
        workload: The workload of the plan.
        take: One of its takes.
        step: The draw of that take.
        values: All numbers of the step.
        design: The design of the workload.
    """
    tables = axes_of(step, workload)
    if isinstance(step, Invariant) or not tables:
        each: Floats = values / float(lattice(step))
        return each.reshape(design.shape(take.level, take.axes))
    at = table_with(take.axes, tables)
    first = sum(table.cells for table in step.tables[:at])
    own = values[first : first + step.tables[at].cells].reshape([design.sizes[axis] for axis in tables[at]])
    others = tuple(place for place, axis in enumerate(tables[at]) if axis not in take.axes)
    added: Floats = own.astype(np.float64).sum(axis=others)
    return added.reshape(design.shape(take.level, take.axes))


def _noise(step: Measured) -> float:
    """The variance of one number of a draw, in counts squared."""
    if not isinstance(step, Invariant) and step.mechanism == "discrete_laplace":
        return step.law.variance
    return (float(step.scale) / lattice(step)) ** 2


def design_of(workload: Workload, catalog: Catalog, steps: Mapping[str, Measured]) -> Design:
    """The design of a workload.

    The variance of a Gaussian draw is said to be the square of its scale, which bounds it (Canonne, Kamath and Steinke
    2020, Corollary 9); from scale 1 on it is that, but for 10^-7. That of a discrete Laplace draw is the one of its
    law. An invariant has none. A joint draw over tables has one take for its total, and one for each residual.

    Args:
        workload: The workload of the plan.
        catalog: The catalog of the same plan.
        steps: By id.
    """
    table = catalog.tables[workload.table]
    taken = []
    sizes = tuple(table.column(column).cells for column in workload.attributes)
    for take in workload.takes:
        step = steps[take.step]
        tables = axes_of(step, workload)
        if tables and not isinstance(step, Invariant):
            variance = variance_of_take(step.law, take.axes, tables, sizes)
            taken.append(WorkloadDraw(take.level, take.axes, bool(take.axes), variance))
            continue
        residual = not isinstance(step, Invariant) and step.residual is not None and bool(step.residual.axes)
        taken.append(WorkloadDraw(take.level, take.axes, residual, _noise(step)))
    return Design(
        sizes=sizes,
        tree=tree_of(catalog, workload.hierarchy, workload.levels, table),
        sets=workload.sets,
        taken=tuple(taken),
        zeros=zeros_in(catalog, workload.name, workload.attributes),
    )
