"""Draws of a series over periods, derived again: its periods, and how far one unit can move all draws.

Nothing here is shared with ``catalog.series`` but the claim. The matrix of all draws is written out, a column is added
up entry by entry, for a series that is longer than any unit can tell. Of a unit that another one replaces both are
looked at, each as it comes or goes.
"""

from __future__ import annotations

from datetime import date, timedelta
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dprelease.plan.document import PlannedQuery, PlannedSeries, ReleasePlan, Step
from dprelease.plan.verify.factor import one_unit_comes
from dprelease.plan.verify.reach import bounds_of, cells_of_step, ends_of, heaviest, require
from dprelease.plan.verify.residual import one_unit_comes_to_residual
from dprelease.plan.verify.units import derived
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["check_shared", "check_shared_step", "days_of"]

_MOST_PERIODS, _LEAST, _MOST = 24, 2**10, 2**20
_LARGEST, _LEAST_COUNT = 2**61, 2**32
_LONGEST_TOTAL = 128


def check_shared_step(plan: ReleasePlan, step: Step) -> None:
    """Derive the sensitivity of all draws of a series together again, for a step that is one of them.

    Raises:
        BrokenPromiseError: If the step claims anything else, or is no plain count or sum behind discrete Gaussian
            noise whose exact numbers fit into 61 bits.
    """
    require(step.series is not None, f"{step.id} is no draw of a series")
    assert step.series is not None  # noqa: S101 - just required
    numbers, aggregate = step.series.band.coefficients, step.aggregate
    require(
        1 <= len(numbers) <= _MOST_PERIODS and numbers[0] >= 1, f"{step.id} weights periods in no way that is known"
    )
    require(max(map(abs, numbers)) <= _MOST, f"{step.id} weights periods by huge numbers")
    require(step.mechanism == "discrete_gaussian", f"{step.id} is of a series behind another noise than planned for it")
    others = (step.joined, step.gauge, step.choosing, step.selecting, step.pieces)
    more = (step.common, step.clipped_by, step.above, step.tables)
    require(not any((*others, *more)) and not step.replaced, f"{step.id} is of a series and of another kind, too")
    require(not aggregate.private and aggregate.excluding is None, f"{step.id} is of a series without all of its cells")
    unbounded = aggregate.max_groups is None and aggregate.max_rows_per_group is None
    require(unbounded, f"{step.id} is of a series and leaves out other rows at every reading")
    quantity = aggregate.quantity
    known = quantity.kind in ("rows", "nonnull", "units", "sum") and quantity.chosen is None
    require(known, f"{step.id} is of a series and neither a count nor a sum")
    require(step.cells == cells_of_step(plan, aggregate), f"{step.id} has another number of cells")
    growth = sum(map(abs, numbers))
    once = quantity.kind == "units" or quantity.per == "unit_cell"
    ends = [heaviest(plan, step, quantity) * end for end in ends_of(quantity)]  # a row that weighs w is w rows
    one = derived(bounds_of(plan, aggregate, once), min(ends), max(ends), Neighboring.ADD_REMOVE)
    signed = min(ends) < 0
    if step.factor is not None:  # combinations of cells, which may be of either sign
        one, row_sum = one_unit_comes(plan, step)
        growth, signed = growth * row_sum, True
    if step.residual is not None:
        one, row_sum = one_unit_comes_to_residual(plan, step)
        growth *= row_sum
    signed = signed or step.id in {take.step for each in plan.workloads for take in each.takes}
    found = _of_a_column(numbers, one, plan.neighboring, signed=signed)
    require(step.sensitivity == found, f"{step.id} claims another sensitivity than the column of its period has")
    require(found.l2_squared >= one.l2_squared * _LEAST**2, f"{step.id} has a lattice that is too coarse")
    require(_LEAST_COUNT * growth <= _LARGEST, f"{step.id} would clamp small numbers")
    require(_LARGEST + 11 * step.scale <= 2**63 - 1, f"{step.id} has noise that does not fit into 64 bits")


def _of_a_column(numbers: tuple[int, ...], one: Sensitivity, relation: Neighboring, *, signed: bool) -> Sensitivity:
    """The norms of a column of the matrix times those of one table; of two units as far as they can pull alike."""
    periods = len(numbers)
    matrix = np.zeros((2 * periods, periods), dtype=object)
    for period in range(periods):
        for later, each in enumerate(numbers):
            matrix[period + later, period] = each
    column = [int(each) for each in matrix[:, periods - 1] if each]
    squares, sizes, largest = sum(each**2 for each in column), sum(map(abs, column)), max(map(abs, column))
    if relation is Neighboring.ADD_REMOVE:
        times = (1, 1, 1)
    else:  # (a + b)^2 of two units that pull alike, a^2 + b^2 of two that cannot
        alike = signed or any(each < 0 for each in column)
        times = (2, 4 if alike else 2, 2 if alike else 1)
    return Sensitivity(
        l0=times[0] * one.l0 * len(column),
        l1=times[0] * sizes * one.l1,
        l2_squared=times[1] * squares * one.l2_squared,
        linf=Fraction(times[2] * largest * one.linf),
    )


