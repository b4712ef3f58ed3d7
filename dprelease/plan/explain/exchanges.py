"""What the draws of an ``add_remove`` plan cost where one unit has other rows than its own, or is another unit.

Two data sets that differ in the rows of one unit and in nothing else are two steps of ``add_remove`` apart, and what
holds for two units holds for them. But they are also one step of ``replace_one``, and how far a replaced unit moves an
answer is known by itself (``catalog.sensitivity``, docs/proofs/unit-sensitivity.md): a table of counts with one row to
a unit moves in two cells by one each, whose L2 norm is the root of 2, where two units would move one cell by 2. So
every draw, with its own noise, is read with the reach of a replaced unit: the very event that a plan with
``neighboring: replace_one`` would have if it drew with this noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dprelease.catalog.factor import factor_sensitivity
from dprelease.catalog.residual import residual_sensitivity
from dprelease.catalog.sensitivity import choice_reach, limits_of, selection_reach, sensitivity, sensitivity_of_parts
from dprelease.catalog.table import Catalog
from dprelease.noise.mechanisms.knorm import gauge
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.document.mechanisms import Choosing, event_of, selection_of
from dprelease.privacy.event import Event, Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["exchanged"]

_REPLACED = Neighboring.REPLACE_ONE
_BALLS: Mapping[str, Literal["count", "linf", "total", "sphere"]] = {
    "count_knorm": "count",
    "linf_knorm": "linf",
    "total_residual": "total",
    "random_scale": "sphere",
}


@dataclass(frozen=True)
class _Reach:
    """How far a replaced unit moves a step: its sensitivity, and of joint steps and of choices what counts there."""

    sensitivity: Sensitivity
    gauge: Fraction | None = None
    choosing: Choosing | None = None


def exchanged(plan: ReleasePlan) -> tuple[Event, ...]:
    """For each step of a plan what it costs where the rows of one unit are others; one unit may be another one.

    Raises:
        ValueError: If nothing bounds how many rows a unit has: no plan is made of such tables.
    """
    if plan.neighboring is _REPLACED:
        return plan.events
    return tuple(_event(step, plan.catalog) for step in plan.steps)


def _event(step: Step, catalog: Catalog) -> Event:
    reach, chosen = _reach(step, catalog), step.selecting
    if chosen is not None:
        whole = selection_of(step.mechanism, step.scale, reach.sensitivity, chosen.threshold, chosen.delta, _REPLACED)
        if whole is not None:
            return whole
    # A coin keeps the delta of its own, and there are as many more of them as there are keys more.
    coins = Fraction(reach.sensitivity.l0, max(1, step.sensitivity.l0))
    return event_of(
        step.mechanism,
        step.scale,
        reach.sensitivity,
        dimension=len(step.parts),
        gauge=reach.gauge,
        choosing=reach.choosing,
        delta=None if chosen is None else chosen.delta * coins,
    )


def _reach(step: Step, catalog: Catalog) -> _Reach:
    aggregate = step.aggregate
    if step.selecting is not None:
        return _Reach(selection_reach(aggregate, catalog, _REPLACED)[1])
    if step.choosing is not None:
        listed = step.choosing.rounds if step.mechanism == "exponential_top_k" else None
        rounds, spread, norms = choice_reach(aggregate, catalog, _REPLACED, listed)
        choosing = step.choosing.model_copy(update={"rounds": rounds, "spread": spread})
        return _Reach(norms, choosing=choosing)
    if step.tables:
        most = limits_of(aggregate, catalog).rows or 1  # no plan of tables is without a bound
        return _Reach(step.sensitivity, gauge=Fraction(2 * most * aggregate.quantity.each))
    if step.gauge is not None:
        replaced = gauge(_BALLS[step.mechanism], len(step.parts), _REPLACED, step.cells or 2)
        return _Reach(step.sensitivity, gauge=replaced)
    if step.series is None:
        return _Reach(_moved(step, catalog, _REPLACED))
    # Of all draws that read a row, by the very bound of a plan of replaced units: see ``plan.lower.series``.
    signed = step.factor is not None or step.residual is not None or aggregate.quantity.contribution[0] < 0
    alone = _moved(step, catalog, Neighboring.ADD_REMOVE)
    return _Reach(step.series.band.reach(alone, replaced=True, signed=signed))


def _moved(step: Step, catalog: Catalog, relation: Neighboring) -> Sensitivity:
    """How far a unit moves the numbers of a step that adds rows up; of a series, those of one period, once."""
    aggregate = step.aggregate
    rows, each = limits_of(aggregate, catalog).rows, aggregate.quantity.each
    if step.residual is not None and rows is not None:
        return residual_sensitivity(step.residual, rows, relation, each)
    if step.factor is not None and rows is not None:
        return factor_sensitivity(step.factor, rows, relation, each)
    if step.joined:  # counts that exclude one another, for noise of several quantities together has a gauge
        return sensitivity_of_parts(aggregate, len(step.parts), catalog, relation)
    return sensitivity(aggregate, catalog, relation)
