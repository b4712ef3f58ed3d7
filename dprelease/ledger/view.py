"""Reading a SQLite ledger inside one transaction; nothing that is read is believed before its hash is checked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from dprelease.canonical import dumps, sha256
from dprelease.errors import Corrupt
from dprelease.ledger.audit import Index, StoredRow
from dprelease.ledger.base import Reservation, StepKey
from dprelease.ledger.entry import RESTORE, Closed, Entry, Kind, Measured, Reserved
from dprelease.ledger.history import History, replay
from dprelease.ledger.schema import create, objects
from dprelease.noise import Measurement
from dprelease.plan.document import Head

__all__ = [
    "all_entries",
    "find",
    "has_measure_entries",
    "head",
    "history",
    "index",
    "measured",
    "open_reservation",
    "page",
    "require_head",
    "reservations",
    "storage_findings",
    "stored",
    "stored_rows",
]

_Row = tuple[int, str, str, Kind, str]


def _entry(row: _Row) -> Entry:
    sequence, previous, digest, kind, body = row
    # Not validated: what was altered must reach the check of the hashes. The tables are STRICT, so types hold.
    return Entry.model_construct(sequence=sequence, previous=previous, hash=digest, kind=kind, text=body)


def head(connection: sqlite3.Connection) -> Head:
    """Sequence number and hash of the last entry."""
    row = connection.execute("SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
    return Head(sequence=row[0], hash=row[1]) if row else Head()


def require_head(connection: sqlite3.Connection) -> None:
    """The cheap check of every new connection: no entry is missing, and the last one is whole and in its place.

    Raises:
        Corrupt: Names the entry.
    """
    connection.execute("BEGIN")  # one snapshot: another process may append between the two questions
    rows = connection.execute("SELECT * FROM entries ORDER BY sequence DESC LIMIT 2").fetchall()
    count = connection.execute("SELECT count(*) FROM entries").fetchone()[0]
    connection.execute("COMMIT")
    if not rows:
        return
    last, before = _entry(rows[0]), _entry(rows[1]).head if len(rows) > 1 else Head()
    if not last.is_whole or not last.follows(before) or count != last.sequence:
        raise Corrupt(
            f"the ledger's chain is broken at its head, entry {last.sequence}",
            detail="`dprelease ledger check` names every entry that was altered",
            hint=RESTORE,
            code="DPR-L302",
        )


def page(connection: sqlite3.Connection, after: int, size: int) -> list[Entry]:
    """At most ``size`` entries behind a sequence number."""
    query = "SELECT * FROM entries WHERE sequence > ? ORDER BY sequence LIMIT ?"
    return [_entry(row) for row in connection.execute(query, (after, size))]


def all_entries(connection: sqlite3.Connection) -> Iterator[Entry]:
    """Every entry, in order."""
    return map(_entry, connection.execute("SELECT * FROM entries ORDER BY sequence"))


def history(connection: sqlite3.Connection) -> dict[str, History]:
    """Every account as its entries tell it."""
    query = "SELECT * FROM entries WHERE kind IN ('open', 'reserve', 'void') ORDER BY sequence"
    return replay(map(_entry, connection.execute(query)))


def find(connection: sqlite3.Connection, release: str, period: str) -> Reservation | None:
    """The reservation of a release and period that was not given back."""
    query = """
        SELECT r.sequence, e.sequence FROM reservations AS r
        LEFT JOIN endings AS e ON e.reservation = r.sequence
        WHERE r.release = ? AND r.period = ? AND e.kind IS NOT 'void'"""
    row = connection.execute(query, (release, period)).fetchone()
    return _reservation(connection, row[0], row[1]) if row else None


def open_reservation(connection: sqlite3.Connection, release: str, period: str, plan: str) -> str | None:
    """The hash of the entry that reserved a plan which is still open; None if there is none."""
    query = """
        SELECT entries.hash FROM reservations AS r JOIN entries ON entries.sequence = r.sequence
        LEFT JOIN endings AS e ON e.reservation = r.sequence
        WHERE r.release = ? AND r.period = ? AND r.plan = ? AND e.kind IS NULL"""
    row = connection.execute(query, (release, period, plan)).fetchone()
    return str(row[0]) if row else None


def reservations(connection: sqlite3.Connection) -> tuple[Reservation, ...]:
    """Every reservation that was not given back, in ledger order."""
    query = """
        SELECT r.sequence, e.sequence FROM reservations AS r
        LEFT JOIN endings AS e ON e.reservation = r.sequence
        WHERE e.kind IS NOT 'void' ORDER BY r.sequence"""
    return tuple(_reservation(connection, *row) for row in connection.execute(query).fetchall())


def _at(connection: sqlite3.Connection, sequence: int) -> Entry:
    row = connection.execute("SELECT * FROM entries WHERE sequence = ?", (sequence,)).fetchone()
    if row is None:
        raise Corrupt(f"entry {sequence} of the ledger is missing", hint=RESTORE, code="DPR-L302")
    return _entry(row)


def _reservation(connection: sqlite3.Connection, sequence: int, ending: int | None) -> Reservation:
    entry = _at(connection, sequence)
    body = entry.facts()
    closed = _at(connection, ending).facts() if ending is not None else None
    if not isinstance(body, Reserved) or not (closed is None or isinstance(closed, Closed)):
        raise Corrupt(f"the index of reservation {sequence} does not fit the entries", hint=RESTORE, code="DPR-L302")
    return Reservation(
        release=body.release,
        period=body.period,
        plan_fingerprint=body.plan_fingerprint,
        spec_fingerprint=body.spec_fingerprint,
        plan=body.plan,
        sequence=entry.sequence,
        hash=entry.hash,
        reserved_at=body.at,
        reserved_by=body.by,
        environment=body.environment,
        state="closed" if closed else "open",
        accounts=tuple(charge.facts for charge in body.charges),
        manifest=closed.manifest if closed else None,
    )


def _key(release: str, period: str, plan: str, step: str | None = None) -> str:
    # Keys are sorted in canonical JSON, so these four stand side by side in every `measure` body. Quotes inside
    # a value are escaped there, so the text cannot match anything else.
    facts = {"period": period, "plan": plan, "release": release}
    return dumps(facts)[1:-1] + "," if step is None else dumps({**facts, "step": step})[1:]


def has_measure_entries(connection: sqlite3.Connection, found: Reservation) -> bool:
    """Whether any step of a reservation has a ``measure`` entry."""
    query = "SELECT 1 FROM entries WHERE kind = 'measure' AND sequence > ? AND instr(body, ?) LIMIT 1"
    key = _key(found.release, found.period, found.plan_fingerprint)
    return connection.execute(query, (found.sequence, key)).fetchone() is not None


def measured(connection: sqlite3.Connection, release: str, period: str, plan: str) -> frozenset[str]:
    """The steps of a plan that have a measurement."""
    query = "SELECT step FROM measurements WHERE release = ? AND period = ? AND plan = ?"
    return frozenset(str(row[0]) for row in connection.execute(query, (release, period, plan)))


def stored(connection: sqlite3.Connection, key: StepKey) -> Measurement | None:
    """The committed measurement of a step, checked against its entry.

    Raises:
        Corrupt: The bytes are not what the entry says, or only one of the two is there; never a reason to
            draw again.
    """
    query = """
        SELECT sequence, digest, payload FROM measurements
        WHERE release = ? AND period = ? AND plan = ? AND step = ?"""
    row = connection.execute(query, (key.release, key.period, key.plan, key.step)).fetchone()
    if row is None:
        _require_no_entry(connection, key)
        return None
    sequence, digest, payload = row
    body = _at(connection, sequence).facts()
    same = (
        isinstance(body, Measured)
        and (body.release, body.period, body.plan, body.step) == (key.release, key.period, key.plan, key.step)
        and body.digest == digest == sha256(payload)
    )
    if not same:
        raise _altered(key, f"is not what entry {sequence} says")
    return Measurement.from_bytes(payload)


def _require_no_entry(connection: sqlite3.Connection, key: StepKey) -> None:
    query = """
        SELECT e.sequence FROM entries AS e
        WHERE e.kind = 'measure' AND instr(e.body, ?) AND e.sequence > (
            SELECT min(sequence) FROM reservations WHERE release = ? AND period = ? AND plan = ?)"""
    text = _key(key.release, key.period, key.plan, key.step)
    row = connection.execute(query, (text, key.release, key.period, key.plan)).fetchone()
    if row is not None:
        raise _altered(key, f"is missing; entry {row[0]} says that it was stored")


def _altered(key: StepKey, how: str) -> Corrupt:
    return Corrupt(f"the measurement of {key} {how}", hint=f"it is never drawn again; {RESTORE}", code="DPR-L304")


def stored_rows(connection: sqlite3.Connection) -> Iterator[StoredRow]:
    """Every measurement as it lies there, unchecked."""
    query = "SELECT release, period, plan, step, sequence, digest, payload FROM measurements ORDER BY sequence"
    for release, period, plan, step, sequence, digest, payload in connection.execute(query):
        key = StepKey(release, period, plan, step)
        yield StoredRow(key=key, sequence=sequence, digest=digest, payload=payload)


def index(connection: sqlite3.Connection) -> Index:
    """What the tables beside the entries say, unchecked."""
    reserved = connection.execute("SELECT sequence, release, period, plan FROM reservations")
    ended = connection.execute("SELECT sequence, reservation, kind FROM endings")
    return Index(
        reserved={row[0]: (row[1], row[2], row[3]) for row in reserved},
        ended={row[0]: (row[1], row[2]) for row in ended},
    )


def storage_findings(connection: sqlite3.Connection) -> list[str]:
    """What SQLite's own checks and a comparison of the schema find."""
    found = [f"the file is damaged: {row[0]}" for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    found += [
        f"row {row[1]} of {row[0]} points at a row of {row[2]} that is missing"
        for row in connection.execute("PRAGMA foreign_key_check")
    ]
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        create(fresh)
        expected, actual = objects(fresh), objects(connection)
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            found.append(f"`{name}` of the database is missing or is not as dprelease makes it")
    return found
