"""What may follow what in the life of a release, and the errors that say so. Pure.

A planned revision costs nothing: what was charged with the first publication is 1 + n times the draws of one plan
(``ReleasePlan.cost_of``). So a revision may be reserved only if it has that very plan, its publication stands, and it
is one of the n, none of them twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from dprelease.errors import BrokenPromiseError, LedgerError
from dprelease.ledger.model.reservation import Reservation
from dprelease.plan.document import ReleasePlan

__all__ = [
    "STATES",
    "Ended",
    "Past",
    "already_answered",
    "current_publication",
    "has_ended",
    "misfit",
    "never_released",
    "not_planned",
    "not_reserved",
    "replaces",
    "require_measured",
    "require_same_manifest",
    "require_whole_steps",
    "revises",
]


Ended = Literal["open", "closed", "given_up", "lost"]

# By how an entry says that a reservation ended.
STATES: Mapping[str | None, Ended] = {None: "open", "close": "closed", "give_up": "given_up"}


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


class Past(NamedTuple):
    """A reservation of a release and period that was not given back.

    Attributes:
        plan: Fingerprint of its plan.
        state: The reservation's state.
        revision: Which planned revision it is; 0: a first publication, one that replaced it by hand, or a lost one.
    """

    plan: str
    state: Ended
    revision: int


def current_publication(past: Sequence[Past]) -> tuple[Past, Sequence[Past]] | None:
    """The publication that revisions are of, the last one that is none itself, and its revisions so far."""
    for at in range(len(past) - 1, -1, -1):
        if past[at].revision == 0:
            return past[at], past[at + 1 :]
    return None


def revises(past: Sequence[Past], plan: ReleasePlan, mark: str) -> bool:
    """Whether the plan of a revision is to be reserved; False: it is the last one, and is found again.

    Args:
        past: The reservations of its release and period, in the order of the ledger.
        plan: The revision's plan.
        mark: Its fingerprint.

    Raises:
        LedgerError: Neither.
    """
    release, number = plan.release, plan.release.revision
    name = f"{release.name} {release.period}"
    publication = current_publication(past)
    if publication is None:
        raise never_released(name)
    base, revisions = publication
    if base.state != "closed":
        raise _unfinished(name, base)
    if base.plan != plan.at_revision(0).fingerprint():
        raise _other_plan(name, base)
    if number > release.revisions:
        raise not_planned(name, number, release.revisions)
    if revisions and revisions[-1].plan == mark:
        if revisions[-1].state == "given_up":
            raise _given_up(name, number)
        return False
    last = max((each.revision for each in revisions), default=0)
    if last >= number:
        raise _passed(name, number, last, release.revisions)
    if revisions and revisions[-1].state == "open":
        raise _busy(name, last)
    return True


def misfit(past: Sequence[Past], first: str, number: int, planned: int) -> str:
    """What is wrong with a revision in a ledger, worked out again from its entries; empty: nothing.

    Args:
        past: What was reserved before it for its release and period.
        first: The fingerprint of its plan as that of a first publication.
        number: The revision's number.
        planned: How many its plan has.
    """
    bases = [at for at, each in enumerate(past) if not each.revision]
    if not bases or past[bases[-1]][:2] != (first, "closed"):
        return "it revises what was not published with its plan"
    if not 0 < number <= planned:
        return "it is no revision that was planned"
    if any(each.revision >= number or each.state == "open" for each in past[bases[-1] + 1 :]):
        return "it comes after a later revision, or one that is open"
    return ""


def not_planned(name: str, number: int, planned: int) -> LedgerError:
    """The error for a revision that nobody has paid for."""
    return LedgerError(
        f"{name} has no revision {number}: {planned or 'none'} were planned when it was first released",
        detail="what is not in the plan was not charged",
        hint="`dprelease run SPEC --restate REASON` replaces the publication, from a changed spec, and is charged",
        code="DPR-L165",
    )


def never_released(name: str) -> LedgerError:
    """The error for a revision of nothing."""
    return LedgerError(
        f"{name} was never released: there is nothing to revise",
        hint="`dprelease run SPEC` without `--revision` releases it",
        code="DPR-L160",
    )


def _unfinished(name: str, base: Past) -> LedgerError:
    begun = base.state == "open"
    return LedgerError(
        f"{name} cannot be revised: its first publication is {base.state.replace('_', ' ')}",
        detail="" if begun else "what it cost stays charged, and its answers may be known",
        hint="finish it with `dprelease run SPEC`"
        if begun
        else "`dprelease run SPEC --restate REASON` releases it again, from a changed spec, and is charged again",
        code="DPR-L161",
    )


def _other_plan(name: str, base: Past) -> LedgerError:
    return LedgerError(
        f"{name} was published with plan {base.plan[:12]}, and this is a revision of another one",
        detail="a revision repeats the very draws that were charged",
        hint="`dprelease run SPEC --revision K` takes the plan that the ledger has",
        code="DPR-L162",
    )


def _passed(name: str, number: int, last: int, planned: int) -> LedgerError:
    return LedgerError(
        f"revision {number} of {name} cannot be released any more: revision {last} was begun",
        detail="revisions go forward: a later one has all the rows of an earlier one",
        hint=f"the next one is `--revision {last + 1}`" if last < planned else "no further one is planned",
        code="DPR-L163",
    )


def _busy(name: str, last: int) -> LedgerError:
    return LedgerError(
        f"revision {last} of {name} is open",
        hint=f"finish it with `dprelease run SPEC --revision {last}`, or end it with `--give-up REASON`",
        code="DPR-L164",
    )


def _given_up(name: str, number: int) -> LedgerError:
    return LedgerError(
        f"revision {number} of {name} was given up",
        detail="its answers may be known: it is never drawn again",
        hint="the next revision, where one is planned, takes its place",
        code="DPR-L166",
    )
