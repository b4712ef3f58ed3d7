"""Drafts: the draws of a release before their noise is chosen, each with how far one unit can move it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from dprelease.catalog.aggregate import BoundedAggregate, Grouping, Quantity, cells_of
from dprelease.catalog.factor import Factor, factor_sensitivity
from dprelease.catalog.residual import Residual
from dprelease.catalog.sensitivity import (
    choice_reach,
    limits_of,
    selection_reach,
    sensitivity,
    sensitivity_of_parts,
)
from dprelease.catalog.series.band import BandDraw
from dprelease.catalog.table import Catalog
from dprelease.errors import BrokenPromiseError
from dprelease.estimate.ranges import variances_of
from dprelease.estimate.series import law_of_sum
from dprelease.noise import Law, OptimalSelection
from dprelease.noise.mechanisms.knorm import gauge
from dprelease.noise.mechanisms.random_scale import FEWEST_SCALED
from dprelease.noise.mechanisms.threshold import least_threshold
from dprelease.noise.mechanisms.total_residual import FEWEST
from dprelease.plan.document import Answer, Choosing, JointTable, mechanisms
from dprelease.privacy.event import Event, Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = [
    "FEWEST_OF",
    "ROOT_GRAIN",
    "Ball",
    "CountBall",
    "Together",
    "UnscaledStep",
    "additive",
    "ball_of",
    "choice",
    "clip_choice",
    "counts_along",
    "disjoint",
    "joint",
    "ranking",
    "selection",
]

Ball = Literal["count", "linf", "total", "sphere", "tables"]
CountBall = Literal["count", "total", "sphere"]
ROOT_GRAIN = 2**14
"""The grain of a square root of the prefix sums: its least entries, far from the diagonal, are then some hundreds."""

FEWEST_OF: Mapping[str, int] = {"count": 2, "total": FEWEST, "sphere": FEWEST_SCALED}
"""Of how many counts on a joint draw is of such a ball, where that is wanted."""


class Together(NamedTuple):
    """What bounds all draws of a workload together, as one of them has it.

    Attributes:
        common: The squared change, in steps of its lattice, that counts for this draw.
        whole: What all draws cost together, over what their own worst cases add up to; the same of every draw.
    """

    common: Fraction
    whole: Fraction


@dataclass(frozen=True)
class UnscaledStep:
    """A step before its noise is chosen.

    Attributes:
        id: The step's.
        aggregate: Its first quantity.
        joined: Its further ones: where ``ball`` is given, and of counts that no row is in together.
        answers: The measures that it feeds.
        sensitivity: The sensitivity of all of its quantities together.
        cells: Numbers per quantity; None where a selection decides.
        ball: The unit ball of a K-norm draw, ``total`` of a total with residuals, ``sphere`` of Gaussian noise of one
            random scale, or ``tables`` of several tables; None: independent noise.
        gauge: The gauge of such a draw.
        replaced: Whether one row in the place of another is all that a unit changes of a total with residuals.
        choosing: Where it chooses.
        list_of: The length of the list, where it chooses one.
        delta: Where it selects keys: the probability that it may show a key of one unit alone.
        groups: Where it selects keys: how many one unit may have.
        coin: Where it selects keys: whether a coin for each key beats a threshold on Laplace noise.
        residual: For a workload: which contrasts of the cells are drawn.
        part: For a workload: its part of the workload's budget; parts of a workload add up to one.
        pieces: For a workload: in how many pieces it is measured; None: in one.
        factor: For prefixes and ranges: which combinations of the cells are drawn; None: the cells themselves.
        worst: For prefixes and ranges: the largest variance of a published number, per variance of one that is drawn.
        reach: For prefixes and ranges: how far one unit can move a published number; None: as those that are drawn.
        per_number: For counts along a grid: the mean variance of a prefix per variance of one number that is drawn.
        tables: Where ``ball`` is ``tables``: all tables that are drawn together.
        together: For a workload whose draws are bounded together: its part of that.
        clipped_by: The step that chooses the clip of its sum.
        series: For a query whose periods share their noise: which draw of its series it is.
    """

    id: str
    aggregate: BoundedAggregate
    joined: tuple[Quantity, ...]
    answers: tuple[Answer, ...]
    sensitivity: Sensitivity
    cells: int | None
    ball: Ball | None = None
    gauge: Fraction | None = None
    replaced: bool = False
    choosing: Choosing | None = None
    list_of: int | None = None
    delta: Fraction | None = None
    groups: int | None = None
    coin: bool = False
    residual: Residual | None = None
    part: Fraction | None = None
    pieces: int | None = None
    factor: Factor | None = None
    worst: float | None = None
    reach: int | None = None
    per_number: float = 1.0
    tables: tuple[JointTable, ...] = ()
    together: Together | None = None
    clipped_by: str | None = None
    series: BandDraw | None = None

    @property
    def squared(self) -> Fraction:
        """By its budget, as a rho, divided: twice the square of the scale that Gaussian noise of that budget has."""
        square = self.sensitivity.l2_squared
        return square if self.together is None else square * self.together.whole

    @property
    def parts(self) -> tuple[Quantity, ...]:
        """Its quantities, in the order in which a measurement holds them."""
        return (self.aggregate.quantity, *self.joined)

    def event(self, mechanism: str, scale: Fraction) -> Event:
        """What the draw costs at a scale."""
        return mechanisms.event_of(
            mechanism,
            scale,
            self.sensitivity,
            dimension=len(self.parts),
            gauge=self.gauge,
            replaced=self.replaced,
            choosing=self.choosing,
            delta=self.delta,
            common=None if self.together is None else self.together.common,
        )

    def charged(self, mechanism: str, scale: Fraction, neighboring: Neighboring) -> Event:
        """What the draw costs at a scale, with all that prices a group of units."""
        if self.delta is None or mechanism == "optimal_selection":
            return self.event(mechanism, scale)
        threshold, _ = self.threshold(mechanism, scale)
        whole = mechanisms.selection_of(mechanism, scale, self.sensitivity, threshold, self.delta, neighboring)
        return self.event(mechanism, scale) if whole is None else whole

    def law(self, mechanism: str, scale: Fraction) -> Law:
        """The law of one of its noisy numbers at a scale; of a choice, that of its score; of a series, of a period."""
        if self.series is not None:
            return law_of_sum(self.series, scale)
        return mechanisms.law_of(
            mechanism,
            scale,
            dimension=len(self.parts),
            gauge=self.gauge,
            choosing=self.choosing,
            tables=tuple(table.cells for table in self.tables),
        )

    def threshold(self, mechanism: str, scale: Fraction) -> tuple[int, int]:
        """The threshold of a draw that selects keys, and the least one for its delta; ``min_units`` may raise it.

        Where a coin decides: the number of units from which it shows a key more often than not.
        """
        if self.delta is None:
            raise BrokenPromiseError(f"{self.id} selects no keys")
        if mechanism == "optimal_selection":
            least = OptimalSelection().half_point(1 / scale, self.delta / self.sensitivity.l0)
        else:
            noise: Literal["laplace", "gaussian"] = "laplace" if mechanism == "laplace_threshold" else "gaussian"
            least = least_threshold(noise, scale, self.delta, self.groups or 1)
        return max(least, self.aggregate.min_units or 1), least


def _aggregate(grouping: Grouping, quantity: Quantity) -> BoundedAggregate:
    return BoundedAggregate(**dict(grouping), quantity=quantity)


def additive(
    step: str, grouping: Grouping, quantity: Quantity, answers: tuple[Answer, ...], catalog: Catalog, by: Neighboring
) -> UnscaledStep:
    """One quantity, hidden by independent integer noise on every cell."""
    aggregate = _aggregate(grouping, quantity)
    reach = sensitivity(aggregate, catalog, by)
    return UnscaledStep(step, aggregate, (), answers, reach, cells_of(grouping, catalog))


def disjoint(
    step: str,
    grouping: Grouping,
    quantities: Sequence[Quantity],
    answers: tuple[Answer, ...],
    catalog: Catalog,
    by: Neighboring,
) -> UnscaledStep:
    """Counts that no row is in together, as a part and a rest: numbers of finer cells, each hidden by its own noise."""
    first, *others = quantities
    aggregate = _aggregate(grouping, first)
    reach = sensitivity_of_parts(aggregate, len(quantities), catalog, by)
    return UnscaledStep(step, aggregate, tuple(others), answers, reach, cells_of(grouping, catalog))


def choice(
    step: str, grouping: Grouping, quantity: Quantity, answers: tuple[Answer, ...], catalog: Catalog, by: Neighboring
) -> UnscaledStep:
    """One quantile, chosen on its grid in every cell."""
    aggregate = _aggregate(grouping, quantity)
    rounds, spread, reach = choice_reach(aggregate, catalog, by)
    choosing = Choosing(rounds=rounds, spread=spread, candidates=quantity.high - quantity.low + 1)
    return UnscaledStep(step, aggregate, (), answers, reach, cells_of(grouping, catalog), choosing=choosing)


def clip_choice(
    step: str, grouping: Grouping, quantity: Quantity, answers: tuple[Answer, ...], catalog: Catalog, by: Neighboring
) -> UnscaledStep:
    """The clip of a sum, one for all cells, chosen among public candidates."""
    aggregate = _aggregate(grouping, quantity)
    rounds, spread, reach = choice_reach(aggregate, catalog, by)
    assert quantity.chosen is not None  # noqa: S101 - the caller asks for a clip
    choosing = Choosing(rounds=rounds, spread=spread, candidates=len(quantity.chosen.candidates))
    return UnscaledStep(step, aggregate, (), answers, reach, 1, choosing=choosing)


def counts_along(
    step: str, grouping: Grouping, quantity: Quantity, answers: tuple[Answer, ...], catalog: Catalog, by: Neighboring
) -> UnscaledStep:
    """The counts of classes of a column's grid values in every cell, drawn so that their prefixes err little.

    Every cell's counts are a line, of which the square root of the prefix sums is drawn (``catalog.factor``): it is
    told by three numbers, where the matrix that errs least, by at most 2 % less, takes as many numbers as classes.

    Raises:
        ValueError: If nothing bounds how many rows a unit has.
    """
    aggregate, lines = _aggregate(grouping, quantity), cells_of(grouping, catalog)
    limits = limits_of(grouping, catalog)
    rows = limits.rows
    if lines is None or rows is None:
        raise ValueError(f"nothing bounds how many rows of {grouping.table} one unit has: give max_rows")
    factor, reach, per_number = _along(len(quantity.classes), lines, rows, limits.rows_per_group, by)
    cells = lines * factor.length
    return UnscaledStep(step, aggregate, (), answers, reach, cells, factor=factor, reach=rows, per_number=per_number)


@lru_cache(maxsize=64)
def _along(
    classes: int, lines: int, rows: int, in_line: int | None, by: Neighboring
) -> tuple[Factor, Sensitivity, float]:
    """The matrix of lines of so many counts, how far one unit moves all of them, and the mean variance of a prefix."""
    factor = Factor(shape=(lines, classes), axis=1, kind="root", grain=ROOT_GRAIN)
    one = factor.model_copy(update={"shape": (classes,), "axis": 0})
    reach = factor_sensitivity(factor, rows, by, in_slice=in_line)
    return factor, reach, float(variances_of(one, classes, "prefixes").mean())


def ranking(
    step: str,
    grouping: Grouping,
    quantity: Quantity,
    k: int,
    answers: tuple[Answer, ...],
    catalog: Catalog,
    by: Neighboring,
) -> UnscaledStep:
    """The k keys with the largest counts, chosen one after the other."""
    aggregate = _aggregate(grouping, quantity)
    cells = cells_of(grouping, catalog)
    rounds, spread, reach = choice_reach(aggregate, catalog, by, rounds_of_list=k)
    choosing = Choosing(rounds=rounds, spread=spread, candidates=cells or 1)
    return UnscaledStep(step, aggregate, (), answers, reach, cells, choosing=choosing, list_of=k)


def selection(
    step: str,
    grouping: Grouping,
    answers: tuple[Answer, ...],
    delta: Fraction,
    epsilon: Fraction,
    catalog: Catalog,
    by: Neighboring,
) -> UnscaledStep:
    """Which keys appear: the units of every key are counted, and noise decides.

    Args:
        step: Its id.
        grouping: With private keys.
        answers: The answers of the queries whose keys they are.
        delta: The delta of this selection.
        epsilon: About what it may cost; decides between a coin for each key and a threshold, and nothing else.
        catalog: The tables.
        by: The neighbouring relation.
    """
    groups, reach = selection_reach(grouping, catalog, by)
    aggregate = _aggregate(grouping, Quantity(kind="units"))
    scale = reach.l1 / epsilon
    half = OptimalSelection().half_point(1 / scale, delta / reach.l0)
    coin = half < least_threshold("laplace", scale, delta, groups)
    return UnscaledStep(step, aggregate, (), answers, reach, None, delta=delta, groups=groups, coin=coin)


def ball_of(wanted: CountBall, count: int, cells: int | None, by: Neighboring) -> CountBall | Literal["linf"]:
    """What a joint draw of so many counts is, where ``wanted`` is asked for; see :func:`joint`."""
    if by is not Neighboring.ADD_REMOVE and cells == 1:
        return "linf"
    able = count >= FEWEST_OF[wanted] and (by is Neighboring.ADD_REMOVE or wanted != "sphere")
    return wanted if able else "count"


def joint(
    step: str,
    grouping: Grouping,
    quantities: Sequence[Quantity],
    answers: tuple[Answer, ...],
    catalog: Catalog,
    by: Neighboring,
    *,
    wanted: CountBall = "count",
) -> UnscaledStep:
    """Several counts of the same cells, each moved by at most 1 by one row, where every row is one unit.

    One row moves every count of its cell by 0 or 1, so all of them together are the worst case; a replaced row
    moves those of one cell by at most 1 either way, or those of two cells. The ball is the one with the smaller
    noise at its gauge (docs/proofs/integer-knorm.md): ``linf`` where two rows can only meet in one cell. In the place
    of ``count`` it is what is ``wanted`` where there are counts enough, and ``sphere`` only where every neighbour has
    one row more or less: all of them then move it equally far.
    """
    cells, count = cells_of(grouping, catalog), len(quantities)
    add_remove, ball = by is Neighboring.ADD_REMOVE, ball_of(wanted, count, cells, by)
    moved = count if add_remove or cells == 1 else 2 * count
    return UnscaledStep(
        step,
        _aggregate(grouping, quantities[0]),
        tuple(quantities[1:]),
        answers,
        Sensitivity.of_shifts((1,) * moved),
        cells,
        ball=ball,
        gauge=gauge(ball, count, by, cells or 2),
        replaced=ball == "total" and not add_remove,
    )
