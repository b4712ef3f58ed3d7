"""What a reader must know of one table, in sentences beside it: which rows it has, and what no margin covers.

A margin is about the noise alone. What was left out or moved before the noise (bounds, clips, conditions), and what was
chosen by the noise (suppression, private keys), makes numbers wrong on the whole, by an amount that was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.catalog.table import Binned, Column, Key, Table
from dprelease.estimate import PublishedMeasure
from dprelease.estimate.sampling import is_sampled
from dprelease.measures import MEASURES, Measure
from dprelease.measures.text import exact_text
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.explain.rounding import is_rounded
from dprelease.publish.base import Content
from dprelease.publish.numbers import at_most, percent, so_many, with_margin

__all__ = ["about_rows", "not_in_the_margins", "reading_of", "top_codes"]

_AT_ONCE = 1_000

_MADE = {"sum": "sums, means and spreads", "quantile": "quantiles"}


def about_rows(plan: ReleasePlan, query: PlannedQuery | None) -> tuple[str, ...]:
    """Which rows a table has, and of which rows of the data it tells."""
    if query is None:
        return ("Derived: made of other tables of this publication, after the noise.",)
    found = []
    exact = next((each for each in plan.invariants if each.query == query.name), None)
    if exact is not None:
        found.append(f"Exact and unprotected: no noise was added to these numbers ({exact.why.strip().rstrip('.')}).")
    if query.ranking is not None:
        found.append("The keys that occur most often, as noise allows to tell: neighbouring ranks may be swapped.")
    if query.private:
        found.append(
            "Which rows appear was decided by noise: rare keys are missing, and a common one may be by chance."
        )
    if query.workload is not None and "integer" in plan.workload(query.workload).post:
        found.append("Estimates were rounded to whole numbers in such a way that they still add up.")
    if query.ranges is not None:
        sums = "up to and with each key" if query.ranges.which == "prefixes" else "from each key to each later one"
        found.append(
            f"Rows are added up along {query.ranges.of}, {sums}. Sums of one line err together, and a longer one can "
            "be less than a shorter one."
        )
    if query.where is not None:
        found.append(f"Only rows where {query.where}.")
    if query.excluding is not None:
        found.append("Combinations that a public reference lists as impossible have no row.")
    if query.zeros is not None:
        found.append(_impossible(plan, query))
    if plan.publish.figures is not None:
        found += top_codes(plan, query)
    return tuple(found)


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
            yield f"{key} of {column.name} stands for {exact_text(least)} and more: larger values were moved there."


def _impossible(plan: ReleasePlan, query: PlannedQuery) -> str:
    """Which combinations no row of a workload's table has, and that this is a public fact and nothing measured."""
    zeros = plan.catalog.zeros[query.zeros or ""]
    return (
        f"Of {' and '.join(zeros.columns)} the combinations that {zeros.reference} lists are declared impossible: a "
        "row with one of them is in none of the tables. They are public facts, not measurements, and no noise protects "
        "them."
    )


def not_in_the_margins(plan: ReleasePlan, query: PlannedQuery | None) -> tuple[str, ...]:
    """What makes the numbers of a table too small, too large or too flat, beside the noise; nothing for a derived one.

    What a derived table is made of says it of itself.
    """
    if query is None:
        return ("It has all that is said of the tables that it is made of.",)
    table, unit = plan.catalog.tables[query.table], str(plan.unit)
    found = [*_left_out(plan, query, table), *_bounded(query, table, unit), *_weighted(query, table)]
    found += _moved(query, table, unit)
    return (*found, *_chosen(plan, query))


def _left_out(plan: ReleasePlan, query: PlannedQuery, table: Table) -> Iterator[str]:
    if table.unit_id is not None and table.null_id == "drop":
        yield f"Rows without {table.unit_id} are left out."
    needed, here = tuple(dict.fromkeys((*query.by, *query.complete))), "nowhere in this table"
    if query.workload is not None:  # a row counts in all of its tables or in none, so that they add up
        workload = plan.workload(query.workload)
        needed = (*workload.levels[-1:], *workload.attributes)
        here = f"in none of the tables of {workload.title or workload.name}"
    lost = [name for name in needed if table.column(name).null is None]
    if lost and not query.private:
        yield f"Rows whose {_either(lost)} is missing, or is not among the keys, count {here}."
    elif lost:
        yield f"Rows whose {_either(lost)} is missing count {here}."


def _bounded(query: PlannedQuery, table: Table, unit: str) -> Iterator[str]:
    bounds = []
    if table.bounds is not None:
        bounds.append(f"at most {so_many(table.bounds.max_rows, 'row')} of one {unit}")
    if query.max_groups is not None:
        bounds.append(f"one {unit} in at most {so_many(query.max_groups, 'cell')}")
    if query.max_rows_per_group is not None:
        bounds.append(f"at most {so_many(query.max_rows_per_group, 'row')} of one {unit} in a cell")
    if bounds:
        yield f"Counted are {'; '.join(bounds)}. What one {unit} has beyond that is in no number."
    for join in table.private_joins:
        yield (
            f"At most {so_many(join.max_matches, 'row')} of {join.table} of one {unit} "
            f"{'is' if join.max_matches == 1 else 'are'} joined to a row; further ones do not count."
        )


