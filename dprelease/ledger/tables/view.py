"""Reading a ledger inside one transaction; nothing that is read is believed before its hash is checked.

A row of an index is looked up by two keys, which must find the same: one damaged byte cannot hide it from both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from dprelease.canonical import sha256
from dprelease.errors import Corrupt
from dprelease.ledger.model.entry import (
    RESTORE,
    AccountOpened,
    Closed,
    Kind,
    LedgerEntry,
    Placed,
    Recovered,
    Reserved,
    Sourced,
    StepMeasured,
)
from dprelease.ledger.model.history import Stand, State, replay
from dprelease.ledger.model.reservation import Reservation, SourcesRead, StepKey
from dprelease.ledger.model.store import Transaction, row_identity
from dprelease.noise import Measurement
from dprelease.plan.document import Head
from dprelease.privacy.event import Composed

__all__ = [
    "at",
    "entries_after",
    "events",
    "find",
    "hash_at",
    "head",
    "history",
    "kept_bytes",
    "measured_steps",
    "openings",
    "place",
    "plan_text",
    "replayed",
    "require_head",
    "reservations",
    "secret",
    "sources",
    "state",
    "stored",
    "was_planned",
    "whole_state",
    "with_plan",
]

_LOST = "the ledger is damaged: "
_STANDING = """
    SELECT r.sequence, e.sequence FROM reservations AS r LEFT JOIN endings AS e ON e.reservation = r.sequence
    WHERE {} AND (e.kind IS NULL OR e.kind <> 'void') ORDER BY r.sequence"""


def _entry(row: tuple[Any, ...]) -> LedgerEntry:
    sequence, previous, digest, kind, body = row
    # Not validated: what was altered must reach the check of the hashes. But a damaged page keeps no types.
    if type(sequence) is not int or not all(type(each) is str for each in (previous, digest, kind, body)):
        raise Corrupt(f"entry {sequence} of the ledger cannot be read", hint=RESTORE, code="DPR-L302")
    return LedgerEntry(sequence, previous, digest, cast(Kind, kind), body)


def head(rows: Transaction) -> Head:
    """Sequence number and hash of the last entry."""
    last = rows.execute("SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1")
    return Head(sequence=last[0][0], hash=last[0][1]) if last else Head()


def require_head(rows: Transaction) -> Head:
    """The head, after a look at it: the last entry is whole and in its place, and on a new connection none is missing.

    Raises:
        Corrupt: Names the entry.
    """
    newest = rows.execute("SELECT * FROM entries ORDER BY sequence DESC LIMIT 2")
    if not newest:
        return Head()
    last, before = _entry(newest[0]), _entry(newest[1]).head if len(newest) > 1 else Head()
    count = rows.execute("SELECT count(*) FROM entries")[0][0] if rows.fresh else last.sequence
    if not last.is_whole or not last.follows(before) or count != last.sequence:
        raise Corrupt(
            f"the ledger's chain is broken at its head, entry {last.sequence}",
            detail="`dprelease ledger check` names every entry that was altered",
            hint=RESTORE,
            code="DPR-L302",
        )
    return last.head


def at(rows: Transaction, sequence: int) -> LedgerEntry:
    """One entry, to which the next one is chained: whoever forged it with a good hash has not forged that alone.

    Raises:
        Corrupt: It is not there, or the next entry was chained to another one.
    """
    query = "SELECT * FROM entries WHERE sequence = ? OR sequence = ? ORDER BY sequence"
    matches = rows.execute(query, (sequence, sequence + 1)) if type(sequence) is int else []
    if not matches or matches[0][0] != sequence:
        raise Corrupt(f"entry {sequence} of the ledger is missing", hint=RESTORE, code="DPR-L302")
    found = _entry(matches[0])
    if len(matches) > 1 and matches[1][1] != found.hash:
        raise Corrupt(
            f"the ledger's chain is broken behind entry {sequence}",
            detail="`dprelease ledger check` names every entry that was altered",
            hint=RESTORE,
            code="DPR-L302",
        )
    return found


def state(rows: Transaction, last: Head | None = None) -> State:
    """What stands: from the head along the marks, a few entries however long the ledger is.

    Args:
        rows: The transaction.
        last: An earlier head; None: the last one.

    Raises:
        Corrupt: An entry on the way is not whole, or is not what the mark says.
    """
    last = last or head(rows)
    if not last.sequence:
        return State()
    books = _books(rows, last.sequence)
    if not books:
        return State(head=last)
    body = at(rows, books).facts()
    marks = getattr(body, "marks", None)
    if marks is None:
        raise Corrupt(f"entry {books} of the ledger says of no account what stands", hint=RESTORE, code="DPR-L303")
    accounts = {name: _stand(rows, name, sequence) for name, sequence in marks.heads.items()}
    place = None
    if marks.place:
        body_of_place = at(rows, marks.place).facts()
        if not isinstance(body_of_place, Placed):
            raise Corrupt(f"entry {marks.place} of the ledger does not say where it is", hint=RESTORE, code="DPR-L303")
        place = (marks.place, body_of_place)
    return State(head=last, books=books, place=place, accounts=accounts)


def hash_at(rows: Transaction, sequence: int) -> str:
    """The hash of an entry; empty where there is none."""
    matches = rows.execute("SELECT hash FROM entries WHERE sequence = ?", (sequence,))
    return str(matches[0][0]) if matches else ""


def place(rows: Transaction, last: Head) -> Placed | None:
    """What was last said of where the ledger is; None: nothing was."""
    if not last.sequence:
        return None
    books = _books(rows, last.sequence)
    marks = getattr(at(rows, books).facts(), "marks", None) if books else None
    body = at(rows, marks.place).facts() if marks and marks.place else None
    return body if isinstance(body, Placed) else None


def _books(rows: Transaction, sequence: int) -> int:
    body = at(rows, sequence).facts()
    books = getattr(body, "books", None)
    return sequence if books is None else int(books)


def _stand(rows: Transaction, name: str, sequence: int) -> Stand:
    entry = at(rows, sequence)
    body = entry.facts()
    balance = next((each for each in getattr(body, "balances", ()) if each.account == name), None)
    opened = at(rows, balance.opened).facts() if balance else None
    if balance is None or not isinstance(opened, AccountOpened) or opened.account != name:
        raise Corrupt(f"entry {sequence} of the ledger has no balance of account {name}", hint=RESTORE, code="DPR-L303")
    return Stand(account=opened.terms, balance=balance, head=entry.head, series=opened.series, loss=opened.loss)


def openings(rows: Transaction, account: str) -> tuple[tuple[int, AccountOpened], ...]:
    """The entries that opened an account or changed its caps, back along what each of them replaces."""
    stand = state(rows).accounts.get(account)
    entries: list[tuple[int, AccountOpened]] = []
    sequence = stand.balance.opened if stand else None
    while sequence is not None:
        body = at(rows, sequence).facts()
        if not isinstance(body, AccountOpened) or body.account != account:
            raise Corrupt(f"entry {sequence} of the ledger does not open account {account}", hint=RESTORE)
        entries.append((sequence, body))
        sequence = body.replaces
    return tuple(reversed(entries))


def kept_bytes(rows: Transaction, digest: str) -> bytes:
    """The bytes that are kept under a digest.

    Raises:
        Corrupt: They are missing, or are others.
    """
    payloads = rows.execute("SELECT payload FROM contents WHERE digest = ?", (digest,))
    if not payloads or sha256(bytes(payloads[0][0])) != digest:
        what = "was altered" if payloads else "is missing"
        raise Corrupt(f"{_LOST}what it keeps as {digest[:16]} {what}", hint=RESTORE, code="DPR-L304")
    return bytes(payloads[0][0])


def events(rows: Transaction, known: dict[str, Composed], digest: str) -> Composed:
    """The draws that are kept under a digest; ``known`` remembers them, for series of releases share theirs."""
    if digest not in known:
        known[digest] = Composed.from_canonical(kept_bytes(rows, digest))
    return known[digest]


def entries_after(rows: Transaction, after: int, size: int) -> list[LedgerEntry]:
    """At most ``size`` entries behind a sequence number."""
    query = "SELECT * FROM entries WHERE sequence > ? ORDER BY sequence LIMIT ?"
    return [_entry(row) for row in rows.execute(query, (after, size))]


def replayed(rows: Transaction) -> State:
    """What stands, with everything ever charged, from all entries and from nothing that they say of balances."""
    known: dict[str, Composed] = {}
    query = """
        SELECT * FROM entries WHERE kind IN ('open', 'reserve', 'void', 'anchor', 'recover', 'incident')
        ORDER BY sequence"""
    stands = replay(map(_entry, rows.execute(query)), lambda digest: events(rows, known, digest))
    return replace(stands, head=head(rows))


def whole_state(rows: Transaction) -> State:
    """What stands, with everything ever charged, held against the balances in the entries.

    Raises:
        Corrupt: The sums and the balances differ.
    """
    summed, quick = replayed(rows), state(rows)
    for name, stand in summed.accounts.items():
        other = quick.accounts.get(name)
        if quick.books and (other is None or (other.balance, other.head) != (stand.balance, stand.head)):
            raise Corrupt(f"{_LOST}the balance of account {name} is not the sum of its charges", hint=RESTORE)
    return summed


def find(rows: Transaction, release: str, period: str) -> Reservation | None:
    """The last reservation of a release and period that was not given back."""
    standing = _standing(rows, release, period)
    return _reservation(rows, *standing[-1]) if standing else None


def history(rows: Transaction, release: str, period: str) -> tuple[Reservation, ...]:
    """Every reservation of a release and period that was not given back, in ledger order."""
    return tuple(_reservation(rows, *row) for row in _standing(rows, release, period))


def _standing(rows: Transaction, release: str, period: str) -> list[tuple[Any, ...]]:
    by_name = rows.execute(_STANDING.format("r.release = ? AND r.period = ?"), (release, period))
    by_identity = rows.execute(_STANDING.format("r.identity = ?"), (row_identity(release, period),))
    if by_name != by_identity:
        raise Corrupt(f"{_LOST}the index of {release} {period} contradicts itself", hint=RESTORE, code="DPR-L302")
    return by_name


def reservations(rows: Transaction) -> tuple[Reservation, ...]:
    """Every reservation that was not given back, in ledger order."""
    return tuple(_reservation(rows, *row) for row in rows.execute(_STANDING.format("true")))


def _reservation(rows: Transaction, sequence: int, ending: int | None) -> Reservation:
    entry = at(rows, sequence)
    body = entry.facts()
    if isinstance(body, Recovered) and ending == sequence:
        return Reservation(
            release=body.release,
            period=body.period,
            plan_fingerprint=body.plan,
            spec_fingerprint="",
            sequence=sequence,
            hash=entry.hash,
            reserved_at=body.at,
            reserved_by=body.by,
            environment={},
            state="lost",
            accounts=(),
            manifest=body.manifest or None,
            ended=body.why,
        )
    closed = at(rows, ending).facts() if ending is not None else None
    given_up = isinstance(closed, Recovered) or (isinstance(closed, Closed) and bool(closed.gave_up))
    if not isinstance(body, Reserved) or not (closed is None or isinstance(closed, Closed | Recovered)):
        raise Corrupt(f"the index of reservation {sequence} does not fit the entries", hint=RESTORE, code="DPR-L302")
    return Reservation(
        release=body.release,
        period=body.period,
        plan_fingerprint=body.plan_fingerprint,
        spec_fingerprint=body.spec_fingerprint,
        sequence=entry.sequence,
        hash=entry.hash,
        reserved_at=body.at,
        reserved_by=body.by,
        environment=body.environment,
        state="given_up" if given_up else "closed" if closed else "open",
        accounts=tuple(charge.facts for charge in body.charges),
        windows=tuple(facts for charge in body.charges for facts in charge.further),
        manifest=(closed.manifest or None) if isinstance(closed, Closed | Recovered) else None,
        ended=(closed.gave_up or "") if isinstance(closed, Closed) else closed.why if closed else "",
        restates=body.restates,
        reason=body.reason,
        revision=body.revision,
        approvals=body.approvals,
    )


def was_planned(rows: Transaction, release: str, period: str, plan: str) -> bool:
    """Whether this plan was ever reserved for this release and period, and not given back."""
    query = """
        SELECT 1 FROM reservations AS r LEFT JOIN endings AS e ON e.reservation = r.sequence
        WHERE r.release = ? AND r.period = ? AND r.plan = ? AND (e.kind IS NULL OR e.kind <> 'void')"""
    return bool(rows.execute(query, (release, period, plan)))


def with_plan(rows: Transaction, reservation: Reservation) -> Reservation:
    """The reservation with its plan, and with what was accepted of its data; a lost one has neither."""
    if reservation.state == "lost":
        return reservation
    read = sources(rows, reservation.sequence)
    text = plan_text(rows, reservation.sequence, reservation.plan_fingerprint)
    return reservation.model_copy(update={"plan": text, "accepted": read.accepted if read else ()})


def plan_text(rows: Transaction, sequence: int, mark: str) -> str:
    """The canonical JSON of the plan of a reservation, checked against its fingerprint.

    Raises:
        Corrupt: It is missing or altered.
    """
    body = at(rows, sequence).facts()
    if isinstance(body, Reserved) and body.plan:  # an entry of an older schema
        return body.plan
    return kept_bytes(rows, mark).decode()


def sources(rows: Transaction, reservation: int) -> SourcesRead | None:
    """What was last fingerprinted for a reservation; None where nothing was read for it."""
    query = "SELECT sequence FROM sources WHERE reservation = ? ORDER BY sequence"
    facts = [at(rows, row[0]).facts() for row in rows.execute(query, (reservation,))]
    bodies = [body for body in facts if isinstance(body, Sourced) and body.reservation == reservation]
    if len(bodies) != len(facts):
        raise Corrupt(f"{_LOST}the index of sources does not fit the entries", hint=RESTORE, code="DPR-L302")
    if not bodies:
        return None
    accepted = tuple(body.accepted for body in bodies if body.accepted)
    return SourcesRead(tables=bodies[-1].tables, key=bodies[-1].key, accepted=accepted)


def secret(rows: Transaction, reservation: int) -> bytes | None:
    """The random bytes of an open reservation; None where they were not made yet."""
    secrets = rows.execute("SELECT secret FROM secrets WHERE reservation = ?", (reservation,))
    return bytes(secrets[0][0]) if secrets else None


def measured_steps(rows: Transaction, release: str, period: str, plan: str) -> frozenset[str]:
    """The steps of a plan that have a measurement."""
    query = "SELECT step FROM measurements WHERE release = ? AND period = ? AND plan = ?"
    return frozenset(str(row[0]) for row in rows.execute(query, (release, period, plan)))


def stored(rows: Transaction, key: StepKey) -> tuple[int, Measurement] | None:
    """The entry and the committed measurement of a step, checked against it.

    Raises:
        Corrupt: The bytes are not what the entry says, or an index contradicts itself; never a reason to draw again.
    """
    names = (key.release, key.period, key.plan, key.step)
    query = "SELECT sequence, digest FROM measurements WHERE "
    by_name = rows.execute(f"{query} release = ? AND period = ? AND plan = ? AND step = ?", names)
    by_identity = rows.execute(f"{query} identity = ?", (row_identity(*names),))
    if by_name != by_identity:
        raise _altered(key, "is hidden: its index contradicts itself")
    if not by_name:
        return None
    sequence, digest = by_name[0]
    body = at(rows, sequence).facts()
    same = isinstance(body, StepMeasured) and (body.release, body.period, body.plan, body.step) == names
    if not same or not isinstance(body, StepMeasured) or body.digest != digest:
        raise _altered(key, f"is not what entry {sequence} says")
    payload = rows.execute("SELECT payload FROM contents WHERE digest = ?", (digest,))
    if not payload or sha256(bytes(payload[0][0])) != digest:
        raise _altered(
            key, f"was altered since entry {sequence}" if payload else f"is missing; entry {sequence} has it"
        )
    return sequence, Measurement.from_bytes(bytes(payload[0][0]))


def _altered(key: StepKey, how: str) -> Corrupt:
    return Corrupt(f"the measurement of {key} {how}", hint=f"it is never drawn again; {RESTORE}", code="DPR-L304")
