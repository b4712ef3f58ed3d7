"""One write of a ledger: entries behind one another, the balances that they leave, and the line for the anchors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from dprelease.canonical import sha256
from dprelease.errors import Corrupt
from dprelease.ledger.model.anchor_lines import Line
from dprelease.ledger.model.balance import Actor, Balance, Charged, terms_of
from dprelease.ledger.model.entry import Accounting, Anchored, Body, Entry, Recovered
from dprelease.ledger.model.history import Stand, State, charged_balance, given_back
from dprelease.ledger.model.reservation import StepKey
from dprelease.ledger.model.store import Rows, identity
from dprelease.ledger.tables import view
from dprelease.plan.document import Account
from dprelease.privacy.filters import spent_before

__all__ = ["Write", "record_migration"]


class Write:
    """What one transaction adds.

    Attributes:
        rows: The transaction.
        state: What stands behind the entries that were added so far.
        line: What the anchors get once it is durable; None: nothing was added.
    """

    def __init__(self, rows: Rows, state: State) -> None:
        self.rows = rows
        self.state = state
        self.line: Line | None = None

    def append(self, make: Callable[..., Body]) -> Entry:
        """An entry that changes no account; ``make`` is called with the place of the last one that did."""
        return self._append(make(books=self.state.books))

    def account(
        self,
        make: Callable[..., Accounting],
        changed: Mapping[str, Stand],
        *,
        tells_place: bool = False,
    ) -> Entry:
        """An entry that changes accounts, or says where the ledger is.

        Args:
            make: Called with the marks, and the balances of what changed.
            changed: Accounts as they stand behind it; their heads are set here.
            tells_place: Whether it says where the ledger is.
        """
        at = self.state.head.sequence + 1
        marks = self.state.marks(at, changed, at if tells_place else None)
        balances = tuple(changed[name].balance for name in sorted(changed))
        body = make(marks=marks, balances=balances)
        entry = self._append(body)
        place = (at, body) if isinstance(body, Anchored | Recovered) else self.state.place
        stands = {name: replace(stand, head=entry.head) for name, stand in changed.items()}
        accounts = {**self.state.accounts, **stands}
        self.state = replace(self.state, books=at, place=place, accounts=accounts)
        self._tell(balances, tuple(changed[name].account for name in sorted(changed)))
        return entry

    def charge(self, make: Callable[..., Accounting], charges: Mapping[str, Charged]) -> Entry:
        """The entry of a reservation, which adds these charges to the balances."""
        return self.account(make, self._with(charges, charged_balance))

    def give_back(self, make: Callable[..., Accounting], charges: Mapping[str, Charged]) -> Entry:
        """The entry that takes these charges off the balances again."""
        return self.account(make, self._with(charges, given_back))

    def priced(self, charge: Charged) -> Charged:
        """A charge with what it added to the balance, which entries of older schemas leave to be worked out."""
        if charge.spent is not None or charge.events is None:
            return charge
        terms = terms_of(self.state.accounts[charge.facts.name].account)
        return charge.model_copy(update={"spent": spent_before(terms, charge.events)})

    def keep(self, payload: bytes) -> str:
        """Keep bytes under their digest, once."""
        digest = sha256(payload)
        if not self.rows.execute("SELECT 1 FROM contents WHERE digest = ?", (digest,)):
            self.rows.execute("INSERT INTO contents VALUES (?, ?)", (digest, payload))
        elif view.content(self.rows, digest) != payload:
            raise Corrupt(f"other bytes are kept as {digest[:16]}", code="DPR-L304")
        return digest

    def index_reservation(self, entry: Entry, release: str, period: str, plan: str, restates: int | None) -> None:
        """Make a reservation the live one of its release and period."""
        row = (entry.sequence, release, period, plan, restates, identity(release, period))
        self.rows.execute("INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?)", row)
        self._tell_release(release, period, plan)

    def index_measurement(self, entry: Entry, key: StepKey, digest: str) -> None:
        """Make a measurement the one of its step."""
        names = (key.release, key.period, key.plan, key.step)
        row = (*names, entry.sequence, digest, identity(*names))
        self.rows.execute("INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def end(self, reservation: int, entry: Entry, kind: str, release: tuple[str, str, str] = ("", "", "")) -> None:
        """Record the ending of a reservation, and forget its key."""
        self.rows.execute("INSERT INTO endings VALUES (?, ?, ?)", (reservation, entry.sequence, kind))
        self.rows.forget_secret(reservation)
        if release[0]:
            self._tell_release(*release, ended=kind)

    def _with(self, charges: Mapping[str, Charged], change: Callable[[Balance, Charged], Balance]) -> dict[str, Stand]:
        stands = {name: self.state.accounts[name] for name in charges}
        return {name: replace(stand, balance=change(stand.balance, charges[name])) for name, stand in stands.items()}

    def _append(self, body: Body) -> Entry:
        entry = Entry.after(self.state.head, body)
        row = (entry.sequence, entry.previous, entry.hash, entry.kind, entry.text)
        self.rows.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
        self.state = replace(self.state, head=entry.head)
        place = (
            body.ledger if isinstance(body, Anchored | Recovered) else self.state.place and self.state.place[1].ledger
        )
        line = self.line or Line(ledger=place or "", sequence=0, hash="")
        update = {"ledger": place or "", "sequence": entry.sequence, "hash": entry.hash}
        self.line = line.model_copy(update=update)
        return entry

    def _tell(self, balances: tuple[Balance, ...], terms: tuple[Account, ...]) -> None:
        # A balance never goes without its terms: the line that opened the account may never have been written.
        if self.line is not None:
            known = {each.account: each for each in (*self.line.balances, *balances)}
            named = {each.name: each for each in (*self.line.terms, *terms)}
            self.line = self.line.model_copy(
                update={
                    "balances": tuple(known[name] for name in sorted(known)),
                    "terms": tuple(named[name] for name in sorted(named)),
                }
            )

    def _tell_release(self, release: str, period: str, plan: str, ended: str = "") -> None:
        if self.line is not None:
            update = {"release": release, "period": period, "plan": plan, "ended": ended}
            self.line = self.line.model_copy(update=update)


def record_migration(rows: Rows, version: int, place: str, at: str, by: Actor) -> None:
    """Write down that the tables came from an older schema, with the balances that its entries did not carry.

    Args:
        rows: The transaction in which the tables were changed.
        version: What they were before.
        place: Where the ledger is.
        at: When, in UTC.
        by: Who opened it.
    """
    state = view.replayed(rows)
    if not state.head.sequence:
        return
    facts = {"ledger": os.urandom(16).hex(), "place": place, "anchors": (), "at": at, "by": by}
    write = Write(rows, replace(state, books=0))
    make = partial(Anchored, **facts, why=f"the tables came from schema {version}")
    write.account(make, dict(state.accounts), tells_place=True)
