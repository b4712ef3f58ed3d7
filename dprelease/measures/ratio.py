"""``{ratio: [a, b]}``: one measure of a query over another one, in each cell; it draws nothing of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import Field, field_validator

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import known_where, parse
from dprelease.catalog.table import Table
from dprelease.errors import BrokenPromiseError
from dprelease.measures.base import Floats, Measure, Possible, WrittenMeasure
from dprelease.measures.count import Count
from dprelease.measures.estimates import Estimate, Expected, Noisy
from dprelease.measures.sum import Sum
from dprelease.measures.tested.quotients import Draw, NoisyQuotient, widest_reach, with_ends
from dprelease.measures.tested.shares import error_of_parts, part_and_rest
from dprelease.measures.text import Formula, FormulaTerm, operand
from dprelease.noise import Law
from dprelease.words import marked, phrase

if TYPE_CHECKING:
    Part = Measure  # any kind that is planned as it is written; ``measures`` says which ones there are

__all__ = ["PlannedRatio", "Ratio"]

_P = TypeVar("_P", Quantity, Noisy, FormulaTerm)


class PlannedRatio(Measure):
    """A quotient of two estimates; its quantities are the first one's, followed by the second one's.

    Attributes:
        ratio: The names of the two measures.
        of: What they are.
        implied: Both are counts, and the condition of the first can only be true in rows where the column that the
            second one counts has a value (found from that condition; plans from before it was looked for do not say
            so).
        show: ``percent``: the number, its errors and its interval are hundredfold; None: it is the quotient itself.
        by_draws: Its standard error follows from the draws that both numbers are linear in; else, as in plans from
            before and of other numbers, from those of the two, of which it is the sum where they share a draw.
    """

    LATER: ClassVar[tuple[str, ...]] = ("weighted", "implied", "show", "by_draws")
    kind: ClassVar[str] = "ratio"
    tag: ClassVar[str] = "of"
    plural: ClassVar[str] = marked("Ratios")
    method: ClassVar[tuple[str, ...]] = (
        marked(
            "A ratio is one published number over another, blank where the lower one is below one step of its grid; "
            "a part of a whole is held between 0 and 1. Its margin covers the noise of both, and is blank where the "
            "lower number might be 0."
        ),
    )
    held: ClassVar[bool] = False
    foreseen: ClassVar[Literal["by_size"]] = "by_size"
    by_weights: ClassVar[bool] = False
    ratio: tuple[str, str]
    of: tuple[Part, Part]
    implied: bool = False
    show: Literal["percent"] | None = None
    by_draws: bool = False

    def of_titles(self, title: Callable[[str], str]) -> Measure:
        """The same by the titles of its two measures."""
        return self.model_copy(update={"ratio": tuple(map(title, self.ratio))})

    @property
    def whole(self) -> int:
        """100 of a percentage: every figure is then a hundred times that of the quotient."""
        return 100 if self.show == "percent" else 1

    @property
    def others(self) -> tuple[str, ...]:
        """The two measures."""
        return self.ratio

    @property
    def made_of(self) -> tuple[Measure, ...]:
        """What the two measures are."""
        return self.of

    @property
    def sampled_as(self) -> Literal["share"] | None:
        """A share, where it is one of people."""
        return "share" if self.is_share and self.of[0].weighted is not False else None

    @property
    def adds_rows(self) -> bool:
        """It measures nothing of its own."""
        return False

    @property
    def claim(self) -> tuple[str | None, str | None] | None:
        """Where it is said to be a part of a whole by a condition: that one, and the column that is counted below."""
        above, below = self.of
        return (above.where if above.counted else None, below.counted) if self.implied else None

    def settled(self, table: Table) -> PlannedRatio:
        """One of counts says so where the rows above have a value in the column below, by their condition."""
        if table.weight is None and not self._alike:  # where there are no weights, that one takes none says nothing
            bare = tuple(each.model_copy(update={"weighted": None}) for each in self.of)
            return self.model_copy(update={"of": bare}).settled(table)
        above, below = self.of
        open_to = not self.is_share and above.where is not None and above.counted and below.counted in table.types
        implied = bool(open_to) and below.counted in known_where(parse(above.where or "", table.types).root)
        return self.model_copy(update={"implied": implied, "by_draws": True})

    def described(self, table: Table, unit: str) -> str:
        """By the names of the two measures."""
        words = phrase("{above} divided by {below}", above=self.ratio[0], below=self.ratio[1])
        return phrase("{words}, in percent", words=words) if self.show == "percent" else words

    def size(self, first: Quantity) -> int:
        """Not told by the first of its quantities: no ratio is of ratios."""
        raise BrokenPromiseError("a ratio has no size that its first quantity tells")

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """Those of the two measures, one after the other."""
        return (*self.of[0].quantities(table), *self.of[1].quantities(table))

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """Every form of the one beside every form of the other."""
        first, second = (each.alternatives(table) for each in self.of)
        return tuple((*one, *other) for one, other in product(first, second))

    def parts_of_whole(self, table: Table) -> tuple[Quantity, Quantity] | None:
        """Of a share of rows what is counted above, and what is counted below and not above (``tested.shares``)."""
        return part_and_rest(self.quantities(table), table) if self.is_share else None

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """[0, 1] for a part of a whole; else on one side of 0 where the two measures' own limits say so.

        A part of a whole is a count of some of the rows that are counted below (see :attr:`is_share`), both of the
        same bounded rows, so that 0 <= A <= B. Of other ratios the sign is known where A is on one side of 0 and B is
        at least 0: the ratio of two counts is at least 0, and it can be above 1. Where B is 0 there is no ratio, and
        nothing is said of it.
        """
        if self.is_share:
            return (Fraction(0), Fraction(self.whole))
        above, below = self._split(quantities)
        low, high = self.of[0].bounds(above)
        least, _ = self.of[1].bounds(below)
        if least is None or least < 0:
            return (None, None)
        zero = Fraction(0)
        return (zero if low is not None and low >= 0 else None, zero if high is not None and high <= 0 else None)

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """The weights of A / B at the largest likely ratio r: 1 / B^2 times those of A, r^2 / B^2 times those of B.

        B is ``count`` where it is a count, else 1 per row; r is 1 for a part of a whole, and for a sum over a count
        the farther end of the clip.
        """
        size = float(count or 1) / self.whole
        above, below = self._split(quantities)
        first = [weight / size**2 for weight in self.of[0].weights(above, count)]
        second = [self._worst(above) ** 2 * weight / size**2 for weight in self.of[1].weights(below, count)]
        return (*first, *second)

    def error(self, quantities: Sequence[Quantity], variances: Sequence[float], count: int | None) -> float:
        """At the worst ratio, from the draws where both numbers are linear in them; else from the errors of the two."""
        above, below = self._split(quantities)
        of_draws = self._coefficients(quantities) if self.by_draws else None
        if of_draws is not None:
            variance = dict(zip(quantities, variances, strict=True))
            ends = self._ends(above) or (-1.0, 1.0)
            found = [math.fsum((a - end * b) ** 2 * variance[q] for q, (a, b) in of_draws.items()) for end in ends]
            return math.sqrt(max(found)) / float(count or 1) * self.whole
        first = self.of[0].error(above, variances[: len(above)], count)
        second = self.of[1].error(below, variances[len(above) :], count)
        shared = not set(above).isdisjoint(below)
        return float(_error(first, self._worst(above) * second, shared)) / float(count or 1) * self.whole

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """What :meth:`_quotient` says, in percent where that is asked for."""
        return self._quotient(noisy, confidence).times(self.whole)

    def _quotient(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """Quotients; blank where the number below is smaller than one step of its grid, or not above 0.

        The margin holds whatever the data: with a joint confidence (Bonferroni) both true numbers lie within their
        own margins, and the number below is at least one step where it is a whole number of steps and cannot be
        negative; the quotient of the two then lies in its range over that box, for the box is all on one side of 0.
        Where the box holds 0, no margin is known and it is blank. A part of a whole (rows of the same kind, the
        ones above being among the ones below) lies between 0 and 1, and so are value and range held.
        The standard error is first order (delta method); where both numbers share a draw it is the sum of their two
        parts, which is never less (Cauchy-Schwarz).
        """
        above, below = self._split(noisy)
        half = 1 - (1 - confidence) / 2
        top, bottom = self.of[0].estimate(above, half), self.of[1].estimate(below, half)
        known_floor = self.of[1].least_above_zero([part.quantity for part in below])
        floor = None if known_floor is None else float(known_floor)
        least_below = floor if floor is not None else 0.0
        known = np.where((bottom.value >= least_below) & (bottom.value > 0), bottom.value, np.nan)
        fewest = bottom.value - bottom.margin if floor is None else np.maximum(bottom.value - bottom.margin, floor)
        value = top.value / known
        least, most = _range(top.value, top.margin, np.where(fewest > 0, fewest, np.nan), known + bottom.margin)
        if self.is_share:
            value, least, most = (np.clip(each, 0.0, 1.0) for each in (value, least, most))
        shared = {part.quantity for part in above} & {part.quantity for part in below}
        of_draws = self._coefficients([part.quantity for part in noisy]) if self.by_draws else None
        if of_draws is not None:
            error = error_of_parts(of_draws, noisy, value) / known
        else:
            error = _error(top.standard_error, np.abs(value) * bottom.standard_error, bool(shared)) / known
        return Estimate(value=value, standard_error=error, margin=np.maximum(value - least, most - value))

    def estimate_tested(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The same values and standard errors, with the set of all quotients that the noise does not refuse.

        Of two numbers that are linear in their draws, as counts and sums are; of others as :meth:`estimate` says.
        """
        found, quotient = self._quotient(noisy, confidence), self.as_quotient(noisy)
        if quotient is not None:
            known = quotient._replace(below=np.where(np.isnan(found.value), np.nan, quotient.below))
            found = with_ends(found, *known.tested(confidence))
        return found.times(self.whole)

    def as_quotient(self, noisy: Sequence[Noisy]) -> NoisyQuotient | None:
        """The two numbers, where both are linear in their draws."""
        of = [part.quantity for part in noisy]
        draws = self._draws(of, [part.law for part in noisy], [part.drawn for part in noisy])
        if draws is None:
            return None
        fed = {part.quantity: part for part in noisy}.values()  # one draw each, in the order of the draws
        values = np.stack([part.values.astype(np.float64) for part in fed])
        top, bottom = (np.array([each[side] for each in draws]) @ values for side in (1, 2))
        low, high = self.bounds(of)
        # An end that is not 0 is that of a part of a whole.
        possible = (None if low is None else float(low), None if high is None else float(high / self.whole))
        least = self.of[1].least_above_zero(self._split(of)[1])
        return NoisyQuotient(top, bottom, draws, possible, float(least or 0), 0.0, float(self.whole))

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """One formula over the other, blank where either is or where the lower number is too small."""
        above, below = self._split(terms)
        top, bottom = self.of[0].formula(above), self.of[1].formula(below)
        least = self.of[1].least_above_zero([term.quantity for term in below])
        lowest = f"({bottom.text}) <= 0" if least is None else f"({bottom.text}) < {operand(least)}"
        text = f"({top.text}) / ({bottom.text})"
        blank = tuple(dict.fromkeys((*top.blank, *bottom.blank, lowest)))
        text = f"clip({text}, 0, 1)" if self.is_share else text
        return Formula(text if self.whole == 1 else f"{self.whole} * ({text})", blank)

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """For a cell of ``count`` below, at the worst ratio: of a part of a whole, or of a sum, over a count."""
        above, below = self._split(quantities)
        ends = self._ends(above)
        if ends is None:
            return Expected(why_null="depends on the data: how large the two numbers are")
        if count is None:
            return Expected(why_null="depends on the cell's size: give `expect` for a count of the query")
        half = 1 - (1 - confidence) / 2
        top = self.of[0].expected(above, laws[: len(above)], half, count)
        bottom = self.of[1].expected(below, laws[len(above) :], half, count)
        m_top, m_bottom = top.margin or 0.0, bottom.margin or 0.0
        fewest = max(count - m_bottom, float(self.of[1].least_above_zero(below) or 1))
        # Of a part of a whole the margin is largest at an end, or where the range begins to be held at 1.
        turn = min(max((fewest - m_top) / count, 0.0), 1.0)
        ratios = np.array([*ends, turn] if self.is_share else ends)
        full = np.full_like(ratios, 1.0)
        least, most = _range(ratios * count, m_top * full, fewest * full, (count + m_bottom) * full)
        if self.is_share:
            least, most = np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)
        worst = max(map(abs, ends))
        if self.by_draws and self._coefficients(quantities) is not None:
            found = self.error(quantities, [law.variance for law in laws], count)
            return Expected(found, float(np.maximum(ratios - least, most - ratios).max()) * self.whole)
        shared = bool(set(above) & set(below))
        error = _error(top.standard_error or 0.0, worst * (bottom.standard_error or 0.0), shared) / count
        margin = np.maximum(ratios - least, most - ratios).max()
        return Expected(float(error) * self.whole, float(margin) * self.whole)

    def expected_tested(
        self,
        quantities: Sequence[Quantity],
        laws: Sequence[Law],
        confidence: Fraction,
        count: int | None,
        drawn: Sequence[str] = (),
    ) -> Expected:
        """For a cell of ``count`` below, at the ratio whose interval just reaches an end of what is possible."""
        found = self.expected(quantities, laws, confidence, count)
        above, _ = self._split(quantities)
        draws, ends = self._draws(quantities, laws, drawn), self._ends(above)
        if draws is None or ends is None or count is None:
            return found
        return Expected(found.standard_error, self.whole * widest_reach(draws, ends, confidence, count))

    def _draws(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], drawn: Sequence[str] = ()
    ) -> tuple[Draw, ...] | None:
        """Every draw that is in one of the two numbers or both; None where one of them is not linear in its own."""
        found = self._coefficients(quantities)
        if found is None:
            return None
        law = dict(zip(quantities, laws, strict=True))
        of = dict(zip(quantities, drawn or [""] * len(quantities), strict=True))
        return tuple(Draw(law[part], *weights, of[part]) for part, weights in found.items())

    def _coefficients(self, quantities: Sequence[Quantity]) -> dict[Quantity, tuple[float, float]] | None:
        """How often each quantity is in the upper and in the lower number; None where one is not linear in its own."""
        found = {part: [0.0, 0.0] for part in quantities}
        for side, parts in enumerate(self._split(quantities)):
            weights = self.of[side].coefficients(parts)
            if weights is None:
                return None
            for part, weight in zip(parts, weights, strict=True):
                found[part][side] += float(weight)
        return {part: (top, bottom) for part, (top, bottom) in found.items()}

    @property
    def is_share(self) -> bool:
        """Whether what is counted above is always among what is counted below, so that the ratio is within [0, 1].

        Every row of the first is one of the second where that counts rows, the same column or a column with a value
        wherever the condition of the first is true, and where it has no condition or the same one, and like weights.
        """
        above, below = self.of
        if above.counted is None or below.counted is None or not self._alike:
            return False
        return (self.implied or below.counted in ("rows", above.counted)) and below.where in (None, above.where)

    @property
    def _alike(self) -> bool:  # a row counts as often in both: as it weighs, or once
        return len({each.weighted is False for each in self.of}) == 1

    def _split(self, parts: Sequence[_P]) -> tuple[Sequence[_P], Sequence[_P]]:
        """What belongs to the first measure and what to the second: quantities, or what says of which one it is."""
        first = parts[0] if isinstance(parts[0], Quantity) else parts[0].quantity
        length = self.of[0].size(first)
        return parts[:length], parts[length:]

    def _worst(self, above: Sequence[Quantity]) -> float:
        """The largest size of the ratio; 1 where nothing is known of it."""
        return max(map(abs, self._ends(above) or (1.0, 1.0)))

    def _ends(self, above: Sequence[Quantity]) -> tuple[float, float] | None:
        """The least and the largest ratio, where something is known of them."""
        if self.is_share:
            return (0.0, 1.0)
        if not isinstance(self.of[1], Count) or not isinstance(self.of[0], Sum) or not self._alike:
            return None
        step = float(above[0].step)
        return (above[0].low * step, above[0].high * step)


