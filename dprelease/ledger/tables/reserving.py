"""The entries by which accounts come into use and reservations begin and end, each with its row beside the entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dprelease.canonical import sha256
from dprelease.errors import BrokenPromiseError, BudgetExceeded, LedgerError
from dprelease.failpoints import hit
from dprelease.ledger.model.admission import assess_charges, require_same
from dprelease.ledger.model.balance import Actor, Balance
from dprelease.ledger.model.entry import AccountOpened, Closed, Refused, Reserved, SeriesSlot, Voided
from dprelease.ledger.model.fault import ERRATA
from dprelease.ledger.model.history import Stand, State, charged_balance, events_digest, given_back, spread_over
from dprelease.ledger.model.lifecycle import Past, replaces, revises
from dprelease.ledger.model.reservation import Charge, Reservation
from dprelease.ledger.model.store import Transaction
from dprelease.ledger.tables import view
from dprelease.ledger.tables.sources import repeated
from dprelease.ledger.tables.windowed import is_named_now, spread_of
from dprelease.ledger.tables.write import Write
from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.document.account import AccountLosses
from dprelease.plan.explain.series_terms import periods_charged
from dprelease.privacy.budget import Loss, round_up
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import series_loss

__all__ = ["Opening", "is_new", "record_closing", "record_reservation", "record_void"]


_NAMED = "the policy names the time by which its windows go"


class Opening:
    """Opens accounts within one write."""

    def __init__(self, write: Write, at: str, by: Actor) -> None:
        self._write, self._at, self._by = write, at, by

    def ensure(self, accounts: Sequence[Account]) -> None:
        """Open those that are new, and record those whose caps are not the ones that the ledger has."""
        for account in accounts:
            stand = self._write.state.accounts.get(account.name)
            if stand is None:
                self.record(account, "first used", ())
            elif (stand.account.lifetime, stand.account.window) != (account.lifetime, account.window):
                self.record(account, "the policy's caps changed", stand.series, stand.loss)

    def name_times(self, accounts: Sequence[Account]) -> None:
        """Record the time of windows that had none, before anything is judged by what stands in them."""
        for account in accounts:
            stand = self._write.state.accounts.get(account.name)
            if stand is not None and is_named_now(stand.account, account):
                require_same(stand.account, account, "opened")
                kept = stand.account.model_copy(update={"window": account.window})
                self.record(kept, _NAMED, stand.series, stand.loss)

    def open(self, account: Account, why: str, series: Sequence[tuple[Composed, int]]) -> None:
        """Open an account by hand; with a series, which is priced now and for ever.

        Raises:
            LedgerError: It was opened as another one, has a series already, or needs one and has none.
            BudgetExceeded: The series costs more than the cap.
        """
        stand = self._write.state.accounts.get(account.name)
        if stand is not None:
            require_same(stand.account, account, "opened")
        known = stand.series if stand is not None else ()
        if (account.composition == "pld") != bool(series or known) or (stand is not None and series):
            raise LedgerError(
                f"account {account.name} ({account.composition}) "
                + ("has its series already" if known else "takes none" if series else "needs a series"),
                detail="a pld account is opened once, with every release that it will ever have",
                hint=f"dprelease ledger open {account.name} --series plan.json --releases 12",
                code="DPR-L122",
            )
        loss = series_loss(series, account.lifetime.delta) if series else stand.loss if stand else None
        if loss is not None and loss.epsilon > account.lifetime.limit:
            raise BudgetExceeded(
                f"the series costs {loss.told}, more than account "
                f"{account.name} allows: {round_up(account.lifetime.limit)}",
                hint="fix a shorter series, or smaller releases",
            )
        slots = known or tuple(SeriesSlot(digest=events_digest(events), times=times) for events, times in series)
        for events, _ in series:
            self._write.keep_value(events)
        self.record(account, why, slots, loss)

    def record(self, account: Account, why: str, series: tuple[SeriesSlot, ...] = (), loss: Loss | None = None) -> None:
        """Write the entry that has an account's terms, whatever was there; its balance stays."""
        past = self._write.state.accounts.get(account.name)
        at = self._write.state.head.sequence + 1
        spread = spread_of(self._write.rows, account) if past and is_named_now(past.account, account) else ()
        balance = past.balance if past else Balance(account=account.name, opened=at)
        balance = spread_over(balance, spread).model_copy(update={"opened": at})
        stand = Stand(account=account, balance=balance, head=self._write.state.head, series=series, loss=loss)
        body = partial(
            AccountOpened,
            **AccountOpened.fields_of(account),
            series=series,
            loss=loss,
            spread=spread,
            why=why,
            replaces=past.balance.opened if past else None,
            at=self._at,
            by=self._by,
        )
        self._write.account(body, {account.name: stand})


def is_new(rows: Transaction, existing: Reservation | None, plan: ReleasePlan, mark: str, why: str) -> bool:
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
    text: str,
    charges: Sequence[Charge],
    facts: Mapping[str, Any],
    now: Callable[[], str],
    by: Actor,
) -> tuple[State, tuple[AccountLosses, ...]]:
    """Charge a plan to its accounts, or record that they cannot pay.

    Args:
        write: The transaction.
        plan: What will be measured.
        text: Its canonical JSON.
        charges: One per account of the plan.
        facts: Further fields of the `Reserved` entry.
        now: Tells the time for the record.
        by: Who asks.

    Returns:
        What stood charged before, and the facts of the accounts that cannot pay; empty: the plan is reserved.
    """
    release, period, mark = plan.release.name, plan.release.period, sha256(text.encode())
    accounts = [charge.account for charge in charges]
    opening = Opening(write, now(), by)
    opening.name_times(accounts)
    state = write.state
    periods = periods_charged(plan, again=facts["restates"] is not None)
    charged, exceeded = assess_charges(state, charges, period, periods)
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
    write.keep(text.encode())
    for charge in charges:
        write.keep_value(charge.events)
    entry = write.rebalance(body, {charge.facts.name: charge for charge in charged}, charged_balance)
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
    read = view.sources(write.rows, reservation.sequence) or view.measured_steps(write.rows, release, period, plan)
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
    entry = write.rebalance(partial(Voided, **facts, why=why, at=at, by=by), charges, given_back)
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
