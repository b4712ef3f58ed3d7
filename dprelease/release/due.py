"""Which periods of a schedule are released, and which are not: told from the ledger, never from a scheduler.

A scheduler that was stopped, or never set up, knows nothing of what it missed. The ledger has every release that was
begun, and the calendar has every period that there was; what is missing is the difference.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dprelease.errors import Corrupt, LedgerError, PlanError, Problem, SpecError, Where
from dprelease.ledger import Charge, Holder, Ledger, Reservation
from dprelease.plan.document import Account, ReleasePlan
from dprelease.release.project import Project, read_text
from dprelease.spec.period import Per, is_a, periods, span
from dprelease.spec.schedule import Scheduled, ScheduleSpec, read_schedule

__all__ = ["Slot", "State", "coverage", "due_facts", "find_scheduled", "first_period", "read_scheduled"]

State = Literal["published", "open", "given_up", "waiting", "due", "late", "lost"]


@dataclass(frozen=True)
class Slot:
    """One period of a schedule.

    Attributes:
        period: Its text, such as ``2024-03``.
        state: ``published``; ``open``: begun and not finished; ``given_up``: ended by hand, or lost with the ledger;
            ``waiting``: not over, or its data are not complete; ``due``; ``late``: due, and a further period has become
            due since; ``lost``: never released, and its data may be gone.
        due: When it became due, or will, in UTC.
        gone: From when on its data may be gone, in UTC; None: they are kept.
        passed: Whether a further period has become due since.
    """

    period: str
    state: State
    due: datetime
    gone: datetime | None
    passed: bool


def first_period(kind: Per, reservations: Iterable[Reservation]) -> str | None:
    """The earliest period of a kind that was ever begun; None: there is none."""
    begun = {each.period for each in reservations if is_a(kind, each.period)}
    return min(begun, key=lambda period: span(period) or (), default=None)


def coverage(
    schedule: ScheduleSpec, first: str, reservations: Iterable[Reservation], now: datetime
) -> tuple[Slot, ...]:
    """Every period from the first one to the present one, each in one state.

    A period of a later day that was released by hand is none of them. What the ledger says goes before what the clock
    says: a period that was released early is published.

    Args:
        schedule: Of the release.
        first: The first period.
        reservations: All of this release that were not given back, in the order of the ledger.
        now: With a time zone.

    Raises:
        PlanError: If the first period is none of the schedule's kind.
    """
    until = now.astimezone(UTC).date()  # what is complete is over in UTC
    ends = {period: whole[1] for period in periods(first, schedule.period, until) if (whole := span(period))}
    known: defaultdict[str, list[Reservation]] = defaultdict(list)
    for each in reservations:
        known[each.period].append(each)
    due = [schedule.complete(end) for end in ends.values()]
    found = []
    for at, (period, end) in enumerate(ends.items()):
        gone, passed = schedule.gone(end), at + 1 < len(due) and due[at + 1] <= now
        state = _begun(known[period]) if period in known else _never_begun(due[at], gone, now, passed=passed)
        found.append(Slot(period, state, due[at], gone, passed))
    return tuple(found)


def _begun(taken: Sequence[Reservation]) -> State:
    """Of a period that was begun, perhaps several times: each time replaces the one before it."""
    if taken[-1].state == "open":
        return "open"
    return "published" if any(each.state == "closed" for each in taken) else "given_up"


def _never_begun(due: datetime, gone: datetime | None, now: datetime, *, passed: bool) -> State:
    if now < due:
        return "waiting"
    if gone is not None and gone <= now:
        return "lost"
    return "late" if passed else "due"


def read_scheduled(path: Path) -> Scheduled:
    """The schedule of a spec that was named.

    Raises:
        SpecError: If it cannot be read, is wrong in this part, or has none.
    """
    found = read_schedule(read_text(path, str(path)), str(path))
    if found is None:
        hint = 'write `schedule: {cron: "0 6 5 * *", timezone: Europe/Paris, period: month, not_before: 4d}`'
        raise SpecError([Problem("DPR-S635", "the spec has no `schedule`", hint, Where(str(path)))])
    return found


def find_scheduled(project: Project) -> tuple[dict[Path, Scheduled], tuple[Problem, ...]]:
    """Every spec in the project's folder, and below, that has a schedule; and what is wrong in the others.

    Folders of other projects, of published releases and of Prefect, and hidden ones, are not looked into.
    """
    found: dict[Path, Scheduled] = {}
    problems: list[Problem] = []
    apart = {project.releases, project.prefect_home}
    for at, folders, files in os.walk(project.folder):
        here = Path(at)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and here / name not in apart
            and not (here / name / "dprelease.yaml").is_file()
            and not (here / name / "manifest.json").is_file()  # a bundle
        )
        for path in sorted(here / name for name in files if name.endswith((".yaml", ".yml"))):
            try:
                scheduled = read_schedule(read_text(path, str(path)), str(path))
            except SpecError as error:
                problems += error.problems
                continue
            if scheduled is not None:
                found[path] = scheduled
    return found, tuple(problems)


def due_facts(scheduled: Scheduled, ledger: Ledger, policy: Mapping[str, Account], now: datetime) -> dict[str, Any]:
    """What stands of one schedule, as JSON has it; times are ISO texts in UTC.

    ``alarm`` says whether somebody has to do something: a period is due, late or lost, or was begun and is left to
    itself, or nobody can say which one is the first. ``blocked`` says what is in the way of a period: who holds its
    lock, or which accounts cannot pay for another release like the last one.

    Args:
        scheduled: The release.
        ledger: Of its project.
        policy: The accounts of the policy, by name.
        now: With a time zone.
    """
    every = [each for each in ledger.reservations() if each.release == scheduled.name]
    kind = scheduled.schedule.period
    first = scheduled.first or first_period(kind, every)
    slots = coverage(scheduled.schedule, first, every, now) if first else ()
    held = {each.period: each for each in ledger.holders() if each.release == scheduled.name and each.alive}
    next_up = next((slot for slot in slots if slot.state in ("due", "late")), None)
    short = _cannot_pay(ledger, policy, every, next_up.period) if next_up else ""
    shown = [_slot_facts(slot, held.get(slot.period), short, now) for slot in slots]
    return {
        "release": scheduled.name,
        "period": kind,
        "timezone": scheduled.schedule.timezone,
        "first": first,
        "count": dict(Counter(slot.state for slot in slots)),
        "periods": shown,
        "alarm": first is None or any(each["alarm"] for each in shown),
    }


def _slot_facts(slot: Slot, holder: Holder | None, short: str, now: datetime) -> dict[str, Any]:
    blocked = ""
    if slot.state in ("due", "late"):
        blocked = short
    if slot.state == "open":
        blocked = "it was begun, and nobody goes on with it"
    if holder is not None and slot.state in ("open", "due", "late"):
        blocked = f"process {holder.process} on {holder.host} since {holder.since}, doing: {holder.doing}"
    waits = slot.state in ("open", "due", "late")
    # Whoever holds a lock is at work on it; but not for ever.
    left = waits and (holder is None or slot.passed or (slot.gone is not None and slot.gone <= now))
    return {
        "period": slot.period,
        "state": slot.state,
        "due": _text(slot.due),
        "gone": slot.gone and _text(slot.gone),
        "blocked": blocked,
        "alarm": slot.state == "lost" or left,
    }


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cannot_pay(ledger: Ledger, policy: Mapping[str, Account], reservations: Sequence[Reservation], period: str) -> str:
    """Which accounts cannot pay for another release like the last one, in that period; empty: all can, or none was.

    An estimate for a reader, by the very check of a reservation: what is asked is known once a plan is made.
    """
    last = next((each for each in reversed(reservations) if each.state != "lost"), None)
    found = ledger.find(last.release, last.period) if last else None
    if found is None or not found.plan:
        return ""
    plan = ReleasePlan.from_canonical(found.plan)
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
    told = [each.name + (f" ({each.window})" if each.window else "") for each in short]
    return f"account {', '.join(told)} cannot pay for another release like the last one" if told else ""
