"""The tables of a SQLite ledger, and the rules that the database itself keeps.

Entries are the truth; the other tables index them so that the database, and not only this program, refuses a
second reservation of a release, a second measurement of a step, and any change to what was written.
"""

from __future__ import annotations

import sqlite3

__all__ = ["APPLICATION", "VERSION", "create", "migrate", "objects"]

APPLICATION = 0x4450524C  # "DPRL", in the file's header
VERSION = 2

_TABLES = """
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
_SECRETS = """
CREATE TABLE secrets(
    reservation INTEGER PRIMARY KEY REFERENCES reservations(sequence),
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;
"""

# `INSERT OR REPLACE` deletes without firing a delete trigger, so every insert is checked as well.
_RULES = {
    ("entries", "is not the next entry"): """
        NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entries)
        OR NEW.previous IS NOT coalesce((SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), '')""",
    ("reservations", "is already reserved"): """
        EXISTS (SELECT 1 FROM reservations WHERE sequence = NEW.sequence)
        OR EXISTS (
            SELECT 1 FROM reservations AS r LEFT JOIN endings AS e ON e.reservation = r.sequence
            WHERE r.release = NEW.release AND r.period = NEW.period AND e.kind IS NOT 'void')""",
    ("endings", "has ended, or was measured"): """
        EXISTS (SELECT 1 FROM endings WHERE reservation = NEW.reservation OR sequence = NEW.sequence)
        OR NEW.kind = 'void' AND EXISTS (
            SELECT 1 FROM measurements AS m JOIN reservations AS r
            ON m.release = r.release AND m.period = r.period AND m.plan = r.plan
            WHERE r.sequence = NEW.reservation AND m.sequence > r.sequence)""",
    ("measurements", "is measured, or is not reserved"): """
        EXISTS (
            SELECT 1 FROM measurements WHERE sequence = NEW.sequence
            OR release = NEW.release AND period = NEW.period AND plan = NEW.plan AND step = NEW.step)
        OR NOT EXISTS (
            SELECT 1 FROM reservations AS r LEFT JOIN endings AS e ON e.reservation = r.sequence
            WHERE r.release = NEW.release AND r.period = NEW.period AND r.plan = NEW.plan
            AND r.sequence < NEW.sequence AND e.kind IS NULL)""",
}


def _triggers() -> list[str]:
    made = []
    for (table, why), broken in _RULES.items():
        made.append(
            f"CREATE TRIGGER {table}_rule BEFORE INSERT ON {table} WHEN {broken}\n"
            f"BEGIN SELECT RAISE(ABORT, '{table}: this {why}'); END"
        )
        made += [
            f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table}\n"
            f"BEGIN SELECT RAISE(ABORT, '{table}: a ledger is only ever added to'); END"
            for verb in ("update", "delete")
        ]
    return made


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a ledger of an older version to this one; does nothing where it is of this one already."""
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("PRAGMA user_version").fetchone()[0] == 1:
        connection.execute(_SECRETS)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def create(connection: sqlite3.Connection) -> None:
    """Make the tables and rules of this schema version in an empty database."""
    connection.executescript(_TABLES)
    connection.execute(_SECRETS)
    for trigger in _triggers():
        connection.execute(trigger)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def objects(connection: sqlite3.Connection) -> dict[str, str]:
    """Name to definition of every table, index and trigger, to compare with a fresh ledger's."""
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {str(name): str(sql) for name, sql in rows}
