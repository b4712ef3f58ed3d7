"""What measures of a column's values share: the clip, the margins of several draws together, and words for both."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Literal

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.base import Measure
from dprelease.measures.text import FormulaTerm, exact_text, operand, weighed
from dprelease.noise import Law
from dprelease.words import phrase

__all__ = ["Clipped", "Ranged", "clip_of", "joint_margins", "mean_of"]


class Ranged(Measure):
    """What sums, means and quantiles share: the clip of a column's values."""

    grid_kind: ClassVar[Literal["sum", "quantile"]] = "sum"
    clip: tuple[Fraction, Fraction] | None = None

    @property
    def limits(self) -> tuple[Fraction, Fraction] | None:
        """The clip that the author wrote."""
        return self.clip

    def clipped(self, kind: Literal["sum", "quantile"], table: Table) -> Quantity:
        """A quantity of the column, clipped on its grid: to ``clip``, or to the range of the column."""
        column = table.column(str(self.column))
        assert column.range is not None  # noqa: S101 - resolve refuses a sum without a range
        low, high = self.clip if self.clip is not None else (column.range.low, column.range.high)
        step = column.grid_of(kind)
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
        limits = self.clip
        if limits is None and declared is not None:
            limits = (declared.low, declared.high)
        moved = ""
        if limits:
            low, high = map(exact_text, limits)
            if self.per(table) == "unit_cell":
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
