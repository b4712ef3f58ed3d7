"""What a full check works out once and needs many times: a series of releases shares its plans and draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from pydantic_core import from_json

from dprelease.canonical import sha256
from dprelease.ledger.history import digest_of
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.accountants.zcdp import rough_rho_to_epsilon
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Composed
from dprelease.privacy.filters import Spent, Terms, read, spent_on
from dprelease.privacy.rounding import log_of

__all__ = ["SLACK", "Planned", "Worked"]

# A conversion searches its order in floats, so another machine may prove a bound that differs far behind the point.
SLACK = Fraction(1, 10**9)
_RELEASE, _SPEC = ',"release":', ',"spec_fingerprint":"'


@dataclass(frozen=True)
class Planned:
    """What a plan says that its reservation is held against.

    Attributes:
        name: Release, period, fingerprint of the spec.
        cells: How many numbers each step has.
        costs: By account, the digest of what it is charged.
    """

    name: tuple[str, str, str]
    cells: Mapping[str, int | None]
    costs: Mapping[str, str]


class Worked:
    """Remembers by content, so that nothing here can be out of date."""

    def __init__(self) -> None:
        self._prices: dict[tuple[Terms, str], Spent] = {}
        self._losses: dict[tuple[Terms, Spent, Fraction], Loss] = {}
        self._plans: dict[str, Planned] = {}

    def price(self, terms: Terms, digest: str, events: Composed) -> Spent:
        """What draws add to an account."""
        key = (terms, digest)
        if key not in self._prices:
            self._prices[key] = spent_on(terms, events)
        return self._prices[key]

    def loss(self, terms: Terms, spent: Spent, delta: Fraction) -> Loss:
        """A total as (epsilon, delta)."""
        key = (terms, spent, delta)
        if key not in self._losses:
            self._losses[key] = read(terms, spent, delta)
        return self._losses[key]

    def agrees(self, terms: Terms, spent: Spent, told: Loss, delta: Fraction) -> bool:
        """Whether a loss that was told is that of a total: by floats where they are sure, else in sixty digits."""
        if told.delta != delta:
            return False
        if terms.composition == "zcdp" and not spent.reveals and delta > terms.selecting:
            rough = rough_rho_to_epsilon(float(spent.loss), log_of(delta - terms.selecting))
            if abs(rough - float(told.epsilon)) <= float(SLACK) * rough / 2:
                return True
        found = self.loss(terms, spent, delta).epsilon
        return abs(told.epsilon - found) <= SLACK * found

    def inside(self, terms: Terms, spent: Spent, told: Loss, cap: Budget) -> bool:
        """Whether a total is inside a cap.

        Args:
            terms: Of the account.
            spent: The total.
            told: Its loss at some delta, which was found to agree.
            cap: In epsilon at a delta, or in rho.
        """
        if cap.rho is not None:
            return spent.loss <= cap.rho * (1 + SLACK) and spent.reveals <= min(terms.selecting, cap.delta)
        loss = told if told.delta == cap.delta else self.loss(terms, spent, cap.delta)
        return loss.epsilon <= cap.limit * (1 + SLACK)

    def plan(self, text: str) -> Planned:
        """What a plan says.

        Two plans that differ in their release and spec alone, as those of a series do, are read once.

        Raises:
            ValidationError: If it is no plan.
        """
        name, rest = _cut(text)
        if name is None:
            return _planned(text)
        key = sha256(rest.encode())
        if key not in self._plans:
            self._plans[key] = _planned(text)
        known = self._plans[key]
        return Planned(name=name, cells=known.cells, costs=known.costs)


def _cut(text: str) -> tuple[tuple[str, str, str] | None, str]:
    """The release of a plan's canonical text, and the text without it; None where it does not stand as expected."""
    # The last one in the text: a table may be named `release`, but nothing behind the spec's fingerprint is.
    at = text.rfind(_SPEC)
    start = text.rfind(_RELEASE, 0, at)
    if start < 0:
        return None, text
    end = text.find('"', at + len(_SPEC))
    try:
        release = from_json(text[start + len(_RELEASE) : at])
        name = (release["name"], release["period"], text[at + len(_SPEC) : end])
    except (ValueError, KeyError, TypeError):
        return None, text
    return name, text[:start] + text[end + 1 :]


def _planned(text: str) -> Planned:
    plan = ReleasePlan.from_canonical(text)
    owed = {plan.catalog.tables[step.aggregate.table].account for step in plan.steps}
    accounts = {account.name: account for account in plan.accounts}
    return Planned(
        name=(plan.release.name, plan.release.period, plan.spec_fingerprint),
        cells={step.id: step.numbers for step in plan.steps},
        costs={name: digest_of(plan.cost_of(accounts[name])) for name in owed},
    )
