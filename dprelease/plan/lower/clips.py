"""Clips that noise chooses: which sums have them, which draw chooses each, and how many rows lie above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.plan.document import Step
from dprelease.plan.lower.alternatives import Asked, Group

__all__ = ["CLIP", "ClipOf", "clip_wanted_by", "paid_for_clips", "wanted_clips", "with_rows_above"]

CLIP = "(clip)"
"""What a step that chooses a clip answers, in the place of a measure."""

Need = tuple[int, int]  # a group and a quantity, by their places


class ClipOf(NamedTuple):
    """Which clip is meant: sums of one domain, over the same cells, of the same rows and wishes, share it."""

    domain: str
    grouping: Grouping
    quantity: Quantity


def clip_wanted_by(need: Need, groups: Sequence[Group], quantities: Sequence[Quantity]) -> ClipOf | None:
    """The clip of what a measure needs; None: it is written in the spec, or there is none."""
    at, place = need
    quantity = quantities[place]
    if quantity.chosen is None:
        return None
    return ClipOf(groups[at].domain, groups[at].grouping, quantity.choice_of_clip())


def wanted_clips(
    needs: Mapping[Need, Iterable[tuple[Asked, int]]], groups: Sequence[Group], quantities: Sequence[Quantity]
) -> dict[ClipOf, tuple[Asked, ...]]:
    """Every clip that is to be chosen, and the measures of the queries that it serves, the first one of each query."""
    found: dict[ClipOf, dict[int, Asked]] = {}
    for need, feeding in needs.items():
        clip = clip_wanted_by(need, groups, quantities)
        for asked, _ in feeding if clip is not None else ():
            found.setdefault(clip, {}).setdefault(asked.query, asked)  # type: ignore[arg-type]  # there is one
    return {clip: tuple(asked for _, asked in sorted(of.items())) for clip, of in found.items()}


def with_rows_above(step: Step, steps: Iterable[Step]) -> Step:
    """A step with the number of rows that its clip shall leave above it, by the noise of what is clipped there.

    Of several sums it is the one with the most noise that counts. Every other step is as it was.
    """
    chosen = step.aggregate.quantity.chosen
    if not step.is_clip or chosen is None:
        return step
    sums = [each for each in steps if each.clipped_by == step.id]
    rows = max(chosen.rows_above(each.cells or 1, each.law.variance) for each in sums)
    return step.model_copy(update={"above": rows})


def paid_for_clips(
    chosen: Mapping[ClipOf, int], clips: Mapping[ClipOf, Sequence[Asked]]
) -> dict[int, dict[int, Fraction]]:
    """By query the drafts that choose its clips, and the part of its budget that each has."""
    found: dict[int, dict[int, Fraction]] = {}
    for clip, draft in chosen.items():
        grid = clip.quantity.chosen
        if grid is not None:
            found.update({asked.query: found.get(asked.query, {}) | {draft: grid.share} for asked in clips[clip]})
    return found
