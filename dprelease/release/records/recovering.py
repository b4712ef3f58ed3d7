"""Recovering a ledger with what the published bundles prove, and the errata beside those that it had lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dprelease.errors import DpReleaseError
from dprelease.ledger import Charge, Evidence, Ledger, PublishedBundle
from dprelease.ledger.model.entry import LedgerEntry, Recovered
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.facts import loss_facts
from dprelease.plan.explain.series_terms import periods_charged
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish import check_bundle
from dprelease.regular import LARGEST_PLAN, read_regular
from dprelease.release.publishing.published import shelf_of
from dprelease.release.records.errata import write_beside

__all__ = ["FORMAT", "evidence_of", "recover_from_bundles"]

FORMAT = "dprelease-erratum-lost/1"
_BELIEVED = ("manifest", "signature", "plan", "facts")


def recover_from_bundles(
    ledger: Ledger, releases: Path, why: str, gone: Sequence[str] = (), command: str = ""
) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Make a ledger usable, with what its anchors and the bundles of its project know.

    Args:
        ledger: The project's ledger.
        releases: Its folder of releases.
        why: What the operator says.
        gone: Hosts that are gone for good with their anchors.
        command: What is being run.

    Returns:
        What was done, one line each, and the errata that were written.

    Raises:
        LedgerError: As of ``ledger.recovery``.
        PublishError: An erratum cannot be written (DPR-W210).
    """
    bundles = shelf_of(releases).bundles
    missing = {each.folder for each in ledger.lacks(bundles, admitted=False)}
    evidence = [evidence_of(each) if each.folder in missing else Evidence(each) for each in bundles]
    done = ledger.recover(why, command, published=evidence, gone=gone)
    return done, _write_errata(ledger, bundles) if done else ()


def evidence_of(published: PublishedBundle) -> Evidence:
    """A bundle as evidence: its plan held against its manifest and its facts, its loss derived again.

    The rest of it is not asked: what a table says does not change what its release cost.
    """
    folder = Path(published.folder)
    checks = {each.name: each for each in check_bundle(folder)}
    failed = [each for name in _BELIEVED if (each := checks[name]).passed is False]
    if failed:
        return Evidence(published, wrong=f"{failed[0].name}: {failed[0].detail}")
    try:
        plan = ReleasePlan.from_canonical(read_regular(folder / "plan.json", LARGEST_PLAN))
        verify(plan)
        if not plan.release.revision:
            said = json.loads(read_regular(folder / "accounting.json", LARGEST_PLAN))
            periods = periods_charged(plan, again=said.get("restates") is not None)
            return Evidence(published, _charges(plan), before=plan.is_older is not False, periods=periods)
        first = plan.at_revision(0)
        verify(first)
        return Evidence(published, paid=(first.fingerprint(), _charges(first)), before=first.is_older is not False)
    except DpReleaseError as error:
        return Evidence(published, wrong=error.summary)
    except Exception as error:  # a forged plan can be well formed and still name what it does not hold
        return Evidence(published, wrong=f"plan.json makes no sense ({type(error).__name__})")


def _charges(plan: ReleasePlan) -> tuple[Charge, ...]:
    every = (Charge(account=each, events=plan.cost_of(each), cap=each.lifetime) for each in plan.accounts)
    return tuple(charge for charge in every if charge.events.events)


def _write_errata(ledger: Ledger, published: Sequence[PublishedBundle]) -> tuple[Path, ...]:
    """One for each bundle whose charge a recovery took the place of, in two forms; those that are there are kept."""
    bundles = {each.entry: each for each in published}
    hint = "the ledger is recovered; make room or correct the permissions, the bundle says the same without it"
    paths: list[Path] = []
    for entry in ledger.entries(admitted=False):  # other hosts may still have to be asked
        body = entry.facts() if entry.kind == "recover" else None
        if isinstance(body, Recovered) and body.bundle in bundles:
            facts = _erratum(bundles[body.bundle], entry, body)
            paths += write_beside(Path(bundles[body.bundle].folder), entry.sequence, facts, _words(facts), hint)
    return tuple(paths)


def _erratum(published: PublishedBundle, entry: LedgerEntry, body: Recovered) -> dict[str, Any]:
    plan = ReleasePlan.from_canonical(read_regular(Path(published.folder) / "plan.json", LARGEST_PLAN))
    return {
        "format": FORMAT,
        "release": published.release,
        "period": published.period,
        "plan": published.plan,
        "lost": {"entry": published.entry.sequence, "hash": published.entry.hash},
        "recovered": {"entry": entry.sequence, "hash": entry.hash, "at": body.at, "why": body.why},
        "claimed": loss_facts(plan.loss[plan.certified]),
        "accounts": sorted(body.added),
    }


def _words(facts: dict[str, Any]) -> str:
    lost, again, claimed = facts["lost"], facts["recovered"], facts["claimed"]
    charged = (
        f"It charges {', '.join(facts['accounts'])} what this release costs"
        if facts["accounts"]
        else ("It charges nothing, for this revision was paid with its first publication")
    )
    return (
        f"# Erratum to {facts['release']} {facts['period']}\n\n"
        f"The ledger has lost entry {lost['entry']} ({lost['hash'][:16]}), which charged this release. Entry "
        f"{again['entry']}, {again['at']}, takes its place: {again['why']}\n\n"
        f"{charged}, epsilon {claimed['epsilon']} at delta {claimed['delta']} by its own certificate. The published "
        "numbers are unchanged, and are never drawn again. What the bundle says of its accounts before and after it is "
        "what the lost entries said.\n"
    )
