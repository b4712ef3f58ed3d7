"""Draws of prefixes and ranges, derived again: their matrix, how far one unit can move it, and how much sums err.

Nothing here is shared with ``catalog.factor`` or ``estimate`` but the claim. The matrix of a root is worked out row by
row from binomial coefficients, that of a mirrored line from the line as it goes on without end; it is then compared,
entry by entry, with the one that the draw multiplies by. The norms are read off all of its columns, and all differences
of two. What sums err by is solved for anew; of a mirrored line by sums of cosines, and what they give is multiplied by
the matrix again.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.factor import Factor
from dprelease.measures import Expected
from dprelease.plan.document import PlannedQuery, ReleasePlan, Step
from dprelease.plan.verify.lines.mirrored_line import (
    MIRRORED,
    MOST_KEYS,
    MOST_MIRRORED,
    unrolled,
    worst_mirrored,
)
from dprelease.plan.verify.reach import bounds_of, cells_of_step, counts_as_said, heaviest, require
from dprelease.plan.verify.units import Bounds, derived
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["check_factor", "check_ranges", "expected_of_sums", "half_width", "one_unit_comes", "worst_of_sums"]

_COMPARED = 128  # keys up to which every two columns are compared; beyond, a matrix has no negative entries
_LEAST_GRAIN, _MOST = 1024, 2**20
_TOLERANCE = 1e-9
_NORMAL = Fraction(2)  # the scale from which on sums of draws are as good as normal

_BLOCK = 256  # rows that are solved for at once

Reals = npt.NDArray[np.float64]
Whole = npt.NDArray[np.signedinteger[Any]]
Norms = tuple[int, int, int]
"""L1, L2^2 and Linf of one row."""


def check_factor(plan: ReleasePlan, step: Step) -> None:
    """Derive the matrix of a draw and its sensitivity again.

    Rows of a unit may be in any cells. Its change is a sum of at most ``rows`` columns less a sum of at most ``rows``
    others, so that a norm of it is at most ``rows`` times that of a column, or of the difference of two: pair the
    rows of the old and the new unit, as far as they go, and use the triangle inequality.

    Raises:
        BrokenPromiseError: If the step claims anything else, or is no count of rows behind discrete Gaussian noise.
    """
    matrix, aggregate = _checked(plan, step), step.aggregate
    found = [_of_step(plan, step, matrix, plan.neighboring)]
    bounds = bounds_of(plan, aggregate, once=False)
    if aggregate.quantity.is_counted and bounds.per_group < bounds.rows:
        found.append(_apart(found[0], bounds))  # plans from before that was told claim the first
    require(step.sensitivity in found, f"{step.id} claims another sensitivity than its matrix has")


def one_unit_comes(plan: ReleasePlan, step: Step) -> tuple[Sensitivity, int]:
    """How far one unit that comes or goes moves the combinations of one table, and the largest sum along a row.

    Raises:
        BrokenPromiseError: The step has no matrix along a column, as for :func:`check_factor`.
    """
    require(not step.aggregate.quantity.is_counted, f"{step.id} has classes of values")
    matrix = _checked(plan, step)
    largest = max(int(np.abs(row, dtype=np.int64).sum()) for row in matrix)
    return _of_step(plan, step, matrix, Neighboring.ADD_REMOVE), largest


def _of_step(plan: ReleasePlan, step: Step, matrix: Whole, relation: Neighboring) -> Sensitivity:
    rows, each = bounds_of(plan, step.aggregate, once=False).rows, heaviest(plan, step, step.aggregate.quantity)
    return _derived(matrix, (step.cells or 0) // len(matrix), rows, each, relation)


def _checked(plan: ReleasePlan, step: Step) -> Whole:
    """The matrix of a draw along a column, derived again; everything but the sensitivity is held against it."""
    factor, aggregate = step.factor, step.aggregate
    require(factor is not None, f"{step.id} has no factor")
    assert factor is not None  # noqa: S101 - just required
    require(step.mechanism == "discrete_gaussian", f"{step.id} has a factor and another noise than planned for it")
    alone = not step.joined and step.gauge is None and step.choosing is None and step.selecting is None
    alone = alone and step.residual is None and step.pieces is None
    require(alone, f"{step.id} has a factor and is of another kind, too")
    require(not aggregate.private, f"{step.id} has a factor and keys that are not public")
    shape = _shape_of_classes(plan, step) if aggregate.quantity.is_counted else _shape_of_cells(plan, step)
    require(factor.shape == shape, f"{step.id} has a factor for a table of another shape")
    require(step.cells == math.prod(shape), f"{step.id} has another number of cells")
    require(0 <= factor.axis < len(shape), f"{step.id} has a factor along a column that it does not have")
    finest = MOST_MIRRORED if factor.kind in MIRRORED else _MOST
    require(_LEAST_GRAIN <= factor.grain <= finest, f"{step.id} has a lattice that is too coarse or too fine")
    keys = shape[factor.axis]
    matrix = _written(factor, keys)
    require(matrix is not None, f"{step.id} has a factor whose matrix makes no sense")
    assert matrix is not None  # noqa: S101 - just required
    same = factor.matrix.shape == matrix.shape and bool((factor.matrix == matrix).all())
    require(same, f"{step.id} would draw by another matrix than its factor says")
    return matrix


def _shape_of_cells(plan: ReleasePlan, step: Step) -> tuple[int, ...]:
    """Of a table of counts of rows, all of them: the numbers of its keys."""
    aggregate = step.aggregate
    require(aggregate.quantity.kind == "rows", f"{step.id} has a factor and counts something else than rows")
    require(aggregate.quantity.where is None, f"{step.id} has a factor and counts some rows only")
    require(aggregate.excluding is None, f"{step.id} has a factor and cells left out")
    table = plan.catalog.tables[aggregate.table]
    return tuple(len(table.column(name).keys or ()) for name in aggregate.by)


def _shape_of_classes(plan: ReleasePlan, step: Step) -> tuple[int, int]:
    """Of counts of classes of values: the number of cells, and that of classes.

    A row has one value at most, which is in one class of its cell at most, or it counts nowhere: it adds 1 to one
    number of the table or to none, which is all that the sensitivity rests on.
    """
    quantity = step.aggregate.quantity
    require(quantity.kind == "quantile" and quantity.per == "row", f"{step.id} has classes of no values of rows")
    if quantity.starts:
        rising = all(a < b for a, b in zip(quantity.starts, quantity.starts[1:], strict=False))
        within = quantity.starts[0] == quantity.low and quantity.starts[-1] <= quantity.high
        require(rising and within and quantity.grain == 1, f"{step.id} has classes that do not rise within its clip")
        classes = len(quantity.starts)
    else:
        classes = 1 + math.floor(Fraction(quantity.high - quantity.low, quantity.grain))
    require(2 <= classes <= MOST_KEYS, f"{step.id} has too few or too many classes")
    require(step.factor is not None and step.factor.axis == 1, f"{step.id} has a factor that is not along its classes")
    return cells_of_step(plan, step.aggregate) or 0, classes


def _written(factor: Factor, keys: int) -> Whole | None:
    """The matrix by what the plan says; None where that is no matrix of whole numbers that are small enough."""
    if factor.kind == "root":
        return _root(keys, factor.grain) if factor.rows is None and keys <= MOST_KEYS else None
    if factor.kind in MIRRORED:
        return unrolled(factor, keys)
    rows = factor.rows or ()
    if keys > _COMPARED or len(rows) != keys or any(len(row) != keys for row in rows):
        return None
    if any(abs(entry) > _MOST for row in rows for entry in row):
        return None
    return np.array(rows, dtype=np.int64).reshape(keys, keys)


@lru_cache(maxsize=2)
def _root(keys: int, grain: int) -> Whole:
    """Row i of the square root: nearest whole numbers to grain f_(i - j) / |f_0 ... f_(n - 1 - j)|.

    f is C(2k, k) / 4^k to 40 bits after the point, and its norm to the whole number below, as ``catalog.factor`` says.
    """
    ways, entries = 1, []
    for k in range(keys):
        ways = ways if k == 0 else ways * (2 * k) * (2 * k - 1) // k**2
        entries.append(ways * 2**40 // 4**k)
    require(ways == math.comb(2 * keys - 2, keys - 1), "a binomial coefficient is another one")
    sums = [0]
    for entry in entries:
        sums.append(sums[-1] + entry * entry)
    norms = np.array([math.isqrt(each) for each in sums[1:]], dtype=np.int64)[::-1]
    backwards = np.array(entries, dtype=np.int64)[::-1]
    found = np.zeros((keys, keys), dtype=np.int64)
    for row in range(keys):
        over = 2 * grain * backwards[keys - 1 - row :] + norms[: row + 1]
        found[row, : row + 1] = over // (2 * norms[: row + 1])
    found.flags.writeable = False
    return found


def _derived(matrix: Whole, slices: int, rows: int, each: int, neighboring: Neighboring) -> Sensitivity:
    l1, l2_squared, linf = _one_row(matrix, slices > 1, neighboring is Neighboring.REPLACE_ONE)
    moved = rows * each  # a row that weighs w is w rows of its cell
    lines = rows * (2 if neighboring is Neighboring.REPLACE_ONE else 1)
    return Sensitivity(
        l0=len(matrix) * min(slices, lines),
        l1=Fraction(moved * l1),
        l2_squared=Fraction(moved * moved * l2_squared),
        linf=Fraction(moved * linf),
    )


def _apart(together: Sensitivity, bounds: Bounds) -> Sensitivity:
    """The same where lines are cells, of which a unit has few rows in each: squares of what it moves in them add up.

    What all rows in one line move is told by ``together``. How many rows a unit has in each line is listed where it
    has few, and taken in blocks where it has many (``units.derived``); no entry of the matrix is negative, so that two
    units in one line move it no further than each by itself.
    """
    rows = derived(bounds, 0, 1, Neighboring.ADD_REMOVE)
    return Sensitivity(
        l0=together.l0,
        l1=together.l1,
        l2_squared=together.l2_squared * rows.l2_squared / bounds.rows**2,
        linf=together.linf * rows.linf / bounds.rows,
    )


def _one_row(matrix: Whole, several: bool, replaced: bool) -> Norms:
    """What one row that comes, goes, or (``replaced``) makes place for another can move.

    Another row in another slice moves other numbers: sums and squares add up. In the same slice the difference of two
    columns is moved, all of which are looked at up to 128 keys; beyond, where no entry is negative, |a - b| is nowhere
    more than the larger of a and b, so that sums and squares are at most those of two slices.
    """
    sums, squares, largest = (np.zeros(len(matrix[0]), dtype=np.int64) for _ in range(3))
    for row in matrix:
        sizes = np.abs(row, dtype=np.int64)
        sums += sizes
        squares += sizes * sizes
        np.maximum(largest, sizes, out=largest)
    alone = (int(sums.max()), int(squares.max()), int(largest.max()))
    if not replaced:
        return alone
    many = len(matrix) > _COMPARED
    require(not many or int(matrix.min()) >= 0, "a matrix with so many keys has negative entries")
    found = [alone]
    if several or many:
        found.append((2 * alone[0], 2 * alone[1], alone[2]))
    if not many:
        wide = matrix.astype(np.int64)
        differences = np.abs(wide[:, :, None] - wide[:, None, :])
        found.append(
            (
                int(differences.sum(axis=0).max()),
                int((differences * differences).sum(axis=0).max()),
                int(differences.max()),
            )
        )
    one, two, three = zip(*found, strict=True)
    return max(one), max(two), max(three)


def check_ranges(plan: ReleasePlan) -> None:
    """Sums along a column are made of one draw along that very column, and nothing else is made of such a draw.

    Raises:
        BrokenPromiseError: If one is not.
    """
    steps = {step.id: step for step in plan.steps}
    summed = set()
    for query in (each for each in plan.queries if each.ranges is not None):
        feeds = [feed for each in query.inputs.values() for feed in each]
        facts = [measure.model_dump(exclude={"weighted"}) for measure in query.measures.values()]
        plain = facts == [{"count": "rows", "where": None}] and len(feeds) == 1 and feeds[0].step in steps
        require(plain, f"{query.name} has sums of something else than one draw of counts")
        step = steps[feeds[0].step]
        (measure,) = query.measures.values()
        require(counts_as_said(plan, step, measure), f"{step.id} counts rows more or less often than {query.name}")
        known = query.ranges is not None and query.ranges.of in query.by
        require(known, f"{query.name} has sums along a column that it does not have")
        assert query.ranges is not None  # noqa: S101 - chosen by it
        along = step.factor is None or step.factor.axis == query.by.index(query.ranges.of)
        require(along, f"{query.name} has sums along another column than was drawn")
        odd = (query.workload, query.selection, query.ranking, query.excluding, query.suppress_below)
        require(not any(odd) and not query.private, f"{query.name} has what sums along a column cannot have")
        column = plan.catalog.tables[query.table].column(query.ranges.of)
        require(len(set(column.keys or ())) == len(column.keys or ()), f"{query.name} has a key twice")
        summed.add(query.name)
    for step in plan.steps:
        counted, served = step.parts[0].is_counted, {answer.query for answer in step.answers}
        require(not counted or step.factor is not None, f"{step.id} counts classes of values and has no factor")
        alone = step.factor is None or (not served & summed if counted else served <= summed)
        require(alone, f"{step.id} has a factor and feeds what is no sum along a column")


def expected_of_sums(plan: ReleasePlan, query: PlannedQuery, step: Step) -> Expected:
    """The standard error and margin of the worst published sum, less a part in 10^9 for the rounding of doubles.

    With the matrix F, sums S and noise of variance v the covariance is v S F^-1 F'^-1 S'; the columns of F'^-1 S' are
    solved for.

    Args:
        plan: The plan.
        query: With ranges.
        step: That feeds it.
    """
    error = math.sqrt(worst_of_sums(plan, query, step) * float(step.law.variance)) * (1 - _TOLERANCE)
    return Expected(standard_error=error, margin=half_width(plan, step.scale) * error)


def worst_of_sums(plan: ReleasePlan, query: PlannedQuery, step: Step) -> float:
    """The largest variance of a published sum of a table, per variance of one number that is drawn."""
    assert query.ranges is not None  # noqa: S101 - asked for by the caller
    keys = len(plan.catalog.tables[query.table].column(query.ranges.of).keys or ())
    matrix = None if step.factor is None else _written(step.factor, keys)
    require(step.factor is None or matrix is not None, f"{query.name} has a draw whose matrix makes no sense")
    if step.factor is not None and matrix is not None and step.factor.kind in MIRRORED:
        return worst_mirrored(step.factor, matrix, query.ranges.which)
    return _worst(keys, matrix, query.ranges.which)


def half_width(plan: ReleasePlan, smallest: Fraction) -> float:
    """A margin in standard errors, of a sum of draws: of the normal law, or of sub-Gaussian noise of small scales."""
    confidence = float(plan.publish.confidence)
    if smallest >= _NORMAL:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    return math.sqrt(2 * math.log(2 / (1 - confidence)))


def _worst(keys: int, matrix: Whole | None, which: str) -> float:
    """The largest variance of a sum, per variance of one number."""
    solved = np.tri(keys).T if matrix is None else _solved(matrix.T.astype(np.float64))
    if not np.isfinite(solved).all():
        return math.inf
    alone = np.einsum("ij,ij->j", solved, solved)  # of every prefix
    if which == "prefixes":
        return float(alone.max())
    together = solved.T @ solved
    together *= -2  # a range is a prefix, or the difference of two
    together += alone
    together += alone[:, None]
    return max(float(alone.max()), float(together.max()))


def _solved(above: Reals) -> Reals:
    """F'^-1 S' of all prefixes S, for F' = ``above``; from the last rows up where nothing is below its diagonal."""
    right = np.tri(len(above)).T
    if np.tril(above, -1).any():
        return np.asarray(np.linalg.solve(above, right))
    for last in range(len(above), 0, -_BLOCK):
        first = max(0, last - _BLOCK)
        rest = right[first:last, first:] - above[first:last, last:] @ right[last:, first:]
        right[first:last, first:] = np.linalg.solve(above[first:last, first:last], rest)
    return right
