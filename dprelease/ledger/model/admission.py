"""Whether a release may be charged: what it asks of each account, held against everything that stands. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from dprelease.errors import BrokenPromiseError, BudgetExceeded, LedgerError, StalePlan, UnsupportedEvent
from dprelease.ledger.model.balance import Balance, Charged, terms_of
from dprelease.ledger.model.history import Stand, State, events_digest
from dprelease.ledger.model.reservation import Charge
from dprelease.plan.document import Account, Head, Parallel, ReleasePlan
from dprelease.plan.document.account import AccountLosses
from dprelease.plan.explain.series_terms import periods_charged
from dprelease.plan.verify.periods import mistimed, untied
from dprelease.privacy.budget import Budget, Loss, round_up
from dprelease.privacy.filters import Spent, Terms, read_total, spent_on, within
from dprelease.privacy.periods import leading, most_lost, raised, within_one

__all__ = [
    "NO_SERIES",
    "AccountSums",
    "account_sums",
    "assess_charges",
    "out_of_budget",
    "require_heads",
    "require_plan",
    "require_same",
]

NO_SERIES = "DPR-L122"  # a pld account without a series, or a release that is not in it


def require_plan(plan: ReleasePlan, charges: Sequence[Charge]) -> None:
    """Refuse charges that are not what the plan costs; a planned revision was paid with its first publication.

    Raises:
        BrokenPromiseError: An account is missing, named twice, or charged other events; or it is parallel, and the plan
            is about more than its own stretches.
        LedgerError: The policy now has another unit, relation or composition than the plan was made for.
    """
    owed = () if plan.release.revision else plan.steps
    debited = sorted({plan.catalog.tables[step.aggregate.table].account for step in owed})
    named = sorted(charge.account.name for charge in charges)
    planned = {account.name: account for account in plan.accounts}
    wrong = named != debited or any(
        charge.events != plan.cost_of(planned.get(charge.account.name, charge.account)) for charge in charges
    )
    if wrong:
        raise BrokenPromiseError(
            f"the plan of {plan.release.name} {plan.release.period} debits {', '.join(debited) or 'nothing'}, and "
            "the charges are not that",
            hint="nothing was charged; please report this with the plan file",
            code="DPR-L904",
        )
    for problem in (*untied(plan), *mistimed(plan)):
        raise BrokenPromiseError(
            f"the plan of {plan.release.name} {plan.release.period} cannot be charged by stretches of time: {problem}",
            hint="nothing was charged; please report this with the plan file",
            code="DPR-L907",
        )
    for charge in charges:
        if charge.account.window is not None and charge.account.window.time is None:
            raise LedgerError(
                f"account {charge.account.name} has a cap per {charge.account.window.per} of its rows, and nothing "
                "says by which column they go",
                detail="by two columns one row is paid for in one window and read in two",
                hint="name it in policy.yaml, beside `window`: `time: {column: seen, type: date}`; plan again",
                code="DPR-L180",
            )
        if charge.account.name in planned:
            require_same(planned[charge.account.name], charge.account, "planned")


def require_same(then: Account, now: Account, verb: Literal["planned", "opened"]) -> None:
    """Refuse another unit, relation, composition, kind of window or of stretches than an account had.

    Raises:
        LedgerError: Names the account and both.
    """
    opened = "an account keeps these for ever: use another account name for another promise"
    hint = "plan the release again" if verb == "planned" else opened
    for what in ("unit", "neighboring", "composition", "selecting", "order", "nests", "parallel"):
        if getattr(then, what) != getattr(now, what):
            raise LedgerError(
                f"account {now.name} was {verb} with {what} {_shown(getattr(then, what))}, "
                f"and the policy now says {_shown(getattr(now, what))}",
                hint=hint,
                code="DPR-L120",
            )
    # What was opened before the policy had to name the time of its windows is named once (``ledger.tables.windowed``).
    kind, asked = _kind(then), _kind(now)
    if kind != asked and (verb != "opened" or kind[1] or kind[0] != asked[0]):
        raise LedgerError(
            f"account {now.name} was {verb} with {_per(then)}, and the policy now says {_per(now)}",
            hint=hint,
            code="DPR-L120",
        )


def _shown(value: object) -> str:
    if isinstance(value, Parallel):
        return f"{value.per} by {value.column} ({value.type})"
    return "none" if value is None or value == {} else str(value)


def _kind(account: Account) -> tuple[str, tuple[str, str] | None]:
    return (account.window.per, account.window.time) if account.window else ("", None)


def _per(account: Account) -> str:
    if account.window is None:
        return "no window"
    by = f" by {account.window.column} ({account.window.type})" if account.window.time else ""
    return f"a window per {account.window.per}{by}"


def require_heads(state: State, names: Iterable[str], heads: Mapping[str, Head]) -> None:
    """Refuse a plan that was frozen against other heads.

    Raises:
        StalePlan: Names the account, the entry then and the entry now.
    """
    for name in names:
        pinned = heads.get(name, Head())
        now = state.accounts[name].head if name in state.accounts else Head()
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
    if account.composition in ("zcdp", "rdp") and cap.delta == 0:
        problem = f"adds up {account.composition} loss, which says nothing at delta 0"
        hint = "give the cap a delta, such as 1e-9"
    elif account.composition != "zcdp" and cap.rho is not None:
        problem, hint = f"does not add up rho ({account.composition}), and a cap is in rho", "give epsilon and delta"
    else:
        return
    raise LedgerError(
        f"account {account.name} {problem}",
        hint=f"{hint}, or ask for another `composition`, in policy.yaml",
        code="DPR-L121",
    )


class AccountSums(NamedTuple):
    """A sum of an account before a charge, what is added to it, and the sum with it; ``of``: which stretches it is of.

    Of two stretches that a release touches both the sum grows by more than what is asked.
    """

    before: Spent
    asked: Spent
    after: Spent
    of: tuple[str, ...] = ()


def account_sums(account: Account, balance: Balance, asked: Spent, periods: Sequence[str]) -> AccountSums:
    """What the lifetime cap of an account is about: everything, or where it is parallel, what counts of stretches.

    There the stretches that the release touches count, each by itself, or under ``replace_one`` with the one that lost
    most of all others: no other sum is changed by the release.

    Raises:
        PlanError: It is parallel, and a period is none of the calendar.
    """
    if account.parallel is None:
        return AccountSums(balance.spent, asked, balance.spent.plus(asked))
    touched, relation = account.stretches(*periods), account.neighboring
    behind = raised(balance.windows, touched, asked)
    before, after = (most_lost(each, touched, relation) for each in (balance.windows, behind))
    return AccountSums(before, asked, after, leading(behind, touched, relation))


@dataclass(frozen=True)
class _Case:
    """One charge against one account."""

    charge: Charge
    past: Stand | None
    digest: str

    @property
    def terms(self) -> Terms:
        return terms_of(self.charge.account)

    def facts(self, sums: AccountSums, cap: Budget, window: str = "") -> AccountLosses:
        account = self.charge.account
        return AccountLosses(
            name=account.name,
            composition=account.composition,
            cap=cap,
            before=_read(self.terms, sums.before, cap.delta),
            after=_read(self.terms, sums.after, cap.delta),
            window=window,
        )

    def fits(self, sums: AccountSums, cap: Budget) -> bool:
        """Whether the sum is inside a cap, and means something at the cap's delta."""
        return within(self.terms, sums.after, cap) and not _too_much_delta(self.terms, sums, cap)


