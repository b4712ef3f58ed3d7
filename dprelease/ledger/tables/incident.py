"""A mechanism, or a version of a package, was faulty: what past releases really cost, and charging it.

What the draws were is said by ``ledger.model.fault``; an erratum, a price of the past that was too small whatever the
noise was, by ``ledger.model.fault``.

**Planned revisions.** The first publication was charged 1 + n times its draws, and each of these copies is one
publication: the first one, and each of its n revisions. Which of them a fault touches is told by the environment that
each publication recorded by itself. So a fault corrects one copy in the charge of the first publication, where that one
was drawn with the fault, and for every revision that was, one copy more, charged beside what stands: what the corrected
copy costs above what was paid for it. That never under-charges: with m of the 1 + n copies at fault the account has
paid for 1 + n good ones and, on top, m times the difference, which is the sum of what all were (losses here are sums
over draws; of a ``pld`` account the copies at fault are priced beside all of the good ones, which is more). Copies not
yet drawn stay good ones; whoever draws them with the fault records the same incident again.

An erratum corrects all copies at once, for the price of each was too small. Where the price was right and only what was
published of groups was not, the release is recorded with nothing added, so that its erratum can be written.

An account never gets anything back from an incident, and its releases may cost more than its cap: it then refuses all
others. Draws that protected nothing have a delta of 1, which no cap allows: such an account is closed for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from pydantic_core import from_json

from dprelease.errors import Corrupt, UnsupportedEvent
from dprelease.ledger.model.balance import Actor, Balance, terms_of
from dprelease.ledger.model.entry import RESTORE, AccountOpened, Corrected, Incident, LedgerEntry, Reserved
from dprelease.ledger.model.fault import Fault, events_corrected, is_unprotected, misstated, repriced
from dprelease.ledger.model.history import above, events_digest, replay
from dprelease.ledger.model.store import Transaction
from dprelease.ledger.tables import view
from dprelease.ledger.tables.reserving import Opening
from dprelease.ledger.tables.tally import TalliedRelease, Tally, tally
from dprelease.ledger.tables.write import Write
from dprelease.plan.document import Account, ReleasePlan, Step
from dprelease.privacy.budget import Loss
from dprelease.privacy.convert import converted
from dprelease.privacy.event import Composed, Event, Repeated
from dprelease.privacy.filters import Spent, Terms, series_loss, spent_on
from dprelease.privacy.periods import most_lost

__all__ = ["Correction", "IncidentOutcome", "Recorded", "corrections", "one_copy", "record", "recorded", "spent_more"]


@dataclass(frozen=True)
class Correction:
    """What an incident changes for one release and account: its draws before and after, and what that adds.

    Of a planned revision the draws are one copy, and ``paid_by`` is the reservation that was charged for it.
    """

    taken: TalliedRelease
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
        plan: For an erratum: the plan, by which what was published of groups is worked out again.
    """

    entry: LedgerEntry
    taken: TalliedRelease
    terms: Account
    now: Composed
    spent: Spent
    before: Spent | None
    after: Spent | None
    plan: ReleasePlan | None = None


@dataclass(frozen=True)
class IncidentOutcome:
    """What is to change, or has changed, and everything that the ledger holds under the same fault."""

    changed: tuple[Correction, ...]
    recorded: tuple[Recorded, ...] = ()


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
    return above(spent_on(terms, after), then)


def corrections(rows: Transaction, fault: Fault) -> tuple[Correction, ...]:
    """What the fault changes that no entry has recorded under it yet. Releases without any answer drew nothing."""
    charged = tally(rows)
    known = {
        (each.reservation, each.account)
        for body in charged.incidents.values()
        if fault.is_of(body)
        for each in body.corrected
    }
    changed = []
    payer: dict[tuple[str, str], TalliedRelease] = {}
    for taken in charged.taken:
        if not taken.revision:
            payer[taken.release, taken.period] = taken
        paid = payer.get((taken.release, taken.period), taken)
        if (fault.release, fault.period or taken.period) not in ((taken.release, taken.period), ("", taken.period)):
            continue
        todo = [name for name in paid.parts if (taken.sequence, name) not in known]
        if not todo or (fault.erratum and not _may_select(rows, taken)):
            continue
        if not view.measured_steps(rows, taken.release, taken.period, taken.plan):
            continue
        body = view.at(rows, taken.sequence).facts()
        if not isinstance(body, Reserved) or not _ran(fault, body):
            continue
        plan = _plan(rows, taken)
        told_wrong = bool(fault.erratum) and misstated(plan)
        for name in todo:
            if fault.erratum and taken.revision and name not in taken.parts:
                continue  # the first publication has paid for it, and is corrected as a whole
            account = charged.state.accounts[name].account
            before = _draws(charged, taken, paid, name)
            after = _after(fault, plan, account, before)
            if after != before or told_wrong:
                terms = terms_of(account)
                of = paid.sequence if taken.revision else None
                changed.append(Correction(taken, name, before, after, spent_more(terms, before, after), of))
    return tuple(changed)


