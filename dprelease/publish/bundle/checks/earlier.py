"""What a bundle says that it took of earlier releases, held against their bundles where these are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dprelease.publish.bundle.checks.opened import Check, OpenedBundle, read_bundle
from dprelease.publish.comparing.earlier import EarlierRelease, compared_with, needed_periods, require_alike

__all__ = ["EARLIER", "earlier_check"]

EARLIER = "earlier periods"


def earlier_check(bundle: OpenedBundle, others: Sequence[Path]) -> Check | None:
    """Whether what was taken is what the earlier bundles hold; None where nothing is compared with an earlier period.

    Args:
        bundle: The later one.
        others: Folders where an earlier one may lie; those beside the bundle are looked at as well, but for the hidden
            ones: a publication that was killed leaves a part of a bundle there.
    """
    plan, facts = bundle.shown, bundle.facts  # another look can have other derived tables
    if plan is None or facts is None or not (needed_periods(plan) or facts.earlier):
        return None
    try:
        taken = bundle.earlier
    except ValueError as error:
        return Check(EARLIER, False, str(error))
    if tuple(compared_with(each) for _, each in sorted(taken.items())) != facts.earlier:
        return Check(EARLIER, False, "earlier/ holds other releases than facts.json names")
    around = sorted(bundle.folder.resolve().parent.glob("*"))
    beside = [each for each in around if each.is_dir() and not each.name.startswith(".")]
    read = [(folder, other) for folder in (*others, *beside) if (other := read_bundle(folder)[0]) is not None]
    found: list[str] = []
    missing: list[str] = []
    for period, each in sorted(taken.items()):
        if (each.release, each.sequence < facts.ledger_sequence) != (plan.release.name, True):
            return Check(EARLIER, False, f"{period} is of another release, or was charged later")
        require_alike(plan, each.plan, period)
        same = [why for folder, other in read if (why := _held_against(each, folder, other)) is not None]
        if any(same):
            return Check(EARLIER, False, next(filter(None, same)))
        (found if same else missing).append(period)
    told = f"measurements of {', '.join(found)} are those of its bundle" if found else ""
    if missing:
        why = (
            f"the bundle of {', '.join(missing)} is not beside this one: whether the numbers compared with are those "
            "that were published could not be checked; give its folder with --earlier"
        )
        return Check(EARLIER, None, "; ".join(filter(None, (told, why))))
    return Check(EARLIER, True, told or "none was published before this one")


def _held_against(taken: EarlierRelease, folder: Path, other: OpenedBundle) -> str | None:
    """What differs from the bundle in a folder; empty: nothing; None: it holds another release."""
    if other.plan is None or other.manifest.ledger.sequence != taken.sequence:
        return None
    if (other.manifest.release, other.manifest.period) != (taken.release, taken.period) or other.manifest.rehearsal:
        return None
    changed = [path for path in other.manifest.files if path not in other.sound]
    if changed:
        return f"{folder.name}/{changed[0]} is missing or changed"
    if other.plan.fingerprint() != taken.plan.fingerprint():
        return f"the bundle of {taken.period} has another plan"
    measured, why = other.measured
    if measured is None:
        return f"the bundle of {taken.period}: {why}"
    for name, values in taken.measurements.items():
        if not np.array_equal(np.array(values, dtype=np.int64), measured[name].values):
            return f"measurements of step {name!r} are not those of the bundle of {taken.period}"
    return ""
