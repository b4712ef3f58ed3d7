"""The check does not only follow hashes: a book forged with good hashes must still add up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dprelease.canonical import dumps, sha256
from dprelease.ledger import StepKey
from dprelease.ledger.audit import Index, StoredRow, audit
from dprelease.ledger.entry import Body, Closed, Entry, Measured, Opened, Reserved, Voided
from dprelease.ledger.history import judge, replay
from dprelease.ledger.place import this_process
from dprelease.plan.document import Head, ReleasePlan
from tests.ledgers import CELLS, account, answer, charges, plan

AT = "2024-03-07T05:06:07Z"
BY = this_process("test")
PLAN = plan(steps={"a": "people", "b": "people"})
OTHER = plan(release="other", steps={"c": "people"})


def opened(epsilon: str = "1", replaces: int | None = None, unit: str = "person") -> Opened:
    terms = account(epsilon=epsilon, unit=unit)
    return Opened(
        account=terms.name,
        unit=terms.unit,
        neighboring=terms.neighboring,
        composition=terms.composition,
        cap=terms.lifetime,
        replaces=replaces,
        at=AT,
        by=BY,
    )


def reserved(made: ReleasePlan, before: Sequence[Body] = (opened(),)) -> Reserved:
    charged, _ = judge(replay(chained(before)), charges(made))
    return Reserved(
        release=made.release.name,
        period=made.release.period,
        plan=made.canonical(),
        plan_fingerprint=made.fingerprint(),
        spec_fingerprint=made.spec_fingerprint,
        charges=charged,
        at=AT,
        by=BY,
    )


def measured(step: str, made: ReleasePlan = PLAN) -> Measured:
    return Measured(
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
    return Closed(manifest="m", **facts) if kind == "close" else Voided(why="w", by=BY, **facts)


def chained(bodies: Sequence[Body]) -> list[Entry]:
    head, made = Head(), []
    for body in bodies:
        made.append(Entry.after(head, body))
        head = made[-1].head
    return made


def findings(bodies: Sequence[Body]) -> list[str]:
    """What the check says of entries with good hashes, and with rows and index made to fit them."""
    entries = chained(bodies)
    rows, reservations, endings = [], {}, {}
    for entry, body in zip(entries, bodies, strict=True):
        if isinstance(body, Measured):
            key = StepKey(body.release, body.period, body.plan, body.step)
            rows.append(StoredRow(key, entry.sequence, body.digest, answer(body.step).to_bytes()))
        elif isinstance(body, Reserved):
            reservations[entry.sequence] = (body.release, body.period, body.plan_fingerprint)
        elif isinstance(body, Closed | Voided):
            endings[entry.sequence] = (body.reservation, body.kind)
    return audit(entries, rows, Index(reservations, endings))


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
        ((*WHOLE[:3], ended("void")), "entry 4: survey 2024 is given back after it was measured"),
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


def test_a_measurement_of_another_shape_is_found() -> None:
    entries = chained(WHOLE[:3])
    payload = type(answer())("a", answer().values[:-1]).to_bytes()
    body = measured("a").model_copy(update={"digest": sha256(payload)})
    entries[2] = Entry.after(entries[1].head, body)
    row = StoredRow(StepKey("survey", "2024", PLAN.fingerprint(), "a"), 3, sha256(payload), payload)
    index = Index({2: ("survey", "2024", PLAN.fingerprint())}, {})
    assert audit(entries, [row], index) == [f"entry 3: the measurement of {row.key} is of another step or shape"]


def test_a_bound_that_another_machine_proved_a_little_tighter_is_no_finding() -> None:
    def nudge(plain: Any) -> None:
        plain["charges"][0]["facts"]["after"]["epsilon"] = "200000000001/1000000000000"

    assert findings((WHOLE[0], forged(WHOLE[1], nudge), *WHOLE[2:])) == []
