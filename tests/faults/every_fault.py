"""All planted faults, and how each is planted and shown to what must see it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from dprelease.audit.audit import AuditReport, audit_plan
from dprelease.audit.pairs import AuditData
from dprelease.errors import DpReleaseError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from tests.faults.engine_faults import ENGINE_FAULTS
from tests.faults.fault import Fault
from tests.faults.joint_faults import JOINT_FAULTS
from tests.faults.ledger_faults import LEDGER_FAULTS
from tests.faults.noise_faults import NOISE_FAULTS
from tests.faults.path_faults import PATH_FAULTS
from tests.faults.plan_faults import PLAN_FAULTS
from tests.faults.planting import SEEN, Fixtures, Patch, Seen, planted, processor_clock
from tests.faults.specs import plan_under_attack

__all__ = ["FAULTS", "attacked", "audited", "seen_by", "told_by_verify"]

FAULTS: tuple[Fault, ...] = (*PATH_FAULTS, *NOISE_FAULTS, *ENGINE_FAULTS, *PLAN_FAULTS, *LEDGER_FAULTS, *JOINT_FAULTS)


def seen_by(plant: Patch | None, seen: Seen, folder: Path, fixture: Fixtures) -> str:
    """What the test says that sees a fault; empty where all of its cases pass with it.

    Raises:
        Exception: Whatever else a case raises: then the fault does not fit the code, and nothing was seen.
    """
    seen.load()
    with planted(plant, f"tests.{seen.module}") as patch:
        for call in seen.calls(folder, fixture):
            try:
                call(patch)
            except SEEN as error:
                return f"{type(error).__name__}: {error}"
    return ""


def told_by_verify(fault: Fault) -> str:
    """What planning or ``verify`` says of the plan of the fault's spec, made with it; empty: nothing."""
    with planted(fault.plant):
        try:
            verify(_spoilt(fault))
        except DpReleaseError as error:
            return error.summary
    return ""


def audited(fault: Fault, seconds: float) -> AuditReport:
    """An audit of the plan of the fault's spec, made and attacked with it, verified or not."""
    with planted(fault.plant):
        return attacked(_spoilt(fault), seconds)


def attacked(plan: ReleasePlan, seconds: float) -> AuditReport:
    """An audit of a plan without references."""
    with processor_clock(), closing(AuditData(plan, {})) as data:
        return audit_plan(plan, data, seconds)


def _spoilt(fault: Fault) -> ReleasePlan:
    plan = plan_under_attack(fault.spec)
    return plan if fault.spoil is None else plan.model_copy(update={"steps": tuple(map(fault.spoil, plan.steps))})
