"""The rules of accounts: caps, orders, windows and nested units that fit together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from dprelease.privacy.accountants.conversion import epsilon_at
from dprelease.spec.accounts import AccountSpec, Lifetime, WindowSpec
from dprelease.spec.check_parallel import check_parallel
from dprelease.spec.findings import Findings
from dprelease.spec.names import NAME_RULE, QUERY_NAME, shown
from dprelease.spec.nodes import Path

__all__ = ["best_order", "check_accounts"]

_ORDERS = tuple(Fraction(digits) * Fraction(10) ** power for power in range(-1, 6) for digits in range(11, 110))


def best_order(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The Renyi order, to two digits, at which an account takes the most Gaussian noise before its cap; a hint.

    Gaussian noise of rho has the divergence ``order * rho``; the conversion of ``conversion.epsilon_at`` adds c(order),
    so that (epsilon - c) / order is the rho that the order leaves room for.

    Args:
        epsilon: Of the cap, above 0.
        delta: Of the cap without what is kept for selections, above 0.
    """

    def room(order: Fraction) -> float:
        excess = float(order - 1)
        added = math.log(excess / (1 + excess)) - (math.log(delta) + math.log1p(excess)) / excess
        return (float(epsilon) - added) / float(order)

    return max(_ORDERS, key=room)


def check_accounts(accounts: Mapping[str, AccountSpec], findings: Findings) -> None:
    """Caps, orders, windows and nested units that do not fit together.

    Args:
        accounts: By name.
        findings: Where problems go.
    """
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
