"""How much periods of a series and sums of them err, derived again, and whether targets are met in all of them.

Nothing here is shared with ``estimate.series``. The matrix of all draws is written out and sums are solved for in
doubles; what a series without end has comes from the power series of 1 / c(z), far beyond where it has faded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dprelease.measures import Measure
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.plan.document import Output, PlannedQuery, PlannedSeries, ReleasePlan, Step
from dprelease.plan.verify.factor import worst_of_sums
from dprelease.plan.verify.reach import require
from dprelease.plan.verify.series.shared_noise import days_of

__all__ = ["check_sums", "check_table_of_series"]

_TOLERANCE = 1e-9
_FADED = 2000  # terms of a power series

Reals = npt.NDArray[np.float64]
Least = Callable[[float, int], tuple[float, float]] | None
"""By the error of a sum for noise of variance 1, and its length: least standard error and margin; None: unknown."""


def check_sums(plan: ReleasePlan, query: PlannedQuery, told: Mapping[tuple[str, str], Output]) -> None:
    """The accuracy of every period and every sum of a series, worked out by solving with its matrix.

    Raises:
        BrokenPromiseError: If one is told to be more accurate than it is, or misses a target or will miss it.
    """
    if query.workload is not None:
        return  # :func:`check_table_of_series`
    for label, asked in {**dict.fromkeys(query.measures), **query.compare}.items():
        name, output = f"{query.name}.{label}", told[query.name, label]
        measure = label if asked is None else asked.measure
        require(measure in query.measures, f"{name} sums a measure that is not there")
        steps = [plan.step(feed.step) for feed in query.inputs[measure]]
        own = output.steps == tuple(dict.fromkeys(step.id for step in steps))
        require(own and output.table == query.table, f"{name} is told of other steps")
        if len(steps) == 1:
            once = float(steps[0].scale * steps[0].parts[0].grid)
            if query.ranges is not None:  # of the sum along the column that errs most
                once *= math.sqrt(worst_of_sums(plan, query, steps[0]))
            least = _of_linear(plan, once)
        else:
            least = _of_quotient(plan, query, measure)
        _check(query, output, query.goal.targets.get(label), least)


def check_table_of_series(
    plan: ReleasePlan, query: PlannedQuery, worst: float, targets: Mapping[str, Fraction]
) -> None:
    """A table of a workload, of one period and of several: of its worst cell.

    All draws are estimated from those of all periods with the same weights, so that variances of what is linear in them
    are multiplied by the same number.

    Args:
        plan: The plan.
        query: The table.
        worst: The variance of its worst cell, if each draw were of one period alone.
        targets: Of the workload.

    Raises:
        BrokenPromiseError: If one is told to be more accurate than it is, or misses a target or will miss it.
    """
    for output in (each for each in plan.outputs if each.query == query.name):
        _check(query, output, targets.get(output.measure), _of_linear(plan, math.sqrt(worst)))


def _check(query: PlannedQuery, output: Output, target: Fraction | None, least: Least) -> None:
    """What is told of a number, and its target: by the period as it is told, and by every one that will ever come."""
    series, asked, name = query.series, query.compare.get(output.measure), f"{query.name}.{output.measure}"
    assert series is not None  # noqa: S101 - asked for by the caller
    require(output.measure not in query.by, f"{name} has the name of a column")
    met = target is None or output.margin is None or Fraction(output.margin) <= target
    require(met, f"{name} misses its target")
    length = 1 if asked is None else _length(series, asked)
    if length is None or least is None:
        right = "of periods that are not there" if length is None else "an error that depends on the data"
        require(output.standard_error is None, f"{name} is told {right}")
    else:
        require(output.standard_error is not None, f"{name} is told no error")
        error, margin = least(_error(_matrix(series), length), length)
        require(float(output.standard_error or 0) >= error * (1 - _TOLERANCE), f"{name} is told too accurate")
        require(float(output.margin or 0) >= margin, f"{name} is told too small a margin")
    if target is None or least is None:
        return
    for later, found in _errors_in_the_end(series, asked).items():
        require(least(found, later)[1] <= float(target) * (1 + 1e-6), f"{name} will miss its target")


def _of_linear(plan: ReleasePlan, once: float) -> Least:
    """Of a number that is linear in draws, with this standard error if it had the noise of one of them alone."""
    normal = _normal(plan)
    return lambda factor, _: (once * factor, normal * once * factor * (1 - 1e-6))


def _of_quotient(plan: ReleasePlan, query: PlannedQuery, label: str) -> Least:
    """A mean or a ratio of the last periods together, to first order, at the worst one that is possible.

    Its noise is that of A' - r B' over B, for numbers A' and B' of two draws: with r an end of the clip, less its
    centre, for a mean, and of a part of a whole between 0 and 1. A ratio of two numbers of which nothing is known
    has no error that the plan could tell.
    """
    measure = query.measures[label]
    above, below = (plan.step(feed.step) for feed in query.inputs[label])
    rows, ends = _rows_expected(query, label), _quotient_ends(measure, above, below)
    if rows is None or ends is None:
        return None
    once, normal = [float(each.scale * each.parts[0].grid) for each in (above, below)], _normal(plan)
    same = above.id == below.id
    sizes = [abs(1 - end) * once[0] if same else math.hypot(once[0], float(end) * once[1]) for end in ends]
    widest = float(max(ends) - min(ends)) * measure.whole

    def least(factor: float, length: int) -> tuple[float, float]:
        error = max(sizes) * factor / (rows * length) * measure.whole
        return error, min(normal * error * (1 - 1e-6), widest) * (1 - 1e-6)

    return least


def _normal(plan: ReleasePlan) -> float:
    """A margin of normal noise in its standard errors."""
    return NormalDist().inv_cdf(1 - float(1 - plan.publish.confidence) / 2)


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
    after = days_of(series.periods[-1])[1]
    for back, each in enumerate(reversed(series.periods), 1):
        days = days_of(each)
        if days[1] != after:
            return None
        after = days[0]
        begins = asked.sum_of == "ytd" and (days[0].month, days[0].day) == (1, 1)
        begins = begins or (asked.sum_of == "total" and back == len(series.periods))
        if begins or asked.sum_of == back:
            return back
    return None


def _matrix(series: PlannedSeries) -> Reals:
    """Of all draws of a series, written out."""
    periods = len(series.periods)
    matrix = np.zeros((periods, periods))
    for later, each in enumerate(series.band.coefficients[:periods]):
        matrix += np.diag([float(each)] * (periods - later), -later)
    return matrix


def _error(matrix: Reals, length: int) -> float:
    """The standard error of the sum of the last periods for noise of variance 1: the root of s' C^-1 C'^-1 s."""
    wanted = np.zeros(len(matrix))
    wanted[-length:] = 1.0
    solved = np.linalg.solve(matrix.T, wanted)
    return math.sqrt(float(solved @ solved))


def _errors_in_the_end(series: PlannedSeries, asked: ComparedNumber | None) -> dict[int, float]:
    """The same after so many periods that it rises no more, by every length that a number can have."""
    which, longest = 1 if asked is None else asked.sum_of, {"ytd": series.year, "total": series.horizon}
    lengths = (which,) if isinstance(which, int) else range(1, (longest.get(str(which)) or 1) + 1)
    weights, found = _endless_weights(series.band.coefficients), {}
    for length in lengths:
        sums = np.convolve(weights, np.ones(length))[: len(weights)]
        require(abs(sums[-1]) < 1e-12 * abs(weights[0]), "a series has errors that never settle")
        found[length] = math.sqrt(float(sums @ sums))
    return found


@lru_cache(maxsize=8)
def _endless_weights(numbers: tuple[int, ...]) -> Reals:
    """The power series of 1 / c(z)."""
    found = [1.0 / numbers[0]]
    for _ in range(_FADED):
        ahead = zip(numbers[1:], reversed(found), strict=False)
        found.append(-sum(each * known for each, known in ahead) / numbers[0])
    return np.array(found)
