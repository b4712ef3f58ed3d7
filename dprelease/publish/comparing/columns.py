"""Further columns of a query that compare its numbers, put behind its measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedMeasure, PublishedTable, statuses
from dprelease.estimate.figures import ShowRules
from dprelease.measures import Possible
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.measures.comparing.distances import stand_out
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.base import number_names
from dprelease.publish.comparing.earlier import EarlierRelease, period_of
from dprelease.publish.comparing.figures import figures_of
from dprelease.publish.comparing.levels import Levels
from dprelease.publish.comparing.rows import ComparedRows
from dprelease.publish.comparing.series import held_back, period_sums
from dprelease.publish.measured import Inputs

__all__ = ["compared_tables"]

Floats = npt.NDArray[np.float64]


def compared_tables(
    plan: ReleasePlan,
    tables: Sequence[PublishedTable],
    inputs: Inputs,
    earlier: Mapping[str, EarlierRelease],
) -> tuple[PublishedTable, ...]:
    """The queries of a plan with the columns that compare their numbers.

    Args:
        plan: That was measured.
        tables: Its queries as they are estimated, or some of them.
        inputs: What was measured.
        earlier: By period, the releases that it looks back to; of one that is not there the columns are blank.
    """
    queries = {query.name: query for query in plan.queries}
    if not any(query.compare for query in queries.values()):
        return tuple(tables)
    looked = {period_of(plan, each) for query in queries.values() for each in query.compare.values()}
    known = {period: (each.plan, each.inputs) for period, each in earlier.items() if period in looked}
    return tuple(
        _with_columns(plan, queries[table.name], table, inputs, known) if queries[table.name].compare else table
        for table in tables
    )


def _with_columns(
    plan: ReleasePlan,
    query: PlannedQuery,
    table: PublishedTable,
    inputs: Inputs,
    known: Mapping[str, tuple[ReleasePlan, Inputs]],
) -> PublishedTable:
    if query.series is not None and len(table.measures) > len(query.measures):
        return table  # made of combinations of cells, whose sums are made with it
    if query.series is not None:
        return replace(table, measures=(*table.measures, *period_sums(plan, query, table, inputs)))
    now = Levels.of(plan, query, inputs)
    before: dict[str, Levels] = {}
    for period, (other, measured) in known.items():
        same = next((each for each in other.queries if each.name == query.name), None)
        if same is not None and any(period_of(plan, each) == period for each in query.compare.values()):
            before[period] = Levels.of(other, same, measured)
    shown = {each.name: each for each in table.measures}
    made: list[_Made] = []
    for name in (each for each in number_names(plan, query) if each in query.compare):
        asked = query.compare[name]
        looked = period_of(plan, asked)
        figures = figures_of(asked, now, before.get(looked or ""), table)
        if asked.index_to is not None and looked == plan.release.period:
            figures = _at_the_base(table.cells)
        made.append((name, asked, looked, figures))
    alike = _alike_together(made, shown, plan.publish.confidence)
    columns = [_column(plan, *each, shown[each[1].measure], alike[each[0]]) for each in made]
    return replace(table, measures=(*table.measures, *columns))


_Made = tuple[str, ComparedNumber, str | None, ComparedRows]


def _alike_together(
    made: Sequence[_Made], shown: Mapping[str, PublishedMeasure], confidence: Fraction
) -> dict[str, npt.NDArray[np.bool_]]:
    """By column, which changes and differences noise alone may have made; all pairs of groups are judged together."""
    families: dict[tuple[str, bool], list[_Made]] = {}
    for each in made:
        families.setdefault((each[1].among or each[0], each[1].among is not None), []).append(each)
    found: dict[str, npt.NDArray[np.bool_]] = {}
    for family in families.values():
        blank = [np.isnan(figures.value) | np.isnan(shown[asked.measure].value) for _, asked, _, figures in family]
        judged = _alike([figures for *_, figures in family], blank, confidence)
        found |= {name: each for (name, *_), each in zip(family, judged, strict=True)}
    return found


def _at_the_base(rows: int) -> ComparedRows:
    """An index is 100 in its base period, by definition."""
    full, none = np.full(rows, 100.0), np.zeros(rows)
    return ComparedRows(full, none, full, full)


def _column(
    plan: ReleasePlan,
    name: str,
    asked: ComparedNumber,
    period: str | None,
    found: ComparedRows,
    own: PublishedMeasure,
    apart: npt.NDArray[np.bool_],
) -> PublishedMeasure:
    """A number that is blank where the one that it compares is not published either."""
    blank = np.isnan(found.value) | np.isnan(own.value)
    publish = plan.publish
    lower, upper = found.lower, found.upper
    margin = np.fmax(found.value - lower, upper - found.value)
    unreliable = caution = np.zeros(blank.shape, dtype=bool)
    alike = None
    if asked.kind in ("share", "index"):
        rules = ShowRules(publish.unreliable_above, publish.unreliable_show, False, publish.figures)
        whole = asked.whole if asked.kind == "share" else 1
        bounds: Possible = (Fraction(0), Fraction(1)) if asked.kind == "share" else (Fraction(0), None)
        value, off, low, high = (each / whole for each in (found.value, margin, lower, upper))
        caution, unreliable, hidden = rules.judged(value, off, low, high, bounds, blank, counts=False)
    else:
        hidden, alike = blank, apart
    whole_steps = asked.kind in ("change", "difference") and own.integer and own.places == 0

    def shown(numbers: Floats) -> Floats:
        return held_back(numbers, hidden)

    return PublishedMeasure(
        name=name,
        measure=None,
        value=shown(found.value),
        standard_error=shown(found.error),
        margin=shown(margin),
        lower=shown(lower),
        upper=shown(upper),
        status=statuses(blank, unreliable, caution, alike),
        places=0 if whole_steps else None,
        integer=whole_steps,
        tested=True,
        held=publish.figures is not None,
        p_value=None if found.p_value is None else shown(found.p_value),
        compared=asked if period is None else asked.at(period),
        never=found.never,
    )


def _alike(
    found: Sequence[ComparedRows], blank: Sequence[npt.NDArray[np.bool_]], confidence: Fraction
) -> list[npt.NDArray[np.bool_]]:
    """Which changes or differences of columns that are judged together noise alone may have made.

    By p-values with at most the error probability of the margins as the part of all that are told apart which noise
    alone has made; where no law gives p-values, by whether the interval of each by itself holds 0. (That a pair of
    groups is there twice, once from either side, changes nothing: every p-value is.)
    """
    tested = [each.p_value for each in found if each.p_value is not None]
    if len(tested) < len(found):
        with np.errstate(invalid="ignore"):
            return [
                np.asarray(~hidden & ~((each.lower > 0) | (each.upper < 0)))
                for each, hidden in zip(found, blank, strict=True)
            ]
    p_values = [np.where(hidden, np.nan, each) for each, hidden in zip(tested, blank, strict=True)]
    told = stand_out(np.stack(p_values), float(1 - confidence))
    return [np.asarray(~hidden & ~each) for each, hidden in zip(told, blank, strict=True)]
