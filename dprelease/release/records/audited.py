"""The file of an audit, which a release takes along: held against its plan, and kept as facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dprelease.errors import EngineError
from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import AuditedDraw, AuditFacts

__all__ = ["audit_facts", "taken_along"]


def audit_facts(report: dict[str, Any]) -> AuditFacts:
    """What a bundle says of an audit, from what ``dprelease audit --out`` writes.

    Raises:
        KeyError, TypeError, ValueError: It is no such file.
    """
    draws = tuple(
        AuditedDraw(
            draw=str(each["draw"]),
            mechanism=str(each["mechanism"]),
            runs=int(each["runs"]),
            delta=f"{float(each['delta']):g}",
            claimed=_written(each["claimed"]),
            proved=_written(each["proved"]),
        )
        for each in report["draws"]
    )
    if not draws:
        raise ValueError("nothing was attacked")
    numbers = {"tests": int(report["tests"]), "units_tried": int(report["units_tried"])}
    return AuditFacts(**numbers, miss=f"{float(report['chance_of_a_false_breach']):g}", draws=draws)


def _written(epsilon: Any) -> str:
    found = float(epsilon)
    if not 0 <= found < float("inf"):
        raise ValueError("no epsilon")
    return f"{found:.4f}"


def taken_along(place: str, plan: ReleasePlan) -> dict[str, str]:
    """What a reservation keeps of the audit of its plan, beside versions; nothing where no file is named.

    Raises:
        EngineError: The file cannot be read, is no audit, or is of another plan (DPR-E147), or the audit found that the
            plan tells more than it claims (DPR-E148). Nothing was charged.
    """
    if not place:
        return {}
    again = f"`dprelease audit SPEC --out {Path(place).name}` with this very spec writes one"
    try:
        report = json.loads(Path(place).read_text(encoding="utf-8"))
        facts = audit_facts(report)
        breached, mark = bool(report["breached"]), str(report["plan"])
    except (OSError, KeyError, TypeError, ValueError, ValidationError) as error:
        raise EngineError(
            f"{Path(place).name} is no audit that can be read ({type(error).__name__})", hint=again, code="DPR-E147"
        ) from None
    if mark != plan.fingerprint():
        raise EngineError(
            f"{Path(place).name} is the audit of plan {mark[:12]}, and this is plan {plan.fingerprint()[:12]}",
            detail="what was proved of one plan says nothing of another one",
            hint=again,
            code="DPR-E147",
        )
    if breached:
        raise EngineError(
            f"{Path(place).name} says that the plan tells more than it claims",
            detail="nothing was charged, and nothing may be released from it",
            hint="please report it, with the spec and the file",
            code="DPR-E148",
        )
    return {"audit": facts.canonical()}
