"""One draw of a plan: what the engine computes, what hides it, and what that costs."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from pydantic import Field

from dprelease.canonical import GrownValue, Value
from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity
from dprelease.catalog.factor import Factor
from dprelease.catalog.residual import Residual
from dprelease.catalog.series.band import BandDraw
from dprelease.estimate.series import law_of_sum
from dprelease.noise import Law
from dprelease.plan.document.mechanisms import Choosing, event_of, law_of, selection_of
from dprelease.privacy.event import Event, Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["Answer", "Feed", "JointTable", "Selecting", "Step"]


class Answer(Value):
    """One measure of one query."""

    query: str
    measure: str


class Selecting(Value):
    """Of a step that decides which keys appear: those whose noisy number of units reaches the threshold.

    Attributes:
        threshold: At least so many, noise included; where a coin decides (``optimal_selection``), the least number of
            units with which a key appears as likely as not.
        delta: At least the probability that a key shows which one unit alone has.
        left_out: Of a coin: so many units of every key do not count, so that the threshold is the author's.
    """

    threshold: int
    left_out: int = Field(default=0, ge=0)
    delta: Fraction = Field(gt=0, lt=1)


class JointTable(Value):
    """One of several tables that are hidden by one draw.

    Attributes:
        by: Its key columns.
        cells: The number of its cells.
    """

    by: tuple[str, ...]
    cells: int = Field(ge=2)


class Step(GrownValue):
    """One draw: a bounded aggregate, the mechanism that hides it, and what that costs.

    A joint step hides several quantities of the same cells with one vector of noise per cell; one over tables hides
    the same quantity of several tables with one draw. One of a part and a rest has two quantities of which every row
    is in one, and independent noise on each of their numbers.

    Attributes:
        id: Unique in the plan; letters, digits, ``.``, ``-`` and ``_``.
        answers: The measures that it serves.
        aggregate: What the engine computes: the first quantity, and the only one but for a joint step.
        joined: The further quantities of a joint step over the same cells; the rest beside a part.
        mechanism: A name in ``MECHANISMS``; in ``JOINT_MECHANISMS`` for a joint step, in ``CHOICES`` for one that
            chooses, in ``SELECTIONS`` for one that selects keys.
        sensitivity: In grid steps (in scores, where it chooses), of all quantities together; ``verify`` derives it
            again.
        gauge: For a joint step: the largest sum over cells of the norms by which one unit moves it.
        scale: The scale of the noise, in grid steps; exactly a 64-bit float.
        share: The share of the release's budget; the shares of a plan add up to exactly one.
        cells: The number of cells, of all tables together; None where a noisy selection decides.
        choosing: Where it chooses.
        selecting: Where it selects keys.
        residual: For a workload: which contrasts of the cells it measures; the sensitivity and the scale are in steps
            of their lattice.
        pieces: In how many parts it is measured, one for each top-level unit of its hierarchy
            (``plan.document.pieces``), each with an answer of its own; None: in one.
        factor: For prefixes and ranges: which combinations of the cells along their ordered column it measures; the
            sensitivity and the scale are in steps of their lattice.
        replaced: For a total with residuals: whether its two rows are one row in the place of another, which costs less
            than any two.
        common: For one of several draws of a workload that are bounded together: the squared change, in steps of its
            lattice, that counts for it (``DiscreteGaussian.common``); None: it is bounded by its sensitivity.
        tables: For a joint step over tables: all of them, in the order in which a measurement holds their cells; the
            aggregate counts by the columns of the first.
        clipped_by: The step that chooses the clip of its sum, and is drawn and committed before it.
        above: For a step that chooses a clip: about how many rows shall lie above it.
        series: For a query whose periods share their noise: which draw of its series it is; the sensitivity is that of
            all draws of the series together, it and the scale are in steps of their lattice, and the law is that of the
            estimate of the period, in grid steps.
    """

    LATER: ClassVar[tuple[str, ...]] = (
        "residual",
        "pieces",
        "factor",
        "replaced",
        "tables",
        "common",
        "clipped_by",
        "above",
        "series",
    )
    id: str
    answers: tuple[Answer, ...]
    aggregate: BoundedAggregate
    joined: tuple[Quantity, ...] = ()
    mechanism: str
    sensitivity: Sensitivity
    gauge: Fraction | None = None
    scale: Fraction = Field(gt=0)
    share: Fraction = Field(gt=0)
    cells: int | None = Field(ge=1)
    choosing: Choosing | None = None
    selecting: Selecting | None = None
    residual: Residual | None = None
    pieces: int | None = Field(default=None, ge=2)
    factor: Factor | None = None
    replaced: bool = False
    tables: tuple[JointTable, ...] = ()
    common: Fraction | None = Field(default=None, ge=0)
    clipped_by: str | None = None
    above: int | None = Field(default=None, ge=1)
    series: BandDraw | None = None

    @property
    def parts(self) -> tuple[Quantity, ...]:
        """Its quantities, in the order in which a measurement holds them, ``cells`` numbers each."""
        return (self.aggregate.quantity, *self.joined)

    @property
    def is_clip(self) -> bool:
        """Whether it chooses a clip, one for all of its cells."""
        return self.aggregate.quantity.is_clip

    def at_clip(self, clip: int | None) -> Step:
        """The same step, its sum on the grid of the clip that was chosen; None: no clip is chosen for it."""
        if clip is None:
            return self
        quantity = self.aggregate.quantity.at_clip(clip)
        return self.model_copy(update={"aggregate": self.aggregate.model_copy(update={"quantity": quantity})})

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """The cells that it counts in: its own, or those of all tables of a joint step over tables."""
        own = self.aggregate.grouping
        return tuple(own.model_copy(update={"by": table.by}) for table in self.tables) or (own,)

    @property
    def read(self) -> Grouping:
        """Its rows, by every key column that one of its numbers depends on; no cells of it need be counted."""
        columns = dict.fromkeys(name for table in self.tables for name in table.by)
        return self.aggregate.grouping.model_copy(update={"by": tuple(columns)}) if columns else self.aggregate

    @property
    def numbers(self) -> int | None:
        """How many numbers a measurement of it holds; None where a noisy selection decides."""
        if self.mechanism == "exponential_top_k" and self.choosing is not None:
            return self.choosing.rounds
        return None if self.cells is None else self.cells * len(self.parts)

    @property
    def event(self) -> Event:
        """What the step costs one unit; of a selection of keys it says nothing about several (``event_under``).

        Where it has a ``common`` square that is its part of what all draws of its workload cost, and no bound of
        itself: see :attr:`alone`.
        """
        return event_of(
            self.mechanism,
            self.scale,
            self.sensitivity,
            dimension=len(self.parts),
            gauge=self.gauge,
            replaced=self.replaced,
            choosing=self.choosing,
            delta=None if self.selecting is None else self.selecting.delta,
            common=self.common,
        )

    @property
    def alone(self) -> Event:
        """What the step would cost one unit if no other one was drawn."""
        return self.event if self.common is None else self.model_copy(update={"common": None}).event

    def event_under(self, neighboring: Neighboring) -> Event:
        """What the step costs, with all that prices a group of units; ``neighboring`` is the plan's relation."""
        chosen = self.selecting
        if chosen is None:
            return self.event
        whole = selection_of(self.mechanism, self.scale, self.sensitivity, chosen.threshold, chosen.delta, neighboring)
        return self.event if whole is None else whole

    @property
    def law(self) -> Law:
        """The public distribution of the noise on one number, in grid steps; of a choice, on its score.

        Of a draw of a series that on the estimate of its period, which is made of all draws up to it.
        """
        if self.series is not None:
            return law_of_sum(self.series, self.scale)
        return law_of(
            self.mechanism,
            self.scale,
            dimension=len(self.parts),
            gauge=self.gauge,
            choosing=self.choosing,
            tables=tuple(table.cells for table in self.tables),
        )


class Feed(Value):
    """Where a measure gets one of its quantities from: a step, and which of its parts."""

    step: str
    part: int = Field(default=0, ge=0)
