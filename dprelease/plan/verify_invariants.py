"""What a plan publishes exactly, held against what may be: counts of rows in public cells, and nothing else."""

from __future__ import annotations

import math

from dprelease.catalog.aggregate import Quantity
from dprelease.plan.document import Invariant, ReleasePlan
from dprelease.plan.verify_reach import require

__all__ = ["check_invariants"]


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
        _check(plan, each)
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


def _check(plan: ReleasePlan, invariant: Invariant) -> None:
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
