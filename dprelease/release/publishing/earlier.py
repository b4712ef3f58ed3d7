"""Which earlier releases a release compares with, and what it takes of their published bundles.

The ledger says which publication of a period it is: the last one that was published before this release was charged.
So a release that is rendered again compares with the same one, whatever was revised since. The numbers come from the
bundle of that publication, which must be whole, of this ledger's entry, and hold what the ledger remembers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dprelease.errors import PlanError
from dprelease.ledger import Ledger, StepKey
from dprelease.ledger.model.entry import Closed
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.pieces import assembled
from dprelease.publish.bundle.checks.opened import OpenedBundle, read_bundle
from dprelease.publish.comparing.earlier import EarlierRelease, needed_periods, taken_from
from dprelease.release.publishing.published import shelf_of
from dprelease.spec.period import span

__all__ = ["earlier_of", "require_earlier"]


class _Published(NamedTuple):
    """A publication: the entry that charged it, the one that closed it, its plan, and its manifest."""

    charged: int
    closed: int
    plan: str
    manifest: str


def require_earlier(ledger: Ledger, releases: Path | None, plan: ReleasePlan) -> dict[str, EarlierRelease]:
    """What a release that is about to be charged takes of earlier ones; blank columns only where it is the first one.

    Raises:
        PlanError: A period that it looks back to was not published (DPR-P330), is defined otherwise (DPR-P331), or has
            no whole bundle (DPR-P332, DPR-P333). Nothing was charged.
    """
    periods = needed_periods(plan)
    if not periods or releases is None:  # a rehearsal compares with nothing
        return {}
    _require_all(plan, _published(ledger, plan.release.name))
    return earlier_of(ledger, releases, plan)


def _require_all(plan: ReleasePlan, known: Mapping[str, Sequence[_Published]]) -> None:
    """Refuse a release that looks back to a period that was not published, where some before its own were.

    Later ones do not count: the first period may be revised, or released anew, when others have followed.
    """
    others = {period for period in known if _is_before(period, plan.release.period)}
    missing = [period for period in needed_periods(plan) if period not in known]
    if missing and others:
        raise PlanError(
            f"{plan.release.name} {plan.release.period} compares with {missing[0]}, which was not published",
            detail=f"published are: {', '.join(sorted(others))}",
            hint="release that period first, or name another one in `compare`, or in `earlier` of `derive`",
            code="DPR-P330",
        )


def _is_before(one: str, other: str) -> bool:
    """Whether a period comes before another one; of periods that the calendar does not have, every other one may."""
    days = span(one), span(other)
    return one != other and (days[0] is None or days[1] is None or days[0] < days[1])


def earlier_of(
    ledger: Ledger, releases: Path, plan: ReleasePlan, before: int | None = None, *, whole: bool = False
) -> dict[str, EarlierRelease]:
    """What a release takes of earlier ones, by period.

    Args:
        ledger: The project's ledger.
        releases: Its folder of releases.
        plan: Of the release.
        before: The entry that charged it; None: it is not charged yet.
        whole: Whether a period that is missing is refused where others are there, as before a charge: that of another
            look, which nobody asked before.

    Raises:
        PlanError: DPR-P330 where ``whole``; DPR-P331 to DPR-P333, as :func:`require_earlier` says them.
    """
    periods = needed_periods(plan)
    if not periods:
        return {}
    known = {
        period: made
        for period, every in _published(ledger, plan.release.name).items()
        if (made := [each for each in every if before is None or each.closed < before])
    }
    if whole:
        _require_all(plan, known)
    return {period: _taken(ledger, releases, plan, period, known[period][-1]) for period in periods if period in known}


def _published(ledger: Ledger, release: str) -> dict[str, list[_Published]]:
    """Every publication of a release by period, in ledger order."""
    found: dict[str, list[_Published]] = {}
    if not ledger.exists:
        return found
    for entry in ledger.entries():
        if entry.kind != Closed.kind:
            continue
        body = entry.facts()
        if isinstance(body, Closed) and body.release == release and not body.gave_up:
            made = _Published(body.reservation, entry.sequence, body.plan, body.manifest)
            found.setdefault(body.period, []).append(made)
    return found


def _taken(ledger: Ledger, releases: Path, plan: ReleasePlan, period: str, made: _Published) -> EarlierRelease:
    """What is taken of one publication, after its bundle was held against its manifest and the ledger."""
    name = plan.release.name
    folders = [
        each.folder
        for each in shelf_of(releases).bundles
        if (each.release, each.period, each.plan, each.entry.sequence) == (name, period, made.plan, made.charged)
        and each.ledger in ("", ledger.id)
    ]
    if not folders:
        raise PlanError(
            f"the bundle of {name} {period}, with which {plan.release.period} compares, is not in {releases}",
            detail=f"the ledger has it as charged by entry {made.charged}, and published by entry {made.closed}",
            hint=f"put it back, or write it again: `dprelease publish {name}/{period}`; nothing was charged for this",
            code="DPR-P332",
        )
    bundle, why = read_bundle(Path(folders[0]))
    why = why if bundle is None else _wrong(ledger, bundle, period, made, name)
    if bundle is None or bundle.plan is None or why:
        raise PlanError(
            f"{folders[0]}, with which {plan.release.period} compares, is not as it was published: {why}",
            detail="what is compared comes from a bundle that is whole, and that the ledger knows",
            hint="`dprelease verify` it; put the original back, or `dprelease publish` it again",
            code="DPR-P333",
        )
    measured = bundle.measured[0] or {}
    return taken_from(plan, bundle.plan, measured, period, made.manifest, made.charged)


def _wrong(ledger: Ledger, bundle: OpenedBundle, period: str, made: _Published, name: str) -> str:
    """What is wrong with a bundle; empty: its files are its manifest's, and its measurements are the ledger's."""
    changed = [path for path in bundle.manifest.files if path not in bundle.sound]
    if changed:
        return f"{changed[0]} is missing or changed"
    plan = bundle.plan
    if plan is None or plan.fingerprint() != made.plan:
        return "its plan is another one"
    measured, why = bundle.measured
    if measured is None:
        return why
    for step in plan.measured:
        parts = plan.pieces.get(step.id, ())
        keys = {
            each: StepKey(name, period, made.plan, each) for each in [one.id(step.id) for one in parts] or [step.id]
        }
        kept = ledger.stored_all(keys.values())
        if set(kept) != set(keys.values()):
            return f"the ledger has no answer of step {step.id!r}"
        answers = {each: kept[key] for each, key in keys.items()}
        known = assembled(step, parts, answers) if parts else answers[step.id]
        if not np.array_equal(known.values, measured[step.id].values):
            return f"measurements of step {step.id!r} are not those of the ledger"
    return ""