def assess_charges(
    state: State, charges: Sequence[Charge], period: str, periods: Mapping[str, Sequence[str]] | None = None
) -> tuple[tuple[Charged, ...], tuple[AccountLosses, ...]]:
    """Price every charge against everything that stands charged.

    Args:
        state: The ledger's state.
        charges: What is asked.
        period: The release's own.
        periods: By account those that it is charged for, where they are more than its own
            (``plan.explain.series_terms.periods_charged``): they say which windows, or stretches of a parallel account,
            are touched.

    Returns:
        What each account would be charged, and the facts of the accounts that cannot pay (at the cap that
        says no); nothing may be charged unless the second is empty.

    Raises:
        LedgerError: An account was opened with another unit, relation or composition, or a cap cannot be
            read under its composition, or the release is not in the series of a ``pld`` account.
        UnsupportedEvent: An account's composition has no theorem for one of the events.
    """
    charged: list[Charged] = []
    refused: list[AccountLosses] = []
    for charge in charges:
        account, past = charge.account, state.accounts.get(charge.account.name)
        if past:
            require_same(past.account, account, "opened")
        case = _Case(charge, past, events_digest(charge.events))
        touched = (periods or {}).get(account.name, (period,))
        fixed = account.composition == "pld"
        priced, broken = _assess_series(case) if fixed else _assess_sum(case, touched)
        charged.append(priced)
        refused += broken[:1]
    return tuple(charged), tuple(refused)


