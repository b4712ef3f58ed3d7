"""``dprelease approve``: show a frozen plan to its approver, ask, sign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.options import Json, require_yes
from dprelease.cli.views import say, say_json
from dprelease.errors import PlanError

if TYPE_CHECKING:
    from dprelease.plan.document import FrozenPlan, ReleasePlan

__all__ = ["approve_command"]


def approve_command(
    plan: Annotated[Path, typer.Argument(help="A plan frozen by `plan --out`.")],
    key: Annotated[Path, typer.Option(help="Your private key, made by `keys new`.")],
    name: Annotated[str, typer.Option(help="Your name in the policy; left out: whose key it is.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Sign without asking.")] = False,
    as_json: Json = False,
) -> None:
    """Sign a frozen plan, where the policy wants approvals; the signature is written into its file."""
    from dprelease.ledger.model.process import utc_now, utc_text
    from dprelease.plan.document import Head
    from dprelease.plan.document.approval import approval_lines
    from dprelease.release.approval import (
        add_approval,
        approval_needed,
        approver_of,
        check_heads,
        counted_approvals,
        open_frozen,
    )
    from dprelease.signature import read_private

    private = read_private(key)
    target, frozen, fresh = open_frozen(plan)
    policy = target.project.policy
    heads = target.project.open_ledger().heads([account.name for account in fresh.accounts])
    check_heads(frozen, {account.name: heads.get(account.name, Head()) for account in fresh.accounts})
    before = counted_approvals(policy, frozen, fresh)
    signer, role = approver_of(policy, private.public, name, before)
    if not as_json:
        for line in _shown(frozen, fresh):
            say(line)
        for line in approval_lines(before):
            say(f"  approved   by {line}")
        say(f"  signing    {signer} as {role}, key {private.public.fingerprint}")
    require_yes("\nSign this plan?", PlanError, "DPR-K115", "signed", "looked at the plan", yes=yes, nobody=as_json)
    approved = add_approval(plan, frozen, policy, private, utc_text(utc_now()))
    approvals = counted_approvals(policy, approved, fresh)
    missing = policy.approvals.missing([each.role for each in approvals]) if approval_needed(policy, fresh) else ()
    if as_json:
        say_json({**_facts(approved, fresh), "approvals": approval_lines(approvals), "missing": list(missing)})
        return
    say(f"\nsigned: {plan} now has {len(approvals)} approval(s)")
    say(f"still missing: {', '.join(missing)}" if missing else f"nothing is missing: `dprelease run {plan}`")


def _facts(frozen: FrozenPlan, plan: ReleasePlan) -> dict[str, Any]:
    return {
        "release": plan.release.name,
        "period": plan.release.period,
        "plan_fingerprint": frozen.plan_fingerprint,
        "heads": {account: head.model_dump() for account, head in frozen.heads.items()},
    }


def _shown(frozen: FrozenPlan, plan: ReleasePlan) -> list[str]:
    """What is about to be signed."""
    from dprelease.plan.explain.facts import budget_facts, loss_facts, unprotected

    loss = loss_facts(plan.loss[plan.certified])
    lines = [
        f"{plan.release.name}/{plan.release.period}: {plan.release.title or 'untitled'}",
        f"  protects   one {plan.unit} ({plan.neighboring.value})",
        f"  costs      epsilon {loss['epsilon']} at delta {loss['delta']}, certified by {plan.certified}",
        f"  publishes  {', '.join(query.name for query in plan.queries)}; {len(plan.steps)} draws",
    ]
    if plan.invariants:
        lines.append(f"  exact      {unprotected(plan)}")
    if plan.release.revisions:
        lines.append(
            f"  revisions  {plan.release.revisions} more times, of the same draws each; all of them are charged now"
        )
    for account in plan.accounts:
        cap = ", ".join(f"{name} {value}" for name, value in budget_facts(account.lifetime).items())
        head = frozen.heads.get(account.name)
        entry = f"entry {head.sequence}" if head is not None and head.sequence else "no entry yet"
        about = f"lifetime of each {account.stretch}" if account.parallel else "lifetime"
        lines.append(f"  account    {account.name} ({account.composition}): {about} {cap}; ledger at {entry}")
    lines.append(f"  plan       {frozen.plan_fingerprint}")
    lines.append(f"  accuracy   see `dprelease plan {frozen.spec_file}`")
    return lines
