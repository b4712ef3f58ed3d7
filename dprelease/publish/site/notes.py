"""What a reader must know of one table, in sentences beside it: which rows it has, and what no margin covers.

A margin is about the noise alone. What was left out or moved before the noise (bounds, clips, conditions), and what was
chosen by the noise (suppression, private keys), makes numbers wrong on the whole, by an amount that was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.catalog.table import Binned, Column, Key, Table
from dprelease.estimate import PublishedMeasure
from dprelease.estimate.sampling import is_sampled
from dprelease.measures import MEASURES, Measure
from dprelease.measures.text import exact_text
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.document.ranges import PlannedRanges
from dprelease.plan.explain.rounding import is_rounded
from dprelease.publish.base import Content
from dprelease.publish.numbers import at_most, percent, so_many, with_margin
from dprelease.words import in_a_row, inside_sentence, phrase, phrase_many

__all__ = ["about_rows", "not_in_the_margins", "reading_of", "top_codes"]

_AT_ONCE = 1_000


def about_rows(plan: ReleasePlan, query: PlannedQuery | None) -> tuple[str, ...]:
    """Which rows a table has, and of which rows of the data it tells."""
    if query is None:
        return (phrase("Derived: made of other tables of this publication, after the noise."),)
    found = []
    exact = next((each for each in plan.invariants if each.query == query.name), None)
    if exact is not None:
        why = exact.why.strip().rstrip(".")
        found.append(phrase("Exact and unprotected: no noise was added to these numbers ({why}).", why=why))
    if query.ranking is not None:
        found.append(
            phrase("The keys that occur most often, as noise allows to tell: neighbouring ranks may be swapped.")
        )
    if query.private:
        found.append(
            phrase("Which rows appear was decided by noise: rare keys are missing, and a common one may be by chance.")
        )
    if query.workload is not None and "integer" in plan.workload(query.workload).post:
        found.append(phrase("Estimates were rounded to whole numbers in such a way that they still add up."))
    if query.ranges is not None:
        found.append(_added_up(query.ranges))
    if query.where is not None:
        found.append(phrase("Only rows where {condition}.", condition=query.where))
    if query.excluding is not None:
        found.append(phrase("Combinations that a public reference lists as impossible have no row."))
    if query.zeros is not None:
        found.append(_impossible(plan, query))
    if plan.publish.figures is not None:
        found += top_codes(plan, query)
    return tuple(found)


def _added_up(ranges: PlannedRanges) -> str:
    if ranges.which == "prefixes":
        return phrase(
            "Rows are added up along {column}, up to and with each key. Sums of one line err together, and a longer "
            "one can be less than a shorter one.",
            column=ranges.of,
        )
    return phrase(
        "Rows are added up along {column}, from each key to each later one. Sums of one line err together, and a "
        "longer one can be less than a shorter one.",
        column=ranges.of,
    )


def top_codes(plan: ReleasePlan, query: PlannedQuery) -> Iterator[str]:
    """Keys without a label that hold all larger values as well, because these are moved to the end of their range."""
    table = plan.catalog.tables[query.table]
    for column in plan.keys(query):
        bands = column.derivation if isinstance(column.derivation, Binned) else None
        source = table.named.get(bands.of) if bands is not None else column
        if source is None or source.range is None or source.outside != "clamp":
            continue
        top, least = source.range.high, source.range.high
        key: Key | None
        if bands is None:
            key = next((each for each in column.keys or () if type(each) is int and each == top), None)
        else:
            held = zip(bands.labels, bands.edges, bands.edges[1:], strict=False)
            key, least = next(((label, low) for label, low, high in held if low <= top < high), (None, top))
        if key is not None and str(key) not in column.labels:
            yield phrase(
                "{key} of {column} stands for {least} and more: larger values were moved there.",
                key=key,
                column=column.shown,
                least=exact_text(least),
            )


def _impossible(plan: ReleasePlan, query: PlannedQuery) -> str:
    """Which combinations no row of a workload's table has, and that this is a public fact and nothing measured."""
    zeros = plan.catalog.zeros[query.zeros or ""]
    return phrase(
        "Of {columns} the combinations that {reference} lists are declared impossible: a row with one of them is in "
        "none of the tables. They are public facts, not measurements, and no noise protects them.",
        columns=_all_of(zeros.columns),
        reference=zeros.reference,
    )


