"""The tables of a SQLite ledger, and the rules that the database itself keeps.

Entries are the truth; the other tables index them so that the database, and not only this program, refuses a
second reservation of a release, a second measurement of a step, and any change to what was written.

A new ledger walks all the steps that an old one would, so that both end in the same text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from dprelease.ledger.model.store import row_identity

__all__ = ["APPLICATION", "ENDED", "MEASURED", "NOT_OPEN", "VERSION", "create_tables", "migrate", "objects", "reserved"]

APPLICATION = 0x4450524C  # "DPRL", in the file's header
VERSION = 3


_V1 = """
CREATE TABLE entries(
    sequence INTEGER PRIMARY KEY,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('open', 'reserve', 'measure', 'close', 'void', 'refuse')),
    body TEXT NOT NULL
) STRICT;
CREATE INDEX entries_by_kind ON entries(kind, sequence);

CREATE TABLE reservations(
    sequence INTEGER PRIMARY KEY REFERENCES entries(sequence),
    release TEXT NOT NULL,
    period TEXT NOT NULL,
    plan TEXT NOT NULL
) STRICT;
CREATE INDEX reservations_by_release ON reservations(release, period);

CREATE TABLE endings(
    reservation INTEGER PRIMARY KEY REFERENCES reservations(sequence),
    sequence INTEGER NOT NULL UNIQUE REFERENCES entries(sequence),
    kind TEXT NOT NULL CHECK (kind IN ('close', 'void'))
) STRICT;

CREATE TABLE measurements(
    release TEXT NOT NULL,
    period TEXT NOT NULL,
    plan TEXT NOT NULL,
    step TEXT NOT NULL,
    sequence INTEGER NOT NULL UNIQUE REFERENCES entries(sequence),
    digest TEXT NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (release, period, plan, step)
) STRICT;
"""

# Version 2. The one table whose rows go: a release's key dies with the release, so that nobody can tell later which of
# a unit's rows were left out.
_V2 = """
CREATE TABLE secrets(
    reservation INTEGER PRIMARY KEY REFERENCES reservations(sequence),
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;
"""

# Version 3: further kinds of entries, restatements, bytes kept by their digest, and a second key for every row. A
# table whose CHECK changes is made anew under another name (www.sqlite.org/lang_altertable.html, section 7).
_V3 = """
CREATE TABLE entries_3(
    sequence INTEGER PRIMARY KEY,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN (
        'open', 'reserve', 'measure', 'close', 'void', 'refuse', 'anchor', 'recover', 'source', 'incident')),
    body TEXT NOT NULL
) STRICT;
INSERT INTO entries_3 SELECT * FROM entries ORDER BY sequence;
DROP TABLE entries;
ALTER TABLE entries_3 RENAME TO entries;
CREATE INDEX entries_by_kind ON entries(kind, sequence);

CREATE TABLE reservations_3(
    sequence INTEGER PRIMARY KEY REFERENCES entries(sequence),
    release TEXT NOT NULL,
    period TEXT NOT NULL,
    plan TEXT NOT NULL,
    restates INTEGER REFERENCES reservations(sequence),
    identity TEXT NOT NULL
) STRICT;
INSERT INTO reservations_3
    SELECT sequence, release, period, plan, NULL, identity(release, period) FROM reservations ORDER BY sequence;
DROP TABLE reservations;
ALTER TABLE reservations_3 RENAME TO reservations;
CREATE INDEX reservations_by_release ON reservations(release, period);
CREATE INDEX reservations_by_identity ON reservations(identity);

CREATE TABLE endings_3(
    reservation INTEGER PRIMARY KEY REFERENCES reservations(sequence),
    sequence INTEGER NOT NULL UNIQUE REFERENCES entries(sequence),
    kind TEXT NOT NULL CHECK (kind IN ('close', 'void', 'give_up'))
) STRICT;
INSERT INTO endings_3 SELECT * FROM endings ORDER BY reservation;
DROP TABLE endings;
ALTER TABLE endings_3 RENAME TO endings;

CREATE TABLE contents(
    digest TEXT PRIMARY KEY,
    payload BLOB NOT NULL
) STRICT;
INSERT INTO contents SELECT DISTINCT digest, payload FROM measurements ORDER BY digest;

CREATE TABLE measurements_3(
    release TEXT NOT NULL,
    period TEXT NOT NULL,
    plan TEXT NOT NULL,
    step TEXT NOT NULL,
    sequence INTEGER NOT NULL UNIQUE REFERENCES entries(sequence),
    digest TEXT NOT NULL REFERENCES contents(digest),
    identity TEXT NOT NULL UNIQUE,
    PRIMARY KEY (release, period, plan, step)
) STRICT;
INSERT INTO measurements_3
    SELECT release, period, plan, step, sequence, digest, identity(release, period, plan, step)
    FROM measurements ORDER BY sequence;
DROP TABLE measurements;
ALTER TABLE measurements_3 RENAME TO measurements;

