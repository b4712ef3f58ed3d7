"""The full check of a ledger: chain, measurements, reservations, sums. Pure: it reads what a store hands it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import assert_never

from pydantic import ValidationError

from dprelease.canonical import sha256
from dprelease.errors import Corrupt, DpReleaseError
from dprelease.ledger.base import StepKey
from dprelease.ledger.entry import AccountFacts, Charged, Closed, Entry, Measured, Opened, Refused, Reserved, Voided
from dprelease.ledger.history import exceeded, price
from dprelease.noise import Measurement
from dprelease.plan.document import Account, Head, ReleasePlan
from dprelease.privacy.accountants.base import Atoms, atoms
from dprelease.privacy.event import Event, Repeated

__all__ = ["Index", "StoredRow", "audit"]


# A conversion searches its order in floats, so another machine may prove a bound that differs far behind the point.
_SLACK = Fraction(1, 10**9)


@dataclass(frozen=True)
class StoredRow:
    """A measurement as it lies in the store, unchecked."""

    key: StepKey
    sequence: int
    digest: str
    payload: bytes


@dataclass(frozen=True)
class Index:
    """What a store keeps beside the entries, by the sequence number of their entry.

    Attributes:
        reserved: Release, period and plan fingerprint of each reservation.
        ended: Reservation entry and kind (``close`` or ``void``) of each ending.
    """

    reserved: Mapping[int, tuple[str, str, str]]
    ended: Mapping[int, tuple[int, str]]


@dataclass
class _Reservation:
    body: Reserved
    cells: Mapping[str, int | None]
    measured: set[str] = field(default_factory=set)
    ended: str | None = None


@dataclass
class _Book:
    """What the walk over the entries has learned so far."""

    found: list[str] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=dict)
    opened: dict[str, int] = field(default_factory=dict)
    spent: dict[str, Atoms] = field(default_factory=dict)
    reservations: dict[int, _Reservation] = field(default_factory=dict)
    live: dict[tuple[str, str], int] = field(default_factory=dict)
    measures: dict[int, Measured] = field(default_factory=dict)
    endings: dict[int, tuple[int, str]] = field(default_factory=dict)

    def say(self, sequence: int, what: str) -> None:
        self.found.append(f"entry {sequence}: {what}")


def audit(entries: Iterable[Entry], rows: Iterable[StoredRow], index: Index) -> list[str]:
    """Every finding, one line each, in the order of the entries; empty: the ledger is sound."""
    book, head = _Book(), Head()
    for entry in entries:
        if not entry.follows(head):
            book.say(entry.sequence, f"the chain is broken: it does not follow entry {head.sequence}")
        if not entry.is_whole:
            book.say(entry.sequence, "its hash is not the hash of its content: it was altered")
        head = entry.head
        _walk(book, entry)
    _check_rows(book, rows)
    _check_index(book, index)
    return book.found


def _walk(book: _Book, entry: Entry) -> None:
    at = entry.sequence
    try:
        body = entry.unchecked_facts()
        if body.canonical() != entry.text:
            book.say(at, "its text is not canonical")
        match body:
            case Opened():
                _open(book, at, body)
            case Reserved():
                _reserve(book, at, body)
            case Measured():
                _measure(book, at, body)
            case Closed() | Voided():
                _end(book, at, body)
            case Refused():
                pass  # charged nothing, so nothing adds up to it
            case _:
                assert_never(body)
    except DpReleaseError as error:
        book.say(at, error.summary)


def _open(book: _Book, at: int, body: Opened) -> None:
    name, account = body.account, body.terms
    before = book.accounts.get(name)
    if body.replaces != book.opened.get(name):
        book.say(at, f"account {name} is opened twice, or replaces an entry that is not its last one")
    if before and before.model_copy(update={"lifetime": body.cap}) != account:
        book.say(at, f"account {name} changes its unit, relation or composition")
    book.accounts[name], book.opened[name] = account, at
    book.spent.setdefault(name, Counter())


def _reserve(book: _Book, at: int, body: Reserved) -> None:
    identity = (body.release, body.period)
    if identity in book.live:
        book.say(at, f"{body.release} {body.period} is already reserved by entry {book.live[identity]}")
    book.live[identity] = at
    plan = _plan(book, at, body)
    cells = {step.id: step.numbers for step in plan.steps} if plan else {}
    book.reservations[at] = _Reservation(body, cells)
    if plan:
        owed = {plan.catalog.tables[step.aggregate.table].account for step in plan.steps}
        costs = {name: plan.event_of(name) for name in owed}
        if costs != {charge.facts.name: charge.events for charge in body.charges}:
            book.say(at, "the charges are not what the plan costs")
    for charge in body.charges:
        _charge(book, at, charge)


def _plan(book: _Book, at: int, body: Reserved) -> ReleasePlan | None:
    try:
        plan = ReleasePlan.from_canonical(body.plan)
    except ValidationError:
        book.say(at, "its plan cannot be read by this version of dprelease")
        return None
    told = (body.release, body.period, body.spec_fingerprint, body.plan_fingerprint)
    digest = sha256(body.plan.encode())
    if told != (plan.release.name, plan.release.period, plan.spec_fingerprint, digest):
        book.say(at, "its plan is of another release, spec or fingerprint")
    return plan


def _charge(book: _Book, at: int, charge: Charged) -> None:
    name = charge.facts.name
    account = book.accounts.get(name)
    if account is None:
        book.say(at, f"account {name} is charged before it is opened")
        return
    spent = book.spent[name]
    before = _events(spent)
    if not _agree(charge.facts, price(account, before, charge.events, charge.facts.cap)):
        book.say(at, f"the losses of account {name} do not add up")
    spent.update(atoms(charge.events))
    for cap in (charge.facts.cap, account.lifetime):
        if exceeded(account, _events(spent), cap, _SLACK):
            book.say(at, f"account {name} is charged more than its cap")
            break


def _agree(told: AccountFacts, found: AccountFacts) -> bool:
    pairs = ((told.before, found.before), (told.after, found.after))
    return (told.name, told.composition) == (found.name, found.composition) and all(
        a.delta == b.delta and abs(a.epsilon - b.epsilon) <= _SLACK * b.epsilon for a, b in pairs
    )


def _events(spent: Atoms) -> tuple[Event, ...]:
    return tuple(Repeated(event=atom, count=n) for atom, n in spent.items() if n > 0)


def _measure(book: _Book, at: int, body: Measured) -> None:
    book.measures[at] = body
    found = book.reservations.get(book.live.get((body.release, body.period), 0))
    if found is None or found.ended or found.body.plan_fingerprint != body.plan:
        book.say(at, f"step {body.step} of {body.release} {body.period} is measured without an open reservation")
        return
    if body.step not in found.cells or found.cells[body.step] not in (None, body.cells):
        book.say(at, f"step {body.step} of {body.release} {body.period} is not a step of the reserved plan")
    if body.step in found.measured:
        book.say(at, f"step {body.step} of {body.release} {body.period} is measured twice")
    found.measured.add(body.step)


def _end(book: _Book, at: int, body: Closed | Voided) -> None:
    name = f"{body.release} {body.period}"
    book.endings[at] = (body.reservation, body.kind)
    found = book.reservations.get(body.reservation)
    live = book.live.get((body.release, body.period))
    if found is None or live != body.reservation or found.ended or found.body.plan_fingerprint != body.plan:
        book.say(at, f"{name} ends without an open reservation")
        return
    found.ended = body.kind
    if isinstance(body, Closed):
        for step in sorted(found.cells.keys() - found.measured):
            book.say(at, f"{name} is closed and its step {step} has no measurement")
        return
    if found.measured:
        book.say(at, f"{name} is given back after it was measured")
    del book.live[(body.release, body.period)]
    for charge in found.body.charges:
        if charge.facts.name in book.spent:
            book.spent[charge.facts.name].subtract(atoms(charge.events))


def _check_rows(book: _Book, rows: Iterable[StoredRow]) -> None:
    seen = set()
    for row in rows:
        body = book.measures.get(row.sequence)
        told = body and StepKey(body.release, body.period, body.plan, body.step)
        if body is None or told != row.key:
            book.say(row.sequence, f"the measurement of {row.key} is an orphan: this entry does not tell of it")
            continue
        seen.add(row.sequence)
        if not (sha256(row.payload) == row.digest == body.digest):
            book.say(row.sequence, f"the measurement of {row.key} was altered")
        else:
            _check_payload(book, row, body)
    for sequence in sorted(book.measures.keys() - seen):
        book.say(sequence, f"the measurement of step {book.measures[sequence].step} is missing")


def _check_payload(book: _Book, row: StoredRow, body: Measured) -> None:
    try:
        measurement = Measurement.from_bytes(row.payload)
    except Corrupt as error:
        book.say(row.sequence, error.summary)
        return
    if (measurement.step, len(measurement.values)) != (body.step, body.cells):
        book.say(row.sequence, f"the measurement of {row.key} is of another step or shape")


def _check_index(book: _Book, index: Index) -> None:
    reserved = {
        at: (each.body.release, each.body.period, each.body.plan_fingerprint) for at, each in book.reservations.items()
    }
    _compare(book, "reservations", reserved, index.reserved)
    _compare(book, "endings", book.endings, index.ended)


def _compare(book: _Book, table: str, expected: Mapping[int, object], actual: Mapping[int, object]) -> None:
    for sequence in sorted(expected.keys() | actual.keys()):
        if expected.get(sequence) != actual.get(sequence):
            book.say(sequence, f"the table `{table}` does not say what this entry says")
