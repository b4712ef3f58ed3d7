"""What measures of a column's values share: the clip, the margins of several draws together, and words for both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Tag

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.chosen_clip import PARTS, ChosenClip
from dprelease.catalog.table import ColumnType, Table
from dprelease.measures.base import Measure
from dprelease.measures.estimates import Expected
from dprelease.measures.text import Flaw, FormulaTerm, exact_text, operand, weighed
from dprelease.noise import Law
from dprelease.words import phrase

__all__ = ["Clipped", "Ranged", "Summed", "clip_of", "in_proportion", "joint_margins", "mean_of"]


def _form_of(clip: Any) -> str:
    return "chosen" if isinstance(clip, Mapping | ChosenClip) else "written"


Clip = Annotated[
    Annotated[tuple[Fraction, Fraction], Tag("written")] | Annotated[ChosenClip, Tag("chosen")],
    Discriminator(_form_of),
]
"""A clip as an author writes it: two numbers, or how noise shall choose it."""


class Ranged(Measure):
    """What sums, means and quantiles share: the clip of a column's values."""

    grid_kind: ClassVar[Literal["sum", "quantile"]] = "sum"
    clip: tuple[Fraction, Fraction] | None = None

    @property
    def limits(self) -> tuple[Fraction, Fraction] | None:
        """The clip that the author wrote; the largest one that noise can choose."""
        return self.clip if self.chosen_clip is None else self.chosen_clip.within

    def clipped(self, kind: Literal["sum", "quantile"], table: Table) -> Quantity:
        """A quantity of the column, clipped on its grid: to ``clip``, or to the range of the column."""
        column = table.column(str(self.column))
        assert column.range is not None  # noqa: S101 - resolve refuses a sum without a range
        step, chosen = column.grid_of(kind), self.chosen_clip
        if chosen is not None:
            return Quantity.with_chosen_clip(column.name, self.where, chosen.on_grid(step))
        low, high = self.limits if self.limits is not None else (column.range.low, column.range.high)
        return Quantity(
            kind=kind,
            column=column.name,
            step=step,
            low=int(low / step),
            high=int(high / step),
            where=self.where,
            per=self.per(table),
            weight=self.row_weight(table) if kind == "sum" else None,
        )

    def of_values(self, name: str, unit: str, table: Table, one: str) -> str:
        """A description of what is made of clipped values.

        Args:
            name: The number, such as ``mean``.
            unit: The unit of the number in words, with the blank before it; empty where there is none.
            table: The table of the query.
            one: The name of the unit of privacy.
        """
        declared = table.column(str(self.column)).range
        limits = self.limits
        if limits is None and declared is not None:
            limits = (declared.low, declared.high)
        moved = ""
        if limits:
            low, high = map(exact_text, limits)
            if self.chosen_clip is not None:
                moved = (
                    phrase(
                        ", what one {unit} adds up to in a cell first moved into 0 to a clip that noise has chosen, "
                        "{high} at most",
                        unit=one,
                        high=high,
                    )
                    if self.per(table) == "unit_cell"
                    else phrase(
                        ", each value first moved into 0 to a clip that noise has chosen, {high} at most", high=high
                    )
                )
            elif self.per(table) == "unit_cell":
                moved = phrase(
                    ", what one {unit} adds up to in a cell first moved into {low} to {high}",
                    unit=one,
                    low=low,
                    high=high,
                )
            else:
                moved = phrase(", each value first moved into {low} to {high}", low=low, high=high)
        weight = self.row_weight(table)
        told = "" if weight is None else weighed(weight)
        words = {"name": name, "column": table.column(str(self.column)).shown, "unit": unit}
        value = (
            phrase("{name} of {column}{unit}", **words)
            if weight is None
            else phrase("weighted {name} of {column}{unit}", **words)
        )
        return f"{value}{moved}{told}"

    def unit_of(self, table: Table) -> str:
        """The unit of the column in words, with the blank before it; empty where none is declared."""
        unit = table.column(str(self.column)).measured_in
        return phrase(" in {unit}", unit=unit) if unit else ""


