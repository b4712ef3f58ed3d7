"""A ledger that its anchors contradict, or that was moved, made usable again. Nothing here ever takes spend away.

What the anchors know is more than what a rolled-back ledger has: balances that are higher, releases that it has never
heard of. Balances are raised to the anchors'; releases that were lost, and those that are open in what is left, end
here: their answers may have been handed on, and a second answer would be a second draw.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial

from dprelease.errors import Corrupt
from dprelease.ledger import view
from dprelease.ledger.anchors import Journal, Known, Line
from dprelease.ledger.balance import Actor, Balance
from dprelease.ledger.entry import Opened, Recovered
from dprelease.ledger.guard import Guard
from dprelease.ledger.history import Stand
from dprelease.ledger.store import Store
from dprelease.ledger.write import Write
from dprelease.plan.document import Account, Head
from dprelease.privacy.filters import Spent

__all__ = ["recover"]


def recover(store: Store, guard: Guard, why: str, at: str, by: Actor) -> tuple[str, ...]:
    """Add what the anchors know and the ledger lacks, and record its place and its anchors anew.

    Args:
        store: Of the ledger; made where it is gone and an anchor knows it.
        guard: With its anchors.
        why: What the operator said.
        at: When, in UTC.
        by: Who.

    Returns:
        What was done, one line each; empty: nothing was wrong, and nothing was written.

    Raises:
        Corrupt: An anchor is damaged, or the ledger itself is: both are restored from backups first.
    """
    wrong = guard.wrong()
    if not wrong:
        return ()
    known = guard.journal.known()
    with store.writing(make=known is not None) as rows:
        if rows is None:
            return ()
        view.require_head(rows)
        work = _Recovery(Write(rows, view.state(rows)), store, guard.journal, known, why, at, by)
        done = work.run()
    if work.write.line is not None:
        guard.journal.renew(work.write.line, known, work.write.state)
    return (*wrong, *done)


class _Recovery:
    def __init__(
        self, write: Write, store: Store, journal: Journal, known: Known | None, why: str, at: str, by: Actor
    ) -> None:
        self.write, self._known, self._at, self._by = write, known, at, by
        told = write.state.place
        self.ledger = told[1].ledger if told else known.ledger if known else os.urandom(16).hex()
        self._facts = {
            "ledger": self.ledger,
            "place": store.place,
            "anchors": journal.paths,
            "why": why,
            "at": at,
            "by": by,
        }

    def run(self) -> list[str]:
        known = self._known
        behind = known is not None and not self._has(known.head)
        said: list[str] = []
        lacked = known.head if known is not None and behind else Head()
        for account in known.terms.values() if known is not None and behind else ():
            if account.name not in self.write.state.accounts:
                self._open(account)
                said.append(f"account {account.name} was opened anew")
        added = self._missing(known.balances) if known is not None and behind else {}
        stands = {name: self._raised(name, spent) for name, spent in added.items()}
        make = partial(Recovered, **self._facts, known=lacked, added=added)
        self.write.account(make, stands, tells_place=True)
        said += [f"account {name} was charged what is missing" for name in added]
        if known is not None and behind:
            said += self._end_open() + self._lost(known.releases)
        return said

    def _has(self, head: Head) -> bool:
        return head.sequence == 0 or view.hash_at(self.write.rows, head.sequence) == head.hash

    def _open(self, account: Account) -> None:
        at = self.write.state.head.sequence + 1
        stand = Stand(account=account, balance=Balance(account=account.name, opened=at), head=Head())
        body = partial(
            Opened,
            account=account.name,
            unit=account.unit,
            neighboring=account.neighboring,
            composition=account.composition,
            cap=account.lifetime,
            selecting=account.selecting,
            order=account.order,
            window=account.window,
            nests=account.nests,
            why="known to the anchors, and missing",
            at=self._at,
            by=self._by,
        )
        self.write.account(body, {account.name: stand}, opened=account)

    def _missing(self, balances: Mapping[str, Balance]) -> dict[str, Spent]:
        """What each account had spent by its anchors above what the ledger has; in whole or, per window, the most."""
        found = {}
        for name, balance in balances.items():
            stand = self.write.state.accounts.get(name)
            if stand is None:
                raise Corrupt(f"the anchors know account {name}, and nothing of its terms", code="DPR-L314")
            lacks = _above(balance.spent, stand.balance.spent)
            if lacks != Spent() or _windows(stand.balance, balance):
                found[name] = lacks
        return found

    def _raised(self, name: str, spent: Spent) -> Stand:
        stand = self.write.state.accounts[name]
        told = self._known.balances[name] if self._known else stand.balance
        windows = {
            window: stand.balance.windows.get(window, Spent()).plus(more)
            for window, more in _windows(stand.balance, told).items()
        }
        series = {
            digest: max(stand.balance.series.get(digest, 0), told.series.get(digest, 0))
            for digest in stand.balance.series.keys() | told.series.keys()
        }
        update = {
            "spent": stand.balance.spent.plus(spent),
            "windows": {**stand.balance.windows, **windows},
            "series": series,
        }
        return replace(stand, balance=stand.balance.model_copy(update=update))

    def _end_open(self) -> list[str]:
        """Every open release ends: steps of it may have been answered in what is lost."""
        said = []
        for each in view.reservations(self.write.rows):
            if each.state == "open":
                release = (each.release, each.period, each.plan_fingerprint)
                make = partial(Recovered, **self._facts)
                entry = self.write.account(make, {}, tells_place=True)
                self.write.end(each.sequence, entry, "give_up", release)
                said.append(f"{each.release} {each.period} was ended: answers of it may be lost")
        return said

    def _lost(self, releases: Mapping[str, Line]) -> list[str]:
        said = []
        for line in releases.values():
            if line.ended == "void" or view.was_planned(self.write.rows, line.release, line.period, line.plan):
                continue
            names = {"release": line.release, "period": line.period, "plan": line.plan}
            before = view.find(self.write.rows, line.release, line.period)
            entry = self.write.account(partial(Recovered, **self._facts, **names), {}, tells_place=True)
            self.write.index_reservation(
                entry, line.release, line.period, line.plan, before.sequence if before else None
            )
            self.write.end(entry.sequence, entry, "give_up", (line.release, line.period, line.plan))
            said.append(f"{line.release} {line.period} is lost: it is charged, and never measured again")
        return said


def _windows(have: Balance, told: Balance) -> dict[str, Spent]:
    found = {name: _above(spent, have.windows.get(name, Spent())) for name, spent in told.windows.items()}
    return {name: spent for name, spent in found.items() if spent != Spent()}


def _above(one: Spent, other: Spent) -> Spent:
    """By how much one total is above another."""
    zero = Fraction(0)
    return Spent(loss=max(zero, one.loss - other.loss), reveals=max(zero, one.reveals - other.reveals))
