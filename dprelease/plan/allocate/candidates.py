"""Which noise for which draft: the closed list of candidates, and how a candidate turns a budget into scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from dprelease.errors import BrokenPromiseError
from dprelease.noise import Law, OptimalSelection
from dprelease.noise.mechanisms.threshold import least_threshold
from dprelease.plan.document import mechanisms as draws
from dprelease.plan.lower.alternatives import Form
from dprelease.plan.lower.queries import Lowered
from dprelease.plan.lower.unscaled import Draft
from dprelease.privacy.event import Event
from dprelease.privacy.rounding import dyadic_up, sqrt_up
from dprelease.privacy.unit import Neighboring

__all__ = [
    "CANDIDATES",
    "Candidate",
    "Scaling",
    "even_split",
    "event_of",
    "event_under",
    "law_of",
    "mechanism_of",
    "scale_of",
    "spread_of",
    "threshold_of",
]

_TURNS = 200
_SETTLED = 1e-12


@dataclass(frozen=True)
class Candidate:
    """One way to hide a domain's drafts.

    Attributes:
        name: For people.
        form: Of the measures.
        noise: Of every draft that is not a K-norm draw.
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


_JOINT = Form(joint_sums=True)

# In the order in which a tie is decided: the plainest first.
CANDIDATES: tuple[Candidate, ...] = (
    Candidate("discrete Laplace", Form(), "laplace", "epsilon"),
    Candidate("discrete Gaussian", Form(), "gaussian", "rho"),
    Candidate("discrete Laplace, sums from means", _JOINT, "laplace", "epsilon"),
    Candidate("discrete Gaussian, sums from means", _JOINT, "gaussian", "rho"),
    Candidate("correlated Gaussian counts", Form(True, centred_counts=True), "gaussian", "rho"),
    Candidate("K-norm counts, Laplace", Form(True, knorm=True), "laplace", "epsilon"),
    Candidate("K-norm counts, Gaussian", Form(True, knorm=True), "gaussian", "rho"),
)


def mechanism_of(draft: Draft, candidate: Candidate) -> str:
    """The name of the draft's mechanism."""
    if draft.list_of is not None:
        return "exponential_top_k"
    if draft.choosing is not None:
        return "exponential_quantile"
    if draft.part is not None:
        return "discrete_gaussian"
    if draft.delta is not None:
        return "optimal_selection" if draft.coin and candidate.noise == "laplace" else f"{candidate.noise}_threshold"
    return f"{draft.ball}_knorm" if draft.ball else f"discrete_{candidate.noise}"


def event_of(draft: Draft, mechanism: str, scale: Fraction) -> Event:
    """What the draft costs at a scale."""
    return draws.event_of(
        mechanism,
        scale,
        draft.sensitivity,
        dimension=len(draft.parts),
        gauge=draft.gauge,
        choosing=draft.choosing,
        delta=draft.delta,
    )


def threshold_of(draft: Draft, mechanism: str, scale: Fraction) -> tuple[int, int]:
    """The threshold of a draft that selects keys, and the least one for its delta; ``min_units`` may raise it.

    Where a coin decides: the number of units from which it shows a key more often than not.
    """
    if draft.delta is None:
        raise BrokenPromiseError(f"{draft.id} selects no keys")
    if mechanism == "optimal_selection":
        least = OptimalSelection().half_point(1 / scale, draft.delta / draft.sensitivity.l0)
    else:
        noise: Literal["laplace", "gaussian"] = "laplace" if mechanism == "laplace_threshold" else "gaussian"
        least = least_threshold(noise, scale, draft.delta, draft.groups or 1)
    return max(least, draft.aggregate.min_units or 1), least


def event_under(draft: Draft, mechanism: str, scale: Fraction, neighboring: Neighboring) -> Event:
    """What the draft costs at a scale, with all that prices a group of units."""
    if draft.delta is None or mechanism == "optimal_selection":
        return event_of(draft, mechanism, scale)
    threshold, _ = threshold_of(draft, mechanism, scale)
    whole = draws.selection_of(mechanism, scale, draft.sensitivity, threshold, draft.delta, neighboring)
    return event_of(draft, mechanism, scale) if whole is None else whole


def law_of(draft: Draft, mechanism: str, scale: Fraction) -> Law:
    """The law of one of its noisy numbers at a scale; of a choice, that of its score."""
    return draws.law_of(mechanism, scale, dimension=len(draft.parts), gauge=draft.gauge, choosing=draft.choosing)


def scale_of(draft: Draft, candidate: Candidate, budget: Fraction, *, rough: bool = False) -> Fraction:
    """The scale, rounded up to what is drawn, at which the draft costs this epsilon or rho (the candidate's unit).

    A rough one is only near that: a float, for searches whose end is worked out exactly.
    """
    if rough:
        return Fraction(_rough_scale(draft, candidate, float(budget)))
    if draft.choosing is not None and candidate.unit == "rho":
        # each choice is spread / scale in range, and such a choice costs the square of that over 8
        return dyadic_up(sqrt_up(draft.sensitivity.l2_squared / (8 * budget)))
    if _adds_gaussian(draft, candidate):
        return dyadic_up(sqrt_up(draft.sensitivity.l2_squared / (2 * budget)))
    reach = draft.gauge if draft.gauge is not None else draft.sensitivity.l1
    if candidate.unit == "epsilon":
        return dyadic_up(reach / budget)
    return dyadic_up(sqrt_up(reach * reach / (2 * budget)))


def _adds_gaussian(draft: Draft, candidate: Candidate) -> bool:
    return candidate.noise == "gaussian" and draft.gauge is None and draft.choosing is None


