"""What stands is read from a few entries, however long the ledger is: whoever forges one of them is found at once.

An entry that changes an account carries the balance behind it. It is believed where its hash is that of its content,
the next entry is chained to it, and the head is one that the anchors know.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dprelease.canonical import dumps, sha256
from dprelease.errors import Corrupt
from dprelease.ledger.model.entry import LedgerEntry
from tests.ledgers import SQLiteLedger, account, charges, fill, plan


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of two releases: what stands is in the reservation of the second one, which is not the head."""
    ledger = SQLiteLedger(tmp_path / "state" / "ledger.db", [tmp_path / "anchors" / "head.json"])
    fill(ledger, plan(cost="1/5"))
    fill(ledger, plan("second", cost="1/5"))
    ledger.disconnect()
    return ledger.path


def opened(path: Path) -> SQLiteLedger:
    return SQLiteLedger(path, [path.parent.parent / "anchors" / "head.json"])


def book_of(path: Path) -> list[LedgerEntry]:
    with closing(sqlite3.connect(path)) as connection:
        return [LedgerEntry(*row) for row in connection.execute("SELECT * FROM entries ORDER BY sequence")]


def rewrite(path: Path, entries: list[LedgerEntry]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for each in entries:
            row = (each.previous, each.hash, each.text, each.sequence)
            connection.execute("UPDATE entries SET previous = ?, hash = ?, body = ? WHERE sequence = ?", row)


def hashed(entry: LedgerEntry, previous: str, text: str) -> LedgerEntry:
    digest = sha256(dumps([entry.sequence, previous, entry.kind, text]).encode())
    return LedgerEntry(entry.sequence, previous, digest, entry.kind, text)


def forged(book: list[LedgerEntry], change: Callable[[str], str], *, following: int) -> list[LedgerEntry]:
    """The last reservation with another text and a good hash, and so many entries behind it chained to it anew."""
    at = max(number for number, entry in enumerate(book) if entry.kind == "reserve")
    changed = [hashed(book[at], book[at].previous, change(book[at].text))]
    for entry in book[at + 1 : at + 1 + following]:
        changed.append(hashed(entry, changed[-1].hash, entry.text))
    return changed


def less(text: str) -> str:
    """What stands charged is 2/5; now it is said to be 1/5."""
    lower = text.replace(
        '"releases":2,"series":{},"spent":{"loss":"2/5"', '"releases":2,"series":{},"spent":{"loss":"1/5"'
    )
    assert lower != text
    return lower


def uses(ledger: SQLiteLedger) -> list[Callable[[], object]]:
    made = plan("third", cost="1/5")
    return [
        lambda: ledger.heads(["people"]),
        lambda: ledger.quote(charges(made), "2024"),
        ledger.tally,
        lambda: ledger.open_account(account(epsilon="2"), "more"),
        lambda: ledger.reserve(made, charges(made)),
    ]


def test_an_untouched_ledger_is_used(path: Path) -> None:
    ledger = opened(path)
    assert [use() and None for use in uses(ledger)] == [None] * 5
    assert ledger.check() == ()


@pytest.mark.parametrize("change", [less, lambda text: text.replace('"people":7', '"people":2')])
def test_a_balance_that_was_forged_with_a_good_hash_is_never_believed(path: Path, change: Callable[[str], str]) -> None:
    """The head is the one that the anchor knows: it is the chain that tells."""
    rewrite(path, forged(book_of(path), change, following=0))
    ledger = opened(path)
    for use in uses(ledger):
        with pytest.raises(Corrupt, match="DPR-L302"):
            use()
    assert any("the chain is broken" in line for line in ledger.check())


def test_a_balance_of_another_ledger_is_never_believed(path: Path, tmp_path: Path) -> None:
    other = SQLiteLedger(tmp_path / "other" / "ledger.db")
    fill(other, plan(cost="1/10"))
    fill(other, plan("second", cost="1/10"))
    other.disconnect()
    theirs = book_of(other.path)
    assert [each.kind for each in theirs] == [each.kind for each in book_of(path)]
    rewrite(path, [entry for entry in theirs if entry.kind == "reserve"][-1:])
    ledger = opened(path)
    for use in uses(ledger):
        with pytest.raises(Corrupt, match="DPR-L302"):
            use()
    assert ledger.check()


def test_a_forged_end_of_the_chain_contradicts_the_anchor_and_the_check(path: Path) -> None:
    """Every hash is good up to the head; but the head is not the one that was anchored, and the charges add up to more."""
    rewrite(path, forged(book_of(path), less, following=100))
    ledger = opened(path)
    for use in uses(ledger):
        with pytest.raises(Corrupt, match="DPR-L310"):
            use()
    found = ledger.check()
    assert any("was rolled back: it has another entry" in line for line in found)
    assert any("the balance of account people is not what its charges add up to" in line for line in found)


def test_entries_that_were_removed_behind_what_stands_are_missed(path: Path) -> None:
    at = [entry.sequence for entry in book_of(path) if entry.kind == "reserve"][-1]
    rewrite(path, [])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in ("endings", "sources", "measurements", "entries"):
            connection.execute(f"DELETE FROM {table} WHERE sequence > ?", (at,))
    ledger = opened(path)
    for use in uses(ledger):
        with pytest.raises(Corrupt, match="DPR-L310"):
            use()


def test_a_backup_with_an_older_balance_is_never_believed(path: Path) -> None:
    backup = path.with_suffix(".backup")
    shutil.copy2(path, backup)
    ledger = opened(path)
    fill(ledger, plan("third", cost="1/5"))
    ledger.disconnect()
    for log in path.parent.glob("*-*"):
        if log.name.startswith(path.name):
            log.unlink()
    shutil.copy2(backup, path)
    restored = opened(path)
    for use in uses(restored):
        with pytest.raises(Corrupt, match="DPR-L310"):
            use()
