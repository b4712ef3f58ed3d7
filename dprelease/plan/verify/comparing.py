"""What a plan says of the columns that compare: they are of what is there, and none is told more accurate than it is.

Nothing here is about privacy, for these columns are made of published numbers. Standard errors are worked out by
covariances, with which the planner has nothing to do: of least squares estimates a number and the total that it is a
part of have the covariance V_T / n, n the number of such parts, for all parts are alike and their sum is the total; and
two parts x and y of n have Var(x - y) = 2 (V_x - C), where n V_x + n (n - 1) C = V_s is the variance of their sum.
Margins are held against Gauss' and Chebyshev's order of size only: at least the quantile of a normal law is told, less
a step, which noise on whole numbers can lack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod
from statistics import NormalDist

from dprelease.measures.comparing.comparison import Comparison
from dprelease.plan.document import Measured, Output, PlannedQuery, ReleasePlan, Step
from dprelease.plan.verify.reach import require

__all__ = ["check_compared"]

_TOLERANCE = 1e-6
_LACKS = 0.9  # of a normal margin: whole numbers and light tails


def check_compared(plan: ReleasePlan, query: PlannedQuery, told: Mapping[tuple[str, str], Output]) -> None:
    """Refuse a plan whose comparisons are of nothing, or told too accurate.

    Raises:
        BrokenPromiseError: Saying what.
    """
    plain = not query.private and query.ranking is None and query.ranges is None and query.workload is None
    require(not query.compare or plain, f"{query.name} compares numbers that have no rows of public keys")
    for label, asked in query.compare.items():
        name, output = f"{query.name}.{label}", told[query.name, label]
        require(label not in query.measures and label not in query.by, f"{name} has the name of something else")
        require(asked.measure in query.measures, f"{name} compares a measure that is not there")
        forms = (asked.share_of, asked.change_from, asked.index_to, asked.difference_from)
        require(sum(each is not None for each in forms) == 1, f"{name} compares in several ways, or in none")
        if asked.share_of is not None:
            sets = [set(each.by) for each in query.totals.tables] if query.totals is not None else []
            require(set(asked.share_of) in sets, f"{name} is a share of a total that is not there")
        if asked.difference_from is not None:
            require(asked.difference_from[0] in query.by, f"{name} differs in a column that is not there")
        fed = tuple(dict.fromkeys(feed.step for feed in query.inputs[asked.measure]))
        require(output.steps == fed and output.table == query.table, f"{name} is told of other steps")
        error = _error(plan, query, asked)
        if error is None or output.standard_error is None:
            continue
        honest = float(output.standard_error) >= error * (1 - _TOLERANCE)
        require(honest, f"{name} is told to be more accurate than it is")
        normal = NormalDist().inv_cdf(1 - float(1 - plan.publish.confidence) / 2)
        margin = float(output.margin or 0)
        require(margin >= _LACKS * normal * error - 1 or margin == asked.whole, f"{name} is told too small a margin")


def _error(plan: ReleasePlan, query: PlannedQuery, asked: Comparison) -> float | None:
    """The standard error of a change, a difference or a share of a count of one draw; None of anything else."""
    feeds, table = query.inputs[asked.measure], plan.catalog.tables[query.table]
    if len(feeds) != 1 or not query.measures[asked.measure].is_count or asked.kind in ("growth", "index"):
        return None
    sizes = {name: table.column(name).cells for name in query.by}
    drawn = {query.by: plan.taken(feeds[0].step)}
    if query.totals is not None:
        drawn |= {each.by: plan.taken(each.inputs[asked.measure][0].step) for each in query.totals.drawn}
    if any(not isinstance(step, Step) for step in drawn.values()):
        return None
    grid = float(plan.taken(feeds[0].step).parts[feeds[0].part].grid)
    own = _variance(drawn, sizes, query.by)
    if asked.kind == "change":
        return grid * math.sqrt(2 * own)
    if asked.difference_from is not None:
        column = asked.difference_from[0]
        groups = sizes[column]
        if groups < 2:
            return None
        summed = _variance(drawn, sizes, tuple(name for name in query.by if name != column))
        common = (summed - groups * own) / (groups * (groups - 1))
        return grid * math.sqrt(max(2 * (own - common), 0.0))
    count = next(iter(query.expect.values()), None)
    if count is None or asked.share_of is None:
        return None
    parts = prod(size for name, size in sizes.items() if name not in asked.share_of)
    total = _variance(drawn, sizes, tuple(name for name in query.by if name in asked.share_of))
    share = 1 / parts
    spread = own - 2 * share * total / parts + share**2 * total
    return asked.whole * grid * math.sqrt(max(spread, 0.0)) / (count * parts)


def _variance(drawn: Mapping[tuple[str, ...], Measured], sizes: Mapping[str, int], by: tuple[str, ...]) -> float:
    """The variance of a number of a table of sums under least squares, by contrasts of the columns.

    The contrast of a set b of columns is known by every draw that has all of b, with the precision 1 / (v n), n the
    number of cells that are added up of it; a number is the sum of its contrasts, each of which all of its cells share.
    """
    columns = list(sizes)
    found = 0.0
    for mask in range(1 << len(columns)):
        b = {name for at, name in enumerate(columns) if mask >> at & 1}
        if not b <= set(by):
            continue
        known = math.fsum(
            1 / (_spread(step) * prod(sizes[name] for name in of if name not in b))
            for of, step in drawn.items()
            if b <= set(of)
        )
        factor = prod((1 - 1 / sizes[name]) if name in b else sizes[name] ** -2.0 for name in by)
        found += factor / known
    return found


def _spread(step: Measured) -> float:
    """The variance of a draw; of Gaussian noise at most the square of its scale."""
    if not isinstance(step, Step):
        return 0.0
    if step.mechanism == "discrete_gaussian":
        return float(step.scale) ** 2
    half = 1 / (2 * float(step.scale))
    return 1 / (2 * math.sinh(half) ** 2) if step.mechanism == "discrete_laplace" else float(step.law.variance)
