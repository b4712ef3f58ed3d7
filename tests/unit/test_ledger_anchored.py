"""A ledger and its anchors: in step with what is handed on, and whole however the list of anchors changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import Corrupt, LedgerError
from dprelease.ledger.anchors.anchors import Anchor
from dprelease.ledger.model.anchor_lines import AnchorLine
from dprelease.ledger.model.entry import Anchored
from tests.ledgers import SQLiteLedger, answer, charges, fill, key, plan, standing_of


def line(sequence: int, ledger: str = "id", **facts: Any) -> AnchorLine:
    return AnchorLine(ledger=ledger, sequence=sequence, hash=f"hash {sequence}", **facts)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "ledger.db"


@pytest.fixture
def head(tmp_path: Path) -> Path:
    return tmp_path / "anchors" / "head"


class Dies(BaseException):
    """The process dies here."""


@pytest.fixture
def opened(path: Path, head: Path) -> Iterator[Callable[..., SQLiteLedger]]:
    """A new process; with no other list, the one anchor."""
    made: list[SQLiteLedger] = []

    def new(*others: Path) -> SQLiteLedger:
        made.append(SQLiteLedger(path, others or [head]))
        return made[-1]

    yield new
    for ledger in made:
        ledger.disconnect()


def dies_before_its_anchor(ledger: SQLiteLedger, do: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the commit and the anchor."""

    def die(*_: object) -> None:
        raise Dies

    with monkeypatch.context() as context:
        context.setattr(ledger._guard, "anchor", die)
        with pytest.raises(Dies):
            do()
    ledger.disconnect()


def knows(head: Path) -> int:
    last = Anchor(head).last()
    return last.sequence if last else -1


