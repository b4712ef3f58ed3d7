"""No recovery leaves an account with less than was charged to it, however it came to it, or died over it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import LedgerError
from dprelease.ledger import Reservation
from dprelease.ledger.anchors.anchors import Anchor
from dprelease.ledger.model.balance import Balance
from dprelease.ledger.model.entry import Recovered
from dprelease.ledger.tables import view
from dprelease.ledger.tables.write import Write
from dprelease.plan.document import Account, ReleasePlan
from tests.ledgers import SQLiteLedger, World, account, answer, charges, fill, key, plan


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def reserved(ledger: SQLiteLedger, made: ReleasePlan) -> Reservation:
    kept = ledger.reserve(made, charges(made))
    ledger.source(kept.release, kept.period, kept.plan_fingerprint, {"people": ("hash",)}, "key")
    return kept


FIRST, SECOND = plan(), plan(period="2025", cost="3/10")


def test_a_copy_that_went_on_by_itself_is_charged_for_both_courses(world: World) -> None:
    """Somebody restores a backup with an older anchor, and goes on; later the newer anchor comes back."""
    fill(world.ledger(), FIRST)
    world.backup()
    fill(world.ledger(), SECOND)
    world.restore()
    world.forget()
    fill(world.ledger(), plan(period="2026", cost="2/10"))
    world.remember()
    world.ledger().recover("two courses")
    assert world.spent() == Fraction(1 + 3 + 2, 10)
    assert {(each.period, each.state) for each in world.ledger().reservations()} == {
        ("2024", "closed"),
        ("2025", "lost"),
        ("2026", "closed"),
    }
    assert world.ledger().check() == ()


@pytest.mark.parametrize("voided", ["lost", "kept", "both", "again"])
def test_what_one_course_gave_back_and_the_other_read_is_charged(world: World, voided: str) -> None:
    """Given back in one copy, a release may have been read in the other; a sum of differences would forget it."""
    names = ("survey", "2024", FIRST.fingerprint())
    world.ledger().reserve(FIRST, charges(FIRST))
    world.backup()
    lost = world.ledger()
    if voided in ("lost", "both", "again"):
        lost.void(*names, "no file")
        read_in_lost = Fraction(0)
        if voided == "again":
            fill(lost, FIRST)
            read_in_lost = Fraction(1, 10)
    else:
        lost.commit(key(reserved(lost, FIRST)), answer())
        read_in_lost = Fraction(1, 10)
    fill(lost, SECOND)
    world.restore()
    world.forget()
    kept = world.ledger()
    if voided in ("kept", "both"):
        kept.void(*names, "no file")
        read_in_kept = Fraction(0)
    else:
        kept.commit(key(reserved(kept, FIRST)), answer())
        read_in_kept = Fraction(1, 10)
    more = plan(period="2026", cost="2/10")
    fill(kept, more)
    world.remember()
    world.ledger().recover("two courses")
    truth = read_in_lost + read_in_kept + Fraction(3, 10) + Fraction(2, 10)
    assert truth <= world.spent() <= truth + Fraction(1, 10)
    assert world.ledger().check() == ()


BASIC = account(epsilon="8")
WINDOWED = account(epsilon="8", window=("year", "8"))
MONTHLY = account(epsilon="8", window=("month", "8"))
PARALLEL = account(epsilon="8", unit="person-month", parallel="month")
CONCENTRATED = account(epsilon="8", composition="zcdp")
RENYI = account(epsilon="8", composition="rdp", order="8")
SERIES = account(epsilon="8", composition="pld")


TERMS = {
    "basic": BASIC,
    "years": WINDOWED,
    "months": MONTHLY,
    "parallel": PARALLEL,
    "zcdp": CONCENTRATED,
    "rdp": RENYI,
    "pld": SERIES,
}


def released(ledger: SQLiteLedger, terms: Account, period: str) -> None:
    laplace = terms.composition in ("basic", "pld")
    steps = {"one": terms.name, "two": "visits"}
    visits = terms.model_copy(update={"name": "visits"})
    mechanism = "discrete_laplace" if laplace else "discrete_gaussian"
    made = plan(period=period, steps=steps, mechanism=mechanism, accounts=[terms, visits], unit=terms.unit)
    if terms.composition == "pld" and not ledger.heads(["visits"]):
        for each in (terms, visits):
            ledger.open_account(each, "a series", [(made.event_of(each.name), 6)])
    fill(ledger, made)


def not_less(after: Balance, before: Balance) -> bool:
    return (
        after.spent.loss >= before.spent.loss
        and after.spent.reveals >= before.spent.reveals
        and all(after.windows[name].loss >= spent.loss for name, spent in before.windows.items())
        and all(after.series[digest] >= taken for digest, taken in before.series.items())
    )


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize("how", ["restored", "deleted"])
def test_no_account_has_less_than_was_charged_to_it(world: World, terms: Account, how: str) -> None:
    for period in ("2024-01", "2024-02"):
        released(world.ledger(), terms, period)
    world.backup()
    for period in ("2024-03", "2025-01", "2024-W09"):
        released(world.ledger(), terms, period)
    given_back = plan(period="2026", accounts=[BASIC.model_copy(update={"name": "people"})])
    if terms is BASIC:
        ledger = world.ledger()
        ledger.reserve(given_back, charges(given_back))
        ledger.void("survey", "2026", given_back.fingerprint(), "no file")
    before = world.balances()
    if how == "restored":
        world.restore()
    else:
        world.delete()
    world.ledger().recover(how)
    after = world.balances()
    assert before.keys() == after.keys() == {"people", "visits"}
    assert all(not_less(after[name], before[name]) for name in before)
    assert after["people"].spent == before["people"].spent, "nor more, where nothing was given back or forked"
    assert after["people"].windows == before["people"].windows
    assert after["people"].series == before["people"].series
    assert world.ledger().check() == ()
    if terms.composition == "pld" and how == "restored":
        released(world.ledger(), terms, "2027")
        with pytest.raises(LedgerError, match="all 6 releases"):
            released(world.ledger(), terms, "2028")


def test_a_recovered_ledger_goes_on_inside_the_same_cap(world: World) -> None:
    fill(world.ledger(), plan(cost="4/10"))
    world.backup()
    fill(world.ledger(), plan(period="2025", cost="4/10"))
    world.restore()
    world.ledger().recover("restored")
    for cost, fits in (("3/10", False), ("2/10", True), ("1/1000", False)):
        made = plan(release=f"costs {cost}".replace("/", " "), cost=cost)
        if fits:
            fill(world.ledger(), made)
        else:
            with pytest.raises(LedgerError, match="DPR-L100"):
                world.ledger().reserve(made, charges(made))
    assert world.ledger().check() == ()


# --- Crashes ---


class Dies(BaseException):
    """The process dies here."""


class Fuse:
    """Dies at one of the calls, counted over all of them."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise Dies
            found = function(*args, **kwargs)
            self.left -= 1
            if self.left == 0:
                raise Dies
            return found

        return guarded