CREATE TABLE sources(
    sequence INTEGER PRIMARY KEY REFERENCES entries(sequence),
    reservation INTEGER NOT NULL REFERENCES reservations(sequence)
) STRICT;
CREATE INDEX sources_by_reservation ON sources(reservation);
"""

_STEPS = {1: _V1, 2: _V2, 3: _V3}

# What makes a new row wrong, in SQL that PostgreSQL understands as well, whose triggers say the same. A ledger holds
# these texts, and is compared with them byte by byte: no space of them may change.
NOT_OPEN = """NOT EXISTS (SELECT 1 FROM reservations WHERE sequence = NEW.reservation)
        OR EXISTS (SELECT 1 FROM endings WHERE reservation = NEW.reservation)"""
"""A row of an open reservation: there is none, or it has ended."""

ENDED = """
        EXISTS (SELECT 1 FROM endings WHERE reservation = NEW.reservation OR sequence = NEW.sequence)
        OR NEW.kind = 'void' AND EXISTS (SELECT 1 FROM sources WHERE reservation = NEW.reservation)
        OR NEW.kind = 'void' AND EXISTS (
            SELECT 1 FROM measurements AS m JOIN reservations AS r
            ON m.release = r.release AND m.period = r.period AND m.plan = r.plan
            WHERE r.sequence = NEW.reservation AND m.sequence > r.sequence)"""
"""An ending: the reservation has one, or is given back although it was read or measured."""

MEASURED = """
        EXISTS (
            SELECT 1 FROM measurements WHERE sequence = NEW.sequence OR identity = NEW.identity
            OR release = NEW.release AND period = NEW.period AND plan = NEW.plan AND step = NEW.step)
        OR NOT EXISTS (
            SELECT 1 FROM reservations AS r LEFT JOIN endings AS e ON e.reservation = r.sequence
            WHERE r.release = NEW.release AND r.period = NEW.period AND r.plan = NEW.plan
            AND r.sequence < NEW.sequence AND e.kind IS NULL)"""
"""A measurement: its step has one, or no open reservation has its plan."""


def reserved(differs: str) -> str:
    """A reservation: the period has an open one or had this plan, or what it restates is not the last one that ended.

    Args:
        differs: How the database says that two values differ, either of which may be NULL.
    """
    return f"""EXISTS (
            SELECT 1 FROM reservations AS r LEFT JOIN endings AS e ON e.reservation = r.sequence
            WHERE r.release = NEW.release AND r.period = NEW.period
            AND (e.kind IS NULL OR r.plan = NEW.plan AND e.kind <> 'void'))
        OR NEW.restates {differs} (
            SELECT max(r.sequence) FROM reservations AS r JOIN endings AS e ON e.reservation = r.sequence
            WHERE r.release = NEW.release AND r.period = NEW.period AND e.kind <> 'void')"""  # noqa: S608 - constants


# `INSERT OR REPLACE` deletes without firing a delete trigger, so every insert is checked as well.
_RULES = {
    ("entries", "is not the next entry"): """
        NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entries)
        OR NEW.previous IS NOT coalesce((SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), '')""",
    ("reservations", "is already reserved"): f"""
        EXISTS (SELECT 1 FROM reservations WHERE sequence = NEW.sequence)
        OR {reserved("IS NOT")}""",  # noqa: S608 - constants
    ("endings", "has ended, or was measured"): ENDED,
    ("measurements", "is measured, or is not reserved"): MEASURED,
    ("sources", "is not of an open reservation"): f"""
        EXISTS (SELECT 1 FROM sources WHERE sequence = NEW.sequence)
        OR {NOT_OPEN}""",  # noqa: S608 - constants
    ("contents", "is kept with other bytes"): """
        EXISTS (SELECT 1 FROM contents WHERE digest = NEW.digest AND payload IS NOT NEW.payload)""",
}


def _triggers() -> list[str]:
    triggers = []
    for (table, why), broken in _RULES.items():
        triggers.append(
            f"CREATE TRIGGER {table}_rule BEFORE INSERT ON {table} WHEN {broken}\n"
            f"BEGIN SELECT RAISE(ABORT, '{table}: this {why}'); END"
        )
        triggers += [
            f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table}\n"
            f"BEGIN SELECT RAISE(ABORT, '{table}: a ledger is only ever added to'); END"
            for verb in ("update", "delete")
        ]
    return triggers


def migrate(connection: sqlite3.Connection, record: Callable[[int], None]) -> None:
    """Bring a ledger of an older version to this one, step by step; nothing where it is of this one already.

    Args:
        connection: Outside a transaction.
        record: Writes down, in the same transaction, that the tables came from this version.
    """
    connection.execute("PRAGMA foreign_keys = OFF")  # cannot be changed inside; checked before the end
    connection.execute("BEGIN IMMEDIATE")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < VERSION:
        for name in [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]:
            connection.execute(f'DROP TRIGGER "{name}"')
        _walk(connection, version)
        broken = connection.execute("PRAGMA foreign_key_check").fetchall()
        if broken:
            raise sqlite3.DatabaseError(f"{len(broken)} rows point nowhere")
        record(version)
    connection.execute("COMMIT")
    connection.execute("PRAGMA foreign_keys = ON")


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and rules of this schema version in an empty database."""
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("BEGIN IMMEDIATE")
    _walk(connection, 0)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute("COMMIT")


def _walk(connection: sqlite3.Connection, version: int) -> None:
    connection.create_function("identity", -1, row_identity, deterministic=True)
    for step in range(version + 1, VERSION + 1):
        for statement in _STEPS[step].split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {step}")
    for trigger in _triggers():
        connection.execute(trigger)


def objects(connection: sqlite3.Connection) -> dict[str, str]:
    """Name to definition of every table, index and trigger, to compare with a fresh ledger's."""
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {str(name): str(sql) for name, sql in rows}
