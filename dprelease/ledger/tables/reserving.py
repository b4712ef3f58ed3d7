"""The entries by which a reservation begins and ends, each with its row in the tables beside the entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dprelease.errors import BrokenPromiseError
from dprelease.failpoints import hit
from dprelease.ledger.model.admission import assess_charges
from dprelease.ledger.model.balance import Actor
from dprelease.ledger.model.entry import Closed, Refused, Reserved, Voided
from dprelease.ledger.model.fault import ERRATA
from dprelease.ledger.model.history import State
from dprelease.ledger.model.lifecycle import replaces
from dprelease.ledger.model.reservation import Charge, Reservation
from dprelease.ledger.model.revisions import Past, revises
from dprelease.ledger.model.store import Rows
from dprelease.ledger.tables import view
from dprelease.ledger.tables.opening import Opening
from dprelease.ledger.tables.restating import repeated
from dprelease.ledger.tables.write import Write
from dprelease.plan.document import ReleasePlan
from dprelease.plan.document.account import AccountLosses

__all__ = ["is_new", "record_closing", "record_reservation", "record_void"]


def is_new(rows: Rows, existing: Reservation | None, plan: ReleasePlan, mark: str, why: str) -> bool:
    """Whether a plan is to be reserved; False: it is the one that is there.

    Args:
        rows: The transaction.
        existing: The last reservation of the plan's release and period; None: there is none.
        plan: The plan.
        mark: Its fingerprint.
        why: The reason for replacing what is there; empty: none is given.

    Raises:
        LedgerError: Neither.
    """
    release, period = plan.release.name, plan.release.period
    if plan.release.revision:
        past = [Past(each.plan_fingerprint, each.state, each.revision) for each in view.history(rows, release, period)]
        return revises(past, plan, mark)
    if existing is None:
        return True
    used = view.was_planned(rows, release, period, mark) or (bool(why) and repeated(rows, existing, plan))
    return replaces(existing, mark, why, used=used)


def record_reservation(
    write: Write,
    plan: ReleasePlan,
    charges: Sequence[Charge],
    facts: Mapping[str, Any],
    now: Callable[[], str],
    by: Actor,
) -> tuple[State, tuple[AccountLosses, ...]]:
    """Charge a plan to its accounts, or record that they cannot pay.

    Args:
        write: The transaction.
        plan: What will be measured.
        charges: One per account of the plan.
        facts: Further fields of the `Reserved` entry.
        now: Tells the time for the record.
        by: Who asks.

    Returns:
        What stood charged before, and the facts of the accounts that cannot pay; empty: the plan is reserved.
    """
    release, period, mark = plan.release.name, plan.release.period, plan.fingerprint()
    accounts = [charge.account for charge in charges]
    opening = Opening(write, now(), by)
    opening.name_times(accounts)
    state = write.state
    charged, exceeded = assess_charges(state, charges, period)
    hit("reserve.judged")
    if exceeded:
        named = {"release": release, "period": period, "plan": mark, "exceeded": exceeded}
        write.append(partial(Refused, **named, at=now(), by=by))
        return state, exceeded
    opening.ensure(accounts)
    hit("reserve.opened")
    body = partial(
        Reserved,
        release=release,
        period=period,
        plan_fingerprint=mark,
        spec_fingerprint=plan.spec_fingerprint,
        charges=charged,
        revision=plan.release.revision,
        mended=tuple(ERRATA),
        at=now(),
        by=by,
        **facts,
    )
    write.keep(plan.canonical().encode())
    for charge in charges:
        write.keep(charge.events.canonical().encode())
    entry = write.charge(body, {charge.facts.name: charge for charge in charged})
    hit("reserve.appended")
    write.index_reservation(entry, release, period, mark, facts["restates"])
    hit("reserve.indexed")
    return state, ()


def record_void(write: Write, reservation: Reservation, why: str, at: str, by: Actor) -> None:
    """Give a reservation back.

    Raises:
        BrokenPromiseError: Something was read or measured for it, or it has ended.
    """
    release, period, plan = reservation.release, reservation.period, reservation.plan_fingerprint
    read = view.sources(write.rows, reservation.sequence) or view.has_measurements(write.rows, reservation)
    if reservation.state != "open" or read:
        raise BrokenPromiseError(
            f"{release} {period} cannot be given back: it was read, or noise was drawn for it",
            hint="what may have been drawn stays charged; run the release again to go on where it stopped",
            code="DPR-L902",
        )
    reserved = view.at(write.rows, reservation.sequence).facts()
    charged = reserved.charges if isinstance(reserved, Reserved) else ()
    charges = {charge.facts.name: write.priced(charge) for charge in charged}
    facts = {"release": release, "period": period, "plan": plan, "reservation": reservation.sequence}
    entry = write.give_back(partial(Voided, **facts, why=why, at=at, by=by), charges)
    write.end(reservation.sequence, entry, "void", (release, period, plan))


def record_closing(write: Write, reservation: Reservation, at: str, *, manifest: str = "", gave_up: str = "") -> None:
    """End a reservation that was published with a manifest, or was given up for a reason."""
    body = partial(
        Closed,
        release=reservation.release,
        period=reservation.period,
        plan=reservation.plan_fingerprint,
        reservation=reservation.sequence,
        manifest=manifest,
        gave_up=gave_up,
        at=at,
    )
    entry = write.append(body)
    hit("close.appended")
    write.end(reservation.sequence, entry, "give_up" if gave_up else "close")
    hit("close.indexed")