def crashing(monkeypatch: pytest.MonkeyPatch, fuse: Fuse) -> None:
    for owner, name in (
        (Write, "_append"),
        (Write, "end"),
        (Anchor, "renew"),
        (Anchor, "_replace"),
        (os, "link"),
        (os, "fsync"),
        (os, "replace"),
    ):
        monkeypatch.setattr(owner, name, fuse(getattr(owner, name)))


@pytest.mark.slow
def test_a_recovery_that_dies_anywhere_is_gone_on_with_and_adds_nothing_twice(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = [world.head, world.folder / "elsewhere" / "head"]
    ledger = world.ledger(*two)
    fill(ledger, FIRST)
    reserved(ledger, plan(release="open", cost="1/20"))
    world.backup()
    fill(world.ledger(*two), SECOND)
    world.restore()
    start = tmp_path / "start"
    start.mkdir()
    for name in ("state", "anchors", "elsewhere"):
        shutil.copytree(world.folder / name, start / name)
    died = 0
    for at in range(1, 200):
        world.stop()
        for name in ("state", "anchors", "elsewhere"):
            shutil.rmtree(world.folder / name)
            shutil.copytree(start / name, world.folder / name)
        fuse = Fuse(at)
        try:
            with monkeypatch.context() as context:
                crashing(context, fuse)
                world.ledger(*two).recover("restored")
        except Dies:
            died += 1
        world.stop()
        world.ledger(*two).recover("again")
        ledger = world.ledger(*two)
        assert ledger.check() == (), at
        with ledger._reading() as rows:
            assert rows is not None
            found = view.whole_state(rows).accounts["people"].balance
        assert found.spent.loss == Fraction(1, 10) + Fraction(1, 20) + Fraction(3, 10), at
        states = {(each.release, each.period): each.state for each in ledger.reservations()}
        assert states == {
            ("survey", "2024"): "closed",
            ("open", "2024"): "given_up",
            ("survey", "2025"): "lost",
        }, at
        if fuse.left > 0:
            break
    assert died == at - 1
    assert died > 20


def test_what_is_recovered_is_told_with_who_and_why(world: World) -> None:
    fill(world.ledger(), FIRST)
    world.delete()
    world.ledger().recover("deleted by the new intern", "dprelease ledger recover")
    bodies = [entry.facts() for entry in world.ledger().entries()]
    told = [body for body in bodies if isinstance(body, Recovered)]
    assert {body.why for body in told} == {"deleted by the new intern"}
    assert {(body.by.process, body.by.command) for body in told} == {(os.getpid(), "dprelease ledger recover")}
    assert told[0].known.sequence == 6
