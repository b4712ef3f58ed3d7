"""Releases of a ledger whose numbers were made of values rounded to whole ones, and which do not say so."""

from __future__ import annotations

from pydantic import ValidationError

from dprelease.ledger import Ledger
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.rounding import rounded_in_silence

__all__ = ["rounded_releases", "silence_text"]


def rounded_releases(ledger: Ledger) -> tuple[str, ...]:
    """One line for each (release, period) as it stands, in ledger order, by its kept plan; no data are looked at.

    A plan that cannot be read is left out: the check of the ledger tells of it.
    """
    lines = []
    for release, period in dict.fromkeys((each.release, each.period) for each in ledger.reservations()):
        known = ledger.find(release, period)
        try:
            plan = ReleasePlan.from_canonical(known.plan) if known is not None and known.plan else None
        except (ValidationError, RecursionError):
            plan = None
        if plan is not None and (silence := silence_text(plan)):
            lines.append(f"{release}/{period}: {silence}")
    return tuple(lines)


def silence_text(plan: ReleasePlan) -> str:
    """Which columns were rounded to whole numbers without a word, and how coarse that is; empty: none."""
    return ", ".join(
        f"{each.table}.{each.column.name} (a step of 1 is {float(each.step / each.width) * 100:.3g} % of its clip)"
        for each in rounded_in_silence(plan)
    )
