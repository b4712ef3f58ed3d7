"""What may follow what in the life of a release, and the errors that say so. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.errors import BrokenPromiseError, LedgerError
from dprelease.ledger.model.reservation import Reservation
from dprelease.plan.document import ReleasePlan

__all__ = [
    "already_answered",
    "has_ended",
    "not_reserved",
    "replaces",
    "require_measured",
    "require_same_manifest",
    "require_whole_steps",
]


def not_reserved(release: str, period: str, plan: str) -> LedgerError:
    """The error for a release that is not open with a plan."""
    return LedgerError(
        f"{release} {period} is not reserved with plan {plan[:12]}, or has ended",
        hint="`dprelease ledger log` shows what is",
        code="DPR-L130",
    )


def has_ended(existing: Reservation) -> LedgerError:
    """The error for a release that was given up or lost: it is never gone on with."""
    return LedgerError(
        f"{existing.release} {existing.period} was {existing.state.replace('_', ' ')}: {existing.ended}",
        detail="what it cost stays charged, and its answers may be known",
        hint="`dprelease run SPEC --restate REASON` releases it again, where the data or the spec are others, and is "
        "charged again",
        code="DPR-L113",
    )


def already_answered(name: str) -> LedgerError:
    """The error for a question that was answered, about the same data."""
    return LedgerError(
        f"{name} was measured with this very question, and from these very data",
        detail="the same question about the same data is answered once: asked again, it has the answer that it has. "
        "Titles, names and looks are no part of it",
        hint="correct the file, or what is measured, if it was wrong; other titles, labels or formats are free: "
        "`dprelease publish NAME/PERIOD --look SPEC`",
        code="DPR-L114",
    )


def replaces(existing: Reservation, mark: str, why: str, *, used: bool) -> bool:
    """Whether a plan replaces the one that is there; False: it is that one.

    Args:
        existing: The last one of the same release and period.
        mark: Fingerprint of the plan.
        why: The reason for replacing; empty: none is given.
        used: Whether this plan was ever measured for this release and period, or another one that asks the same and
            has the same number.

    Raises:
        LedgerError: Neither.
    """
    name = f"{existing.release} {existing.period}"
    same = existing.plan_fingerprint == mark and existing.state in ("open", "closed")
    if same and (not why or existing.restates is not None):
        return False
    if why and used:
        raise already_answered(name)
    if why and existing.state != "open":
        return True
    if existing.state in ("given_up", "lost"):
        raise has_ended(existing)
    raise LedgerError(
        f"{name} is {existing.state} with plan {existing.plan_fingerprint[:12]}, and this is plan {mark[:12]}",
        detail="one release and period is measured once, from one plan",
        hint=(
            "finish it with the unchanged spec, or end it with `--give-up REASON`; then `--restate REASON` replaces it"
            if existing.state == "open"
            else "run the unchanged spec to go on; give a new `period` or `name`; or replace it, charged again, with "
            "`--restate REASON`"
        ),
        code="DPR-L110",
    )


def require_same_manifest(reservation: Reservation, digest: str) -> None:
    """A release is published once.

    Raises:
        LedgerError: It was published with another manifest.
    """
    if reservation.manifest != digest:
        raise LedgerError(
            f"{reservation.release} {reservation.period} was published with manifest {reservation.manifest}, "
            f"not {digest}",
            hint="the first publication stands; render it again with the version that made it",
            code="DPR-L131",
        )


def require_measured(reservation: Reservation, steps: Mapping[str, int | None], measured: frozenset[str]) -> None:
    """A release is closed once it is measured.

    Raises:
        BrokenPromiseError: It is not, or it has ended otherwise.
    """
    missing = [step for step in steps if step not in measured]
    if reservation.state != "open" or missing:
        what = f"{len(missing)} steps have no measurement, the first is {missing[0]}" if missing else reservation.state
        raise BrokenPromiseError(
            f"{reservation.release} {reservation.period} cannot be closed: {what}",
            hint="run the release again: it goes on where it stopped",
            code="DPR-L903",
        )


def require_whole_steps(plan: ReleasePlan, measured: frozenset[str]) -> None:
    """Other data are accepted only where no step has some of its pieces and not all.

    A step is charged for one unit's rows in one state of the data. A unit that is in one piece before and in another
    one after would be in both, and move the step's answer twice.

    Raises:
        LedgerError: A step has.
    """
    for step, pieces in plan.pieces.items():
        done = sum(piece.id(step) in measured for piece in pieces)
        if 0 < done < len(pieces):
            raise LedgerError(
                f"{plan.release.name}/{plan.release.period} has measured {done} of the {len(pieces)} pieces of {step}",
                detail="the pieces of one step must come from one state of the data: what it costs is said of that",
                hint="put the files, and the key of their fingerprints, back as they were; or `--give-up REASON`, "
                "which ends it with what it cost",
                code="DPR-L155",
            )
