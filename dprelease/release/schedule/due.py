"""Which periods of a schedule are released, and which are not: told from the ledger, never from a scheduler.

A scheduler that was stopped, or never set up, knows nothing of what it missed. The ledger has every release that was
begun, and the calendar has every period that there was; what is missing is the difference.

In all functions ``reservations`` are those of one release that were not given back, in the order of the ledger, and
``now`` has a time zone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from dprelease.errors import Corrupt, LedgerError, PlanError, Problem, SpecError, Where
from dprelease.ledger import Charge, Holder, Ledger, Reservation
from dprelease.plan.document import Account, ReleasePlan
from dprelease.release.data.public_files import spec_files
from dprelease.release.project import Project, read_text
from dprelease.release.revisions import revisions_of, vintages
from dprelease.spec.fields.schedule import Scheduled, ScheduleSpec, read_schedule
from dprelease.spec.period import Per, is_a, periods, span

__all__ = [
    "PeriodStatus",
    "Revision",
    "State",
    "at_work",
    "coverage",
    "due_facts",
    "find_scheduled",
    "first_period",
    "in_words",
    "late_revisions",
    "read_scheduled",
    "same_name",
]

State = Literal["published", "open", "given_up", "waiting", "due", "late", "lost", "skipped"]


@dataclass(frozen=True)
class PeriodStatus:
    """One period of a schedule.

    Attributes:
        period: Its text, such as ``2024-03``.
        state: ``published``; ``open``: begun and not finished; ``given_up``: ended by hand, or lost with the ledger;
            ``waiting``: not over, or its data are not complete; ``due``; ``late``: due, and a further period has become
            due since; ``lost``: never released, and its data may be gone; ``skipped``: not begun, and not to be, by the
            author's word or by the rule of ``catch_up``.
        due: When it became due, or will, in UTC.
        gone: From when on its data may be gone, in UTC; None: they are kept.
        passed: Whether a further period has become due since.
        last_chance: It is not released, and its data may be gone before the next tick of the schedule.
        why: It is skipped.
    """

    period: str
    state: State
    due: datetime
    gone: datetime | None
    passed: bool
    last_chance: bool = False
    why: str = ""


def first_period(kind: Per, reservations: Iterable[Reservation]) -> str | None:
    """The earliest period of a kind that was ever begun; None: there is none."""
    begun = {each.period for each in reservations if is_a(kind, each.period)}
    return min(begun, key=lambda period: span(period) or (), default=None)


def coverage(
    schedule: ScheduleSpec, first: str, reservations: Iterable[Reservation], now: datetime
) -> tuple[PeriodStatus, ...]:
    """Every period from the first one to the present or the last one, each in one state; and whatever is open.

    A period of a later day that was released by hand is none of them. What the ledger says goes before what the clock
    or the author says: a period that was released early is published, and one that was begun is not skipped. What was
    begun and not finished is listed although a spec that was changed has no such period any more.

    Raises:
        PlanError: If the first period is none of the schedule's kind.
    """
    until = now.astimezone(UTC).date()  # what is complete is over in UTC
    known: defaultdict[str, list[Reservation]] = defaultdict(list)
    for each in reservations:
        known[each.period].append(each)
    regular = [
        each for each in periods(first, schedule.period, until) if schedule.last is None or each <= schedule.last
    ]
    left = [period for period, taken in known.items() if taken[-1].state == "open"]
    ends = {period: whole[1] for period in (*regular, *left) if (whole := span(period))}
    due = {period: schedule.complete(end) for period, end in ends.items()}
    complete = [period for period in regular if due[period] <= now and period not in schedule.skip]
    latest = ends[complete[-1]] if complete else date.min
    return tuple(
        _slot(schedule, period, ends[period], known.get(period, ()), now, passed=ends[period] < latest)
        for period in sorted(ends, key=lambda period: (ends[period], period))
    )


def _slot(
    schedule: ScheduleSpec, period: str, end: date, taken: Sequence[Reservation], now: datetime, *, passed: bool
) -> PeriodStatus:
    due, gone = schedule.complete(end), schedule.gone(end)
    why = "" if taken else _passed_over(schedule, period, end, now, passed=passed)
    state: State = "skipped" if why else _begun(taken) if taken else _never_begun(due, gone, now, passed=passed)
    waits = state in ("open", "due", "late") and gone is not None and now < gone
    last_chance = waits and gone is not None and gone <= schedule.next_tick(now)
    return PeriodStatus(period, state, due, gone, passed, last_chance, why)


def _passed_over(schedule: ScheduleSpec, period: str, end: date, now: datetime, *, passed: bool) -> str:
    """Why a period that was not begun is not to be; empty: it is."""
    if period in schedule.skip:
        return " ".join(schedule.skip[period].split())
    if now < schedule.complete(end):
        return ""
    if schedule.catch_up == "latest" and passed:
        return "a later one is due or released (catch_up: latest)"
    if schedule.catch_up == "none" and schedule.passed_over(end) <= now:
        return "its turn has passed (catch_up: none)"
    return ""


def _begun(taken: Sequence[Reservation]) -> State:
    """The state of a period that was begun, perhaps several times: each time replaces the one before it."""
    if taken[-1].state == "open":
        return "open"
    # One that a recovery ended was published all the same where it has found the bundle.
    return "published" if any(each.state == "closed" or each.manifest for each in taken) else "given_up"


def _never_begun(due: datetime, gone: datetime | None, now: datetime, *, passed: bool) -> State:
    if now < due:
        return "waiting"
    if gone is not None and gone <= now:
        return "lost"
    return "late" if passed else "due"


@dataclass(frozen=True)
class Revision:
    """A planned revision that may be released now; of several that one period has missed it is the last.

    Attributes:
        period: The period of a release that was published.
        number: Which one, from 1.
        due: When it became due, in UTC.
        gone: From when on the data may be gone, in UTC; None: they are kept.
        lost: Whether that is over.
    """

    period: str
    number: int
    due: datetime
    gone: datetime | None
    lost: bool


def late_revisions(
    schedule: ScheduleSpec,
    reservations: Iterable[Reservation],
    planned: Callable[[Reservation], int],
    now: datetime,
) -> tuple[Revision, ...]:
    """The planned revisions that can be begun; the earliest period first.

    How many there are was charged with the first publication, and is a fact of its plan, which ``planned`` reads; when
    they are due is what the spec says now. None is due of a period that the author skips.
    """
    known: defaultdict[str, list[Reservation]] = defaultdict(list)
    for each in reservations:
        if is_a(schedule.period, each.period) and each.period not in schedule.skip:
            known[each.period].append(each)
    late: list[Revision] = []
    for period, taken in sorted(known.items()) if schedule.revisions else ():
        whole, state = span(period), vintages(taken, planned)
        if whole is None or state is None:
            continue
        times = {
            number: schedule.revised(whole[1], number) for number in state.next() if number <= len(schedule.revisions)
        }
        ripe = [number for number, due in times.items() if due <= now]
        if ripe:
            gone = schedule.gone(whole[1])
            late.append(Revision(period, ripe[-1], times[ripe[-1]], gone, gone is not None and gone <= now))
    return tuple(late)


def read_scheduled(path: Path) -> Scheduled:
    """The schedule of a spec that was named.

    Raises:
        SpecError: If it cannot be read, is wrong in this part, or has none.
    """
    scheduled = read_schedule(read_text(path, str(path)), str(path))
    if scheduled is None:
        hint = 'write `schedule: {cron: "0 6 5 * *", timezone: Europe/Paris, period: month, not_before: 4d}`'
        raise SpecError([Problem("DPR-S635", "the spec has no `schedule`", hint, Where(str(path)))])
    return scheduled


def find_scheduled(project: Project) -> tuple[dict[Path, Scheduled], tuple[Problem, ...]]:
    """Every spec in the project's folder, and below, that has a schedule; and what is wrong in the others.

    Folders of other projects, of published releases and of Prefect, and hidden ones, are not looked into. Specs that
    release under one name are left out, and told as a problem: the ledger could not tell their periods apart.
    """
    scheduled_files: dict[Path, Scheduled] = {}
    problems: list[Problem] = []
    for path in spec_files(project.folder, (project.releases, project.prefect_home)):
        try:
            scheduled = read_schedule(read_text(path, str(path)), str(path))
        except SpecError as error:
            problems += error.problems
            continue
        if scheduled is not None:
            scheduled_files[path] = scheduled
    twice = same_name(scheduled_files)
    alone = {path: each for path, each in scheduled_files.items() if each.name not in twice}
    return alone, (*problems, *twice.values())


def same_name(scheduled: Mapping[Path, Scheduled]) -> dict[str, Problem]:
    """By name, what is wrong with several specs of one project that all release under it."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for path, each in scheduled.items():
        files[each.name].append(str(path))
    return {
        name: Problem(
            "DPR-S639",
            f"the release name {name} is also that of {', '.join(others)}",
            "give each release its own `name`, and move a copy out of the project: a period is released once by name",
            Where(last),
        )
        for name, (*others, last) in files.items()
        if others
    }


