"""Many made-up units at once, each in or out by a fair coin: whole releases are guessed at, each of them read anew.

The totals of the other attacks are worked out once and hidden many times. Here every run writes files, and the engine
reads them, bounds, totals and hides them; as each of some canaries is a test of its own, a few runs are many. What
right guesses prove holds whatever the answers have to do with one another (Steinke, Nasr and Jagielski 2023, Theorem
5.2): a canary that is in one run only is one unit of all runs together, and these lose together what one loses.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.audit.bounds import epsilon_of_guesses
from dprelease.audit.pairs import AuditData, AuditedStep, Boxes, change_of, exact_numbers
from dprelease.audit.path import measured_anew
from dprelease.plan.document import Step
from dprelease.privacy.unit import Neighboring
from dprelease.starter.extremes import UnitRows

__all__ = ["CanaryRuns", "guess_canaries"]

_MOST = 200  # canaries of a run
_TRIED = 60  # units that are counted alone for them
_COUNTING = 0.3  # of the time
_FIRST = 0.3  # of the runs: they choose how many guesses are made
_FEWEST = 12  # runs, or there is no test
_SHARES = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)  # of the canaries that are guessed at, the surest first

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CanaryRuns:
    """What guessing proved.

    Attributes:
        canaries: In all runs that were tested.
        guesses: How many of them were guessed at.
        right: How many of these rightly.
        epsilon: What is proved at the delta of the budget.
    """

    canaries: int
    guesses: int
    right: int
    epsilon: float


@dataclass(frozen=True)
class _Canary:
    """A unit, and by step by how much it changes the numbers of an empty table."""

    unit: UnitRows
    change: dict[str, npt.NDArray[np.int64]]

    @property
    def moved(self) -> set[tuple[str, int]]:
        """The numbers that it changes, each as a step and a place."""
        return {(name, int(at)) for name, moves in self.change.items() for at in np.flatnonzero(moves)}

    def signal(self, steps: Sequence[AuditedStep]) -> float:
        """How far it stands out of the noise: changes over scales added up, of Gaussian noise the root of squares."""
        plain, squares = 0.0, 0.0
        for step in (each.step for each in steps):
            ratio = np.abs(self.change[step.id].astype(np.float64)) / float(step.scale)
            if "gaussian" in step.mechanism:
                squares += float((ratio**2).sum())
            else:
                plain += float(ratio.sum())
        return plain + math.sqrt(squares)


def guess_canaries(
    data: AuditData, steps: Sequence[AuditedStep], table: str, seconds: float, delta: float, miss: float
) -> CanaryRuns | None:
    """Put canaries in and guess which; None where there is nothing to guess from, or no time for enough runs.

    Args:
        data: Makes and reads rows.
        steps: Those whose tables a unit has rows in; choices and what is counted over selected keys are left out.
        table: A table of theirs.
        seconds: About how long.
        delta: Of the claim.
        miss: The chance that more is proved than is true.
    """
    if data.plan.neighboring is Neighboring.REPLACE_ONE:  # a unit that comes or goes is nothing that is promised
        return None
    plain = [each for each in steps if each.step.choosing is None and each.batch.selection is None]
    if not plain:
        return None
    empty = data.boxes([], plain)
    begun = time.monotonic()  # the first engine of a process is slow
    canaries = _chosen(data, plain, table, empty, begun + _COUNTING * seconds)
    if not canaries:
        return None
    base = {each.step.id: exact_numbers(each.step, empty[each.step.id]) for each in plain}
    inside: list[list[bool]] = []
    scores: list[list[float]] = []
    while time.monotonic() - begun < seconds or not scores:
        coins = [bool(byte & 1) for byte in os.urandom(len(canaries))]
        answers = measured_anew(data, [each.unit for each, coin in zip(canaries, coins, strict=True) if coin])
        inside.append(coins)
        scores.append([_score(each, plain, answers, base) for each in canaries])
    return _judged(np.array(inside, dtype=np.bool_), np.array(scores), delta, miss)


def _chosen(
    data: AuditData, steps: Sequence[AuditedStep], table: str, empty: dict[str, Boxes], until: float
) -> list[_Canary]:
    """Units none of which moves a number that another one moves, so that each is guessed at by itself."""
    tried: list[_Canary] = []
    for _ in range(_TRIED):
        if tried and time.monotonic() > until:
            break
        unit = data.units.unit(table)
        counted = data.boxes([unit], steps)
        tried.append(
            _Canary(
                unit, {each.step.id: change_of(each.step, empty[each.step.id], counted[each.step.id]) for each in steps}
            )
        )
    # Those that stand out most come first, and of such the ones that leave most room for others.
    tried.sort(key=lambda each: (-round(each.signal(steps), 6), len(each.moved)))
    found: list[_Canary] = []
    taken: set[tuple[str, int]] = set()
    for canary in tried:
        if canary.moved and not canary.moved & taken and len(found) < _MOST:
            taken |= canary.moved
            found.append(canary)
    return found


def _score(
    canary: _Canary,
    steps: Sequence[AuditedStep],
    answers: dict[str, npt.NDArray[np.int64]],
    base: dict[str, npt.NDArray[np.int64]],
) -> float:
    """How much likelier the answers are with the canary in than without it, by the claimed laws or nearly so."""
    total = 0.0
    for step in (each.step for each in steps):
        places = np.flatnonzero(canary.change[step.id])
        noise = (answers[step.id][places] - base[step.id][places]).astype(np.float64)
        total += _ratio(step, noise, canary.change[step.id][places].astype(np.float64))
    return total


def _ratio(step: Step, noise: Floats, change: Floats) -> float:
    if step.mechanism == "discrete_laplace":
        return float((np.abs(noise) - np.abs(noise - change)).sum()) / float(step.scale)
    return float(noise @ change - change @ change / 2) / float(step.scale) ** 2


def _judged(inside: npt.NDArray[np.bool_], scores: Floats, delta: float, miss: float) -> CanaryRuns | None:
    """How many guesses to make is chosen on the first runs, and they are counted on the others."""
    runs = len(inside)
    first = max(1, int(_FIRST * runs))
    if runs < _FEWEST:
        return None
    shares = [(_proved(inside[:first], scores[:first], share, delta, 0.05).epsilon, share) for share in _SHARES]
    return _proved(inside[first:], scores[first:], max(shares)[1], delta, miss)


def _proved(inside: npt.NDArray[np.bool_], scores: Floats, share: float, delta: float, miss: float) -> CanaryRuns:
    truth, score = inside.ravel(), scores.ravel()
    guesses = max(1, int(share * len(score)))
    surest = np.argsort(-np.abs(score), kind="stable")[:guesses]
    right = int(((score[surest] > 0) == truth[surest]).sum())
    return CanaryRuns(len(score), guesses, right, epsilon_of_guesses(right, guesses, len(score), delta, miss))
