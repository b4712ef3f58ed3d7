"""A ledger that was rolled back, cut off, copied, moved or lost is refused; a recovery only ever adds spend."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.errors import BrokenPromiseError, Corrupt, LedgerError
from dprelease.ledger import Reservation
from dprelease.ledger.anchors.anchors import Anchor
from dprelease.ledger.model.entry import Recovered
from dprelease.ledger.tables import view
from dprelease.plan.document import ReleasePlan
from tests.ledgers import SQLiteLedger, World, answer, charges, fill, key, plan, standing_of


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def reserved(ledger: SQLiteLedger, made: ReleasePlan) -> Reservation:
    kept = ledger.reserve(made, charges(made))
    ledger.source(kept.release, kept.period, kept.plan_fingerprint, {"people": ("hash",)}, "key")
    return kept


def refused(world: World, code: str) -> None:
    """Nothing can be done with it: nothing is read, charged or handed on."""
    made = plan(period="2099")
    for use in (
        lambda ledger: standing_of(ledger, ["people"]),
        lambda ledger: ledger.find("survey", "2024"),
        lambda ledger: ledger.reserve(made, charges(made)),
        lambda ledger: ledger.reservations(),
        lambda ledger: list(ledger.entries()),
        lambda ledger: ledger.heads(["people"]),
    ):
        with pytest.raises(LedgerError, match=code):
            use(world.ledger())
    assert len(world.ledger().check()) >= 1
    world.stop()


FIRST, SECOND = plan(), plan(period="2025", cost="3/10")


def test_a_restored_backup_is_refused_and_then_charged_what_it_lacks(world: World) -> None:
    fill(world.ledger(), FIRST)
    world.backup()
    fill(world.ledger(), SECOND, value=9)
    world.restore()
    refused(world, "DPR-L310")
    said = world.ledger().recover("the disk died")
    assert said[1:] == (
        "account people was charged what is missing",
        "survey 2025 is lost: it is charged, and never measured again",
    )
    assert world.spent() == Fraction(4, 10)
    assert world.ledger().check() == ()
    assert world.ledger().stored(key(world.ledger().reservations()[0])) is not None
    recovery = next(entry.facts() for entry in world.ledger().entries() if entry.kind == "recover")
    assert isinstance(recovery, Recovered)
    assert (recovery.why, recovery.added["people"].loss) == ("the disk died", Fraction(3, 10))


def test_what_is_lost_is_never_measured_again_but_as_another_release_that_is_charged(world: World) -> None:
    fill(world.ledger(), FIRST)
    world.backup()
    kept = fill(world.ledger(), SECOND)
    world.restore()
    world.ledger().recover("restored")
    ledger = world.ledger()
    found = ledger.find("survey", "2025")
    assert found is not None
    assert (found.state, found.plan, found.plan_fingerprint) == ("lost", "", kept.plan_fingerprint)
    for reason, code in (("", "DPR-L113"), ("wrong", "DPR-L114")):
        with pytest.raises(LedgerError, match=code):
            ledger.reserve(SECOND, charges(SECOND), restates=reason)
    for use in (
        lambda: ledger.commit(key(kept), answer()),
        lambda: ledger.secret("survey", "2025", kept.plan_fingerprint),
        lambda: ledger.sourced("survey", "2025", kept.plan_fingerprint),
    ):
        with pytest.raises(BrokenPromiseError, match="DPR-L901"):
            use()
    with pytest.raises(BrokenPromiseError, match=r"DPR-L903 .* cannot be closed: lost"):
        ledger.close("survey", "2025", kept.plan_fingerprint, "manifest")
    with pytest.raises(BrokenPromiseError, match="DPR-L902"):
        ledger.void("survey", "2025", kept.plan_fingerprint, "no file")
    with pytest.raises(LedgerError, match="DPR-L130"):
        ledger.give_up("survey", "2025", kept.plan_fingerprint, "no")
    changed = plan(period="2025", cost="1/5")
    with pytest.raises(LedgerError, match="DPR-L113"):
        ledger.reserve(changed, charges(changed))
    again = ledger.reserve(changed, charges(changed), restates="lost with the disk")
    assert again.restates == found.sequence
    assert world.spent() == Fraction(1, 10) + Fraction(3, 10) + Fraction(2, 10)
    assert ledger.check() == ()


def test_what_was_open_in_the_backup_ends_for_its_answers_may_be_known(world: World) -> None:
    ledger = world.ledger()
    kept = reserved(ledger, plan(steps={"a": "people", "b": "people"}))
    ledger.commit(key(kept, "a"), answer("a", 1))
    world.backup()
    assert world.ledger().commit(key(kept, "b"), answer("b", 2)).digest == answer("b", 2).digest  # handed on
    world.restore()
    refused(world, "DPR-L310")
    assert world.ledger().recover("restored")[1:] == ("survey 2024 was ended: answers of it may be lost",)
    ledger = world.ledger()
    found = ledger.find("survey", "2024")
    assert found is not None
    assert (found.state, found.ended) == ("given_up", "restored")
    with pytest.raises(Exception, match="DPR-L901"):
        ledger.commit(key(kept, "b"), answer("b", 3))
    assert world.spent() == Fraction(2, 10)
    assert ledger.check() == ()
    changed = plan(cost="1/20")
    ledger.reserve(changed, charges(changed), restates="again")
    assert world.spent() == Fraction(5, 20)
    assert ledger.check() == ()


@pytest.mark.parametrize("kept", [0, 32, 97, 5_000, 50_000])
def test_a_log_that_is_cut_off_is_noticed(world: World, kept: int) -> None:
    """SQLite reads what is left of its write-ahead log, and says nothing."""
    fill(world.ledger(), FIRST)
    ledger = world.ledger()
    done = reserved(ledger, SECOND)
    ledger.commit(key(done), answer())
    log = world.path.with_name("ledger.db-wal").read_bytes()
    data = world.path.read_bytes()
    world.delete()
    world.path.write_bytes(data)
    world.path.with_name("ledger.db-wal").write_bytes(log[: min(kept, len(log) - 97)])
    refused(world, "DPR-L310")
    world.ledger().recover("the log was torn")
    assert world.spent() >= Fraction(4, 10)
    assert world.ledger().check() == ()


def test_a_deleted_ledger_is_refused_and_then_everything_it_knew_is_charged(world: World) -> None:
    fill(world.ledger(), FIRST)
    fill(world.ledger(), SECOND)
    fill(world.ledger(), plan(release="third", steps={"one": "visits"}))
    world.delete()
    refused(world, "DPR-L305")
    assert not world.path.exists(), "a look makes nothing"
    world.ledger().recover("deleted")
    assert (world.spent(), world.spent("visits")) == (Fraction(4, 10), Fraction(1, 10))
    ledger = world.ledger()
    assert {(each.release, each.period, each.state) for each in ledger.reservations()} == {
        ("survey", "2024", "lost"),
        ("survey", "2025", "lost"),
        ("third", "2024", "lost"),
    }
    assert ledger.check() == ()
    too_much = plan(period="2026", cost="7/10")
    with pytest.raises(LedgerError, match="DPR-L100"):
        ledger.reserve(too_much, charges(too_much))
    assert ledger.openings("people")[0][1].why == "known to the anchors, and missing"


def test_a_recovery_knows_what_the_one_before_it_knew(world: World) -> None:
    """Its anchors begin anew, with everything: the next rollback, to whatever backup, is one from there."""
    fill(world.ledger(), FIRST)
    world.backup("first")
    fill(world.ledger(), SECOND)
    world.backup("second")
    fill(world.ledger(), plan(period="2026", cost="1/10"))
    world.restore("second")
    world.ledger().recover("once")
    assert world.spent() == Fraction(5, 10)
    for name in ("second", "first"):
        world.restore(name)
        refused(world, "DPR-L310")
        world.ledger().recover("again")
        assert world.spent() == Fraction(5, 10)
        states = {each.period: each.state for each in world.ledger().reservations()}
        assert states["2026"] == "lost"
        assert states["2025"] in ("closed", "lost")
        assert world.ledger().check() == ()
    world.delete()
    world.ledger().recover("deleted")
    assert world.spent() == Fraction(5, 10)
    assert {each.period for each in world.ledger().reservations()} == {"2024", "2025", "2026"}


def test_a_newer_backup_after_an_older_one_is_charged_too_much_rather_than_too_little(world: World) -> None:
    """The anchors cannot tell whether what the older one lost was released anew behind it."""
    fill(world.ledger(), FIRST)
    world.backup("older")
    fill(world.ledger(), SECOND)
    world.backup("newer")
    fill(world.ledger(), plan(period="2026", cost="1/10"))
    world.restore("older")
    world.ledger().recover("the first that was found")
    assert world.spent() == Fraction(5, 10)
    world.restore("newer")
    world.ledger().recover("a better one")
    assert world.spent() == Fraction(5, 10) + Fraction(3, 10)
    assert world.ledger().check() == ()


def test_a_second_recovery_has_nothing_to_do(world: World) -> None:
    fill(world.ledger(), FIRST)
    assert world.ledger().recover("no need") == ()
    assert world.ledger().check() == ()
    world.backup()
    fill(world.ledger(), SECOND)
    world.restore()
    assert world.ledger().recover("restored")
    before = (len(list(world.ledger().entries())), world.head.read_bytes())
    assert world.ledger().recover("again") == ()
    assert before == (len(list(world.ledger().entries())), world.head.read_bytes())
    assert SQLiteLedger(world.folder / "none" / "ledger.db").recover("nothing is there") == ()


def test_a_copy_at_another_path_is_refused(world: World) -> None:
    fill(world.ledger(), FIRST)
    world.stop()
    copy = world.folder / "copy" / "ledger.db"
    copy.parent.mkdir()
    shutil.copy(world.path, copy)
    for bare in (True, False):
        with pytest.raises(LedgerError, match="DPR-L306"):
            standing_of(world.ledger(path=copy, bare=bare), ["people"])
    linked = world.folder / "link"
    linked.symlink_to(world.path.parent)
    assert world.ledger(path=linked / "ledger.db").check() == ()  # a link is no other place


def test_a_moved_ledger_is_recovered_and_the_old_one_is_then_behind(world: World) -> None:
    fill(world.ledger(), FIRST)
    kept = reserved(world.ledger(), SECOND)
    world.backup()
    new = world.folder / "new" / "ledger.db"
    new.parent.mkdir()
    shutil.copy(world.path, new)
    (said,) = world.ledger(path=new).recover("moved to the new disk")
    assert "is a copy" in said
    moved = world.ledger(path=new)
    assert moved.check() == ()
    found = moved.find("survey", "2025")
    assert found is not None
    assert found.state == "open", "nothing was lost: it goes on"
    moved.commit(key(kept), answer())
    moved.close("survey", "2025", kept.plan_fingerprint, "manifest")
    with pytest.raises(Corrupt, match="DPR-L310"):
        standing_of(world.ledger(), ["people"])


def test_another_ledger_in_its_place_is_refused_and_both_are_charged(world: World) -> None:
    """What the first one spent and what the second one spent was spent, whichever is more."""
    fill(world.ledger(), SECOND)
    world.delete()
    fill(world.ledger(bare=True), plan(period="2026", cost="2/10"))
    refused(world, "DPR-L313")
    world.ledger().recover("the anchors were switched off for a while")
    assert world.spent() == Fraction(5, 10)
    assert {(each.period, each.state) for each in world.ledger().reservations()} == {
        ("2025", "lost"),
        ("2026", "closed"),
    }
    assert world.ledger().check() == ()
    refused_by = [entry.body["ledger"] for entry in world.ledger().entries() if entry.kind in ("anchor", "recover")]
    assert len(set(refused_by)) == 1, "it keeps its id"


def test_an_account_that_adds_up_otherwise_in_the_anchors_is_not_guessed(world: World) -> None:
    gaussian = plan(period="2026", mechanism="discrete_gaussian")
    fill(world.ledger(), SECOND)
    world.delete()
    fill(world.ledger(bare=True), gaussian)
    with pytest.raises(Corrupt, match="DPR-L314"):
        world.ledger().recover("another one")
    refused(world, "DPR-L313")


def test_a_lost_anchor_is_refused_and_begun_anew_with_everything(world: World) -> None:
    fill(world.ledger(), FIRST)
    world.backup()
    fill(world.ledger(), SECOND)
    world.head.unlink()
    refused(world, "DPR-L312")
    assert not world.head.exists()
    (said,) = world.ledger().recover("the anchor's disk died")
    assert "is missing" in said
    assert world.ledger().check() == ()
    world.restore()  # and what was there before the anchor was begun anew is not forgotten
    refused(world, "DPR-L310")
    world.ledger().recover("restored")
    assert world.spent() == Fraction(4, 10)
    assert {(each.period, each.state) for each in world.ledger().reservations()} == {
        ("2024", "closed"),
        ("2025", "lost"),
    }


def test_a_damaged_anchor_is_refused_and_what_is_whole_of_it_counts(world: World) -> None:
    fill(world.ledger(), FIRST)
    world.backup()
    fill(world.ledger(), SECOND)
    lines = world.head.read_bytes().splitlines(keepends=True)
    world.head.write_bytes(b"".join([*lines[:2], b"scribble\n", *lines[3:]]))
    refused(world, "DPR-L311")
    world.restore()
    refused(world, "DPR-L311")
    world.ledger().recover("both at once")
    assert world.spent() >= Fraction(4, 10)
    assert world.ledger().check() == ()
    assert world.head.with_name("head.1").read_bytes().count(b"scribble") == 1


def test_a_damaged_ledger_is_not_recovered_but_restored_first(world: World) -> None:
    fill(world.ledger(), FIRST)
    world.stop()
    with closing(sqlite3.connect(world.path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER entries_no_update")
        connection.execute("UPDATE entries SET body = '{}' WHERE sequence = 6")
    before = world.path.read_bytes()
    with pytest.raises(Corrupt, match="DPR-L302"):
        world.ledger().recover("try")
    world.stop()
    assert world.path.read_bytes() == before


def test_one_of_two_anchors_is_enough(world: World) -> None:
    two = [world.head, world.folder / "elsewhere" / "head"]
    fill(world.ledger(*two), FIRST)
    world.backup()
    fill(world.ledger(*two), SECOND)
    for gone in two:
        data = gone.read_bytes()
        gone.unlink()
        with pytest.raises(Corrupt, match="DPR-L31"):
            standing_of(world.ledger(*two), ["people"])
        gone.write_bytes(data)
    world.restore()
    two[0].unlink()
    world.ledger(*two).recover("one anchor and the ledger")
    assert world.ledger(*two).check() == ()
    assert Anchor(two[0]).all() == Anchor(two[1]).all()
    with world.ledger(*two)._reading() as rows:
        assert rows is not None
        assert view.state(rows).accounts["people"].balance.spent.loss == Fraction(4, 10)


def test_an_anchor_of_another_ledger_in_the_list_is_not_forgotten(world: World) -> None:
    """Two ledgers, one project: `recover` must not pick the longer one of their courses, and drop the other."""
    other = world.folder / "other" / "head"
    fill(SQLiteLedger(world.folder / "other" / "ledger.db", [other]), SECOND)
    for year in range(2030, 2034):
        fill(world.ledger(), plan(period=str(year), cost="1/20"))
    world.delete()
    world.ledger(world.head, other).recover("both are gone")
    with world.ledger(world.head, other)._reading() as rows:
        assert rows is not None
        assert view.whole_state(rows).accounts["people"].balance.spent.loss == Fraction(3, 10) + 4 * Fraction(1, 20)
    assert len(world.ledger(world.head, other).reservations()) == 5
