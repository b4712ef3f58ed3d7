"""A mechanism, or a version of a package, was faulty: what past releases really cost, and charging it.

Noise that was too small by a factor F is noise whose scale was s / F. For a draw that is bounded by a norm of its
change over its scale (all noise here: epsilon = l1 / s, rho = l2^2 / (2 s^2), gauge / s, range) that is the same as a
sensitivity that was F times as large. Where the two differ, on the lattice under ``pld``, and F is whole, s / F is the
worse one for Laplace noise: discrete Laplace noise of scale s, on a query that changes by F c, is F times noise of
scale s / F on a query that changes by c, plus independent noise X - X' with X in 0, ..., F - 1 and weights
exp(-X / s); for ``(1 - p) sum_j p^j e^(i j t) / (1 - p^F)`` is the characteristic function of X, p = exp(-1 / s), and
its squared modulus is that of discrete Laplace noise of scale s over that of F times such noise of scale s / F. And
whoever adds independent noise learns no more.

A selection of keys is told by (epsilon, delta) alone. What is F times as sensitive is charged as k = ceil(F) units at
once (``group.approximate``), which is never less: epsilon k, and delta weighted accordingly.

**Planned revisions.** The first publication was charged 1 + n times its draws, and each of these copies is one
publication: the first one, and each of its n revisions. Which of them a fault touches is told by the environment that
each publication recorded by itself. So a fault corrects one copy in the charge of the first publication, where that one
was drawn with the fault, and for every revision that was, one copy more, charged beside what stands: what the corrected
copy costs above what was paid for it. That never under-charges: with m of the 1 + n copies at fault the account has
paid for 1 + n good ones and, on top, m times the difference, which is the sum of what all were (losses here are sums
over draws; of a ``pld`` account the copies at fault are priced beside all of the good ones, which is more). Copies not
yet drawn stay good ones; whoever draws them with the fault records the same incident again.

An account never gets anything back from an incident, and its releases may cost more than its cap: it then refuses all
others. Draws that protected nothing have a delta of 1, which no cap allows: such an account is closed for ever.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Self

from pydantic import model_validator

from dprelease.canonical import Value
from dprelease.errors import Corrupt, UnsupportedEvent
from dprelease.ledger import view
from dprelease.ledger.balance import Actor, Balance, terms_of
from dprelease.ledger.corrected import sums_around
from dprelease.ledger.entry import RESTORE, Corrected, Entry, Incident, Opened, Reserved
from dprelease.ledger.history import digest_of, replay
from dprelease.ledger.store import Rows
from dprelease.ledger.tally import Taken, Tally, tally
from dprelease.ledger.write import Write
from dprelease.plan.document import Account, ReleasePlan
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    Parallel,
    Repeated,
)
from dprelease.privacy.filters import Spent, Terms, series_loss, spent_on
from dprelease.privacy.group import approximate

__all__ = [
    "UNPROTECTED",
    "Change",
    "Fault",
    "Outcome",
    "Recorded",
    "changes",
    "events_corrected",
    "is_unprotected",
    "one_copy",
    "record",
    "recorded",
    "spent_more",
]

# Draws that protected nothing. A delta of 1 is no event; this one is as near as it needs to be for every cap and every
# float, and what is charged for it is a delta of exactly 1.
UNPROTECTED = Approximate(epsilon=Fraction(0), delta=1 - Fraction(1, 2**512))


class Fault(Value):
    """What was wrong, and which draws it was wrong in; every condition that is given must hold.

    Attributes:
        why: In words; with all that follows but ``release`` and ``period`` it says which incident this is.
        mechanism: Name of a mechanism of a plan's steps; empty: all.
        package: A package of the environment that the reservation recorded; ``version``: its version, empty: any.
        release: Name of the release; ``period``: its period, empty: any.
        factor: By how much the noise was too small, above 1; 0: it protected nothing.
    """

    why: str
    mechanism: str = ""
    package: str = ""
    version: str = ""
    release: str = ""
    period: str = ""
    factor: Fraction

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.factor != 0 and self.factor <= 1:
            raise ValueError("the factor by which noise was too small is above 1, or 0 where it protected nothing")
        return self

    def is_of(self, body: Incident) -> bool:
        """Whether an entry records this very fault, whatever it corrected."""
        told = (body.why, body.mechanism, body.package, body.version, body.factor)
        return told == (self.why, self.mechanism, self.package, self.version, self.factor)


@dataclass(frozen=True)
class Change:
    """What an incident changes for one release and account: its draws before and after, and what that adds.

    Of a planned revision the draws are one copy, and ``paid_by`` is the reservation that was charged for it.
    """

    taken: Taken
    account: str
    before: Composed
    after: Composed
    spent: Spent
    paid_by: int | None = None


@dataclass(frozen=True)
class Recorded:
    """A change that an entry holds.

    Attributes:
        entry: The `Incident`.
        taken: The release.
        terms: The account as it was.
        now: The draws as they are charged from that entry on.
        spent: What that added to the account.
        before: What stood charged to the account before the entry; None where it is no sum (``pld``).
        after: What stood behind it.
    """

    entry: Entry
    taken: Taken
    terms: Account
    now: Composed
    spent: Spent
    before: Spent | None
    after: Spent | None


@dataclass(frozen=True)
class Outcome:
    """What is to change, or has changed, and everything that the ledger holds under the same fault."""

    changed: tuple[Change, ...]
    recorded: tuple[Recorded, ...] = ()


def events_corrected(event: Event, factor: Fraction) -> Event:
    """An event as it really was, its noise having been too small by this factor; 0: it protected nothing.

    Raises:
        UnsupportedEvent: Of the event only rho is known: what less noise would have meant cannot be said.
    """
    if isinstance(event, Composed):
        return Composed(events=tuple(events_corrected(part, factor) for part in event.events))
    if not factor:
        return UNPROTECTED
    match event:
        case Repeated():
            return event.model_copy(update={"event": events_corrected(event.event, factor)})
        case Parallel():
            return event.model_copy(update={"events": tuple(events_corrected(part, factor) for part in event.events)})
        case BoundedRange():
            return BoundedRange(epsilon=factor * event.epsilon)
        case Approximate():
            epsilon, delta = approximate(event.epsilon, event.delta, math.ceil(factor))
            return UNPROTECTED if delta >= 1 else Approximate(epsilon=epsilon, delta=delta)
        case Concentrated():
            raise UnsupportedEvent(
                "of a draw only rho is known, and what less noise would have cost cannot be said",
                hint="`--unprotected` charges that it protected nothing",
            )
        case _:
            return event.model_copy(update={"scale": event.scale / factor})


def is_unprotected(event: Event) -> bool:
    """Whether any draw protected nothing."""
    if isinstance(event, Composed | Parallel):
        return any(map(is_unprotected, event.events))
    return is_unprotected(event.event) if isinstance(event, Repeated) else event == UNPROTECTED


def spent_more(terms: Terms, before: Composed, after: Composed) -> Spent:
    """What corrected draws add to an account that was charged for them as they were thought to be; never negative.

    Nothing to a ``pld`` account, which has no sum: its series is priced anew.
    """
    if terms.composition == "pld":
        return Spent()
    then = Spent() if is_unprotected(before) else spent_on(terms, before)
    if is_unprotected(after):
        # What the other draws add is of no account any more: a delta of 1 is above every cap.
        return Spent(reveals=Fraction(0) if is_unprotected(before) else Fraction(1))
    now = spent_on(terms, after)
    zero = Fraction(0)
    return Spent(loss=max(zero, now.loss - then.loss), reveals=max(zero, now.reveals - then.reveals))


def changes(rows: Rows, fault: Fault) -> tuple[Change, ...]:
    """What the fault changes that no entry has recorded under it yet. Releases without any answer drew nothing."""
    found = tally(rows)
    known = {
        (each.reservation, each.account)
        for body in found.incidents.values()
        if fault.is_of(body)
        for each in body.corrected
    }
    changed = []
    payer: dict[tuple[str, str], Taken] = {}
    for taken in found.taken:
        if not taken.revision:
            payer[taken.release, taken.period] = taken
        paid = payer.get((taken.release, taken.period), taken)
        if (fault.release, fault.period or taken.period) not in ((taken.release, taken.period), ("", taken.period)):
            continue
        todo = [name for name in paid.parts if (taken.sequence, name) not in known]
        if not todo or not view.measured(rows, taken.release, taken.period, taken.plan):
            continue
        body = view.at(rows, taken.sequence).facts()
        if not isinstance(body, Reserved) or not _ran(fault, body):
            continue
        text = body.plan or view.content(rows, taken.plan).decode()
        plan = ReleasePlan.from_canonical(text)
        for name in todo:
            before = _draws(found, taken, paid, name)
            after = _after(fault, plan, name, before)
            if after != before:
                terms = terms_of(found.state.accounts[name].account)
                of = paid.sequence if taken.revision else None
                changed.append(Change(taken, name, before, after, spent_more(terms, before, after), of))
    return tuple(changed)


def _draws(found: Tally, taken: Taken, paid: Taken, account: str) -> Composed:
    """What an account was charged for a release; of a revision one of the copies that the first publication paid for.

    A revision that another incident corrected has draws of its own since then.
    """
    if not taken.revision or account in taken.parts:
        return found.draws[taken.parts[account].digest]
    return one_copy(found.draws[paid.parts[account].asked], paid.copies)


def one_copy(draws: Composed, copies: int) -> Composed:
    """Of the draws that so many publications were charged for at once, those of the first one."""
    if copies == 1:
        return draws
    return Composed(events=tuple(_copies(each)[0] for each in draws.events))


def _copies(event: Event) -> tuple[Event, Event]:
    """Of a draw that is charged for several publications: that of the first one, and of each other one."""
    match event:
        case Repeated():
            return event.event, event.event
        case Composed(events=(first, Repeated() as rest)):  # an earlier incident has corrected the first one
            return first, rest.event
        case _:
            raise Corrupt("a release is charged for several publications, and its draws are of one", code="DPR-L304")


def _ran(fault: Fault, body: Reserved) -> bool:
    if not fault.package:
        return True
    version = body.environment.get(fault.package)
    return version is not None and (not fault.version or version == fault.version)


def _after(fault: Fault, plan: ReleasePlan, account: str, before: Composed) -> Composed:
    """The draws of an account, one event for each of its steps, as they really were."""
    steps = [step for step in plan.steps if plan.catalog.tables[step.aggregate.table].account == account]
    if len(steps) != len(before.events):
        raise Corrupt(f"the draws of {plan.release.name} are not those of its plan", hint=RESTORE, code="DPR-L304")
    copies = 1 if plan.release.revision else 1 + plan.release.revisions
    return Composed(
        events=tuple(
            _corrected_once(event, fault.factor, copies) if fault.mechanism in ("", step.mechanism) else event
            for step, event in zip(steps, before.events, strict=True)
        )
    )


def _corrected_once(event: Event, factor: Fraction, copies: int) -> Event:
    """One copy corrected, of so many."""
    if copies == 1:
        return events_corrected(event, factor)
    first, rest = _copies(event)
    return Composed(events=(events_corrected(first, factor), Repeated(event=rest, count=copies - 1)))


def record(write: Write, fault: Fault, found: Sequence[Change], at: str, by: Actor) -> None:
    """Charge what was found: one entry, and one more for each ``pld`` account, whose series costs more now."""
    after = {digest_of(change.after): change.after for change in found}
    for events in after.values():
        write.keep(events.canonical().encode())
    corrected = tuple(
        Corrected(
            reservation=change.taken.sequence,
            account=change.account,
            digest=digest_of(change.after),
            spent=change.spent,
            paid_by=change.paid_by,
        )
        for change in found
    )
    facts = {"why": fault.why, "mechanism": fault.mechanism, "package": fault.package, "version": fault.version}
    make = partial(Incident, **facts, factor=fault.factor, corrected=corrected, at=at, by=by)
    # Worked out by the very rules by which the full check works it out again.
    entry = Entry.after(write.state.head, make())
    behind = replay([entry], after.__getitem__, view.whole_state(write.rows))
    names = {change.account for change in found}
    write.account(make, {name: behind.accounts[name] for name in names})
    for name in sorted(names):
        if write.state.accounts[name].account.composition == "pld":
            _reprice(write, name, fault, at, by)


def _reprice(write: Write, name: str, fault: Fault, at: str, by: Actor) -> None:
    """A series in which some releases were not what was fixed: it costs what all of it costs as it is."""
    stand, found = write.state.accounts[name], tally(write.rows)
    parts = Counter(taken.parts[name].digest for taken in found.taken if name in taken.parts)
    known = dict(found.draws)
    for slot in stand.series:
        rest = slot.times - stand.balance.series.get(slot.digest, 0)
        view.events(write.rows, known, slot.digest)
        parts[slot.digest] += rest
    delta = stand.account.lifetime.delta
    loss = Loss(epsilon=Fraction(0), delta=Fraction(1))
    if not any(is_unprotected(known[digest]) for digest, n in parts.items() if n > 0):
        with suppress(UnsupportedEvent):
            loss = series_loss([(known[digest], n) for digest, n in parts.items() if n > 0], delta)
    account = stand.account
    sequence = write.state.head.sequence + 1
    balance = stand.balance.model_copy(update={"opened": sequence})
    body = partial(
        Opened,
        account=name,
        unit=account.unit,
        neighboring=account.neighboring,
        composition=account.composition,
        cap=account.lifetime,
        selecting=account.selecting,
        order=account.order,
        window=account.window,
        nests=account.nests,
        parallel=account.parallel,
        series=stand.series,
        loss=loss,
        why=f"an incident: {fault.why}",
        replaces=stand.balance.opened,
        at=at,
        by=by,
    )
    changed = type(stand)(account=account, balance=balance, head=stand.head, series=stand.series, loss=loss)
    write.account(body, {name: changed})


def recorded(rows: Rows, fault: Fault) -> tuple[Recorded, ...]:
    """Everything that entries hold under this fault, and that it asks about; the same for ever."""
    found = tally(rows)
    by_entry = {taken.sequence: taken for taken in found.taken}
    shown = []
    for at, body in found.incidents.items():
        if not fault.is_of(body):
            continue
        balances = {balance.account: balance for balance in body.balances}
        for each in body.corrected:
            taken = by_entry[each.reservation]
            if fault.release in ("", taken.release) and fault.period in ("", taken.period):
                terms = _terms(rows, balances[each.account])
                sums = sums_around(body, by_entry, balances[each.account], terms)
                now = found.draws.get(each.digest) or view.events(rows, {}, each.digest)
                shown.append(Recorded(view.at(rows, at), taken, terms, now, each.spent, *sums))
    return tuple(shown)


def _terms(rows: Rows, balance: Balance) -> Account:
    body = view.at(rows, balance.opened).facts()
    if not isinstance(body, Opened):
        raise Corrupt(f"entry {balance.opened} opens no account", hint=RESTORE, code="DPR-L303")
    return body.terms