def _rough_scale(draft: Draft, candidate: Candidate, budget: float) -> float:
    if draft.choosing is not None and candidate.unit == "rho":
        return math.sqrt(draft.sensitivity.l2_squared / 8 / budget)
    if _adds_gaussian(draft, candidate):
        return math.sqrt(draft.sensitivity.l2_squared / 2 / budget)
    reach = float(draft.gauge if draft.gauge is not None else draft.sensitivity.l1)
    return reach / budget if candidate.unit == "epsilon" else reach / math.sqrt(2 * budget)


def even_split(lowered: Lowered, query: int, candidate: Candidate) -> dict[int, Fraction]:
    """How a query's budget is divided over its drafts: draft -> part; the parts add up to exactly one.

    Minimises the mean over the query's measures of the logarithm of the variance, which no change of units can
    move. With V_m = sum_i w_mi V_i and V_i = v_i / b_i^p (p = 1 for rho, 2 for epsilon) the stationary point of
    sum_m ln V_m under sum_i b_i = 1 is b_i = f_i, the mean over m of w_mi V_i / V_m: every draft gets its part of
    the variances that it causes. It is found by b_i <- b_i (f_i / b_i)^(1 / (1 + p)), made to add up to one: the
    multiplicative algorithm of optimal design, which climbs to the optimum for such powers (Yu 2010, "Monotonic
    convergence of a general algorithm for computing optimal designs"). A measure with one draft gives it an equal
    part. A mean divides its part into halves, which is D_i sqrt(w_i), the closed form of weighted squared error, at
    the worst mean. Centred counts get the split of ``split.elliptic_variances``.
    """
    terms = [term for term in lowered.terms if term.query == query]
    planned = {at: lowered.drafts[at].part for term in terms for at, _ in term.weights}
    parts = {at: part for at, part in planned.items() if part is not None}
    if parts:  # a workload's, which its strategy has chosen
        return parts
    used = sorted({draft for term in terms for draft, _ in term.weights})
    power = candidate.power
    spread = {at: spread_of(lowered.drafts[at], candidate) ** 2 for at in used}
    part = dict.fromkeys(used, 1 / len(used))
    for _ in range(_TURNS):
        fresh = dict.fromkeys(used, 0.0)
        for term in terms:
            caused = [(at, weight * spread[at] / part[at] ** power) for at, weight in term.weights]
            total = sum(size for _, size in caused)
            for at, size in caused:
                fresh[at] += size / total / len(terms)
        moved = max(abs(fresh[at] - part[at]) for at in used)
        part = {at: size * (max(fresh[at], 1e-9) / size) ** (1 / (1 + power)) for at, size in part.items()}
        whole = sum(part.values())
        part = {at: size / whole for at, size in part.items()}
        if moved < _SETTLED:
            break
    exact = {at: Fraction(size).limit_denominator(10**6) for at, size in part.items()}
    added = sum(exact.values(), Fraction(0))
    return {at: size / added for at, size in exact.items()}


def spread_of(draft: Draft, candidate: Candidate) -> float:
    """The standard deviation at a unit budget, of continuous noise of the kind; of a choice, its scale."""
    if draft.choosing is not None:
        return _rough_scale(draft, candidate, 1.0)
    if draft.gauge is None:
        if candidate.noise == "gaussian":
            return math.sqrt(draft.sensitivity.l2_squared / 2)
        return float(draft.sensitivity.l1) * (math.sqrt(2.0) if candidate.unit == "epsilon" else 1.0)
    k = 1 + len(draft.joined)
    shape = (k + 2) * (k + 3) / 6 if draft.ball == "count" else (k + 1) * (k + 2) / 3
    return float(draft.gauge) * math.sqrt(shape if candidate.unit == "epsilon" else shape / 2)


@dataclass(frozen=True)
class Scaling:
    """The scales of a domain's drafts as a function of one knob: each draft gets max(slope x knob, floor).

    Attributes:
        drafts: The places of the domain's drafts.
        slopes: Of the shares; absent: nothing is shared out to that draft.
        floors: The budget that a target needs, whatever the shares are.
    """

    lowered: Lowered
    candidate: Candidate
    drafts: Sequence[int]
    slopes: Mapping[int, Fraction] = field(default_factory=dict)
    floors: Mapping[int, Fraction] = field(default_factory=dict)

    def budgets(self, knob: Fraction) -> dict[int, Fraction]:
        """Epsilon or rho of every draft."""
        none = Fraction(0)
        return {at: max(self.slopes.get(at, none) * knob, self.floors.get(at, none)) for at in self.drafts}

    def scales(self, knob: Fraction, *, rough: bool = False) -> dict[int, Fraction]:
        """The scale of every draft, as it will be drawn; or near that."""
        return {
            at: scale_of(self.lowered.drafts[at], self.candidate, budget, rough=rough)
            for at, budget in self.budgets(knob).items()
        }

    def events(self, scales: Mapping[int, Fraction]) -> list[Event]:
        """What the drafts cost at these scales."""
        found = []
        for at, scale in scales.items():
            draft = self.lowered.drafts[at]
            found.append(event_of(draft, mechanism_of(draft, self.candidate), scale))
        return found

    def charged(self, scales: Mapping[int, Fraction], neighboring: Neighboring) -> list[Event]:
        """What the drafts cost at these scales, with all that prices a group of units."""
        found = []
        for at, scale in scales.items():
            draft = self.lowered.drafts[at]
            found.append(event_under(draft, mechanism_of(draft, self.candidate), scale, neighboring))
        return found

    def laws(self, scales: Mapping[int, Fraction]) -> dict[int, Law]:
        """The laws of the drafts' noise at these scales."""
        found = {}
        for at, scale in scales.items():
            draft = self.lowered.drafts[at]
            found[at] = law_of(draft, mechanism_of(draft, self.candidate), scale)
        return found
