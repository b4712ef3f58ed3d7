"""Draws of a series over periods, derived again: its periods, how far one unit can move all draws, how much sums err.

Nothing here is shared with ``catalog.series`` or ``estimate.series`` but the claim. The matrix of all draws is written
out, a column is added up entry by entry, for a series that is longer than any unit can tell; sums are solved for in
doubles. Of a unit that another one replaces both are looked at, each as it comes or goes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dprelease.measures import Measure
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.plan.document import Output, PlannedQuery, PlannedSeries, ReleasePlan, Step
from dprelease.plan.verify.factor import one_unit_comes, worst_of_sums
from dprelease.plan.verify.reach import bounds_of, cells_of_step, ends_of, heaviest, require
from dprelease.plan.verify.residual import one_unit_comes_to_residual
from dprelease.plan.verify.units import derived
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["check_shared", "check_shared_step", "check_sums", "check_table_of_series"]

_MOST_PERIODS, _LEAST, _MOST = 24, 2**10, 2**20
_LARGEST, _LEAST_COUNT = 2**61, 2**32
_TOLERANCE = 1e-9
_LONGEST_TOTAL = 128
_FADED = 2000  # terms of a power series

Reals = npt.NDArray[np.float64]


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
    plain = set(workload.post) <= {"consistent"} and not workload.levels and not workload.goal.targets
    require(plain and workload.name not in plan.catalog.zeros, f"{query.name} is a series and more")
    return taken


def _check_periods(plan: ReleasePlan, query: PlannedQuery, series: PlannedSeries) -> None:
    """The periods follow one another by the days of the calendar, and the last one is the release's own."""
    require(len(series.periods) >= 1, f"{query.name} is a series of no periods")
    require(series.periods[-1] == plan.release.period, f"{query.name} is of a series that ends with another period")
    days = [_days(each) for each in series.periods]
    total = any(each.sum_of == "total" for each in query.compare.values())
    within = series.horizon is not None and len(days) + len(series.skipped) <= series.horizon <= _LONGEST_TOTAL
    require(within == total or (not total and series.horizon is None), f"{query.name} goes on beyond its end")
    whole = sorted((*days, *map(_days, series.skipped)))
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


def _days(period: str) -> tuple[date, date]:
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


def check_sums(plan: ReleasePlan, query: PlannedQuery, told: Mapping[tuple[str, str], Output]) -> None:
    """The accuracy of every period and every sum of a series, worked out by solving with its matrix.

    Raises:
        BrokenPromiseError: If one is told to be more accurate than it is.
    """
    series = query.series
    assert series is not None  # noqa: S101 - asked for by the caller
    if query.workload is not None:
        return  # :func:`check_table_of_series`
    periods, matrix = len(series.periods), _matrix(series)
    numbers = {**dict.fromkeys(query.measures), **query.compare}
    for label, asked in numbers.items():
        name, output = f"{query.name}.{label}", told[query.name, label]
        require(label not in query.by, f"{name} has the name of a column")
        measure = label if asked is None else asked.measure
        require(measure in query.measures, f"{name} sums a measure that is not there")
        require(query.ranges is None or not query.goal.targets, f"{query.name} has targets of sums along a column")
        steps = [plan.step(feed.step) for feed in query.inputs[measure]]
        own = output.steps == tuple(dict.fromkeys(step.id for step in steps))
        require(own and output.table == query.table, f"{name} is told of other steps")
        length = 1 if asked is None else _length(series, asked)
        blank = length is None or length > periods
        _check_target(plan, query, label, steps, output)
        if blank or length is None or len(steps) == 1:
            told_so = blank == (output.standard_error is None)
            require(told_so, f"{name} is told of periods before the first, or not at all")
        if blank or length is None:
            continue
        if len(steps) > 1:
            _check_quotient(plan, query, output, measure, _error(matrix, length), length)
            continue
        error = float(steps[0].scale * steps[0].parts[0].grid) * _error(matrix, length)
        if query.ranges is not None:  # of the sum along the column that errs most
            error *= math.sqrt(worst_of_sums(plan, query, steps[0]))
        require(float(output.standard_error or 0) >= error * (1 - _TOLERANCE), f"{name} is told too accurate")
        normal = NormalDist().inv_cdf(1 - float(1 - plan.publish.confidence) / 2)
        require(float(output.margin or 0) >= normal * error * (1 - 1e-6), f"{name} is told too small a margin")


def _matrix(series: PlannedSeries) -> Reals:
    """Of all draws of a series, written out."""
    periods = len(series.periods)
    matrix = np.zeros((periods, periods))
    for later, each in enumerate(series.band.coefficients[:periods]):
        matrix += np.diag([float(each)] * (periods - later), -later)
    return matrix


def check_table_of_series(plan: ReleasePlan, query: PlannedQuery, worst: float) -> None:
    """A table of a workload, of one period and of several: of its worst cell.

    All draws are estimated from those of all periods with the same weights, so that variances of what is linear in them
    are multiplied by the same number.

    Args:
        plan: The plan.
        query: The table.
        worst: The variance of its worst cell, if each draw were of one period alone.

    Raises:
        BrokenPromiseError: If one is told to be more accurate than it is.
    """
    series = query.series
    assert series is not None  # noqa: S101 - asked for by the caller
    normal, matrix = NormalDist().inv_cdf(1 - float(1 - plan.publish.confidence) / 2), _matrix(series)
    for output in (each for each in plan.outputs if each.query == query.name):
        name, asked = f"{query.name}.{output.measure}", query.compare.get(output.measure)
        require(output.measure not in query.by, f"{name} has the name of a column")
        length = 1 if asked is None else _length(series, asked)
        require((length is None) == (output.standard_error is None), f"{name} is told of other periods")
        if length is None:
            continue
        error = math.sqrt(worst) * _error(matrix, length)
        require(float(output.standard_error or 0) >= error * (1 - _TOLERANCE), f"{name} is told too accurate")
        require(float(output.margin or 0) >= normal * error * (1 - 1e-6), f"{name} is told too small a margin")


