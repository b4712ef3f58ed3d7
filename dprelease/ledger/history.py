"""What the entries add up to for each account, and whether a further charge fits. Pure: every store uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.errors import BrokenPromiseError, BudgetExceeded, LedgerError, StalePlan
from dprelease.ledger.base import Charge
from dprelease.ledger.entry import AccountFacts, Charged, Entry, Opened, Reserved, Voided
from dprelease.plan.document import Account, AccountStanding, Head, ReleasePlan
from dprelease.privacy.accountants.base import atoms
from dprelease.privacy.budget import Budget, Loss, round_up
from dprelease.privacy.event import Composed, Event, Repeated
from dprelease.privacy.filters import account_loss, account_rho

__all__ = ["History", "exceeded", "judge", "out_of_budget", "price", "replay", "require_heads", "require_plan"]


@dataclass(frozen=True)
class History:
    """One account as its entries tell it.

    Attributes:
        account: As the last ``open`` entry has it.
        opened: The sequence number of that entry.
        head: The last entry that opened, charged or gave back to the account.
        charged: By reservation entry, what it cost; what was given back is not in it.
    """

    account: Account
    opened: int
    head: Head
    charged: Mapping[int, Composed]

    @property
    def standing(self) -> AccountStanding:
        """What a planner needs to know."""
        return AccountStanding(head=self.head, charged=tuple(self.charged.values()))


def replay(entries: Iterable[Entry]) -> dict[str, History]:
    """Every account from the ``open``, ``reserve`` and ``void`` entries, in order; other kinds are passed over."""
    found: dict[str, History] = {}
    for entry in entries:
        if entry.kind not in ("open", "reserve", "void"):
            continue
        body = entry.facts()
        if isinstance(body, Opened):
            past = found.get(body.account)
            charged = past.charged if past else {}
            found[body.account] = History(body.terms, entry.sequence, entry.head, charged)
        elif isinstance(body, Reserved):
            for charge in body.charges:
                past = found[charge.facts.name]
                charged = {**past.charged, entry.sequence: charge.events}
                found[charge.facts.name] = replace(past, head=entry.head, charged=charged)
        elif isinstance(body, Voided):
            for name, past in found.items():
                if body.reservation in past.charged:
                    kept = {at: events for at, events in past.charged.items() if at != body.reservation}
                    found[name] = replace(past, head=entry.head, charged=kept)
    return found


def _compact(events: Sequence[Event]) -> tuple[Event, ...]:
    # Composition depends on the multiset of draws alone, so equal draws can be priced once.
    return tuple(Repeated(event=atom, count=n) for atom, n in atoms(Composed(events=tuple(events))).items())


def _spent(account: Account, events: Sequence[Event], cap: Budget) -> Fraction:
    """What events cost together, in the currency of the cap: epsilon at its delta, or rho."""
    if cap.rho is not None:
        return account_rho(events, min(account.selecting, cap.delta))
    return account_loss(account.composition, events, cap.delta, kept=account.selecting).epsilon


def _allowed(cap: Budget) -> Fraction:
    return cap.rho if cap.rho is not None else cap.epsilon or Fraction(0)


def exceeded(account: Account, events: Sequence[Event], cap: Budget, slack: Fraction = Fraction(0)) -> bool:
    """Whether these events together are outside a cap, by more than a relative ``slack``."""
    return _spent(account, _compact(events), cap) > _allowed(cap) * (1 + slack)


def price(account: Account, charged: Sequence[Event], events: Composed, cap: Budget) -> AccountFacts:
    """The loss of an account before and with ``events``, at the delta of ``cap``."""
    return AccountFacts(
        name=account.name,
        composition=account.composition,
        cap=cap,
        before=_loss(account, charged, cap),
        after=_loss(account, (*charged, events), cap),
    )


def _loss(account: Account, events: Sequence[Event], cap: Budget) -> Loss:
    return account_loss(account.composition, _compact(events), cap.delta, kept=account.selecting)


def require_plan(plan: ReleasePlan, charges: Sequence[Charge]) -> None:
    """Refuse charges that are not what the plan costs.

    Raises:
        BrokenPromiseError: An account is missing, named twice, or charged other events.
        LedgerError: The policy now has another unit, relation or composition than the plan was made for.
    """
    debited = sorted({plan.catalog.tables[step.aggregate.table].account for step in plan.steps})
    named = sorted(charge.account.name for charge in charges)
    if named != debited or any(charge.events != plan.event_of(charge.account.name) for charge in charges):
        raise BrokenPromiseError(
            f"the plan of {plan.release.name} {plan.release.period} debits {', '.join(debited)}, and the charges "
            "are not that",
            hint="nothing was charged; please report this with the plan file",
            code="DPR-L904",
        )
    planned = {account.name: account for account in plan.accounts}
    for charge in charges:
        if charge.account.name in planned:
            _require_same(planned[charge.account.name], charge.account, "planned", "plan the release again")


def _require_same(then: Account, now: Account, verb: str, hint: str) -> None:
    for what in ("unit", "neighboring", "composition", "selecting"):
        if getattr(then, what) != getattr(now, what):
            raise LedgerError(
                f"account {now.name} was {verb} with {what} {getattr(then, what)}, "
                f"and the policy now says {getattr(now, what)}",
                hint=hint,
                code="DPR-L120",
            )


def require_heads(history: Mapping[str, History], names: Iterable[str], heads: Mapping[str, Head]) -> None:
    """Refuse a plan that was frozen against other heads.

    Raises:
        StalePlan: Names the account, the entry then and the entry now.
    """
    for name in names:
        pinned = heads.get(name, Head())
        now = history[name].head if name in history else Head()
        if now == pinned:
            continue
        moved = f"moved from entry {pinned.sequence} to {now.sequence}"
        if now.sequence == pinned.sequence:
            moved = f"has another entry {now.sequence}: this is another ledger than the plan was made against"
        raise StalePlan(
            f"account {name} {moved} since the plan was made",
            detail="what was left then may not be left now",
            hint="plan again with `dprelease plan SPEC --out plan.json` and have that plan reviewed",
            code="DPR-L400",
        )


def _require_cap(account: Account, cap: Budget) -> None:
    if account.composition == "zcdp" and cap.delta == 0:
        problem, hint = "adds up zCDP loss, which says nothing at delta 0", "give the cap a delta, such as 1e-9"
    elif account.composition == "basic" and cap.rho is not None:
        problem, hint = "adds up epsilons, and a cap is in rho", "give the cap as epsilon and delta"
    else:
        return
    raise LedgerError(
        f"account {account.name} {problem}",
        hint=f"{hint}, or ask for another `composition`, in policy.yaml",
        code="DPR-L121",
    )


def judge(
    history: Mapping[str, History], charges: Sequence[Charge]
) -> tuple[tuple[Charged, ...], tuple[AccountFacts, ...]]:
    """Price every charge against everything ever charged.

    Returns:
        What each account would be charged, and the facts of the accounts that cannot pay (at the cap that
        says no); nothing may be charged unless the second is empty.

    Raises:
        LedgerError: An account was opened with another unit, relation or composition, or a cap cannot be
            read under its composition.
        UnsupportedEvent: An account's composition has no theorem for one of the events.
    """
    charged, refused = [], []
    for charge in charges:
        account, past = charge.account, history.get(charge.account.name)
        if past:
            hint = "an account keeps these for ever: use another account name for another promise"
            _require_same(past.account, account, "opened", hint)
        caps = tuple(dict.fromkeys((charge.cap, account.lifetime)))
        for cap in caps:
            _require_cap(account, cap)
        before = _compact(tuple(past.charged.values()) if past else ())
        asked = Composed(events=_compact((charge.events,)))
        charged.append(Charged(events=charge.events, facts=price(account, before, asked, charge.cap)))
        broken = [cap for cap in caps if exceeded(account, (*before, asked), cap)]
        refused += [price(account, before, asked, cap) for cap in broken[:1]]
    return tuple(charged), tuple(refused)


def out_of_budget(
    plan: ReleasePlan, history: Mapping[str, History], charges: Sequence[Charge], facts: Sequence[AccountFacts]
) -> BudgetExceeded:
    """The error for accounts that cannot pay: asked, already charged, allowed and left, for each."""
    events = {charge.account.name: charge.events for charge in charges}
    lines = []
    accounts = {charge.account.name: charge.account for charge in charges}
    for each in facts:
        past = history[each.name].charged.values() if each.name in history else ()
        unit = "epsilon" if each.cap.rho is None else "rho"
        before = _spent(accounts[each.name], _compact(tuple(past)), each.cap)
        asked = _spent(accounts[each.name], _compact((events[each.name],)), each.cap)
        together = _spent(accounts[each.name], _compact((*past, events[each.name])), each.cap)
        allowed = _allowed(each.cap)
        lines.append(
            f"account {each.name}: asked {unit} {round_up(asked)}, already charged {round_up(before)}, together "
            f"{round_up(together)}, allowed {_down(allowed)} at delta {round_up(each.cap.delta)}, "
            f"left {_down(max(Fraction(0), allowed - before))}"
        )
    names = ", ".join(each.name for each in facts)
    return BudgetExceeded(
        f"{plan.release.name} {plan.release.period} costs more than is left in account {names}",
        detail="\n    ".join(lines),
        hint="nothing was charged; lower the release's budget, or ask whoever keeps policy.yaml for a higher cap",
    )


def _down(value: Fraction) -> str:
    """Decimal text rounded down to six digits behind the point: what is left is never flattered."""
    return round_up(Fraction(value * 10**6 // 1, 10**6), 40)