def check_shared(plan: ReleasePlan) -> None:
    """Every query with a series is fed by draws of that very series, of rows with a time; and no other query is.

    Raises:
        BrokenPromiseError: Saying what does not hold.
    """
    fed: set[str] = set()
    for query in plan.queries:
        if query.series is None:
            require(not any(each.sum_of for each in query.compare.values()), f"{query.name} sums periods of no series")
            continue
        _check_periods(plan, query, query.series)
        odd = (query.ranking, query.selection, query.totals, query.suppress_below)
        require(not any(odd) and not query.private and query.excluding is None, f"{query.name} is a series and more")
        wanted = {(label, which) for label in query.measures for which in query.series.sums}
        told = {(each.measure, each.sum_of) for each in query.compare.values()}
        require(told == wanted and len(query.compare) == len(wanted), f"{query.name} has other sums than its series")
        table = plan.catalog.tables[query.table]
        require(table.time is not None, f"{query.name} is a series of rows that have no time")
        require(not table.private_joins, f"{query.name} is a series of rows that are joined with others")
        sampled = table.unit_id is not None and table.bounds is not None and table.bounds.truncate == "sample"
        require(not sampled, f"{query.name} is a series of which another sample stays at every reading")
        if query.workload is not None:
            fed |= _fed_to_workload(plan, query)
            continue
        for label, measure in query.measures.items():
            parts = measure.made_of if measure.kind == "ratio" else (measure,)
            plain = all(each.kind in ("count", "sum") for each in parts) or measure.kind == "mean"
            require(plain, f"{query.name}.{label} is no count, sum or mean and no ratio of counts and sums")
            feeds = [plan.step(feed.step) for feed in query.inputs[label]]
            wanted_feeds = 1 if measure.kind in ("count", "sum") else 2
            same = len(feeds) == wanted_feeds and all(feed.part == 0 for feed in query.inputs[label])
            same = same and all(each.series == query.series.draw and not each.joined for each in feeds)
            require(same, f"{query.name}.{label} is fed by no draw of its series, or by one of several numbers")
            fed |= {each.id for each in feeds}
    require(
        fed == {step.id for step in plan.steps if step.series is not None}, "a draw of a series feeds something else"
    )
    require(not fed or not plan.release.revisions, "a series has planned revisions, whose draws nobody has charged")
    entities = plan.unit.entity == "row" or plan.unit.per is not None
    require(not fed or entities, f"a series is of units of one period, and {plan.unit} may have rows in all of them")


def _fed_to_workload(plan: ReleasePlan, query: PlannedQuery) -> set[str]:
    """The draws of a table of a workload, all of which are those of its series, and nothing of which is moved after."""
    (workload,) = (each for each in plan.workloads if each.name == query.workload)
    taken = {take.step for take in workload.takes}
    drawn = [step for step in plan.steps if step.id in taken]
    same = len(drawn) == len(taken) and query.series is not None
    same = same and all(step.series == query.series.draw for step in drawn if query.series is not None)
    require(same, f"{query.name} is made of something else than draws of its series")
    plain = set(workload.post) <= {"consistent"} and not workload.levels
    require(plain and workload.name not in plan.catalog.zeros, f"{query.name} is a series and more")
    return taken


def _check_periods(plan: ReleasePlan, query: PlannedQuery, series: PlannedSeries) -> None:
    """The periods follow one another by the days of the calendar, and the last one is the release's own."""
    require(len(series.periods) >= 1, f"{query.name} is a series of no periods")
    require(series.periods[-1] == plan.release.period, f"{query.name} is of a series that ends with another period")
    days = [days_of(each) for each in series.periods]
    total = any(each.sum_of == "total" for each in query.compare.values())
    within = series.horizon is not None and len(days) + len(series.skipped) <= series.horizon <= _LONGEST_TOTAL
    require(within == total or (not total and series.horizon is None), f"{query.name} goes on beyond its end")
    whole = sorted((*days, *map(days_of, series.skipped)))
    one_after_the_other = all(before[1] == after[0] for before, after in pairwise(whole)) and days == sorted(days)
    ends = (whole[0], whole[-1]) == (days[0], days[-1])
    kinds = {_kind(first, last) for first, last in whole}
    in_order = one_after_the_other and ends and len(kinds) == 1
    require(in_order, f"{query.name} is of periods that do not follow one another")
    year = {"month": 12, "quarter": 4}.get(kinds.pop())
    require(series.year == year, f"{query.name} is of a series with another year")
    per = plan.unit.per
    kind = _kind(*days[-1])
    require(per in (None, kind), f"{query.name} is a series of {kind}s for units of one {per}")
    read = plan.catalog.tables[query.table].time
    own = read is not None and (read.start, read.end) == days[-1]
    require(own, f"{query.name} is of rows of another period")


def days_of(period: str) -> tuple[date, date]:
    """The first day of a period, and the first one after it, from its digits."""
    year, _, rest = period.partition("-")
    if not rest:
        return date(int(year), 1, 1), date(int(year) + 1, 1, 1)
    if rest.startswith("Q"):
        first = date(int(year), 3 * int(rest[1:]) - 2, 1)
        return first, _later(first, 3)
    if rest.startswith("W"):
        monday = (
            date(int(year), 1, 4) - timedelta(days=date(int(year), 1, 4).weekday()) + timedelta(weeks=int(rest[1:]) - 1)
        )
        return monday, monday + timedelta(days=7)
    if "-" in rest:
        day = date.fromisoformat(period)
        return day, day + timedelta(days=1)
    first = date(int(year), int(rest), 1)
    return first, _later(first, 1)


def _later(first: date, months: int) -> date:
    over = first.month - 1 + months
    return date(first.year + over // 12, over % 12 + 1, 1)


def _kind(first: date, after: date) -> str:
    length = (after - first).days
    named = {1: "day", 7: "week"}.get(length)
    return named or ("month" if length <= 31 else "quarter" if length <= 92 else "year")
