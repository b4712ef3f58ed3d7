"""How accurate every published number will be, by the laws of the noise alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dprelease.measures import Measure
from dprelease.plan.document import Output, PlannedQuery, Step
from dprelease.plan.lower import expected_rows
from dprelease.privacy.budget import round_up

__all__ = ["outputs"]


def outputs(queries: Sequence[PlannedQuery], steps: Mapping[str, Step], confidence: Fraction) -> tuple[Output, ...]:
    """One line for every measure of every query, in published order."""
    return tuple(
        _output(query, label, measure, steps, confidence)
        for query in queries
        for label, measure in query.measures.items()
    )


def _output(
    query: PlannedQuery, label: str, measure: Measure, steps: Mapping[str, Step], confidence: Fraction
) -> Output:
    feeds = query.inputs[label]
    fed = [steps[feed.step] for feed in feeds]
    quantities = [step.parts[feed.part] for step, feed in zip(fed, feeds, strict=True)]
    count = expected_rows(query.expect, query.measures, label)
    expected = measure.expected(quantities, [step.law for step in fed], confidence, count)

    def text(number: float | None) -> str | None:
        return None if number is None else round_up(Fraction(number), 6)

    return Output(
        query=query.name,
        table=query.table,
        measure=label,
        steps=tuple(dict.fromkeys(feed.step for feed in feeds)),
        standard_error=text(expected.standard_error),
        margin=text(expected.margin),
        why_null=expected.why_null,
    )
