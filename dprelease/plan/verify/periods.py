"""What a plan reads of time, derived again: rows of its own period alone, and of units that are of one stretch.

By ISO text, apart from the calendar of ``spec.period``. The calendar has no day before 0001-01-01, so that a period may
begin with it; and none after 9999-12-31, so that nothing can end with that one: the first day after it could not be
written.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from dprelease.catalog.table import Table, TimeFilter
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.account import Account, Parallel

__all__ = ["flaws_of_time", "misread", "mistimed", "untied"]

_ROW = "row"


def flaws_of_time(plan: ReleasePlan) -> Iterator[str]:
    """Why what is charged to the stretches of a period may be read from another, or be about units of several."""
    yield from misread(plan)
    yield from untied(plan)
    yield from _unparted(plan)


def misread(plan: ReleasePlan) -> Iterator[str]:
    """Why what is charged to the windows of a period may be about rows of other ones; nothing: it is not."""
    yield from mistimed(plan)
    windowed = {account.name for account in plan.accounts if account.window is not None}
    for table in plan.catalog.tables.values():
        if table.time is None:
            if table.account in windowed:
                yield f"{table.name} is read whole, of all windows"
            continue
        start, end = table.time.start, table.time.end
        if start >= end:
            yield f"{table.name} is filtered to no day at all"
            continue
        before = set() if start == date.min else _names(start - timedelta(days=1))
        if plan.release.period not in _names(start) & _names(end - timedelta(days=1)) - before - _names(end):
            yield f"{table.name} is filtered by another period than the release's"


def mistimed(plan: ReleasePlan) -> Iterator[str]:
    """Tables that are not read by the one time of an account with windows; nothing: all are.

    By two columns one row is paid for in one window and read in two. Plans from before the policy named the time have
    nothing to be held against: their ledger knows by which columns they were read (``ledger.tables.windowed``).
    """
    named = {each.name: each.window.time for each in plan.accounts if each.window is not None and each.window.time}
    for account, time in named.items():
        for table in _read(plan, account):
            if table.time is None or (table.time.column, table.time.type) != time:
                yield f"{table.name} is not read by the time of account {account}, which has windows"


def untied(plan: ReleasePlan) -> Iterator[str]:
    """Why a parallel account of the plan may be charged for less than its units lose; nothing: it is not.

    Every table that is read under such an account, by private joins too, is filtered by the account's own time; the
    unit of account and plan is of one stretch by name, or one row; and where a unit id ties rows together, those that
    are read lie in one stretch, so that what the plan bounds is one unit of the account.
    """
    for account in plan.accounts:
        if account.parallel is not None:
            yield from _untied(plan, account, account.parallel)


def _unparted(plan: ReleasePlan) -> Iterator[str]:
    """Why what the plan bounds may be more than one unit, if that is one within a stretch of time; nothing: it is not.

    Rows of one id are bounded together. Where they lie in two months, a person-month that leaves may let rows of the
    other month in, which a limit had kept out: it moves up to twice what the limit says.
    """
    per = plan.unit.per
    if per is None or per not in _named(date.min):
        return
    for table in plan.catalog.tables.values():
        if table.unit_id is not None and (table.time is None or not _is_inside(table.time, per)):
            yield f"{table.name} takes the rows of one {table.unit_id} for one {plan.unit}, beyond one {per}"


def _untied(plan: ReleasePlan, account: Account, parallel: Parallel) -> Iterator[str]:
    if account.composition == "pld" or account.window is not None:
        yield f"account {account.name} is parallel, and a series or windowed"
    for unit in (account.unit, *account.nests, str(plan.unit)):
        if unit != _ROW and (not unit.endswith(f"-{parallel.per}") or unit == f"-{parallel.per}"):
            yield f"a {unit} is not of one {parallel.per}, and account {account.name} is parallel"
    for table in _read(plan, account.name):
        time = table.time
        if table.account != account.name:
            yield f"{table.name} is read under account {account.name}, and another one pays for it"
        if time is None or (time.column, time.type) != (parallel.column, parallel.type):
            yield f"{table.name} is not read by the time of account {account.name}, which is parallel"
        elif table.unit_id is not None and (str(plan.unit) == _ROW or not _is_inside(time, parallel.per)):
            yield f"{table.name} takes the rows of one {table.unit_id} for one unit, beyond one {parallel.per}"


def _read(plan: ReleasePlan, account: str) -> list[Table]:
    """The tables of an account, and all that are joined to them."""
    tables = plan.catalog.tables
    mine = {name for name, table in tables.items() if table.account == account}
    joined = {join.table for name in mine for join in tables[name].private_joins}
    return [tables[name] for name in sorted(mine | joined)]


def _is_inside(time: TimeFilter, per: str) -> bool:
    """Whether all of the days lie in one stretch: its first and last day have one name of that form."""
    first, last = (_named(day)[per] for day in (time.start, time.end - timedelta(days=1)))
    return first == last


def _named(day: date) -> dict[str, str]:
    """The period of each kind that a day lies in, by name."""
    year, week, _ = day.isocalendar()
    return {
        "year": f"{day.year:04d}",
        "quarter": f"{day.year:04d}-Q{(day.month + 2) // 3}",
        "month": f"{day.year:04d}-{day.month:02d}",
        "week": f"{year:04d}-W{week:02d}",
        "day": day.isoformat(),
    }


def _names(day: date) -> set[str]:
    return set(_named(day).values())
