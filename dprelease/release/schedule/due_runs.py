"""What a scheduled run has to do now. The ledger says it, whatever a scheduler remembers.

The promise: a period that is complete is published, skipped by the author's word, given up by hand, or it is in this
list at every run until it is one of these; or its data are gone, and that is an alarm. A run that failed, was killed
or was never started leaves the ledger as it was, and so the next one finds the same and the later periods.

One mistake must not be paid for by every period of a backlog: after a failure that stays charged, a run goes on with
what is open and begins no new period (`try_in_order`). The next run finds that release open, tries it first, and so
begins none either until it is finished, or ended by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from dprelease.errors import DpReleaseError, PlanError
from dprelease.ledger import Holder, Reservation
from dprelease.release.project import Project
from dprelease.release.revisions import revisions_of
from dprelease.release.run import Request
from dprelease.release.schedule.due import (
    PeriodStatus,
    Revision,
    at_work,
    coverage,
    first_period,
    in_words,
    late_revisions,
    read_scheduled,
)
from dprelease.spec.fields.schedule import Scheduled
from dprelease.spec.period import is_a

__all__ = ["Agenda", "Left", "Turn", "agenda", "not_begun", "stays_charged", "try_in_order", "turns"]

Why = Literal["held", "lost", "skipped", "given_up", "most", "outside", "stopped"]


@dataclass(frozen=True)
class Turn:
    """One release to run.

    Attributes:
        period: The schedule's period.
        revision: 0 is the first publication; from 1 on a planned revision.
        resumes: It was begun by a process that is gone.
    """

    period: str
    revision: int = 0
    resumes: bool = False

    def request(self, target: str) -> Request:
        """What to run: by its stored plan where it was begun, whoever began it, and by the spec as it is elsewhere."""
        return Request(target=target, period=self.period, revision=self.revision, as_planned=True)

    def __str__(self) -> str:
        return f"{self.period} revision {self.revision}" if self.revision else self.period


@dataclass(frozen=True)
class Left:
    """What is not attempted. Public.

    Attributes:
        period: A period of the schedule, or of an earlier form of it.
        revision: As of a turn.
        why: ``held``: somebody works on it; ``lost``: its data may be gone; ``skipped``: by the author or by the rule
            of ``catch_up``; ``given_up``: ended by hand; ``most``: it has to wait for another run; ``outside``: it was
            begun, and the spec has no such period any more; ``stopped``: another one failed and stays charged.
        says: The same in a short sentence.
        alarm: Whether somebody has to look.
    """

    period: str
    revision: int
    why: Why
    says: str
    alarm: bool = False


@dataclass(frozen=True)
class Agenda:
    """What to release now, in this order, and what is left.

    A turn that fails takes no later one with it (:func:`try_in_order`).
    """

    release: str
    turns: tuple[Turn, ...]
    left: tuple[Left, ...]


def agenda(target: Path, now: datetime, most: int = 0) -> Agenda:
    """What there is to release of a spec with a schedule; reads its ledger, and writes nothing.

    Args:
        target: The spec.
        now: With a time zone.
        most: At most so many turns; 0: all.

    Raises:
        SpecError: If the schedule is wrong, or there is none.
        PlanError: If nobody can say which period is the first.
        LedgerError: If the ledger cannot be read.
    """
    scheduled = read_scheduled(target)
    ledger = Project.find(target.parent).open_ledger()
    # In this order: a release that ends in between is open and not held, and its turn then finds it published.
    every = [each for each in ledger.reservations() if each.release == scheduled.name]
    held = at_work(ledger, scheduled.name)
    return turns(scheduled, every, held, now, most, lambda base: revisions_of(ledger, base))


def turns(
    scheduled: Scheduled,
    reservations: Sequence[Reservation],
    held: Mapping[str, Holder],
    now: datetime,
    most: int = 0,
    planned: Callable[[Reservation], int] = lambda base: 0,
) -> Agenda:
    """The same, as a function of what the ledger has (see ``schedule.due``) and of the locks that live processes hold.

    First what was begun and left, then periods that are due, then revisions; each the earliest first.

    Raises:
        PlanError: If nobody can say which period is the first.
    """
    schedule = scheduled.schedule
    first = scheduled.first or first_period(schedule.period, reservations)
    if first is None:
        raise PlanError(
            f"nothing of {scheduled.name} is released yet, and the spec does not say which {schedule.period} is first",
            hint="write `period:` below `release:`, the first one that is released",
            code="DPR-P312",
        )
    slots = coverage(schedule, first, reservations, now)
    late = late_revisions(schedule, reservations, planned, now)
    begun = {each.period: each.revision for each in reservations if each.state == "open"}
    ours = [slot for slot in slots if slot.period not in held and _is_ours(scheduled, slot)]
    waiting = [Turn(slot.period, begun[slot.period], resumes=True) for slot in ours if slot.state == "open"]
    waiting += [Turn(slot.period) for slot in ours if slot.state in ("due", "late")]
    waiting += [Turn(each.period, each.number) for each in late if each.period not in held and not each.lost]
    most = most or len(waiting)
    left = [each for slot in slots if (each := _left(scheduled, slot, begun.get(slot.period, 0), held))]
    left += [each for revision in late if (each := _left_revision(revision, held))]
    left += [Left(turn.period, turn.revision, "most", "waits for another run") for turn in waiting[most:]]
    return Agenda(scheduled.name, tuple(waiting[:most]), tuple(left))


def stays_charged(target: Path, release: str, turn: Turn) -> bool:
    """Whether a turn that has failed is open in the ledger: what it cost was not given back.

    A ledger that cannot be asked is taken to say so: nothing more is charged then.
    """
    try:
        reservation = Project.find(target.parent).open_ledger().find(release, turn.period)
    except DpReleaseError:
        return True
    return reservation is not None and reservation.state == "open"


def try_in_order(
    turns: Iterable[Turn], attempt: Callable[[Turn], bool], charged: Callable[[Turn], bool], most: int = 0
) -> tuple[Turn | None, tuple[Turn, ...]]:
    """Try turns one after the other; once one has failed and stays charged, only those that are open already.

    Args:
        turns: In their order.
        attempt: Runs one to its end; False: it failed.
        charged: Whether one that has failed stays charged.
        most: At most so many are begun or finished; one that fails and is charged nothing does not count, for it is
            the first one of every run. 0: all.

    Returns:
        The first one that failed and stays charged (None: there is none), and those that were not begun for it.
    """
    stopped: Turn | None = None
    waiting: list[Turn] = []
    counted = 0
    for turn in turns:
        if most and counted == most:
            break
        if stopped is not None and not turn.resumes:
            waiting.append(turn)
        elif attempt(turn):
            counted += 1
        elif charged(turn):
            counted += 1
            stopped = stopped or turn
    return stopped, tuple(waiting)


def not_begun(turn: Turn, after: Turn) -> Left:
    """What becomes of a new period once another one has failed and stays charged."""
    says = f"not begun: {after} failed and stays charged; finish it, or end it with `--give-up`"
    return Left(turn.period, turn.revision, "stopped", says, alarm=True)


def _is_ours(scheduled: Scheduled, slot: PeriodStatus) -> bool:
    """Whether the spec, as it is now, could be run for the period."""
    last = scheduled.schedule.last
    return is_a(scheduled.schedule.period, slot.period) and (last is None or slot.period <= last)


def _left(scheduled: Scheduled, slot: PeriodStatus, revision: int, held: Mapping[str, Holder]) -> Left | None:
    period = slot.period
    if slot.state in ("open", "due", "late"):
        if period in held:
            return Left(period, revision, "held", in_words(held[period]))
        if not _is_ours(scheduled, slot):
            says = "it was begun with another schedule: put that back, and finish it or end it with `--give-up`"
            return Left(period, revision, "outside", says, alarm=True)
    if slot.state == "lost" and slot.gone is not None:
        return Left(period, 0, "lost", _gone(slot.gone), alarm=True)
    if slot.state == "skipped":
        return Left(period, 0, "skipped", slot.why)
    if slot.state == "given_up":
        return Left(period, 0, "given_up", "it was ended by hand, or lost with its ledger")
    return None


def _left_revision(late: Revision, held: Mapping[str, Holder]) -> Left | None:
    if late.lost and late.gone is not None:
        return Left(late.period, late.number, "lost", _gone(late.gone))
    if late.period in held:
        return Left(late.period, late.number, "held", in_words(held[late.period]))
    return None


def _gone(moment: datetime) -> str:
    return f"its data may be gone since {moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
