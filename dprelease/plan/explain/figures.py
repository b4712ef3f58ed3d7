"""What a plan says of how its numbers will read: tables that will be unreliable, and bases that are too coarse."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dprelease.estimate.figures import usual_base
from dprelease.measures.text import exact_text
from dprelease.plan.document import Output, PlannedQuery, ReleasePlan
from dprelease.plan.explain.facts import relative_error

__all__ = ["coarser_query", "figure_texts"]


def figure_texts(plan: ReleasePlan) -> tuple[str, ...]:
    """Warnings in whole sentences; none of plans from before there were rules for figures."""
    if plan.publish.figures is None:
        return ()
    return (*_unreliable(plan), *_coarse(plan))


def coarser_query(plan: ReleasePlan, query: PlannedQuery) -> PlannedQuery | None:
    """The query with one of the same measures by the most of its keys but not all of them; None: there is none.

    Args:
        plan: The release.
        query: Whose numbers are unreliable.
    """
    keys = set(query.by)
    others = plan.queries if keys else ()
    found = [each for each in others if len(each.by) < len(keys) and _is_coarser(each, query, keys)]
    return max(found, key=lambda each: len(each.by), default=None)


def _is_coarser(other: PlannedQuery, query: PlannedQuery, keys: set[str]) -> bool:
    same = other.table == query.table and other.where == query.where and other.ranges == query.ranges
    if not same or not keys > set(other.by):
        return False
    return any(each in query.measures.values() for each in other.measures.values())


def _unreliable(plan: ReleasePlan) -> Iterator[str]:
    """Counts whose margin is too large beside what the author expects in a cell."""
    above = plan.publish.unreliable_above
    queries = {query.name: query for query in plan.queries}
    for output in plan.outputs:
        query = queries[output.query]
        error = relative_error(query, output)
        if above is None or error is None or error <= above:
            continue
        other = coarser_query(plan, query)
        instead = "" if other is None else f"; {other.name} has the same by fewer keys"
        yield (
            f"{query.name}.{output.measure}: a cell of {query.expect[output.measure]:,} rows, as `expect` has it, will "
            f"be unreliable beside a margin of {float(output.margin or 0):,.4g}{instead}"
        )


def _coarse(plan: ReleasePlan) -> Iterator[str]:
    """Bases of more than twice the noise: rounding then hides more than the noise does, and by more than chance."""
    told = {(output.query, output.measure): output for output in plan.outputs}
    bases = {} if plan.publish.figures is None else plan.publish.figures.bases
    for query, measures in bases.items():
        for label, base in measures.items():
            error = _error(told.get((query, label)))
            if error is not None and base > 2 * error:
                usual = usual_base(error)
                hint = f"`round: {usual}` adds at most 4 % to the error" if usual else "leave `round` out"
                yield (
                    f"{query}.{label}: rounding to multiples of {exact_text(base)} is coarser than the noise, whose "
                    f"standard error is {float(error):.4g}; {hint}"
                )


def _error(output: Output | None) -> Fraction | None:
    return None if output is None or output.standard_error is None else Fraction(output.standard_error)
