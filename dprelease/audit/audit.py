"""The audit of one spec: pairs of made-up neighbours, many answers on both, and what they prove beside the claim."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dprelease.audit.bounds import epsilon_of_mu
from dprelease.audit.canaries import guess_canaries
from dprelease.audit.draws import draws_of, keys_drawn, one_by_one
from dprelease.audit.evidence import (
    EVENTS,
    AttackedPart,
    Learner,
    ProvedEvent,
    evidence,
    linear_score,
    listed_score,
    ratio_score,
)
from dprelease.audit.pairs import AuditData, Boxes, change_of, either_keys, exact_numbers
from dprelease.audit.path import answers_of, answers_read, joint_steps
from dprelease.audit.search import NeighbourPair, Searched, groups_of, search
from dprelease.audit.timing import affordable, answers_in_parts, seconds_each
from dprelease.errors import BrokenPromiseError, UnsupportedEvent
from dprelease.noise import ExactKeys
from dprelease.plan.document import ReleasePlan, Step
from dprelease.privacy.accountants import smallest
from dprelease.privacy.event import Event
from dprelease.release.planning import open_target, plan_release
from dprelease.release.project import reference_tables
from dprelease.release.series import refuse_series

__all__ = ["CANARIES", "MISS", "OF_CANARIES", "TINY", "AuditReport", "DrawAudit", "audit_plan", "audit_spec"]

MISS = 1e-6
"""The chance that an audit of a plan that is right reports a breach of its loss, over all of its tests together."""

CANARIES = "whole release, canaries"
"""The attack whose runs are units that are in or out, many of them in each release."""

OF_CANARIES = 0.25
"""Their part of ``MISS``: theirs is one test of a few runs, the others' are of very many."""

TINY = Fraction(1, 10**14)
"""The delta of what canaries are held against: each of them costs twice that."""

Shown = Callable[[str, int, int], None]
Answers = npt.NDArray[np.int64]
_DELTAS = (1e-4, 1e-2, 3e-2, 0.1, 0.2, 0.4)  # of the claimed curve, beside that of the budget
_NUMBERS = 48  # of one step that an attack looks at, those that change most
_STATISTICS = 4  # of a step at most: of a selection two on each of two pairs
_SEARCHING, _GUESSING = 0.3, 0.25  # of the time, and of what is left: for neighbours, and for canaries
_LEFT = 0.3  # of the time, that attacks have at least
_OWN = Fraction(5, 4)  # times the delta of a selection: the rest is for its noise
_LATTICE = 2.0  # a discrete Gaussian of a smaller scale is no Gaussian: then mu says nothing


@dataclass(frozen=True)
class DrawAudit:
    """What was tried on one step, or on all together.

    Attributes:
        draw: The id of the step, ``whole release``, or ``CANARIES``.
        mechanism: Of the step; empty of all.
        delta: That of the budget; of ``CANARIES`` a far smaller one.
        claimed: The epsilon that is claimed at it.
        proved: The largest lower bound of it; 0 where nothing is proved.
        reached: The part of the stated sensitivity that the two data sets differ by; None of all together.
        runs: Answers on each data set, or canaries; 0 where there was no time for enough of them.
        seconds: That it took.
        breaches: What is worse than claimed, in words; empty: nothing was found.
    """

    draw: str
    mechanism: str
    delta: float
    claimed: float
    proved: float
    reached: float | None
    runs: int
    seconds: float
    breaches: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditReport:
    """A whole audit.

    Attributes:
        release: Its name; ``period``: its period.
        plan: The fingerprint of the plan that was attacked.
        draws: The steps in plan order, then all together.
        units_tried: Made-up units of which data sets were made.
        tests: Events that were tested; together they accuse a plan that is right with probability ``MISS`` at most.
        seconds: In all.
    """

    release: str
    period: str
    plan: str
    draws: tuple[DrawAudit, ...]
    units_tried: int
    tests: int
    seconds: float

    @property
    def breached(self) -> bool:
        """Whether something is worse than claimed."""
        return any(each.breaches for each in self.draws)


