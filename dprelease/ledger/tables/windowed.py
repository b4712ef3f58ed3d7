"""Accounts with windows from before the policy named the time of their rows: what was read by another one. Pure.

A window is charged by the releases that may have seen its rows. That holds where one column says of every row when it
was; a release that went by another column was charged to the windows of its period by that one, and its rows may lie in
any window by the one that the policy names. So what such a release cost is charged to every window, once and for
ever, in the entry that first records the policy's time (`Opened.spread`): by then the account's windows show never too
little. Those of its own period keep what they were charged, and have it twice. The lifetime's sum does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dprelease.ledger.model.balance import Spread, terms_of
from dprelease.ledger.model.entry import Body, Incident, Opened, Recovered, Reserved, Voided
from dprelease.ledger.model.history import Stand, State, spread_over
from dprelease.ledger.model.store import Rows
from dprelease.ledger.tables import view
from dprelease.ledger.tables.plans import Planned, Plans, Times
from dprelease.ledger.tables.tally import tally
from dprelease.plan.document import Account
from dprelease.privacy.filters import Spent, spent_before

__all__ = ["Seen", "is_named_now", "named", "promise", "spread_of"]

_UNKNOWN: Times = frozenset()


def is_named_now(past: Account | None, now: Account) -> bool:
    """Whether the policy names the time of windows that the ledger has without one."""
    return past is not None and _lacks_time(past) and now.window is not None and now.window.time is not None


def _lacks_time(account: Account) -> bool:
    return account.window is not None and account.window.time is None


def promise(account: Account, now: Account) -> tuple[Any, ...]:
    """What an account keeps for ever; a time of its windows that is named ``now`` is no other promise."""
    time = account.window.time if account.window else None
    if is_named_now(account, now) and now.window:
        time = now.window.time
    window = (account.window.per, time) if account.window else None
    terms = (account.unit, account.neighboring, account.composition, account.selecting, account.order)
    return (*terms, window, account.parallel)


def spread_of(rows: Rows, account: Account) -> tuple[Spread, ...]:
    """What stands charged to an account by releases that were not read by its time alone, in order.

    What a recovery added is of releases whose plan is lost: nobody knows by which column they were read.
    """
    if account.window is None or account.window.time is None:
        return ()
    charged, plans, name = tally(rows), Plans(), account.name
    spent = {at: body.added[name] for at, body in charged.recovered.items() if name in body.added}
    for taken in charged.taken:
        if name in taken.parts and _times(rows, plans, taken.sequence, taken.plan, name) != {account.window.time}:
            spent[taken.sequence] = taken.parts[name].spent
    return tuple(Spread(reservation=at, spent=each) for at, each in sorted(spent.items()))


def _times(rows: Rows, plans: Plans, at: int, plan: str, account: str) -> Times:
    body = view.at(rows, at).facts()
    text = body.plan if isinstance(body, Reserved) and body.plan else view.content(rows, plan).decode()
    return plans.read(text).times.get(account, _UNKNOWN)


def named(rows: Rows | None, state: State, accounts: Iterable[Account]) -> State:
    """The state as it will be once the policy's times are recorded."""
    changed = {}
    for account in accounts:
        stand = state.accounts.get(account.name)
        if rows is not None and stand is not None and is_named_now(stand.account, account):
            kept = stand.account.model_copy(update={"window": account.window})
            balance = spread_over(stand.balance, spread_of(rows, account))
            changed[account.name] = replace(stand, account=kept, balance=balance)
    return replace(state, accounts={**state.accounts, **changed}) if changed else state


class Seen:
    """Follows the entries of a full check: by which times the releases of every account with windows were read."""

    def __init__(self) -> None:
        self._paid: dict[str, dict[int, tuple[Times, Spent]]] = {}

    def reserved(self, at: int, body: Reserved, plan: Planned | None, stands: Mapping[str, Stand]) -> None:
        """A reservation and its plan."""
        for charge in body.charges:
            name = charge.facts.name
            if name in stands and stands[name].account.window is not None:
                spent = charge.spent
                if spent is None:
                    spent = spent_before(terms_of(stands[name].account), charge.events) if charge.events else Spent()
                self._paid.setdefault(name, {})[at] = (plan.times.get(name, _UNKNOWN) if plan else _UNKNOWN), spent

    def follow(self, at: int, body: Body, stands: Mapping[str, Stand]) -> Iterator[str]:
        """Any other entry; what is wrong with it, where it names a time."""
        if isinstance(body, Voided):
            for paid in self._paid.values():
                paid.pop(body.reservation, None)
        elif isinstance(body, Recovered):
            for name, spent in body.added.items():
                if name in stands and stands[name].account.window is not None:
                    self._paid.setdefault(name, {})[at] = _UNKNOWN, spent
        elif isinstance(body, Incident):
            for each in body.corrected:
                paid = self._paid.get(each.account, {})
                times, _ = paid.get(each.paid_by or each.reservation, (_UNKNOWN, Spent()))
                if each.account in self._paid:
                    _, before = paid.get(each.reservation, (times, Spent()))
                    paid[each.reservation] = times, before.plus(each.spent)
        elif isinstance(body, Opened):
            yield from self._opened(body, stands.get(body.account))

    def _opened(self, body: Opened, past: Stand | None) -> Iterator[str]:
        owed: dict[int, Spent] = {}
        if past is not None and is_named_now(past.account, body.terms) and body.window is not None:
            paid = self._paid.get(body.account, {})
            owed = {at: spent for at, (times, spent) in paid.items() if times != {body.window.time}}
        if owed != {each.reservation: each.spent for each in body.spread}:
            yield f"account {body.account} does not charge to every window what was read by another time"

    def left(self, stands: Mapping[str, Stand]) -> Iterator[tuple[int, str]]:
        """Releases of accounts whose time is not named yet, where they were read by several."""
        for name, paid in sorted(self._paid.items()):
            window = stands[name].account.window
            if window is None or window.time is not None or len({times for times, _ in paid.values()}) < 2:
                continue
            per = window.per
            for at, (times, _) in paid.items():
                says = f"it is charged to a {per} of account {name} by {_shown(times)}, and others by another time"
                todo = f"name the time in the policy beside `window`, and type `dprelease ledger open {name} --why WHY`"
                then = f"what was read by another one is then charged to every {per}"
                yield at, f"{says}: a row may be in two {per}s; {todo}: {then}"


def _shown(times: Times) -> str:
    told = sorted(f"{time[0]} ({time[1]})" if time else "no time" for time in times)
    return " and ".join(told) or "a time that nobody knows"
