"""Sentences on what happens before, beside and after the noise: rows read, keys chosen, tables reconciled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from fractions import Fraction

from dprelease.catalog.table import Binned, Computed, Mapped, PrivateJoin, Table, Zeros
from dprelease.measures.text import exact_text
from dprelease.plan.document import PlannedQuery, PlannedTotals, ReleasePlan, Step, Workload
from dprelease.publish.numbers import at_most, so_many

__all__ = ["after_choices", "how_read", "reconciled", "selections"]

_NONNEGATIVE = (
    "no number of it is below zero: its tables are the nearest ones to the reconciled ones that keep the totals of "
    "every level, where distance counts what is known well for more. Small counts come out too large and large ones "
    "too small by that; margins do not cover it, and the estimates without it follow from the noisy measurements "
    "beside the tables."
)
_WHOLE = (
    "its numbers were rounded to whole ones that still add up, up or down by chance, each by less than one where it "
    "was rounded; tables of fewer keys are sums of rounded ones."
)


def how_read(plan: ReleasePlan) -> tuple[str, ...]:
    """Times, units, bounds, joins, computed columns and conditions, in the order in which they act."""
    used = dict.fromkeys(query.table for query in plan.queries)
    read = dict.fromkeys([*used, *(join.table for name in used for join in plan.catalog.tables[name].private_joins)])
    found = [line for name in read for line in _timed(plan.catalog.tables[name], plan.release.period)]
    found += [line for name in used for line in _table(plan.catalog.tables[name], str(plan.unit))]
    return (*found, *(line for query in plan.queries for line in _query(query)))


def _timed(table: Table, period: str) -> Iterator[str]:
    if table.time is None:
        return
    first, last = table.time.start, table.time.end - timedelta(days=1)
    days = f"on {first}" if first == last else f"from {first} to {last}"
    utc = ", in UTC" if table.time.type == "timestamp" else ""
    yield (
        f"{table.name}: only rows of {period} by {table.time.column} are read: {days}{utc}; a row without a time that "
        "can be read belongs to no period."
    )


def _table(table: Table, unit: str) -> Iterator[str]:
    if table.unit_id is not None:
        null = "is left out" if table.null_id == "drop" else f"counts as a {unit} of its own"
        yield f"{table.name}: rows with the same {table.unit_id} are one {unit}; a row without one {null}."
    if table.weight is not None:
        step, heaviest = exact_text(table.weight.step), exact_text(table.weight.row.in_units)
        yield (
            f"{table.name}: a row counts as often as its {table.weight.column} says, rounded to a multiple of {step}, "
            f"and at most {heaviest} times; one whose weight is missing, no number or below 0 counts as 0."
        )
    for join in table.private_joins:
        yield _joined(table, join, unit)
    for column in table.columns:
        if isinstance(column.derivation, Binned):
            yield f"{table.name}: {column.name} is the interval that {column.derivation.of} lies in."
        elif isinstance(column.derivation, Mapped):
            yield f"{table.name}: {column.name} is a public recoding of {column.derivation.of}."
        elif isinstance(column.derivation, Computed):
            yield f"{table.name}: {column.name} is computed row by row: {column.derivation.sql}."
    if table.bounds is not None:
        kept = {
            "sample": "a random sample of them, by a secret key,",
            "first": f"the first by {', '.join(table.bounds.order_by)}",
            "last": f"the last by {', '.join(table.bounds.order_by)}",
        }[table.bounds.truncate]
        most = table.bounds.max_rows
        yield f"{table.name}: of one {unit} at most {so_many(most, 'row')} count; of more, {kept} stay."


def _joined(table: Table, join: PrivateJoin, unit: str) -> str:
    most = so_many(join.max_matches, "row")
    return f"{table.name}: each row is joined with at most {most} of {join.table} of the same {unit}."


def _query(query: PlannedQuery) -> Iterator[str]:
    if query.where is not None:
        yield f"{query.name}: only rows where {query.where}."
    bounds = []
    if query.max_groups is not None:
        bounds.append(f"in at most {so_many(query.max_groups, 'cell')}")
    if query.max_rows_per_group is not None:
        bounds.append(f"with at most {so_many(query.max_rows_per_group, 'row')} in each")
    if bounds:
        yield f"{query.name}: one unit counts {' and '.join(bounds)}; which ones is decided by a secret key."


def selections(plan: ReleasePlan) -> tuple[str, ...]:
    """For every query with private keys: how noise decides which of them appear, and which are likely missing."""
    return tuple(
        line
        for query in plan.queries
        if query.selection is not None
        for line in _selection(query, plan.step(query.selection))
    )


def _selection(query: PlannedQuery, step: Step) -> Iterator[str]:
    if step.selecting is None:
        return
    threshold, delta = step.selecting.threshold, step.selecting.delta
    if step.mechanism == "optimal_selection":
        each = (1 / step.scale, delta / step.sensitivity.l0)
        yield (
            f"{query.name}: which keys appear is decided by a coin for each key that occurs, as biased towards keys of "
            f"many units as ε = {at_most(each[0], 4)} and δ = {at_most(each[1], 4)} for each key allow; a key of "
            f"{threshold:,} units appears as likely as not, one that one unit alone has with probability "
            f"{at_most(each[1] if not step.selecting.left_out else Fraction(0), 4)}."
        )
        return
    yield (
        f"{query.name}: which keys appear is decided by noise. A key appears where the number of units that have it, "
        f"plus noise, is at least {threshold:,}; the noisy number itself is not published."
    )
    yield (
        f"{query.name}: the probability that any key appears which one unit alone has is at most δ = "
        f"{at_most(delta)}; it is part of the loss."
    )
    reach = step.law.margin(Fraction(9, 10))  # both tails together: 5 % in each, for the noise is symmetric
    few, many = threshold - reach - 1, threshold + reach
    low = f"one with {few:,} or fewer units appears in at most 5 % of cases, " if few >= 1 else ""
    yield (
        f"{query.name}: a key with exactly {threshold:,} units appears in about half of all cases, {low}"
        f"and one with {many:,} or more is missing in at most 5 %."
    )


def after_choices(plan: ReleasePlan) -> Iterator[str]:
    """What is done after the noise with lists, suppressed rows and derived tables."""
    if any(query.ranking is not None for query in plan.queries):
        yield "A list of the most frequent keys has no numbers: the order itself is what noise decided."
    for query in plan.queries:
        if query.suppress_below is not None:
            name, limit = query.suppress_below
            yield f"{query.name}: rows whose noisy {name} is below {exact_text(limit)}, or unknown, were made blank."
    if plan.derive:
        yield "Derived tables were made of the published numbers; their margins come from 1,000 further draws of noise."


def reconciled(plan: ReleasePlan) -> Iterator[str]:
    """For every workload, and every query with totals, how the tables came about; nothing where a plan has none."""
    for query in plan.queries:
        if query.totals is not None:
            yield from _totals(query, query.totals)
    exact = {each.id: f"{each.query}.{each.measure}" for each in plan.invariants}
    for workload in plan.workloads:
        yield from _reconciled(workload, exact, plan.catalog.zeros.get(workload.name))


def _totals(query: PlannedQuery, totals: PlannedTotals) -> Iterator[str]:
    """How the numbers of a query came to add up."""
    name = query.name
    yield f"{name}: a row counts where {' and '.join(query.by)} have a key, in its cell and in the totals above it."
    lists = [", ".join(table.by) or "the whole table" for table in totals.drawn]
    if not lists:
        yield f"{name}: totals were added up from the noisy cells, and have the noise of all of them."
        return
    yield (
        f"{name}: beside the cells these totals were drawn: by {'; by '.join(lists)}. Cells and totals were then made "
        "of all draws together, by least squares: of all unbiased estimates that are sums of the noisy numbers, these "
        "have the least variance, and every total is the sum of its cells. Means and ratios are made of such sums."
    )


def _reconciled(workload: Workload, exact: Mapping[str, str], zeros: Zeros | None) -> Iterator[str]:
    tables, known = len(workload.tables), [exact[take.step] for take in workload.takes if take.step in exact]
    draws = len({take.step for take in workload.takes}) - len(known)
    levels = f" on the levels {', '.join(workload.levels)}" if workload.levels else ""
    yield (
        f"{workload.name}: {tables:,} tables{levels} were made of {draws:,} draws together, by least squares: of all "
        "unbiased estimates that are sums of the noisy numbers, these have the least variance, and all tables agree "
        "with one another wherever they say the same."
    )
    if known:
        yield (
            f"{workload.name}: these exact numbers are among what its tables were made of, and stand in them as they "
            f"are: {', '.join(known)}."
        )
    if workload.levels:
        yield f"{workload.name}: a row counts where all of its attributes and its {workload.levels[-1]} have a key."
    else:
        yield f"{workload.name}: a row counts where all of its attributes have a key."
    if zeros is not None:
        yield (
            f"{workload.name}: a row with a combination of {' and '.join(zeros.columns)} that {zeros.reference} "
            f"declares impossible ({len(zeros.cells):,} of them) counts in none of its tables. That these numbers are "
            "0 was taken as known: the estimates are the best ones given it, and numbers beside them are more accurate "
            "than the others of their table."
        )
    if "nonnegative" in workload.post:
        yield f"{workload.name}: {_NONNEGATIVE}"
    if "integer" in workload.post:
        yield f"{workload.name}: {_WHOLE}"
