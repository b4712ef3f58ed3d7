"""A release without an orchestrator: run to its end by threads of this process, or ended by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from dprelease.errors import LedgerError
from dprelease.event_log import tell
from dprelease.plan.explain.facts import loss_facts
from dprelease.release.planning import open_target
from dprelease.release.publishing.rendering import Outcome
from dprelease.release.run import Progress, Request, open_run

__all__ = ["give_up", "run_directly"]

_WORKERS = 4


def run_directly(request: Request, progress: Progress | None = None) -> Outcome:
    """Run a request to its end in this process.

    Raises:
        DpReleaseError: Whatever a step raises; what was measured stays measured.
    """
    show = progress or (lambda label, done, total: None)
    with open_run(request, "dprelease run --direct") as run:
        batches = run.batches()
        total = sum(len(batch.steps) for batch in batches)
        done = 0
        with ThreadPoolExecutor(_WORKERS) as pool:
            pending = [pool.submit(run.measure, batch) for batch in batches]
            for finished in as_completed(pending):
                done += finished.result()
                show("measuring", done, total)
        return run.publish()


def give_up(path: Path, why: str, period: str | None = None) -> dict[str, Any]:
    """Close an open release with what it cost; its answers are kept, and nothing is published.

    Args:
        path: The path of its spec or frozen plan.
        why: The reason; it is kept in the ledger.
        period: Takes the place of the spec's own; None: that one.

    Returns:
        Public facts: release, period, why, and its accounts before and after.

    Raises:
        LedgerError: If no such release is open.
        Locked: If a run of it is going on.
    """
    target = open_target(path, period)
    release = target.loaded.spec.release
    ledger = target.project.open_ledger()
    with ledger.lock(release.name, release.period, "dprelease run --give-up"):
        reservation = ledger.find(release.name, release.period)
        if reservation is None or reservation.state != "open":
            raise LedgerError(
                f"{release.name}/{release.period} is not open: "
                + ("it was never begun" if reservation is None else f"it is {reservation.state.replace('_', ' ')}"),
                hint="`dprelease ledger status` shows what is open",
                code="DPR-L130",
            )
        ledger.give_up(reservation.release, reservation.period, reservation.plan_fingerprint, why)
    tell("given_up", release=reservation.release, period=reservation.period, plan=reservation.plan_fingerprint)
    return {
        "release": reservation.release,
        "period": reservation.period,
        "why": why,
        "accounts": [
            {
                "name": each.name,
                "before": loss_facts(each.before)["epsilon"],
                "after": loss_facts(each.after)["epsilon"],
            }
            for each in reservation.accounts
        ],
    }
