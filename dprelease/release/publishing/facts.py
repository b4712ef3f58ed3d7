"""What a bundle says that its plan does not: the ledger's word for how the release came about."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from dprelease.ledger import Ledger, Reservation
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.account import AccountLosses
from dprelease.plan.explain.same_question import question
from dprelease.publish import AccountFacts, AccountPoint, CapChange, Facts, Looked, Restated
from dprelease.release.revisions import payer_of

__all__ = ["facts_of", "looks_of"]

_MOST_POINTS = 100  # of an account's history: a page shows its course, the ledger has all of it


def facts_of(ledger: Ledger, reservation: Reservation, plan: ReleasePlan, *, rehearsal: bool = False) -> Facts:
    """The facts of a release as they stood when it was charged, and of its data as it was measured: for ever the same.

    Args:
        ledger: That charged it.
        reservation: Its entry.
        plan: That was measured.
        rehearsal: On made-up rows.
    """
    units = {account.name: account.unit for account in plan.accounts}
    paid = payer_of(ledger, reservation)
    return Facts(
        plan_fingerprint=reservation.plan_fingerprint,
        reserved_at=reservation.reserved_at,
        ledger_sequence=reservation.sequence,
        ledger_hash=reservation.hash,
        ledger_id="" if rehearsal else ledger.id,
        accounts=tuple(_account(each, units) for each in paid.accounts),
        windows=tuple(_account(each, units) for each in paid.windows),
        environment=dict(reservation.environment),
        approvals=reservation.approvals,
        restates=_restated(ledger, reservation),
        changed_data=reservation.accepted,
        looks=() if rehearsal else looks_of(ledger, reservation),
        paid_by=paid.sequence if reservation.revision else None,
        cap_changes=_cap_changes(ledger, paid),
        history=() if rehearsal else _history(ledger, paid),
        rehearsal=rehearsal,
    )


def looks_of(ledger: Ledger, reservation: Reservation) -> tuple[Looked, ...]:
    """When the very files that a release was measured from had been looked at, to tune a plan.

    A look at files that were read is refused, so that every one of these comes before the reading: what is told of a
    release stays the same.
    """
    every = ledger.files_read()
    read = [body for body in every if body.reservation == reservation.sequence]
    looks: dict[tuple[str, tuple[str, ...]], Looked] = {}
    for look in (body for body in every if not body.reservation):
        seen = {file for files in look.tables.values() for file in files}
        tables = {name for body in read if body.key == look.key for name, mine in body.tables.items() if seen & {*mine}}
        if tables:
            looked = Looked(at=look.at, tables=tuple(sorted(tables)))
            looks.setdefault((looked.at, looked.tables), looked)
    return tuple(looks.values())


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
