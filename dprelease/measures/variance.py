"""``{variance: COLUMN, clip: [low, high]}`` and ``{stddev: ...}``: how far clipped values spread in each cell.

>>> from dprelease.catalog.table import Column, Range, Source
>>> pay = Column(name="pay", type="integer", range=Range(low=Fraction(0), high=Fraction(200_000)))
>>> table = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(pay,))
>>> squares, centred, counted = Variance(variance="pay").quantities(table)
>>> squares.grain, squares.contribution, centred.contribution, counted.contribution
(10, (-500000000, 500000000), (-100000, 100000), (0, 1))
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.base import Floats, Possible
from dprelease.measures.clipped import Clipped, clip_of, joint_margins, mean_of
from dprelease.measures.estimates import Estimate, Expected, Noisy
from dprelease.measures.tested.quotients import with_ends
from dprelease.measures.tested.spreads import BOX, Moments, spreads
from dprelease.measures.text import Formula, FormulaTerm, Widest, operand
from dprelease.noise import Law
from dprelease.words import marked, phrase

__all__ = ["LARGEST_SQUARE", "Stddev", "Variance"]

LARGEST_SQUARE = 2**30  # of a square in grains, so that 10^9 rows stay below 2^62
_ROWS = 12  # margins of the number of rows
_PLACES = 33  # a side of the grid of cells over which the worst margin is looked for
_ROUNDING = 2.0**-46  # relative; a dozen operations on doubles, each good to 2^-53
_METHOD = (
    marked(
        "A variance is made of a noisy sum of squares, a noisy sum and a noisy count: the mean square less the "
        "squared mean, both about the middle of the clip. It is held between 0 and the square of half the clip's "
        "width, and blank where the noisy count is below 1."
    ),
)


@dataclass(frozen=True, eq=False)
class _Spread:
    """Variances in squared steps with what bounds them; all of one shape."""

    value: Floats
    least: Floats
    most: Floats
    error: Floats


class _Moments(Clipped):
    """What a variance and a standard deviation share: three quantities, and what is known from them.

    With x a clipped value less the centre of the clip, in steps, and q(x) = round(x^2 / grain), the three are
    S2 = sum of (q(x) - offset), S1 = sum of x and N = number of values; the population variance of the clipped
    values is grain (S2 / N + offset) - (S1 / N)^2, up to half a grain of rounding. The centred sum and the count are
    those of a mean with the same clip. Squares less half of the largest one reach half as far.
    """

    held: ClassVar[bool] = True
    foreseen: ClassVar[Literal["by_size"]] = "by_size"
    # Engines square whole steps in 90 bits: from 2^45 on a value's distance from the middle of its clip is too far.
    widest: ClassVar[Widest] = Widest(
        2**46 - 2, "DPR-S547", "reaches 2^45 steps of {} or more to either side of its middle, too far for squares"
    )

    tested_since_spreads: ClassVar[bool] = True

    def size(self, first: Quantity) -> int:
        """Always three."""
        return 3

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """Three: the centred sum of squares, the centred sum, and the number of non-null values."""
        centred = self.centred(table)
        square = centred.model_copy(update={"kind": "square"})
        square = square.model_copy(update={"grain": max(1, -(-square.squares[1] // LARGEST_SQUARE))})
        square = square.model_copy(update={"offset": square.squares[1] // 2})
        return (square, centred, self.how_many(table))

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """From 0 to the largest spread that values in the clip [a, b] can have: (b - a)^2 / 4, or its root (b - a) / 2.

        The margin is about the population variance of one set of clipped values, one or more, and allows for the
        rounding of their squares. It is a mean of squares, so at least 0; the largest is reached where half of the
        values lie at either end (Popoviciu 1935). The root rises with it.
        """
        low, high = clip_of(quantities[0])
        return (Fraction(0), self._most((high - low) / 2))

    @abstractmethod
    def _most(self, half: Fraction) -> Fraction:
        """The largest spread, from half the width of the clip."""

    def estimate_tested(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The same values and standard errors, with the set of all spreads that the noise does not refuse.

        The set is cut with the box of margins, which gets a tenth of the error probability; where the laws of the draws
        are not tested, the interval is that of :meth:`estimate`.
        """
        found = self.estimate(noisy, confidence)
        box = self._spread(noisy, 1 - (1 - confidence) * BOX)
        ends = _tested(noisy[0].quantity, _moments(noisy), box, confidence)
        if ends is None:
            return found
        step = float(noisy[0].quantity.step)
        low, high = (self._in_units(end, step) for end in ends)
        return with_ends(found, low, high)

    def test_pays(self, laws: Sequence[Law], count: int | None, confidence: Fraction) -> bool:
        """Not in cells that are expected to have fewer rows than twelve margins of their number: the box is shorter."""
        return count is None or count >= _ROWS * laws[2].margin(confidence)

    def expected_tested(
        self,
        quantities: Sequence[Quantity],
        laws: Sequence[Law],
        confidence: Fraction,
        count: int | None,
        drawn: Sequence[str] = (),
    ) -> Expected:
        """For a cell of ``count`` rows, at the worst spread and mean that it can have."""
        found = self.expected(quantities, laws, confidence, count)
        if count is None or not self.test_pays(laws, count, confidence):
            return found
        square, step = quantities[0], float(quantities[0].step)
        squares, sums, counts = _every_cell(square, count)
        box = _spread(square, squares, sums, counts, laws, 1 - (1 - confidence) * BOX)
        ends = _tested(square, (squares, sums, counts, laws), box, confidence)
        if ends is None:
            return found
        value, low, high = (self._in_units(each, step) for each in (box.value, *ends))
        reach = np.fmax(value - low, high - value)
        return Expected(found.standard_error, float(np.nanmax(reach)))

    @abstractmethod
    def _in_units(self, variance: Floats, step: float) -> Floats:
        """A variance in squared steps as a spread in units of the measure."""

    def _spread(self, noisy: Sequence[Noisy], confidence: Fraction) -> _Spread:
        return _spread(noisy[0].quantity, *_moments(noisy), confidence)


