"""Which noise for which step: the closed list of candidates, and how each turns a budget into a scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.noise.mechanisms.random_scale import scale_table
from dprelease.noise.mechanisms.total_residual import total_residual_std
from dprelease.plan.lower.alternatives import Form
from dprelease.plan.lower.unscaled import Ball, UnscaledStep
from dprelease.privacy.rounding import dyadic_sqrt_up, dyadic_up

__all__ = ["CANDIDATES", "Candidate"]

Floats = npt.NDArray[np.float64]


_WIDE = Fraction(2**20)  # a scale at which integer noise is as good as continuous


@dataclass(frozen=True)
class Candidate:
    """One way to hide a domain's drafts.

    Attributes:
        name: For people.
        form: The form of the measures.
        noise: The noise of every draft that is not a K-norm draw.
        unit: What shares divide: ``epsilon`` where everything is pure, else ``rho`` (a pure draw of rho r has
            epsilon sqrt(2 r)).
    """

    name: str
    form: Form
    noise: Literal["laplace", "gaussian"]
    unit: Literal["epsilon", "rho"]

    @property
    def power(self) -> int:
        """By which power of its budget, in that unit, the variance of every draw falls."""
        return 1 if self.unit == "rho" else 2

    def mechanism(self, draft: UnscaledStep) -> str:
        """The name of the mechanism that hides a step."""
        if draft.list_of is not None:
            return "exponential_top_k"
        if draft.choosing is not None:
            return "exponential_clip" if draft.aggregate.quantity.is_clip else "exponential_quantile"
        if draft.delta is not None:
            return "optimal_selection" if draft.coin and self.noise == "laplace" else f"{self.noise}_threshold"
        if draft.ball in _BY_BALL:
            return _BY_BALL[draft.ball]
        return f"{draft.ball}_knorm" if draft.ball else f"discrete_{self.noise}"

    def scale(self, draft: UnscaledStep, budget: Fraction, *, rough: bool = False) -> Fraction:
        """The scale, rounded up to what is drawn, at which a step costs this epsilon or rho (the candidate's unit).

        A rough one is only near that: a float, for searches whose end is worked out exactly.
        """
        if rough:
            return Fraction(self._rough_scale(draft, float(budget)))
        if draft.choosing is not None and self.unit == "rho":
            # each choice is spread / scale in range, and such a choice costs the square of that over 8
            return dyadic_sqrt_up(*_over(draft.sensitivity.l2_squared, 8, budget))
        if self._adds_gaussian(draft):
            return dyadic_sqrt_up(*_over(draft.squared, 2, budget))
        if draft.ball == "sphere":
            return dyadic_sqrt_up(*_over(_length_squared(draft), 2, budget))
        reach = draft.gauge if draft.gauge is not None else draft.sensitivity.l1
        if self.unit == "epsilon":
            return dyadic_up(reach / budget)
        return dyadic_sqrt_up(*_over(reach * reach, 2, budget))

    def rough_scales(self, changes: Floats, budgets: Floats) -> Floats:
        """Rough scales of many drafts with independent noise, of each of which one unit moves one cell by a change."""
        return np.sqrt(changes * changes / 2 / budgets) if self.unit == "rho" else changes / budgets

    def _adds_gaussian(self, draft: UnscaledStep) -> bool:
        return self.noise == "gaussian" and draft.gauge is None and draft.choosing is None

    def _rough_scale(self, draft: UnscaledStep, budget: float) -> float:
        if draft.choosing is not None and self.unit == "rho":
            return math.sqrt(draft.sensitivity.l2_squared / 8 / budget)
        if self._adds_gaussian(draft):
            return math.sqrt(draft.squared / 2 / budget)
        if draft.ball == "sphere":
            return math.sqrt(_length_squared(draft) / 2 / budget)
        reach = float(draft.gauge if draft.gauge is not None else draft.sensitivity.l1)
        return reach / budget if self.unit == "epsilon" else reach / math.sqrt(2 * budget)

    def spread(self, draft: UnscaledStep) -> float:
        """The standard deviation at a unit budget, of continuous noise of the kind; of a choice, its scale."""
        if draft.choosing is not None:
            return self._rough_scale(draft, 1.0)
        if draft.gauge is None:
            if self.noise == "gaussian":
                return math.sqrt(draft.squared / 2)
            return float(draft.sensitivity.l1) * (math.sqrt(2.0) if self.unit == "epsilon" else 1.0)
        if draft.ball == "tables":
            wide = math.sqrt(draft.law(self.mechanism(draft), _WIDE).variance) / _WIDE
            return float(draft.gauge) * wide * (1.0 if self.unit == "epsilon" else math.sqrt(0.5))
        k = 1 + len(draft.joined)
        if draft.ball == "sphere":
            return self._rough_scale(draft, 1.0) * math.sqrt(1 + 1 / scale_table(k).total ** 2) / 2
        if draft.ball == "total":
            return float(draft.gauge) * total_residual_std(k, 1.0 if self.unit == "epsilon" else math.sqrt(2.0))
        shape = (k + 2) * (k + 3) / 6 if draft.ball == "count" else (k + 1) * (k + 2) / 3
        return float(draft.gauge) * math.sqrt(shape if self.unit == "epsilon" else shape / 2)


def _over(square: Fraction, times: int, budget: Fraction) -> tuple[int, int]:
    """Square / (times budget) as two whole numbers, for a search asks for thousands of scales."""
    return square.numerator * budget.denominator, square.denominator * times * budget.numerator


_BY_BALL: Mapping[Ball | None, str] = {"total": "total_residual", "sphere": "random_scale"}


def _length_squared(draft: UnscaledStep) -> Fraction:
    """The squared length by which the rows of one unit move the vector of a draw of one random scale."""
    counts = 1 + len(draft.joined)
    return (draft.gauge or 1) ** 2 * (counts + scale_table(counts).total ** 2)


_JOINT, _PURE = Form(joint_sums=True), Form(joint_sums=True, pure=True)

# In the order in which a tie is decided: the plainest first.
CANDIDATES: tuple[Candidate, ...] = (
    Candidate("discrete Laplace", Form(pure=True), "laplace", "epsilon"),
    Candidate("discrete Gaussian", Form(), "gaussian", "rho"),
    Candidate("discrete Laplace, sums from means", _PURE, "laplace", "epsilon"),
    Candidate("discrete Gaussian, sums from means", _JOINT, "gaussian", "rho"),
    Candidate("correlated Gaussian counts", Form(True, centred_counts=True), "gaussian", "rho"),
    Candidate("K-norm counts, Laplace", Form(True, knorm=True, pure=True), "laplace", "epsilon"),
    Candidate("K-norm counts, Gaussian", Form(True, knorm=True), "gaussian", "rho"),
    Candidate(
        "total and residual counts, Laplace", Form(True, knorm=True, residuals=True, pure=True), "laplace", "epsilon"
    ),
    Candidate("total and residual counts, Gaussian", Form(True, knorm=True, residuals=True), "gaussian", "rho"),
    Candidate("parts and rests, Laplace", Form(True, parts=True, pure=True), "laplace", "epsilon"),
    Candidate("parts and rests, Gaussian", Form(True, parts=True), "gaussian", "rho"),
    Candidate("disjoint counts, Laplace", Form(True, apart=True, pure=True), "laplace", "epsilon"),
    Candidate("disjoint counts, Gaussian", Form(True, apart=True), "gaussian", "rho"),
    Candidate("random-scale Gaussian counts", Form(True, knorm=True, random_scale=True), "gaussian", "rho"),
)
