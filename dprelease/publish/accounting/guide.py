"""Sentences on what happens before, beside and after the noise: rows read, keys chosen, tables reconciled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from fractions import Fraction

from dprelease.catalog.table import Binned, Computed, Mapped, PrivateJoin, Table, Zeros
from dprelease.measures.text import exact_text
from dprelease.plan.document import PlannedQuery, PlannedTotals, ReleasePlan, Step, Workload
from dprelease.publish.numbers import at_most, so_many
from dprelease.words import amount, marked, number_written, phrase

__all__ = ["after_choices", "how_read", "reconciled", "selections"]

_NONNEGATIVE = marked(
    "{name}: no number of it is below zero: its tables are the nearest ones to the reconciled ones that keep the "
    "totals of "
    "every level, where distance counts what is known well for more. Small counts come out too large and large ones "
    "too small by that; margins do not cover it, and the estimates without it follow from the noisy measurements "
    "beside the tables."
)
_WHOLE = marked(
    "{name}: its numbers were rounded to whole ones that still add up, up or down by chance, each by less than one "
    "where it "
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
    days = (
        phrase("on {first}", first=first) if first == last else phrase("from {first} to {last}", first=first, last=last)
    )
    utc = phrase(", in UTC") if table.time.type == "timestamp" else ""
    yield (
        phrase(
            "{name}: only rows of {period} by {column} are read: {days}{utc}; a row without a time that can be read "
            "belongs to no period.",
            name=table.name,
            period=period,
            column=table.time.column,
            days=days,
            utc=utc,
        )
    )


def _table(table: Table, unit: str) -> Iterator[str]:
    if table.unit_id is not None:
        null = phrase("is left out") if table.null_id == "drop" else phrase("counts as a {unit} of its own", unit=unit)
        yield phrase(
            "{name}: rows with the same {unit_id} are one {unit}; a row without one {null}.",
            name=table.name,
            unit_id=table.unit_id,
            unit=unit,
            null=null,
        )
    if table.weight is not None:
        step, heaviest = exact_text(table.weight.step), exact_text(table.weight.row.in_units)
        yield (
            phrase(
                "{name}: a row counts as often as its {column} says, rounded to a multiple of {step}, and at most "
                "{heaviest} times; one whose weight is missing, no number or below 0 counts as 0.",
                name=table.name,
                column=table.weight.column,
                step=step,
                heaviest=heaviest,
            )
        )
    for join in table.private_joins:
        yield _joined(table, join, unit)
    for column in table.columns:
        if isinstance(column.derivation, Binned):
            yield phrase(
                "{name}: {column} is the interval that {of} lies in.",
                name=table.name,
                column=column.name,
                of=column.derivation.of,
            )
        elif isinstance(column.derivation, Mapped):
            yield phrase(
                "{name}: {column} is a public recoding of {of}.",
                name=table.name,
                column=column.name,
                of=column.derivation.of,
            )
        elif isinstance(column.derivation, Computed):
            yield phrase(
                "{name}: {column} is computed row by row: {sql}.",
                name=table.name,
                column=column.name,
                sql=column.derivation.sql,
            )
    if table.bounds is not None:
        kept = {
            "sample": phrase("a random sample of them, by a secret key,"),
            "first": phrase("the first by {order_by}", order_by=", ".join(table.bounds.order_by)),
            "last": phrase("the last by {order_by}", order_by=", ".join(table.bounds.order_by)),
        }[table.bounds.truncate]
        most = table.bounds.max_rows
        yield phrase(
            "{name}: of one {unit} at most {most} count; of more, {kept} stay.",
            name=table.name,
            unit=unit,
            most=so_many(most, "row"),
            kept=kept,
        )


def _joined(table: Table, join: PrivateJoin, unit: str) -> str:
    most = so_many(join.max_matches, "row")
    return phrase(
        "{name}: each row is joined with at most {most} of {table} of the same {unit}.",
        name=table.name,
        most=most,
        table=join.table,
        unit=unit,
    )


def _query(query: PlannedQuery) -> Iterator[str]:
    if query.where is not None:
        yield phrase("{name}: only rows where {where}.", name=query.name, where=query.where)
    bounds = []
    if query.max_groups is not None:
        bounds.append(phrase("in at most {max_groups}", max_groups=so_many(query.max_groups, "cell")))
    if query.max_rows_per_group is not None:
        bounds.append(
            phrase(
                "with at most {max_rows_per_group} in each", max_rows_per_group=so_many(query.max_rows_per_group, "row")
            )
        )
    if bounds:
        yield phrase(
            "{name}: one unit counts {bounds}; which ones is decided by a secret key.",
            name=query.name,
            bounds=phrase(" and ").join(bounds),
        )


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
            phrase(
                "{name}: which keys appear is decided by a coin for each key that occurs, as biased towards keys of "
                "many units as ε = {epsilon} and δ = {delta} for each key allow; a key of {threshold} units appears as "
                "likely as not, one that one unit alone has with probability {chance}.",
                name=query.name,
                epsilon=at_most(each[0], 4),
                delta=at_most(each[1], 4),
                threshold=amount(threshold),
                chance=at_most(each[1] if not step.selecting.left_out else Fraction(0), 4),
            )
        )
        return
    yield (
        phrase(
            "{name}: which keys appear is decided by noise. A key appears where the number of units that have it, plus "
            "noise, is at least {threshold}; the noisy number itself is not published.",
            name=query.name,
            threshold=amount(threshold),
        )
    )
    yield (
        phrase(
            "{name}: the probability that any key appears which one unit alone has is at most δ = {delta}; it is part "
            "of the loss.",
            name=query.name,
            delta=at_most(delta),
        )
    )
    reach = step.law.margin(Fraction(9, 10))  # both tails together: 5 % in each, for the noise is symmetric
    few, many = threshold - reach - 1, threshold + reach
    low = (
        phrase("one with {few} or fewer units appears in at most 5 % of cases, ", few=number_written(f"{few:,}"))
        if few >= 1
        else ""
    )
    yield (
        phrase(
            "{name}: a key with exactly {threshold} units appears in about half of all cases, {low}and one with {many} "
            "or more is missing in at most 5 %.",
            name=query.name,
            threshold=amount(threshold),
            low=low,
            many=number_written(f"{many:,}"),
        )
    )


def after_choices(plan: ReleasePlan) -> Iterator[str]:
    """What is done after the noise with lists, suppressed rows and derived tables."""
    if any(query.ranking is not None for query in plan.queries):
        yield phrase("A list of the most frequent keys has no numbers: the order itself is what noise decided.")
    for query in plan.queries:
        if query.suppress_below is not None:
            name, limit = query.suppress_below
            yield phrase(
                "{name}: rows whose noisy {measure} is below {limit}, or unknown, were made blank.",
                name=query.name,
                measure=name,
                limit=exact_text(limit),
            )
    if plan.derive:
        yield phrase(
            "Derived tables were made of the published numbers; their margins come from 1,000 further draws of noise."
        )


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
    yield phrase(
        "{name}: a row counts where {by} have a key, in its cell and in the totals above it.",
        name=name,
        by=phrase(" and ").join(query.by),
    )
    lists = [", ".join(table.by) or phrase("the whole table") for table in totals.drawn]
    if not lists:
        yield phrase("{name}: totals were added up from the noisy cells, and have the noise of all of them.", name=name)
        return
    yield (
        phrase(
            "{name}: beside the cells these totals were drawn: by {lists}. Cells and totals were then made of all "
            "draws together, by least squares: of all unbiased estimates that are sums of the noisy numbers, these "
            "have the least variance, and every total is the sum of its cells. Means and ratios are made of such sums.",
            name=name,
            lists=phrase("; by ").join(lists),
        )
    )


def _reconciled(workload: Workload, exact: Mapping[str, str], zeros: Zeros | None) -> Iterator[str]:
    tables, known = len(workload.tables), [exact[take.step] for take in workload.takes if take.step in exact]
    draws = len({take.step for take in workload.takes}) - len(known)
    levels = phrase(" on the levels {levels}", levels=", ".join(workload.levels)) if workload.levels else ""
    yield (
        phrase(
            "{name}: {tables} tables{levels} were made of {draws} draws together, by least squares: of all unbiased "
            "estimates that are sums of the noisy numbers, these have the least variance, and all tables agree with "
            "one another wherever they say the same.",
            name=workload.name,
            tables=amount(tables),
            levels=levels,
            draws=amount(draws),
        )
    )
    if known:
        yield (
            phrase(
                "{name}: these exact numbers are among what its tables were made of, and stand in them as they are: "
                "{known}.",
                name=workload.name,
                known=", ".join(known),
            )
        )
    if workload.levels:
        yield phrase(
            "{name}: a row counts where all of its attributes and its {level} have a key.",
            name=workload.name,
            level=workload.levels[-1],
        )
    else:
        yield phrase("{name}: a row counts where all of its attributes have a key.", name=workload.name)
    if zeros is not None:
        yield (
            phrase(
                "{name}: a row with a combination of {columns} that {reference} declares impossible ({count} of them) "
                "counts in none of its tables. That these numbers are 0 was taken as known: the estimates are the best "
                "ones given it, and numbers beside them are more accurate than the others of their table.",
                name=workload.name,
                columns=phrase(" and ").join(zeros.columns),
                reference=zeros.reference,
                count=amount(len(zeros.cells)),
            )
        )
    if "nonnegative" in workload.post:
        yield phrase(_NONNEGATIVE, name=workload.name)
    if "integer" in workload.post:
        yield phrase(_WHOLE, name=workload.name)
