"""What two heaps of answers prove: statistics, events chosen on one half of the runs, and bounds from the other half.

Three statistics, for none sees everything. The sum of the log-likelihood ratios of the laws that the plan claims is the
best there is against noise that is as claimed, and blind to noise that two draws share. A linear statistic learned on
one half (Fisher's) sees that. Where answers are choices, the ratio of how often each came on one half is learned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.audit.bounds import epsilon_of_event, least_probability, most_probability, mu_of_event

__all__ = [
    "EVENTS",
    "AttackedPart",
    "Learner",
    "ProvedEvent",
    "evidence",
    "linear_score",
    "listed_score",
    "ratio_score",
]

Floats = npt.NDArray[np.float64]
Answers = npt.NDArray[np.int64]
Score = Callable[[Answers], Floats]
Learner = Callable[[Answers, Answers], Score | None]
"""Learns a statistic from the first half of the answers on either data set; None: there is none."""

EVENTS = 4  # of a statistic: in each of two directions the one for epsilon, and the one for mu
_THRESHOLDS = 41
_RIDGE = 1e-6
_ENDS = 4.0  # standard errors, where an event is chosen: what is proved does not depend on it


@dataclass(frozen=True)
class AttackedPart:
    """Columns of the answers that one draw made.

    Attributes:
        gaussian: Whether the claimed noise is discrete Gaussian; None: of no law with a ratio of its own here.
        scale: Of the claimed noise.
        base: The exact numbers of the first data set.
        change: By how much those of the second one are larger.
    """

    gaussian: bool | None
    scale: float
    base: Answers
    change: Answers


@dataclass(frozen=True)
class ProvedEvent:
    """An event, and how probable it is on the two sides: one bound of each, together right but for ``miss``.

    Attributes:
        statistic: Which one.
        above: At least its probability on one data set.
        below: At most its probability on the other.
    """

    statistic: str
    above: float
    below: float

    def epsilon(self, delta: float) -> float:
        """The epsilon that was proved at a delta, whatever the law of the loss."""
        return epsilon_of_event(self.above, self.below, delta)

    @property
    def mu(self) -> float:
        """The mu that was proved, if the loss is a Gaussian's."""
        return mu_of_event(self.above, self.below)


def ratio_score(parts: Sequence[AttackedPart]) -> Score | None:
    """The log of how much likelier an answer is on the second data set, by the claimed laws; None where it has none."""
    if any(part.gaussian is None for part in parts):
        return None

    def score(answers: Answers) -> Floats:
        total, start = np.zeros(len(answers)), 0
        for part in parts:
            noise = (answers[:, start : start + len(part.change)] - part.base).astype(np.float64)
            change = part.change.astype(np.float64)
            if part.gaussian:
                total += (noise @ change - float(change @ change) / 2) / part.scale**2
            else:
                total += (np.abs(noise) - np.abs(noise - change)).sum(axis=1) / part.scale
            start += len(part.change)
        return total

    return score


def linear_score(first: Answers, second: Answers) -> Score:
    """Fisher's statistic, learned on these answers: of neither claim nor law does it know anything."""
    middle = first.mean(axis=0)
    spread = np.maximum(np.std(first - middle, axis=0), 1e-9)
    one, other = (first - middle) / spread, (second - middle) / spread
    pooled = np.atleast_2d(np.cov(np.concatenate([one - one.mean(axis=0), other - other.mean(axis=0)]).T))
    weights = np.linalg.solve(pooled + _RIDGE * np.eye(len(pooled)), other.mean(axis=0) - one.mean(axis=0))
    return lambda answers: np.asarray(((answers - middle) / spread) @ weights, dtype=np.float64)


def listed_score(first: Answers, second: Answers) -> Score:
    """The log of how much more often an answer came on the second data set; one that never came is no evidence."""
    counts: dict[bytes, list[int]] = {}
    for side, heap in enumerate((first, second)):
        for row in heap:
            counts.setdefault(row.tobytes(), [0, 0])[side] += 1
    known = {row: math.log((also + 0.5) / (once + 0.5)) for row, (once, also) in counts.items()}
    return lambda answers: np.array([known.get(row.tobytes(), 0.0) for row in answers])


def evidence(
    first: Answers,
    second: Answers,
    scores: Mapping[str, Learner],
    delta: float,
    miss: float,
) -> list[ProvedEvent]:
    """Every event that was tested, four a statistic: chosen on the first half of the runs, counted on the second.

    Args:
        first: Answers on one data set, shape ``(runs, numbers)``, in the order in which they were drawn.
        second: On the other.
        scores: By name what learns a statistic from the two first halves.
        delta: Of the claim.
        miss: The chance that the two bounds of one event are wrong.
    """
    half = len(first) // 2
    found = []
    for name, learn in scores.items():
        score = learn(first[:half], second[:half])
        if score is None:
            continue
        learned, tested = ([score(first[part]), score(second[part])] for part in (slice(half), slice(half, None)))
        for more, less, sign in ((1, 0, 1), (0, 1, -1)):
            ends = _chosen(sign * learned[more], sign * learned[less], delta)
            for end in ends:
                hits = int((sign * tested[more] > end).sum()), int((sign * tested[less] > end).sum())
                runs = len(tested[more])
                above, below = least_probability(hits[0], runs, miss / 2), most_probability(hits[1], runs, miss / 2)
                found.append(ProvedEvent(name, above, below))
    return found


def _chosen(more: Floats, less: Floats, delta: float) -> tuple[float, float]:
    """Two thresholds: of the largest epsilon that these runs would prove, roughly, and of the largest mu."""
    shares, pooled = np.linspace(0, 1, _THRESHOLDS), np.concatenate([more, less])
    ends = np.unique([np.quantile(each, shares, method="lower") for each in (pooled, np.unique(pooled))])
    best, place = [-1.0, -1.0], [float(ends[0]), float(ends[0])]
    for end in ends.tolist():
        above, below = _roughly(more > end, -1), _roughly(less > end, 1)
        for at, value in enumerate((epsilon_of_event(above, below, delta), mu_of_event(above, below))):
            if value > best[at]:
                best[at], place[at] = value, end
    return place[0], place[1]


def _roughly(hit: npt.NDArray[np.bool_], side: int) -> float:
    share, runs = float(hit.mean()), len(hit)
    smoothed = (share * runs + _ENDS**2 / 2) / (runs + _ENDS**2)
    wide = _ENDS * math.sqrt(smoothed * (1 - smoothed) / (runs + _ENDS**2))
    return min(1.0, max(0.0, smoothed + side * wide))
