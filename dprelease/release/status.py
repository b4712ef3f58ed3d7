"""The ledger as people read it: accounts with what is spent and left, and the log line by line."""

from __future__ import annotations

from typing import Any

from dprelease.ledger import Ledger
from dprelease.plan.explain import left_text
from dprelease.privacy.accountants import losses
from dprelease.privacy.budget import Budget, round_up
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import account_loss
from dprelease.release.project import Project

__all__ = ["account_status", "log_lines"]


def account_status(project: Project, ledger: Ledger) -> list[dict[str, Any]]:
    """Every account of the policy: spent, cap and left at the cap's delta, under its own composition.

    The figures of the other accountants are what the same draws would have cost had they all been fixed
    before the first one; they grant nothing.
    """
    names = sorted(project.policy.accounts)
    standing = ledger.standing(names)
    found = []
    for name in names:
        account, charged = project.policy.accounts[name], standing.of(name).charged
        cap = account.lifetime
        spent = account_loss(account.composition, charged, cap.delta, kept=cap.selecting)
        other = losses(Composed(events=charged), cap.delta) if charged else {}
        found.append(
            {
                "name": name,
                "unit": account.unit,
                "neighboring": account.neighboring.value,
                "composition": account.composition,
                "releases": len(charged),
                "spent": round_up(spent.epsilon),
                "left": left_text(Budget(epsilon=cap.epsilon, delta=cap.delta), spent),
                "cap": str(cap.epsilon),
                "delta": round_up(cap.delta),
                "hypothetical": {kind: round_up(epsilon) for kind, epsilon in other.items()},
            }
        )
    return found


def log_lines(ledger: Ledger) -> list[dict[str, Any]]:
    """Every entry: sequence, time, kind, what it is about, hash."""
    lines = []
    for entry in ledger.entries():
        body = entry.body
        about = [str(body[key]) for key in ("account", "release", "period", "step") if body.get(key)]
        lines.append(
            {
                "sequence": entry.sequence,
                "at": str(body.get("at", "")),
                "kind": entry.kind,
                "what": "/".join(about),
                "hash": entry.hash,
                "body": body,
            }
        )
    return lines
