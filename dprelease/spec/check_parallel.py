"""``parallel: month`` of an account: what its owner can vouch for, and what a spec must be to use it.

Each month is capped by itself only where no unit has rows in two months, and no release about one month reads a row of
another one (docs/proofs/parallel-periods.md). So the unit of the account is one entity within one month, or one
row; the policy names the one column that says when a row was; and a spec reads rows of its period by that column alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dprelease.spec.accounts import AccountSpec
from dprelease.spec.document import ReleaseSpec, TableSpec
from dprelease.spec.findings import Findings
from dprelease.spec.names import shown
from dprelease.spec.nodes import Path
from dprelease.spec.period import CALENDAR, Per, beyond, span, windows

__all__ = ["ROW", "Untied", "check_parallel", "untied"]

ROW = "row"  # the unit that is one row of one table, which has one time


class Untied(NamedTuple):
    """Why a spec cannot be charged to a parallel account: the place in the spec, what is wrong, and what to write."""

    at: Path
    says: str
    hint: str


def check_parallel(account: AccountSpec, at: Path, findings: Findings) -> None:
    """What the policy itself can say wrong of ``parallel``.

    Args:
        account: As written.
        at: Its path.
        findings: Where problems go.
    """
    per, here = account.parallel, (*at, "parallel")
    if per is None:
        if account.time is not None and account.window is None:
            hint = "leave it out, or write `parallel: month`, or a `window`"
            findings.add(
                "DPR-S598", (*at, "time"), "is for accounts with `parallel` or `window`", hint, here, (*at, "window")
            )
        return
    if account.composition == "pld":
        says = "is for accounts that add up release by release, and a pld account is one series of draws"
        findings.add("DPR-S598", here, says, "leave it out, or write `composition: zcdp`", (*at, "composition"))
    if account.window is not None:
        says = f"caps each {per} by the lifetime already, and the account has a `window` too"
        findings.add("DPR-S598", here, says, f"leave out one of the two: the lifetime is per {per}", (*at, "window"))
    if account.time is None:
        says = "needs the column that says of every row when it was, one for all tables and specs"
        findings.add("DPR-S598", here, says, "write `time: {column: seen, type: date}` beside it", (*at, "time"))
    if not _is_parted(account.unit, per):
        says = f"is {shown(account.unit)!r}, which may have rows in many {per}s: such a unit pays every time"
        hint = (
            f"write `unit: {account.unit}-{per}` for what one has in one {per}, or `unit: row`; or leave out `parallel`"
        )
        findings.add("DPR-S598", (*at, "unit"), says, hint, here)
    for unit in account.nests:
        if unit.strip() and not _is_parted(unit, per):
            says = f"is {shown(unit)!r}, which may have rows in many {per}s"
            hint = f"write a unit of one {per}: `{unit}-{per}`"
            findings.add("DPR-S598", (*at, "nests", unit), says, hint, here, key=True)


def _is_parted(unit: str, per: str) -> bool:
    return unit == ROW or (unit.endswith(f"-{per}") and unit != f"-{per}")


def untied(spec: ReleaseSpec, name: str, account: AccountSpec) -> Iterator[Untied]:
    """Everything in a spec because of which its releases could be about more than their own stretches.

    Args:
        spec: As written.
        name: Of the account.
        account: As its owner wrote it; checked.
    """
    per, time = account.parallel, account.time
    if per is None or time is None:
        return
    period, mine = spec.release.period, {each: table for each, table in spec.tables.items() if table.account == name}
    whose, unit = f"account {name!r}, which is parallel by {per},", spec.privacy.unit
    if not _is_parted(str(unit), per):
        says = f"a {unit.entity} may have rows in every {per} and then pays every time: {whose} has units of one {per}"
        ids = any(each.unit_id is not None for each in mine.values())
        hint = f"write `unit: {{entity: {unit.entity}, per: {per}}}`" + ("" if ids else ": every row is one of these")
        yield Untied(("privacy", "unit"), says, f"{hint}; or release from an account without `parallel`")
    for table, each in mine.items():
        if each.time != time:
            told = f"`time: {{column: {time.column}, type: {time.type}}}`"
            says = f"table {table!r} has {'no' if each.time is None else 'another'} `time`, and {whose} needs {told}"
            at = ("tables", table, *(() if each.time is None else ("time",)))
            yield Untied(at, says, f"write {told}: the rows of the period are read by it")
    if span(period) is None:
        says = f"period {period!r} is none of the calendar, and {whose} needs one"
        end = beyond(period)
        yield Untied(("release", "period"), f"{says}; {end}" if end else says, f"write {CALENDAR}")
        return
    yield from _ids(spec, mine, whose, per)


def _ids(spec: ReleaseSpec, mine: Mapping[str, TableSpec], whose: str, per: Per) -> Iterator[Untied]:
    """A unit id ties rows together: those of one stretch alone may be one unit."""
    period, unit = spec.release.period, str(spec.privacy.unit)
    touched = windows(period, per)
    for table, each in mine.items():
        if each.unit_id is None:
            continue
        if unit == ROW:
            hint = f"leave out `unit_id`; or protect one {per} of whoever it names, in the policy as well: "
            says = f"table {table!r} has a `unit_id`, and the unit is one row"
            yield Untied(("tables", table, "unit_id"), says, f"{hint}`unit: {{entity: person, per: {per}}}`")
        elif len(touched) > 1:
            says = (
                f"period {period!r} touches {len(touched)} {per}s, table {table!r} takes all rows of one `unit_id` in "
                f"it for one unit, and {whose} has one for each {per}"
            )
            yield Untied(("release", "period"), says, f"release a {per}, or a period inside one")
