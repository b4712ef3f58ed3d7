"""What is to be planned, and what the accounts would be charged for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.catalog.table import Catalog
from dprelease.errors import UnsupportedEvent
from dprelease.plan.allocate.shares import Allocation
from dprelease.plan.document import Account
from dprelease.plan.lower.queries import Lowering
from dprelease.plan.lower.unscaled import UnscaledStep
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.calibrate import rough_loss
from dprelease.privacy.convert import converted, factor
from dprelease.privacy.event import Composed, Event, Repeated
from dprelease.privacy.filters import Terms, account_loss, series_loss, spent_on, within
from dprelease.spec.fields.document import ReleaseSpec

__all__ = ["Planning"]


@dataclass(frozen=True)
class Planning:
    """What is to be planned, and the walls around it."""

    lowering: Lowering
    accounts: Sequence[Account]

    @property
    def spec(self) -> ReleaseSpec:
        """What the author wrote."""
        return self.lowering.spec

    @property
    def catalog(self) -> Catalog:
        """The tables of the spec."""
        return self.lowering.catalog

    @property
    def allocation(self) -> Allocation:
        """How the budget that is not pinned is divided among the queries."""
        if self.spec.leaves_division_open:
            return "guarded_least_error"
        return self.spec.privacy.allocation or "shares"

    @property
    def accounting(self) -> str:
        """The accountant that drives the plan, or ``auto``."""
        return self.spec.privacy.accounting

    @property
    def budget(self) -> Budget:
        """The budget of the whole release."""
        return self.spec.privacy.budget

    def payer(self, draft: UnscaledStep) -> str:
        """The account that pays for a step."""
        return self.catalog.tables[draft.aggregate.table].account

    def _steps_of(self, account: Account) -> int:
        """How many steps of the spec's relation between data sets one of the account's is."""
        privacy = self.spec.privacy
        return factor(str(privacy.unit), privacy.neighboring, account.unit, account.neighboring, account.nests)

    def can_pay(self, account: Account, events: Sequence[Event]) -> bool:
        """Whether an account of which nothing is spent could take these draws, with all planned revisions."""
        caps, at_most, steps = [account.lifetime], self.spec.privacy.at_most, self._steps_of(account)
        caps += [] if at_most is None else [Budget(epsilon=at_most.epsilon, delta=at_most.delta)]
        asked, copies = Composed(events=tuple(converted(event, steps) for event in events)), 1 + self.spec.revisions
        terms = Terms(composition=account.composition, order=account.order, selecting=account.selecting)
        try:
            if account.composition == "pld":
                return all(series_loss([(asked, copies)], cap.delta).epsilon <= cap.limit for cap in caps)
            spent = spent_on(terms, Repeated(event=asked, count=copies))
            return all(within(terms, spent, cap) for cap in caps)
        except UnsupportedEvent:
            return False

    def rho_at(self, account: Account) -> Fraction | None:
        """The delta at which ``charge`` reads an account that adds up the very rho of the draws; None of all others."""
        if account.composition != "zcdp" or self._steps_of(account) != 1:
            return None
        delta = self._read_at(account, 1)
        return delta - min(account.selecting, delta / 2) or None

    def near_charge(self, account: Account, events: Sequence[Event]) -> Fraction | None:
        """What ``charge`` says to a part in 10^5, for an account by the law of the loss; None of all others."""
        steps = self._steps_of(account)
        delta = self._read_at(account, steps)
        if account.composition != "pld" or not events or not delta:
            return None
        return Fraction(rough_loss("pld", Composed(events=tuple(converted(each, steps) for each in events)), delta))

    def _read_at(self, account: Account, steps: int) -> Fraction:
        """The delta at which the charge of an account is read."""
        deltas = (self.budget.delta, account.lifetime.delta)
        # The release's delta is about one unit of the spec; several of them together have more than that.
        return next(filter(None, deltas if steps == 1 else reversed(deltas)), Fraction(0))

    def charge(self, account: Account, events: Sequence[Event]) -> Loss:
        """What these draws cost an account once, for one step of its own relation: as ``ReleasePlan.cost_of`` says."""
        steps = self._steps_of(account)
        delta = self._read_at(account, steps)
        return account_loss(
            account.composition,
            [converted(event, steps) for event in events],
            delta,
            kept=min(account.selecting, delta / 2) if steps == 1 else account.selecting,
            order=account.order,
        )
