"""The ledger as people read it: accounts with what is spent, reserved and left, and the log line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from dprelease.errors import UnsupportedEvent
from dprelease.ledger import Ledger
from dprelease.ledger.model.balance import Balance, terms_of
from dprelease.ledger.model.entry import LedgerEntry
from dprelease.ledger.model.history import Stand
from dprelease.ledger.tables.tally import TalliedCost, TalliedRelease, Tally
from dprelease.plan.document import Account, Head
from dprelease.plan.explain.facts import budget_facts
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Budget, Loss, round_up
from dprelease.privacy.event import Composed, Repeated
from dprelease.privacy.filters import Spent, Terms, read_total, within
from dprelease.privacy.periods import leading, most_lost, raised, within_one
from dprelease.release.project import Project, account_of

__all__ = [
    "APART",
    "UNBOUNDED",
    "accounts_of",
    "charged_draws",
    "log_lines",
    "policy_accounts",
    "status_facts",
]

UNBOUNDED = "unbounded"
APART = "whoever has rows in several {per}s loses that in every one of them: the cap is about one {per}"
_MOST = 10**9  # releases that are looked for; nobody will make more


def policy_accounts(project: Project) -> dict[str, Account]:
    """The accounts of the policy, by name."""
    return {name: account_of(name, account) for name, account in project.policy.accounts.items()}


def status_facts(ledger: Ledger, policy: Mapping[str, Account]) -> dict[str, Any]:
    """What stands: accounts, open releases, locks, incidents; amounts are decimal text, rounded against the reader.

    Of an account ``spent`` is everything that stands charged, ``reserved`` what open releases have of it, and ``left``
    the rest of the cap of the policy, all read at the cap's delta under the account's own composition. The figures in
    ``hypothetical`` are what the same draws would have cost had they all been fixed before the first one; they grant
    nothing. ``plain_sum`` adds up what the releases' plans claim; it is shown to be compared, and charges nothing.
    """
    tally = ledger.tally()
    return {
        "ledger": ledger.place,
        "entries": tally.state.head.sequence,
        "accounts": accounts_of(tally, policy),
        "open": [_release(taken) for taken in tally.taken if not taken.ended],
        "locks": [holder.model_dump(mode="json") for holder in ledger.holders()],
        "incidents": [
            {
                "entry": at,
                "at": body.at,
                "why": body.why,
                "corrected": len({each.reservation for each in body.corrected}),
            }
            for at, body in tally.incidents.items()
        ],
    }


def accounts_of(tally: Tally, policy: Mapping[str, Account]) -> list[dict[str, Any]]:
    """Every account of the policy, and every one that only the ledger knows, by name."""
    stands = tally.state.accounts
    known = {**{name: stand.account for name, stand in stands.items()}, **policy}
    shown = []
    for name, account in sorted(known.items()):
        empty = Stand(account=account, balance=Balance(account=name, opened=0), head=Head())
        shown.append({**_account_facts(tally, account, stands.get(name, empty)), "in_policy": name in policy})
    return shown


def _account_facts(tally: Tally, account: Account, stand: Stand) -> dict[str, Any]:
    name = account.name
    terms, cap, releases = terms_of(account), account.lifetime, _parts(tally, name)
    still = [taken.parts[name] for taken in releases if not taken.ended]
    spent, settled = _counted(account, stand, still)
    months = leading(stand.balance.windows, stand.balance.windows, account.neighboring) if account.parallel else ()
    return {
        "name": name,
        "unit": account.unit,
        "neighboring": account.neighboring.value,
        "composition": account.composition,
        "order": None if account.order is None else str(account.order),
        "releases": stand.balance.releases,
        "parallel": account.parallel.per if account.parallel else "",
        "counts": list(months),
        **_amounts(terms, stand, spent, settled, cap),
        "plain_sum": _plain_sum(releases),
        "hypothetical": _hypothetical(tally, name, cap.delta),
        "fits": _fits(terms, stand, releases[-1] if releases else None, account),
        "windows": _windows(terms, stand, releases, account),
        "raised": _raised(tally, name),
        "recovered": _recovered(tally, terms, name, cap.delta),
        "incidents": [
            {"entry": at, "why": body.why, "corrected": sum(each.account == name for each in body.corrected)}
            for at, body in tally.incidents.items()
            if any(each.account == name for each in body.corrected)
        ],
    }


def _parts(tally: Tally, name: str) -> list[TalliedRelease]:
    return [taken for taken in tally.taken if name in taken.parts]


def _sum(spent: list[Spent]) -> Spent:
    counted = Counter(spent)
    return Spent(
        loss=sum((n * each.loss for each, n in counted.items()), Fraction(0)),
        reveals=sum((n * each.reveals for each, n in counted.items()), Fraction(0)),
    )


def _counted(account: Account, stand: Stand, still: list[TalliedCost]) -> tuple[Spent, Spent]:
    """What the lifetime cap is about, with and without open releases."""
    balance = stand.balance
    if account.parallel is None:
        return balance.spent, _without(balance.spent, _sum([part.spent for part in still]))
    names = sorted(balance.windows)
    settled = {
        name: _without(balance.windows[name], _sum([part.spent for part in still if name in part.windows]))
        for name in names
    }
    return most_lost(balance.windows, names, account.neighboring), most_lost(settled, names, account.neighboring)


def _epsilon(terms: Terms, spent: Spent, delta: Fraction) -> Fraction | None:
    """A total as epsilon at delta; None: no finite one holds."""
    try:
        return read_total(terms, spent, delta).epsilon
    except UnsupportedEvent:
        return None


def _amounts(terms: Terms, stand: Stand, spent: Spent, settled: Spent, cap: Budget) -> dict[str, Any]:
    """Spent, reserved (what is not settled: of open releases) and left in the currency of the cap."""
    if terms.composition == "pld":
        loss = stand.loss if stand.balance.releases or stand.series else Loss(epsilon=Fraction(0), delta=cap.delta)
        total = None if loss is None or loss.delta > cap.delta else loss.epsilon
        rest = total
    elif cap.rho is not None:
        total = spent.loss if spent.reveals <= min(terms.selecting, cap.delta) else None
        rest = total and settled.loss
    else:
        total = _epsilon(terms, spent, cap.delta)
        rest = _epsilon(terms, settled, cap.delta)
    left = Fraction(0) if total is None else max(Fraction(0), cap.limit - total)
    return {
        "spent": _text(total),
        "reserved": "0" if settled == spent else _text(None if total is None or rest is None else total - rest),
        "left": _down(left),
        "cap": str(cap.limit),
        "currency": "epsilon" if cap.rho is None else "rho",
        "delta": round_up(cap.delta),
        "over_cap": total is None or total > cap.limit,
    }


def _without(spent: Spent, part: Spent) -> Spent:
    return Spent(loss=max(Fraction(0), spent.loss - part.loss), reveals=max(Fraction(0), spent.reveals - part.reveals))


def _text(value: Fraction | None) -> str:
    return UNBOUNDED if value is None else round_up(value)


def _down(value: Fraction) -> str:
    """Decimal text rounded down to six digits behind the point: what is left is never flattered."""
    return round_up(Fraction(value * 10**6 // 1, 10**6), 40)


def _plain_sum(releases: list[TalliedRelease]) -> dict[str, Any]:
    """What one would get by adding up what the plans claim; releases that were lost have no claim."""
    claims: Counter[Loss] = Counter()
    for taken in releases:
        if taken.claimed is not None and not taken.revision:  # its first publication has paid for it
            claims[taken.claimed] += taken.copies
    return {
        "epsilon": round_up(sum((n * loss.epsilon for loss, n in claims.items()), Fraction(0))),
        "delta": round_up(sum((n * loss.delta for loss, n in claims.items()), Fraction(0))),
    }


def charged_draws(tally: Tally, name: str) -> Composed:
    """Everything that stands charged to an account, equal releases as one repeated event."""
    counted = Counter(taken.parts[name].digest for taken in _parts(tally, name))
    return Composed(events=tuple(Repeated(event=tally.draws[digest], count=n) for digest, n in counted.items()))


def _hypothetical(tally: Tally, name: str, delta: Fraction) -> dict[str, str]:
    draws = charged_draws(tally, name)
    shown = {}
    for kind, accountant in ACCOUNTANTS.items() if draws.events else ():
        try:
            shown[kind] = round_up(accountant.epsilon(draws, delta))
        except UnsupportedEvent:
            shown[kind] = UNBOUNDED
    return shown


def _fits(terms: Terms, stand: Stand, last: TalliedRelease | None, account: Account) -> int | None:
    """How many more releases like the last one the caps allow, by the very check of a reservation.

    None: there was none, or no number of them fills the account. Windows count that the last release touches; of a
    parallel account its stretches do.
    """
    if last is None:
        return None
    part = last.parts[account.name]
    if terms.composition == "pld":
        allowed = sum(slot.times for slot in stand.series if slot.digest == part.asked)
        cap, loss = account.lifetime, stand.loss
        grants = loss is not None and loss.epsilon <= cap.limit and loss.delta <= cap.delta
        return max(0, allowed - stand.balance.series.get(part.asked, 0)) if grants else 0
    if account.parallel is not None:
        return _fits_apart(terms, stand, part, account)
    checked = [(stand.balance.spent, account.lifetime)]
    if account.window is not None:
        totals = [within_one(stand.balance.windows, name) for name in part.windows]
        checked += [(total, account.window.cap) for total in totals]
    counts = [_times(terms, spent.plus, part.spent, cap) for spent, cap in checked]
    numbers = [number for number in counts if number is not None]
    return min(numbers) if numbers else None


def _fits_apart(terms: Terms, stand: Stand, part: TalliedCost, account: Account) -> int | None:
    def behind(more: Spent) -> Spent:
        return most_lost(raised(stand.balance.windows, part.windows, more), part.windows, account.neighboring)

    return _times(terms, behind, part.spent, account.lifetime)


def _times(terms: Terms, behind: Callable[[Spent], Spent], one: Spent, cap: Budget) -> int | None:
    def holds(n: int) -> bool:
        return within(terms, behind(Spent(loss=n * one.loss, reveals=n * one.reveals)), cap)

    if one == Spent():
        return None if holds(1) else 0
    if holds(_MOST):
        return _MOST
    low, high = 0, 1
    while holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _windows(terms: Terms, stand: Stand, releases: list[TalliedRelease], account: Account) -> list[dict[str, Any]]:
    per, cap = account.stretch, account.window.cap if account.window else account.lifetime
    shown = []
    for name in sorted(stand.balance.windows):
        spent = within_one(stand.balance.windows, name)
        still = [taken.parts[account.name] for taken in releases if not taken.ended]
        reserved = _sum([part.spent for part in still if name in part.windows])
        if per is not None and spent != Spent():
            amounts = _amounts(terms, stand, spent, _without(spent, reserved), cap)
            shown.append({"window": name, "per": per, **amounts})
    return shown


def _raised(tally: Tally, name: str) -> list[dict[str, Any]]:
    """Every opening that allows more than the one before it."""
    shown = []
    for at, body in tally.opened.items():
        before = tally.opened.get(body.replaces) if body.account == name and body.replaces else None
        if before is None:
            continue
        caps: list[tuple[str, Budget, Budget | None]] = [("lifetime", before.cap, body.cap)]
        if before.window is not None:
            caps.append(("window", before.window.cap, body.window.cap if body.window else None))
        for what, then, now in caps:
            if now is None or _allows_more(then, now):
                change = {"entry": at, "at": body.at, "why": body.why, "cap": what, "from": budget_facts(then)}
                shown.append({**change, "to": budget_facts(now) if now else None})
    return shown


def _allows_more(then: Budget, now: Budget) -> bool:
    same = (then.rho is None) == (now.rho is None)
    return not same or now.limit > then.limit or now.delta > then.delta


def _recovered(tally: Tally, terms: Terms, name: str, delta: Fraction) -> list[dict[str, Any]]:
    """Spend that a recovery added: it stands charged, and nobody knows its draws."""
    return [
        {
            "entry": at,
            "at": body.at,
            "why": body.why,
            "epsilon": _text(_epsilon(terms, body.added[name], delta)),
            "delta": round_up(delta),
        }
        for at, body in tally.recovered.items()
        if name in body.added and terms.composition != "pld"
    ]


def _release(taken: TalliedRelease) -> dict[str, Any]:
    state = {"close": "closed", "give_up": "given_up"}.get(taken.ended, "open")
    return {
        "release": taken.release,
        "period": taken.period,
        "state": state,
        "plan": taken.plan[:16],
        "entry": taken.sequence,
        "since": taken.at,
        "revision": taken.revision,
    }


def log_lines(
    ledger: Ledger, account: str = "", release: str = "", kind: str = "", since: int = 0, last: int = 0
) -> list[dict[str, Any]]:
    """Entries: sequence, time, kind, what it is about, hash, and the body.

    Args:
        ledger: Which is read.
        account: Only those that open, charge or correct it.
        release: ``NAME`` or ``NAME/PERIOD``: only those about it.
        kind: Only those of it.
        since: Only from this entry on.
        last: Only so many, the newest ones; 0: all.
    """
    lines = [line for entry in ledger.entries() for line in _line(entry, account, release, kind, since)]
    return lines[-last:] if last else lines


def _line(entry: LedgerEntry, account: str, release: str, kind: str, since: int) -> Iterator[dict[str, Any]]:
    if entry.sequence < since or (kind and entry.kind != kind):
        return
    body = entry.body
    name, _, period = release.partition("/")
    if release and (body.get("release") != name or (period and body.get("period") != period)):
        return
    if account and account not in _accounts_in(body):
        return
    about = [str(body[key]) for key in ("account", "release", "period", "step") if body.get(key)]
    yield {
        "sequence": entry.sequence,
        "at": str(body.get("at", "")),
        "kind": entry.kind,
        "what": "/".join(about) or str(body.get("why", "")),
        "hash": entry.hash,
        "body": body,
    }


def _accounts_in(body: Mapping[str, Any]) -> set[str]:
    named = {str(body["account"])} if "account" in body else set()
    named |= {str(each["account"]) for each in body.get("balances", ())}
    named |= {str(each["facts"]["name"]) for each in body.get("charges", ())}
    named |= {str(each["name"]) for each in body.get("exceeded", ())}
    return named | set(map(str, body.get("accounts", {}).values()))
