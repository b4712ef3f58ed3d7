"""Accounts come into use, and their caps change: entries that every later report can show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dprelease.errors import BudgetExceeded, LedgerError
from dprelease.ledger.model.admission import require_same
from dprelease.ledger.model.balance import Actor, Balance
from dprelease.ledger.model.entry import Opened, Slot
from dprelease.ledger.model.history import Stand, digest_of, spread_over
from dprelease.ledger.tables.windowed import is_named_now, spread_of
from dprelease.ledger.tables.write import Write
from dprelease.plan.document import Account
from dprelease.privacy.budget import Loss, round_up
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import series_loss

__all__ = ["Opening"]

_NAMED = "the policy names the time by which its windows go"
_FOR_EVER = "an account keeps these for ever: use another account name for another promise"


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
                require_same(stand.account, account, "opened", _FOR_EVER)
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
            require_same(stand.account, account, "opened", _FOR_EVER)
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
                f"the series costs epsilon {round_up(loss.epsilon)} at delta {round_up(loss.delta)}, more than account "
                f"{account.name} allows: {round_up(account.lifetime.limit)}",
                hint="fix a shorter series, or smaller releases",
            )
        slots = known or tuple(Slot(digest=digest_of(events), times=times) for events, times in series)
        for events, _ in series:
            self._write.keep(events.canonical().encode())
        self.record(account, why, slots, loss)

    def record(self, account: Account, why: str, series: tuple[Slot, ...] = (), loss: Loss | None = None) -> None:
        """Write the entry that has an account's terms, whatever was there; its balance stays."""
        past = self._write.state.accounts.get(account.name)
        at = self._write.state.head.sequence + 1
        spread = spread_of(self._write.rows, account) if past and is_named_now(past.account, account) else ()
        balance = past.balance if past else Balance(account=account.name, opened=at)
        balance = spread_over(balance, spread).model_copy(update={"opened": at})
        stand = Stand(account=account, balance=balance, head=self._write.state.head, series=series, loss=loss)
        body = partial(
            Opened,
            **Opened.fields_of(account),
            series=series,
            loss=loss,
            spread=spread,
            why=why,
            replaces=past.balance.opened if past else None,
            at=self._at,
            by=self._by,
        )
        self._write.account(body, {account.name: stand})