class Ratio(WrittenMeasure):
    """One measure of the query over another one, by their names."""

    kind: ClassVar[str] = "ratio"
    foreseen: ClassVar[Literal["by_size"]] = "by_size"
    stands: ClassVar[tuple[type[Measure], ...]] = (PlannedRatio,)
    has_totals: ClassVar[bool] = True
    LATER: ClassVar[tuple[str, ...]] = ("weighted", "show")
    ratio: tuple[str, str]
    show: Literal["percent"] | None = Field(None, description="percent: the number and its interval are in percent.")

    @property
    def others(self) -> tuple[str, ...]:
        """The two measures."""
        return self.ratio

    @property
    def adds_rows(self) -> bool:
        """It measures nothing of its own."""
        return False

    @field_validator("where")
    @classmethod
    def _no_where(cls, where: str | None) -> str | None:
        if where is not None:
            raise ValueError("a ratio has no `where` of its own: give it to its two measures")
        return where

    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """The same with its two measures spelled out, so that a plan can be read without its neighbours."""
        first, second = (others[each] for each in self.ratio)
        return {name: PlannedRatio.model_validate({"ratio": self.ratio, "of": (first, second), "show": self.show})}


def _range(top: Floats, margin: Floats, fewest: Floats, most: Floats) -> tuple[Floats, Floats]:
    """The least and the largest quotient over a box, whose lower side ``[fewest, most]`` is above 0."""
    low, high = top - margin, top + margin
    return np.minimum(low / fewest, low / most), np.maximum(high / fewest, high / most)


def _error(first: Any, second: Any, shared: bool) -> Any:
    return first + second if shared else np.sqrt(first**2 + second**2)