class Variance(_Moments):
    """The population variance of the clipped values in each cell, from three measurements.

    It lies between 0 and the square of half the clip's width; it is blank where the noisy count is below 1.
    """

    kind: ClassVar[str] = "variance"
    plural: ClassVar[str] = marked("Variances")
    method: ClassVar[tuple[str, ...]] = _METHOD
    variance: str

    def described(self, table: Table, unit: str) -> str:
        """In squared units of the column."""
        named = table.column(self.variance).measured_in
        squared = f"{named}²" if named.isalpha() else f"({named})²"
        told = phrase(" in {unit}", unit=squared) if named else phrase(" in squared units of the column")
        return self.of_values(phrase("variance"), told, table, unit)

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """In squared units of the column."""
        return Formula(f"{_in_steps(terms)} * {operand(terms[0].quantity.step)} ** 2", (f"{terms[2].name} < 1",))

    def _most(self, half: Fraction) -> Fraction:
        return half**2

    def _in_units(self, variance: Floats, step: float) -> Floats:
        return variance * step**2

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """At the worst cell, where all values lie at the far end of the clip; see :func:`_gains`."""
        square = quantities[0]
        unit = float(square.step) ** 4 / (count or 1) ** 2
        top = _top(square)
        return tuple(unit * float(gain) for gain in _gains(square, np.array(top), np.array(top)))

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """Variances; the margin holds for all three draws together, the standard error is first order."""
        found = self._spread(noisy, confidence)
        unit = float(noisy[0].quantity.step) ** 2
        reach = np.maximum(found.value - found.least, found.most - found.value)
        return Estimate(value=found.value * unit, standard_error=found.error * unit, margin=reach * unit)

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """For a cell of ``count`` rows, at the worst spread and mean that it can have."""
        if count is None:
            return Expected(why_null=_WHY_NULL)
        found = _over_all(quantities[0], laws, confidence, count)
        unit = float(quantities[0].step) ** 2
        reach = np.maximum(found.value - found.least, found.most - found.value)
        return Expected(float(found.error.max()) * unit, float(reach.max()) * unit)