def _check_target(plan: ReleasePlan, query: PlannedQuery, name: str, steps: Sequence[Step], output: Output) -> None:
    """A target is met by the period as it is told, and by a count or a sum of every period that will ever come.

    By the power series of 1 / c(z), far beyond where it has faded: the noise of a later period is not less.
    """
    target, series, asked = query.goal.targets.get(name), query.series, query.compare.get(name)
    if target is None or series is None:
        return
    met = output.margin is None or Fraction(output.margin) <= target
    require(met, f"{query.name}.{name} misses its target")
    if len(steps) > 1:
        return
    whole = {"ytd": series.year, "total": series.horizon}
    length = 1 if asked is None else whole.get(str(asked.sum_of), asked.sum_of)
    weights = [1.0 / series.band.coefficients[0]]
    for _ in range(_FADED):
        ahead = zip(series.band.coefficients[1:], reversed(weights), strict=False)
        weights.append(-sum(each * known for each, known in ahead) / series.band.coefficients[0])
    sums = np.convolve(weights, np.ones(int(length or 1)))[: len(weights)]
    require(abs(sums[-1]) < 1e-12 * abs(weights[0]), f"{query.name} has a series whose errors never settle")
    error = float(steps[0].scale * steps[0].parts[0].grid) * math.sqrt(float(sums @ sums))
    normal = NormalDist().inv_cdf(1 - float(1 - plan.publish.confidence) / 2)
    require(normal * error <= float(target) * (1 + 1e-6), f"{query.name}.{name} will miss its target")


def _check_quotient(
    plan: ReleasePlan, query: PlannedQuery, output: Output, label: str, factor: float, length: int
) -> None:
    """A mean or a ratio of the last periods together, to first order, at the worst one that is possible.

    Its noise is that of A' - r B' over B, for numbers A' and B' of two draws: with r an end of the clip, less its
    centre, for a mean, and of a part of a whole between 0 and 1. A ratio of two numbers of which nothing is known
    has no error that the plan could tell.
    """
    name, measure = f"{query.name}.{output.measure}", query.measures[label]
    above, below = (plan.step(feed.step) for feed in query.inputs[label])
    rows = _rows_expected(query, label)
    ends = _quotient_ends(measure, above, below)
    if rows is None or ends is None:
        require(output.standard_error is None, f"{name} is told an error that depends on the data")
        return
    spreads = [float(each.scale * each.parts[0].grid) * factor for each in (above, below)]
    same = above.id == below.id
    sizes = [abs(1 - end) * spreads[0] if same else math.hypot(spreads[0], float(end) * spreads[1]) for end in ends]
    error = max(sizes) / (rows * length) * measure.whole
    require(float(output.standard_error or 0) >= error * (1 - _TOLERANCE), f"{name} is told too accurate")
    normal = NormalDist().inv_cdf(1 - float(1 - plan.publish.confidence) / 2)
    widest = float(max(ends) - min(ends)) * measure.whole
    least = min(normal * error * (1 - 1e-6), widest)
    require(float(output.margin or 0) >= least * (1 - 1e-6), f"{name} is told too small a margin")


def _quotient_ends(measure: Measure, above: Step, below: Step) -> tuple[Fraction, Fraction] | None:
    """Between which numbers A / B lies, in the units of the column; None: nothing is known, as where weights differ."""
    quantity = above.parts[0]
    if quantity.weight != below.parts[0].weight:
        return None
    if measure.kind == "mean":
        return quantity.step * (quantity.low - quantity.centre), quantity.step * (quantity.high - quantity.centre)
    upper, lower = measure.made_of
    if upper.kind == lower.kind == "count":
        same = lower.counted in ("rows", upper.counted) or getattr(measure, "implied", False)
        return (Fraction(0), Fraction(1)) if same and lower.where in (None, upper.where) else None
    if (upper.kind, lower.kind) == ("sum", "count"):
        return quantity.step * quantity.low, quantity.step * quantity.high
    return None


def _rows_expected(query: PlannedQuery, label: str) -> int | None:
    """The guess of rows of a cell in one period that is meant for a measure: for what it divides by, or the first."""
    measure = query.measures[label]
    over = measure.made_of[-1].counted if measure.kind == "ratio" else measure.target
    meant = (guess for name, guess in query.expect.items() if name in query.measures)
    own = (
        guess for name, guess in query.expect.items() if name in query.measures and query.measures[name].counted == over
    )
    return next(own, next(meant, None))


def _length(series: PlannedSeries, asked: ComparedNumber) -> int | None:
    """Of how many periods a sum is, counted back to the one that begins a year; None: one of them is not there."""
    after = _days(series.periods[-1])[1]
    for back, each in enumerate(reversed(series.periods), 1):
        days = _days(each)
        if days[1] != after:
            return None
        after = days[0]
        begins = asked.sum_of == "ytd" and (days[0].month, days[0].day) == (1, 1)
        begins = begins or (asked.sum_of == "total" and back == len(series.periods))
        if begins or asked.sum_of == back:
            return back
    return None


def _error(matrix: Reals, length: int) -> float:
    """The standard error of the sum of the last periods for noise of variance 1: the root of s' C^-1 C'^-1 s."""
    wanted = np.zeros(len(matrix))
    wanted[-length:] = 1.0
    solved = np.linalg.solve(matrix.T, wanted)
    return math.sqrt(float(solved @ solved))
