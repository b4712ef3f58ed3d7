"""Every planted fault of the measuring path is a breach to ``audit``; without a fault no spec of theirs is."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from typing import Any

import pytest

from dprelease.audit.audit import AuditReport, audit_plan
from dprelease.audit.pairs import AuditData
from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from tests.faults.planted import FAULTS, SPECS, Fault
from tests.planned import plan_of

SECONDS = 6.0
FAST = {"no-noise", "one-row-more-unchecked", "claim-of-half"}
SLOW = {"laplace-half", "shared-noise", "single-cells-shown", "sum-unclipped", "keys-without-noise", "even-noise"}


def attacked(plan: ReleasePlan, seconds: float = SECONDS) -> AuditReport:
    with closing(AuditData(plan, {})) as data:
        return audit_plan(plan, data, seconds)


def named(names: Collection[str]) -> list[Any]:
    return [pytest.param(fault, id=fault.name) for fault in FAULTS if fault.name in names]


@pytest.mark.parametrize("fault", named(FAST))
def test_an_audit_sees_a_planted_fault(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    check(fault, monkeypatch, 1.5)


@pytest.mark.slow
@pytest.mark.parametrize("fault", named(SLOW))
def test_an_audit_sees_a_fault_of_every_kind(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    check(fault, monkeypatch, SECONDS)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", named({fault.name for fault in FAULTS} - FAST - SLOW))
def test_an_audit_sees_every_planted_fault(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    check(fault, monkeypatch, SECONDS)


def check(fault: Fault, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    plan = plan_of(SPECS[fault.spec])
    if fault.spoil is not None:
        plan = plan.model_copy(update={"steps": tuple(map(fault.spoil, plan.steps))})
        with pytest.raises(BrokenPromiseError):
            verify(plan)
    if fault.patch is not None:
        fault.patch(monkeypatch)
    report = attacked(plan, seconds)
    assert report.breached, report.draws


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "counts" else pytest.mark.nightly) for name in SPECS]
)
def test_an_audit_accuses_no_plan_that_is_right(name: str) -> None:
    report = attacked(plan_of(SPECS[name]), 2.0)
    assert not report.breached, report.draws
    assert report.tests
    assert any(each.runs for each in report.draws)
