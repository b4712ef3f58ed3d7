"""What every kind of measure must say."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dprelease.canonical import Value
from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.errors import BrokenPromiseError
from dprelease.noise import Law

__all__ = [
    "Asked",
    "Clipped",
    "Estimate",
    "Expected",
    "Measure",
    "Noisy",
    "Possible",
    "Ranged",
    "clip_of",
    "joint_margins",
]

Floats = npt.NDArray[np.float64]

Possible = tuple[Fraction | None, Fraction | None]
"""The least and the largest that a true number can be; None: nothing is known on that side."""


@dataclass(frozen=True, eq=False)
class Noisy:
    """One measurement of a quantity, with the public law of its noise; all in grid steps.

    Of a quantile the values are grid multiples within its clip, and the law is that of their score.
    """

    quantity: Quantity
    values: npt.NDArray[np.int64]
    law: Law

    def scaled(self, number: Floats | npt.NDArray[np.int64] | float) -> Floats:
        """Grid steps to units of the column."""
        step = float(self.quantity.step)
        return np.asarray(number, dtype=np.float64) * step


@dataclass(frozen=True, eq=False)
class Estimate:
    """One number per cell with its uncertainty, all of shape ``(cells,)``; NaN means blank."""

    value: Floats
    standard_error: Floats
    margin: Floats


@dataclass(frozen=True)
class Expected:
    """Accuracy that the noise law promises before any draw, or why it cannot say."""

    standard_error: float | None = None
    margin: float | None = None
    why_null: str | None = None


class Measure(Value):
    """One published number per cell.

    A measure names the quantities that it needs (each is measured once, by one step, however many measures
    of the query share it) and turns their noisy values into estimates. It never sees an exact value.

    Attributes:
        where: The rows that it looks at, beside the query's own ``where``; None: all. Every quantity that it needs
            looks at these rows alone.
    """

    where: str | None = None

    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """One measure for every published number that this one asks for, by its published name.

        Args:
            name: Of this measure in the spec.
            others: All measures of the query as the author wrote them.
        """
        return {name: self}

    @abstractmethod
    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """What must be measured, in the order that :meth:`estimate` takes it."""

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """Every form in which the measure can be answered, :meth:`quantities` first.

        :meth:`estimate`, :meth:`expected` and :meth:`weights` take the quantities of any one of them. Another form
        pays where its quantities are measured anyway, or serve several measures; that is for the planner to weigh.
        """
        return (self.quantities(table),)

    def possible(self, table: Table) -> Possible:
        """What the number can be that its margin is about, in units of the measure; see :meth:`within`."""
        return self.within(self.quantities(table))

    def within(self, quantities: Sequence[Quantity]) -> Possible:
        """The same, from one of :meth:`alternatives`.

        It is a promise for every data set, after bounds, rounding and clipping; where the number is not defined at all
        (a mean of no values) nothing is promised of it, as nothing is by its margin. Nothing unless a kind says more.
        """
        return (None, None)

    @abstractmethod
    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """How much of each quantity's noise variance reaches the variance of the number, to first order.

        Args:
            quantities: One of :meth:`alternatives`.
            count: The author's guess of rows per cell; None stands for 1, which leaves the proportions as they are.

        Returns:
            For each quantity a weight in squared units of the measure per squared grid step, at the worst cell.
        """

    @abstractmethod
    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """Values with standard errors and margins, from the noisy quantities."""

    @abstractmethod
    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """Accuracy by the noise law alone; ``count`` is the author's public guess of rows per cell."""


class Asked(Measure):
    """What an author writes and other measures stand for in a plan: it needs, draws and estimates nothing itself."""

    @abstractmethod
    def planned(self, name: str, others: Mapping[str, Measure]) -> Mapping[str, Measure]:
        """The measures that stand for it."""

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """None of its own; see :class:`Measure`."""
        raise self._unplanned()

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """None of its own; see :class:`Measure`."""
        raise self._unplanned()

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """None of its own; see :class:`Measure`."""
        raise self._unplanned()

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """None of its own; see :class:`Measure`."""
        raise self._unplanned()

    def _unplanned(self) -> BrokenPromiseError:
        name = type(self).__name__
        return BrokenPromiseError(f"{name} was not planned", hint="call `measures.planned` on what the author wrote")


class Ranged(Measure):
    """What sums, means and quantiles share: the clip of a column's values."""

    grid_kind: ClassVar[str] = "sum"  # a kind of quantity, by which the column says its grid
    clip: tuple[Fraction, Fraction] | None = None

    def limits(self, table: Table, name: str) -> tuple[int, int, Fraction]:
        """The clip in grid steps, and the step; the column's range unless ``clip`` narrows it."""
        column = table.column(name)
        assert column.range is not None  # noqa: S101 - resolve refuses a sum without a range
        low, high = self.clip if self.clip is not None else (column.range.low, column.range.high)
        step = column.grid_of(self.grid_kind)
        return int(low / step), int(high / step), step


class Clipped(Ranged):
    """What sums, means and spreads share: what the clip applies to.

    With ``clip_per: unit_cell`` the sum of a unit's values in a cell is one value, and is clipped once; the counts
    beside it are then of units with a value. Where every row is a unit the two are the same, and ``row`` is taken,
    so that other measures share the quantities.
    """

    clip_per: Literal["row", "unit_cell"] | None = None

    def per(self, table: Table) -> Literal["row", "unit_cell"]:
        """What is one value: a row's, or the sum of a unit's rows in the cell."""
        return "unit_cell" if self.clip_per == "unit_cell" and table.unit_id is not None else "row"

    def counted(self, table: Table, name: str) -> Quantity:
        """How many values there are to clip."""
        return Quantity(kind="nonnull", column=name, where=self.where, per=self.per(table))

    def summed(self, table: Table, name: str) -> Quantity:
        """The sum of the clipped values."""
        low, high, step = self.limits(table, name)
        return Quantity(kind="sum", column=name, step=step, low=low, high=high, where=self.where, per=self.per(table))

    def centred(self, table: Table, name: str) -> Quantity:
        """The sum of the clipped values less the middle of the clip: half the reach of a clip that starts at 0."""
        plain = self.summed(table, name)
        return plain.model_copy(update={"centre": (plain.low + plain.high) // 2})


def clip_of(quantity: Quantity) -> tuple[Fraction, Fraction]:
    """The clip of a quantity's values in units of the column, before anything is taken off them."""
    return quantity.low * quantity.step, quantity.high * quantity.step


def joint_margins(laws: Sequence[Law], confidence: Fraction) -> tuple[int, ...]:
    """Margins that hold for all of several draws together with this confidence (Bonferroni)."""
    alpha = (1 - confidence) / len(laws)
    return tuple(law.margin(1 - alpha) for law in laws)
