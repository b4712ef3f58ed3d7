"""From committed answers to a bundle, and the public summary of how a run ended."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dprelease.canonical import Value
from dprelease.errors import LedgerError
from dprelease.ledger import Ledger, Reservation, StepKey, has_ended
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain import left_text, loss_facts
from dprelease.publish import Publication, folder_for, render, write
from dprelease.release.books import open_books
from dprelease.release.facts import facts_of
from dprelease.release.project import Project

__all__ = ["AccountLine", "Outcome", "outcome", "publish_again", "rendered"]


class AccountLine(Value):
    """One account as decimal text: epsilon before, after, and the cap, at the cap's delta."""

    name: str
    composition: str
    before: str
    after: str
    cap: str
    left: str
    delta: str
    window: str = ""


class Outcome(Value):
    """How a run ended; public."""

    release: str
    period: str
    folder: str
    plan_fingerprint: str
    state: Literal["published", "exists"]
    drawn: int
    reused: int
    epsilon: str
    delta: str
    accounts: tuple[AccountLine, ...]


def rendered(ledger: Ledger, reservation: Reservation, *, rehearsal: bool = False) -> Publication:
    """The bundle of a release from its stored plan and answers; the same bytes every time.

    Raises:
        LedgerError: If a step has no answer yet.
    """
    plan = ReleasePlan.from_canonical(reservation.plan)
    identity = (reservation.release, reservation.period, reservation.plan_fingerprint)
    measurements: dict[str, Measurement] = {}
    for step in plan.steps:
        stored = ledger.stored(StepKey(*identity, step.id))
        if stored is None:
            raise LedgerError(
                f"{reservation.release}/{reservation.period} is not measured to its end: {step.id} has no answer",
                hint="`dprelease run` with its spec resumes it",
                code="DPR-L111",
            )
        measurements[step.id] = stored
    return render(plan, measurements, facts_of(ledger, reservation, plan, rehearsal=rehearsal))


def outcome(
    reservation: Reservation,
    plan: ReleasePlan,
    folder: Path,
    state: Literal["published", "exists"],
    drawn: int,
    reused: int,
) -> Outcome:
    """The public summary of a finished run."""
    certified = loss_facts(plan.loss[plan.certified])
    return Outcome(
        release=reservation.release,
        period=reservation.period,
        folder=str(folder),
        plan_fingerprint=reservation.plan_fingerprint,
        state=state,
        drawn=drawn,
        reused=reused,
        epsilon=certified["epsilon"],
        delta=certified["delta"],
        accounts=tuple(
            AccountLine(
                name=each.name,
                composition=each.composition,
                before=loss_facts(each.before)["epsilon"],
                after=loss_facts(each.after)["epsilon"],
                cap=str(each.cap.epsilon),
                left=left_text(each.cap, each.after),
                delta=loss_facts(each.after)["delta"],
                window=each.window,
            )
            for each in (*reservation.accounts, *reservation.windows)
        ),
    )


def publish_again(project: Project, release: str, period: str | None) -> Outcome:
    """Render a measured release again from the ledger: free, and byte-identical.

    Raises:
        LedgerError: If there is no such release, several periods match, or it is not measured to its end.
    """
    ledger = open_books(project)
    every = {(each.release, each.period): each for each in ledger.reservations()}  # the last one of each counts
    found = [key for key in every if key[0] == release and period in (None, key[1])]
    if len(found) != 1:
        known = ", ".join("/".join(key) for key in found or every) or "none"
        what = "several periods of" if found else "no release"
        raise LedgerError(
            f"{what} {release if period is None else f'{release}/{period}'} in the ledger",
            hint=f"name one as NAME/PERIOD; the ledger has: {known}",
            code="DPR-L112",
        )
    reservation = ledger.find(*found[0])
    if reservation is None or reservation.state in ("given_up", "lost"):
        raise has_ended(every[found[0]])
    folder = folder_for(project.releases, reservation.release, reservation.period)
    write(rendered(ledger, reservation), folder)
    plan = ReleasePlan.from_canonical(reservation.plan)
    return outcome(reservation, plan, folder, "exists", 0, len(plan.steps))