class Stddev(_Moments):
    """The root of the variance of the clipped values in each cell; see :class:`Variance`."""

    kind: ClassVar[str] = "stddev"
    plural: ClassVar[str] = marked("Standard deviations")
    method: ClassVar[tuple[str, ...]] = (
        *_METHOD,
        marked("A standard deviation is the square root of such a variance."),
    )
    stddev: str

    def described(self, table: Table, unit: str) -> str:
        """In the unit of the column."""
        return self.of_values(phrase("standard deviation"), self.unit_of(table), table, unit)

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """In units of the column."""
        return Formula(f"sqrt({_in_steps(terms)}) * {operand(terms[0].quantity.step)}", (f"{terms[2].name} < 1",))

    def _most(self, half: Fraction) -> Fraction:
        return half

    def _in_units(self, variance: Floats, step: float) -> Floats:
        return np.asarray(np.sqrt(variance) * step)

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """Those of a variance v over 4 v (the square of the root's slope), with v as of values evenly spread."""
        square = quantities[0]
        unit = float(square.step) ** 2 / (count or 1) ** 2
        top = _top(square)
        return tuple(unit * 3 / (4 * top) * float(gain) for gain in _gains(square, np.array(top), np.array(top)))

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """Roots of the variances and of the ends of their intervals, which rise with them and so hold as they do."""
        found = self._spread(noisy, confidence)
        value, reach, error = _rooted(found)
        step = float(noisy[0].quantity.step)
        return Estimate(value=value * step, standard_error=error * step, margin=reach * step)

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """For a cell of ``count`` rows, at the worst spread and mean that it can have."""
        if count is None:
            return Expected(why_null=_WHY_NULL)
        _, reach, error = _rooted(_over_all(quantities[0], laws, confidence, count))
        step = float(quantities[0].step)
        return Expected(float(error.max()) * step, float(reach.max()) * step)


_Moments3 = tuple[Floats, Floats, Floats, Sequence[Law]]


def _moments(noisy: Sequence[Noisy]) -> _Moments3:
    """Squares, sums and counts of every cell, without a count below 1, and the laws of their noise."""
    squares, centred, counted = noisy
    return (
        squares.values.astype(np.float64),
        centred.values.astype(np.float64),
        np.where(counted.values >= 1, counted.values, np.nan).astype(np.float64),
        [part.law for part in noisy],
    )


def _tested(square: Quantity, moments: _Moments3, box: _Spread, confidence: Fraction) -> tuple[Floats, Floats] | None:
    """The ends of the set in squared steps, with what rounding of squares can add; None where nothing is tested."""
    means = (float(square.low - square.centre), float(square.high - square.centre))
    cells = Moments(*moments[:3], float(square.grain), float(square.offset), means, moments[3])
    rounded = float(square.grain) / 2 if square.grain > 1 else 0.0
    found = spreads(cells, np.maximum(box.least - rounded, 0.0), box.most + rounded, confidence)
    if found is None:
        return None
    cap = (float(square.high - square.low) / 2) ** 2
    low, high = np.clip(found[0] - rounded, 0.0, cap), np.clip(found[1] + rounded, 0.0, cap)
    # Of pairs that both tests refuse nothing is left but the value; where nothing is said, the box is.
    said = np.isfinite(box.value) & np.isnan(found[0])
    return np.where(said, box.value, np.fmax(low, box.least)), np.where(said, box.value, np.fmin(high, box.most))


_WHY_NULL = "depends on the cell's size: give `expect` for a count of the query"


def _spread(
    square: Quantity, squares: Floats, sums: Floats, counts: Floats, laws: Sequence[Law], confidence: Fraction
) -> _Spread:
    """The variance of every cell, with bounds that hold for the three draws together (Bonferroni)."""
    grain, base = float(square.grain), float(square.grain) * float(square.offset)
    m_squares, m_sums, m_counts = joint_margins(laws, confidence)
    line = grain * (squares - m_squares), grain * (squares + m_squares)
    bend = np.maximum(np.abs(sums) - m_sums, 0.0) ** 2, (np.abs(sums) + m_sums) ** 2
    share = 1 / np.maximum(counts + m_counts, 1.0), 1 / np.maximum(counts - m_counts, 1.0)
    least, most = _range(line, bend, share)
    rounded = grain / 2 if square.grain > 1 else 0.0
    # What doubles can lose in these terms; it matters only where the noise is next to nothing.
    lost = _ROUNDING * ((np.abs(line[0]) + np.abs(line[1])) * share[1] + bend[1] * share[1] ** 2 + base)
    mean_square = np.clip(squares / counts, -float(square.offset), float(square.squares[1] - square.offset)) * grain
    mean = np.clip(sums / counts, float(square.low - square.centre), float(square.high - square.centre))
    cap = (float(square.high - square.low) / 2) ** 2
    gains = _gains(square, mean_square + base, mean**2)
    return _Spread(
        value=np.clip(mean_square + base - mean**2, 0.0, cap),
        least=np.clip(least + base - rounded - lost, 0.0, cap),
        most=np.clip(most + base + rounded + lost, 0.0, cap),
        error=np.sqrt(sum(gain * law.variance for gain, law in zip(gains, laws, strict=True))) / counts,
    )


