"""When a planned revision of a period may be reserved, which costs nothing: it was paid with the first publication.

What was charged there is 1 + n times the draws of one plan (``ReleasePlan.cost_of``). So a revision is free only if it
has that very plan, its publication stands, and it is one of the n, none of them twice. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from dprelease.errors import LedgerError
from dprelease.plan.document import ReleasePlan

__all__ = ["STATES", "Ended", "Past", "current", "misfit", "never_released", "not_planned", "revises"]


Ended = Literal["open", "closed", "given_up", "lost"]


# By how an entry says that a reservation ended.
STATES: Mapping[str | None, Ended] = {None: "open", "close": "closed", "give_up": "given_up"}


class Past(NamedTuple):
    """A reservation of a release and period that was not given back.

    Attributes:
        plan: Fingerprint of its plan.
        state: The reservation's state.
        revision: Which planned revision it is; 0: a first publication, one that replaced it by hand, or a lost one.
    """

    plan: str
    state: Ended
    revision: int


def current(past: Sequence[Past]) -> tuple[Past, Sequence[Past]] | None:
    """The publication that revisions are of, the last one that is none itself, and its revisions so far."""
    for at in range(len(past) - 1, -1, -1):
        if past[at].revision == 0:
            return past[at], past[at + 1 :]
    return None


def revises(past: Sequence[Past], plan: ReleasePlan, mark: str) -> bool:
    """Whether the plan of a revision is to be reserved; False: it is the last one, and is found again.

    Args:
        past: The reservations of its release and period, in the order of the ledger.
        plan: The revision's plan.
        mark: Its fingerprint.

    Raises:
        LedgerError: Neither.
    """
    release, number = plan.release, plan.release.revision
    name = f"{release.name} {release.period}"
    found = current(past)
    if found is None:
        raise never_released(name)
    base, revisions = found
    if base.state != "closed":
        raise _unfinished(name, base)
    if base.plan != plan.at_revision(0).fingerprint():
        raise _other_plan(name, base)
    if number > release.revisions:
        raise not_planned(name, number, release.revisions)
    if revisions and revisions[-1].plan == mark:
        if revisions[-1].state == "given_up":
            raise _given_up(name, number)
        return False
    last = max((each.revision for each in revisions), default=0)
    if last >= number:
        raise _passed(name, number, last, release.revisions)
    if revisions and revisions[-1].state == "open":
        raise _busy(name, last)
    return True


def misfit(past: Sequence[Past], first: str, number: int, planned: int) -> str:
    """What is wrong with a revision in a ledger, worked out again from its entries; empty: nothing.

    Args:
        past: What was reserved before it for its release and period.
        first: The fingerprint of its plan as that of a first publication.
        number: The revision's number.
        planned: How many its plan has.
    """
    bases = [at for at, each in enumerate(past) if not each.revision]
    if not bases or past[bases[-1]][:2] != (first, "closed"):
        return "it revises what was not published with its plan"
    if not 0 < number <= planned:
        return "it is no revision that was planned"
    if any(each.revision >= number or each.state == "open" for each in past[bases[-1] + 1 :]):
        return "it comes after a later revision, or one that is open"
    return ""


def not_planned(name: str, number: int, planned: int) -> LedgerError:
    """The error for a revision that nobody has paid for."""
    return LedgerError(
        f"{name} has no revision {number}: {planned or 'none'} were planned when it was first released",
        detail="what is not in the plan was not charged",
        hint="`dprelease run SPEC --restate REASON` replaces the publication, from a changed spec, and is charged",
        code="DPR-L165",
    )


def never_released(name: str) -> LedgerError:
    """The error for a revision of nothing."""
    return LedgerError(
        f"{name} was never released: there is nothing to revise",
        hint="`dprelease run SPEC` without `--revision` releases it",
        code="DPR-L160",
    )


def _unfinished(name: str, base: Past) -> LedgerError:
    begun = base.state == "open"
    return LedgerError(
        f"{name} cannot be revised: its first publication is {base.state.replace('_', ' ')}",
        detail="" if begun else "what it cost stays charged, and its answers may be known",
        hint="finish it with `dprelease run SPEC`"
        if begun
        else "`dprelease run SPEC --restate REASON` releases it again, from a changed spec, and is charged again",
        code="DPR-L161",
    )


def _other_plan(name: str, base: Past) -> LedgerError:
    return LedgerError(
        f"{name} was published with plan {base.plan[:12]}, and this is a revision of another one",
        detail="a revision repeats the very draws that were charged",
        hint="`dprelease run SPEC --revision K` takes the plan that the ledger has",
        code="DPR-L162",
    )


def _passed(name: str, number: int, last: int, planned: int) -> LedgerError:
    return LedgerError(
        f"revision {number} of {name} cannot be released any more: revision {last} was begun",
        detail="revisions go forward: a later one has all the rows of an earlier one",
        hint=f"the next one is `--revision {last + 1}`" if last < planned else "no further one is planned",
        code="DPR-L163",
    )


def _busy(name: str, last: int) -> LedgerError:
    return LedgerError(
        f"revision {last} of {name} is open",
        hint=f"finish it with `dprelease run SPEC --revision {last}`, or end it with `--give-up REASON`",
        code="DPR-L164",
    )


def _given_up(name: str, number: int) -> LedgerError:
    return LedgerError(
        f"revision {number} of {name} was given up",
        detail="its answers may be known: it is never drawn again",
        hint="the next revision, where one is planned, takes its place",
        code="DPR-L166",
    )
