"""The one thing that an engine computes: a bounded exact number per public cell, on an integer grid."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from dprelease.canonical import GrownValue, Value
from dprelease.catalog.cells import zero_cells
from dprelease.catalog.chosen_clip import PARTS, ClipGrid
from dprelease.catalog.table import Catalog
from dprelease.catalog.weight import RowWeight

__all__ = ["SUMS_OF_ROWS", "BoundedAggregate", "Grouping", "Quantity", "TotalsCube", "cells_of", "left_out_of"]

_ONE = Fraction(1)  # a plan asks for ten thousand grids


class Quantity(GrownValue):
    """What one row contributes to its cell, as an integer; or what a cell's rows are, where noise has another form.

    ``rows`` contributes 1; ``nonnull`` contributes 1 where ``column`` is not null; ``balance`` contributes 1 where a
    row counts, by ``where`` and with a value in ``column`` if that is given, and -1 where it does not; ``rest``
    contributes 1 where ``where`` is not true and ``column`` has a value, if one is given; ``sum`` contributes
    ``clip(round(value / step), low, high) - centre`` where ``column`` is not null; ``square`` contributes that number
    squared, divided by ``grain`` (halves upward) and less ``offset``, where ``column`` is not null. Where nothing is
    said, a row contributes 0. Rounding to steps comes before clipping, so that no contribution of a sum leaves
    ``[low - centre, high - centre]``; there halves round away from zero.

    With ``per`` ``unit_cell`` all rows of one unit in one cell are one contribution: the sum of their grid values,
    clipped once; ``nonnull`` is then a unit with at least one value, and ``balance`` is 1 for a unit with at least one
    row that counts and -1 for one without. Two kinds are no sums of rows: ``units`` is the
    number of different units in the cell, ``distinct`` that of different values of ``column``. ``quantile`` is the
    cell's multiset of clipped grid values, of which noise chooses one grid value; without ``at`` it is how many of
    them lie in each of its classes, a line of counts behind noise that suits sums along it (``catalog.factor``).

    With a ``weight`` a row contributes that as often as it weighs, in steps of the weight.

    Attributes:
        kind: One of the nine.
        column: The column that is counted or summed.
        step: The grid of a sum or a square, in units of the column.
        low: Their lower clip, in steps.
        high: Their upper clip, in steps.
        centre: What is subtracted from every clipped value, in steps.
        grain: The grid of a square, in squared steps; of classes that are all alike, how many steps one has.
        offset: What is subtracted from every square, in grains; half of the largest halves the sensitivity.
        where: The rows that count, as the canonical text of an expression; None: all. Of a balance those that do not
            are looked at as well: it is twice the number of those that count, less the number of all. Of a rest the
            rows that do not count.
        per: What is clipped: each row's value, or the sum of a unit's rows in the cell.
        at: For a quantile: which one, from 0 to 1; None: none of them, but the counts of classes of the grid.
        weight: How often a row contributes, where it has weights: of ``WEIGHTED`` over rows; None: once.
        starts: For counts of classes: where each class begins, in steps, the first at ``low``; empty: classes of
            ``grain`` steps each, from ``low`` on, of which the last may be cut by ``high``.
        chosen: Of a sum whose clip noise chooses: from what. ``high`` is the clip in steps of a grid that the clip
            decides, and ``step`` that of the largest one (:meth:`at_clip`). Of a quantile without a rank: it is no
            counts of classes, but what such a clip is chosen by.
    """

    LATER: ClassVar[tuple[str, ...]] = ("weight", "starts", "chosen")

    kind: Literal["rows", "nonnull", "balance", "rest", "sum", "square", "units", "distinct", "quantile"]
    column: str | None = None
    step: Fraction = Fraction(1)
    low: int = 0
    high: int = 1
    centre: int = 0
    grain: int = Field(default=1, ge=1)
    offset: int = 0
    where: str | None = None
    per: Literal["row", "unit_cell"] = "row"
    at: Fraction | None = Field(default=None, ge=0, le=1)
    weight: RowWeight | None = None
    starts: tuple[int, ...] = ()
    chosen: ClipGrid | None = None

    @field_validator("per")
    @classmethod
    def _of_units(cls, per: str, info: ValidationInfo) -> str:
        """Rows are counted one by one; what counts a unit once for all of its rows in a cell is ``units``."""
        if per == "unit_cell" and info.data.get("kind") in ("rows", "rest"):
            raise ValueError("rows of each unit_cell are units: ask for units")
        return per

    @field_validator("weight")
    @classmethod
    def _of_rows(cls, weight: RowWeight | None, info: ValidationInfo) -> RowWeight | None:
        """Only sums over rows are weighted: it is not said what a unit with several rows weighs."""
        kind, per = info.data.get("kind"), info.data.get("per")
        if weight is not None and (kind not in WEIGHTED or per != "row"):
            raise ValueError(f"a {kind} of each {per} has no weights")
        return weight

    @property
    def is_counted(self) -> bool:
        """Whether it is the counts of classes of grid values, and not one number in each cell."""
        return self.kind == "quantile" and self.at is None and self.chosen is None

    @property
    def in_each_cell(self) -> int:
        """How many numbers it is in one published cell."""
        return len(self.classes) if self.is_counted else 1

    @property
    def is_clip(self) -> bool:
        """Whether it is what a clip is chosen by: the clipped grid values of all cells together."""
        return self.kind == "quantile" and self.chosen is not None

    def choice_of_clip(self) -> Quantity:
        """What the clip of such a sum is chosen by: the values of the same rows.

        Raises:
            ValueError: If noise chooses no clip of it.
        """
        if self.chosen is None:
            raise ValueError(f"the clip of {self.column} is written in the spec")
        grid = {"step": self.chosen.step, "low": 0, "high": self.chosen.top}
        return Quantity(kind="quantile", column=self.column, where=self.where, chosen=self.chosen, **grid)

    def at_clip(self, clip: int) -> Quantity:
        """Such a sum with the clip that was chosen, in steps of the column: the same numbers on the clip's own grid.

        Every other quantity is as it was.
        """
        if self.chosen is None or self.is_clip:
            return self
        return self.model_copy(update={"step": self.chosen.step_at(clip), "chosen": None})

    @classmethod
    def with_chosen_clip(cls, column: str, where: str | None, chosen: ClipGrid) -> Quantity:
        """A sum whose clip noise chooses, as a plan has it: at the largest clip."""
        return cls(kind="sum", column=column, where=where, step=chosen.step_at(chosen.top), high=PARTS, chosen=chosen)

    @property
    def classes(self) -> tuple[int, ...]:
        """Of counts of classes of grid values: where each class begins, in steps, rising.

        >>> Quantity(kind="quantile", column="age", low=0, high=10, grain=4).classes
        (0, 4, 8)
        """
        return self.starts or tuple(range(self.low, self.high + 1, self.grain))

    @property
    def grid(self) -> Fraction:
        """One whole step of the sum, in units of the column (of their square, for squares); 1 for counts.

        Of what is weighted times the step of the weight.
        """
        if self.is_counted:
            return _ONE
        if self.kind == "square":
            return self.step * self.step * self.grain
        step = self.step if self.kind in ("sum", "quantile") else _ONE
        return step if self.weight is None else step * self.weight.step

    @property
    def weight_step(self) -> Fraction:
        """The grid of the weights of its rows; 1 where they have none."""
        return _ONE if self.weight is None else self.weight.step

    @property
    def each(self) -> int:
        """How often one row contributes at most: the clip of its weight, in steps of it; once without one."""
        return 1 if self.weight is None else self.weight.clip

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values it looks at, but for those of its condition."""
        own = () if self.column is None else (self.column,)
        return own if self.weight is None else (*own, self.weight.column)

    @property
    def contribution(self) -> tuple[int, int]:
        """The least and the largest that one row (one unit in a cell, with ``per`` unit_cell) can contribute.

        A row that is skipped contributes 0, so that 0 is always between them. A quantile has none. With a weight
        between 0 and the clip the product with a number in [a, b], a <= 0 <= b, is in [clip a, clip b].
        """
        least, most = self._unweighted
        return (self.each * least, self.each * most)

    @property
    def _unweighted(self) -> tuple[int, int]:
        if self.kind == "balance":
            return (-1, 1)
        if self.kind == "square":
            least, most = self.squares
            return (min(0, least - self.offset), max(0, most - self.offset))
        if self.kind == "sum":
            return (min(0, self.low - self.centre), max(0, self.high - self.centre))
        return (0, 1)

    @property
    def squares(self) -> tuple[int, int]:
        """The least and the largest square of a clipped, centred value, in grains, before ``offset`` is taken off.

        The square of x falls up to x = 0 and rises from there, and rounding keeps order: the largest is at an end
        of the clip, the least at the centre, or at the end that is nearer to it where the clip leaves it out.
        """
        ends = [self.in_grains(end - self.centre) for end in (self.low, self.high)]
        return (0 if self.low <= self.centre <= self.high else min(ends), max(ends))

    def in_grains(self, centred: int) -> int:
        """The square of a centred number of steps as a whole number of grains, halves upward.

        >>> [Quantity(kind="square", grain=4).in_grains(x) for x in (-3, -1, 0, 1, 2)]
        [2, 0, 0, 0, 1]
        """
        # floor(s / g + 1/2) without a fraction: for an odd g no s / g ends in a half, so g // 2 will do.
        return (centred * centred + self.grain // 2) // self.grain


class Grouping(GrownValue):
    """Which rows are read, and into which cells they fall: what the steps of one pass share.

    The order is: the table's own bounds, then ``where``, then ``complete`` and ``zeros``, then the cells (a row outside
    them is dropped), then ``max_groups`` and ``max_rows_per_group``; each looks at one row, or at the rows of one unit,
    and at nothing else. The cells are in row-major order of the columns of ``by`` and of their keys: the last column
    runs fastest.

    No sensitivity grows by ``complete`` or ``zeros``. Proof: whether a row passes is a function of that row, of public
    keys and of a public list alone, so that it maps the rows of one unit to a part of them and reads no row of another:
    tables that differ in one unit still differ in that unit alone, by no more rows than before, which is what every
    bound is made for. It is what makes tables over different columns add up: all of them count the very same rows.

    Attributes:
        table: The table.
        by: Its key columns; none: one cell.
        where: The rows that are looked at, as the canonical text of an expression; None: all.
        max_groups: In how many cells one unit may be.
        max_rows_per_group: How many rows one unit may have in one cell.
        excluding: A name in ``Catalog.exclusions``: cells that are left out; or one in ``Catalog.zeros``, whose columns
            are all in ``by``: the cells with one of these combinations.
        private: Which keys appear is decided by a noisy selection, not declared.
        min_units: Where keys are private: the least noisy number of units with which a key appears.
        complete: Columns with public keys that must all have a key in a row (a null that has one by ``null`` of its
            column has) for the row to count at all; in rising order of their names, each once, however they are given.
            Those of ``by`` need not be named again.
        zeros: A name in ``Catalog.zeros``, whose columns are all in ``complete``: a row that has one of these
            combinations does not count. The cells stay, but for those of ``excluding``.
    """

    __slots__ = ("_known_grouping",)  # no field, as in ``Value``

    LATER: ClassVar[tuple[str, ...]] = ("complete", "zeros")
    table: str
    by: tuple[str, ...]
    where: str | None = None
    max_groups: int | None = Field(default=None, ge=1)
    max_rows_per_group: int | None = Field(default=None, ge=1)
    excluding: str | None = None
    private: bool = False
    min_units: int | None = Field(default=None, ge=1)
    complete: tuple[str, ...] = ()
    zeros: str | None = None

    @field_validator("complete")
    @classmethod
    def _in_order(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """One form of one filter, so that the tables of a workload share what is made of it."""
        return tuple(sorted(set(names)))

    @property
    def grouping(self) -> Grouping:
        """The grouping alone, without what a subclass adds: equal for everything that shares a pass; made once."""
        if type(self) is Grouping:
            return self
        try:
            known: Grouping = object.__getattribute__(self, "_known_grouping")
        except AttributeError:
            known = Grouping(**{name: getattr(self, name) for name in Grouping.model_fields})
            object.__setattr__(self, "_known_grouping", known)
        return known


class TotalsCube(Value):
    """Totals in every combination of the keys of some columns, from which those of coarser groupings are added up.

    Of one table without units, over all of its rows. A row without a key in one of the columns is in a combination of
    its own there, so that it still counts in the groupings without that column.

    Attributes:
        by: Columns with public keys, in rising order of their names.
        quantities: What is totalled: sums over rows, of ``SUMS_OF_ROWS``.
    """

    by: tuple[str, ...]
    quantities: tuple[Quantity, ...]

    def answers(self, grouping: Grouping, quantity: Quantity) -> bool:
        """Whether the total of a quantity in the cells of a grouping can be added up from these."""
        return self.reaches(grouping) and quantity in self.quantities

    def reaches(self, grouping: Grouping) -> bool:
        """Whether the cells of a grouping are made of whole cells of this one."""
        bounds = (grouping.max_groups, grouping.max_rows_per_group)
        plain = not grouping.private and not grouping.complete and grouping.where is None and bounds == (None, None)
        return plain and set(grouping.by) <= set(self.by)


SUMS_OF_ROWS = frozenset({"rows", "nonnull", "balance", "rest", "sum", "square"})
"""Kinds of quantities that are sums over rows, where every row is a unit of its own."""

WEIGHTED = frozenset({"rows", "nonnull", "balance", "rest", "sum"})
"""Kinds that can have weights."""


class BoundedAggregate(Grouping):
    """A quantity in every cell of a grouping."""

    quantity: Quantity


def left_out_of(grouping: Grouping, catalog: Catalog) -> tuple[int, ...]:
    """The positions of the cells that a grouping leaves out of the full cross product of its keys, rising."""
    name = grouping.excluding
    if name is None:
        return ()
    if name in catalog.zeros:
        return zero_cells(catalog.zeros[name], catalog.tables[grouping.table], grouping.by)
    return catalog.exclusions[name]


def cells_of(grouping: Grouping, catalog: Catalog) -> int | None:
    """How many cells there are; None where a noisy selection decides."""
    if grouping.private:
        return None
    return catalog.tables[grouping.table].cells(grouping.by) - len(left_out_of(grouping, catalog))