def test_every_write_is_in_the_anchor_before_anything_is_handed_on(
    opened: Callable[..., SQLiteLedger], head: Path
) -> None:
    ledger, made = opened(), plan()
    kept = ledger.reserve(made, charges(made))
    names = (kept.release, kept.period, kept.plan_fingerprint)
    assert knows(head) == kept.sequence == 3
    ledger.source(*names, {"people": ("hash",)}, "key")
    assert knows(head) == 4
    ledger.secret(*names)
    ledger.commit(key(kept), answer())
    assert knows(head) == 5
    ledger.close(*names, "manifest")
    assert knows(head) == 6
    told = Anchor(head).all()
    assert told is not None
    assert told.balances["people"].spent.loss == Fraction(1, 10)
    assert list(told.releases) == [f"survey/2024/{kept.plan_fingerprint}"]
    assert (head.stat().st_mode & 0o777, head.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_an_answer_that_was_committed_by_a_dead_process_is_anchored_before_it_is_handed_on(
    opened: Callable[..., SQLiteLedger], head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, made = opened(), plan()
    kept = ledger.reserve(made, charges(made))
    ledger.source(kept.release, kept.period, kept.plan_fingerprint, {"people": ("hash",)}, "key")
    dies_before_its_anchor(ledger, lambda: ledger.commit(key(kept), answer()), monkeypatch)
    assert knows(head) == 4
    another = opened()
    dies_before_its_anchor(another, lambda: another.stored(key(kept)), monkeypatch)
    assert knows(head) == 4
    assert opened().stored(key(kept)) is not None
    assert knows(head) == 5
    size = head.stat().st_size
    reader = opened()
    for _ in range(3):
        reader.stored(key(kept))
    assert head.stat().st_size > size  # a process tells once what it has not written itself
    size = head.stat().st_size
    reader.stored(key(kept))
    assert head.stat().st_size == size


@pytest.mark.parametrize("between", ["nothing", "another release", "another answer"])
def test_a_reservation_of_a_dead_process_is_in_the_anchor_with_its_cost_before_it_is_read(
    opened: Callable[..., SQLiteLedger],
    head: Path,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    between: str,
) -> None:
    """Whoever goes on with it has nothing to reserve; and the anchor's head may be behind it by somebody else's write."""
    ledger, other, made = opened(), plan(release="other", steps={"one": "visits"}), plan(cost="3/10")
    theirs = ledger.reserve(other, charges(other))
    ledger.source("other", "2024", theirs.plan_fingerprint, {"visits": ("hash",)}, "key")
    ledger.disconnect()
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(path.parent / "old.db")) as target:
        source.backup(target)
    dead = opened()
    dies_before_its_anchor(dead, lambda: dead.reserve(made, charges(made)), monkeypatch)
    going_on = opened()
    if between == "another release":
        more = plan(release="more", steps={"one": "visits"})
        going_on.reserve(more, charges(more))
    elif between == "another answer":
        going_on.commit(key(theirs), answer())
    kept = going_on.reserve(made, charges(made))
    going_on.sourced(kept.release, kept.period, kept.plan_fingerprint)
    told = Anchor(head).all()
    assert told is not None
    assert told.balances["people"].spent.loss == Fraction(3, 10)
    assert f"survey/2024/{kept.plan_fingerprint}" in told.releases
    assert going_on.check() == ()


def test_whoever_writes_next_tells_the_anchor_what_a_dead_process_did_not(
    opened: Callable[..., SQLiteLedger], head: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An anchor that has a head knows every balance behind it, whoever wrote which entry."""
    ledger, made, more = opened(), plan(cost="3/10"), plan(release="more", steps={"one": "visits"})
    fill(ledger, plan(release="first"))
    dies_before_its_anchor(ledger, lambda: ledger.reserve(made, charges(made)), monkeypatch)
    another = opened()
    another.reserve(more, charges(more))
    another.disconnect()
    told = Anchor(head).all()
    assert told is not None
    assert (told.balances["people"].spent.loss, told.balances["people"].releases) == (Fraction(4, 10), 2)
    assert set(told.terms) == {"people", "visits"}
    path.unlink()
    again = opened()
    again.recover("deleted")
    _, refused = again.quote(charges(plan(period="2030", cost="7/10")), "2030")
    assert [facts.before.epsilon for facts in refused] == [Fraction(4, 10)]


@pytest.mark.parametrize("seen", ["nothing", "what another one began"])
def test_a_ledger_that_is_made_between_a_look_and_the_snapshot_is_no_lost_anchor(
    opened: Callable[..., SQLiteLedger], head: Path, monkeypatch: pytest.MonkeyPatch, seen: str
) -> None:
    fill(opened())
    late = opened()
    looked = {str(head): None if seen == "nothing" else line(0, "of a ledger that never came")}
    monkeypatch.setattr(late._guard, "look", lambda: looked)
    assert late.find("survey", "2024") is not None
    fill(late, plan(period="2025"))
    head.unlink()
    with pytest.raises(Corrupt, match=r"DPR-L31[23]"):
        late.find("survey", "2024")


def test_an_anchor_that_cannot_be_written_lets_nothing_be_handed_on(
    opened: Callable[..., SQLiteLedger], head: Path, tmp_path: Path
) -> None:
    ledger, made = opened(), plan()
    kept = ledger.reserve(made, charges(made))
    aside = tmp_path / "aside"
    head.rename(aside)
    head.mkdir()
    for use in (
        lambda: ledger.commit(key(kept), answer()),
        lambda: opened().stored(key(kept)),
        lambda: opened().sourced(kept.release, kept.period, kept.plan_fingerprint),
        lambda: standing_of(opened(), ["people"]),
    ):
        with pytest.raises(LedgerError, match="DPR-L144"):
            use()
    head.rmdir()
    aside.rename(head)
    assert opened().stored(key(kept)) is None


def test_the_first_reservation_is_not_made_where_the_anchor_cannot_be(path: Path, tmp_path: Path) -> None:
    made = plan()
    (tmp_path / "file").write_text("")
    ledger = SQLiteLedger(path, [tmp_path / "file" / "head"])
    with pytest.raises(LedgerError, match="DPR-L1"):
        ledger.reserve(made, charges(made))
    assert tuple(SQLiteLedger(path).entries()) == ()


def test_a_link_in_the_place_of_an_anchor_is_not_followed(
    opened: Callable[..., SQLiteLedger], head: Path, tmp_path: Path
) -> None:
    made = plan()
    head.parent.mkdir()
    head.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match="DPR-L144"):
        opened().reserve(made, charges(made))
    assert not (tmp_path / "elsewhere").exists()


def test_several_anchors_all_know_and_each_of_them_speaks_up(
    opened: Callable[..., SQLiteLedger], tmp_path: Path, path: Path
) -> None:
    three = [tmp_path / name / "head" for name in "abc"]
    ledger = opened(*three)
    fill(ledger)
    assert [knows(each) for each in three] == [7, 7, 7]
    data = path.read_bytes()
    fill(ledger, plan(period="2025"))
    ledger.disconnect()
    path.write_bytes(data)
    for each in three:
        told = each.read_bytes()
        each.write_bytes(b"".join(told.splitlines(keepends=True)[:3]))
        with pytest.raises(Corrupt, match="was rolled back"):
            standing_of(opened(*three), ["people"])
        each.write_bytes(told)


def anchored(ledger: SQLiteLedger) -> list[tuple[str, ...]]:
    found = (entry.facts() for entry in ledger.entries() if entry.kind == "anchor")
    return [body.anchors for body in found if isinstance(body, Anchored)]


def test_a_changed_list_of_anchors_is_an_entry_and_a_new_one_learns_everything(
    opened: Callable[..., SQLiteLedger], tmp_path: Path, path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    fill(opened(one))
    made = plan(period="2025")
    kept = opened(one, two).reserve(made, charges(made))
    opened(two).commit(key(kept), answer())  # not only a reservation notices
    opened(one, two).close("survey", "2025", kept.plan_fingerprint, "manifest")
    assert anchored(opened(one, two)) == [
        (str(one),), (str(one), str(two)), (str(two),), (str(one), str(two)),
    ]  # fmt: skip
    assert opened(one, two).check() == ()
    told = [Anchor(each).all() for each in (one, two)]
    assert told[0] is not None
    assert told[1] is not None
    for what in ("head", "balances", "terms", "ledger"):
        assert getattr(told[0], what) == getattr(told[1], what)
    assert set(told[0].releases) == set(told[1].releases)
    for each in path.parent.glob("ledger.db*"):
        each.unlink()
    ledger = SQLiteLedger(path, [two])
    ledger.recover("deleted")
    assert len(ledger.reservations()) == 2
    assert ledger.check() == ()


def test_without_anchors_a_ledger_works_and_may_get_them_later(
    opened: Callable[..., SQLiteLedger], path: Path, head: Path
) -> None:
    bare = SQLiteLedger(path, [])
    fill(bare)
    assert (bare.check(), anchored(bare)) == ((), [()])
    assert not head.parent.exists()
    bare.disconnect()
    ledger, made = opened(), plan(period="2025")
    kept = ledger.reserve(made, charges(made))
    assert anchored(ledger) == [(), (str(head),)]
    known = Anchor(head).all()
    assert known is not None
    assert known.balances["people"].releases == 2
    assert len(known.releases) == 2
    assert ledger.find("survey", "2025") == kept


def test_what_another_ledger_began_and_never_used_is_set_aside(
    opened: Callable[..., SQLiteLedger], path: Path, head: Path
) -> None:
    """A first attempt under a wrong `ledger:` leaves the anchor begun."""
    bare = SQLiteLedger(path, [])
    fill(bare)
    bare.disconnect()
    Anchor(head).begin(line(0, "of a ledger that never came"))
    fill(opened(), plan(period="2025"))
    assert opened().check() == ()
    assert head.with_name("head.1").exists()
    assert knows(head) == list(opened().entries())[-1].sequence


def test_an_anchor_of_another_ledger_is_refused(path: Path, head: Path, tmp_path: Path) -> None:
    fill(SQLiteLedger(tmp_path / "other" / "ledger.db", [head]))
    bare = SQLiteLedger(path, [])
    fill(bare)
    bare.disconnect()
    with pytest.raises(Corrupt, match="DPR-L313"):
        standing_of(SQLiteLedger(path, [head]), ["people"])
    made, new = plan(), SQLiteLedger(tmp_path / "new" / "ledger.db", [head])
    with pytest.raises(Corrupt, match="DPR-L305"):
        new.reserve(made, charges(made))
    assert not new.path.exists(), "nothing is made in the place of a ledger that is gone"


def test_half_a_beginning_is_gone_on_with(opened: Callable[..., SQLiteLedger], head: Path, path: Path) -> None:
    """The tables were made, and nothing was ever written: whoever comes next begins."""
    with opened()._store.writing(make=True) as rows:
        assert rows is not None
    fill(opened())
    assert opened().check() == ()
    path.unlink()
    ledger = opened()
    with pytest.raises(Corrupt, match="DPR-L305"):
        standing_of(ledger, ["people"])
    assert head.exists()


def _left_out_and_read(path: Path, head: Path) -> Path:
    """An anchor leaves the list, a copy is taken, and somebody reads what came later with the anchor in the list."""
    with_it = SQLiteLedger(path, [head])
    reservation = fill(with_it)
    with_it.disconnect()
    bare = SQLiteLedger(path, [])
    fill(bare, plan(period="2025"))
    bare.disconnect()
    copy = path.with_name("copy")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    fill(bare, plan(period="2026"))
    bare.disconnect()
    reader = SQLiteLedger(path, [head])
    assert reader.stored(key(reservation, "a")) is not None
    reader.disconnect()
    return copy


def test_an_anchor_that_was_left_out_and_knows_more_than_a_restored_file_speaks_up(path: Path, head: Path) -> None:
    copy = _left_out_and_read(path, head)
    path.unlink()
    copy.rename(path)
    bare, made = SQLiteLedger(path, []), plan(period="2027")
    with pytest.raises(Corrupt, match="DPR-L310"):
        bare.reserve(made, charges(made))
    assert bare.recover("a backup was restored")
    assert bare.reserve(made, charges(made)).state == "open"
    bare.disconnect()


@pytest.mark.parametrize("fate", ["gone", "damaged", "a folder", "of another ledger"])
def test_an_anchor_that_was_left_out_may_be_gone_or_another_ledgers(
    path: Path, head: Path, tmp_path: Path, fate: str
) -> None:
    _left_out_and_read(path, head)
    head.unlink()
    if fate == "damaged":
        head.write_bytes(b"no line\n" * 3)
    elif fate == "a folder":
        head.mkdir()
    elif fate == "of another ledger":
        fill(SQLiteLedger(tmp_path / "other" / "ledger.db", [head]))
    before = head.read_bytes() if head.is_file() else b""
    bare = SQLiteLedger(path, [])
    fill(bare, plan(period="2027"))
    bare.disconnect()
    assert (head.read_bytes() if head.is_file() else b"") == before, "it is not written any more"
