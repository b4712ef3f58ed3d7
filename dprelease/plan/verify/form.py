"""Whether a plan hangs together: every name in it is of something that is there, and every position of something.

A plan that was made by hand, or changed, is told what is wrong with it here, before anything else looks a name up. What
is asked costs no arithmetic, and says nothing of sensitivity, noise or loss yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.expressions.expression import parse
from dprelease.catalog.table import Column, Table
from dprelease.estimate.figures import COMPARED, STATES
from dprelease.plan.document import PlannedQuery, ReleasePlan, Workload
from dprelease.plan.verify.clips.chosen import check_chosen_grid
from dprelease.plan.verify.mathematics.truth import outcomes
from dprelease.plan.verify.reach import require

__all__ = ["check_claim", "check_form"]

_POST = (
    ("consistent",),
    ("consistent", "nonnegative"),
    ("consistent", "integer"),
    ("consistent", "nonnegative", "integer"),
)


def check_form(plan: ReleasePlan) -> None:
    """Refuse a plan that names what it does not have, or has something twice that is there once.

    Raises:
        BrokenPromiseError: Saying what.
    """
    _check_catalog(plan)
    _once([account.name for account in plan.accounts], "accounts of the name")
    require(0 < plan.publish.confidence < 1, "it shows intervals of a confidence that is none")
    limit = plan.publish.unreliable_above
    require(limit is None or limit > 0, "it calls numbers unreliable by a limit that is none")
    _check_figures(plan)
    names = [query.name for query in plan.queries]
    _once([*names, *(each.name for each in plan.derive)], "tables of the name")
    _once([each.name for each in plan.workloads], "workloads of the name")
    for query in plan.queries:
        _check_grouping(plan, query.name, query)
        _check_suppressed(plan, query)
        require(all(guess > 0 for guess in query.expect.values()), f"{query.name} expects cells of no rows")
        for label, measure in query.measures.items():
            require(not measure.broken, f"{query.name}.{label} {measure.broken}")
            if plan.catalog.tables[query.table].weight is not None and not measure.others:
                known = measure.weighs and (measure.target != "units" or measure.weighted is False)
                told = f"{query.name}.{label} is of a table with weights, and does not say that it has none"
                require(known or measure.weighted is False, told)
            if measure.claim is not None:
                check_claim(f"{query.name}.{label}", *measure.claim, plan.catalog.tables[query.table])
    for each in plan.measured:
        _check_grouping(plan, each.id, each.aggregate)
        _once(list(each.answers), f"answers of {each.id} that are")
        for part in each.parts:
            _check_quantity(each.id, part, plan.catalog.tables[each.aggregate.table])
    for workload in plan.workloads:
        _check_workload(plan, workload)


def _check_figures(plan: ReleasePlan) -> None:
    """How numbers are shown: limits that are some, a sign for each state, and bases of what there is."""
    figures = plan.publish.figures
    if figures is None:
        return
    require(figures.caution_above is None or figures.caution_above > 0, "it asks for care by a limit that is none")
    shares = figures.shares
    sound = shares is None or (0 <= shares.narrow <= shares.wide and shares.relative > 0)
    require(sound, "it judges shares by limits that are none")
    signed = set(figures.symbols) | set(COMPARED) == set(STATES) and all(
        each.strip() for each in figures.symbols.values()
    )
    require(signed, "it has not one sign for each state of a number")
    measures = {query.name: query.measures for query in plan.queries}
    compared = {query.name: query.compare for query in plan.queries}
    for name, bases in figures.bases.items():
        for label, base in bases.items():
            there = label in measures.get(name, {}) or label in compared.get(name, {})
            require(there, f"it rounds {name}.{label}, which it does not have")
            whole = base.denominator == 1 or label in compared[name] or not measures[name][label].is_count
            require(whole, f"it rounds {name}.{label}, a count, to what is not whole")
            decimal = base > 0 and (base * 10**9).denominator == 1
            require(decimal, f"it rounds {name}.{label} to multiples of what is no decimal")


def _once(names: Sequence[Hashable], what: str) -> None:
    for name, often in Counter(names).items():
        require(often == 1, f"it has several {what} {name}")


def _check_catalog(plan: ReleasePlan) -> None:
    catalog = plan.catalog
    named = [(name, table.name) for name, table in catalog.tables.items()]
    named += [(name, reference.name) for name, reference in catalog.references.items()]
    named += [(name, hierarchy.name) for name, hierarchy in catalog.hierarchies.items()]
    for name, own in named:
        require(name == own, f"{name} is another one's description in its catalog")
    for table in catalog.tables.values():
        _once([column.name for column in table.columns], f"columns in {table.name} of the name")
        for column in table.columns:
            _check_column(f"{table.name}.{column.name}", column)
        _check_weight(table)
        for join in table.joins:
            require(join.reference in catalog.references, f"{table.name} joins a reference that is not there")
        for private in table.private_joins:
            require(private.table in catalog.tables, f"{table.name} joins a table that is not there")


def _check_column(name: str, column: Column) -> None:
    """A row has one key: two keys with one text would both count it, and its unit would move more than is claimed."""
    keys = [str(key) for key in column.keys or ()]
    require(len(set(keys)) == len(keys), f"{name} has one key twice")
    ends = column.range
    require(ends is None or ends.low <= ends.high, f"{name} has a range that ends before it begins")
    require(all(column.grid_of(kind) > 0 for kind in ("sum", "quantile")), f"{name} has a grid without a step")


def _check_suppressed(plan: ReleasePlan, query: PlannedQuery) -> None:
    """What withholds a row is no number of weighted records."""
    if query.suppress_below is None or plan.catalog.tables[query.table].weight is None:
        return
    measure = query.measures.get(query.suppress_below[0])
    parts = () if measure is None else measure.made_of
    require(all(part.weighted is False for part in parts), f"{query.name} withholds rows by a weighted number")


def _check_weight(table: Table) -> None:
    """Weights are whole steps of a number of the table, and their model of the sample is one."""
    weight = table.weight
    if weight is None:
        return
    column = table.named.get(weight.column)
    number = column is not None and column.type in ("integer", "decimal") and column.grid_of("sum") == weight.step
    require(number and weight.clip >= 1, f"{table.name} has weights of what is no number on their grid")


def _check_grouping(plan: ReleasePlan, name: str, grouping: Grouping) -> None:
    require(grouping.table in plan.catalog.tables, f"{name} reads a table that is not there")
    table = plan.catalog.tables[grouping.table]
    columns = table.named
    require(len(set(grouping.by)) == len(grouping.by), f"{name} has a key column twice")
    for key in grouping.by:
        require(key in columns, f"{name} has cells of a column that is not there")
        require(grouping.private or bool(columns[key].keys), f"{name} has cells of a column without public keys")
    for needed in grouping.complete:
        known = needed in columns and bool(columns[needed].keys)
        require(known, f"{name} asks for a key in a column without public keys")
    left = grouping.excluding
    there = left is None or left in plan.catalog.exclusions or left in plan.catalog.zeros
    there = there and (grouping.zeros is None or grouping.zeros in plan.catalog.zeros)
    require(there, f"{name} leaves out cells that are not there")


def _check_quantity(name: str, quantity: Quantity, table: Table) -> None:
    known = quantity.column is None or quantity.column in table.named
    require(known or quantity.column == table.unit_id, f"{name} measures a column that is not there")
    needed = quantity.kind not in ("rows", "units")
    counts = quantity.kind in ("balance", "rest") and quantity.where is not None  # of rows that do not pass it, too
    there = needed == (quantity.column is not None)
    require(there or counts, f"{name} measures a column that is not there")
    if quantity.kind not in ("sum", "square", "quantile"):
        kept = {each: getattr(quantity, each) for each in ("kind", "column", "where", "per", "weight")}
        require(quantity == Quantity(**kept), f"{name} clips what it counts")
    require(quantity.low <= quantity.high, f"{name} clips to nothing")
    require(quantity.step > 0, f"{name} has a grid without a step")
    classes = quantity.kind == "quantile" and quantity.at is None
    require(classes or not quantity.starts, f"{name} has classes of values and counts none")
    chosen = quantity.chosen is None or quantity.kind in ("sum", "quantile")
    require(chosen, f"{name} has a clip that noise chooses, and is no sum")
    if quantity.kind in ("sum", "square", "quantile"):
        _check_grid(name, quantity, table.column(str(quantity.column)))


def _check_grid(name: str, quantity: Quantity, column: Column) -> None:
    """Values are rounded on the grids of their column alone; one that nobody wrote is as fine as it is said to be."""
    if quantity.chosen is not None:
        check_chosen_grid(name, quantity, column)
        return
    require(quantity.step == column.grid_of(quantity.kind), f"{name} rounds to another grid than its column has")
    width = (quantity.high - quantity.low) * quantity.step
    fine = column.step_from != "limits" or column.type != "decimal" or 1000 * quantity.step <= width
    require(fine, f"{name} rounds to a grid that nobody wrote, and that is over a thousandth of its clip")


def _check_workload(plan: ReleasePlan, workload: Workload) -> None:
    name = workload.name
    require(workload.table in plan.catalog.tables, f"{name} reads a table that is not there")
    table = plan.catalog.tables[workload.table]
    columns = [*workload.levels, *workload.attributes]
    require(len(set(columns)) == len(columns), f"{name} has an attribute or a level twice")
    keyed = {column.name for column in table.columns if column.keys}
    require(set(columns) <= keyed, f"{name} has an attribute or a level without public keys")
    known = workload.hierarchy is None or workload.hierarchy in plan.catalog.hierarchies
    require(
        known and (workload.hierarchy is None or bool(workload.levels)), f"{name} has a hierarchy that is not there"
    )
    require(bool(workload.sets), f"{name} publishes nothing")
    _once(list(workload.sets), f"tables of {name} of the attributes")
    used = {at for axes in workload.sets for at in axes}
    require(
        used == set(range(len(workload.attributes))), f"{name} has attributes in none of its tables, or no such one"
    )
    together = {step.id for step in plan.steps if step.tables}  # of such a draw the total and residuals are taken
    _once([take.step for take in workload.takes if take.step not in together], f"times for {name} the draw")
    for axes in (*workload.sets, *(take.axes for take in workload.takes)):
        require(_rising(axes, len(workload.attributes)), f"{name} has a table of attributes that are not there")
    for take in workload.takes:
        require(take.level < max(1, len(workload.levels)), f"{name} has a draw at a level that is not there")
    require(workload.post in _POST, f"{name} is made in steps that are no order of work")
    joint = any(set(axes) == used for axes in workload.sets)
    require(joint or workload.post == _POST[0], f"{name} has no joint table that its others could be sums of")


def _rising(axes: Collection[int], size: int) -> bool:
    return list(axes) == sorted(set(axes)) and all(0 <= at < size for at in axes)


def check_claim(name: str, where: str | None, column: str | None, table: Table) -> None:
    """Refuse a measure that says its condition implies a value where it does not.

    Args:
        name: The query's name and the measure's.
        where: The condition.
        column: The column that is said to have a value wherever the condition is true.
        table: The table of both.

    Raises:
        BrokenPromiseError: Saying of what.
    """
    columns = {each.name: each.type for each in table.columns}
    require(where is not None and column in columns, f"{name} is said to be a part of a whole, and is none")
    root = parse(where or "", columns).root
    require("true" not in outcomes(root, str(column)), f"{name} counts rows above that need not be counted below")