def due_facts(scheduled: Scheduled, ledger: Ledger, policy: Mapping[str, Account], now: datetime) -> dict[str, Any]:
    """What stands of one schedule, as JSON has it; times are ISO texts in UTC.

    ``alarm`` says whether somebody has to do something: a period is due, late or lost, or was begun and is left to
    itself, or nobody can say which one is the first. ``blocked`` says what is in the way of a period: who holds its
    lock, or which accounts of the policy cannot pay for another release like the last one.
    """
    every = [each for each in ledger.reservations() if each.release == scheduled.name]
    kind = scheduled.schedule.period
    first = scheduled.first or first_period(kind, every)
    slots = coverage(scheduled.schedule, first, every, now) if first else ()
    held = at_work(ledger, scheduled.name)
    next_up = next((slot for slot in slots if slot.state in ("due", "late")), None)
    short = _cannot_pay(ledger, policy, every, next_up.period) if next_up else ""
    shown = [_slot_facts(slot, held.get(slot.period), short, now) for slot in slots]
    late = late_revisions(scheduled.schedule, every, lambda base: revisions_of(ledger, base), now)
    again = [_revision_facts(each, held.get(each.period)) for each in late]
    return {
        "release": scheduled.name,
        "period": kind,
        "timezone": scheduled.schedule.timezone,
        "first": first,
        "last": scheduled.schedule.last,
        "count": dict(Counter(slot.state for slot in slots)),
        "periods": shown,
        "revisions": again,
        "alarm": first is None or any(each["alarm"] for each in (*shown, *again)),
    }


