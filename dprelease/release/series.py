"""Whether the next period of a series may be released: all before it were, and by the very same terms.

The draws of a series are charged with the period that is read first, so that what a later plan says about the band, the
noise and the rows is held against the stored plans of the earlier periods before anything is charged.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.errors import LedgerError, Problem, SpecError
from dprelease.ledger import Ledger, Reservation
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.series_terms import differing_terms
from dprelease.spec.period import span

__all__ = ["has_series", "refuse_series", "require_series"]

_THERE = ("open", "closed")


def has_series(plan: ReleasePlan) -> bool:
    """Whether periods of a query of a plan share their noise."""
    return any(query.series is not None for query in plan.queries)


def refuse_series(plan: ReleasePlan, command: str) -> None:
    """Refuse what cannot be done with a series yet.

    Raises:
        SpecError: DPR-S769, naming the query.
    """
    for query in (each for each in plan.queries if each.series is not None):
        says = f"query {query.name!r} shares its noise with other periods, which `dprelease {command}` cannot do yet"
        hint = "try the same spec without `series`: at the same budget a period then errs a little less"
        raise SpecError([Problem("DPR-S769", says, hint)])


def require_series(ledger: Ledger, plan: ReleasePlan, *, restates: bool, accepts: bool) -> None:
    """Refuse a period of a series that is out of order, or of other terms than those before it.

    Args:
        ledger: What remembers.
        plan: Of the period that is to be charged.
        restates: Whether it is to replace a publication of its period.
        accepts: Whether other data than before shall be read for it.

    Raises:
        LedgerError: DPR-L340, a period before it was not published; DPR-L341, by other terms; DPR-L344, it shall go on
            with other data; DPR-L330, it skips a period that is there; DPR-L331, it shall be replaced, and later
            periods are made of it.
    """
    if not has_series(plan):
        return
    name, own = plan.release.name, plan.release.period
    if accepts:
        raise LedgerError(
            f"{name} {own} shares its noise with other periods: it cannot go on with other data",
            detail="later sums are made of what was measured, and its rows are read again by later periods",
            hint=f"begin a new series in the spec, `from: {own}`, under another name of the release",
            code="DPR-L344",
        )
    known = _last(ledger, name)
    if restates:
        _require_restatable(plan, known)
    for query in plan.queries:
        for period in () if query.series is None else query.series.skipped:
            if period in known and known[period].state in _THERE:
                raise _skips_what_is_there(name, own, period, known[period])
        for period in () if query.series is None else query.series.periods[:-1]:
            reservation = known.get(period)
            if reservation is None or reservation.state != "closed":
                raise _missing(name, own, period, reservation)
            earlier = ledger.plan_of(reservation)
            differs = "its plan, which was lost" if earlier is None else differing_terms(plan, query, earlier)
            if differs:
                raise LedgerError(
                    f"query {query.name!r} of {name} {own} is of another series than {period}: {differs} differs",
                    detail="the draws of a series were charged together, by the terms of its first period; nothing was "
                    "charged now",
                    hint=f"put the spec back as it was; or begin a new series: `from: {own}`",
                    code="DPR-L341",
                )


def _require_restatable(plan: ReleasePlan, known: Mapping[str, Reservation]) -> None:
    """Refuse to draw a period again that later ones are made of.

    The draw is one more of the same rows: a unit of a period j before it loses the square of the band's number at the
    distance of the two, over S of what its own period was charged. It is charged again in full, in an account with sums
    by time to every period that it reads (``plan.explain.series_terms.periods_charged``).
    """
    name, own = plan.release.name, plan.release.period
    later = [
        period
        for period, each in known.items()
        if (span(period) or ()) > (span(own) or ()) and each.state != "given_up"
    ]
    if later:
        raise LedgerError(
            f"{name} {own} cannot be replaced: {', '.join(sorted(later))} was made of its draw and of its rows",
            detail="numbers of a series are never revised; nothing was charged",
            hint="replace the newest period alone; or begin a new series under another name of the release",
            code="DPR-L331",
        )


def _skips_what_is_there(name: str, own: str, period: str, reservation: Reservation) -> LedgerError:
    found = "is being released" if reservation.state == "open" else "was published"
    return LedgerError(
        f"{name} {own} skips {period}, which {found}",
        detail="a period is skipped where nothing can be read of it; nothing was charged",
        hint=f"take {period} out of `skip`; one that was begun and cannot be finished is ended first: "
        f"`dprelease run SPEC --period {period} --give-up REASON`",
        code="DPR-L330",
    )


def _last(ledger: Ledger, name: str) -> dict[str, Reservation]:
    """By period, the last reservation of a release that was not given back."""
    return {each.period: each for each in ledger.reservations() if each.release == name}


def _missing(name: str, own: str, period: str, reservation: Reservation | None) -> LedgerError:
    found = "was not released" if reservation is None else f"is {reservation.state.replace('_', ' ')}, not published"
    return LedgerError(
        f"{name} {own} is a period of a series, and {period} {found}",
        detail="every period is made of the draws of all before it; nothing was charged",
        hint=f"release {period} first (`--period {period}`); or begin a new series: `from: {own}`",
        code="DPR-L340",
    )
