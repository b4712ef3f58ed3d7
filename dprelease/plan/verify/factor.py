"""Draws of prefixes and ranges, derived again: their matrix, how far one unit can move it, and how much sums err.

Nothing here is shared with ``catalog.factor`` or ``estimate`` but the claim. The matrix of a root is worked out row by
row from binomial coefficients, that of a mirrored line from the line as it goes on without end; it is then compared,
entry by entry, with the one that the draw multiplies by. The norms are read off all of its columns, and all differences
of two. What sums err by is solved for anew; of a mirrored line by sums of cosines, and what they give is multiplied by
the matrix again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.factor import Factor
from dprelease.measures import Expected
from dprelease.plan.document import PlannedQuery, ReleasePlan, Step
from dprelease.plan.verify.reach import bounds_of, cells_of_step, counts_as_said, heaviest, require
from dprelease.plan.verify.units import Bounds, derived
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["check_factor", "check_ranges", "expected_of_sums", "half_width"]

_COMPARED = 128  # keys up to which every two columns are compared; beyond, a matrix has no negative entries
_MOST_KEYS = 4096
_LEAST_GRAIN, _MOST, _MOST_MIRRORED = 1024, 2**20, 2**24
_MIRRORED = {"mirrored_prefixes": 1, "mirrored_ranges": -1}  # the sign of what comes back from the first end
_LEAST_EIGENVALUE = 1.0  # of a mirrored line: doubles err by far less
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
    finest = _MOST_MIRRORED if factor.kind in _MIRRORED else _MOST
    require(_LEAST_GRAIN <= factor.grain <= finest, f"{step.id} has a lattice that is too coarse or too fine")
    keys = shape[factor.axis]
    matrix = _written(factor, keys)
    require(matrix is not None, f"{step.id} has a factor whose matrix makes no sense")
    assert matrix is not None  # noqa: S101 - just required
    same = factor.matrix.shape == matrix.shape and bool((factor.matrix == matrix).all())
    require(same, f"{step.id} would draw by another matrix than its factor says")
    bounds = bounds_of(plan, aggregate, once=False)
    each = heaviest(plan, step, aggregate.quantity)
    found = [_derived(matrix, math.prod(shape) // keys, bounds.rows, each, plan.neighboring)]
    if aggregate.quantity.is_counted and bounds.per_group < bounds.rows:
        found.append(_apart(found[0], bounds))  # plans from before that was told claim the first
    require(step.sensitivity in found, f"{step.id} claims another sensitivity than its matrix has")


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
    require(2 <= classes <= _MOST_KEYS, f"{step.id} has too few or too many classes")
    require(step.factor is not None and step.factor.axis == 1, f"{step.id} has a factor that is not along its classes")
    return cells_of_step(plan, step.aggregate) or 0, classes


def _written(factor: Factor, keys: int) -> Whole | None:
    """The matrix by what the plan says; None where that is no matrix of whole numbers that are small enough."""
    if factor.kind == "root":
        return _root(keys, factor.grain) if factor.rows is None and keys <= _MOST_KEYS else None
    if factor.kind in _MIRRORED:
        return _unrolled(factor, keys)
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


@lru_cache(maxsize=1)  # one of 4,096 keys takes 67 MB
def _unrolled(factor: Factor, keys: int) -> Whole | None:
    """The matrix of a mirrored line: what a row sends to both sides, and what comes back from mirrors outside.

    The line goes on without end: even around 0; for ranges even around n + 1 too, where it is 0, and for prefixes odd
    around n + 1/2. An entry is what stands at the distance i - j, plus or minus at that to the image in the first end.
    """
    line, times, sign = factor.line or (), factor.times or (), _MIRRORED[factor.kind]
    if factor.rows is not None or not 1 <= keys <= _MOST_KEYS or (len(line), len(times)) != (keys + 1, keys):
        return None
    falls = list(line) == sorted(line, reverse=True) and line[-1] >= 0
    if not falls or min(times) < 1 or 2 * line[0] * max(times) > _MOST_MIRRORED:
        return None
    endless, each = _endless(line, sign), np.array(times, dtype=np.int64)
    before = np.concatenate([endless[1 - keys :], endless[:keys]])[::-1]  # at the distances n - 1, n - 2, ..., 1 - n
    found, image = np.empty((keys, keys), dtype=np.int32), 1 if sign > 0 else 2  # no entry is above 2^24
    for at, row in enumerate(found):
        near, far = before[keys - 1 - at : 2 * keys - 1 - at], endless[at + image : at + image + keys]
        row[...] = (near + sign * far) * each
    found.flags.writeable = False
    return found


def _endless(line: Sequence[int], sign: int) -> Whole:
    """One period of a line that is mirrored for ever, from 0 on: 2 n + 2 numbers for ranges, 4 n + 2 for prefixes."""
    keys = len(line) - 1
    found = dict(enumerate(line))
    if sign < 0:
        found |= {keys + 1: 0, **{2 * keys + 2 - at: line[at] for at in range(1, keys + 1)}}
    else:
        found |= {2 * keys + 1 - at: -line[at] for at in range(keys + 1)}
        found |= {4 * keys + 2 - at: found[at] for at in range(1, 2 * keys + 1)}
    return np.array([found[at] for at in range(len(found))], dtype=np.int64)


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
    assert query.ranges is not None  # noqa: S101 - asked for by the caller
    keys = len(plan.catalog.tables[query.table].column(query.ranges.of).keys or ())
    matrix = None if step.factor is None else _written(step.factor, keys)
    require(step.factor is None or matrix is not None, f"{query.name} has a draw whose matrix makes no sense")
    if step.factor is not None and matrix is not None and step.factor.kind in _MIRRORED:
        worst = _worst_mirrored(step.factor, matrix, query.ranges.which)
    else:
        worst = _worst(keys, matrix, query.ranges.which)
    error = math.sqrt(worst * float(step.law.variance)) * (1 - _TOLERANCE)
    return Expected(standard_error=error, margin=half_width(plan, step.scale) * error)


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


def _worst_mirrored(factor: Factor, matrix: Whole, which: str) -> float:
    """The largest variance of a sum, per variance of one number, for F = F0 diag(times) of a mirrored line.

    The variance of cells a to b is that of a to b - 1, more twice the sum of row b of the covariance from a to b, less
    its diagonal.
    """
    times, sign = np.array(factor.times, dtype=np.float64), _MIRRORED[factor.kind]
    inverse, keys = _inverse_squared(factor, matrix), len(times)
    variances, worst = np.zeros(keys), 0.0
    both = np.concatenate([inverse[keys - 1 : 0 : -1], inverse[:keys]])
    image = 1 if sign > 0 else 2
    for last in range(keys):
        row = both[keys - 1 - last : keys] + sign * inverse[last + image : 2 * last + image + 1]
        row /= times[last] * times[: last + 1]
        if which == "prefixes":
            variances[0] += 2 * row.sum() - row[last]
            worst = max(worst, float(variances[0]))
            continue
        variances[: last + 1] += 2 * np.cumsum(row[::-1])[::-1] - row[last]
        worst = max(worst, float(variances[: last + 1].max()))
    return worst


def _inverse_squared(factor: Factor, matrix: Whole) -> Reals:
    """One period of the line of F0^-2, from 0 to its middle and beyond, as far as entries reach.

    The eigenvectors of F0 are cosines or sines, and its eigenvalues and the line of F0^-2 sums of cosines, which a fast
    Fourier transform adds up to the last digits of doubles. That line makes a matrix R which has the same eigenvectors,
    none of which is 0 in the first cell, so that it is told by its first column: R is F0^-2 if F0 F0 R has the first
    column 1, 0, ..., 0, and it is multiplied out.

    Raises:
        BrokenPromiseError: If F0 may have no inverse, or R is not that of its square.
    """
    times = np.array(factor.times, dtype=np.float64)
    keys, sign = len(times), _MIRRORED[factor.kind]
    endless = _endless(factor.line or (), sign).astype(np.float64)
    steps = np.arange(1, 2 * keys, 2) if sign > 0 else np.arange(1, keys + 1)  # of 2 pi / period: the frequencies
    places = np.arange(keys + 1 if sign > 0 else keys + 2)
    values = np.fft.rfft(endless).real[steps] / (2 if sign > 0 else 1)
    require(bool(values.min() > _LEAST_EIGENVALUE), "a mirrored line has no inverse for certain")
    spread = np.zeros(len(endless) // 2 + 1)
    spread[steps] = values**-2.0
    found = np.fft.irfft(spread, len(endless))[: len(places)] * (2 if sign > 0 else 1)
    found = np.concatenate([found, -found[::-1] if sign > 0 else found[-2::-1]])
    image = 1 if sign > 0 else 2
    first = found[:keys] + sign * found[image : image + keys]
    again = _times(matrix, _times(matrix, first / times) / times)
    require(bool(np.abs(again - (places[:keys] == 0)).max() < _TOLERANCE), "the inverse of a mirrored line is another")
    return found


def _times(matrix: Whole, column: Reals) -> Reals:
    """Their product, in bands of rows: as doubles the whole of a large matrix would take 134 MB."""
    starts = range(0, len(matrix), _BLOCK)
    return np.concatenate([matrix[at : at + _BLOCK].astype(np.float64) @ column for at in starts])


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