def not_in_the_margins(plan: ReleasePlan, query: PlannedQuery | None) -> tuple[str, ...]:
    """What makes the numbers of a table too small, too large or too flat, beside the noise; nothing for a derived one.

    What a derived table is made of says it of itself.
    """
    if query is None:
        return (phrase("It has all that is said of the tables that it is made of."),)
    table, unit = plan.catalog.tables[query.table], str(plan.unit)
    found = [*_left_out(plan, query, table), *_bounded(query, table, unit), *_weighted(query, table)]
    found += _moved(query, table, unit)
    return (*found, *_chosen(plan, query))


def _left_out(plan: ReleasePlan, query: PlannedQuery, table: Table) -> Iterator[str]:
    if table.unit_id is not None and table.null_id == "drop":
        yield phrase("Rows without {column} are left out.", column=table.column(table.unit_id).shown)
    needed, here = tuple(dict.fromkeys((*query.by, *query.complete))), phrase("nowhere in this table")
    if query.workload is not None:  # a row counts in all of its tables or in none, so that they add up
        workload = plan.workload(query.workload)
        needed = (*workload.levels[-1:], *workload.attributes)
        here = phrase("in none of the tables of {title}", title=workload.title or workload.name)
    lost = [table.column(name).shown for name in needed if table.column(name).null is None]
    if lost and not query.private:
        yield phrase(
            "Rows whose {columns} is missing, or is not among the keys, count {here}.", columns=_either(lost), here=here
        )
    elif lost:
        yield phrase("Rows whose {columns} is missing count {here}.", columns=_either(lost), here=here)


def _bounded(query: PlannedQuery, table: Table, unit: str) -> Iterator[str]:
    bounds = []
    if table.bounds is not None:
        bounds.append(phrase("at most {rows} of one {unit}", rows=so_many(table.bounds.max_rows, "row"), unit=unit))
    if query.max_groups is not None:
        bounds.append(phrase("one {unit} in at most {cells}", unit=unit, cells=so_many(query.max_groups, "cell")))
    if query.max_rows_per_group is not None:
        rows = so_many(query.max_rows_per_group, "row")
        bounds.append(phrase("at most {rows} of one {unit} in a cell", rows=rows, unit=unit))
    if bounds:
        told = "; ".join(bounds)
        yield phrase("Counted are {bounds}. What one {unit} has beyond that is in no number.", bounds=told, unit=unit)
    for join in table.private_joins:
        yield phrase_many(
            "At most {number} row of {table} of one {unit} is joined to a row; further ones do not count.",
            "At most {number} rows of {table} of one {unit} are joined to a row; further ones do not count.",
            join.max_matches,
            table=join.table,
            unit=unit,
        )


def _weighted(query: PlannedQuery, table: Table) -> Iterator[str]:
    """What the clip of weights does, and which error the margins have nothing of."""
    weight = table.weight
    if weight is None or all(part.weighted is False for each in query.measures.values() for part in each.made_of):
        return
    yield phrase(
        "A record that stands for more than {most} people by its {column} counts as that many: weighted totals are "
        "too small on the whole.",
        most=exact_text(weight.row.in_units),
        column=weight.column,
    )
    sampled = [name for name, each in query.measures.items() if is_sampled(each, table)]
    if weight.sampling is None or not sampled:
        yield phrase("These are numbers of a sample, and their margins are those of the noise alone.")
        return
    yield phrase(
        "The margin is that of the noise alone. Of {measures} the one behind it is for noise and sampling together, "
        "by a public model: a design effect of {deff} and a mean weight of {weight}. It is no measurement.",
        measures=_either(sampled),
        deff=exact_text(weight.sampling.deff),
        weight=exact_text(weight.sampling.mean_weight),
    )


def _moved(query: PlannedQuery, table: Table, unit: str) -> Iterator[str]:
    """Clips and ranges, each once, and what is held within them after the noise."""
    told = dict.fromkeys(line for measure in query.measures.values() for line in _limits(measure, table, unit))
    yield from told
    kinds = {each.kind for each in query.measures.values() if each.held}
    held = [phrase(each.plural) for kind, each in MEASURES.items() if kind in kinds]
    if held:
        words = _all_of([held[0], *map(inside_sentence, held[1:])])
        yield phrase(
            "{measures} are held within what those limits allow: in small cells this draws them inward.",
            measures=words,
        )


