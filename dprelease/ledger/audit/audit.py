"""The full check of a ledger: chain, balances, reservations, measurements. It works everything out again.

What stands is added up from the charges, not read from the balances; what a release costs is derived from its plan,
not read from its charges. A ledger that was forged with good hashes must still add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring as _quoted
from typing import Any, Protocol, cast

from pydantic import ValidationError

from dprelease.canonical import sha256
from dprelease.errors import DpReleaseError
from dprelease.ledger.audit.memo import Memo, is_canonical, totals_of
from dprelease.ledger.audit.quick import PlainEntry, plain_entry, quick_reserved
from dprelease.ledger.model.balance import Balance, Charged, terms_of
from dprelease.ledger.model.entry import (
    AccountChange,
    AccountOpened,
    Anchored,
    Body,
    Closed,
    Incident,
    Kind,
    LedgerEntry,
    Recovered,
    Refused,
    ReleaseEvent,
    Reserved,
    Sourced,
    StepMeasured,
    Voided,
)
from dprelease.ledger.model.history import State, behind, events_digest
from dprelease.ledger.model.lifecycle import STATES, Past, misfit
from dprelease.ledger.model.store import row_identity
from dprelease.ledger.tables.plans import Planned, Plans
from dprelease.ledger.tables.windowed import Seen, promise
from dprelease.plan.document import Head
from dprelease.privacy.event import Composed

__all__ = ["Contents", "EntryRow", "Index", "audit"]

EntryRow = tuple[int, str, str, str, str]  # an entry: sequence, previous, hash, kind, text
Name = tuple[str, str, str]  # release, period, plan


@dataclass(frozen=True)
class Index:
    """What a store keeps beside the entries, by the sequence number of their entry.

    Attributes:
        reserved: Release, period, plan, the reservation that it restates, and the second key.
        ended: Reservation and kind of ending.
        sourced: Reservation.
        measured: Release, period, plan, step, digest, and the second key.
    """

    reserved: Mapping[int, tuple[Any, ...]]
    ended: Mapping[int, tuple[Any, ...]]
    sourced: Mapping[int, tuple[Any, ...]]
    measured: Mapping[int, tuple[Any, ...]]


class Contents(Protocol):
    """What is kept by digest; a look-up raises `Corrupt` where it is missing or altered."""

    def plan(self, digest: str) -> Planned:
        """Bytes that are a plan; ``ValidationError`` where they are none."""

    def events(self, digest: str) -> Composed:
        """Bytes that are draws."""

    def cells(self, digest: str) -> int | None:
        """How many numbers the measurement has that is kept as this; None where that is not to be told."""


@dataclass
class _Reservation:
    name: Name
    cells: Mapping[str, int | None]
    restates: int | None = None
    revision: int = 0
    measured: dict[str, int] = field(default_factory=dict)
    cut: tuple[tuple[str, ...], ...] = ()
    read: bool = False
    ended: str | None = None


@dataclass
class _Walked:
    """What the walk over the entries has learned so far."""

    contents: Contents
    memo: Memo = field(default_factory=Memo)
    plans: Plans = field(default_factory=Plans)
    findings: list[str] = field(default_factory=list)
    state: State = field(default_factory=State)
    reservations: dict[int, _Reservation] = field(default_factory=dict)
    live: dict[tuple[str, str], int] = field(default_factory=dict)
    planned: set[Name] = field(default_factory=set)
    sources: dict[int, tuple[int]] = field(default_factory=dict)
    endings: dict[int, tuple[int, str]] = field(default_factory=dict)
    steps: dict[int, tuple[str, ...]] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)

    def say(self, sequence: int, what: str) -> None:
        self.findings.append(f"entry {sequence}: {what}")


def audit(lines: Iterable[EntryRow], index: Index, contents: Contents) -> list[str]:
    """Every finding about these entries and what is kept beside them."""
    walked, last, chained = _Walked(contents), 0, ""
    for at, previous, digest, kind, text in lines:
        if at != last + 1 or previous != chained:
            walked.say(at, f"the chain is broken: it does not follow entry {last}")
        # The hash of an entry, as `LedgerEntry` has it.
        if digest != sha256(f"[{at},{_quoted(previous)},{_quoted(kind)},{_quoted(text)}]".encode()):
            walked.say(at, "its hash is not the hash of its content: it was altered")
        last, chained = at, digest
        try:
            if (plain := plain_entry(kind, text)) is not None:
                _check_books(walked, at, plain.books)
                _PLAIN[plain.kind](walked, at, plain)
            else:
                _walk(walked, Head.of_checked({"sequence": at, "hash": digest}), kind, text)
        except DpReleaseError as error:
            walked.say(at, error.summary)
        except (ValidationError, ValueError, KeyError, TypeError):
            walked.say(at, f"it is not a readable `{kind}` entry")
    for at, problem in walked.seen.left(walked.state.accounts):
        walked.say(at, problem)
    _check_index(walked, index)
    return walked.findings


def _walk(walked: _Walked, head: Head, kind: str, text: str) -> None:
    at, before = head.sequence, walked.state
    body = _body(walked, head, kind, text)
    if isinstance(body, ReleaseEvent):
        _check_books(walked, at, body.books)
    match body:
        case AccountOpened():
            _open(walked, at, body)
        case Reserved():
            _reserve(walked, at, body)
        case Sourced():
            _source(walked, at, body)
        case StepMeasured():
            _measure(walked, at, body)
        case Closed() | Voided():
            _end(walked, at, body)
        case Recovered():
            _recover(walked, at, body)
        case Anchored() | Incident() | Refused():
            pass
    if isinstance(body, AccountChange):
        for problem in walked.seen.follow(at, body, before.accounts):
            walked.say(at, problem)
        walked.state = behind(before, head, body, walked.contents.events)
        _check_balances(walked, at, body)


def _body(walked: _Walked, head: Head, kind: str, text: str) -> Body:
    if kind == "reserve" and (reserved := quick_reserved(text)) is not None:
        return reserved
    if not is_canonical(text):
        walked.say(head.sequence, "its text is not canonical")
    return LedgerEntry(head.sequence, "", head.hash, cast(Kind, kind), text).unchecked_facts()


def _check_books(walked: _Walked, at: int, books: int) -> None:
    """An entry that changes no account points at the last one that did; that one, at the last one of each account."""
    if books != walked.state.books and (books or walked.state.place):
        walked.say(at, "it does not say where the last entry is that changed an account")


def _check_balances(walked: _Walked, at: int, body: AccountChange) -> None:
    marks, balances = body.marks, body.balances
    if marks is None:
        if walked.state.place is not None:
            walked.say(at, "it does not say what stands behind it")
        return
    heads = {name: stand.head.sequence for name, stand in walked.state.accounts.items()}
    place = walked.state.place[0] if walked.state.place else 0
    if (marks.heads, marks.place) != (heads, place):
        walked.say(at, "it does not say where what stands is found")
    for balance in balances:
        stand = walked.state.accounts.get(balance.account)
        if stand is None or _plain(stand.balance) != _plain(balance):
            walked.say(at, f"the balance of account {balance.account} is not what its charges add up to")
    changed = {name for name, sequence in heads.items() if sequence == at}
    if changed != {balance.account for balance in balances}:
        walked.say(at, "it does not carry the balances of the accounts that it changes")


def _plain(balance: Balance) -> Balance:
    if all(balance.series.values()):
        return balance
    series = {digest: taken for digest, taken in balance.series.items() if taken}
    return balance.model_copy(update={"series": series})


def _open(walked: _Walked, at: int, body: AccountOpened) -> None:
    name, stand = body.account, walked.state.accounts.get(body.account)
    if body.replaces != (stand.balance.opened if stand else None):
        walked.say(at, f"account {name} is opened twice, or replaces an entry that is not its last one")
    if stand and promise(stand.account, body.terms) != promise(body.terms, body.terms):
        walked.say(at, f"account {name} changes its unit, relation or composition")
    if stand and stand.series and stand.series != body.series:
        walked.say(at, f"account {name} changes its series")


def _reserve(walked: _Walked, at: int, body: Reserved) -> None:
    key, name = (body.release, body.period), (body.release, body.period, body.plan_fingerprint)
    last = walked.live.get(key)
    if last is not None and walked.reservations[last].ended is None:
        walked.say(at, f"{body.release} {body.period} is already reserved by entry {last}")
    elif last != body.restates:
        walked.say(at, f"{body.release} {body.period} replaces entry {body.restates}, and the last one is {last}")
    if name in walked.planned:
        walked.say(at, f"{body.release} {body.period} was reserved with this very plan before")
    plan = _plan(walked, at, body)
    cells = plan.cells if plan else {}
    walked.reservations[at] = _Reservation(name, cells, body.restates, body.revision, cut=plan.cut if plan else ())
    walked.live[key] = at
    walked.planned.add(name)
    walked.seen.reserved(at, body, plan, walked.state.accounts)
    again = plan.again if plan is not None and plan.series and body.restates is not None else {}
    for charge in body.charges:
        _charge(walked, at, charge, (body.period, *again.get(charge.facts.name, ())))


def _revise(walked: _Walked, at: int, body: Reserved, plan: Planned) -> None:
    """A planned revision costs nothing: is it one that was paid for?"""
    number, last = plan.revision, walked.live.get((body.release, body.period))
    if body.revision != number:
        walked.say(at, "it is another revision than its plan")
    past: list[Past] = []
    while number and last is not None:
        base = walked.reservations[last]
        past.insert(0, Past(base.name[2], STATES[base.ended], base.revision))
        last = base.restates
    if number and (wrong := misfit(past, plan.first, number, plan.revisions)):
        walked.say(at, wrong)


def _plan(walked: _Walked, at: int, body: Reserved) -> Planned | None:
    try:
        plan = walked.plans.read(body.plan) if body.plan else walked.contents.plan(body.plan_fingerprint)
    except ValidationError:
        walked.say(at, "its plan cannot be read by this version of dprelease")
        return None
    names = (body.release, body.period, body.spec_fingerprint)
    if names != plan.name or (body.plan and sha256(body.plan.encode()) != body.plan_fingerprint):
        walked.say(at, "its plan is of another release, spec or fingerprint")
    charged = {c.facts.name: events_digest(c.events) if c.events else c.digest for c in body.charges}
    if not plan.fits(charged, body.mended):
        walked.say(at, "the charges are not what the plan costs")
    for problem in plan.unfit(stand.account for stand in walked.state.accounts.values()):
        walked.say(at, f"its plan cannot be charged by stretches of time: {problem}")
    _revise(walked, at, body, plan)
    return plan


def _charge(walked: _Walked, at: int, charge: Charged, periods: Sequence[str]) -> None:
    name = charge.facts.name
    stand = walked.state.accounts.get(name)
    if stand is None:
        walked.say(at, f"account {name} is charged before it is opened")
        return
    if stand.account.composition == "pld":
        taken = stand.balance.series.get(charge.digest, 0)
        if taken >= sum(slot.times for slot in stand.series if slot.digest == charge.digest):
            walked.say(at, f"account {name} is charged outside its series")
        return
    events = charge.events if charge.events else walked.contents.events(charge.digest)
    terms, worked = terms_of(stand.account), walked.memo
    price = worked.price(terms, charge.digest or events_digest(events), events, charge.spent)
    if charge.spent is not price and charge.spent is not None:
        walked.say(at, f"what is added to account {name} is not what its draws cost")
    if tuple(facts.window for facts in charge.windows) != stand.account.stretches(*periods):
        walked.say(at, f"account {name} is not charged to what the period {', and so '.join(periods)} touches")
        return
    for facts, totals in totals_of(stand.account, stand.balance, charge, price):
        before, after = (terms, totals[0], facts.before, facts.cap), (terms, totals[1], facts.after, facts.cap)
        same = (facts.name, facts.composition) == (name, terms.composition)
        same = same and worked.agreed((name, facts.window), before, after)
        if not same:
            walked.say(at, f"the losses of account {name} do not add up")
        loss = facts.after if same else worked.loss(terms, totals[1], facts.cap.delta)
        windowed = facts.window and stand.account.window is not None
        caps = [facts.cap] if windowed or facts.cap == stand.account.lifetime else [facts.cap, stand.account.lifetime]
        if not all(worked.inside(terms, totals[1], loss, cap) for cap in caps):
            walked.say(at, f"account {name} is charged more than its cap")


def _source(walked: _Walked, at: int, body: Sourced | PlainEntry) -> None:
    if not body.reservation:  # a look: it belongs to no release
        if body.accepted:
            walked.say(at, f"a look at {body.release} {body.period} has accepted data")
        return
    live = walked.reservations.get(body.reservation)
    if live is None or live.ended or live.name != (body.release, body.period, body.plan):
        walked.say(at, f"{body.release} {body.period} is read without an open reservation")
        return
    if live.read and not body.accepted:
        walked.say(at, f"{body.release} {body.period} is read anew, and nobody accepted that")
    if live.read and live.cut and any(0 < len(live.measured.keys() & pieces) < len(pieces) for pieces in live.cut):
        walked.say(at, f"{body.release} {body.period} is read anew between the pieces of one step")
    live.read = True
    walked.sources[at] = (body.reservation,)


def _measure(walked: _Walked, at: int, body: StepMeasured | PlainEntry) -> None:
    release, period, plan = body.release, body.period, body.plan
    step, cells, digest = body.step, body.cells, body.digest
    walked.steps[at] = (release, period, plan, step, digest, row_identity(release, period, plan, step))
    live = walked.reservations.get(walked.live.get((release, period), 0))
    if live is None or live.ended or live.name[2] != plan:
        walked.say(at, f"step {step} of {release} {period} is measured without an open reservation")
        return
    if step not in live.cells or live.cells[step] not in (None, cells):
        walked.say(at, f"step {step} of {release} {period} is not a step of the reserved plan")
    if walked.contents.cells(digest) not in (None, cells):
        walked.say(at, f"the measurement of step {step} is of another step or shape")
    if step in live.measured:
        walked.say(at, f"step {step} of {release} {period} is measured twice")
    live.measured[step] = at


def _end(walked: _Walked, at: int, body: Closed | Voided | PlainEntry) -> None:
    name = f"{body.release} {body.period}"
    kind = "void" if isinstance(body, Voided) else "give_up" if body.gave_up else "close"
    walked.endings[at] = (body.reservation, kind)
    live = walked.reservations.get(body.reservation)
    key = (body.release, body.period)
    if live is None or live.ended or live.name != (*key, body.plan) or walked.live.get(key) != body.reservation:
        walked.say(at, f"{name} ends without an open reservation")
        return
    live.ended = kind
    if kind != "void":
        for step in sorted(live.cells.keys() - live.measured) if kind == "close" else ():
            walked.say(at, f"{name} is closed and its step {step} has no measurement")
        return
    if live.measured or live.read:
        walked.say(at, f"{name} is given back after it was read or measured")
    walked.planned.discard(live.name)
    if live.restates is None:
        del walked.live[key]
    else:
        walked.live[key] = live.restates


_PLAIN = {"measure": _measure, "source": _source, "close": _end}


def _recover(walked: _Walked, at: int, body: Recovered) -> None:
    if body.release:
        name = (body.release, body.period, body.plan)
        last = walked.live.get(name[:2])
        reservation = walked.reservations.get(last or 0)
        if reservation is not None and last is not None and reservation.ended is None:  # it was open, and ends here
            if reservation.name != name:
                walked.say(at, f"{body.release} {body.period} ends without an open reservation")
            reservation.ended = "give_up"
            walked.endings[at] = (last, "give_up")
            return
        if name in walked.planned:
            walked.say(at, f"{body.release} {body.period} is lost here, and was reserved with this very plan before")
        walked.reservations[at] = _Reservation(name, {}, last, ended="give_up")
        walked.live[name[:2]] = at
        walked.planned.add(name)
        walked.endings[at] = (at, "give_up")


def _check_index(walked: _Walked, index: Index) -> None:
    reserved = {
        at: (*each.name, each.restates, row_identity(*each.name[:2])) for at, each in walked.reservations.items()
    }
    _compare(walked, "reservations", reserved, index.reserved)
    _compare(walked, "endings", walked.endings, index.ended)
    _compare(walked, "sources", walked.sources, index.sourced)
    _compare(walked, "measurements", walked.steps, index.measured)


def _compare(walked: _Walked, table: str, expected: Mapping[int, object], actual: Mapping[int, object]) -> None:
    if expected == actual:
        return
    # A damaged page keeps no types: what is no number comes last.
    every = expected.keys() | actual.keys()
    for sequence in sorted(every, key=lambda at: (type(at) is not int, at if type(at) is int else 0)):
        if expected.get(sequence) != actual.get(sequence):
            lost = "is missing" if sequence not in actual else "is an orphan" if sequence not in expected else "differs"
            walked.say(sequence, f"its row in the table `{table}` {lost}")