def _assess_sum(case: _Case, periods: Sequence[str]) -> tuple[Charged, list[AccountLosses]]:
    charge, account = case.charge, case.charge.account
    balance = case.past.balance if case.past else Balance(account=account.name, opened=0)
    caps = tuple(dict.fromkeys((charge.cap, account.lifetime)))
    for cap in caps:
        _require_cap(account, cap)
    asked = spent_on(case.terms, charge.events)
    sums = account_sums(account, balance, asked, periods)
    named = " and ".join(sums.of)
    broken = [case.facts(sums, cap, named) for cap in caps if not case.fits(sums, cap)]
    by_window = []
    cap = charge.cap if account.window is None else account.window.cap
    _require_cap(account, cap)
    for name in account.stretches(*periods):
        before = within_one(balance.windows, name)
        own = AccountSums(before, asked, before.plus(asked))
        by_window.append(case.facts(own, cap, name))
        if account.window is not None and not case.fits(own, cap):
            broken.append(by_window[-1])
    facts = case.facts(sums, charge.cap, named)
    return Charged(facts=facts, digest=case.digest, spent=asked, windows=tuple(by_window)), broken


def _assess_series(case: _Case) -> tuple[Charged, list[AccountLosses]]:
    account, past = case.charge.account, case.past
    if past is None or past.loss is None:
        raise LedgerError(
            f"account {account.name} adds up by pld, and the series of its releases was not recorded",
            detail="pld holds over releases only where every draw of all of them was fixed before the first one",
            hint=f"dprelease ledger open {account.name} --series plan.json --releases 12",
            code=NO_SERIES,
        )
    taken = past.balance.series.get(case.digest, 0)
    allowed = sum(slot.times for slot in past.series if slot.digest == case.digest)
    if taken >= allowed:
        what = f"all {allowed} releases with these draws were taken" if allowed else "no release with these draws is"
        raise LedgerError(
            f"this release is not in the series of account {account.name}: {what} in it",
            hint="a series is fixed for ever: release from another account, or with exactly the draws of the series",
            code=NO_SERIES,
        )
    caps, loss = (case.charge.cap, account.lifetime), past.loss
    for cap in caps:
        _require_cap(account, cap)
    losses = [
        AccountLosses(name=account.name, composition="pld", cap=cap, before=loss, after=loss)
        for cap in dict.fromkeys(caps)
    ]
    over = [facts for facts in losses if loss.epsilon > facts.cap.limit or loss.delta > facts.cap.delta]
    return Charged(facts=losses[0], digest=case.digest, spent=Spent()), over


def out_of_budget(
    plan: ReleasePlan, state: State, charges: Sequence[Charge], facts: Sequence[AccountLosses], *, again: bool = False
) -> BudgetExceeded:
    """The error for accounts that cannot pay: asked, already charged, allowed and left, for each."""
    asked = {charge.account.name: charge for charge in charges}
    periods = periods_charged(plan, again=again)
    lines = [_line(asked[each.name], state.accounts.get(each.name), each, periods[each.name]) for each in facts]
    names = ", ".join(dict.fromkeys(each.name for each in facts))
    return BudgetExceeded(
        f"{plan.release.name} {plan.release.period} costs more than is left in account {names}",
        detail="\n    ".join(line for line, _ in lines),
        hint="; ".join(("nothing was charged", *dict.fromkeys(hint for _, hint in lines))),
    )


