"""From committed answers, and what the ledger alone knows, to a bundle; and the public summary of how a run ended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from dprelease.canonical import Value, sha256
from dprelease.errors import LedgerError
from dprelease.ledger import Ledger, Reservation, StepKey, has_ended
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.account import AccountLosses
from dprelease.plan.document.pieces import assembled
from dprelease.plan.explain.facts import left_text, loss_facts, unprotected
from dprelease.plan.explain.presentation import Presentation, presentation, presented
from dprelease.plan.explain.same_question import question
from dprelease.publish import (
    AccountFacts,
    AccountPoint,
    CapChange,
    Facts,
    Looked,
    Publication,
    Restated,
    folder_for,
    kept_beside,
    render,
    write,
)
from dprelease.publish.base import AuditFacts
from dprelease.publish.comparing.earlier import compared_with
from dprelease.release.planning import Target, plan_release
from dprelease.release.project import Project
from dprelease.release.publishing.earlier import earlier_of
from dprelease.release.publishing.overview import write_overview
from dprelease.release.publishing.published import make_way
from dprelease.release.revisions import payer_of
from dprelease.signature import PrivateKey

__all__ = [
    "AccountLine",
    "Outcome",
    "facts_of",
    "looks_of",
    "outcome",
    "plan_of",
    "publish_again",
    "rendered",
    "tuning_note",
]


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
    """How a run ended; public.

    ``warning`` is what went wrong beside a release that is complete, ``note`` what whoever ran it has to know, such as
    that the files are no longer those that were measured.

    ``unprotected`` is the sentence on what was published exactly, which is no part of ``epsilon``.

    ``revision`` is which of the ``revisions`` that are planned was published; it has no accounts, for they were charged
    with the first publication.
    """

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
    revision: int = 0
    revisions: int = 0
    warning: str = ""
    unprotected: str = ""
    note: str = ""


def rendered(
    ledger: Ledger,
    reservation: Reservation,
    project: Project | None = None,
    *,
    key: PrivateKey | None = None,
    rehearsal: bool = False,
    look: Presentation | None = None,
    known: ReleasePlan | None = None,
) -> Publication:
    """The bundle of a release from its stored plan and answers; the same bytes every time.

    Args:
        ledger: That has them.
        reservation: Its entry.
        project: Has the bundles of earlier periods, and a theme; None: no number is compared, and there is none.
        key: To sign with; None: the bundle is unsigned.
        rehearsal: On made-up rows; never signed.
        look: How it is shown, where that is not how the plan says.
        known: A plan, of which much has been worked out already; see :func:`plan_of`.

    Raises:
        LedgerError: If a step has no answer yet.
    """
    plan = plan_of(reservation.plan, known)
    identity = (reservation.release, reservation.period, reservation.plan_fingerprint)
    pieces = plan.pieces
    whole = ledger.stored_all(StepKey(*identity, step.id) for step in plan.measured if step.id not in pieces)
    measurements: dict[str, Measurement] = {}
    for step in plan.measured:
        parts = pieces.get(step.id, ())
        keys = {name: StepKey(*identity, name) for name in [piece.id(step.id) for piece in parts] or [step.id]}
        found = ledger.stored_all(keys.values()) if parts else whole
        if lacking := [name for name, asked in keys.items() if asked not in found]:
            raise LedgerError(
                f"{reservation.release}/{reservation.period} is not measured to its end: {lacking[0]} has no answer",
                hint="`dprelease run` with its spec resumes it",
                code="DPR-L111",
            )
        answers = {name: found[asked] for name, asked in keys.items()}
        measurements[step.id] = assembled(step, parts, answers) if parts else answers[step.id]
    if rehearsal:
        key = None
    earlier = {}
    if project and not rehearsal:
        shown = plan if look is None else presented(plan, look)
        earlier = earlier_of(ledger, project.releases, shown, reservation.sequence, whole=look is not None)
    facts = facts_of(ledger, reservation, plan, rehearsal=rehearsal)
    compared = tuple(compared_with(each) for _, each in sorted(earlier.items()))
    facts = facts.model_copy(update={"earlier": compared, "theme": project.theme if project else None})
    signed = facts if key is None else facts.model_copy(update={"signer": key.public.text})
    return render(plan, measurements, signed, key, look, earlier)


def plan_of(stored: str, known: ReleasePlan | None = None) -> ReleasePlan:
    """The plan of a stored text: the one at hand where its own text is that one, to the byte."""
    if known is not None and known.fingerprint() == sha256(stored.encode()):
        return known
    return ReleasePlan.from_canonical(stored)


def outcome(
    reservation: Reservation,
    plan: ReleasePlan,
    folder: Path,
    state: Literal["published", "exists"],
    drawn: int,
    reused: int,
    warning: str = "",
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
        revision=plan.release.revision,
        revisions=plan.release.revisions,
        warning=warning,
        unprotected=unprotected(plan),
    )


def tuning_note(looks: Sequence[Looked]) -> str:
    """What to say of data that somebody looked at before, with which command; empty: nobody did."""
    commands = dict.fromkeys(f"`{each.command}`, {each.at}" for each in looks)
    if not commands:
        return ""
    tuned = any(each.tuned for each in looks)
    says = "the plan was tuned while looking at these very data" if tuned else "these very data were seen before"
    return f"{says} ({'; '.join(commands)}): what that gave away is no part of the loss, and the report says so"


def publish_again(project: Project, release: str, period: str | None, spec: Path | None = None) -> Outcome:
    """Render a measured release again from the ledger: free, and byte-identical.

    Args:
        project: Whose ledger has it.
        release: Its name.
        period: Its period; None: the only one that there is.
        spec: To take another look from, read with the release's period: titles, labels, formats, confidence and derived
            tables.

    Raises:
        PlanError: If the spec asks for more than another look.
        LedgerError: If there is no such release, several periods match, or it is not measured to its end.
        SpecError: If the project's signing key cannot be read.
    """
    signer = project.signing_key(os.environ)
    ledger = project.open_ledger()
    every = {(each.release, each.period): each for each in ledger.reservations()}  # the last one of each counts
    names = [key for key in every if key[0] == release and period in (None, key[1])]
    if len(names) != 1:
        known = ", ".join("/".join(key) for key in names or every) or "none"
        what = "several periods of" if names else "no release"
        raise LedgerError(
            f"{what} {release if period is None else f'{release}/{period}'} in the ledger",
            hint=f"name one as NAME/PERIOD; the ledger has: {known}",
            code="DPR-L112",
        )
    reservation = ledger.find(*names[0])
    if reservation is None or reservation.state in ("given_up", "lost"):
        raise has_ended(every[names[0]])
    folder = folder_for(project.releases, reservation.release, reservation.period)
    plan = ReleasePlan.reread(reservation.plan)
    look = None
    if spec is not None:
        look = presentation(plan, plan_release(Target(project, spec, project.load(spec, reservation.period))))
    with kept_beside(project.releases):
        publication = rendered(ledger, reservation, project, key=signer, look=look)
        make_way(ledger, folder, reservation.hash, reservation.plan_fingerprint)
        write(publication, folder)
    warning = write_overview(project.releases)
    return outcome(reservation, plan, folder, "exists", 0, len(plan.numbers), warning)


_MOST_POINTS = 100  # of an account's history: a page shows its course, the ledger has all of it


def facts_of(ledger: Ledger, reservation: Reservation, plan: ReleasePlan, *, rehearsal: bool = False) -> Facts:
    """The facts of a release as they stood when it was charged, and of its data as it was measured: for ever the same.

    Args:
        ledger: That charged it.
        reservation: Its entry.
        project: Has the bundles of earlier periods, and a theme; None: no number is compared, and there is none.
        plan: That was measured.
        rehearsal: On made-up rows.
    """
    units = {account.name: account.unit for account in plan.accounts}
    paid = payer_of(ledger, reservation)
    audit = reservation.environment.get("audit")
    return Facts(
        plan_fingerprint=reservation.plan_fingerprint,
        reserved_at=reservation.reserved_at,
        ledger_sequence=reservation.sequence,
        ledger_hash=reservation.hash,
        ledger_id="" if rehearsal else ledger.id,
        accounts=tuple(_account(each, units) for each in paid.accounts),
        windows=tuple(_account(each, units) for each in paid.windows),
        environment={name: version for name, version in reservation.environment.items() if name != "audit"},
        approvals=reservation.approvals,
        restates=_restated(ledger, reservation),
        changed_data=reservation.accepted,
        looks=() if rehearsal else looks_of(ledger, reservation),
        paid_by=paid.sequence if reservation.revision else None,
        cap_changes=_cap_changes(ledger, paid),
        history=() if rehearsal else _history(ledger, paid),
        rehearsal=rehearsal,
        audit=None if audit is None else AuditFacts.from_canonical(audit),
    )


def looks_of(ledger: Ledger, reservation: Reservation) -> tuple[Looked, ...]:
    """When, and with which command, the very files that a release was measured from had been looked at.

    A look at files that were read is refused, so that every one of these comes before the reading: what is told of a
    release stays the same.
    """
    every = ledger.files_read()
    read = [body for body in every if body.reservation == reservation.sequence]
    looks: dict[Looked, None] = {}
    for look in (body for body in every if not body.reservation):
        seen = {file for files in look.tables.values() for file in files}
        tables = {name for body in read if body.key == look.key for name, mine in body.tables.items() if seen & {*mine}}
        if tables:
            command = {"command": look.by.command} if look.by.command else {}
            looks[Looked(at=look.at, tables=tuple(sorted(tables)), **command)] = None
    return tuple(looks)


def _account(losses: AccountLosses, units: dict[str, str]) -> AccountFacts:
    return AccountFacts(**dict(losses), unit=units[losses.name])


def _restated(ledger: Ledger, reservation: Reservation) -> Restated | None:
    if reservation.restates is None:
        return None
    before = next(each for each in ledger.reservations() if each.sequence == reservation.restates)
    return Restated(
        plan_fingerprint=before.plan_fingerprint,
        sequence=before.sequence,
        reason=reservation.reason,
        data=_data(ledger, before, reservation),
        measured=_measured(ledger, before, reservation),
    )


def _data(ledger: Ledger, before: Reservation, after: Reservation) -> Literal["", "corrected", "same"]:
    """Whether the files are others; empty where one of them was not read, or they are known by two keys."""
    last = {body.reservation: body for body in ledger.files_read()}
    old, new = last.get(before.sequence), last.get(after.sequence)
    if old is None or new is None or old.key != new.key:
        return ""
    # Of a table that only one of them reads nothing is said.
    both = old.tables.keys() & new.tables.keys()
    return "same" if all(old.tables[name] == new.tables[name] for name in both) else "corrected"


def _measured(ledger: Ledger, before: Reservation, after: Reservation) -> Literal["", "changed", "same"]:
    old, new = ledger.plan_of(before), ledger.plan_of(after)
    if old is None or new is None:
        return ""
    return "same" if question(old) == question(new) else "changed"


def _history(ledger: Ledger, reservation: Reservation) -> tuple[AccountPoint, ...]:
    """The last charges of each of the release's accounts up to its own, in the order of the ledger."""
    points: dict[str, list[AccountPoint]] = {each.name: [] for each in reservation.accounts}
    for one in ledger.reservations():
        for each in one.accounts if one.sequence <= reservation.sequence else ():
            if each.name in points:
                identity = {"release": one.release, "period": one.period, "sequence": one.sequence}
                points[each.name].append(AccountPoint(account=each.name, after=each.after, **identity))
    return tuple(point for name in sorted(points) for point in points[name][-_MOST_POINTS:])


def _cap_changes(ledger: Ledger, reservation: Reservation) -> tuple[CapChange, ...]:
    changed = []
    for name in sorted({each.name for each in reservation.accounts}):
        known = [each for each in ledger.openings(name) if each[0] < reservation.sequence]
        for (_, before), (sequence, after) in pairwise(known):
            if before.cap != after.cap:
                changed.append(
                    CapChange(account=name, sequence=sequence, at=after.at, before=before.cap, after=after.cap)
                )
    return tuple(changed)
