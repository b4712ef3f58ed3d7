"""One write of a ledger: entries behind one another, the balances that they leave, and the line for the anchors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from dprelease.canonical import Value, sha256
from dprelease.errors import Corrupt
from dprelease.failpoints import hit
from dprelease.ledger.model.anchor_lines import AnchorLine
from dprelease.ledger.model.balance import Actor, Balance, Charged, terms_of
from dprelease.ledger.model.entry import AccountChange, Anchored, Body, LedgerEntry, Placed, StepMeasured
from dprelease.ledger.model.history import Stand, State
from dprelease.ledger.model.reservation import StepKey
from dprelease.ledger.model.store import Transaction, row_identity
from dprelease.ledger.tables import view
from dprelease.noise import Measurement
from dprelease.plan.document import Account
from dprelease.privacy.filters import spent_before

__all__ = ["Write", "record_measurement", "record_migration"]


class Write:
    """What one transaction adds.

    Attributes:
        rows: The transaction.
        state: What stands behind the entries that were added so far.
        line: What the anchors get once it is durable; None: nothing was added.
    """

    def __init__(self, rows: Transaction, state: State) -> None:
        self.rows = rows
        self.state = state
        self.line: AnchorLine | None = None

    def append(self, make: Callable[..., Body]) -> LedgerEntry:
        """An entry that changes no account; ``make`` is called with the place of the last one that did."""
        return self._append(make(books=self.state.books))

    def account(
        self,
        make: Callable[..., AccountChange],
        changed: Mapping[str, Stand],
        *,
        tells_place: bool = False,
    ) -> LedgerEntry:
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
        place = (at, body) if isinstance(body, Placed) else self.state.place
        stands = {name: replace(stand, head=entry.head) for name, stand in changed.items()}
        accounts = {**self.state.accounts, **stands}
        self.state = replace(self.state, books=at, place=place, accounts=accounts)
        self._tell(balances, tuple(changed[name].account for name in sorted(changed)))
        return entry

    def rebalance(
        self,
        make: Callable[..., AccountChange],
        charges: Mapping[str, Charged],
        change: Callable[[Balance, Charged], Balance],
    ) -> LedgerEntry:
        """An entry that adds charges to the balances (``charged_balance``), or takes them off (``given_back``)."""
        stands = {name: self.state.accounts[name] for name in charges}
        changed = {name: replace(stand, balance=change(stand.balance, charges[name])) for name, stand in stands.items()}
        return self.account(make, changed)

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
        elif view.kept_bytes(self.rows, digest) != payload:
            raise Corrupt(f"other bytes are kept as {digest[:16]}", code="DPR-L304")
        return digest

    def keep_value(self, value: Value) -> str:
        """Keep the canonical JSON of a value under its fingerprint, once; a series of releases shares its draws."""
        digest = value.fingerprint()
        if not self.rows.execute("SELECT 1 FROM contents WHERE digest = ?", (digest,)):
            return self.keep(value.canonical().encode())
        view.kept_bytes(self.rows, digest)  # what was altered is not charged for
        return digest

    def index_reservation(self, entry: LedgerEntry, release: str, period: str, plan: str, restates: int | None) -> None:
        """Make a reservation the live one of its release and period."""
        row = (entry.sequence, release, period, plan, restates, row_identity(release, period))
        self.rows.execute("INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?)", row)
        self._tell_release(release, period, plan)

    def index_measurement(self, entry: LedgerEntry, key: StepKey, digest: str) -> None:
        """Make a measurement the one of its step."""
        names = (key.release, key.period, key.plan, key.step)
        row = (*names, entry.sequence, digest, row_identity(*names))
        self.rows.execute("INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def end(
        self, reservation: int, entry: LedgerEntry, kind: str, release: tuple[str, str, str] = ("", "", "")
    ) -> None:
        """Record the ending of a reservation, and forget its key."""
        self.rows.execute("INSERT INTO endings VALUES (?, ?, ?)", (reservation, entry.sequence, kind))
        self.rows.forget_secret(reservation)
        if release[0]:
            self._tell_release(*release, ended=kind)

    def _append(self, body: Body) -> LedgerEntry:
        entry = LedgerEntry.after(self.state.head, body)
        row = (entry.sequence, entry.previous, entry.hash, entry.kind, entry.text)
        self.rows.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
        self.state = replace(self.state, head=entry.head)
        place = body.ledger if isinstance(body, Placed) else self.state.place and self.state.place[1].ledger
        line = self.line or AnchorLine(ledger=place or "", sequence=0, hash="")
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


def record_measurement(write: Write, key: StepKey, measurement: Measurement, at: str) -> None:
    """Make a measurement that of its step, which has none."""
    payload = measurement.to_bytes()
    digest = write.keep(payload)
    hit("commit.stored")
    facts = {"release": key.release, "period": key.period, "plan": key.plan, "step": key.step}
    entry = write.append(partial(StepMeasured, **facts, cells=len(measurement.values), digest=digest, at=at))
    hit("commit.appended")
    write.index_measurement(entry, key, digest)
    hit("commit.indexed")


def record_migration(rows: Transaction, version: int, place: str, at: str, by: Actor) -> None:
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