def _may_select(rows: Transaction, taken: TalliedRelease) -> bool:
    """Whether a step of a release's plan selects keys; no other plan has a price of the past that was too small.

    By its JSON alone: reading the plan itself takes a hundred times as long, and a long ledger has thousands. True
    where that tells nothing, as of an entry of an older schema, which holds the plan itself.
    """
    try:
        steps = from_json(view.kept_bytes(rows, taken.plan))["steps"]
        return any(step.get("selecting") is not None for step in steps)
    except (Corrupt, ValueError, KeyError, TypeError, AttributeError):
        return True


def _plan(rows: Transaction, taken: TalliedRelease) -> ReleasePlan:
    return ReleasePlan.from_canonical(view.plan_text(rows, taken.sequence, taken.plan))


def _draws(charged: Tally, taken: TalliedRelease, paid: TalliedRelease, account: str) -> Composed:
    """What an account was charged for a release; of a revision one of the copies that the first publication paid for.

    A revision that another incident corrected has draws of its own since then.
    """
    if not taken.revision or account in taken.parts:
        return charged.draws[taken.parts[account].digest]
    return one_copy(charged.draws[paid.parts[account].asked], paid.copies)


def one_copy(draws: Composed, copies: int) -> Composed:
    """The draws of the first one of several publications that were charged for at once."""
    if copies == 1:
        return draws
    return Composed(events=tuple(_copies(each)[0] for each in draws.events))


def _copies(event: Event) -> tuple[Event, Event]:
    """The draw of the first one, and of each other one, of several publications that one draw is charged for."""
    match event:
        case Repeated():
            return event.event, event.event
        case Composed(events=(first, Repeated() as rest)):  # an earlier incident has corrected the first one
            return first, rest.event
        case _:
            raise Corrupt("a release is charged for several publications, and its draws are of one", code="DPR-L304")


def _ran(fault: Fault, body: Reserved) -> bool:
    if fault.erratum in body.mended:
        return False
    if not fault.package:
        return True
    version = body.environment.get(fault.package)
    return version is not None and (not fault.version or version == fault.version)


def _after(fault: Fault, plan: ReleasePlan, account: Account, before: Composed) -> Composed:
    """The draws of an account, one event for each of its steps, as they really were."""
    steps = [step for step in plan.steps if plan.catalog.tables[step.aggregate.table].account == account.name]
    if len(steps) != len(before.events):
        raise Corrupt(f"the draws of {plan.release.name} are not those of its plan", hint=RESTORE, code="DPR-L304")
    copies = 1 if plan.release.revision else 1 + plan.release.revisions
    events = []
    for step, event in zip(steps, before.events, strict=True):
        meant = fault.mechanism in ("", step.mechanism)
        now = repriced(event, step, plan, account) if meant else event
        events.append(_corrected_once(now, step, plan, fault.factor, copies) if meant and not fault.erratum else now)
    return Composed(events=tuple(events))


def _corrected_once(event: Event, step: Step, plan: ReleasePlan, factor: Fraction, copies: int) -> Event:
    """One copy corrected, of so many."""
    if copies == 1:
        return events_corrected(_whole(event, step, plan), factor)
    first, rest = _copies(event)
    corrected = events_corrected(_whole(first, step, plan), factor)
    return Composed(events=(corrected, Repeated(event=rest, count=copies - 1)))


def _whole(event: Event, step: Step, plan: ReleasePlan) -> Event:
    """A selection as its plan has it, threshold and all, where it is charged as one unit's."""
    whole = step.event_under(plan.neighboring)
    return whole if event == converted(whole, 1) else event


