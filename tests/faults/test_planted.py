"""Every planted fault is seen: by a test of the suite, by ``verify`` where it is in the plan, by ``audit`` on its path.

What is shown of each is written in ``docs/planted-faults.md``, which ``tests.faults.table`` makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from tests.faults.every_fault import FAULTS, attacked, audited, seen_by, told_by_verify
from tests.faults.fault import Fault
from tests.faults.planting import Edit, Seen
from tests.faults.specs import SPECS, plan_under_attack
from tests.faults.table import PAGE, page

SECONDS = 6.0
NIGHT = (2.0, SECONDS, 3 * SECONDS)  # rarer pairs of data sets take longer; most faults are seen at once
MEASURING = ("engines.duck.", "engines.files.rows:", "noise.", "release.draw:hidden", "release.draw:selected_keys")
MARKS: dict[str, list[pytest.MarkDecorator]] = {"counts": [], "gaussian_keys": [pytest.mark.slow]}
FAST = {"no-noise", "one-row-more-unchecked", "claim-of-half"}
SLOW = {"laplace-half", "shared-noise", "single-cells-shown", "sum-unclipped", "keys-without-noise", "even-noise"}
KINDS = {fault.kind for fault in FAULTS}
FIRST = {next(fault.name for fault in FAULTS if fault.kind == kind and fault.seen) for kind in KINDS}


def named(names: Collection[str], *, slow: Collection[str] = ()) -> list[Any]:
    return [
        pytest.param(fault, id=fault.name, marks=[pytest.mark.slow] if fault.name in slow else [])
        for fault in FAULTS
        if fault.name in names
    ]


SHOWN = {fault.name for fault in FAULTS if fault.seen is not None}
VERIFIED = {fault.name for fault in FAULTS if fault.verify}
AUDITED = {fault.name for fault in FAULTS if fault.audit}


@pytest.mark.parametrize("fault", named(SHOWN, slow=SHOWN - FIRST))
def test_a_test_of_the_suite_sees_a_planted_fault(fault: Fault, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert fault.seen is not None
    assert seen_by(fault.plant, fault.seen, tmp_path, request.getfixturevalue)


@pytest.mark.parametrize("fault", named(VERIFIED, slow=VERIFIED - {"replaced-as-added", "claim-of-half"}))
def test_verify_refuses_a_plan_that_was_made_with_it(fault: Fault) -> None:
    assert fault.verify in told_by_verify(fault)


@pytest.mark.parametrize("fault", named(FAST))
def test_an_audit_sees_a_planted_fault(fault: Fault) -> None:
    check(fault, (1.5,))


@pytest.mark.nightly
@pytest.mark.parametrize("fault", named(SLOW))
def test_an_audit_sees_a_fault_of_every_kind(fault: Fault) -> None:
    check(fault, NIGHT[:2])


@pytest.mark.nightly
@pytest.mark.parametrize("fault", named(AUDITED - FAST - SLOW))
def test_an_audit_sees_every_planted_fault_of_its_path(fault: Fault) -> None:
    check(fault, NIGHT)


def check(fault: Fault, seconds: Sequence[float]) -> None:
    """One of some audits, each longer than the one before it, reports it; a plan that is right none of them accuses."""
    reports = (audited(fault, each) for each in seconds)
    assert any(report.breached for report in reports)


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, [pytest.mark.nightly])) for name in SPECS])
def test_an_audit_accuses_no_plan_that_is_right(name: str) -> None:
    report = attacked(plan_under_attack(name), 2.0)
    assert not report.breached, report.draws
    assert report.tests
    assert any(each.runs for each in report.draws)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(10))
def test_of_three_hundred_audits_none_accuses_a_plan_that_is_right(block: int) -> None:
    """Each may with probability 1e-6, so that one of all does with 3e-4; 0 of 300 shows less than 1 % at 95 %."""
    for name in islice(cycle(SPECS), 30 * block, 30 * (block + 1)):
        report = attacked(plan_under_attack(name), 1.0)
        assert not report.breached, (name, report.draws)


def test_what_changes_nothing_is_seen_by_nobody(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The control: a comment, planted and shown as every fault is."""
    comment = Edit("catalog.sensitivity:_of", "squares = full", "# a comment\n        squares = full")
    seen = Seen("laws.test_sensitivity", "test_no_neighbour_moves_an_aggregate_further_than_claimed")
    assert not seen_by(comment, seen, tmp_path, request.getfixturevalue)
    assert not told_by_verify(Fault("comment", "control", "nothing", seen, comment, spec="counts"))


def test_what_a_test_remembers_neither_hides_a_fault_nor_keeps_it(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The test that sees this one keeps its plan: right, then made with the fault, then right again."""
    fault = next(each for each in FAULTS if each.name == "group-of-one-step")
    assert fault.seen is not None
    told = [
        seen_by(plant, fault.seen, tmp_path / str(at), request.getfixturevalue)
        for at, plant in enumerate([None, fault.plant, None])
    ]
    assert [bool(each) for each in told] == [False, True, False]


def test_a_fault_that_does_not_fit_the_code_is_seen_by_nobody(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Nor is an accident of the planting taken for a fault that was seen."""
    seen = Seen("laws.test_sensitivity", "test_no_neighbour_moves_an_aggregate_further_than_claimed")
    gone = Edit("catalog.sensitivity:_of", "what is not there", "anything")
    broken = Edit("catalog.sensitivity:_of", "if not most:", "if no_such_name:")
    for plant, error in ((gone, LookupError), (broken, NameError)):
        with pytest.raises(error):
            seen_by(plant, seen, tmp_path, request.getfixturevalue)


def test_faults_are_many_and_of_every_kind_and_each_is_on_the_page() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60
    kinds = Counter(fault.kind for fault in FAULTS)
    assert len(kinds) >= 20
    assert sum(fault.audit and fault.plant is not None for fault in FAULTS) >= 20
    assert all(fault.seen or fault.verify for fault in FAULTS)
    measuring = [f for f in FAULTS if isinstance(f.plant, Edit) and f.plant.place.startswith(MEASURING)]
    assert [fault.name for fault in measuring if not (fault.audit or fault.beyond or fault.verify)] == []
    assert not [fault.name for fault in FAULTS if fault.audit and fault.beyond]
    assert PAGE.read_text(encoding="utf-8") == page()
