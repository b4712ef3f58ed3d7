"""The short ways of the full check find what the long ones find: each is tried beside the other."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dprelease.canonical import dumps, sha256
from dprelease.errors import UnsupportedEvent
from dprelease.ledger.audit import audit as audit_module
from dprelease.ledger.audit import memo
from dprelease.ledger.audit.audit import EntryRow, Index, audit
from dprelease.ledger.audit.quick import plain_entry, quick_reserved
from dprelease.ledger.model.entry import Closed, LedgerEntry, Reserved, Sourced, StepMeasured
from dprelease.ledger.model.history import events_digest
from dprelease.ledger.tables.plans import Planned, Plans
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import Spent, Terms, read_total
from dprelease.privacy.theorems.concentrated import rough_rho_to_epsilon
from tests.ledgers import CELLS, SQLiteLedger, charges, fill, plan

STEP = (
    '{"at":"2024-01-01T00:00:00Z","books":3,"cells":4,"digest":"d","period":"2024","plan":"p","release":"r","step":"s"}'
)
LOOK = (
    '{"accepted":"","accounts":{"a":"people","b":"people"},"at":"t","books":3,"by":{"command":"c","host":"h",'
    '"process":7,"user":"u","version":"1"},"key":"k","period":"2024","plan":"p","release":"r","reservation":3,'
    '"tables":{"a":["1","2"],"b":["3"]}}'
)
END = '{"at":"t","books":3,"gave_up":"","manifest":"m","period":"2024","plan":"p","release":"r","reservation":3}'
READERS: list[tuple[type[StepMeasured | Sourced | Closed], str]] = [
    (StepMeasured, STEP),
    (Sourced, LOOK),
    (Closed, END),
]


def differing(kind: type[StepMeasured | Sourced | Closed], text: str) -> dict[str, tuple[Any, Any]]:
    """What the short way says otherwise than the long one, by field; what is of other kinds is empty."""
    plain, body = plain_entry(kind.kind, text), kind.from_canonical(text)
    assert plain is not None
    empty = plain._field_defaults
    pairs = {name: (said, getattr(body, name, empty.get(name))) for name, said in plain._asdict().items()}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize(("kind", "text"), READERS)
def test_a_plain_entry_is_read_as_the_long_way_reads_it(kind: Any, text: str) -> None:
    assert dumps(json.loads(text)) == text
    assert differing(kind, text) == {}


@pytest.mark.parametrize(("kind", "text"), READERS)
def test_whatever_is_read_the_short_way_is_canonical_and_a_body_of_its_kind(kind: Any, text: str) -> None:
    """Every character is left out, doubled, and replaced by each that means something in JSON."""
    texts = {text[:at] + put + text[at + skip :] for at in range(len(text)) for put in OTHERS for skip in (0, 1)}
    read = [each for each in texts if plain_entry(kind.kind, each) is not None]
    assert len(read) > 100
    for each in read:
        assert dumps(json.loads(each)) == each
        assert differing(kind, each) == {}


RATIONAL = {"delta": "1/1000000000", "epsilon": "3/20"}
SPENT = {"loss": "3/20", "reveals": "0"}
CAP = {"delta": "0", "epsilon": None, "rho": "7"}
LOST = {"after": RATIONAL, "before": {"delta": "0", "epsilon": "0"}, "cap": CAP, "composition": "zcdp", "name": "a", "window": ""}  # fmt: skip
RESERVED: dict[str, Any] = {
    "approvals": [],
    "at": "t",
    "balances": [
        {"account": "a", "opened": 2, "releases": 7, "series": {"x": 1, "y": 20}, "spent": SPENT, "windows": {}},
        {"account": "é", "opened": 3, "releases": 0, "series": {}, "spent": SPENT, "windows": {"w": SPENT, "x": SPENT}},
    ],
    "by": {"command": "run", "host": "h", "process": 71, "user": "u", "version": "1"},
    "charges": [
        {"digest": "d", "events": None, "facts": LOST, "spent": SPENT, "windows": []},
        {"digest": "e", "events": None, "facts": LOST, "spent": SPENT, "windows": [{**LOST, "window": "w"}, LOST]},
    ],
    "environment": {"dprelease": "1", "python": "3"},
    "marks": {"heads": {"a": 4, "b": 4}, "place": 1},
    "mended": ["key-selection"],
    "period": "2024",
    "plan": "",
    "plan_fingerprint": "p",
    "reason": "",
    "release": "r",
    "restates": 17,
    "revision": 0,
    "spec_fingerprint": "s",
}
RESERVATION = dumps(RESERVED)


def test_a_reservation_is_read_as_the_parser_reads_it() -> None:
    for text in (
        RESERVATION,
        RESERVATION.replace(":17,", ":null,"),
        dumps({**RESERVED, "charges": [], "balances": []}),
    ):
        read = quick_reserved(text)
        assert read is not None
        assert read == Reserved.from_canonical(text)
        assert read.canonical() == text
        assert repr(read) == repr(Reserved.from_canonical(text))  # the order of fields, too: hashes depend on it
        assert read.model_copy(update={"at": "t"}) == read


@pytest.mark.slow
def test_whatever_is_read_without_the_parser_is_canonical_and_what_the_parser_reads() -> None:
    """Every character of a reservation is left out, doubled, and replaced by each that means something in JSON."""
    text = RESERVATION
    texts = {text[:at] + put + text[at + skip :] for at in range(len(text)) for put in OTHERS for skip in (0, 1)}
    read = [(each, found) for each in texts if (found := quick_reserved(each)) is not None]
    assert len(read) > 100
    for each, found in read:
        assert dumps(json.loads(each)) == each
        assert found == Reserved.from_canonical(each)


@pytest.mark.parametrize(
    "change",
    [
        {"approvals": [{}]},
        {"revision": True},
        {"revision": -1},
        {"restates": "3"},
        {"mended": [1]},
        {"marks": None},
        {"plan": None},
        {"by": {**RESERVED["by"], "process": 7.0}},
        {"by": {**RESERVED["by"], "process": True}},
        {"by": {**RESERVED["by"], "more": "x"}},
        {"more": "x"},
        {"environment": {"a": 1}},
        {"charges": [{**RESERVED["charges"][0], "spent": None}]},
        {"charges": [{**RESERVED["charges"][0], "facts": {**LOST, "cap": {**CAP, "epsilon": "1"}}}]},
        {"charges": [{**RESERVED["charges"][0], "facts": {**LOST, "cap": {**CAP, "delta": "1"}}}]},
        {"charges": [{**RESERVED["charges"][0], "facts": {**LOST, "composition": "other"}}]},
        {"balances": [{**RESERVED["balances"][0], "spent": {"loss": "1/0", "reveals": "0"}}]},
        {"balances": [{**RESERVED["balances"][0], "spent": {"loss": "-1", "reveals": "0"}}]},
        {"balances": [{**RESERVED["balances"][0], "spent": {"loss": "1e3", "reveals": "0"}}]},
        {"balances": [{**RESERVED["balances"][0], "opened": "2"}]},
    ],
)
def test_a_reservation_of_another_form_is_left_to_the_parser(change: dict[str, Any]) -> None:
    text = json.dumps({**RESERVED, **change}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert quick_reserved(text) is None


@pytest.mark.parametrize(
    ("this", "that"),
    [
        ('"a":4,"b":4', '"b":4,"a":4'),
        ('"a":4,"b":4', '"a":4,"a":4'),
        ('"dprelease":"1","python":"3"', '"python":"3","dprelease":"1"'),
        ('"dprelease":"1","python":"3"', '"python":"1","python":"3"'),
        ('"x":1,"y":20', '"y":20,"x":1'),
        ('"at":"t"', '"at": "t"'),
        ('"at":"t"', '"at":"t","at":"t"'),
        ('"opened":2', '"opened":02'),
        ('"opened":2', '"opened":٢'),
        ('"place":1', '"place":1.0'),
        (RESERVATION, f"{RESERVATION}\n"),
        (RESERVATION, f"[{RESERVATION}]"),
    ],
)
def test_a_reservation_that_is_not_canonical_is_left_to_the_parser(this: str, that: str) -> None:
    assert this in RESERVATION
    assert quick_reserved(RESERVATION.replace(this, that)) is None


OTHERS = ("", '"', "\\", '\\"', "\\\\", "\\n", "\n", " ", ",", ":", "{", "}", "[", "]", "0", "1.0", "-", "e", "x", "\\u0078", "é", "null")  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "[]", "3", "null", "", "{", '"s"', "{}", STEP.replace("3", "3.0"), STEP.replace("4,", "true,"),
        LOOK[:-1] + ',"z":1}', LOOK.replace('["1","2"]', "[]"), LOOK.replace('["1","2"]', '{"1":"2"}'),
        LOOK.replace('"1","2"', '"1",2'), LOOK.replace('"a":"people","b":"people"', '"b":"people","a":"people"'),
        END.replace(":3}", ':"3"}'), STEP[:-1] + ',"step":"s"}', STEP.replace('"books":3,', ""),
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_the_long_way(text: str) -> None:
    assert [plain_entry(kind, text) for kind in ("measure", "source", "close", "open")] == [None] * 4


@pytest.mark.parametrize(
    "text", ['{"a":1}', '{"a": 1}', '{"b":1,"a":2}', '{"a":"é"}', '{"a":"\\u00e9"}', '{"a":"x:1.5"}']
)
def test_canonical_is_what_dumps_would_write(text: str) -> None:  # fmt: skip
    assert memo.is_canonical(text) == (dumps(json.loads(text)) == text)


@pytest.mark.parametrize("text", ['{"a":1.5}', "[1,2e3]", "[-0.0]", "1.0", "NaN", "[Infinity]"])
def test_a_number_that_is_not_whole_is_never_canonical(text: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        memo.is_canonical(text)


def test_newtons_order_gives_the_epsilon_of_the_halvings() -> None:
    for rho in [10.0**k for k in range(-30, 13)] + [0.0, math.inf]:
        for delta in (1e-300, 1e-30, 1e-9, 1e-3, 0.3, 0.9, 0.999999):
            slow = rough_rho_to_epsilon(rho, math.log(delta))
            assert memo._rough_epsilon(rho, math.log(delta)) == pytest.approx(slow, rel=1e-11, abs=1e-13)


def test_only_what_agreed_is_believed_when_the_next_release_tells_it_again() -> None:
    terms, cap = Terms(composition="zcdp"), Budget(epsilon=Fraction(9), delta=Fraction(1, 10**9))
    none, one, two = (Spent(loss=Fraction(n, 100)) for n in range(3))
    shown = Spent(loss=Fraction(1, 100), reveals=Fraction(1, 10))
    before, behind, last = ((terms, spent, read_total(terms, spent, cap.delta), cap) for spent in (none, one, two))
    wrong = (terms, one, Loss(epsilon=Fraction(1, 100), delta=cap.delta), cap)
    worked = memo.Memo()
    assert worked.agreed(("people", ""), before, behind)
    assert worked.agreed(("people", ""), behind, last)
    assert not worked.agreed(("people", ""), before, wrong)
    assert not worked.agreed(("people", ""), wrong, last)
    for told in ((before, (terms, shown, wrong[2], cap)), ((terms, shown, wrong[2], cap), last)):
        with pytest.raises(UnsupportedEvent):  # more is revealed than the account keeps for that
            worked.agreed(("people", ""), *told)


def test_a_plan_of_a_series_is_read_by_its_own_name() -> None:
    plans = Plans()
    for name, period, spec in (("a", "1", "s"), ("b", "1", "s"), ("b", "2", "t")):
        made = plan(release=name, period=period, spec=spec)
        assert plans.read(made.canonical()) == Planned(
            name=(name, period, spec), cells={"one": CELLS}, costs={"people": events_digest(made.event)}
        )
    dearer = plans.read(plan(release="a", period="1", spec="s", cost="1/5").canonical())
    assert dearer.costs != plans.read(plan(release="a", period="1", spec="s").canonical()).costs


class Kept:
    """What a ledger of two releases keeps by digest."""

    def __init__(self, *made: ReleasePlan) -> None:
        self._plans = {each.fingerprint(): each for each in made}
        self._events = {events_digest(each.event): each.event for each in made}

    def plan(self, digest: str) -> Planned:
        return Plans().read(self._plans[digest].canonical())

    def events(self, digest: str) -> Composed:
        return self._events[digest]

    def cells(self, digest: str) -> int | None:
        return None


KINDS = ("source", "measure", "close", "reserve")


def altered(book: Sequence[LedgerEntry]) -> Iterator[list[EntryRow]]:
    """The book with a character of such an entry changed: as damage, and as a forgery whose hashes are good."""
    for number, entry in enumerate(book):
        for at in range(0, len(entry.text), 31) if entry.kind in KINDS else ():
            for put in ("9", '"'):
                text = entry.text[:at] + put + entry.text[at + 1 :]
                lines: list[EntryRow] = [
                    (each.sequence, each.previous, each.hash, each.kind, each.text) for each in book
                ]
                lines[number] = (*lines[number][:4], text)
                yield lines
                yield rechained([(*line[3:],) for line in lines])


def rechained(told: Sequence[tuple[str, str]]) -> list[EntryRow]:
    lines: list[EntryRow] = []
    for kind, text in told:
        sequence, previous = len(lines) + 1, lines[-1][2] if lines else ""
        lines.append((sequence, previous, sha256(dumps([sequence, previous, kind, text]).encode()), kind, text))
    return lines


@pytest.mark.slow
def test_both_ways_find_the_same_in_a_book_that_was_altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, made = SQLiteLedger(tmp_path / "ledger.db"), plan(steps={"a": "people"}, cost="1/20")
    given_up = plan("second", cost="1/20")
    fill(ledger, made)
    ledger.reserve(given_up, charges(given_up))
    ledger.give_up("second", "2024", given_up.fingerprint(), "bored")
    assert ledger.check() == ()
    books, kept, index = list(altered(list(ledger.entries()))), Kept(made, given_up), Index({}, {}, {}, {})
    ledger.disconnect()
    short = [audit(lines, index, kept) for lines in books]
    monkeypatch.setattr(audit_module, "plain_entry", lambda kind, text: None)
    monkeypatch.setattr(audit_module, "quick_reserved", lambda text: None)
    assert short == [audit(lines, index, kept) for lines in books]
    assert len({line for found in short for line in found}) > 10
