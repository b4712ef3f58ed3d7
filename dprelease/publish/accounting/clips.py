"""Clips that noise has chosen: published beside the tables, with what they may have cut off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Any

from dprelease.measures.text import exact_text
from dprelease.noise import Measurement
from dprelease.plan.document import PlannedQuery, ReleasePlan, Step
from dprelease.publish.numbers import percent
from dprelease.words import phrase, phrase_many

__all__ = ["ToldClip", "clip_facts", "clip_lines", "clips_of"]

_NO_TITLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class ToldClip:
    """One clip of a query.

    Attributes:
        step: That chose it.
        measures: The measures that were clipped there.
        column: The column whose values were.
        clip: In units of the column.
        above_at_most: The most rows that lie above it in all cells together, at the release's confidence.
        missing_at_most: The most that these rows can have beyond the clip, in units of the column.
    """

    step: str
    measures: tuple[str, ...]
    column: str
    clip: Fraction
    above_at_most: int
    missing_at_most: Fraction


def clips_of(plan: ReleasePlan, query: PlannedQuery, measurements: Mapping[str, Measurement]) -> tuple[ToldClip, ...]:
    """The clips of a query; none where nothing was measured (a rehearsal of a large plan).

    With the plan's confidence the score of what was chosen is at most its margin E, so that at most k + E rows lie
    above the clip; each of them lacks the way to the largest candidate at most.

    Args:
        plan: That was measured.
        query: One of its queries.
        measurements: By step id.
    """
    fed: dict[str, list[str]] = {}
    for label, feeds in query.inputs.items():
        for feed in feeds:
            step = plan.find_step(feed.step)
            clip = None if step is None else step.clipped_by
            if clip is not None and label not in fed.setdefault(clip, []):
                fed[clip].append(label)
    return tuple(
        _told(plan, plan.step(name), tuple(labels), int(measurements[name].values[0]))
        for name, labels in fed.items()
        if name in measurements
    )


def _told(plan: ReleasePlan, step: Step, measures: tuple[str, ...], found: int) -> ToldClip:
    quantity = step.aggregate.quantity
    grid = quantity.chosen
    assert grid is not None  # noqa: S101 - such a step has one
    above = (step.above or 0) + ceil(step.law.margin(plan.publish.confidence))
    clip, top = found * grid.step, grid.top * grid.step
    return ToldClip(step.id, measures, str(quantity.column), clip, above, above * (top - clip))


def clip_lines(
    plan: ReleasePlan,
    query: PlannedQuery,
    measurements: Mapping[str, Measurement],
    shown: Mapping[str, str] = _NO_TITLES,
) -> tuple[str, ...]:
    """The same in sentences, for the pages of the table.

    Args:
        plan: That was measured.
        query: One of its queries.
        measurements: By step id.
        shown: By the names of measures what readers see in their place.
    """
    table = plan.catalog.tables[query.table]
    return tuple(
        phrase_many(
            "For {measures} every value of {column} was first moved into 0 to {clip}, a clip that noise has chosen: it "
            "is a published number of its own. With {sure} % confidence at most {number} row of all cells together lay "
            "above it, which is {missing} at the very most that the cells together are too small by. It is in no "
            "margin.",
            "For {measures} every value of {column} was first moved into 0 to {clip}, a clip that noise has chosen: it "
            "is a published number of its own. With {sure} % confidence at most {number} rows of all cells together "
            "lay above it, which is {missing} at the very most that the cells together are too small by. It is in no "
            "margin.",
            each.above_at_most,
            measures=phrase(" and ").join(shown.get(name, name) for name in each.measures),
            column=table.column(each.column).shown,
            clip=exact_text(each.clip),
            sure=percent(plan.publish.confidence),
            missing=exact_text(each.missing_at_most),
        )
        for each in clips_of(plan, query, measurements)
    )


def clip_facts(plan: ReleasePlan, measurements: Mapping[str, Measurement]) -> list[dict[str, Any]]:
    """The same for machines, of all queries."""
    return [
        {
            "query": query.name,
            "step": each.step,
            "measures": list(each.measures),
            "column": each.column,
            "clip": str(each.clip),
            "above_at_most": each.above_at_most,
            "missing_at_most": str(each.missing_at_most),
        }
        for query in plan.queries
        for each in clips_of(plan, query, measurements)
    ]
