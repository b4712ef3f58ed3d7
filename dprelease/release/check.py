"""What can be checked of a bundle with no data and no ledger: its files, who signed them, the loss that it claims."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from dprelease.errors import BrokenPromiseError, MissingExtra
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain import loss_facts, unprotected
from dprelease.plan.second_opinion import second_opinion
from dprelease.plan.verify import verify
from dprelease.privacy.accountants import losses
from dprelease.publish import Check, check_bundle
from dprelease.signature import PublicKey, read_public

__all__ = ["check_release", "public_key"]

_LOSS, _ACCOUNTANTS = "loss re-derived", "accountants agree"


def public_key(given: str) -> PublicKey:
    """The key that a reader gives: the text ``ed25519:...`` itself, or a file that holds it.

    Raises:
        SpecError: If a file cannot be read or holds no key (DPR-K101 to DPR-K103).
        NotAKey: If the text is none.
    """
    return PublicKey.from_text(given) if given.startswith("ed25519:") else read_public(Path(given))


def check_release(bundle: Path, key: PublicKey | None = None) -> tuple[Check, ...]:
    """Every check by name: files, hashes and signature, then the loss, derived three times from the published triples.

    Args:
        bundle: Its folder.
        key: Of the one who should have signed it; None: it is not compared with any.
    """
    checks = list(check_bundle(bundle, key))
    try:
        plan = ReleasePlan.from_canonical((bundle / "plan.json").read_bytes())
    except (OSError, ValidationError, RecursionError):
        return (*checks, *(Check(name, False, "plan.json cannot be read") for name in (_LOSS, _ACCOUNTANTS)))
    try:
        return (*checks, *_loss_checks(plan))
    except Exception as error:  # a forged plan can be well formed and still name what it does not hold
        return (*checks, Check(_LOSS, False, f"plan.json makes no sense ({type(error).__name__})"))


def _loss_checks(plan: ReleasePlan) -> list[Check]:
    certified = loss_facts(plan.loss[plan.certified])
    said = f"epsilon {certified['epsilon']} at delta {certified['delta']}"
    try:
        verify(plan)
        beside = f". {unprotected(plan)}" if plan.invariants else ""
        checks = [Check(_LOSS, True, f"{said}, sensitivities from extreme rows{beside}")]
    except BrokenPromiseError as error:
        checks = [Check(_LOSS, False, error.summary)]
    again = losses(plan.event, plan.budget.delta)
    same = again == {name: loss.epsilon for name, loss in plan.loss.items()}
    checks.append(Check(_ACCOUNTANTS, same, ", ".join(f"{name} {float(value):.6g}" for name, value in again.items())))
    try:
        for opinion in second_opinion(plan):
            found = f"{opinion.theirs} beside {opinion.ours}: {opinion.rule}"
            checks.append(Check(f"dp_accounting, {opinion.accountant}", opinion.agrees, found))
    except MissingExtra as error:
        checks.append(Check("dp_accounting", None, f"{error.summary}; {error.hint}"))
    return checks
