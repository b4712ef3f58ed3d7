"""What can be checked of a bundle with no data and no ledger: its files, and the loss that it claims."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from dprelease.errors import BrokenPromiseError, MissingExtra
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain import loss_facts
from dprelease.plan.second_opinion import second_opinion
from dprelease.plan.verify import verify
from dprelease.privacy.accountants import losses
from dprelease.publish import Check, check_bundle

__all__ = ["check_release"]


def check_release(bundle: Path) -> tuple[Check, ...]:
    """Every check by name: files and hashes, then the loss, derived three times from the published triples."""
    checks = list(check_bundle(bundle))
    try:
        plan = ReleasePlan.from_canonical((bundle / "plan.json").read_bytes())
    except (OSError, ValidationError):
        checks.append(Check("loss re-derived", False, "plan.json cannot be read"))
        return tuple(checks)
    return (*checks, *_loss_checks(plan))


def _loss_checks(plan: ReleasePlan) -> list[Check]:
    certified = loss_facts(plan.loss[plan.certified])
    said = f"epsilon {certified['epsilon']} at delta {certified['delta']}"
    try:
        verify(plan)
        checks = [Check("loss re-derived", True, f"{said}, sensitivities from extreme rows")]
    except BrokenPromiseError as error:
        checks = [Check("loss re-derived", False, error.summary)]
    again = losses(plan.event, plan.budget.delta)
    same = again == {name: loss.epsilon for name, loss in plan.loss.items()}
    checks.append(
        Check(
            "accountants agree",
            same,
            ", ".join(f"{name} {float(value):.6g}" for name, value in again.items()),
        )
    )
    try:
        for opinion in second_opinion(plan):
            found = f"{opinion.theirs} beside {opinion.ours}: {opinion.rule}"
            checks.append(Check(f"dp_accounting, {opinion.accountant}", opinion.agrees, found))
    except MissingExtra as error:
        checks.append(Check("dp_accounting", True, f"not run: {error.summary}; {error.hint}"))
    return checks
