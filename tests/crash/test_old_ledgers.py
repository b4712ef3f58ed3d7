"""A ledger of every schema version that ever was is opened, believed and continued."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dprelease.canonical import sha256
from dprelease.errors import BudgetExceeded
from dprelease.ledger import Ledger, open_ledger
from dprelease.ledger.stores.sqlite_schema import VERSION
from dprelease.plan.document import ReleasePlan
from tests.fixtures.write_ledger import STEPS
from tests.ledgers import answer, charges, key, plan, standing_of

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
FILES = sorted(FIXTURES.glob("ledger_v*.sql"))
# Head of account "people" and the kinds of the entries: the same in every version, for none knew a further kind.
KINDS = "open open reserve measure measure measure close reserve measure measure measure close reserve void refuse reserve measure"


def _version(file: Path) -> int:
    return int(file.stem.removeprefix("ledger_v"))


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    file: Path = request.param
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.executescript(file.read_text(encoding="utf-8"))
        assert connection.execute("PRAGMA user_version").fetchone()[0] == _version(file)
    made = open_ledger("sqlite:///ledger.db", tmp_path)
    yield made
    made.disconnect()


def test_every_version_before_this_one_is_here() -> None:
    assert set(range(1, VERSION)) <= {_version(file) for file in FILES}
    assert all(file.stat().st_size < 200_000 for file in FILES)


def test_it_is_sound(ledger: Ledger) -> None:
    assert ledger.check() == ()
    assert standing_of(ledger, ["people"]).of("people").head.sequence > 0
    assert ledger.check() == ()  # as well when it has been brought to this version


def test_it_says_what_it_said(ledger: Ledger) -> None:
    kinds = [entry.kind for entry in ledger.entries() if entry.kind not in ("anchor", "recover")]
    assert " ".join(kinds) == KINDS
    found = [ledger.find("survey", each.period) for each in ledger.reservations()]
    known = {each.period: each for each in found if each is not None}
    assert {period: each.state for period, each in known.items()} == {
        "2021": "closed",
        "2022": "closed",
        "2025": "open",
    }
    assert known["2022"].manifest == "manifest of 2022"
    assert known["2021"].environment["python"] == "3"
    assert sha256(known["2021"].plan.encode()) == known["2021"].plan_fingerprint
    assert {step.id for step in ReleasePlan.from_canonical(known["2021"].plan).steps} == set(STEPS)
    assert ledger.find("survey", "2023") is None
    assert ledger.find("survey", "2024") is None


def test_its_answers_are_there(ledger: Ledger) -> None:
    for number, period in enumerate(("2021", "2022")):
        found = ledger.find("survey", period)
        assert found is not None
        for step in STEPS:
            kept = ledger.stored(key(found, step))
            assert kept is not None
            assert kept.digest == answer(step, 10 * number + ord(step)).digest
        assert ledger.measured("survey", period, found.plan_fingerprint) == frozenset(STEPS)


def test_its_spend_counts(ledger: Ledger) -> None:
    """Three releases stand charged with epsilon 2/10 to people and 1/10 to homes, of 1 each."""
    standing = standing_of(ledger, ["people", "homes"])
    assert standing.of("people").head == standing.of("homes").head
    for account, left in (("people", "4"), ("homes", "7")):
        more = plan(period=f"more {account}", cost=f"{left}01/1000", steps={"one": account})
        with pytest.raises(BudgetExceeded):
            ledger.reserve(more, charges(more))
        rest = plan(period=f"rest {account}", cost=f"{left}/10", steps={"one": account})
        assert ledger.reserve(rest, charges(rest)).state == "open"
    assert ledger.check() == ()


def test_its_open_release_goes_on(ledger: Ledger) -> None:
    found = ledger.find("survey", "2025")
    assert found is not None
    identity = ("survey", "2025", found.plan_fingerprint)
    assert ledger.measured(*identity) == {"b"}
    assert ledger.secret(*identity) == ledger.secret(*identity)
    assert ledger.commit(key(found, "b"), answer("b", 78)).digest == answer("b", 77).digest
    for step in ("a", "c"):
        assert ledger.commit(key(found, step), answer(step, 5)).digest == answer(step, 5).digest
    ledger.close(*identity, "manifest of 2025")
    assert ledger.check() == ()
    closed = ledger.find("survey", "2025")
    assert closed is not None
    assert closed.state == "closed"
