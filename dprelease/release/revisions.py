"""Planned revisions of a period: which there are, which one may come next and when, and the plan of one.

A revision takes the stored plan of the publication that it revises, never a new one made from the spec: what was paid
for with the first publication is that very plan again, on the data as they are then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dprelease.errors import PlanError
from dprelease.ledger import Ledger, Reservation, has_ended
from dprelease.ledger.model.lifecycle import never_released, not_planned
from dprelease.plan.document import ReleasePlan
from dprelease.spec.load import Loaded
from dprelease.spec.period import span

__all__ = ["Vintages", "other_frozen", "payer_of", "plan_of_revision", "require_time", "revisions_of", "vintages"]


@dataclass(frozen=True)
class Vintages:
    """What stands of the planned revisions of a period.

    Attributes:
        base: The publication that they are of: the last reservation that is no revision.
        planned: How many its accounts were charged for; 0 where it is not published.
        done: Those that were published.
        open: The one that was begun and is not finished; 0: none.
        ended: Those that were given up.
    """

    base: Reservation
    planned: int
    done: tuple[int, ...] = ()
    open: int = 0
    ended: tuple[int, ...] = ()

    def next(self) -> range:
        """The numbers that can still be begun, in order; none while one is open."""
        last = max((*self.done, *self.ended, self.open), default=0)
        return range(0) if self.open else range(last + 1, self.planned + 1)


def vintages(reservations: Sequence[Reservation], planned: Callable[[Reservation], int]) -> Vintages | None:
    """The revisions of a period's current publication.

    Args:
        reservations: All of one release and period that were not given back, in the order of the ledger.
        planned: How many revisions the plan of a publication has, as :func:`revisions_of` reads it; asked only of one
            that was published.

    Returns:
        None where there are no reservations.
    """
    at = max((at for at, each in enumerate(reservations) if not each.revision), default=None)
    if at is None:
        return None
    base, revisions = reservations[at], reservations[at + 1 :]
    states = {state: tuple(each.revision for each in revisions if each.state == state) for state in _STATES}
    return Vintages(
        base=base,
        planned=planned(base) if base.state == "closed" else 0,
        done=states["closed"],
        open=next(iter(states["open"]), 0),
        ended=states["given_up"],
    )


_STATES = ("closed", "open", "given_up")


def revisions_of(ledger: Ledger, base: Reservation) -> int:
    """How many revisions the plan of a publication has, and its accounts were charged for.

    Args:
        ledger: That has it.
        base: The current publication of its period, as :func:`vintages` finds it.
    """
    reservation = ledger.find(base.release, base.period)  # the publication, or the last revision of it: the same number
    if reservation is None or not reservation.plan or base.state != "closed":
        return 0
    return ReleasePlan.from_canonical(reservation.plan).release.revisions


def payer_of(ledger: Ledger, reservation: Reservation) -> Reservation:
    """Whose charge a release is paid by: its own; of a planned revision that of the publication that it revises."""
    if not reservation.revision:
        return reservation
    same = (reservation.release, reservation.period)
    earlier = [each for each in ledger.reservations() if each.sequence < reservation.sequence and not each.revision]
    return next(each for each in reversed(earlier) if (each.release, each.period) == same)


def plan_of_revision(ledger: Ledger, release: str, period: str, number: int) -> ReleasePlan:
    """The plan of a revision, from what is stored of the publication; whether it may be released the ledger decides.

    Raises:
        LedgerError: If nothing was released that could be revised (DPR-L160), it was lost with the ledger (DPR-L113),
            or so many revisions were not planned (DPR-L165).
    """
    known = ledger.find(release, period)
    if known is None:
        raise never_released(f"{release}/{period}")
    if not known.plan:
        raise has_ended(known)
    plan = ReleasePlan.from_canonical(known.plan)
    if not 0 < number <= plan.release.revisions:
        raise not_planned(f"{release}/{period}", number, plan.release.revisions)
    return plan.at_revision(number)


def require_time(loaded: Loaded, number: int, early: str, now: datetime) -> None:
    """Refuse to begin a release of a schedule before its time, as the spec has it now.

    Rows that come later are in none that was begun, and it cannot be taken back.

    Args:
        loaded: The spec, of the period that is to be released.
        number: Which revision; 0: the first publication, once the period is over and its data are complete. A
            revision that the spec no longer has a time for may be released at any time.
        early: Why it is released all the same; empty: it is not.
        now: With a time zone.

    Raises:
        PlanError: Saying from when on it can be released.
    """
    schedule, period = loaded.spec.schedule, loaded.spec.release.period
    whole = span(period)
    if early or schedule is None or whole is None or number > len(schedule.revisions):
        return
    when = schedule.revised(whole[1], number) if number else schedule.complete(whole[1])
    if when <= now:
        return
    named = f"revision {number} of {period} is not due" if number else f"the data of {period} are not complete"
    raise PlanError(
        f"{named} before {when.astimezone(schedule.zone):%Y-%m-%d %H:%M %Z}",
        detail="what comes after a release is not in it, and a release cannot be taken back",
        hint="wait until then; or release what is there by `--early REASON`, which the ledger keeps",
        code="DPR-P313",
    )


def other_frozen(release: str, period: str) -> PlanError:
    """The error for a frozen plan that is not the one that a revision repeats."""
    return PlanError(
        f"the frozen plan is not the one that {release}/{period} was published with",
        detail="a revision repeats the plan that was published, which the ledger has",
        hint="name the spec, or the plan that was run",
        code="DPR-P315",
    )
