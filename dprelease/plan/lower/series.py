"""From a query whose periods share their noise to its draws: one for each quantity, of the last periods together.

A mean is made of two quantities, and a ratio of those of its two measures: each is one draw for the whole query, and so
one series, from which every sum of periods is made that a measure needs (``estimate.series``).

The charge of a release is that of all draws that its period will ever be in: how far a unit can move the table of its
period, times the square of the band (``catalog.series.band``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.series.band import sum_name
from dprelease.catalog.table import Catalog
from dprelease.measures import Measure
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.plan.document import Answer, Feed
from dprelease.plan.document.series import PlannedSeries
from dprelease.plan.lower.lowered import Published, Term
from dprelease.plan.lower.lowered_workload import LoweredWorkload
from dprelease.plan.lower.step_ids import step_id, word
from dprelease.plan.lower.unscaled import UnscaledStep, additive
from dprelease.plan.resolve.comparisons import compared_numbers
from dprelease.plan.resolve.grouping import expected_rows
from dprelease.privacy.unit import Neighboring
from dprelease.spec.checks.series import PERIODS_OF_A_YEAR, band_of, kind_of_period, skipped_by
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec
from dprelease.spec.fields.series import SeriesSpec
from dprelease.spec.period import periods, span

__all__ = [
    "LoweredSeries",
    "drawn_in_series",
    "further_numbers",
    "lowered_series",
    "planned_series",
    "workload_in_series",
]


@dataclass(frozen=True)
class LoweredSeries:
    """A query whose periods share their noise, before its noise is chosen.

    Attributes:
        planned: What the plan says of it.
        drafts: What is drawn, one for each quantity.
        fed: By measure, the places of its drafts, in the order in which it takes them.
    """

    planned: PlannedSeries
    drafts: tuple[UnscaledStep, ...]
    fed: Mapping[str, tuple[int, ...]]

    @property
    def inputs(self) -> dict[str, tuple[Feed, ...]]:
        """What feeds every measure."""
        return {label: tuple(Feed(step=self.drafts[at].id) for at in places) for label, places in self.fed.items()}

    def terms(
        self, query: int, first: Mapping[str, int], asked: QuerySpec, measures: Mapping[str, Measure]
    ) -> list[Term]:
        """What planning sees of its measures: of each the period itself.

        Args:
            query: Its place in the spec.
            first: The place of every draft of the release, by its id.
            asked: The query as written.
            measures: By name.
        """
        found = []
        for label, places in self.fed.items():
            measure, drafts = measures[label], [self.drafts[at] for at in places]
            quantities = tuple(draft.aggregate.quantity for draft in drafts)
            at, count = tuple(first[draft.id] for draft in drafts), expected_rows(asked.expect, measures, label)
            used = tuple(zip(at, measure.weights(quantities, count), strict=True))
            published = None if measure.by_weights else Published(measure, quantities, at, count)
            found.append(Term(query, label, used, published))
        return found


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
    return {
        name: _lowered(name, query, measures[name], groupings[name], catalog, spec)
        for name, query in spec.queries.items()
        if query.series is not None and query.ranges is None and query.marginals is None
    }


def planned_series(spec: ReleaseSpec, query: QuerySpec) -> PlannedSeries | None:
    """What the plan says of a query with a series; None: it has none.

    Args:
        spec: That was loaded without a problem.
        query: One of its queries.

    Raises:
        ValueError: The release is of no period of the calendar.
    """
    period = spec.release.period
    series, kind, own = query.series, kind_of_period(period), span(period)
    if series is None:
        return None
    if kind is None or own is None:
        raise ValueError("only a query of a period of the calendar shares noise with other periods")
    year = PERIODS_OF_A_YEAR.get(kind)
    every = periods(series.from_, kind, own[0])
    skipped = tuple(each for each in every if each in skipped_by(spec, series))
    return PlannedSeries(
        periods=tuple(each for each in every if each not in skipped),
        skipped=skipped,
        sums=series.sums,
        band=band_of(series, year or 1),
        year=year,
        minimize=series.minimize,
        horizon=series.horizon,
    )


def drawn_in_series(draft: UnscaledStep, series: PlannedSeries, relation: Neighboring) -> UnscaledStep:
    """A draw of combinations of cells as that of a series: of the same combinations of the last tables together.

    Combinations can be of either sign, so that two units that take one another's place may pull alike.

    Args:
        draft: Whose sensitivity is that of one unit that comes or goes.
        series: Of its query.
        relation: Which tables are neighbours.
    """
    replaced = relation is Neighboring.REPLACE_ONE
    reach = series.band.reach(draft.sensitivity, replaced=replaced, signed=True)
    return replace(draft, sensitivity=reach, series=series.draw)


def _lowered(
    name: str,
    query: QuerySpec,
    measures: Mapping[str, Measure],
    grouping: Grouping,
    catalog: Catalog,
    spec: ReleaseSpec,
) -> LoweredSeries:
    series, planned = query.series, planned_series(spec, query)
    if series is None or planned is None:
        raise ValueError("only a query with a series shares noise with other periods")
    needed = {label: measure.quantities(catalog.tables[grouping.table]) for label, measure in measures.items()}
    places = {each: at for at, each in enumerate(dict.fromkeys(each for taken in needed.values() for each in taken))}
    drafts, names, replaced = [], set[str](), spec.privacy.neighboring is Neighboring.REPLACE_ONE
    for quantity in places:
        labels = [label for label, quantities in needed.items() if quantity in quantities]
        alone = len(needed[labels[0]]) == 1
        step = step_id(name, labels[0] if alone else f"{labels[0]}-{word([quantity])}", names)
        answers = tuple(Answer(query=name, measure=label) for label in labels)
        one = additive(step, grouping, quantity, answers, catalog, Neighboring.ADD_REMOVE)
        reach = planned.band.reach(one.sensitivity, replaced=replaced, signed=quantity.contribution[0] < 0)
        drafts.append(replace(one, sensitivity=reach, series=planned.draw, part=_part(quantity, needed)))
    fed = {label: tuple(places[each] for each in quantities) for label, quantities in needed.items()}
    return LoweredSeries(planned, tuple(drafts), fed)


def _part(quantity: Quantity, needed: Mapping[str, tuple[Quantity, ...]]) -> Fraction:
    """Of the query's budget. A measure divides its part evenly: both halves then move it alike, at its worst."""
    of_each = (Fraction(taken.count(quantity), len(needed) * len(taken)) for taken in needed.values())
    return sum(of_each, Fraction(0))


