"""``dprelease plan --horizon N``: coming releases like this one, and the largest budget of which so many fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dprelease.cli.views import as_decimal, say, text_table
from dprelease.ledger import Charge, Ledger
from dprelease.ledger.model.admission import require_same
from dprelease.ledger.model.history import events_digest
from dprelease.ledger.tables.tally import Tally
from dprelease.plan.allocate.planner import allocate
from dprelease.plan.document import ReleasePlan
from dprelease.plan.forecast.horizon import Horizon, Line, Purse, Series, ahead, coming, in_advance
from dprelease.plan.forecast.largest_budget import largest_budget
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.budget import Loss, round_up
from dprelease.release.planning import Target, charges
from dprelease.release.records.status import APART, UNBOUNDED, charged_draws

__all__ = ["horizon_facts", "print_horizon"]


def horizon_facts(target: Target, plan: ReleasePlan, ledger: Ledger, releases: int) -> dict[str, Any]:
    """How so many coming releases like this one add up, and the budget of which so many fit.

    Periods of the release that the ledger has already are passed over. Losses are decimal text, rounded up.

    Raises:
        LedgerError: An account was opened with other terms than the policy now says.
        PlanError: The calendar ends before so many periods, or no plan can be made.
    """
    tally = ledger.tally()
    asked = charges(plan, target.loaded)
    purses = [_purse(tally, charge) for charge in asked]
    name = plan.release.name
    taken = {each.period for each in ledger.reservations() if each.release == name}
    seen = ahead(plan, purses, coming(plan.release.period, releases, taken), releases)
    return {
        "releases": releases,
        "periods": list(seen.periods),
        "fit": seen.fit,
        "accounts": [_account(tally, charge, seen) for charge in asked],
        "budget": _budget(target, plan, purses, seen),
    }


def _purse(tally: Tally, charge: Charge) -> Purse:
    account, stand = charge.account, tally.state.accounts.get(charge.account.name)
    if stand is None:
        return Purse(account, charge.cap)
    require_same(stand.account, account, "opened")
    series = None
    if account.composition == "pld" and stand.loss is not None:
        digest = events_digest(charge.events)
        allowed = sum(slot.times for slot in stand.series if slot.digest == digest)
        series = Series(stand.loss, max(0, allowed - stand.balance.series.get(digest, 0)))
    return Purse(account, charge.cap, stand.balance.spent, stand.balance.windows, series)


def _account(tally: Tally, charge: Charge, seen: Horizon) -> dict[str, Any]:
    account, delta = charge.account, charge.account.lifetime.delta
    lines = [line for line in seen.lines if line.capped.purse.account.name == account.name]
    # What a recovery added has no draws, so that nothing could be said of it under another accountant.
    lost = any(account.name in body.added for body in tally.recovered.values())
    total = {} if lost else in_advance(charged_draws(tally, account.name), charge.events, seen.releases, delta)
    return {
        "name": account.name,
        "composition": account.composition,
        "caps": [_line(line, seen.periods) for line in lines],
        "delta": round_up(delta),
        "hypothetical": {kind: _text(epsilon) for kind, epsilon in total.items()},
    }


def _line(line: Line, periods: Sequence[str]) -> dict[str, Any]:
    case, window = line.capped, line.capped.purse.account.window
    refused = line.refused
    return {
        "window": case.window,
        "per": window.per if window is not None and case.window else "",
        "parallel": case.purse.account.stretch if case.touched else "",
        "cap": str(case.cap.limit),
        "currency": "epsilon" if case.cap.rho is None else "rho",
        "delta": round_up(case.cap.delta),
        "before": _text(line.before),
        "after": [{"release": number, "total": _text(amount)} for number, amount in line.after.items()],
        "refused": refused,
        "refused_period": periods[refused - 1] if refused is not None and periods else None,
        "room": line.room,
    }


def _budget(target: Target, plan: ReleasePlan, purses: Sequence[Purse], seen: Horizon) -> dict[str, Any]:
    project, loaded = target.project, target.loaded
    catalog, fingerprint = target.resolved
    ceilings = project.policy.ceilings
    ceiling = Loss(epsilon=ceilings.epsilon, delta=ceilings.delta) if ceilings is not None else None
    largest = largest_budget(
        loaded.spec,
        lambda spec: allocate(spec, catalog, plan.accounts, fingerprint),
        purses,
        seen.periods,
        seen.releases,
        ceiling,
    )
    if largest.plan is not None:
        verify(largest.plan)
    budget = loaded.spec.privacy.budget
    return {
        "limit": None if largest.limit is None else _exact(largest.limit),
        "currency": "epsilon" if budget.epsilon is not None else "rho",
        "delta": round_up(budget.delta),
        "why": largest.why,
        **({"noise": largest.noise} if largest.noise else {}),
    }


def _text(value: Fraction | None) -> str:
    return UNBOUNDED if value is None else round_up(value)


def _exact(value: Fraction) -> str:
    """As a spec may have it: a decimal where it is one of few digits, else a fraction."""
    text = round_up(value)
    return text if Fraction(text) == value else str(value)


def print_horizon(facts: Mapping[str, Any]) -> None:
    """For a person: one row for each coming release, what refuses, and the budget of which all fit."""
    periods, accounts, number = facts["periods"], facts["accounts"], facts["releases"]
    say(f"\n{number} release(s) like this one" + (f", from {periods[0]} to {periods[-1]}" if periods else ""))
    header = ["release", *(["period"] if periods else [])]
    for account in accounts:
        windows = [cap["per"] for cap in account["caps"] if cap["window"]]
        apart = account["caps"][0]["parallel"]
        header += [
            f"{account['name']}, its {apart}" if apart else account["name"],
            *([f"fullest {windows[0]}"] if windows else []),
        ]
    rows = [_row(facts, k) for k in range(1, number + 1)]
    if any(row[-1] for row in rows):
        header.append("")
    say(text_table(header, [row[: len(header)] for row in rows], right=frozenset({0})))
    say()
    say(f"all {number} fit" if facts["fit"] == number else f"{facts['fit']} of {number} fit")
    for account in accounts:
        for line in _account_lines(account, number):
            say(line)
    say(_budget_line(facts["budget"], number))


def _row(facts: Mapping[str, Any], number: int) -> list[str]:
    periods = facts["periods"]
    row = [str(number), *([periods[number - 1]] if periods else [])]
    over = []
    for account in facts["accounts"]:
        caps = account["caps"]
        row.append(_after(caps[0], number))
        touched = [(cap, total) for cap in caps if cap["window"] and (total := _after(cap, number))]
        if touched:
            cap, total = max(touched, key=lambda each: _size(each[1]))
            row.append(f"{total} in {cap['window']}")
        over += [_named(account, cap) for cap in caps if cap["refused"] == number]
    return [*row, f"refused: {', '.join(dict.fromkeys(over))}" if over else ""]


def _after(cap: Mapping[str, Any], number: int) -> str:
    return next((each["total"] for each in cap["after"] if each["release"] == number), "")


def _size(total: str) -> float:
    return float("inf") if total == UNBOUNDED else float(total)


def _named(account: Mapping[str, Any], cap: Mapping[str, Any]) -> str:
    return f"account {account['name']}" + (f", {cap['per']} {cap['window']}" if cap["window"] else "")


def _account_lines(account: Mapping[str, Any], number: int) -> list[str]:
    lines = []
    for cap in account["caps"]:
        if not cap["window"]:
            more = "" if cap["parallel"] else "more "
            room = "no number of them fills" if cap["room"] is None else f"{cap['room']} {more}like this one fit into"
            limit = f"{cap['currency']} {as_decimal(cap['cap'])} at delta {cap['delta']}"
            limit = f"each {cap['parallel']}, of {limit}" if cap["parallel"] else limit
            lines.append(f"account {account['name']} ({account['composition']}): {room} {limit}")
    if account["hypothetical"]:
        epsilons = ", ".join(f"{kind} {epsilon}" for kind, epsilon in account["hypothetical"].items())
        apart = account["caps"][0]["parallel"]
        lines += [f"  {APART.format(per=apart)}"] if apart else []
        lines.append(f"  all {number} had they been fixed in advance (grants nothing), at delta {account['delta']}:")
        lines.append(f"  {epsilons}")
    return lines


def _budget_line(budget: Mapping[str, Any], number: int) -> str:
    if budget["limit"] is None:
        return f"no largest budget of which {number} fit: {budget['why']}"
    line = (
        f"the largest budget of which {number} fit: {budget['currency']} {budget['limit']} at delta {budget['delta']}"
    )
    line += f", with `noise: {budget['noise']}`" if budget.get("noise") else ""
    return line + (f" (stopped by {budget['why']})" if budget["why"] else "")
