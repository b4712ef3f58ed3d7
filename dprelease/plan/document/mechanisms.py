"""What one draw costs and how it is distributed, by its mechanism: the one place where a plan's words become events."""

from __future__ import annotations

from fractions import Fraction

from pydantic import Field

from dprelease.canonical import Value
from dprelease.errors import BrokenPromiseError
from dprelease.noise import JOINT_MECHANISMS, MECHANISMS, TABLES_MECHANISMS, Law
from dprelease.noise.mechanisms.exponential import ScoreLaw
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    KeySelection,
    Repeated,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.unit import Neighboring

__all__ = ["Choosing", "event_of", "law_of", "selection_of"]

# The noise on the counts of units that a selection compares with its threshold; a coin is as good as Laplace noise.
_COUNTED = {
    "laplace_threshold": "discrete_laplace",
    "gaussian_threshold": "discrete_gaussian",
    "optimal_selection": "discrete_laplace",
}


class Choosing(Value):
    """Of a step that chooses by the exponential mechanism, P(x) proportional to exp(-score(x) / scale).

    Attributes:
        rounds: How many of its choices one unit can move: cells of a quantile, or all rounds of a top list.
        spread: The largest range, over what can be chosen, of the change of the scores of one choice.
        candidates: How many there are to choose from.
    """

    rounds: int = Field(ge=1)
    spread: Fraction = Field(gt=0)
    candidates: int = Field(ge=1)


def event_of(
    mechanism: str,
    scale: Fraction,
    sensitivity: Sensitivity,
    *,
    dimension: int = 1,
    gauge: Fraction | None = None,
    replaced: bool = False,
    choosing: Choosing | None = None,
    delta: Fraction | None = None,
    common: Fraction | None = None,
) -> Event:
    """What a draw costs.

    Args:
        mechanism: A name in one of the tables of ``noise``.
        scale: The scale of its noise.
        sensitivity: Of what it hides.
        dimension: For a joint draw: quantities per cell.
        gauge: The gauge of a joint draw.
        replaced: Whether the two rows of a total with residuals are one in the place of another.
        choosing: Where it chooses.
        delta: Where it selects keys.
        common: Of a draw behind discrete Gaussian noise: its part of what bounds it and others together.
    """
    if choosing is not None:
        return Repeated(event=BoundedRange(epsilon=choosing.spread / scale), count=choosing.rounds)
    if delta is not None and mechanism == "optimal_selection":
        # one coin for every key that a unit can enter or leave, each with an equal part of delta
        one = Approximate(epsilon=1 / scale, delta=delta / sensitivity.l0)
        return one if sensitivity.l0 == 1 else Repeated(event=one, count=sensitivity.l0)
    if delta is not None:
        counts = MECHANISMS[_COUNTED[mechanism]].event(scale, sensitivity)
        return Composed(events=(counts, Approximate(epsilon=Fraction(0), delta=delta)))
    if gauge is not None and mechanism in TABLES_MECHANISMS:
        return TABLES_MECHANISMS[mechanism].event(scale, gauge)
    if gauge is not None:
        found = JOINT_MECHANISMS[mechanism].event(scale, dimension, gauge)
        if not replaced:
            return found
        if not isinstance(found, TotalResidual):
            raise BrokenPromiseError(f"{mechanism} knows no law of a replaced row")
        return TotalResidual.model_validate({**dict(found), "replaced": True})
    found = MECHANISMS[mechanism].event(scale, sensitivity)
    if common is None or not isinstance(found, DiscreteGaussian):
        return found
    return DiscreteGaussian(scale=scale, sensitivity=sensitivity, common=common)


def selection_of(
    mechanism: str,
    scale: Fraction,
    sensitivity: Sensitivity,
    threshold: int,
    delta: Fraction,
    neighboring: Neighboring,
) -> KeySelection | None:
    """A selection by noise and a threshold, with all that prices a group of units; None: one coin decides per key.

    For one unit every accountant reads it as :func:`event_of`, the noise composed with (0, delta).

    Args:
        mechanism: A name in ``SELECTIONS``.
        scale: The scale of its noise.
        sensitivity: The sensitivity of the numbers of units per key: a change of 1 for each key that a unit enters or
        leaves.
        threshold: A key is shown when its noisy number of units is at least that.
        delta: At least the probability that a key shows which one unit alone holds.
        neighboring: A unit that is replaced leaves as many keys as it enters.
    """
    if mechanism not in ("laplace_threshold", "gaussian_threshold"):
        return None
    noise = MECHANISMS[_COUNTED[mechanism]].event(scale, sensitivity)
    if not isinstance(noise, DiscreteLaplace | DiscreteGaussian):
        raise BrokenPromiseError(f"{mechanism} compares a threshold with noise of another kind")
    sides = 1 if neighboring is Neighboring.ADD_REMOVE else 2
    return KeySelection(noise=noise, threshold=threshold, keys=-(-sensitivity.l0 // sides), delta=delta)


def law_of(
    mechanism: str,
    scale: Fraction,
    *,
    dimension: int = 1,
    gauge: Fraction | None = None,
    choosing: Choosing | None = None,
    tables: tuple[int, ...] = (),
) -> Law:
    """The law of one noisy number of a draw, in grid steps; of a choice, that of its score; of tables, of all."""
    if choosing is not None:
        return ScoreLaw(scale, choosing.candidates)
    if tables:
        return TABLES_MECHANISMS[mechanism].law(scale, tables)
    if gauge is not None:
        return JOINT_MECHANISMS[mechanism].law(scale, dimension)
    return MECHANISMS[_COUNTED.get(mechanism, mechanism)].law(scale)