def further_numbers(
    name: str, query: QuerySpec, catalog: Catalog, measures: Mapping[str, Measure]
) -> dict[str, ComparedNumber]:
    """The further numbers of a query: the sums of its series, or what compares its measures."""
    if query.series is not None:
        return _sums(query.series, measures)
    return compared_numbers(name, query, catalog, measures)


def _sums(series: SeriesSpec, measures: Mapping[str, Measure]) -> dict[str, ComparedNumber]:
    """The sums of every measure; of a percentage in percent, too."""
    return {
        sum_name(label, which): ComparedNumber(
            measure=label, sum_of=which, show="percent" if each.whole == 100 else None
        )
        for label, each in measures.items()
        for which in series.sums
    }


def workload_in_series(lowered: LoweredWorkload, query: QuerySpec, spec: ReleaseSpec) -> LoweredWorkload:
    """A workload as one of a series: its draws are those of the last periods together, its tables have sums."""
    series, first = planned_series(spec, query), lowered.queries[0]
    if series is None or query.series is None:
        raise ValueError("only a query with a series shares noise with other periods")
    told = {"series": series, "compare": _sums(query.series, first.measures)}
    drafts = tuple(drawn_in_series(each, series, spec.privacy.neighboring) for each in lowered.drafts)
    return replace(
        lowered,
        queries=tuple(each.model_copy(update=told) for each in lowered.queries),
        drafts=drafts,
        column=drafts[0].sensitivity.l2_squared / lowered.drafts[0].sensitivity.l2_squared,
    )