def _revision_facts(late: Revision, holder: Holder | None) -> dict[str, Any]:
    return {
        "period": late.period,
        "revision": late.number,
        "state": "lost" if late.lost else "due",
        "due": _text(late.due),
        "gone": late.gone and _text(late.gone),
        "blocked": in_words(holder) if holder else "",
        "alarm": holder is None and not late.lost,
    }


def at_work(ledger: Ledger, release: str) -> dict[str, Holder]:
    """Who holds the lock of each period of a release, as far as it is not known to be gone."""
    return {each.period: each for each in ledger.holders() if each.release == release and each.alive}


def in_words(holder: Holder) -> str:
    """Who works on a period."""
    return f"process {holder.process} on {holder.host} since {holder.since}, doing: {holder.doing}"


def _slot_facts(slot: PeriodStatus, holder: Holder | None, short: str, now: datetime) -> dict[str, Any]:
    blocked = ""
    if slot.state in ("due", "late"):
        blocked = short
    if slot.state == "open":
        blocked = "it was begun, and nobody goes on with it"
    if holder is not None and slot.state in ("open", "due", "late"):
        blocked = in_words(holder)
    waits = slot.state in ("open", "due", "late")
    # Whoever holds a lock is at work on it; but not for ever.
    left = waits and (holder is None or slot.passed or (slot.gone is not None and slot.gone <= now))
    return {
        "period": slot.period,
        "state": slot.state,
        "due": _text(slot.due),
        "gone": slot.gone and _text(slot.gone),
        "last_chance": slot.last_chance,
        "blocked": blocked,
        "why": slot.why,
        "alarm": slot.state == "lost" or left,
    }


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cannot_pay(ledger: Ledger, policy: Mapping[str, Account], reservations: Sequence[Reservation], period: str) -> str:
    """Which accounts cannot pay for another release like the last one, in that period; empty: all can, or none was.

    An estimate for a reader, by the very check of a reservation: what is asked is known once a plan is made.
    """
    last = next((each for each in reversed(reservations) if each.state != "lost"), None)
    reservation = ledger.find(last.release, last.period) if last else None
    if reservation is None or not reservation.plan:
        return ""
    plan = ReleasePlan.from_canonical(reservation.plan).at_revision(0)  # a revision was paid for before it
    missing = [account.name for account in plan.accounts if account.name not in policy]
    if missing:
        return f"the policy has no account {', '.join(missing)}"
    accounts = [policy[account.name] for account in plan.accounts]
    try:
        charges = [Charge(account=each, events=plan.cost_of(each), cap=each.lifetime) for each in accounts]
        short = ledger.quote(charges, period)[1]
    except Corrupt:
        raise
    except (LedgerError, PlanError) as error:
        return error.summary
    names = [each.name + (f" ({each.window})" if each.window else "") for each in short]
    return f"account {', '.join(names)} cannot pay for another release like the last one" if names else ""
