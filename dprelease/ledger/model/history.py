"""What the entries add up to for each account. Pure: every store uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dprelease.errors import Corrupt
from dprelease.ledger.model.balance import Balance, Charged, Marks, SpreadCharge, terms_of
from dprelease.ledger.model.entry import (
    AccountOpened,
    Body,
    Corrected,
    Incident,
    LedgerEntry,
    Placed,
    Recovered,
    Reserved,
    SeriesSlot,
    Voided,
)
from dprelease.plan.document import Account, Head
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Approximate, Composed, Concentrated, Event
from dprelease.privacy.filters import Spent, Terms, spent_before
from dprelease.privacy.periods import EVERY

__all__ = [
    "Contents",
    "Paid",
    "Stand",
    "State",
    "above",
    "as_event",
    "behind",
    "charged_balance",
    "events_digest",
    "given_back",
    "higher",
    "replay",
    "spread_over",
]

Contents = Callable[[str], Composed]


@dataclass(frozen=True)
class Paid:
    """What stands charged to an account under one entry: the charge (None: what a recovery added), and its draws."""

    charge: Charged | None
    events: Event


@dataclass(frozen=True)
class Stand:
    """One account as it stands.

    Attributes:
        account: As its last ``open`` entry has it.
        balance: What stands charged.
        head: The last entry that changed it.
        series: For a ``pld`` account: all releases that it was opened for, and ``loss``: what they cost together.
        charged: By entry; only where the whole book was read.
    """

    account: Account
    balance: Balance
    head: Head
    series: tuple[SeriesSlot, ...] = ()
    loss: Loss | None = None
    charged: dict[int, Paid] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """What stands behind an entry.

    Attributes:
        head: The entry.
        books: The last entry up to there that changed an account, or said where the ledger is; 0: none.
        place: That last said where the ledger is and which anchors it has; None in ledgers of schema 1 and 2.
        accounts: By name.
    """

    head: Head = field(default_factory=Head)
    books: int = 0
    place: tuple[int, Placed] | None = None
    accounts: Mapping[str, Stand] = field(default_factory=dict)

    def marks(self, at: int, touched: Iterable[str], place: int | None = None) -> Marks:
        """Where to find everything behind entry ``at``, which changes the accounts in ``touched``."""
        known = {name: stand.head.sequence for name, stand in self.accounts.items()}
        last_place = self.place[0] if self.place else 0
        return Marks(place=last_place if place is None else place, heads={**known, **dict.fromkeys(touched, at)})


def events_digest(events: Composed) -> str:
    """Under which digest draws are kept."""
    return events.fingerprint()


def as_event(terms: Terms, spent: Spent) -> Composed | None:
    """Draws that cost what was added without any being known; None where no kind of event says that."""
    reveals = (Approximate(epsilon=Fraction(0), delta=min(Fraction(1), spent.reveals)),) if spent.reveals else ()
    if terms.composition == "zcdp":
        return Composed(events=(Concentrated(rho=spent.loss), *reveals) if spent.loss else reveals)
    if terms.composition == "basic":
        return Composed(
            events=(Approximate(epsilon=spent.loss, delta=Fraction(0)), *reveals) if spent.loss else reveals
        )
    return None


def charged_balance(before: Balance, charge: Charged) -> Balance:
    """The balance of an account behind a charge."""
    spent = charge.spent or Spent()
    update: dict[str, Any] = {"spent": before.spent.plus(spent), "releases": before.releases + 1}
    if charge.windows:
        by_window = {each.window: before.windows.get(each.window, Spent()).plus(spent) for each in charge.windows}
        update["windows"] = {**before.windows, **by_window}
    if charge.facts.composition == "pld":
        update["series"] = {**before.series, charge.digest: before.series.get(charge.digest, 0) + 1}
    return Balance.of_checked({**before.__dict__, **update})


def given_back(before: Balance, charge: Charged) -> Balance:
    """The balance of an account once a charge, which stands in it, is given back."""
    spent = charge.spent or Spent()
    by_window = {each.window: before.windows[each.window].minus(spent) for each in charge.windows}
    series = {charge.digest: before.series.get(charge.digest, 1) - 1} if charge.facts.composition == "pld" else {}
    return before.model_copy(
        update={
            "spent": before.spent.minus(spent),
            "windows": {**before.windows, **by_window},
            "releases": before.releases - 1,
            "series": {**before.series, **series},
        }
    )


def spread_over(before: Balance, spread: Iterable[SpreadCharge]) -> Balance:
    """A balance with what counts in every window."""
    everywhere = before.windows.get(EVERY, Spent())
    for each in spread:
        everywhere = everywhere.plus(each.spent)
    windows = {EVERY: everywhere} if everywhere != Spent() else {}
    return before.model_copy(update={"windows": {**before.windows, **windows}})


def higher(one: Balance, other: Balance) -> Balance:
    """A balance of the first account in which nothing is less than in either."""
    none = Spent()
    windows = one.windows.keys() | other.windows.keys()
    series = one.series.keys() | other.series.keys()
    return one.model_copy(
        update={
            "spent": _most(one.spent, other.spent),
            "windows": {name: _most(one.windows.get(name, none), other.windows.get(name, none)) for name in windows},
            "series": {digest: max(one.series.get(digest, 0), other.series.get(digest, 0)) for digest in series},
        }
    )


def above(one: Spent, other: Spent) -> Spent:
    """By how much a sum is above another one; nothing where it is below."""
    zero = Fraction(0)
    return Spent(loss=max(zero, one.loss - other.loss), reveals=max(zero, one.reveals - other.reveals))


def _most(one: Spent, other: Spent) -> Spent:
    return Spent(loss=max(one.loss, other.loss), reveals=max(one.reveals, other.reveals))


def replay(entries: Iterable[LedgerEntry], contents: Contents, state: State | None = None) -> State:
    """The state behind these entries, worked out from what they say, not from the balances that they carry.

    What was charged is noted in place, for a ledger has very many charges: ``state`` is used up.

    Args:
        entries: In order, each checked by whoever reads it; kinds that change no account are passed over.
        contents: Draws by their digest.
        state: Behind the entry before the first one.
    """
    stands = state or State()
    for entry in entries:
        if entry.kind in ("measure", "close", "refuse", "source"):
            stands = replace(stands, head=entry.head)
        else:
            stands = behind(stands, entry.head, entry.facts(), contents)
    return stands


def behind(state: State, head: Head, body: Body, contents: Contents) -> State:
    """What stands behind one entry that changes an account.

    Args:
        state: Behind the entry before; what was charged is noted in place, so that it is used up.
        head: The sequence number and hash of the entry.
        body: What it says.
        contents: Draws by their digest.
    """
    at, accounts = head.sequence, dict(state.accounts)
    if isinstance(body, AccountOpened):
        accounts[body.account] = _opened(accounts.get(body.account), body, at, head)
    elif isinstance(body, Reserved):
        for charge in body.charges:
            accounts[charge.facts.name] = _charged(_known(accounts, charge.facts.name), charge, at, head, contents)
    elif isinstance(body, Voided):
        paid = {name: stand for name, stand in accounts.items() if body.reservation in stand.charged}
        accounts |= {name: _given_back(stand, body.reservation, head) for name, stand in paid.items()}
    elif isinstance(body, Recovered):
        for name, spent in body.added.items():
            accounts[name] = _added(_known(accounts, name), spent, at, head)
        for balance in body.balances:  # windows and series are told there; a recovery can raise them, and no more
            stand = _known(accounts, balance.account)
            raised = higher(stand.balance, balance).model_copy(update={"spent": stand.balance.spent})
            accounts[balance.account] = replace(stand, balance=raised)
    elif isinstance(body, Incident):
        for each in body.corrected:
            accounts[each.account] = _corrected(_known(accounts, each.account), each, head, contents)
    for balance in body.balances if isinstance(body, Placed) else ():
        if balance.account in accounts:  # said once more here, so this is where it is found from now on
            accounts[balance.account] = replace(accounts[balance.account], head=head)
    place = (at, body) if isinstance(body, Placed) else state.place
    return State(head=head, books=at, place=place, accounts=accounts)


def _known(accounts: Mapping[str, Stand], name: str) -> Stand:
    if name not in accounts:
        raise Corrupt(f"account {name} is charged before it is opened", code="DPR-L303")
    return accounts[name]


def _corrected(stand: Stand, body: Corrected, head: Head, contents: Contents) -> Stand:
    paid = stand.charged.get(body.paid_by or body.reservation)
    charge = paid.charge if paid else None
    touched = [facts.window for facts in charge.windows] if charge else []
    windows = {name: stand.balance.windows.get(name, Spent()).plus(body.spent) for name in touched}
    update = {"spent": stand.balance.spent.plus(body.spent), "windows": {**stand.balance.windows, **windows}}
    stand.charged[body.reservation] = Paid(None if body.paid_by else charge, contents(body.digest))
    return replace(stand, balance=stand.balance.model_copy(update=update), head=head)


def _opened(past: Stand | None, body: AccountOpened, at: int, head: Head) -> Stand:
    balance = past.balance if past else Balance(account=body.account, opened=at)
    return Stand(
        account=body.terms,
        balance=spread_over(balance, body.spread).model_copy(update={"opened": at}),
        head=head,
        series=body.series,
        loss=body.loss,
        charged=past.charged if past else {},
    )


def _charged(stand: Stand, charge: Charged, at: int, head: Head, contents: Contents) -> Stand:
    events = charge.events if charge.events is not None else contents(charge.digest)
    if charge.spent is None:  # an entry of an older schema: the same sum, worked out now
        charge = charge.model_copy(update={"spent": spent_before(terms_of(stand.account), events)})
    stand.charged[at] = Paid(charge, events)
    balance = charged_balance(stand.balance, charge)  # not by `replace`, for a check does this for every release
    return Stand(stand.account, balance, head, stand.series, stand.loss, stand.charged)


def _given_back(stand: Stand, reservation: int, head: Head) -> Stand:
    charge = stand.charged.pop(reservation).charge
    balance = given_back(stand.balance, charge) if charge else stand.balance
    return replace(stand, balance=balance, head=head)


def _added(stand: Stand, spent: Spent, at: int, head: Head) -> Stand:
    event = as_event(terms_of(stand.account), spent)
    balance = stand.balance.model_copy(update={"spent": stand.balance.spent.plus(spent)})
    if event is not None:
        stand.charged[at] = Paid(None, event)
    return replace(stand, balance=balance, head=head)