class Clipped(Ranged):
    """What sums, means and spreads share: what the clip applies to.

    With ``clip_per: unit_cell`` the sum of a unit's values in a cell is one value, and is clipped once; the counts
    beside it are then of units with a value. Where every row is a unit the two are the same, and ``row`` is taken,
    so that other measures share the quantities.
    """

    clip_per: Literal["row", "unit_cell"] | None = None

    @property
    def adds_rows(self) -> bool:
        """Not where a unit's rows are clipped together; where nothing is said, that is the problem that is told."""
        return self.clip_per == "row"

    @property
    def lacks_clip_per(self) -> bool:
        """Whether ``clip_per`` is left out."""
        return self.clip_per is None

    def per(self, table: Table) -> Literal["row", "unit_cell"]:
        """What ``clip_per`` says; a row's value where every row is a unit."""
        return "unit_cell" if self.clip_per == "unit_cell" and table.unit_id is not None else "row"

    def how_many(self, table: Table) -> Quantity:
        """How many values there are to clip."""
        weight = self.row_weight(table)
        return Quantity(kind="nonnull", column=self.column, where=self.where, per=self.per(table), weight=weight)

    def summed(self, table: Table) -> Quantity:
        """The sum of the clipped values."""
        return self.clipped("sum", table)

    def centred(self, table: Table) -> Quantity:
        """The sum of the clipped values less the middle of the clip: half the reach of a clip that starts at 0."""
        plain = self.summed(table)
        return plain.model_copy(update={"centre": (plain.low + plain.high) // 2})


class Summed(Clipped):
    """What sums and means share: a clip that noise may choose."""

    clip: Clip | None = None  # type: ignore[assignment]  # a further form of it

    @property
    def chosen_clip(self) -> ChosenClip | None:
        """How noise shall choose the clip."""
        return self.clip if isinstance(self.clip, ChosenClip) else None

    def flaws(self, types: Mapping[str, ColumnType]) -> Iterator[Flaw]:
        """A clip that noise chooses lies between 0 and a declared end, at a price that leaves something for the sum."""
        chosen, here = self.chosen_clip, ("clip",)
        if chosen is None:
            return
        if chosen.within[0] != 0 or chosen.within[1] <= 0:
            hint = f"write `within: [0, {exact_text(max(abs(each) for each in chosen.within) or Fraction(1))}]`"
            yield Flaw("DPR-S452", (*here, "within"), "does not go from 0 upward, as a chosen clip does", hint)
        if not 0 < chosen.above <= _MOST_ABOVE:
            says = f"is not between 0 and {_MOST_ABOVE}"
            yield Flaw("DPR-S453", (*here, "above"), says, "leave it out: 2 is near the best for most columns")
        if not 0 < chosen.share <= _MOST_SHARE:
            says = "is not above 0 and at most 1/2 of the query's budget"
            yield Flaw("DPR-S453", (*here, "share"), says, "leave it out: more than 0.1 is of little use")
        if self.clip_per == "unit_cell":
            says = "chooses a clip of each unit's total, and noise chooses clips of rows"
            yield Flaw("DPR-S454", here, says, "write `clip_per: row`, or a clip of two numbers")
        if self.weighted:
            says = "chooses a clip of weighted rows, and noise chooses clips of rows that count once"
            yield Flaw("DPR-S455", here, says, "write `weighted: false`, or a clip of two numbers")


_MOST_ABOVE = 1000
_MOST_SHARE = Fraction(1, 2)


def in_proportion(quantity: Quantity, found: Expected) -> Expected:
    """Of a number whose clip noise chooses: nothing but how its errors grow with the clip; else what was found.

    Args:
        quantity: Its sum.
        found: Its errors at the clip that the quantity has, the largest one.
    """
    chosen = quantity.chosen
    if chosen is None or found.standard_error is None or found.margin is None:
        return found
    largest = float(PARTS * quantity.step)
    return Expected(
        why_null="in proportion to the clip that noise chooses: for each 1 of it a standard error of "
        f"{found.standard_error / largest:.4g} and a margin of {found.margin / largest:.4g}"
    )


def clip_of(quantity: Quantity) -> tuple[Fraction, Fraction]:
    """The clip of a quantity's values in units of the column, before anything is taken off them."""
    return quantity.low * quantity.step, quantity.high * quantity.step


def joint_margins(laws: Sequence[Law], confidence: Fraction) -> tuple[float, ...]:
    """Margins that hold for all of several draws together with this confidence (Bonferroni)."""
    alpha = (1 - confidence) / len(laws)
    return tuple(law.margin(1 - alpha) for law in laws)


def mean_of(centred: FormulaTerm, counted: FormulaTerm) -> str:
    """The formula of a mean of clipped values, in steps from their centre."""
    quantity = centred.quantity
    low, high = quantity.low - quantity.centre, quantity.high - quantity.centre
    return f"clip({centred.name} / {counted.name}, {operand(low)}, {operand(high)})"
