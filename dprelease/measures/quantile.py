"""``{quantiles: COLUMN, at: [...]}``, ``{min: COLUMN}``, ``{max: COLUMN}``: values at given ranks in each cell.

>>> quantile_name("middle", Fraction(1, 4)), quantile_name("middle", Fraction(1, 8)), quantile_name("m", Fraction(1, 3))
('middle_q25', 'middle_q12_5', 'm_q1of3')
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from dprelease.catalog.table import ColumnType
from dprelease.measures.base import Measure, WrittenMeasure
from dprelease.measures.clipped import Ranged
from dprelease.measures.counted_quantile import (
    FEWEST_CLASSES,
    MOST_CLASSES,
    CountedGini,
    CountedQuantile,
    CountedRatio,
    CountedShare,
)
from dprelease.measures.ranked_quantile import Quantile
from dprelease.measures.text import Flaw, Widest, exact_text

__all__ = ["Max", "Min", "Quantiles", "quantile_name"]


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
    stands: ClassVar[tuple[type[Measure], ...]] = (
        Quantile,
        CountedQuantile,
        CountedRatio,
        CountedShare,
        CountedGini,
    )
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
    gini: bool | None = Field(None, description="With counts: the Gini coefficient of the values, too.")

    @model_serializer(mode="wrap")
    def _without_what_is_unsaid(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Specs that do not say what is drawn keep the fingerprint that they had before one could."""
        unsaid = {"from", "from_"} if self.from_ is None else set()
        unsaid |= {
            name for name in (*self.LATER, "edges", "ratio_of", "below", "show", "gini") if getattr(self, name) is None
        }
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
        """One name for each rank, then for each ratio and each share, and for the Gini coefficient."""
        return (*self._ranks(name), *self._ratios(name), *self._shares(name), *([f"{name}_gini"] if self.gini else []))

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
        if self.gini:
            found[f"{name}_gini"] = CountedGini(counted_gini=self.quantiles, **said)
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
        """Ratios, shares and inequality are of counts; a ratio has the higher rank first; no value is below 0."""
        for field in ("ratio_of", "below", "gini"):
            if getattr(self, field) and self.counted_from == "ranks":
                yield Flaw("DPR-S587", (field,), "stands beside no counts", "write `from: counts`, or leave it out")
        if self.show is not None and self.below is None:
            yield Flaw("DPR-S587", ("show",), "has no shares to show", "write `below: [12000]` too, or leave it out")
        over, under = self.ratio_of or (1, 0)
        if not 0 <= under < over <= 1:
            hint = "write the higher rank first, both from 0 to 1: [0.9, 0.1]"
            yield Flaw("DPR-S580", ("ratio_of",), "is no pair of a higher and a lower rank", hint)
        asked = [field for field in ("ratio_of", "gini") if getattr(self, field)]
        if self.clip is None or self.clip[0] < 0:
            for field in asked:
                hint = "write a `clip` that begins at 0 or above: of negative values it says nothing"
                yield Flaw("DPR-S587", (field,), "needs a `clip` from 0 on", hint)

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
