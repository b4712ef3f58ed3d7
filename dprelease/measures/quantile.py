"""``{quantiles: COLUMN, at: [...]}``, ``{min: COLUMN}``, ``{max: COLUMN}``: values at given ranks in each cell.

>>> quantile_name("middle", Fraction(1, 4)), quantile_name("middle", Fraction(1, 8)), quantile_name("m", Fraction(1, 3))
('middle_q25', 'middle_q12_5', 'm_q1of3')
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import ColumnType, Table
from dprelease.errors import BrokenPromiseError
from dprelease.measures.base import (
    Flaw,
    Floats,
    Measure,
    Possible,
    Widest,
    WrittenMeasure,
)
from dprelease.measures.clipped import Ranged, clip_of, joint_margins
from dprelease.measures.counted_quantile import (
    FEWEST_CLASSES,
    MOST_CLASSES,
    CountedQuantile,
    CountedRatio,
    CountedShare,
)
from dprelease.measures.estimates import Estimate, Expected, Noisy
from dprelease.measures.text import Formula, FormulaTerm, exact_text, operand
from dprelease.noise import Law
from dprelease.words import marked, phrase

__all__ = ["Max", "Min", "Quantile", "Quantiles", "quantile_name"]


class Quantile(Ranged):
    """One quantile of a column's values, rounded to the grid and clipped, in each cell; see :meth:`estimate`.

    A quantile at rank a of n values is any number with at most ``a n`` of them below it and at most ``(1 - a) n``
    above it. Noise chooses a grid value by the exponential mechanism, the likelier the nearer its rank is to a.

    Attributes:
        quantile: The column.
        at: The rank a, from 0 to 1.
        among: The ranks of all quantiles that were asked for together, rising; ``at`` is one of them.
    """

    kind: ClassVar[str] = "quantile"
    plural: ClassVar[str] = marked("Quantiles")
    method: ClassVar[tuple[str, ...]] = (
        marked(
            "Quantiles that were asked for together are put in rising order. The margin of one follows from the others "
            "beside it and a noisy count of the column; it is blank where no such count was measured. It has no "
            "standard error."
        ),
    )
    held: ClassVar[bool] = False
    foreseen: ClassVar[Literal["never"]] = "never"
    grid_kind: ClassVar[Literal["quantile"]] = "quantile"
    other_form: ClassVar[Literal["offered"]] = "offered"
    quantile: str
    at: Fraction = Field(ge=0, le=1)
    among: tuple[Fraction, ...] = Field(min_length=1)

    @property
    def broken(self) -> str:
        """Its rank must be one of those that are drawn."""
        return "" if self.at in self.among else "is a quantile that is not drawn"

    def described(self, table: Table, unit: str) -> str:
        """The rank in percent, or which end it is."""
        name = phrase("quantile at {percent} %", percent=exact_text(100 * self.at))
        if self.at == 0:
            name = phrase("least value, which noise places roughly,")
        elif self.at == 1:
            name = phrase("largest value, which noise places roughly,")
        return self.of_values(name, self.unit_of(table), table, unit)

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One for each rank that was asked for together: they are drawn apart, and put in order by each of them."""
        one = self.clipped("quantile", table)
        return tuple(one.model_copy(update={"at": at}) for at in self.among)

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """Also with the number of values, from which its margin follows: for where that is measured anyway."""
        plain = self.quantities(table)
        return (plain, (*plain, Quantity(kind="nonnull", column=self.quantile, where=self.where)))

    def size(self, first: Quantity) -> int:
        """Not told by the first of its quantities: no ratio can be of a quantile, which has no error of its own."""
        raise BrokenPromiseError("a quantile has no size that its first quantity tells")

    def own(self, quantity: Quantity) -> bool:
        """Not the draws of the other ranks, among which its own is put in order."""
        return quantity.at in (None, self.at)

    def grid(self, quantities: Sequence[Quantity]) -> Fraction:
        """The step of the values."""
        return quantities[0].step

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """The clip: the margin is about every quantile that the clipped values themselves span, and they lie in it."""
        return clip_of(quantities[0])

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """1 of its own draw and 0 of all else: each quantile that is asked for pays for itself."""
        return tuple(1.0 if each.kind == "quantile" and each.at == self.at else 0.0 for each in quantities)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The draws of all ranks in rising order, of which its own place is taken; no standard error.

        Putting the draws in order uses nothing but the draws. The margin holds for all draws together, the count's
        included (Bonferroni over them), and needs the count; without it, it is blank.

        Proof. Let x_j be the draw at rank a_j and n >= 1 the number of values. With the joint confidence every score
        is at most its bound, #{> x_j} - (1 - a_j) n <= E_j and #{< x_j} - a_j n <= E_j, and n >= n_low, the noisy
        count less its margin. Let q be a quantile at a_i and (a_j - a_i) n_low > E_j. If x_j < q, then all values
        that are not above x_j are below q, at most a_i n of them, so that #{> x_j} >= (1 - a_i) n, and the score is
        at least (a_j - a_i) n > E_j: a contradiction. So q <= x_j; and in the same way q >= x_j where
        (a_i - a_j) n_low > E_j. The least of the former and the largest of the latter bound every quantile at a_i,
        and where there is none, the end of the clip does (of the quantiles that the values themselves span). The
        published value lies within that interval or not; the margin reaches from it to the farther end.
        A cell without values has no quantile, and nothing is said of it.
        """
        draws = [part for part in noisy if part.quantity.kind == "quantile"]
        own = draws[[part.quantity.at for part in draws].index(self.at)].quantity
        found = np.stack([part.values for part in draws]).astype(np.float64)
        ranks = [part.quantity.at or Fraction(0) for part in draws]
        value = np.sort(found, axis=0)[sorted(ranks).index(self.at)]
        blank = np.full_like(value, np.nan)
        margin = blank
        if len(noisy) > len(draws):
            least, most = self._interval(noisy, found, ranks, confidence)
            margin = np.maximum(value - least, most - value)
        step = float(own.step)
        return Estimate(value=value * step, standard_error=blank, margin=margin * step)

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """The draw at its place among all that were asked for together."""
        draws = [each for each in terms if each.quantity.kind == "quantile"]
        place = sorted(each.quantity.at or Fraction(0) for each in draws).index(self.at) + 1
        names = ", ".join(each.name for each in draws)
        return Formula(f"smallest({place}, {names}) * {operand(draws[0].quantity.step)}")

    def _interval(
        self, noisy: Sequence[Noisy], found: Floats, ranks: Sequence[Fraction], confidence: Fraction
    ) -> tuple[Floats, Floats]:
        """Bounds of the quantile in steps, from the draws ``(ranks, cells)`` and the count, which is the last input."""
        *reaches, m_count = joint_margins([part.law for part in noisy], confidence)
        own, fewest = noisy[0].quantity, noisy[-1].values.astype(np.float64) - m_count
        least, most = np.full_like(found[0], own.low), np.full_like(found[0], own.high)
        for draw, rank, reach in zip(found, ranks, reaches, strict=True):
            # A rank farther away by more than the reach of its score, with a hair for the rounding of doubles.
            apart = float(abs(rank - self.at)) * fewest > reach * (1 + 1e-12)
            if rank > self.at:
                most = np.where(apart, np.minimum(most, draw), most)
            elif rank < self.at:
                least = np.where(apart, np.maximum(least, draw), least)
        return least, most

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """Nothing: how far apart values of neighbouring ranks are is a matter of the data."""
        return Expected(why_null="depends on the data: how far apart the values of neighbouring ranks lie")


class _Choices(Ranged, WrittenMeasure):
    """What is asked of the ranks of a column's values: one published number for each rank."""

    stands: ClassVar[tuple[type[Measure], ...]] = (Quantile,)
    foreseen: ClassVar[Literal["never"]] = "never"
    grid_kind: ClassVar[Literal["quantile"]] = "quantile"
    widest: ClassVar[Widest] = Widest(2**31, "DPR-S581", "spans more than 2^31 steps of {}, too many to choose from")

    @abstractmethod
    def _ranks(self, name: str) -> dict[str, Fraction]:
        """Each rank by its published name, in the order in which they are published."""

    def published(self, name: str) -> tuple[str, ...]:
        """One name for each rank."""
        return tuple(self._ranks(name))

    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """One :class:`Quantile` for each rank, in the order in which they are written."""
        ranks = self._ranks(name)
        among = tuple(sorted(set(ranks.values())))
        return {
            label: Quantile(
                quantile=str(self.column), at=at, among=among, clip=self.clip, where=self.where, weighted=self.weighted
            )
            for label, at in ranks.items()
        }


