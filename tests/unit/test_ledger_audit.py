"""A book forged with good hashes must still add up: first books of schemas 1 and 2, then what this version writes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dprelease.canonical import dumps, sha256
from dprelease.errors import Corrupt
from dprelease.ledger.audit.audit import EntryRow, Index, audit
from dprelease.ledger.model import entry as kinds
from dprelease.ledger.model.admission import assess_charges
from dprelease.ledger.model.entry import BODIES, Body, LedgerEntry
from dprelease.ledger.model.history import events_digest, replay
from dprelease.ledger.model.process import this_process
from dprelease.ledger.model.store import row_identity
from dprelease.ledger.tables.plans import Planned, Plans
from dprelease.plan.document import Head, ReleasePlan
from dprelease.privacy.event import Composed
from tests.ledgers import CELLS, SQLiteLedger, account, answer, charges, fill, key, plan

AT = "2024-03-07T05:06:07Z"
BY = this_process("test")
PLAN = plan(steps={"a": "people", "b": "people"})
OTHER = plan(release="other", steps={"c": "people"})


def nothing(digest: str) -> Composed:
    raise Corrupt(f"nothing is kept as {digest[:16]}")


class Kept:
    """What is kept by digest."""

    def __init__(self, *payloads: str) -> None:
        self._texts = {sha256(payload.encode()): payload for payload in payloads}

    def text(self, digest: str) -> str:
        if digest not in self._texts:
            nothing(digest)
        return self._texts[digest]

    def plan(self, digest: str) -> Planned:
        return Plans().read(self.text(digest))

    def cells(self, digest: str) -> int | None:
        return None

    def events(self, digest: str) -> Composed:
        return Composed.from_canonical(self.text(digest))


def opened(epsilon: str = "1", replaces: int | None = None, unit: str = "person") -> kinds.AccountOpened:
    terms = account(epsilon=epsilon, unit=unit)
    return kinds.AccountOpened(
        account=terms.name,
        unit=terms.unit,
        neighboring=terms.neighboring,
        composition=terms.composition,
        cap=terms.lifetime,
        replaces=replaces,
        at=AT,
        by=BY,
    )


def reserved(made: ReleasePlan, before: Sequence[Body] = (opened(),)) -> kinds.Reserved:
    asked = charges(made)
    charged, _ = assess_charges(replay(chained(before), nothing), asked, made.release.period)
    old = [
        each.model_copy(update={"events": charge.events, "digest": "", "spent": None})
        for each, charge in zip(charged, asked, strict=True)
    ]
    return kinds.Reserved(
        release=made.release.name,
        period=made.release.period,
        plan=made.canonical(),
        plan_fingerprint=made.fingerprint(),
        spec_fingerprint=made.spec_fingerprint,
        charges=tuple(old),
        at=AT,
        by=BY,
    )


def measured(step: str, made: ReleasePlan = PLAN) -> kinds.StepMeasured:
    return kinds.StepMeasured(
        release=made.release.name,
        period=made.release.period,
        plan=made.fingerprint(),
        step=step,
        cells=CELLS,
        digest=answer(step).digest,
        at=AT,
    )


def ended(kind: str, reservation: int = 2, made: ReleasePlan = PLAN) -> Body:
    facts: dict[str, Any] = {
        "release": made.release.name,
        "period": made.release.period,
        "plan": made.fingerprint(),
        "reservation": reservation,
        "at": AT,
    }
    return kinds.Closed(manifest="m", **facts) if kind == "close" else kinds.Voided(why="w", by=BY, **facts)


def lines(entries: Sequence[LedgerEntry]) -> list[EntryRow]:
    return [(each.sequence, each.previous, each.hash, each.kind, each.text) for each in entries]


def chained(bodies: Sequence[Body]) -> list[LedgerEntry]:
    head, made = Head(), []
    for body in bodies:
        made.append(LedgerEntry.after(head, body))
        head = made[-1].head
    return made


def findings(bodies: Sequence[Body]) -> list[str]:
    """What the check says of entries with good hashes, and with an index made to fit them."""
    return audit(lines(chained(bodies)), index_of(bodies), Kept())


def index_of(bodies: Sequence[Body]) -> Index:
    made: dict[str, dict[int, Any]] = {name: {} for name in ("reserved", "ended", "sourced", "measured")}
    for at, body in enumerate(bodies, 1):
        if isinstance(body, kinds.StepMeasured):
            step = (body.release, body.period, body.plan, body.step)
            made["measured"][at] = (*step, body.digest, row_identity(*step))
        elif isinstance(body, kinds.Reserved):
            names = (body.release, body.period)
            made["reserved"][at] = (*names, body.plan_fingerprint, body.restates, row_identity(*names))
        elif isinstance(body, kinds.Closed | kinds.Voided):
            gave_up = isinstance(body, kinds.Closed) and body.gave_up
            made["ended"][at] = (body.reservation, "give_up" if gave_up else body.kind)
        elif isinstance(body, kinds.Sourced):
            made["sourced"][at] = (body.reservation,)
    return Index(**made)


WHOLE: tuple[Body, ...] = (opened(), reserved(PLAN), measured("a"), measured("b"), ended("close"))


def test_a_whole_book_has_no_finding() -> None:
    assert findings(WHOLE) == []
    given_back = (*WHOLE[:2], ended("void"))
    assert findings((*given_back, reserved(OTHER, given_back), measured("c", OTHER))) == []


def forged(body: Body, change: Callable[[Any], None]) -> Body:
    plain = json.loads(body.canonical())
    change(plain)
    return type(body).from_canonical(dumps(plain))


def losses(plain: Any) -> None:
    plain["charges"][0]["facts"]["after"]["epsilon"] = "1/100"


def cheaper(plain: Any) -> None:
    plain["charges"][0]["events"]["events"].pop()


def nobody(plain: Any) -> None:
    plain["charges"][0]["facts"]["name"] = "nobody"


def fingerprint(plain: Any) -> None:
    plain["plan_fingerprint"] = sha256(b"")


def scribbled(plain: Any) -> None:
    plain["plan"] = "{}"


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (losses, "entry 2: the losses of account people do not add up"),
        (cheaper, "entry 2: the charges are not what the plan costs"),
        (nobody, "entry 2: account nobody is charged before it is opened"),
        (fingerprint, "entry 2: its plan is of another release, spec or fingerprint"),
        (scribbled, "entry 2: its plan cannot be read by this version of dprelease"),
    ],
)
def test_a_forged_charge_is_found(change: Callable[[Any], None], finding: str) -> None:
    assert finding in findings((WHOLE[0], forged(WHOLE[1], change), *WHOLE[2:]))


DEAR = plan(release="dear", cost="3/2")


@pytest.mark.parametrize(
    ("bodies", "finding"),
    [
        ((opened(), reserved(DEAR)), "entry 2: account people is charged more than its cap"),
        ((*WHOLE[:2], reserved(PLAN, WHOLE[:2])), "entry 3: survey 2024 is already reserved by entry 2"),
        ((*WHOLE[:3], ended("close")), "entry 4: survey 2024 is closed and its step b has no measurement"),
        ((*WHOLE[:3], ended("void")), "entry 4: survey 2024 is given back after it was read or measured"),
        ((*WHOLE[:3], measured("a")), "entry 4: step a of survey 2024 is measured twice"),
        ((*WHOLE[:2], measured("z")), "entry 3: step z of survey 2024 is not a step of the reserved plan"),
        ((opened(), measured("a")), "entry 2: step a of survey 2024 is measured without an open reservation"),
        ((*WHOLE, measured("a")), "entry 6: step a of survey 2024 is measured without an open reservation"),
        ((*WHOLE, ended("close")), "entry 6: survey 2024 ends without an open reservation"),
        ((opened(), ended("void")), "entry 2: survey 2024 ends without an open reservation"),
        ((opened(), opened("2")), "entry 2: account people is opened twice, or replaces an entry that is not its last"),
        ((opened(), opened("2", 1, "tree")), "entry 2: account people changes its unit, relation or composition"),
    ],
)
def test_a_forged_course_of_events_is_found(bodies: tuple[Body, ...], finding: str) -> None:
    assert any(finding in line for line in findings(bodies)), findings(bodies)


def test_a_bound_that_another_machine_proved_a_little_tighter_is_no_finding() -> None:
    def nudge(plain: Any) -> None:
        plain["charges"][0]["facts"]["after"]["epsilon"] = "200000000001/1000000000000"

    assert findings((WHOLE[0], forged(WHOLE[1], nudge), *WHOLE[2:])) == []


def test_a_measurement_of_another_shape_is_found(tmp_path: Path) -> None:
    """Its entry tells a good digest, and a number of cells that the bytes do not have."""
    ledger, path = SQLiteLedger(tmp_path / "ledger.db"), tmp_path / "ledger.db"
    made = plan()
    kept = ledger.reserve(made, charges(made))
    ledger.commit(key(kept), answer())
    short = type(answer())("one", answer().values[:-1]).to_bytes()
    entries = list(ledger.entries())
    body = entries[-1].unchecked_facts().model_copy(update={"digest": sha256(short)})
    last = LedgerEntry.after(entries[-2].head, body)
    ledger.disconnect()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("INSERT INTO contents VALUES (?, ?)", (sha256(short), short))
        connection.execute("UPDATE entries SET body = ?, hash = ? WHERE sequence = ?", (last.text, last.hash, 4))
        connection.execute("UPDATE measurements SET digest = ?", (sha256(short),))
    found = [line for line in SQLiteLedger(path).check() if "as dprelease makes it" not in line]
    assert found == ["entry 4: the measurement of step one is of another step or shape"]


# What this version writes: a release that is closed, one that replaces it and is given up, one that is given back.
NEXT = plan(steps={"a": "people"}, cost="1/20")
BACK = plan(release="back", cost="1/20")
LAST = plan(release="last", cost="1/20")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> list[LedgerEntry]:
    ledger = SQLiteLedger(tmp_path_factory.mktemp("book") / "ledger.db")
    fill(ledger, PLAN)
    ledger.reserve(NEXT, charges(NEXT), restates="wrong")
    ledger.give_up("survey", "2024", NEXT.fingerprint(), "bored")
    ledger.reserve(BACK, charges(BACK))
    ledger.void("back", "2024", BACK.fingerprint(), "no file")
    fill(ledger, LAST)
    assert ledger.check() == ()
    made = list(ledger.entries())
    ledger.disconnect()
    return made


KEPT = Kept(*(each.canonical() for made in (PLAN, NEXT, BACK, LAST) for each in (made, made.event)))
AT_KIND = {
    "anchor": 1, "open": 2, "reserve": 3, "source": 4, "measure": 5, "close": 7, "restate": 8, "give up": 9,
    "give back": 11, "last": 12,
}  # fmt: skip


def rewritten(book: Sequence[LedgerEntry], at: int, change: Callable[[Any], None]) -> list[str]:
    """What the check says once an entry is forged, and everything behind it chained anew with good hashes."""
    bodies = [entry.facts() for entry in book]
    bodies[at - 1] = forged(bodies[at - 1], change)
    return audit(lines(chained(bodies)), index_of(bodies), KEPT)


def test_an_untouched_book_has_no_finding(book: list[LedgerEntry]) -> None:
    expected = (
        "anchor open reserve source measure measure close reserve close reserve void reserve source measure close"
    )
    assert [entry.kind for entry in book] == expected.split()
    assert rewritten(book, 1, lambda plain: None) == []


def put(*path: Any) -> Callable[[Any], None]:
    """Set what is found along these names to the last of them."""
    *names, last, value = path

    def change(plain: Any) -> None:
        for name in names:
            plain = plain[name]
        plain[last] = value

    return change


@pytest.mark.parametrize(
    ("kind", "change", "finding"),
    [
        ("reserve", put("balances", 0, "spent", "loss", "1/10"), "the balance of account people is not what its"),
        ("reserve", put("balances", 0, "spent", "reveals", "1/10"), "the balance of account people is not what its"),
        ("reserve", put("balances", 0, "releases", 0), "the balance of account people is not what its charges"),
        ("reserve", put("balances", 0, "windows", {"2024": {"loss": "1", "reveals": "0"}}), "the balance of account"),
        ("reserve", put("balances", 0, "opened", 1), "the balance of account people is not what its charges"),
        ("reserve", put("balances", []), "it does not carry the balances of the accounts that it changes"),
        ("reserve", put("marks", "heads", {"people": 2}), "it does not say where what stands is found"),
        ("reserve", put("marks", "place", 0), "it does not say where what stands is found"),
        ("reserve", put("marks", None), "it does not say what stands behind it"),
        (
            "reserve",
            put("charges", 0, "spent", "loss", "1/10"),
            "what is added to account people is not what its draws",
        ),
        ("reserve", put("charges", 0, "facts", "after", "epsilon", "1/10"), "the losses of account people do not add"),
        ("reserve", put("charges", 0, "facts", "before", "epsilon", "1/10"), "the losses of account people do not add"),
        (
            "reserve",
            put("charges", 0, "facts", "cap", "epsilon", "1/10"),
            "account people is charged more than its cap",
        ),
        ("reserve", put("charges", 0, "digest", events_digest(NEXT.event)), "the charges are not what the plan costs"),
        ("reserve", put("charges", 0, "digest", "0" * 64), "nothing is kept as 0000"),
        ("reserve", put("charges", []), "the charges are not what the plan costs"),
        ("reserve", put("spec_fingerprint", "other"), "its plan is of another release, spec or fingerprint"),
        ("reserve", put("plan_fingerprint", NEXT.fingerprint()), "entry 8: survey 2024 was reserved with this very"),
        ("open", put("cap", "epsilon", "1/10"), "entry 3: account people is charged more than its cap"),
        ("open", put("balances", 0, "spent", "loss", "1/10"), "the balance of account people is not what its"),
        ("source", put("books", 2), "it does not say where the last entry is that changed an account"),
        ("source", put("reservation", 2), "survey 2024 is read without an open reservation"),
        ("measure", put("books", 2), "it does not say where the last entry is that changed an account"),
        ("measure", put("cells", 2), "step a of survey 2024 is not a step of the reserved plan"),
        ("close", put("books", 2), "it does not say where the last entry is that changed an account"),
        ("close", put("reservation", 1), "survey 2024 ends without an open reservation"),
        ("restate", put("restates", None), "survey 2024 replaces entry None, and the last one is 3"),
        ("restate", put("restates", 2), "survey 2024 replaces entry 2, and the last one is 3"),
        ("restate", put("balances", 0, "spent", "loss", "1/20"), "the balance of account people is not what its"),
        ("give up", put("gave_up", ""), "survey 2024 is closed and its step a has no measurement"),
        ("give back", put("reservation", 8), "back 2024 ends without an open reservation"),
        (
            "give back",
            put("balances", 0, "spent", "loss", "0"),
            "the balance of account people is not what its charges",
        ),
    ],
)
def test_a_forged_entry_is_found_though_every_hash_is_good(
    book: list[LedgerEntry], kind: str, change: Callable[[Any], None], finding: str
) -> None:
    found = rewritten(book, AT_KIND[kind], change)
    if not finding.startswith("entry "):
        finding = f"entry {AT_KIND[kind]}: {finding}"
    assert any(line.startswith(finding) for line in found), found


def test_a_second_look_at_the_files_that_nobody_accepted_is_found(book: list[LedgerEntry]) -> None:
    bodies = [entry.facts() for entry in book]
    again = [*bodies[:4], *bodies[3:]]
    assert "entry 5: survey 2024 is read anew, and nobody accepted that" in audit(
        lines(chained(again)), index_of(again), KEPT
    )


def test_a_recovery_can_add_and_never_take_away(tmp_path: Path) -> None:
    """A `recover` entry tells what it adds; no balance behind it may be lower, and only it may end an open release."""
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    terms = account(window=("year", "1"))
    made = plan(accounts=[terms])
    ledger.reserve(made, charges(made))
    bodies = [entry.facts() for entry in ledger.entries()]
    told = bodies[0].model_dump() | {"why": "forged"}
    (balance,) = bodies[-1].balances  # type: ignore[union-attr]  # it is a reservation
    marks = {"place": 4, "heads": {"people": 4}}
    kept = Kept(made.canonical(), made.event.canonical())

    def found(**changes: Any) -> list[str]:
        changed = {"balances": (balance.model_copy(update=changes),), "marks": marks}
        body = kinds.Recovered.model_validate(told | changed)
        return audit(lines(chained([*bodies, body])), index_of([*bodies, body]), kept)

    wrong = ["entry 4: the balance of account people is not what its charges add up to"]
    assert found() == []
    assert found(spent=balance.spent.minus(balance.spent)) == wrong
    assert found(windows={"2024": balance.spent.minus(balance.spent)}) == wrong
    assert found(windows={}) == wrong
    assert found(spent=balance.spent.plus(balance.spent)) == wrong  # `added` does not tell it
    assert found(windows={"2024": balance.spent.plus(balance.spent)}) == []  # a window is told by the balance alone


def test_every_kind_that_is_written_is_in_these_books(book: list[LedgerEntry]) -> None:
    assert {entry.kind for entry in book} | {"refuse", "recover", "incident"} == set(BODIES)