def audit_spec(
    path: Path, *, seconds: float = 60, period: str | None = None, show: Shown = lambda label, done, total: None
) -> AuditReport:
    """Plan a spec and attack the plan on made-up rows; no source is read, nothing is charged, no answer leaves.

    Args:
        path: The path of a spec or a frozen plan.
        seconds: About how long; a few runs are made however short it is.
        period: Takes the place of the spec's own.
        show: Called with what is being done, how much of it is done, and how much there is.

    Raises:
        DpReleaseError: Whatever planning raises, and the engine where it cannot read made-up rows.
    """
    target = open_target(path, period)
    plan = target.frozen.plan if target.frozen else plan_release(target)
    refuse_series(plan, "audit")
    with closing(AuditData(plan, reference_tables(plan.catalog, target.project.folder))) as data:
        return audit_plan(plan, data, seconds, show)


def audit_plan(
    plan: ReleasePlan, data: AuditData, seconds: float, show: Shown = lambda label, done, total: None
) -> AuditReport:
    """Attack a plan, verified or not; see :func:`audit_spec`."""
    begun = time.monotonic()
    searched = search(data, seconds * _SEARCHING, lambda done, total: show("making up neighbours", done, total))
    # A slow machine makes the search longer than its part; what follows has what is left, and a little at least.
    left = max(begun + seconds - time.monotonic(), seconds * _LEFT)
    each = left * (1 - _GUESSING) / (len(plan.steps) + 2)
    tests = EVENTS * (_STATISTICS * len(plan.steps) + 2 * max(1, len(searched.whole))) + 1
    attack = _Attack(plan, data, searched, MISS * (1 - OF_CANARIES) / (tests - 1), each)
    draws = []
    for number, step in enumerate(plan.steps):
        draws.append(attack.step(step))
        show("attacking steps", number + 1, len(plan.steps))
    draws += [attack.whole(pair, number) for number, pair in enumerate(searched.whole)]
    left = begun + seconds - time.monotonic()
    if left > 0:
        draws += attack.canaries(max(left, seconds * _GUESSING / 2))
    show("attacking the whole release", 1, 1)
    return AuditReport(
        release=plan.release.name,
        period=plan.release.period,
        plan=plan.fingerprint(),
        draws=tuple(draws),
        units_tried=searched.tried,
        tests=tests,
        seconds=time.monotonic() - begun,
    )