def _weighted(query: PlannedQuery, table: Table) -> Iterator[str]:
    """What the clip of weights does, and which error the margins have nothing of."""
    weight = table.weight
    if weight is None or all(part.weighted is False for each in query.measures.values() for part in each.made_of):
        return
    yield (
        f"A record that stands for more than {exact_text(weight.row.in_units)} people by its {weight.column} counts as "
        "that many: weighted totals are too small on the whole."
    )
    sampled = [name for name, each in query.measures.items() if is_sampled(each, table)]
    if weight.sampling is None or not sampled:
        yield "These are numbers of a sample, and their margins are those of the noise alone."
        return
    yield (
        f"The margin is that of the noise alone. Of {_either(sampled)} the one behind it is for noise and sampling "
        f"together, by a public model: a design effect of {exact_text(weight.sampling.deff)} and a mean weight of "
        f"{exact_text(weight.sampling.mean_weight)}. It is no measurement."
    )


def _moved(query: PlannedQuery, table: Table, unit: str) -> Iterator[str]:
    """Clips and ranges, each once, and what is held within them after the noise."""
    told = dict.fromkeys(line for measure in query.measures.values() for line in _limits(measure, table, unit))
    yield from told
    kinds = {each.kind for each in query.measures.values() if each.held}
    held = [f"{each.plural} are" for kind, each in MEASURES.items() if kind in kinds]
    if held:
        words = " and ".join([held[0], *(each[0].lower() + each[1:] for each in held[1:])])
        yield f"{words} held within what those limits allow: in small cells this draws them inward."


def _limits(measure: Measure, table: Table, unit: str) -> Iterator[str]:
    target = measure.column
    if measure.grid_kind is None or target is None:
        return
    column = table.column(target)
    if column.range is not None and column.outside == "null":
        yield f"A value of {target} outside {_span(column.range.low, column.range.high)} counts as missing."
    yield from _rounding(column, measure.grid_kind, target)
    limits = measure.limits
    if getattr(measure, "chosen_clip", None) is not None:
        return  # what was chosen is told where the measurements are at hand
    if limits is None and column.range is not None and column.outside == "clamp":
        limits = (column.range.low, column.range.high)
    if limits is None:
        return
    together = measure.per(table) == "unit_cell"
    what = f"What one {unit} adds up to in {target} in a cell" if together else f"Every value of {target}"
    yield (
        f"{what} was first moved into {_span(*limits)}: what goes further counts as the nearer end, in every number "
        "that is made of it."
    )


def _rounding(column: Column, kind: str, target: str) -> Iterator[str]:
    """What rounding does, where the plan says who chose the grid; older pages keep their words."""
    step = column.grid_of(kind)
    if column.step_from is None or not is_rounded(column, step):
        return
    every = "Every value" if column.rank_step is None else f"For {_MADE[kind]} every value"
    yield (
        f"{every} of {target} was first rounded to a multiple of {exact_text(step)}: a mean or a quantile of it can be "
        "off by half of that, beside the noise."
    )


def _chosen(plan: ReleasePlan, query: PlannedQuery) -> Iterator[str]:
    """What noise decides to show is shown with the noise that decided."""
    if query.workload is not None and "nonnegative" in plan.workload(query.workload).post:
        yield (
            "Estimates below 0 were moved up to 0 and others down, so that totals stay: small numbers are too large on "
            "the whole."
        )
    if query.private:
        yield "The rows add up to less than the whole: what belongs to keys that are missing is not in them."
    if query.suppress_below is not None:
        name, limit = query.suppress_below
        yield (
            f"A row is blank where its noisy {name} is below {at_most(limit)}. Noise upward keeps a row, noise "
            "downward removes it: small numbers that stayed are too large on the whole, and the rows do not add up to "
            "the total."
        )
    if plan.publish.unreliable_above is not None and plan.publish.unreliable_show == "blank":
        yield (
            f"A number is withheld where its margin is more than {percent(plan.publish.unreliable_above)} % of it: "
            "small numbers that stayed are too large on the whole."
        )


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _span(low: Fraction, high: Fraction) -> str:
    return f"{exact_text(low)} to {exact_text(high)}"


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
    }


def _example(measure: PublishedMeasure) -> tuple[str, str, str] | None:
    """The first number with a margin, which the explanation takes up."""
    for first in range(0, len(measure.status), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        floats = (each[part].tolist() for each in (measure.value, measure.margin, measure.lower, measure.upper))
        for value, margin, lower, upper, status in zip(*floats, measure.status[part], strict=True):
            plain = not measure.held or lower < value < upper
            if status == "ok" and math.isfinite(margin) and plain:
                return measure.name, *with_margin(value, margin, measure.places)
    return None
