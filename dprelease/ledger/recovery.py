"""A ledger that its anchors or published bundles contradict, or that was moved, made usable again. Only adds spend.

What they know is more than what a rolled-back ledger has: charges and releases that it has never heard of. These
charges are added; releases that were lost, and those that are open in what is left, end here: their answers may have
been handed on, and a second answer would be a second draw.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dprelease.errors import Corrupt, LedgerError
from dprelease.ledger.anchors.guard import Guard, sound
from dprelease.ledger.model.anchor_lines import AnchorKnowledge, AnchorLine, everything
from dprelease.ledger.model.balance import Actor, Balance, terms_of
from dprelease.ledger.model.entry import LedgerEntry, Recovered, Reserved
from dprelease.ledger.model.history import Stand, above, charged_balance, events_digest
from dprelease.ledger.model.reservation import Charge
from dprelease.ledger.model.store import Store, Transaction
from dprelease.ledger.tables import view
from dprelease.ledger.tables.published import Evidence, bundles_lacking
from dprelease.ledger.tables.reserving import Opening
from dprelease.ledger.tables.write import Write
from dprelease.plan.document import Account, Head
from dprelease.privacy.filters import Spent, spent_before, spent_on

__all__ = ["recover_ledger"]


def recover_ledger(
    store: Store,
    guard: Guard,
    why: str,
    at: str,
    by: Actor,
    published: Sequence[Evidence] = (),
    gone: Sequence[str] = (),
) -> tuple[str, ...]:
    """Add what the anchors and the published bundles know and the ledger lacks, and record its place and anchors anew.

    Args:
        store: The store of the ledger; made where it is gone and an anchor or a bundle knows it.
        guard: With its anchors.
        why: What the operator said.
        at: When, in UTC.
        by: Who.
        published: The bundles that were found.
        gone: Hosts that are gone for good with their anchors.

    Returns:
        What was done, one line each; empty: nothing was wrong, and nothing was written.

    Raises:
        Corrupt: An anchor is damaged, or the ledger itself is: both are restored from backups first.
        LedgerError: The plan of a bundle that proves a loss cannot be believed (DPR-L322).
    """
    bundles = [each.published for each in published]
    wrong = guard.wrong()
    with store.reading() as rows:
        if rows is not None:
            sound(rows)
        absent = bundles_lacking(rows, bundles) if rows is not None else bundles
    if not wrong and not absent:
        return ()
    courses = guard.journal.known(guard.unlisted)
    with store.writing(make=bool(absent) or any(known.head.sequence for known in courses)) as rows:
        if rows is None:
            return ()
        sound(rows)
        work = _Recovery(Write(rows, view.state(rows)), store, guard, courses, why, at, by, published, gone)
        done = work.run()
        known = everything(rows, work.write.state)
    guard.journal.renew(known)
    return (*wrong, *done)


class _Recovery:
    def __init__(
        self,
        write: Write,
        store: Store,
        guard: Guard,
        courses: Sequence[AnchorKnowledge],
        why: str,
        at: str,
        by: Actor,
        published: Sequence[Evidence],
        gone: Sequence[str],
    ) -> None:
        self.write, self._at, self._by = write, at, by
        self._lost_courses = [known for known in courses if not self._has(known.head)]
        self._published = published
        place = write.state.place[1] if write.state.place else None
        ids = (
            [place.ledger]
            if place
            else [known.ledger for known in courses]
            + [each.published.ledger for each in published if each.published.ledger]
        )
        self._unproven = bool(
            place and guard.hosts.moved(place, store.server) and not guard.hosts.proven(place.anchors)
        )
        self._facts: dict[str, Any] = {
            "ledger": ids[0] if ids else os.urandom(16).hex(),
            "place": store.place,
            "anchors": guard.named(place),
            "server": store.server or (place.server if place else ""),
            "unasked": guard.hosts.unasked(place, store.server, gone),
            "why": why,
            "at": at,
            "by": by,
        }

    def run(self) -> list[str]:
        if not self._lost_courses:
            self.write.account(partial(Recovered, **self._facts), {}, tells_place=True)
        said: list[str] = []
        for known in self._lost_courses:
            said += self._add(known)
        proved = bool(bundles_lacking(self.write.rows, [each.published for each in self._published]))
        if self._lost_courses or proved or self._unproven:
            said += self._end_open()
        for known in self._lost_courses:
            said += self._lost(known.releases)
        absent = bundles_lacking(self.write.rows, [each.published for each in self._published])
        lost = {each.entry for each in absent}
        proofs = sorted(
            (each for each in self._published if each.published.entry in lost),
            key=lambda each: each.published.entry.sequence,
        )
        for each in proofs:
            said += self._take(each)
        if self._facts["unasked"]:
            said.append(f"still to be asked, each by `ledger recover` there: {', '.join(self._facts['unasked'])}")
        return said

    def _take(self, bundle: Evidence) -> list[str]:
        """Charge what a published bundle proves, and let its release be one that is never measured again."""
        if bundle.wrong:
            raise cannot_take(bundle)
        published, rows = bundle.published, self.write.rows
        release = (published.release, published.period, published.plan)
        charges, (payer, price) = bundle.charges, bundle.paid
        if payer and not view.was_planned(rows, published.release, published.period, payer):
            charges = price
        stands, spent = {}, {}
        said: list[str] = []
        for charge in charges:
            name = charge.account.name
            said += self._known_as(charge.account, "known to a published bundle, and missing")
            more = self._cost(charge, bundle.periods.get(charge.account.name, (published.period,)), bundle.before)
            stands[name], spent[name] = self._raised(name, more), more.spent
        again = view.was_planned(rows, *release)
        named = {} if again else dict(zip(("release", "period", "plan"), release, strict=True))
        facts = {**self._facts, **named, "bundle": published.entry, "manifest": published.manifest}
        before = view.find(rows, published.release, published.period)
        entry = self.write.account(partial(Recovered, **facts, added=spent), stands, tells_place=True)
        if again:
            said.append(
                f"{published.folder} is a second answer to a plan that this ledger has: it is charged by itself"
            )
        else:
            self.write.index_reservation(entry, *release, before.sequence if before else None)
            self.write.end(entry.sequence, entry, "give_up", release)
            said.append(
                f"{published.release} {published.period} is lost, and published in {published.folder}: it is charged, "
                "and never measured again"
            )
        return said + [f"account {name} was charged what it costs" for name in spent]

    def _cost(self, charge: Charge, periods: Sequence[str], before: bool) -> Balance:
        """What a release adds to the balance of an account: what it was charged, though the entry is lost."""
        account = self.write.state.accounts[charge.account.name].account
        spent = (spent_before if before else spent_on)(terms_of(account), charge.events)
        series = {events_digest(charge.events): 1} if account.composition == "pld" else {}
        windows = dict.fromkeys(account.stretches(*periods), spent)
        return Balance(account=account.name, opened=0, spent=spent, windows=windows, series=series)

    def _known_as(self, account: Account, why: str) -> list[str]:
        """Open an account that is missing; refuse one that adds up in another way."""
        stand = self.write.state.accounts.get(account.name)
        if stand is None:
            Opening(self.write, self._at, self._by).record(account, why)
            return [f"account {account.name} was opened anew"]
        if terms_of(stand.account) != terms_of(account):
            raise Corrupt(
                f"what is lost knows account {account.name} as another one: it adds up by {account.composition} there, "
                f"and by {stand.account.composition} here",
                hint="name the anchors and the releases of this ledger in dprelease.yaml, or put back the ledger that "
                "they are of",
                code="DPR-L314",
            )
        return []

    def _has(self, head: Head) -> bool:
        return head.sequence == 0 or view.hash_at(self.write.rows, head.sequence) == head.hash

    def _add(self, known: AnchorKnowledge) -> list[str]:
        """Open the accounts that are missing, and charge what was spent behind the last entry that both know."""
        said: list[str] = []
        for account in known.terms.values():
            said += self._known_as(account, "known to the anchors, and missing")
        added = {} if _was_added(self.write.rows, known.head) else self._missing(known)
        stands = {name: self._raised(name, more) for name, more in added.items()}
        spent = {name: more.spent for name, more in added.items()}
        make = partial(Recovered, **self._facts, known=known.head, added=spent)
        self.write.account(make, stands, tells_place=True)
        return said + [f"account {name} was charged what is missing" for name in added]

    def _missing(self, known: AnchorKnowledge) -> dict[str, Balance]:
        """By account, what the anchors saw charged behind the last entry that both know.

        Not what they have above the ledger's balance: a copy that went on by itself has spent in its own way since.
        Let S stand charged at that entry, let the anchors' course have given back A of it and charged N, and the
        ledger's own course have given back D of it and charged M. The anchors' balance is S - A + N, the ledger's is
        S - D + M. What may have been read is at most S + N + M, less what both gave back. Whatever is in A or in D is
        added to the anchors' balance first, so that the sum is at least S - A - D + (A or D) + N + M, which is that.
        """
        rows = self.write.rows
        common = next((head for head in known.heads if head.sequence and self._has(head)), Head())
        before = view.state(rows, common).accounts if common.sequence else {}
        balances = dict(known.balances)
        for sequence in _given_back_since(rows, common.sequence, known):
            body = view.at(rows, sequence).facts()
            for charge in body.charges if isinstance(body, Reserved) else ():
                if (name := charge.facts.name) in balances:
                    balances[name] = charged_balance(balances[name], self.write.priced(charge))
        missing = {}
        for name, balance in balances.items():
            if name not in self.write.state.accounts:
                raise Corrupt(f"the anchors know account {name}, and nothing of its terms", code="DPR-L314")
            base = before[name].balance if name in before else Balance(account=name, opened=0)
            more = _above(balance, base)
            if more.spent != Spent() or more.windows or more.series:
                missing[name] = more
        return missing

    def _raised(self, name: str, more: Balance) -> Stand:
        stand = self.write.state.accounts[name]
        have = stand.balance
        windows = {each: have.windows.get(each, Spent()).plus(spent) for each, spent in more.windows.items()}
        series = {digest: have.series.get(digest, 0) + taken for digest, taken in more.series.items()}
        update = {
            "spent": have.spent.plus(more.spent),
            "windows": {**have.windows, **windows},
            "series": {**have.series, **series},
        }
        return replace(stand, balance=have.model_copy(update=update))

    def _end_open(self) -> list[str]:
        """Every open release ends: steps of it may have been answered in what is lost."""
        said = []
        for each in view.reservations(self.write.rows):
            if each.state == "open":
                release = (each.release, each.period, each.plan_fingerprint)
                self.write.end(each.sequence, self._ending(*release, each.hash), "give_up", release)
                said.append(f"{each.release} {each.period} was ended: answers of it may be lost")
        return said

    def _lost(self, releases: Mapping[str, AnchorLine]) -> list[str]:
        said = []
        for line in releases.values():
            release = (line.release, line.period, line.plan)
            if line.ended == "void" or view.was_planned(self.write.rows, *release):
                continue
            before = view.find(self.write.rows, line.release, line.period)
            entry = self._ending(*release)
            self.write.index_reservation(entry, *release, before.sequence if before else None)
            self.write.end(entry.sequence, entry, "give_up", release)
            said.append(f"{line.release} {line.period} is lost: it is charged, and never measured again")
        return said

    def _ending(self, release: str, period: str, plan: str, reserved: str = "") -> LedgerEntry:
        """The entry with which a release ends here, whether the ledger had it open or had lost it."""
        manifest = next(
            (
                each.published.manifest
                for each in self._published
                if (each.published.release, each.published.period, each.published.plan) == (release, period, plan)
                and reserved in ("", each.published.entry.hash)
            ),
            "",
        )
        facts = {**self._facts, "release": release, "period": period, "plan": plan, "manifest": manifest}
        return self.write.account(partial(Recovered, **facts), {}, tells_place=True)


def cannot_take(bundle: Evidence) -> LedgerError:
    """The error for a bundle that proves a loss, and whose cost cannot be derived."""
    return LedgerError(
        f"{bundle.published.folder} proves a loss, and what it cost cannot be derived: {bundle.wrong}",
        detail="nothing was written; without it a recovery would charge too little",
        hint="put back the bundle from a copy that `dprelease verify` finds whole, or the ledger from a backup with "
        f"entry {bundle.published.entry.sequence}",
        code="DPR-L322",
    )


def _was_added(rows: Transaction, known: Head) -> bool:
    """Whether an earlier recovery, which did not come to renewing the anchors, has charged what is lost up to there."""
    bodies = [
        view.at(rows, row[0]).facts() for row in rows.execute("SELECT sequence FROM entries WHERE kind = 'recover'")
    ]
    return any(isinstance(body, Recovered) and body.known == known for body in bodies)


def _given_back_since(rows: Transaction, common: int, known: AnchorKnowledge) -> list[int]:
    """Reservations that stood at an entry and were given back behind it, here or in the course that anchors know."""
    query = """
        SELECT r.sequence, r.release, r.period, r.plan, e.kind FROM reservations AS r
        LEFT JOIN endings AS e ON e.reservation = r.sequence
        WHERE r.sequence <= ? AND (e.kind IS NULL OR e.kind <> 'void' OR e.sequence > ?) ORDER BY r.sequence"""
    given_back = []
    for sequence, release, period, plan, kind in rows.execute(query, (common, common)):
        line = known.releases.get(f"{release}/{period}/{plan}")
        if kind == "void" or (line is not None and line.sequence > common):
            given_back.append(sequence)
    return given_back


def _above(one: Balance, other: Balance) -> Balance:
    """By how much a balance is above another one of the same account."""
    windows = {name: above(spent, other.windows.get(name, Spent())) for name, spent in one.windows.items()}
    series = {digest: taken - other.series.get(digest, 0) for digest, taken in one.series.items()}
    return Balance(
        account=one.account,
        opened=one.opened,
        spent=above(one.spent, other.spent),
        windows={name: spent for name, spent in windows.items() if spent != Spent()},
        series={digest: taken for digest, taken in series.items() if taken > 0},
    )