def _limits(measure: Measure, table: Table, unit: str) -> Iterator[str]:
    if measure.grid_kind is None or measure.column is None:
        return
    column = table.column(measure.column)
    target = column.shown
    if column.range is not None and column.outside == "null":
        span = _span(column.range.low, column.range.high)
        yield phrase("A value of {column} outside {span} counts as missing.", column=target, span=span)
    yield from _rounding(column, measure.grid_kind, target)
    limits = measure.limits
    if getattr(measure, "chosen_clip", None) is not None:
        return  # what was chosen is told where the measurements are at hand
    if limits is None and column.range is not None and column.outside == "clamp":
        limits = (column.range.low, column.range.high)
    if limits is None:
        return
    told = {"column": target, "span": _span(*limits)}
    if measure.per(table) == "unit_cell":
        yield phrase(
            "What one {unit} adds up to in {column} in a cell was first moved into {span}: what goes further counts "
            "as the nearer end, in every number that is made of it.",
            unit=unit,
            **told,
        )
        return
    yield phrase(
        "Every value of {column} was first moved into {span}: what goes further counts as the nearer end, in every "
        "number that is made of it.",
        **told,
    )


def _rounding(column: Column, kind: str, target: str) -> Iterator[str]:
    """What rounding does, where the plan says who chose the grid; older pages keep their words."""
    step = column.grid_of(kind)
    if column.step_from is None or not is_rounded(column, step):
        return
    told = {"column": target, "step": exact_text(step)}
    if column.rank_step is None:
        yield phrase(
            "Every value of {column} was first rounded to a multiple of {step}: a mean or a quantile of it can be off "
            "by half of that, beside the noise.",
            **told,
        )
    elif kind == "sum":
        yield phrase(
            "For sums, means and spreads every value of {column} was first rounded to a multiple of {step}: a mean or "
            "a quantile of it can be off by half of that, beside the noise.",
            **told,
        )
    else:
        yield phrase(
            "For quantiles every value of {column} was first rounded to a multiple of {step}: a mean or a quantile of "
            "it can be off by half of that, beside the noise.",
            **told,
        )


def _chosen(plan: ReleasePlan, query: PlannedQuery) -> Iterator[str]:
    """What noise decides to show is shown with the noise that decided."""
    if query.workload is not None and "nonnegative" in plan.workload(query.workload).post:
        yield phrase(
            "Estimates below 0 were moved up to 0 and others down, so that totals stay: small numbers are too large on "
            "the whole."
        )
    if query.private:
        yield phrase("The rows add up to less than the whole: what belongs to keys that are missing is not in them.")
    if query.suppress_below is not None:
        name, limit = query.suppress_below
        yield phrase(
            "A row is blank where its noisy {measure} is below {limit}. Noise upward keeps a row, noise downward "
            "removes it: small numbers that stayed are too large on the whole, and the rows do not add up to the "
            "total.",
            measure=name,
            limit=at_most(limit),
        )
    if plan.publish.unreliable_above is not None and plan.publish.unreliable_show == "blank":
        yield phrase(
            "A number is withheld where its margin is more than {above} % of it: small numbers that stayed are too "
            "large on the whole.",
            above=percent(plan.publish.unreliable_above),
        )


def _either(names: list[str]) -> str:
    return in_a_row(names, "or")


def _all_of(names: Sequence[str]) -> str:
    """Names in a row, with the same word between any two of them."""
    found = names[0]
    for name in names[1:]:
        found = phrase("{first} and {last}", first=found, last=name)
    return found


def _span(low: Fraction, high: Fraction) -> str:
    return phrase("{lower} to {upper}", lower=exact_text(low), upper=exact_text(high))


def reading_of(content: Content) -> dict[str, Any]:
    """What the paragraph on noisy numbers speaks of."""
    measures = [measure for table in content.tables for measure in table.measures]
    # Of a number that was moved off its estimate no margin around it can be promised.
    plain = [each for each in measures if each.unadjusted is None]
    bare = (np.isfinite(each.value) & ~np.isfinite(each.margin) for each in measures)
    return {
        "outside": percent(1 - content.plan.publish.confidence),
        "example": next((found for found in map(_example, plain) if found), None),
        "moved": len(plain) < len(measures),
        "plain": bool(plain),
        "tested": any(each.tested for each in plain),
        "marginless": any(bool(each.any()) for each in bare),
        "shared": any(len(step.answers) > 1 for step in content.plan.steps),
        "by_chance": content.plan.local is not None,
    }


def _example(measure: PublishedMeasure) -> tuple[str, str, str] | None:
    """The first number with a margin, which the explanation takes up."""
    for first in range(0, len(measure.status), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        floats = (each[part].tolist() for each in (measure.value, measure.margin, measure.lower, measure.upper))
        for value, margin, lower, upper, status in zip(*floats, measure.status[part], strict=True):
            plain = not measure.held or lower < value < upper
            if status == "ok" and math.isfinite(margin) and plain:
                return measure.shown, *with_margin(value, margin, measure.places)
    return None