def _in_steps(terms: Sequence[FormulaTerm]) -> str:
    """The formula of a variance in squared steps: the mean square less the squared mean, both about the centre."""
    squares, centred, counted = terms
    square = squares.quantity
    most = square.squares[1] - square.offset
    mean_square = f"clip({squares.name} / {counted.name}, {operand(-square.offset)}, {operand(most)})"
    mean_square = f"({mean_square} + {operand(square.offset)}) * {operand(square.grain)}"
    cap = Fraction(square.high - square.low, 2) ** 2
    return f"clip({mean_square} - {mean_of(centred, counted)} ** 2, 0, {operand(cap)})"


def _range(
    line: tuple[Floats, Floats], bend: tuple[Floats, Floats], share: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """The least and the largest a u - b u^2 over a box, each of its sides given by its two ends, b >= 0 and u > 0.

    With each draw within its margin (at a third of the error probability each) and N >= 1, the true S2, S1 and N lie
    in a box, and the variance of rounded squares in this range, with a = grain S2, b = S1^2 and u = 1 / N, plus
    grain times offset. Every rounded square is off by at most half a grain, and so is their mean; and no variance
    leaves [0, (high - low)^2 / 4] (Popoviciu 1935). The range is exact: the form rises in a and falls in b, and in u
    it is a downward parabola, so that its least value is at an end, and its largest at the vertex a / (2 b) or at
    the end that is nearer to it.
    """
    few, many = share[1], share[0]
    least = np.minimum(line[0] * few - bend[1] * few**2, line[0] * many - bend[1] * many**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Without a bend the form is a line in u, and its largest value at an end: the vertex is then beyond it.
        vertex = np.where(bend[0] > 0, line[1] / (2 * bend[0]), np.where(line[1] > 0, np.inf, -np.inf))
    at = np.clip(vertex, many, few)
    return least, line[1] * at - bend[0] * at**2


def _gains(square: Quantity, mean_square: Floats, squared_mean: Floats) -> tuple[Floats, Floats, Floats]:
    """N^2 times the squared slopes of the variance in S2, S1 and N, given the mean of x^2 and the squared mean of x.

    With v = g (S2 / N + offset) - (S1 / N)^2 they are g / N, -2 (S1 / N) / N and -(g S2 / N - 2 (S1 / N)^2) / N.
    """
    grain = float(square.grain)
    line = mean_square - grain * float(square.offset)
    return (np.full_like(mean_square, grain**2), 4 * squared_mean, (line - 2 * squared_mean) ** 2)


def _top(square: Quantity) -> float:
    """The largest square of a centred value, in squared steps."""
    return float(max(square.high - square.centre, square.centre - square.low)) ** 2


def _rooted(found: _Spread) -> tuple[Floats, Floats, Floats]:
    """Value, margin and standard error of the root.

    The root's slope has no bound at 0, but |sqrt(v + e) - sqrt(v)| <= sqrt|e|: its error is at most the root of the
    variance's.
    """
    value = np.sqrt(found.value)
    reach = np.maximum(value - np.sqrt(found.least), np.sqrt(found.most) - value)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(value == 0, np.inf, found.error / (2 * value))
    return value, reach, np.minimum(slope, np.sqrt(found.error))


def _over_all(square: Quantity, laws: Sequence[Law], confidence: Fraction, count: int) -> _Spread:
    """Cells of ``count`` rows over a grid of every mean and mean square that they can have, corners included.

    The mean square lies between the squared mean and the largest square. The largest error is at a corner (it is
    convex in both); the largest margin is that of the grid.
    """
    return _spread(square, *_every_cell(square, count), laws, confidence)


def _every_cell(square: Quantity, count: int) -> tuple[Floats, Floats, Floats]:
    """Squares, sums and counts of such cells."""
    share = np.linspace(0.0, 1.0, _PLACES)
    mean_square = np.repeat(share, _PLACES) * _top(square)
    squared_mean = np.tile(share, _PLACES) * mean_square
    squares = (mean_square / float(square.grain) - float(square.offset)) * count
    return squares, np.sqrt(squared_mean) * count, np.full_like(squares, float(count))