@dataclass(frozen=True)
class _Attack:
    """One audit on its way; ``miss`` is the chance of a test but the canaries', ``seconds`` the time of each step."""

    plan: ReleasePlan
    data: AuditData
    searched: Searched
    miss: float
    seconds: float

    def step(self, step: Step) -> DrawAudit:
        """Attack one step on the pair that moves it most, and a selection where its threshold is, too."""
        begun, pair = time.monotonic(), self.searched.best.get(step.id)
        pairs = [each for each in (pair, self.searched.edges.get(step.id)) if each is not None]
        event = step.alone if step.selecting is None else step.event_under(self.plan.neighboring)
        own = [] if step.selecting is None else [step.selecting.delta * _OWN]
        claims = self._curve(event, own)
        breaches, runs = [*self.searched.broken.get(step.id, {})], 0
        found: list[ProvedEvent] = []
        try:
            for each in pairs:
                proved, tried = self._attacked(step, each, self.seconds / len(pairs))
                found, runs = found + proved, runs + tried
        except BrokenPromiseError as error:
            breaches.append(f"measuring made-up rows broke a promise: {error.summary}")
        breaches += _refuted(found, claims)
        normal = "gaussian" in step.mechanism and step.scale >= _LATTICE and step.selecting is None
        return DrawAudit(
            step.id,
            step.mechanism,
            claims[0][0],
            claims[0][1],
            _proved(found, claims[0][0], normal=normal),
            0.0 if pair is None else pair.size,
            runs,
            time.monotonic() - begun,
            tuple(breaches),
        )

    def _attacked(self, step: Step, pair: NeighbourPair, seconds: float) -> tuple[list[ProvedEvent], int]:
        first, second = pair.first[step.id], pair.second[step.id]
        draw = _drawer(step, pair, first, second)
        choice, places = step.choosing is not None or step.selecting is not None, _places(step, pair)
        runs = affordable(seconds, seconds_each(lambda runs: draw(first, runs), seconds), len(places))
        part = None if choice else _part(step, pair, places)
        if not runs:
            return [], 0
        scores: dict[str, Learner] = {"learned": linear_score}
        if part is not None:
            scores["claimed law"] = lambda one, other: ratio_score([part])
        else:
            scores["how often"] = listed_score
        delta = float(self.plan.budget.delta)
        sides = answers_in_parts(draw, (first, second), runs, seconds)
        return evidence(*sides, scores, delta, self.miss), len(sides[0])

    def whole(self, pair: NeighbourPair, number: int) -> DrawAudit:
        """Attack all steps that a unit is in together, by the very function that measures a release."""
        begun = time.monotonic()
        breaches: list[str] = []
        claims = self._curve(self.plan.event, few=True)
        steps = joint_steps(self.data, pair)
        found: list[ProvedEvent] = []
        runs = 0
        try:
            seconds = 2 * self.seconds / len(self.searched.whole)
            breaches += answers_read(self.data, pair, seconds)
            if steps:
                parts = _places_together([(step, _of_step(step, pair)) for step in steps])
                kept = [_part(step, _of_step(step, pair), places) for step, places in parts]
                each = seconds_each(lambda runs: answers_of(self.data, pair.first, parts, runs), seconds)
                runs = affordable(seconds, each, sum(len(at) for _, at in parts))
            if runs:
                sides = answers_in_parts(
                    lambda boxes, some: answers_of(self.data, boxes, parts, some),
                    (pair.first, pair.second),
                    runs,
                    seconds,
                )
                runs = len(sides[0])
                scores: dict[str, Learner] = {
                    "learned": linear_score,
                    "claimed law": lambda one, other: ratio_score(kept),
                }
                found = evidence(sides[0], sides[1], scores, claims[0][0], self.miss)
        except BrokenPromiseError as error:
            breaches.append(f"measuring made-up rows broke a promise: {error.summary}")
        breaches += _refuted(found, claims)
        normal = bool(steps) and all("gaussian" in step.mechanism and step.scale >= _LATTICE for step in steps)
        return DrawAudit(
            "whole release" if not number else f"whole release, other rows {number}",
            "",
            claims[0][0],
            claims[0][1],
            _proved(found, claims[0][0], normal=normal),
            None,
            runs,
            time.monotonic() - begun,
            tuple(breaches),
        )

    def canaries(self, seconds: float) -> list[DrawAudit]:
        """Attack whole releases that are read anew, with many units at once; nothing where none is to be guessed at."""
        begun, breaches = time.monotonic(), list[str]()
        table, steps = max(groups_of(self.data), key=lambda group: len(group[1]))
        (delta, claimed) = self._far_out()
        try:
            found = guess_canaries(self.data, steps, table, seconds, delta, MISS * OF_CANARIES)
        except BrokenPromiseError as error:
            found, breaches = None, [f"measuring made-up rows broke a promise: {error.summary}"]
        if found is None and not breaches:
            return []
        proved = 0.0 if found is None else found.epsilon
        if found is not None and proved > claimed:
            breaches.append(
                f"epsilon is at least {proved:.4g} at delta {delta:g}, and {claimed:.4g} is claimed: {found.right} of "
                f"{found.guesses} guesses were right, about {found.canaries} canaries"
            )
        spent, number = time.monotonic() - begun, 0 if found is None else found.canaries
        return [DrawAudit(CANARIES, "", delta, claimed, proved, None, number, spent, tuple(breaches))]

    def _far_out(self) -> tuple[float, float]:
        """A point of the claimed curve at a delta that is next to nothing for many canaries too, where there is one."""
        try:
            delta = min(self.plan.budget.delta, TINY)
            return float(delta), float(smallest(self.plan.event, delta)[1])
        except UnsupportedEvent:  # keys are selected with a delta of their own
            return self._curve(self.plan.event, few=True)[0]

    def _curve(self, event: Event, own: Sequence[Fraction] = (), *, few: bool = False) -> list[tuple[float, float]]:
        """Points of what is claimed, that of the budget first: any theorem about the event is a claim.

        Of a selection one point is a little above its own delta, which may be a part of the budget's.
        """
        more = [Fraction(str(delta)) for delta in (_DELTAS[1::2] if few else _DELTAS)]
        deltas = [self.plan.budget.delta, *own, *(delta for delta in more if delta > self.plan.budget.delta)]
        return [(float(delta), float(smallest(event, delta)[1])) for delta in deltas]