def record(write: Write, fault: Fault, changed: Sequence[Correction], at: str, by: Actor) -> None:
    """Charge what was found: one entry, and one more for each ``pld`` account, whose series costs more now."""
    after = {events_digest(change.after): change.after for change in changed}
    for events in after.values():
        write.keep_value(events)
    corrected = tuple(
        Corrected(
            reservation=change.taken.sequence,
            account=change.account,
            digest=events_digest(change.after),
            spent=change.spent,
            paid_by=change.paid_by,
        )
        for change in changed
    )
    facts = {"why": fault.why, "mechanism": fault.mechanism, "package": fault.package, "version": fault.version}
    make = partial(Incident, **facts, factor=fault.factor, erratum=fault.erratum, corrected=corrected, at=at, by=by)
    # Worked out by the very rules by which the full check works it out again.
    entry = LedgerEntry.after(write.state.head, make())
    behind = replay([entry], after.__getitem__, view.whole_state(write.rows))
    names = {change.account for change in changed}
    write.account(make, {name: behind.accounts[name] for name in names})
    for name in sorted(names):
        if write.state.accounts[name].account.composition == "pld":
            _reprice(write, name, fault, at, by)


def _reprice(write: Write, name: str, fault: Fault, at: str, by: Actor) -> None:
    """A series in which some releases were not what was fixed: it costs what all of it costs as it is."""
    stand, charged = write.state.accounts[name], tally(write.rows)
    parts = Counter(taken.parts[name].digest for taken in charged.taken if name in taken.parts)
    known = dict(charged.draws)
    for slot in stand.series:
        rest = slot.times - stand.balance.series.get(slot.digest, 0)
        view.events(write.rows, known, slot.digest)
        parts[slot.digest] += rest
    delta = stand.account.lifetime.delta
    loss = Loss(epsilon=Fraction(0), delta=Fraction(1))
    if not any(is_unprotected(known[digest]) for digest, n in parts.items() if n > 0):
        with suppress(UnsupportedEvent):
            loss = series_loss([(known[digest], n) for digest, n in parts.items() if n > 0], delta)
    Opening(write, at, by).record(stand.account, f"an incident: {fault.why}", stand.series, loss)


def recorded(rows: Transaction, fault: Fault) -> tuple[Recorded, ...]:
    """Everything that entries hold under this fault, and that it asks about; the same for ever."""
    charged = tally(rows)
    by_entry = {taken.sequence: taken for taken in charged.taken}
    shown = []
    for at, body in charged.incidents.items():
        if not fault.is_of(body):
            continue
        balances = {balance.account: balance for balance in body.balances}
        for each in body.corrected:
            taken = by_entry[each.reservation]
            if fault.release in ("", taken.release) and fault.period in ("", taken.period):
                terms = _terms(rows, balances[each.account])
                sums = _sums_around(body, by_entry, balances[each.account], terms)
                now = charged.draws.get(each.digest) or view.events(rows, {}, each.digest)
                plan = _plan(rows, taken) if body.erratum else None
                shown.append(Recorded(view.at(rows, at), taken, terms, now, each.spent, *sums, plan))
    return tuple(shown)


def _terms(rows: Transaction, balance: Balance) -> Account:
    body = view.at(rows, balance.opened).facts()
    if not isinstance(body, AccountOpened):
        raise Corrupt(f"entry {balance.opened} opens no account", hint=RESTORE, code="DPR-L303")
    return body.terms


def _sums_around(
    body: Incident, releases: Mapping[int, TalliedRelease], after: Balance, terms: Account
) -> tuple[Spent | None, Spent | None]:
    """What the lifetime cap of an account counts, before an incident and after it.

    Args:
        body: The incident.
        releases: The releases that it corrects, by their entries.
        after: The balance that it carries.
        terms: The account's terms.

    Returns:
        Both sums; None where there is no sum (``pld``). Those of a parallel account are of its fullest stretch, or of
        its two fullest ones.
    """
    if terms.composition == "pld":
        return None, None
    added = [(releases[each.reservation], each.spent) for each in body.corrected if each.account == terms.name]
    if terms.parallel is None:
        return _less(after.spent, [spent for _, spent in added]), after.spent
    before = {
        name: _less(spent, [more for taken, more in added if name in taken.parts[terms.name].windows])
        for name, spent in after.windows.items()
    }
    relation, now = terms.neighboring, after.windows
    return most_lost(before, before, relation), most_lost(now, now, relation)


def _less(total: Spent, added: Sequence[Spent]) -> Spent:
    zero = Fraction(0)
    return above(total, Spent(loss=sum((x.loss for x in added), zero), reveals=sum((x.reveals for x in added), zero)))
