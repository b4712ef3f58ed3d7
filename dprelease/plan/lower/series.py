"""From a query whose periods share their noise to its draws: one for each measure, of the last periods together.

The charge of a release is that of all draws that its period will ever be in: how far a unit can move the table of its
period, times the square of the band (``catalog.series.band``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.series.band import sum_name
from dprelease.catalog.table import Catalog
from dprelease.measures import Measure
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.plan.document import Answer, Feed
from dprelease.plan.document.series import PlannedSeries
from dprelease.plan.lower.lowered import Term
from dprelease.plan.lower.unscaled import UnscaledStep, additive
from dprelease.privacy.unit import Neighboring
from dprelease.spec.checks.series import PERIODS_OF_A_YEAR, band_of, kind_of_period
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec
from dprelease.spec.period import periods, span

__all__ = ["LoweredSeries", "lowered_series"]


@dataclass(frozen=True)
class LoweredSeries:
    """A query whose periods share their noise, before its noise is chosen.

    Attributes:
        planned: What the plan says of it.
        drafts: By measure, its one draw.
        compare: The sums of every measure, by the names under which they are published.
    """

    planned: PlannedSeries
    drafts: Mapping[str, UnscaledStep]
    compare: Mapping[str, ComparedNumber]

    @property
    def inputs(self) -> dict[str, tuple[Feed, ...]]:
        """What feeds every measure: its own draw."""
        return {label: (Feed(step=draft.id),) for label, draft in self.drafts.items()}

    def terms(self, query: int, first: Mapping[str, int], measures: Mapping[str, Measure]) -> list[Term]:
        """What planning sees of its measures: of each the period itself.

        Args:
            query: Its place in the spec.
            first: The place of every draft, by its id.
            measures: By name.
        """
        weights = {label: measures[label].weights(draft.parts, None)[0] for label, draft in self.drafts.items()}
        return [Term(query, label, ((first[draft.id], weights[label]),)) for label, draft in self.drafts.items()]


def lowered_series(
    spec: ReleaseSpec,
    catalog: Catalog,
    groupings: Mapping[str, Grouping],
    measures: Mapping[str, Mapping[str, Measure]],
) -> dict[str, LoweredSeries]:
    """The queries with a series, by name.

    Args:
        spec: That was loaded without a problem.
        catalog: The catalog of the same spec.
        groupings: Of each query its rows and cells.
        measures: Of each query its measures, as they are planned.
    """
    relation, period = spec.privacy.neighboring, spec.release.period
    return {
        name: _lowered(name, query, measures[name], groupings[name], catalog, relation, period)
        for name, query in spec.queries.items()
        if query.series is not None
    }


def _lowered(
    name: str,
    query: QuerySpec,
    measures: Mapping[str, Measure],
    grouping: Grouping,
    catalog: Catalog,
    relation: Neighboring,
    period: str,
) -> LoweredSeries:
    series, kind, own = query.series, kind_of_period(period), span(period)
    if series is None or kind is None or own is None:
        raise ValueError("only a query with a series, of a period of the calendar, shares noise with other periods")
    year = PERIODS_OF_A_YEAR.get(kind)
    band = band_of(series, year or 1)
    planned = PlannedSeries(
        periods=periods(series.from_, kind, own[0]),
        sums=series.sums,
        band=band,
        year=year,
        minimize=series.minimize,
    )
    drafts = {}
    for label, measure in measures.items():
        (quantity,) = measure.quantities(catalog.tables[grouping.table])
        answers = (Answer(query=name, measure=label),)
        one = additive(f"{name}.{label}", grouping, quantity, answers, catalog, Neighboring.ADD_REMOVE)
        replaced = relation is Neighboring.REPLACE_ONE
        reach = band.reach(one.sensitivity, replaced=replaced, signed=quantity.contribution[0] < 0)
        part = Fraction(1, len(measures))
        drafts[label] = replace(one, sensitivity=reach, series=planned.draw, part=part)
    compare = {
        sum_name(label, which): ComparedNumber(measure=label, sum_of=which)
        for label in measures
        for which in series.sums
    }
    return LoweredSeries(planned, drafts, compare)
