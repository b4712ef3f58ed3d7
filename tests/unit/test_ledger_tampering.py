"""Whatever is altered in the file behind the ledger's back is found, named and never believed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dprelease.errors import BrokenPromiseError, Corrupt
from dprelease.ledger import SQLiteLedger
from tests.ledgers import answer, charges, key, plan


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[SQLiteLedger]:
    made = SQLiteLedger(path)
    yield made
    made.disconnect()


def fill(ledger: SQLiteLedger) -> None:
    """One release with two steps: opened, reserved, measured twice, closed."""
    made = plan(steps={"a": "people", "b": "people"})
    kept = ledger.reserve(made, charges(made))
    for step in ("a", "b"):
        ledger.commit(key(kept, step), answer(step))
    ledger.close("survey", "2024", kept.plan_fingerprint, "manifest")


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def tamper(path: Path, change: str, *values: object) -> None:
    """Change what a ledger never changes, as somebody with the file and no conscience would."""
    with raw(path) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(change, values)


def copied(ledger: SQLiteLedger, path: Path, to: Path) -> SQLiteLedger:
    """A second ledger with the same content, to be spoilt."""
    with raw(path) as source, raw(to) as target:
        source.backup(target)
    return SQLiteLedger(to)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_any_altered_byte_of_an_entry_is_found_and_its_entry_named(
    ledger: SQLiteLedger, path: Path, tmp_path: Path
) -> None:
    fill(ledger)
    texts = {entry.sequence: entry.text.encode() for entry in ledger.entries()}
    assert len(texts) == 5
    for sequence, text in texts.items():
        for at in {0, len(text) // 7, len(text) // 3, len(text) // 2, len(text) - 1}:
            spoilt = copied(ledger, path, tmp_path / f"{sequence}-{at}.db")
            tamper(
                spoilt.path, "UPDATE entries SET body = CAST(? AS TEXT) WHERE sequence = ?", flipped(text, at), sequence
            )
            findings = spoilt.check()
            assert any(line.startswith(f"entry {sequence}: its hash") for line in findings), (sequence, at, findings)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE entries SET hash = 'x' WHERE sequence = 2", "entry 3: the chain is broken"),
        ("UPDATE entries SET previous = 'x' WHERE sequence = 2", "entry 2: the chain is broken"),
        ("UPDATE entries SET kind = 'other' WHERE sequence = 2", "entry 2"),
        ("DELETE FROM entries WHERE sequence = 2", "entry 3: the chain is broken: it does not follow entry 1"),
        ("DELETE FROM entries WHERE sequence = 5", "entry 5: the table `endings`"),
        ("DELETE FROM reservations", "entry 2: the table `reservations`"),
        ("UPDATE reservations SET period = '2025'", "entry 2: the table `reservations`"),
        ("DELETE FROM endings", "entry 5: the table `endings`"),
        ("DELETE FROM measurements WHERE step = 'a'", "entry 3: the measurement of step a is missing"),
        ("UPDATE measurements SET step = 'c' WHERE step = 'a'", "entry 3: the measurement of step c"),
        ("UPDATE measurements SET digest = 'x' WHERE step = 'b'", "entry 4: the measurement of step b"),
        ("UPDATE measurements SET sequence = 1 WHERE step = 'b'", "entry 1: the measurement of step b"),
        ("DROP INDEX entries_by_kind", "`entries_by_kind`"),
    ],
)
def test_what_was_altered_is_named(ledger: SQLiteLedger, path: Path, change: str, named: str) -> None:
    fill(ledger)
    tamper(path, change)
    assert any(named in line for line in ledger.check()), ledger.check()


def test_dropped_rules_are_found(ledger: SQLiteLedger, path: Path) -> None:
    fill(ledger)
    tamper(path, "SELECT 1")
    assert len(ledger.check()) == 12
    assert all("is missing or is not as dprelease makes it" in line for line in ledger.check())


def test_any_altered_byte_of_an_answer_is_found_and_it_is_never_drawn_again(
    ledger: SQLiteLedger, path: Path, tmp_path: Path
) -> None:
    fill(ledger)
    at = key(ledger.reservations()[0], "a")
    payload = answer("a").to_bytes()
    for position in range(len(payload)):
        spoilt = copied(ledger, path, tmp_path / f"{position}.db")
        tamper(spoilt.path, "UPDATE measurements SET payload = ? WHERE step = 'a'", flipped(payload, position))
        assert any("entry 3: the measurement of step a of survey 2024 was altered" in line for line in spoilt.check())
        with pytest.raises(Corrupt, match="step a of survey 2024"):
            spoilt.stored(at)
        with pytest.raises(Corrupt, match="step a of survey 2024"):
            spoilt.commit(at, answer("a", 8))


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM measurements WHERE step = 'a'", "UPDATE measurements SET step = 'z' WHERE step = 'a'"],
)
def test_an_answer_that_went_missing_is_never_drawn_again(ledger: SQLiteLedger, path: Path, change: str) -> None:
    made = plan(steps={"a": "people", "b": "people"})
    kept = ledger.reserve(made, charges(made))
    ledger.commit(key(kept, "a"), answer("a"))
    tamper(path, change)
    with pytest.raises(Corrupt, match="step a of survey 2024 is missing; entry 3"):
        ledger.stored(key(kept, "a"))
    with pytest.raises(Corrupt, match="step a of survey 2024 is missing; entry 3"):
        ledger.commit(key(kept, "a"), answer("a", 8))
    with pytest.raises(BrokenPromiseError, match="DPR-L902"):
        ledger.void("survey", "2024", kept.plan_fingerprint, "nothing is there")
    assert ledger.stored(key(kept, "b")) is None


@pytest.mark.parametrize(
    "change", ["UPDATE entries SET body = '{}' WHERE sequence = 5", "DELETE FROM entries WHERE sequence = 3"]
)
def test_a_broken_head_or_a_gap_stops_every_use_but_the_check(ledger: SQLiteLedger, path: Path, change: str) -> None:
    fill(ledger)
    ledger.disconnect()
    tamper(path, change)
    made = plan(period="2025")
    with pytest.raises(Corrupt, match="DPR-L302"):
        ledger.reserve(made, charges(made))
    with pytest.raises(Corrupt, match="DPR-L302"):
        ledger.standing(["people"])
    assert ledger.check()


def test_a_charge_that_was_altered_is_not_believed(ledger: SQLiteLedger, path: Path) -> None:
    fill(ledger)
    tamper(path, 'UPDATE entries SET body = replace(body, \'"scale":"10"\', \'"scale":"99"\') WHERE sequence = 2')
    for use in (lambda: ledger.standing(["people"]), lambda: ledger.find("survey", "2024")):
        with pytest.raises(Corrupt, match="entry 2 of the ledger was altered"):
            use()