def _of_step(step: Step, pair: NeighbourPair) -> NeighbourPair:
    first, second = pair.first[step.id], pair.second[step.id]
    return NeighbourPair(pair.units, {step.id: first}, {step.id: second}, change_of(step, first, second), pair.size)


def _part(step: Step, pair: NeighbourPair, places: Answers) -> AttackedPart:
    plain = step.gauge is None and not step.tables
    base = exact_numbers(step, pair.first[step.id])[places]
    return AttackedPart("gaussian" in step.mechanism if plain else None, float(step.scale), base, pair.change[places])


def _places(step: Step, pair: NeighbourPair) -> Answers:
    """Which numbers of a step's answer an attack looks at, rising: those that change most."""
    if step.mechanism == "exponential_top_k" or step.selecting is not None:
        return np.arange(len(pair.change))
    order = np.argsort(-np.abs(pair.change), kind="stable")[:_NUMBERS]
    return np.sort(order[pair.change[order] != 0])


def _places_together(moved: Sequence[tuple[Step, NeighbourPair]]) -> list[tuple[Step, Answers]]:
    """For each step the numbers that change in it, or in another step with as many: they may share their noise."""
    alike: dict[int, set[int]] = {}
    for step, pair in moved:
        alike.setdefault(len(pair.change), set()).update(_places(step, pair).tolist())
    return [(step, np.array(sorted(alike[len(pair.change)])[:_NUMBERS], dtype=np.int64)) for step, pair in moved]


def _drawer(step: Step, pair: NeighbourPair, first: Boxes, second: Boxes) -> Callable[[Boxes, int], Answers]:
    """What makes so many answers of a step on a data set, in the order of ``_places``."""
    if isinstance(first[0], ExactKeys) and isinstance(second[0], ExactKeys):
        keys = either_keys(first[0], second[0])
        return lambda boxes, runs: keys_drawn(step, boxes, runs, keys)
    places = _places(step, pair)
    if one_by_one(step):
        return lambda boxes, runs: draws_of(step, boxes, places, runs)
    cells = (step.cells or 0) if step.selecting is None and step.cells else len(pair.change) // len(first)
    held = np.unique(places % cells)
    kept = [
        at * len(held) + int(np.searchsorted(held, place % cells))
        for place in places.tolist()
        for at in [place // cells]
    ]
    return lambda boxes, runs: draws_of(step, boxes, held, runs)[:, kept]


def _refuted(found: Sequence[ProvedEvent], claims: Sequence[tuple[float, float]]) -> list[str]:
    """The worst of what is proved above a point of the claimed curve."""
    worst = [
        (each.epsilon(delta) - claimed, each, delta, claimed)
        for each in found
        for delta, claimed in claims
        if each.epsilon(delta) > claimed
    ]
    if not worst:
        return []
    _, each, delta, claimed = max(worst, key=lambda item: item[0])
    return [
        f"epsilon is at least {each.epsilon(delta):.4g} at delta {delta:g}, and {claimed:.4g} is claimed "
        f"(statistic: {each.statistic})"
    ]


def _proved(found: Sequence[ProvedEvent], delta: float, *, normal: bool) -> float:
    direct = max((each.epsilon(delta) for each in found), default=0.0)
    if not normal:
        return direct
    return max(direct, epsilon_of_mu(max((each.mu for each in found), default=0.0), delta))
