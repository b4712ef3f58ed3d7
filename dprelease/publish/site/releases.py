"""The page over all releases of a project: ``releases/index.html``. Pure; ``publishing.published`` reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dprelease.plan.document import ReleasePlan
from dprelease.publish.accounting.drawings import Figure, history_figures
from dprelease.publish.base import NOTICE, AccountFacts, AccountPoint, Facts
from dprelease.publish.html_text import render_page, utc
from dprelease.publish.manifest import Manifest
from dprelease.publish.numbers import at_most

__all__ = ["Listed", "releases_page"]


@dataclass(frozen=True)
class Listed:
    """A bundle as the page needs it.

    Attributes:
        path: The path of its folder below the page, with forward slashes: ``survey/2024``.
        manifest: Its list of files.
        facts: What the ledger said.
        plan: What was planned.
    """

    path: str
    manifest: Manifest
    facts: Facts
    plan: ReleasePlan


def releases_page(listed: Sequence[Listed], unreadable: Sequence[str] = ()) -> bytes:
    """The page.

    Args:
        listed: The bundles, in any order.
        unreadable: Paths of folders that should hold a bundle, and hold none that can be read.
    """
    newest = sorted(listed, key=lambda each: (-each.facts.ledger_sequence, each.path))
    replaced = {
        each.facts.restates.plan_fingerprint: f"ledger entry {each.facts.ledger_sequence}"
        for each in reversed(newest)
        if each.facts.restates is not None
    }
    return render_page(
        "releases.html.j2",
        notice=NOTICE if listed and all(each.facts.rehearsal for each in listed) else "",
        lines=[_line(each, replaced) for each in newest],
        unreadable=sorted(unreadable),
        accounts=_accounts(newest),
        figures=_figures(newest),
    )


def _line(each: Listed, replaced: dict[str, str]) -> dict[str, Any]:
    """A release as shown."""
    plan, manifest, facts = each.plan, each.manifest, each.facts
    loss, release = plan.loss[plan.certified], plan.release
    first = "index.html" if "index.html" in manifest.files else "manifest.json"
    revision = f", revision {release.revision} of {release.revisions}" if release.revision else ""
    exact = "; beside it exact totals, unprotected" if plan.invariants else ""
    return {
        "href": quote(f"{each.path}/{first}"),
        "title": release.title or manifest.release,
        "name": manifest.release + revision,
        "period": manifest.period,
        "charged": utc(facts.reserved_at),
        "sequence": facts.ledger_sequence,
        "loss": f"ε = {at_most(loss.epsilon)}, δ = {at_most(loss.delta)}{exact}",
        "unit": str(plan.unit),
        "signed": facts.key_fingerprint,
        "replaced_by": replaced.get(manifest.plan_fingerprint, ""),
        "rehearsal": facts.rehearsal,
    }


def _latest(newest: Sequence[Listed]) -> dict[tuple[str, str], tuple[AccountFacts, Facts]]:
    """Every account as the newest release that was charged to it knows it; rehearsals are charged to none.

    Of a parallel account every stretch of time that was charged, by itself. A planned revision knows an account as it
    was when the first publication was charged.
    """
    found: dict[tuple[str, str], tuple[AccountFacts, Facts]] = {}
    for each in sorted(newest, key=lambda one: -_charged(one.facts)):
        if not each.facts.rehearsal:
            for account in each.facts.accounts:
                found.setdefault((account.name, account.window), (account, each.facts))
    return dict(sorted(found.items()))


def _charged(facts: Facts) -> int:
    """The ledger entry that paid for a release."""
    return facts.paid_by or facts.ledger_sequence


def _accounts(newest: Sequence[Listed]) -> list[tuple[str, str, str, str, int]]:
    """Name, unit, what is spent, the cap, and the ledger entry of the last charge that is known here."""
    return [
        (
            account.label,
            account.unit,
            f"ε = {at_most(account.after.epsilon)} at δ = {at_most(account.after.delta)}",
            "" if cap.epsilon is None else f"ε = {at_most(cap.epsilon)} at δ = {at_most(cap.delta)}",
            _charged(facts),
        )
        for account, facts in _latest(newest).values()
        for cap in (account.cap,)
    ]


def _figures(newest: Sequence[Listed]) -> tuple[Figure, ...]:
    """For each account its loss behind every charge, from the newest bundle that it paid for."""
    latest: dict[str, tuple[AccountFacts, Facts]] = {}
    for account, facts in sorted(_latest(newest).values(), key=lambda each: -_charged(each[1])):
        latest.setdefault(account.name, (account, facts))
    if not latest:
        return ()
    points: list[AccountPoint] = []
    for name, (_, facts) in sorted(latest.items()):
        points += [point for point in facts.history if point.account == name]
    merged = {"accounts": tuple(latest[name][0] for name in sorted(latest)), "history": tuple(points)}
    return history_figures(newest[0].plan, newest[0].facts.model_copy(update=merged))
