"""The rules of accounts: caps, orders, windows and nested units that fit together, and what ``parallel`` needs.

With ``parallel: month`` each month is capped by itself, which holds only where no unit has rows in two months, and no
release about one month reads a row of another one (docs/proofs/parallel-periods.md). So the unit of the account is one
entity within one month, or one row; the policy names the one column that says when a row was; and a spec reads rows of
its period by that column alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from dprelease.privacy.theorems.conversion import epsilon_at
from dprelease.spec.fields.accounts import AccountSpec, Lifetime, WindowSpec
from dprelease.spec.fields.document import ReleaseSpec, TableSpec
from dprelease.spec.period import CALENDAR, Per, beyond, span, windows
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import NAME_RULE, QUERY_NAME, shown
from dprelease.spec.text.nodes import Path

__all__ = ["ROW", "Untied", "best_order", "check_accounts", "check_parallel", "parallel_flaws"]

_ORDERS = tuple(Fraction(digits) * Fraction(10) ** power for power in range(-1, 6) for digits in range(11, 110))


def best_order(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The Renyi order, to two digits, at which an account takes the most Gaussian noise before its cap; a hint.

    Gaussian noise of rho has the divergence ``order * rho``; the conversion of ``conversion.epsilon_at`` adds c(order),
    so that (epsilon - c) / order is the rho that the order leaves room for.

    Args:
        epsilon: The epsilon of the cap, above 0.
        delta: The delta of the cap without what is kept for selections, above 0.
    """

    def room(order: Fraction) -> float:
        excess = float(order - 1)
        added = math.log(excess / (1 + excess)) - (math.log(delta) + math.log1p(excess)) / excess
        return (float(epsilon) - added) / float(order)

    return max(_ORDERS, key=room)


def check_accounts(accounts: Mapping[str, AccountSpec], findings: Findings) -> None:
    """Caps, orders, windows and nested units that do not fit together."""
    for name, account in accounts.items():
        at = ("accounts", name)
        if not QUERY_NAME.fullmatch(name):
            findings.add("DPR-S502", at, "is no name", f"{NAME_RULE}; - as well", key=True)
        _check_cap(account, account.lifetime, at, "lifetime", findings)
        _check_selecting(account, account.lifetime.delta, at, "the account's", findings)
        _check_order(account, at, findings)
        if account.window is not None:
            _check_window(account, account.window, at, findings)
        for unit in account.nests:
            if unit == account.unit or not unit.strip():
                says = f"is {shown(unit)!r}, the account's own unit" if unit.strip() else "has no name"
                hint = f"write a smaller unit, of which one {shown(account.unit)} holds a few: `nests: {{person: 5}}`"
                findings.add("DPR-S595", (*at, "nests", unit), says, hint, (*at, "unit"), key=True)
        check_parallel(account, at, findings)


def _check_cap(account: AccountSpec, cap: Lifetime | WindowSpec, at: Path, field: str, findings: Findings) -> None:
    if account.composition in ("zcdp", "rdp") and cap.delta == 0:
        says = f"has no delta, and {account.composition} needs one greater than 0"
        example = "{per: year, epsilon: 4, delta: 1e-8}" if field == "window" else "{epsilon: 4, delta: 1e-8}"
        hint = f"write `{field}: {example}`, or `composition: basic`"
        findings.add("DPR-S536", (*at, field), says, hint, at)


def _check_selecting(account: AccountSpec, delta: Fraction, at: Path, whose: str, findings: Findings) -> None:
    selecting, here = account.lifetime.selecting, (*at, "lifetime", "selecting")
    if not selecting:
        return
    if account.composition not in ("zcdp", "rdp"):
        hint = f"leave it out: with `composition: {account.composition}` no part of delta is set apart"
        findings.add("DPR-S537", here, "is for accounts with zcdp or rdp composition", hint)
    elif selecting >= delta > 0:
        findings.add("DPR-S537", here, f"leaves nothing of {whose} delta", "keep a part of delta, such as half", at)


def _check_order(account: AccountSpec, at: Path, findings: Findings) -> None:
    """An order where one is needed, at which the caps leave something to be spent."""
    here = (*at, "order")
    if account.composition != "rdp":
        if account.order is not None:
            hint = "leave it out, or write `composition: rdp`"
            findings.add("DPR-S593", here, "is for accounts with rdp composition", hint, (*at, "composition"))
        return
    left = account.lifetime.delta - account.lifetime.selecting
    if left <= 0:
        return  # told already
    best = _decimal(best_order(account.lifetime.epsilon, left))
    advice = f"`order: {best}` leaves the most room for Gaussian noise under its lifetime cap; it is fixed for ever"
    if account.order is None:
        says = "adds up at one Renyi order, and `order` does not say which"
        findings.add("DPR-S593", (*at, "composition"), says, f"write {advice}", here, at)
        return
    for field, cap in (("lifetime", account.lifetime), ("window", account.window)):
        rest = Fraction(0) if cap is None else cap.delta - account.lifetime.selecting
        if cap is None or rest <= 0:
            continue
        before = epsilon_at(0, float(account.order - 1), rest)
        if before >= cap.epsilon:
            says = f"leaves nothing of `{field}`: epsilon is {float(before):.3g} there before anything is spent"
            findings.add("DPR-S593", here, says, f"{advice}; or raise epsilon or delta of the cap", (*at, field))
            return


def _check_window(account: AccountSpec, window: WindowSpec, at: Path, findings: Findings) -> None:
    here = (*at, "window")
    if account.composition == "pld":
        says = "is for accounts that add up release by release, and a pld account is one series of draws"
        findings.add("DPR-S594", here, says, "leave it out, or write `composition: zcdp`", at)
        return
    if account.time is None:
        says = "needs the column that says of every row when it was, one for all tables and specs"
        hint = "write `time: {column: seen, type: date}` beside it: else a row is paid for in one window, read in two"
        findings.add("DPR-S230", here, says, hint, (*at, "time"))
    _check_cap(account, window, at, "window", findings)
    if account.composition in ("zcdp", "rdp"):
        _check_selecting(account, window.delta, at, "the window's", findings)
    if window.epsilon >= account.lifetime.epsilon and window.delta >= account.lifetime.delta:
        says = "is not below the account's lifetime cap, which ends it before"
        hint = "write a lower epsilon or delta, or leave it out"
        findings.add("DPR-S594", here, says, hint, (*at, "lifetime"))


def _decimal(order: Fraction) -> str:
    return str(order.numerator) if order.denominator == 1 else f"{float(order):g}"


ROW = "row"  # the unit that is one row of one table, which has one time


class Untied(NamedTuple):
    """Why a spec cannot be charged to a parallel account: the place in the spec, what is wrong, and what to write."""

    at: Path
    says: str
    hint: str


def check_parallel(account: AccountSpec, at: Path, findings: Findings) -> None:
    """What the policy itself can say wrong of ``parallel``."""
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


def parallel_flaws(spec: ReleaseSpec, name: str, account: AccountSpec) -> Iterator[Untied]:
    """Everything in a spec because of which its releases could be about more than their own stretches."""
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
            declared = f"`time: {{column: {time.column}, type: {time.type}}}`"
            says = (
                f"table {table!r} has {'no' if each.time is None else 'another'} `time`, and {whose} needs {declared}"
            )
            at = ("tables", table, *(() if each.time is None else ("time",)))
            yield Untied(at, says, f"write {declared}: the rows of the period are read by it")
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
