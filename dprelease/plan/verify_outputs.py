"""What a plan says of the accuracy of its numbers, worked out again from the laws of the noise."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from dprelease.measures import Expected
from dprelease.plan.document import Output, PlannedQuery, ReleasePlan
from dprelease.plan.verify_factor import expected_of_sums
from dprelease.plan.verify_reach import require

__all__ = ["check_outputs", "figure"]

_TOLERANCE = 1e-9  # of a figure that is worked out in floats, on one machine or another


def check_outputs(plan: ReleasePlan) -> None:
    """One line for every number that is published, none more accurate than the noise allows, and every target met.

    The tables of workloads are held against their draws by ``verify_workload``.

    Raises:
        BrokenPromiseError: If a line is missing, there twice or of nothing, tells too small an error, or a target is
            missed.
    """
    told = {(output.query, output.measure): output for output in plan.outputs}
    wanted = [(query.name, label) for query in plan.queries for label in query.measures]
    lines = Counter((output.query, output.measure) for output in plan.outputs)
    require(lines == Counter(wanted), "it tells the accuracy of other numbers than it publishes")
    taken = {each.id: each for each in plan.measured}
    for query in plan.queries:
        asked = query.goal.targets if query.workload is None else {}
        for label in asked:
            require(label in query.measures, f"{query.name} has a target for a measure that is not there")
        for label in query.measures:
            output, name = told[query.name, label], f"{query.name}.{label}"
            require(output.table == query.table, f"{name} is told of another table")
            if query.workload is None:
                fed = tuple(dict.fromkeys(feed.step for feed in query.inputs[label]))
                require(output.steps == fed, f"{name} is told of other steps")
                steps = [(taken[feed.step], feed.part) for feed in query.inputs[label]]
                quantities, laws = [step.parts[part] for step, part in steps], [step.law for step, _ in steps]
                measure = query.measures[label]
                if query.ranges is not None:
                    found = expected_of_sums(plan, query, plan.step(fed[0]))
                else:
                    found = measure.expected(quantities, laws, plan.publish.confidence, _rows(query, label))
                _check_told(name, output, found, asked.get(label))


def _check_told(name: str, output: Output, found: Expected, target: Fraction | None) -> None:
    margin = None if found.margin is None else Fraction(found.margin)
    met = target is None or (margin is not None and margin <= target)
    require(met, f"{name} misses its target")
    for told, true in ((output.standard_error, found.standard_error), (output.margin, found.margin)):
        honest = told is None if true is None else figure(told, name) >= Fraction(true * (1 - _TOLERANCE))
        require(honest, f"{name} is told to be more accurate than it is")


def figure(text: str | None, name: str) -> Fraction:
    """A number that a plan tells.

    Raises:
        BrokenPromiseError: If it tells none.
    """
    try:
        found = Fraction(text or "")
    except (ValueError, ZeroDivisionError):
        found = Fraction(-1)
    require(found >= 0, f"{name} has no accuracy")
    return found


def _rows(query: PlannedQuery, label: str) -> int | None:
    """The guess of rows per cell: that for a count of the measure's own column, else the first one given."""
    own = query.measures[label]
    if own.others:  # what a ratio divides by
        own = query.measures.get(own.others[-1], own)
    for name, guess in query.expect.items():
        counted = query.measures[name].counted if name in query.measures else None
        if counted is not None and counted == own.target:
            return guess
    return next(iter(query.expect.values()), None)
