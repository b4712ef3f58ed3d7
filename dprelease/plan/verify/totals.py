"""What a plan says of the totals of its queries: they are of the rows of the cells, and may be reconciled with them.

No sensitivity rests on this, for every draw is held against the rows that it counts as any other draw is. But an
estimate that takes what does not add up for what does is wrong, and its margin with it.

Columns that compare numbers are of what is there, and none is told more accurate than it is. Nothing of that is about
privacy, for these columns are made of published numbers. Standard errors are worked out by covariances, with which the
planner has nothing to do: of least squares estimates a number and the total that it is a part of have the covariance
V_T / n, n the number of such parts, for all parts are alike and their sum is the total; and two parts x and y of n have
Var(x - y) = 2 (V_x - C), where n V_x + n (n - 1) C = V_s is the variance of their sum. Margins are held against the
normal quantile in their order of size only, less a step, which noise on whole numbers can lack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from math import prod
from statistics import NormalDist

from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.plan.document import Feed, Measured, Output, PlannedQuery, ReleasePlan, Step, TotalTable
from dprelease.plan.verify.reach import require
from dprelease.plan.verify.series.errors_over_periods import check_sums

__all__ = ["check_compared", "feeds_of_totals"]

_ADDED_UP = ("rows", "nonnull", "balance", "sum", "square")  # kinds that are sums of what single rows contribute
_NOISE = ("discrete_laplace", "discrete_gaussian")


def feeds_of_totals(plan: ReleasePlan) -> set[tuple[str, str, str]]:
    """(query, measure, step) for every draw of every table of totals, after all that is said of these was checked.

    Raises:
        BrokenPromiseError: If totals are not sums of the cells of their query, or are fed by something else.
    """
    steps: dict[str, Measured] = {step.id: step for step in plan.measured}
    found = set()
    for query in plan.queries:
        if query.totals is None:
            continue
        _check_query(plan, query)
        _check_draws(query, query.inputs, query.by, steps)
        for table in query.totals.tables:
            _check_table(query, table)
            if table.part is not None:
                _check_draws(query, table.inputs, table.by, steps)
                found |= {(query.name, label, feed.step) for label, feeds in table.inputs.items() for feed in feeds}
    return found


def _check_query(plan: ReleasePlan, query: PlannedQuery) -> None:
    """Its cells are all cells of public keys, of rows that have a key in each column; its tables are told apart."""
    name, totals = query.name, query.totals
    assert totals is not None  # noqa: S101 - asked for by the caller
    plain = not query.private and query.ranking is None and query.ranges is None and query.workload is None
    left = (query.excluding, query.zeros, query.max_groups, query.max_rows_per_group)
    require(plain and left == (None,) * 4, f"{name} has totals, and cells that its rows may be left out of")
    require(totals.by == query.by and set(query.complete) == set(query.by), f"{name} has totals of other rows")
    lists = [frozenset(table.by) for table in totals.tables]
    require(bool(lists) and len(set(lists)) == len(lists), f"{name} has one table of totals twice, or none")
    given = sum((table.part or Fraction(0) for table in totals.tables), totals.part)
    require(given == 1, f"{name} divides more or less than its budget over its tables")
    table = plan.catalog.tables[query.table]
    keys = {str(key) for column in query.by for key in table.column(column).keys or ()}
    require("_total" not in keys, f"{name} has a key that is that of totals")


def _check_table(query: PlannedQuery, table: TotalTable) -> None:
    inside = [column for column in query.by if column in table.by]
    require(
        list(table.by) == inside and len(inside) < len(query.by), f"{query.name} has totals by columns that it has not"
    )
    require(
        set(table.inputs) == (set(query.measures) if table.part is not None else set()),
        f"{query.name} has totals that are fed as others are",
    )


def _check_draws(
    query: PlannedQuery, inputs: Mapping[str, tuple[Feed, ...]], by: tuple[str, ...], steps: Mapping[str, Measured]
) -> None:
    """Each is a plain draw of the quantity that feeds the cells, of the same rows, in the cells of the table."""
    cells = query.grouping.model_copy(update={"by": by})
    for label, feeds in inputs.items():
        name, own = f"{query.name}.{label}", query.inputs[label]
        require(len(feeds) == len(own), f"{name} has a total of other quantities")
        for feed, first in zip(feeds, own, strict=True):
            require(feed.step in steps and first.step in steps, f"{name} needs a step that is not there")
            step, base = steps[feed.step], steps[first.step]
            if not isinstance(step, Step) or not isinstance(base, Step):
                require(False, f"{name} has totals of exact numbers")
                return
            plain = not step.joined and (step.residual, step.factor, step.choosing, step.selecting) == (None,) * 4
            require(plain and not step.tables and step.mechanism in _NOISE, f"{name} has a total of no plain draw")
            require(step.mechanism == base.mechanism, f"{name} has totals of another noise than its cells")
            require(step.aggregate.grouping == cells, f"{name} has a total of other rows")
            require((feed.part, first.part) == (0, 0), f"{name} needs a part that its step does not have")
            quantity = step.aggregate.quantity
            require(quantity == base.aggregate.quantity, f"{name} has a total of another quantity")
            adds = quantity.kind in _ADDED_UP and quantity.per == "row"
            require(adds, f"{name} has a total that is no sum of its cells")


_TOLERANCE = 1e-6
_LACKS = 0.9  # of a normal margin: light tails of few Laplace variables; and a step, for whole numbers


def check_compared(plan: ReleasePlan, query: PlannedQuery, told: Mapping[tuple[str, str], Output]) -> None:
    """Refuse a plan whose comparisons are of nothing, or told too accurate.

    Raises:
        BrokenPromiseError: Saying what.
    """
    if query.series is not None:
        check_sums(plan, query, told)
        return
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
        if not asked.proved:
            _check_measured(query, asked, name)
        if asked.among is not None:
            _check_pairs(plan, query, asked, name)
        fed = tuple(dict.fromkeys(feed.step for feed in query.inputs[asked.measure]))
        require(output.steps == fed and output.table == query.table, f"{name} is told of other steps")
        _check_target(query, asked, output, told[query.name, asked.measure])
        error = _error(plan, query, asked)
        if error is None or output.standard_error is None:
            continue
        honest = float(output.standard_error) >= error * (1 - _TOLERANCE)
        require(honest, f"{name} is told to be more accurate than it is")
        normal = NormalDist().inv_cdf(1 - float(1 - plan.publish.confidence) / 2)
        margin = float(output.margin or 0)
        part = (
            1 - _TOLERANCE
            if all(each.mechanism == "discrete_gaussian" for each in _steps(plan, query, asked))
            else _LACKS
        )
        require(margin >= part * normal * error - 1 or margin == asked.whole, f"{name} is told too small a margin")


def _check_measured(query: PlannedQuery, asked: ComparedNumber, name: str) -> None:
    """An interval without a proof is of a quotient, and of two groups only where their noise is independent."""
    quotient = query.measures[asked.measure].kind in ("mean", "ratio")
    require(quotient and (asked.change_from or asked.difference_from) is not None, f"{name} has a proof, and says none")
    together = asked.difference_from is not None and query.totals is not None and bool(query.totals.drawn)
    require(not together, f"{name} takes noise for independent that is not")


def _check_pairs(plan: ReleasePlan, query: PlannedQuery, asked: ComparedNumber, name: str) -> None:
    """The columns of all pairs are one for each group of one column of the query, of one measure."""
    column, _ = asked.difference_from or ("", "")
    family = [each for each in query.compare.values() if each.among == asked.among]
    keys = plan.catalog.tables[query.table].column(column).keys if column in query.by else ()
    listed = {(column, str(key).lower() if isinstance(key, bool) else str(key)) for key in keys or ()}
    require({each.difference_from for each in family} == listed, f"{name} is one of all pairs, and others are missing")
    require(len(family) == len(listed), f"{name} is there twice")
    alike = {each.model_copy(update={"difference_from": None}) for each in family}
    require(len(alike) == 1 and asked.among not in query.compare, f"{name} is judged with columns of other numbers")


def _check_target(query: PlannedQuery, asked: ComparedNumber, output: Output, own: Output) -> None:
    """A target is met as the margin is told; that of a change or a difference is no less than that of its number.

    That the margin of a count is not told too small is derived from the draws.
    """
    name, target = f"{query.name}.{output.measure}", query.goal.target_of(output.measure, query.compare)
    if target is None:
        return
    require(output.margin is not None and Fraction(output.margin) <= target, f"{name} misses its target")
    if asked.kind in ("change", "difference"):
        wider = own.margin is None or Fraction(output.margin or 0) >= Fraction(own.margin)
        require(wider, f"{name} is told too small a margin")


def _error(plan: ReleasePlan, query: PlannedQuery, asked: ComparedNumber) -> float | None:
    """The standard error of a column that compares a count of one draw; None of anything else.

    A growth or an index is of a count as large as is expected, in both periods: A' / B' - 1 is (A' - B') / B'.
    """
    feeds, table = query.inputs[asked.measure], plan.catalog.tables[query.table]
    if len(feeds) != 1 or not query.measures[asked.measure].is_count:
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
    if count is None:
        return None
    if asked.share_of is None:
        return asked.whole * grid * math.sqrt(2 * own) / count
    parts = prod(size for name, size in sizes.items() if name not in asked.share_of)
    total = _variance(drawn, sizes, tuple(name for name in query.by if name in asked.share_of))
    share = 1 / parts
    spread = own - 2 * share * total / parts + share**2 * total
    return asked.whole * grid * math.sqrt(max(spread, 0.0)) / (count * parts)


def _steps(plan: ReleasePlan, query: PlannedQuery, asked: ComparedNumber) -> list[Step]:
    """The draws that a number that compares is made of."""
    fed = list(query.inputs[asked.measure])
    for each in query.totals.drawn if query.totals is not None else ():
        fed += each.inputs[asked.measure]
    found = (plan.taken(feed.step) for feed in fed)
    return [step for step in found if isinstance(step, Step)]


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
    """The variance of a draw."""
    if not isinstance(step, Step):
        return 0.0
    if step.mechanism == "discrete_gaussian":
        return _gaussian_variance(float(step.scale))
    half = 1 / (2 * float(step.scale))
    return 1 / (2 * math.sinh(half) ** 2) if step.mechanism == "discrete_laplace" else float(step.law.variance)


def _gaussian_variance(scale: float) -> float:
    """The sum of k^2 P(k) over whole k; from a scale of 4 on it is its square but for a part of e^(-2 pi^2 scale^2)."""
    if scale >= 4:
        return scale**2
    squares = [k * k for k in range(-math.ceil(40 * scale) - 1, math.ceil(40 * scale) + 2)]
    weights = [math.exp(-square / (2 * scale**2)) for square in squares]
    return math.fsum(square * weight for square, weight in zip(squares, weights, strict=True)) / math.fsum(weights)