class Quantiles(_Choices):
    """Several quantiles of one column, as an author writes them: one published number for each of ``at``."""

    model_config: ClassVar[ConfigDict] = ConfigDict(populate_by_name=True)
    stands: ClassVar[tuple[type[Measure], ...]] = (Quantile, CountedQuantile, CountedRatio, CountedShare)
    kind: ClassVar[str] = "quantiles"
    quantiles: str
    at: tuple[Fraction, ...] = Field(min_length=1, examples=[[0.25, 0.5, 0.75]])
    from_: Literal["counts", "ranks"] | None = Field(
        None,
        alias="from",
        description="`counts`: one draw for all ranks; `ranks`: a draw for each. Left out: counts from three ranks on, "
        "or beside a count of the column, where there is a delta.",
    )
    edges: tuple[Fraction, ...] | None = Field(
        None,
        description="With counts: where each class of values begins, from the clip's low end on; else 1,024 alike.",
        examples=[[0, 10000, 20000, 50000]],
    )
    ratio_of: tuple[Fraction, Fraction] | None = Field(
        None,
        description="With counts: how many times the second quantile the first is: P90 / P10.",
        examples=[[0.9, 0.1]],
    )
    below: tuple[Fraction, ...] | None = Field(
        None, description="With counts: the share of values below each of these.", examples=[[12000, 24000]]
    )
    show: Literal["percent"] | None = Field(None, description="percent: the shares of `below` are in percent.")

    @model_serializer(mode="wrap")
    def _without_what_is_unsaid(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Specs that do not say what is drawn keep the fingerprint that they had before one could."""
        unsaid = {"from", "from_"} if self.from_ is None else set()
        unsaid |= {name for name in (*self.LATER, "edges", "ratio_of", "below", "show") if getattr(self, name) is None}
        fields: dict[str, Any] = written(self)
        return {name: each for name, each in fields.items() if name not in unsaid}

    @property
    def gaussian(self) -> bool:  # type: ignore[override]  # said by the class of other kinds
        """Where counts are drawn."""
        return self.counted_from == "counts"

    @property
    def counted_from(self) -> Literal["counts", "ranks"]:
        """What is drawn."""
        return self.from_ or "ranks"

    def drawn_as_counts(self, counted: bool) -> Measure:
        """From three ranks on, or where an interval is wanted; not of extremes, which hang on one unit."""
        inner = all(0 < at < 1 for at in self.at)
        better = self.from_ is None and inner and (counted or len(self.at) >= _SEVERAL)
        return self.model_copy(update={"from_": "counts"}) if better else self

    def _ranks(self, name: str) -> dict[str, Fraction]:
        return {quantile_name(name, at): at for at in self.at}

    def _ratios(self, name: str) -> dict[str, tuple[Fraction, Fraction]]:
        if self.ratio_of is None:
            return {}
        over, under = self.ratio_of
        return {quantile_name(f"{quantile_name(name, over)}_to", under): (over, under)}

    def _shares(self, name: str) -> dict[str, Fraction]:
        return {f"{name}_below_{exact_text(each)}".translate(_AS_NAME): each for each in self.below or ()}

    def published(self, name: str) -> tuple[str, ...]:
        """One name for each rank, then for each ratio and each share."""
        return (*self._ranks(name), *self._ratios(name), *self._shares(name))

    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """One measure for each number, of the kind that is drawn."""
        if self.counted_from == "ranks":
            return super().planned(name, others)
        said = {"clip": self.clip, "where": self.where, "edges": self.edges or (), "weighted": self.weighted}
        found: dict[str, Measure] = {
            label: CountedQuantile(counted_quantile=self.quantiles, at=at, **said)
            for label, at in self._ranks(name).items()
        }
        for label, (over, under) in self._ratios(name).items():
            found[label] = CountedRatio(counted_ratio=self.quantiles, over=over, under=under, **said)
        for label, below in self._shares(name).items():
            found[label] = CountedShare(counted_share=self.quantiles, below=below, show=self.show, **said)
        return found

    def flaws(self, types: Mapping[str, ColumnType]) -> Iterator[Flaw]:
        """Each rank once, from 0 to 1, rising: the published columns come in that order."""
        for number, rank in enumerate(self.at):
            here = ("at", number)
            if not 0 <= rank <= 1:
                hint = "write a fraction from 0 to 1: 0.5 is the median, 0.9 the 90th percentile"
                yield Flaw("DPR-S580", here, "is not between 0 and 1", hint)
            elif rank in self.at[:number]:
                yield Flaw("DPR-S580", here, "is there already", "write every rank once")
            elif number and rank < self.at[number - 1]:
                yield Flaw("DPR-S580", here, "is smaller than the one before", "write them rising: [0.25, 0.5, 0.75]")
        yield from self._flaws_of_edges()
        yield from self._flaws_of_more()

    def _flaws_of_edges(self) -> Iterator[Flaw]:
        """Classes of counts begin one after the other, within the clip and from its low end on."""
        if self.edges is None:
            return
        code, clip = "DPR-S587", self.clip
        if self.counted_from == "ranks":
            yield Flaw(code, ("edges",), "stands beside no counts", "write `from: counts`, or leave `edges` out")
        elif clip is None:
            yield Flaw(code, ("edges",), "needs a `clip`, at whose low end the first class begins", "write `clip` too")
        elif len(self.edges) < FEWEST_CLASSES or any(b <= a for a, b in pairwise(self.edges)):
            hint = "write two numbers or more: `edges: [0, 10000, 20000]`"
            yield Flaw(code, ("edges",), "does not rise from class to class", hint)
        elif self.edges[0] != clip[0] or self.edges[-1] > clip[1]:
            says = f"does not begin at {clip[0]}, the low end of the clip, or goes beyond {clip[1]}, the high one"
            yield Flaw(code, ("edges",), says, f"write {clip[0]} first, and nothing above {clip[1]}")
        elif len(self.edges) > MOST_CLASSES:
            says = f"has {len(self.edges):,} classes, more than {MOST_CLASSES:,}"
            yield Flaw("DPR-S588", ("edges",), says, "write fewer edges, or leave them out")

    def _flaws_of_more(self) -> Iterator[Flaw]:
        """Ratios and shares are of counts; a ratio has the higher rank first, and no value below 0."""
        for field in ("ratio_of", "below"):
            if getattr(self, field) is not None and self.counted_from == "ranks":
                yield Flaw("DPR-S587", (field,), "stands beside no counts", "write `from: counts`, or leave it out")
        if self.show is not None and self.below is None:
            yield Flaw("DPR-S587", ("show",), "has no shares to show", "write `below: [12000]` too, or leave it out")
        if self.ratio_of is None:
            return
        over, under = self.ratio_of
        if not 0 <= under < over <= 1:
            hint = "write the higher rank first, both from 0 to 1: [0.9, 0.1]"
            yield Flaw("DPR-S580", ("ratio_of",), "is no pair of a higher and a lower rank", hint)
        elif self.clip is None or self.clip[0] < 0:
            hint = "write a `clip` that begins at 0 or above: a ratio of negative values says nothing"
            yield Flaw("DPR-S587", ("ratio_of",), "needs a `clip` from 0 on", hint)

    def warnings(self) -> Iterator[Flaw]:
        """A warning for every rank that is 0 or 1: the extremes."""
        return (_extreme("at", number) for number, rank in enumerate(self.at) if rank in (0, 1))


class Min(_Choices):
    """The least value of a column: its quantile at 0, which noise can only place roughly."""

    kind: ClassVar[str] = "min"
    min: str

    def _ranks(self, name: str) -> dict[str, Fraction]:
        return {name: Fraction(0)}

    def warnings(self) -> Iterator[Flaw]:
        """That it is an extreme."""
        yield _extreme("min")


class Max(_Choices):
    """The largest value of a column: its quantile at 1, which noise can only place roughly."""

    kind: ClassVar[str] = "max"
    max: str

    def _ranks(self, name: str) -> dict[str, Fraction]:
        return {name: Fraction(1)}

    def warnings(self) -> Iterator[Flaw]:
        """That it is an extreme."""
        yield _extreme("max")


_SEVERAL = 3  # ranks, from which on one draw of counts is better than a draw for each
_AS_NAME = str.maketrans({",": "", ".": "_", "/": "of", "−": "minus_"})


def _extreme(*at: str | int) -> Flaw:
    """What an author should know of a least or a largest value.

    It hangs on one unit, which is what noise hides: no number below the least value has a row below it, so that all of
    them are equally likely, from the end of the clip to that value.
    """
    return Flaw(
        "DPR-S701",
        at,
        "is an extreme: it falls anywhere between the end of the clip and the extreme value",
        "ask for quantiles such as 0.01 and 0.99, and give a clip that is not much wider than the values",
    )


def quantile_name(name: str, at: Fraction) -> str:
    """The published name of a quantile: its rank in percent where a decimal can write it, else the fraction."""
    percent = 100 * at
    places = next((n for n in range(19) if (percent * 10**n).denominator == 1), None)
    if places is None:
        return f"{name}_q{at.numerator}of{at.denominator}"
    digits = str(int(percent * 10**places)).rjust(places + 1, "0")
    return f"{name}_q{digits}" if not places else f"{name}_q{digits[:-places]}_{digits[-places:]}"
