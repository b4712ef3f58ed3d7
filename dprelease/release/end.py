"""Ending a release that was begun and is not to be finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dprelease.errors import LedgerError
from dprelease.plan.explain import loss_facts
from dprelease.release.books import open_books
from dprelease.release.planning import open_target

__all__ = ["give_up"]


def give_up(path: Path, why: str, period: str | None = None) -> dict[str, Any]:
    """Close an open release with what it cost; its answers are kept, and nothing is published.

    Args:
        path: Of its spec or frozen plan.
        why: Kept in the ledger.
        period: Takes the place of the spec's own; None: that one.

    Returns:
        Public facts: release, period, why, and its accounts before and after.

    Raises:
        LedgerError: If no such release is open.
        Locked: If a run of it is going on.
    """
    target = open_target(path, period)
    release = target.loaded.spec.release
    ledger = open_books(target.project)
    with ledger.lock(release.name, release.period, "dprelease run --give-up"):
        found = ledger.find(release.name, release.period)
        if found is None or found.state != "open":
            raise LedgerError(
                f"{release.name}/{release.period} is not open: "
                + ("it was never begun" if found is None else f"it is {found.state.replace('_', ' ')}"),
                hint="`dprelease ledger status` shows what is open",
                code="DPR-L130",
            )
        ledger.give_up(found.release, found.period, found.plan_fingerprint, why)
    return {
        "release": found.release,
        "period": found.period,
        "why": why,
        "accounts": [
            {
                "name": each.name,
                "before": loss_facts(each.before)["epsilon"],
                "after": loss_facts(each.after)["epsilon"],
            }
            for each in found.accounts
        ],
    }
