"""What a plan says of its workloads, exact tables and impossible combinations, held against the rest a second time.

No sensitivity depends on impossible combinations, for they are left out row by row (``catalog.aggregate.Grouping``);
but who reads a table must be told the same of it as the engine does, and no cell may be missing that a combination does
not stand for. What is published exactly are counts of rows in public cells, and nothing else.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Zeros
from dprelease.plan.document import Invariant, Measured, PlannedQuery, ReleasePlan, Step, Workload
from dprelease.plan.verify.accuracy import covers, figure, worst_variances
from dprelease.plan.verify.factor import half_width
from dprelease.plan.verify.loss import cost_within
from dprelease.plan.verify.reach import counts_as_said, require
from dprelease.plan.verify.series.errors_over_periods import check_table_of_series
from dprelease.plan.verify.tables import covers_together

__all__ = ["check_invariants", "check_workloads", "check_zeros", "feeds_of_workloads"]

_TOLERANCE = 1e-9


def feeds_of_workloads(plan: ReleasePlan) -> set[tuple[str, str, str]]:
    """(workload, measure, step) for every draw of every workload: what its steps must say that they answer."""
    exact = {each.id for each in plan.invariants}
    takes = ((each, take.step) for each in plan.workloads for take in each.takes)
    return {(each.name, each.measure, step) for each, step in takes if step not in exact}


def check_workloads(plan: ReleasePlan) -> None:
    """Every table and every draw of a workload is what its name says, and every goal is met.

    Raises:
        BrokenPromiseError: If one is not.
    """
    named = [table for each in plan.workloads for table in each.tables]
    require(len(set(named)) == len(named), "two workloads publish one table")
    tables = {query.name: query for query in plan.queries if query.workload is not None}
    require(set(tables) == set(named), "a table belongs to no workload, or is not published")
    steps: dict[str, Measured] = {each.id: each for each in plan.measured}
    for workload in plan.workloads:
        _check_tables(workload, tables)
        _check_tree(plan, workload)
        for take in workload.takes:
            require(take.step in steps, f"{workload.name} needs a step that is not there")
            _check_take(workload, take.level, take.axes, steps[take.step], tables[workload.tables[0]])
            for name in workload.tables:
                measure = tables[name].measures[workload.measure]
                alike = counts_as_said(plan, steps[take.step], measure)
                require(alike, f"{take.step} counts rows more or less often than {name}")
        _check_goal(plan, workload)


def _check_tables(workload: Workload, tables: dict[str, PlannedQuery]) -> None:
    count = max(1, len(workload.levels)) * len(workload.sets)
    require(len(workload.tables) == count, f"{workload.name} has another number of tables than sets and levels")
    first = tables[workload.tables[0]]
    for name in workload.tables:
        query = tables[name]
        level, axes = workload.place(name)
        whole = {"count": "rows", "where": None}
        facts = {label: measure.model_dump(exclude={"weighted"}) for label, measure in query.measures.items()}
        plain = list(facts) == [workload.measure] and facts[workload.measure] == whole
        require(plain and not any(query.inputs.values()), f"{name} is no table of counts of a workload")
        require(query.workload == workload.name, f"{name} belongs to another workload")
        require(query.by == workload.columns(level, axes), f"{name} has other columns than its place says")
        rows = (query.table, query.where, query.complete, query.zeros) == (
            first.table,
            first.where,
            first.complete,
            first.zeros,
        )
        require(rows and query.table == workload.table, f"{name} counts other rows than its workload")
        limits = (query.max_groups, query.max_rows_per_group, query.selection, query.ranking)
        require(
            not any((*limits, query.min_units)) and not query.private,
            f"{name} has bounds or keys that a workload cannot have",
        )
    needed = {*workload.attributes, *workload.levels}
    require(set(first.complete) == needed, f"{workload.name} counts rows that are in some of its tables only")


def _check_tree(plan: ReleasePlan, workload: Workload) -> None:
    """Every node of a level has one parent in the level above."""
    if workload.hierarchy is None:
        require(not workload.levels, f"{workload.name} has levels of no hierarchy")
        return
    hierarchy, table = plan.catalog.hierarchies[workload.hierarchy], plan.catalog.tables[workload.table]
    require(hierarchy.levels == workload.levels, f"{workload.name} has other levels than its hierarchy")
    sizes = [len(table.column(name).keys or ()) for name in workload.levels]
    require(len(hierarchy.parents) == len(sizes) - 1, f"{hierarchy.name} has levels without parents")
    for above, size, parents in zip(sizes, sizes[1:], hierarchy.parents, strict=False):
        proper = len(parents) == size and set(parents) == set(range(above))
        require(proper, f"{hierarchy.name} has a node without a parent, or one without children")


def _check_take(workload: Workload, level: int, axes: tuple[int, ...], step: Measured, table: PlannedQuery) -> None:
    grouping = step.aggregate
    together = isinstance(step, Step) and bool(step.tables)
    require(
        together or grouping.by == workload.columns(level, axes), f"{step.id} counts other cells than its place says"
    )
    same = (grouping.table, grouping.where, grouping.complete, grouping.zeros) == (
        table.table,
        table.where,
        table.complete,
        table.zeros,
    )
    require(same, f"{step.id} counts other rows than its workload")
    limits = (grouping.max_groups, grouping.max_rows_per_group, grouping.excluding, grouping.min_units)
    require(not any(limits) and not grouping.private, f"{step.id} has bounds or keys that a workload cannot have")
    rows = Quantity(kind="rows", weight=step.aggregate.quantity.weight)
    require(step.aggregate.quantity == rows, f"{step.id} counts something else than rows")
    if isinstance(step, Invariant):
        return
    if step.tables:
        _check_together(workload, level, axes, step)
        return
    plain = step.mechanism == "discrete_laplace" and step.residual is None
    drawn = (plain or step.mechanism == "discrete_gaussian") and not step.joined and step.factor is None
    require(drawn, f"{step.id} is no draw of a workload")
    if step.residual is not None:
        last = tuple(range(len(grouping.by) - len(axes), len(grouping.by)))
        whole = step.residual.axes == () and step.common is not None  # a table that is drawn on a fine lattice
        require(whole or (step.residual.axes == last and bool(axes)), f"{step.id} is the residual of other attributes")


def _check_together(workload: Workload, level: int, axes: tuple[int, ...], step: Step) -> None:
    """One draw says the total and every residual of its tables, which have no attribute in common, and nothing else."""
    require(level == 0 and not workload.levels, f"{step.id} is drawn over tables of several levels")
    tables = [tuple(workload.attributes.index(name) for name in table.by) for table in step.tables]
    used = [at for table in tables for at in table]
    require(len(used) == len(set(used)), f"{step.id} is drawn over tables with a common attribute")
    known = [()] + [b for table in tables for size in range(1, len(table) + 1) for b in combinations(table, size)]
    taken = [take.axes for take in workload.takes]
    require(
        all(take.step == step.id for take in workload.takes), f"{workload.name} has draws beside that of its tables"
    )
    require(sorted(taken) == sorted(known) and axes in known, f"{step.id} is taken for other residuals than it has")
    published = {axes for axes in workload.sets if axes}
    require(published <= set(tables), f"{workload.name} publishes a table that is not drawn")


def _check_goal(plan: ReleasePlan, workload: Workload) -> None:
    steps: dict[str, Measured] = {each.id: each for each in plan.measured}
    ids = dict.fromkeys(take.step for take in workload.takes)
    own = [step for name in ids if isinstance(step := steps[name], Step)]
    alone = all(answer.query == workload.name for step in own for answer in step.answers)
    require(alone, f"{workload.name} shares a step")
    budget = workload.goal.budget
    if budget is not None:
        require(budget.delta == plan.budget.delta, f"{workload.name} reads its budget at another delta")
        within = cost_within(own, budget, plan.budget.delta, plan.accounting)
        require(within, f"{workload.name} costs more than its own budget")
    found = worst_variances(workload, plan.catalog, steps)
    require(all(map(math.isfinite, found.values())), f"{workload.name} draws too little for its tables")
    kinds = {step.mechanism for step in own}
    require(len(kinds) == 1, f"{workload.name} has draws of two kinds of noise")
    laplace = kinds != {"discrete_gaussian"}
    reach = half_width(plan, min(steps[take.step].scale for take in workload.takes if steps[take.step].scale))
    told = {output.query: output for output in plan.outputs}
    shared = {query.name: query for query in plan.queries if query.series is not None}
    for name in workload.tables:
        error = math.sqrt(found[workload.place(name)])
        require(name in told, f"{name} has no accuracy")
        if name in shared:
            check_table_of_series(plan, shared[name], found[workload.place(name)], workload.goal.targets)
            continue
        require(
            told[name].steps == tuple(dict.fromkeys(take.step for take in workload.takes)),
            f"{name} is told of other steps",
        )
        enough = figure(told[name].standard_error, name) >= Fraction(error * (1 - _TOLERANCE))
        margin = figure(told[name].margin, name)
        if laplace:
            ratio, alpha = float(margin) / error if error else math.inf, float(1 - plan.publish.confidence)
            wide = (
                covers_together(workload, plan.catalog, own[0], name, margin, alpha)
                if own[0].tables
                else covers(workload, plan.catalog, steps, workload.place(name)[1], ratio, alpha)
            )
        else:
            wide = margin >= Fraction(reach * error * (1 - _TOLERANCE))
        require(enough and wide, f"{name} is told to be more accurate than it is")
        least = margin if laplace else Fraction(reach * error * (1 - _TOLERANCE))
        for label, target in workload.goal.targets.items():
            met = label == workload.measure and least <= target
            require(met, f"{name} misses its target")


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


def check_invariants(plan: ReleasePlan) -> None:
    """Nothing but the one count of a query of its own is exact, and it is a count of rows that every cell has.

    Raises:
        BrokenPromiseError: If one is anything else.
    """
    if not plan.invariants:
        return
    require(bool(plan.steps), "everything is published exactly")
    paying = {plan.catalog.tables[step.aggregate.table].account for step in plan.steps}
    names = [each.query for each in plan.invariants]
    require(len(set(names)) == len(names), "two invariants are one query")
    for each in plan.invariants:
        _check_invariant(plan, each)
        account = plan.catalog.tables[each.aggregate.table].account
        require(account in paying, f"{each.id} is of an account that is charged for nothing")
    exact = {each.id for each in plan.invariants}
    for workload in plan.workloads:
        known = [take for take in workload.takes if take.step in exact]
        require(len(known) < len(workload.takes), f"{workload.name} draws nothing")
        # What is done after the noise keeps one exact table, with all that are sums of it; consistency keeps any.
        sums = (all(a.level <= b.level and {*a.axes} <= {*b.axes} for a in known) for b in known)
        kept = set(workload.post) <= {"consistent"} or not known or any(sums)
        require(kept, f"{workload.name} changes what is exact")


def _check_invariant(plan: ReleasePlan, invariant: Invariant) -> None:
    grouping, table = invariant.aggregate, plan.catalog.tables[invariant.aggregate.table]
    require(bool(invariant.why.strip()), f"{invariant.id} does not say why")
    require(grouping.quantity == Quantity(kind="rows"), f"{invariant.id} is no count of rows")
    require(table.unit_id is None, f"{invariant.id} counts rows of units that may have several")
    limits = (grouping.max_groups, grouping.max_rows_per_group, grouping.excluding, grouping.min_units)
    require(not any(limits) and not grouping.private, f"{invariant.id} has bounds, or keys that are not public")
    cells = math.prod(len(table.column(name).keys or ()) for name in grouping.by)
    require(invariant.cells == cells > 0, f"{invariant.id} has another number of cells")
    found = [query for query in plan.queries if query.name == invariant.query]
    require(len(found) == 1, f"{invariant.id} is no published table")
    (query,) = found
    facts = {label: measure.model_dump() for label, measure in query.measures.items()}
    only = facts == {invariant.measure: {"count": "rows", "where": None}}
    fed = [feed.model_dump() for feed in query.inputs.get(invariant.measure, ())]
    own = only and query.workload is None and fed == [{"step": invariant.id, "part": 0}]
    require(own, f"{invariant.id} is not the only number of its table")
    require(query.grouping == invariant.aggregate.grouping, f"{invariant.id} counts other rows than its table")
    asked = query.goal.budget, query.goal.targets, query.suppress_below, query.ranking, query.selection
    require(not any(asked), f"{invariant.id} is exact, and something is asked of its noise")