_LESS = "lower the release's budget, or ask whoever keeps policy.yaml for a higher cap"
_NO_LESS = (
    "no smaller release helps, for the series was priced as a whole: ask whoever keeps policy.yaml for a cap of at "
    "least that, and raise `at_most` in the spec where it is lower; or release from another account"
)
_NO_KEYS = "give the keys in the spec, or release from an account that keeps more delta for key selections"
_NO_NOISE = "ask for a larger delta: in `at_most` of the spec, or from whoever keeps policy.yaml"


def _line(charge: Charge, past: Stand | None, facts: AccountLosses, periods: Sequence[str]) -> tuple[str, str]:
    """Why an account cannot pay, and what to do about it."""
    cap, account = facts.cap, charge.account
    where = f"account {facts.name}" + (f", {account.stretch} {facts.window}" if facts.window else "")
    if facts.composition == "pld":
        series, allowed = facts.after, f"{_down(cap.limit)} at delta {round_up(cap.delta)}"
        return f"{where}: its whole series costs {series.told}, allowed {allowed}", _NO_LESS
    terms = terms_of(charge.account)
    balance = past.balance if past else Balance(account=facts.name, opened=0)
    asked = spent_on(terms, charge.events)
    sums = account_sums(account, balance, asked, periods)
    if facts.window and account.window is not None:
        before = within_one(balance.windows, facts.window)
        sums = AccountSums(before, asked, before.plus(asked))
    why = _too_much_delta(terms, sums, cap)
    if why is not None:
        return f"{where}: {why[0]}", why[1]
    unit = "epsilon" if cap.rho is None else "rho"
    charged = _amount(terms, sums.before, cap)
    return (
        f"{where}: asked {unit} {round_up(_amount(terms, asked, cap))}, already charged "
        f"{round_up(charged)}, together {round_up(_amount(terms, sums.after, cap))}, allowed "
        f"{_down(cap.limit)} at delta {round_up(cap.delta)}, left {_down(max(Fraction(0), cap.limit - charged))}"
    ), _LESS if account.parallel is None else f"{_LESS}; every other {account.stretch} has a cap of its own"


def _too_much_delta(terms: Terms, sums: AccountSums, cap: Budget) -> tuple[str, str] | None:
    """Why a sum is read as no finite epsilon at the delta of a cap, and what to do; None where it is."""
    room = cap.delta if terms.composition == "basic" else min(terms.selecting, cap.delta)
    together = sums.after
    if together.reveals > room:
        return (
            "draws with deltas of their own, such as key selection, asked delta "
            f"{round_up(sums.asked.reveals)}, already charged {round_up(sums.before.reveals)}, together "
            f"{round_up(together.reveals)}, allowed {_down(room, 20)}",
            _NO_KEYS,
        )
    if terms.composition != "basic" and together.loss and terms.selecting >= cap.delta:
        return (
            f"it keeps {round_up(terms.selecting)} of its delta for key selections, which leaves nothing of "
            f"{round_up(cap.delta)} for noise",
            _NO_NOISE,
        )
    return None


def _amount(terms: Terms, spent: Spent, cap: Budget) -> Fraction:
    """In the currency of the cap."""
    return spent.loss if cap.rho is not None else read_total(terms, spent, cap.delta).epsilon


def _read(terms: Terms, spent: Spent, delta: Fraction) -> Loss:
    """A total as (epsilon, delta); where no epsilon is proved at this delta, at the larger one at which one is.

    Sums of epsilons and of deltas are a loss as they stand (``basic``). For the others noise is read at what ``delta``
    leaves it, and the draws' own deltas come on top: at most the sum of both (``privacy.filters``, last part).
    """
    try:
        return read_total(terms, spent, delta)
    except UnsupportedEvent:
        if terms.composition == "basic":
            return Loss(epsilon=spent.loss, delta=min(Fraction(1), spent.reveals))
    left = delta - terms.selecting if delta > terms.selecting else delta
    alone = read_total(terms.model_copy(update={"selecting": Fraction(0)}), Spent(loss=spent.loss), left)
    return Loss(epsilon=alone.epsilon, delta=min(Fraction(1), left + spent.reveals))


def _down(value: Fraction, digits: int = 6) -> str:
    """Decimal text rounded down to so many digits behind the point: what is left is never flattered."""
    return round_up(Fraction(value * 10**digits // 1, 10**digits), 40)
