"""Whatever is altered in the file behind the ledger's back is found, named and never believed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dprelease.errors import BrokenPromiseError, Corrupt
from dprelease.ledger.model.history import events_digest
from tests.ledgers import SQLiteLedger, answer, charges, fill, key, plan, standing_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[SQLiteLedger]:
    made = SQLiteLedger(path)
    yield made
    made.disconnect()


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
    """The same ledger with the same content at the same place, in a folder of its own name, to be spoilt."""
    to.mkdir(parents=True)
    with raw(path) as source, raw(to / "ledger.db") as target:
        source.backup(target)
    moved = SQLiteLedger(to / "ledger.db")
    moved.recover("moved")
    return moved


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.slow
def test_any_altered_byte_of_an_entry_is_found_and_its_entry_named(
    ledger: SQLiteLedger, path: Path, tmp_path: Path
) -> None:
    fill(ledger)
    texts = {entry.sequence: entry.text.encode() for entry in ledger.entries()}
    kinds = " ".join(entry.kind for entry in ledger.entries())
    assert kinds == "anchor open reserve source measure measure close"
    for sequence, text in texts.items():
        for at in {0, len(text) // 7, len(text) // 3, len(text) // 2, len(text) - 1}:
            spoilt = copied(ledger, path, tmp_path / f"{sequence}-{at}")
            tamper(
                spoilt.path, "UPDATE entries SET body = CAST(? AS TEXT) WHERE sequence = ?", flipped(text, at), sequence
            )
            findings = spoilt.check()
            assert any(line.startswith(f"entry {sequence}: its hash") for line in findings), (sequence, at, findings)


_PLAN = plan(steps={"a": "people", "b": "people"})
IS_ANSWER_A = f"digest = '{answer('a').digest}'"
IS_PLAN = f"digest = '{_PLAN.fingerprint()}'"
IS_EVENT = f"digest = '{events_digest(_PLAN.event)}'"


@pytest.mark.thin(every=2)
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE entries SET hash = 'x' WHERE sequence = 3", "entry 4: the chain is broken"),
        ("UPDATE entries SET previous = 'x' WHERE sequence = 3", "entry 3: the chain is broken"),
        ("UPDATE entries SET kind = 'other' WHERE sequence = 3", "entry 3"),
        ("DELETE FROM entries WHERE sequence = 3", "entry 4: the chain is broken: it does not follow entry 2"),
        ("DELETE FROM entries WHERE sequence = 7", "entry 7: its row in the table `endings` is an orphan"),
        ("DELETE FROM reservations", "entry 3: its row in the table `reservations` is missing"),
        ("UPDATE reservations SET period = '2025'", "entry 3: its row in the table `reservations` differs"),
        ("UPDATE reservations SET identity = 'x'", "entry 3: its row in the table `reservations` differs"),
        ("UPDATE reservations SET restates = 3", "entry 3: its row in the table `reservations` differs"),
        ("UPDATE reservations SET plan = 'x'", "entry 3: its row in the table `reservations` differs"),
        ("DELETE FROM endings", "entry 7: its row in the table `endings` is missing"),
        ("UPDATE endings SET kind = 'give_up'", "entry 7: its row in the table `endings` differs"),
        ("UPDATE endings SET kind = 'void'", "entry 7: its row in the table `endings` differs"),
        ("UPDATE endings SET sequence = 6", "entry 6: its row in the table `endings` is an orphan"),
        ("INSERT INTO endings VALUES (2, 2, 'give_up')", "entry 2: its row in the table `endings` is an orphan"),
        ("DELETE FROM sources", "entry 4: its row in the table `sources` is missing"),
        ("UPDATE sources SET reservation = 2", "entry 4: its row in the table `sources` differs"),
        ("INSERT INTO sources VALUES (5, 3)", "entry 5: its row in the table `sources` is an orphan"),
        ("DELETE FROM measurements WHERE step = 'a'", "entry 5: its row in the table `measurements` is missing"),
        ("UPDATE measurements SET step = 'c' WHERE step = 'a'", "entry 5: its row in the table `measurements` differs"),
        (
            "UPDATE measurements SET digest = 'x' WHERE step = 'b'",
            "entry 6: its row in the table `measurements` differs",
        ),
        ("UPDATE measurements SET digest = 'x' WHERE step = 'b'", "entry 6: the measurement of step b is missing"),
        ("UPDATE measurements SET sequence = 1 WHERE step = 'b'", "entry 1: its row in the table `measurements` is an"),
        ("UPDATE measurements SET identity = 'x' WHERE step = 'b'", "entry 6: its row in the table `measurements`"),
        (f"DELETE FROM contents WHERE {IS_ANSWER_A}", "entry 5: the measurement of step a is missing"),
        (f"UPDATE contents SET payload = x'00' WHERE {IS_ANSWER_A}", "entry 5: the measurement of step a was altered"),
        (f"DELETE FROM contents WHERE {IS_PLAN}", "entry 3: the ledger is damaged: what it keeps as"),
        (f"UPDATE contents SET payload = x'00' WHERE {IS_PLAN}", "entry 3: the ledger is damaged: what it keeps as"),
        (f"DELETE FROM contents WHERE {IS_EVENT}", "entry 3: the ledger is damaged: what it keeps as"),
        (f"UPDATE contents SET payload = x'00' WHERE {IS_EVENT}", "entry 3: the ledger is damaged: what it keeps as"),
        ("DROP INDEX entries_by_kind", "`entries_by_kind`"),
        ("DROP INDEX reservations_by_identity", "`reservations_by_identity`"),
    ],
)
def test_what_was_altered_is_named(ledger: SQLiteLedger, path: Path, change: str, named: str) -> None:
    fill(ledger)
    tamper(path, change)
    assert any(named in line for line in ledger.check()), ledger.check()


def test_dropped_rules_are_found(ledger: SQLiteLedger, path: Path) -> None:
    fill(ledger)
    tamper(path, "SELECT 1")
    assert len(ledger.check()) == 3 * 6
    assert all("is missing or is not as dprelease makes it" in line for line in ledger.check())


@pytest.mark.slow
def test_any_altered_byte_of_an_answer_is_found_and_it_is_never_drawn_again(
    ledger: SQLiteLedger, path: Path, tmp_path: Path
) -> None:
    fill(ledger)
    at = key(ledger.reservations()[0], "a")
    payload = answer("a").to_bytes()
    for position in range(len(payload)):
        spoilt = copied(ledger, path, tmp_path / f"{position}")
        tamper(spoilt.path, f"UPDATE contents SET payload = ? WHERE {IS_ANSWER_A}", flipped(payload, position))
        assert any("entry 5: the measurement of step a was altered" in line for line in spoilt.check())
        with pytest.raises(Corrupt, match="step a of survey 2024"):
            spoilt.stored(at)
        with pytest.raises(Corrupt, match="step a of survey 2024"):
            spoilt.commit(at, answer("a", 8))


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (f"DELETE FROM contents WHERE {IS_ANSWER_A}", "is missing; entry 4 has it"),
        ("UPDATE measurements SET step = 'z' WHERE step = 'a'", "is hidden: its index contradicts itself"),
        ("UPDATE measurements SET identity = 'z' WHERE step = 'a'", "is hidden: its index contradicts itself"),
        ("UPDATE measurements SET period = '2025' WHERE step = 'a'", "is hidden: its index contradicts itself"),
        ("UPDATE measurements SET sequence = 3 WHERE step = 'a'", "is not what entry 3 says"),
        ("UPDATE measurements SET digest = 'z' WHERE step = 'a'", "is not what entry 4 says"),
    ],
)
def test_an_answer_that_went_missing_is_never_drawn_again(
    ledger: SQLiteLedger, path: Path, change: str, how: str
) -> None:
    made = plan(steps={"a": "people", "b": "people"})
    kept = ledger.reserve(made, charges(made))
    ledger.commit(key(kept, "a"), answer("a"))
    tamper(path, change)
    with pytest.raises(Corrupt, match=f"step a of survey 2024 {how}"):
        ledger.stored(key(kept, "a"))
    with pytest.raises(Corrupt, match=f"step a of survey 2024 {how}"):
        ledger.commit(key(kept, "a"), answer("a", 8))
    if "period" not in change:  # then nothing but the entry says that something was drawn
        with pytest.raises(BrokenPromiseError, match="DPR-L902"):
            ledger.void("survey", "2024", kept.plan_fingerprint, "nothing is there")
    assert ledger.stored(key(kept, "b")) is None


@pytest.mark.parametrize(
    "change", ["UPDATE entries SET body = '{}' WHERE sequence = 7", "DELETE FROM entries WHERE sequence = 4"]
)
def test_a_broken_head_or_a_gap_stops_every_use_but_the_check(ledger: SQLiteLedger, path: Path, change: str) -> None:
    fill(ledger)
    ledger.disconnect()
    tamper(path, change)
    made = plan(period="2025")
    with pytest.raises(Corrupt, match="DPR-L302"):
        ledger.reserve(made, charges(made))
    with pytest.raises(Corrupt, match="DPR-L302"):
        standing_of(ledger, ["people"])
    assert ledger.check()


def test_a_charge_that_was_altered_is_not_believed(ledger: SQLiteLedger, path: Path) -> None:
    fill(ledger)
    tamper(path, 'UPDATE entries SET body = replace(body, \'"loss":"1/5"\', \'"loss":"1/9"\') WHERE sequence = 3')
    made = plan(period="2025")
    for use in (
        lambda: standing_of(ledger, ["people"]),
        lambda: ledger.find("survey", "2024"),
        lambda: ledger.quote(charges(made), "2025"),
        lambda: ledger.reserve(made, charges(made)),
    ):
        with pytest.raises(Corrupt, match="entry 3 of the ledger was altered"):
            use()


def test_draws_that_were_altered_are_not_believed(ledger: SQLiteLedger, path: Path) -> None:
    """What a past release cost, as `status` shows it, is what its draws say, and these are kept by their digest."""
    fill(ledger)
    tamper(path, f"UPDATE contents SET payload = x'00' WHERE {IS_EVENT}")
    with pytest.raises(Corrupt, match=r"what it keeps as .* was altered"):
        standing_of(ledger, ["people"])


def test_a_plan_that_was_altered_is_never_run(ledger: SQLiteLedger, path: Path) -> None:
    made = plan()
    kept = ledger.reserve(made, charges(made))
    tamper(path, f"UPDATE contents SET payload = x'00' WHERE digest = '{made.fingerprint()}'")
    with pytest.raises(Corrupt, match="DPR-L304"):
        ledger.find("survey", "2024")
    with pytest.raises(Corrupt, match="DPR-L304"):
        SQLiteLedger(path).commit(key(kept), answer())


def test_a_reservation_that_is_hidden_from_one_index_is_found_by_the_other(ledger: SQLiteLedger, path: Path) -> None:
    """One damaged byte must not free a release to be reserved, and drawn, anew."""
    made = plan()
    ledger.reserve(made, charges(made))
    for change in ("period = '2025'", "release = 'x'", "identity = 'x'"):
        spoilt = copied(ledger, path, path.parent / change.partition(" ")[0])
        tamper(spoilt.path, f"UPDATE reservations SET {change}")
        with pytest.raises(Corrupt, match="contradicts itself"):
            spoilt.find("survey", "2024")
        with pytest.raises(Corrupt, match="contradicts itself"):
            spoilt.reserve(made, charges(made))


@pytest.mark.parametrize("table", ["reservations", "sources", "measurements"])
def test_a_whole_row_that_went_missing_stops_every_use_but_the_check(
    ledger: SQLiteLedger, path: Path, table: str
) -> None:
    """A row can go without a byte of the others being touched: then the entries are counted against the rows."""
    made = plan(steps={"a": "people", "b": "people"})
    kept = ledger.reserve(made, charges(made))
    ledger.source("survey", "2024", kept.plan_fingerprint, {"people": ("hash",)}, "key")
    ledger.commit(key(kept, "a"), answer("a"))
    ledger.disconnect()
    tamper(path, f"DELETE FROM {table}")
    for use in (
        lambda: SQLiteLedger(path).stored(key(kept, "a")),
        lambda: SQLiteLedger(path).commit(key(kept, "a"), answer("a", 8)),
        lambda: SQLiteLedger(path).void("survey", "2024", kept.plan_fingerprint, "nothing is there"),
        lambda: SQLiteLedger(path).reserve(made, charges(made)),
    ):
        with pytest.raises(Corrupt, match=f"rows of its table `{table}` are missing"):
            use()
    assert any(f"its row in the table `{table}` is missing" in line for line in SQLiteLedger(path).check())
    with pytest.raises(Corrupt, match=f"rows of its table `{table}` are missing"):
        SQLiteLedger(path).recover("never mind")
