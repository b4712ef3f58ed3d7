"""The closed list of things that cost privacy, as an accountant sees them.

Every event is a frozen value. What a release draws is integer-valued noise on the grid of its step, and its
sensitivities are in units of that grid; the continuous mechanisms and the black boxes are here because accountants
are compared on them. Compatibility, as for every format here: a kind is never removed, a new field is optional, a
meaning never changes, and what an accountant does not know it refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dprelease.canonical import GrownValue, Value
from dprelease.privacy.unit import Neighboring

__all__ = [
    "Approximate",
    "BoundedRange",
    "Composed",
    "Concentrated",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "Gaussian",
    "KNorm",
    "KeySelection",
    "Laplace",
    "Parallel",
    "RandomScale",
    "Repeated",
    "Sensitivity",
    "TotalResidual",
    "some_of",
]


class Sensitivity(Value):
    """How far one unit can move a vector of cells, in four norms, and the worst ways in which it can.

    Attributes:
        l0: The number of cells that can change.
        l1: The largest sum of absolute changes.
        l2_squared: The largest sum of squared changes (the square, because the root may be irrational).
        linf: The largest change of one cell.
        shifts: A proved worst-case set of change vectors: every change that one unit can make is, after its
            absolute values are sorted downwards and zeros dropped, at most one of these in every coordinate.
            Empty: not known; an accountant that needs them then refuses.
    """

    l0: int = Field(ge=0)
    l1: Fraction = Field(ge=0)
    l2_squared: Fraction = Field(ge=0)
    linf: Fraction = Field(ge=0)
    shifts: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of_shifts(cls, *shifts: tuple[int, ...]) -> Sensitivity:
        """The four norms of a worst-case set of change vectors; vectors that another one covers are dropped."""
        vectors = {tuple(sorted((abs(c) for c in shift if c), reverse=True)) for shift in shifts}
        kept = sorted(v for v in vectors if v and not any(v != w and _covers(w, v) for w in vectors))
        return cls(
            l0=max((len(v) for v in kept), default=0),
            l1=Fraction(max((sum(v) for v in kept), default=0)),
            l2_squared=Fraction(max((sum(c * c for c in v) for v in kept), default=0)),
            linf=Fraction(max((v[0] for v in kept), default=0)),
            shifts=tuple(kept),
        )

    @classmethod
    @lru_cache(maxsize=1 << 10)
    def of_one_cell(cls, change: int) -> Sensitivity:
        """One cell changes by at most ``change``."""
        return cls.of_shifts((change,))


def some_of(events: Sequence[Event], at: Iterable[int]) -> tuple[Event, ...]:
    """Some of the draws of a release, by their places, as they may be composed without the others.

    What bounds several draws together (``DiscreteGaussian.common``) says nothing of a part of them: where one of them
    is left out, each of the others is bounded by its own sensitivity.
    """
    places = tuple(at)
    left = set(range(len(events))) - set(places)
    apart = any(_by_itself(events[number]) is not events[number] for number in left)
    return tuple(_by_itself(events[number]) if apart else events[number] for number in places)


def _by_itself(event: Event) -> Event:
    if not isinstance(event, DiscreteGaussian) or event.common is None:
        return event
    return DiscreteGaussian(scale=event.scale, sensitivity=event.sensitivity)


def _covers(large: tuple[int, ...], small: tuple[int, ...]) -> bool:
    return len(small) <= len(large) and all(a >= b for a, b in zip(large, small, strict=False))


class DiscreteLaplace(Value):
    """Independent discrete Laplace noise on every cell: P(k) proportional to exp(-|k| / scale).

    With an integer-valued query of L1 sensitivity s it is (s / scale)-differentially private (Ghosh,
    Roughgarden and Sundararajan 2012; for vectors the L1 form follows cell by cell).
    """

    kind: Literal["discrete_laplace"] = "discrete_laplace"
    scale: Fraction = Field(gt=0)
    sensitivity: Sensitivity


class DiscreteGaussian(GrownValue):
    """Independent discrete Gaussian noise on every cell: P(k) proportional to exp(-k^2 / (2 scale^2)).

    With an integer-valued query of L2 sensitivity s it satisfies (s^2 / (2 scale^2))-zCDP (Canonne, Kamath and
    Steinke 2020, Theorem 14). It is *not* the continuous Gaussian: the analytic Gaussian formula under-counts.

    Several draws may be about one change of the data that cannot be the worst one for all of them. Each then has a
    ``common`` square, and what is proved is about all of them together (docs/proofs/replaced-pairs.md): no change that
    one unit can make has a larger sum of squared change / scale^2 over these draws than the sum of common / scale^2.
    One of them alone costs what its sensitivity says.

    Attributes:
        scale: Of the noise, in grid steps.
        sensitivity: Of this draw alone.
        common: Its part of what bounds all of these draws together; None: it is bounded by itself.
    """

    LATER: ClassVar[tuple[str, ...]] = ("common",)
    kind: Literal["discrete_gaussian"] = "discrete_gaussian"
    scale: Fraction = Field(gt=0)
    sensitivity: Sensitivity
    common: Fraction | None = Field(default=None, ge=0)

    @property
    def squared(self) -> Fraction:
        """The squared change that counts where the squares of all draws, each over its scale^2, are added up."""
        return self.sensitivity.l2_squared if self.common is None else self.common


class KNorm(Value):
    """One vector of ``dimension`` integers per cell with P(z) proportional to exp(-||z|| / scale).

    ``ball`` names the norm: ``count`` is max(z, 0) + max(-z, 0) over coordinates (its unit ball is the hull of
    [0, 1]^k and [-1, 0]^k), ``linf`` the largest coordinate. It is (gauge / scale)-differentially private, where
    ``gauge`` is the largest sum of norms over the cells that one unit changes (Hardt and Talwar 2010).
    """

    kind: Literal["knorm"] = "knorm"
    ball: Literal["count", "linf"]
    dimension: int = Field(ge=1)
    scale: Fraction = Field(gt=0)
    gauge: Fraction = Field(ge=0)


class TotalResidual(GrownValue):
    """One vector (z, m) of integers per cell with P(z, m) proportional to exp(-N / scale), on k counts and a total.

    N = (1 - share) max_i |2 z_i - m| + share |m|. A row that is added or removed moves the cell's total by 1 and each
    count by 0 or 1, which has N = 1: it is (rows / scale)-differentially private by the triangle inequality. One row
    is a pair of four outcomes, whose law is known (docs/proofs/total-residual.md).

    Attributes:
        dimension: The number k of counts.
        share: The share of the total.
        scale: Of the noise, in rows.
        rows: The most rows that one unit adds or removes; a replaced row is two.
        replaced: Whether the two rows are one row and another in its place, in the same cell or in another one, and
            nothing else: that has a law of its own.
    """

    LATER: ClassVar[tuple[str, ...]] = ("replaced",)
    kind: Literal["total_residual"] = "total_residual"
    dimension: int = Field(ge=2)
    share: Fraction = Field(gt=0, lt=Fraction(1, 2))
    scale: Fraction = Field(gt=0)
    rows: int = Field(ge=0)
    replaced: bool = False

    @model_validator(mode="after")
    def _two_rows(self) -> Self:
        if self.replaced and self.rows != 2:
            raise ValueError("one row in the place of another is two rows")
        return self


class RandomScale(Value):
    """Spherical Gaussian noise of one secret scale, out of a table, on k counts of a cell and their total.

    On the vector of every 2 c_i - n, and of n times ``total``, in steps of 1 / ``GRAIN``: for each cell one scale is
    drawn, ``scale`` times ``stretches[m]`` with a probability in proportion to ``weights[m]``, and then a discrete
    Gaussian variable of that scale for each number. Which scale it was is not told. The table is the mechanism: it
    stands here as it is drawn. A row that is added or removed moves its cell's vector by 1 or -1 in each of the k
    numbers and by ``total`` in the last: by the root of ``length_squared``, whatever it counts
    (docs/proofs/random-scale.md).

    Attributes:
        dimension: The number k of counts.
        total: By how much a row moves the number of the total; whole steps of the grid.
        scale: Of the noise, in rows.
        stretches: What the scale is multiplied by, one for each place of the table, rising.
        weights: How likely each of them is, beside the others.
        rows: The most rows that one unit adds or removes; a replaced row is two.
    """

    GRAIN: ClassVar[int] = 1 << 20
    kind: Literal["random_scale"] = "random_scale"
    dimension: int = Field(ge=2, le=1024)
    total: Fraction = Field(gt=0)
    scale: Fraction = Field(gt=0)
    stretches: tuple[Fraction, ...] = Field(min_length=1)
    weights: tuple[int, ...] = Field(min_length=1)
    rows: int = Field(ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        rising = all(low < high for low, high in pairwise(self.stretches))
        if len(self.stretches) != len(self.weights) or not rising:
            raise ValueError("a table of scales has one weight for each of its rising stretches")
        if self.stretches[0] < Fraction(1, 16) or self.stretches[-1] > 16 or min(self.weights) < 1:
            raise ValueError("a table of scales has stretches from 1/16 to 16, and weights above 0")
        if (self.total * self.GRAIN).denominator > 1:
            raise ValueError("a row moves the number of the total by whole steps of the grid")
        return self

    @property
    def length_squared(self) -> Fraction:
        """The squared length by which a row moves the vector of its cell, in rows."""
        return self.dimension + self.total**2


class Laplace(Value):
    """Continuous Laplace noise on every cell. No release draws it; accountants are compared on it."""

    kind: Literal["laplace"] = "laplace"
    scale: Fraction = Field(gt=0)
    sensitivity: Sensitivity


class Gaussian(Value):
    """Continuous Gaussian noise on every cell. No release draws it; accountants are compared on it."""

    kind: Literal["gaussian"] = "gaussian"
    scale: Fraction = Field(gt=0)
    sensitivity: Sensitivity


class Approximate(Value):
    """Any mechanism that is (epsilon, delta)-differentially private; with delta 0 any pure one."""

    kind: Literal["approximate"] = "approximate"
    epsilon: Fraction = Field(ge=0)
    delta: Fraction = Field(default=Fraction(0), ge=0, lt=1)


class KeySelection(Value):
    """Which of the keys that occur are shown: those whose number of units plus noise is at least a threshold.

    For one unit it costs what the noise and a (0, delta) event cost together (docs/proofs/key-selection.md). That
    (0, delta) is no mechanism of its own: it says with which probability a key shows that one unit alone holds, and k
    units that hold a key together are shown with far more than k times that. So the parts stay together, with all that
    is needed to price a group of units (``group.of_event``).

    Attributes:
        noise: On the numbers of units of the keys that others hold too, with the sensitivity of ``units`` units.
        threshold: A key is shown when its noisy number of units is **at least** that.
        keys: The most keys of one unit.
        units: For how many units at once this is.
        delta: At least the probability that a key shows which these units alone hold.
    """

    kind: Literal["key_selection"] = "key_selection"
    noise: Annotated[DiscreteLaplace | DiscreteGaussian, Field(discriminator="kind")]
    threshold: int = Field(ge=2)
    keys: int = Field(ge=1)
    units: int = Field(default=1, ge=1)
    delta: Fraction = Field(gt=0, lt=1)


class BoundedRange(Value):
    """Any mechanism whose privacy loss stays in an interval of length epsilon: the exponential mechanism.

    Durfee and Rogers 2019; Dong, Durfee and Rogers 2020. It is epsilon-differentially private and
    (epsilon^2 / 8)-zCDP (Cesar and Rogers 2021).
    """

    kind: Literal["bounded_range"] = "bounded_range"
    epsilon: Fraction = Field(ge=0)


class Concentrated(Value):
    """Any mechanism that is rho-zCDP (Bun and Steinke 2016)."""

    kind: Literal["concentrated"] = "concentrated"
    rho: Fraction = Field(ge=0)


class Repeated(Value):
    """The same event ``count`` times, with fresh noise each time."""

    kind: Literal["repeated"] = "repeated"
    event: Event
    count: int = Field(ge=1)


class Composed(Value):
    """All of these events on the same units; parameters fixed before the first draw."""

    kind: Literal["composed"] = "composed"
    events: tuple[Event, ...] = ()

    @classmethod
    def of(cls, events: Iterable[Event]) -> Composed:
        """Equal ones as one value, so that counting them looks into none."""
        known: dict[Event, Event] = {}
        return cls(events=tuple(known.setdefault(each, each) for each in events))


class Parallel(Value):
    """Each event on its own part of the units: a public rule says, by a unit's content, to which part it belongs.

    Under ``add_remove`` one unit touches one part: the largest curve counts. Under ``replace_one`` it stays in its
    part, or leaves one and enters another: the two largest, composed, cover both. The parts' own sensitivities are
    those of the same relation, so that under ``replace_one`` each covers a unit replaced, entering and leaving.
    """

    kind: Literal["parallel"] = "parallel"
    events: tuple[Event, ...] = ()
    neighboring: Neighboring = Neighboring.ADD_REMOVE


Event = Annotated[
    DiscreteLaplace
    | DiscreteGaussian
    | KNorm
    | TotalResidual
    | RandomScale
    | Laplace
    | Gaussian
    | Approximate
    | BoundedRange
    | Concentrated
    | KeySelection
    | Repeated
    | Composed
    | Parallel,
    Field(discriminator="kind"),
]
Repeated.model_rebuild()
Composed.model_rebuild()
Parallel.model_rebuild()
