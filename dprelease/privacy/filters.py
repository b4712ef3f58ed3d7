"""What an account may grant: composition that stays valid when later releases depend on earlier answers.

An account has one kind of composition, fixed when it is opened. Inside one release every parameter is fixed
before the first draw, so any accountant may be used there; over releases it may not, for the next spec is
written by people who have read the last tables. Three kinds here remain theorems in that setting, and are sums of what
each release costs, so that an account is two exact numbers (:class:`Spent`):

``zcdp``: the sum of rho of adaptively chosen mechanisms, stopped before a fixed bound, is a valid privacy filter
(Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023). The total is then converted once.

``rdp``: the same at **one** Renyi order a, fixed when the account is opened (Feldman and Zrnic 2021, the Renyi filter;
Lecuyer 2021): every step has a Renyi divergence of at most R_t at the order a, R_t a function of the earlier answers,
and no path lets the sum of R_t exceed B; then the whole has at most B. The total is converted once, at that order.
Proof: let L_t be the privacy loss so far. Under Q the ratio ``exp(a L_t - (a - 1) (R_1 + ... + R_t))`` has an expected
value, given the answers so far, of at most what it was before answer t, for R_t is known by then; so at the end
``E_Q[exp(a L)] <= exp((a - 1) B)``. An order is kept as 1 plus the 64-bit float that is not below ``order - 1``; for
whole numbers and halves that is the order itself.

What is **not** claimed is the smallest bound over several orders. Which order is best at the end depends on the path,
and the proof holds each order's own paths to delta: with n orders to choose from no more than n times delta is proved.
``tests/laws/test_filters.py`` has draws, chosen after answers, whose every path the ``rdp`` accountant certifies at a
delta that the whole exceeds. (Under zCDP the bounds of all orders follow from the one rho: which order is best is
known as soon as the cap is.)

``basic``: sums of epsilons, and of deltas, likewise (Rogers, Roth, Ullman and Vadhan 2016, Theorem 3.6). A
Gaussian draw has no pure epsilon and is refused. Deltas of their own (key selection) add up beside the epsilons; two
sums, each stopped before a bound of its own, are what the theorem is about, so nothing else is needed.

``pld`` is no sum. Its account is a series of draws, every mechanism and parameter of which is recorded before the first
one: :func:`series_loss` is what the series costs, and all that is left to check is that each draw is in the series, not
used before. Which member comes next, on which question, and whether at all, may depend on earlier answers. Proof:
dominating pairs with fixed parameters compose adaptively (Zhu, Dong and Wang 2022, Theorem 10); in more detail, a
mechanism that a pair (P_i, Q_i) dominates is, for any two neighbours, a random function of one draw X_i from P_i or
from Q_i (Blackwell 1953). Let X_1, ..., X_n be drawn independently, all from P or all from Q; whoever chooses member
i next, after whatever was seen, applies the function of that moment to X_i, which nothing has looked at before. So all
answers together are a random function of (X_1, ..., X_n), whose law is the product: that of the whole series. A member
used twice, or with another parameter, has no X_i of its own.

Every one of these statements is about a bound that is fixed beforehand: **the cap is the promise**, and whoever raises
a cap after a look promises the highest cap that any answers would have led to. What has been spent so far, read as
(epsilon, delta), says how far the sums are; it is not by itself a promise about a moment chosen after a look.

**Deltas of their own in a ``zcdp`` or ``rdp`` account.** With sums of rho (or of divergences) *and* of deltas each
stopped before a bound of its own (approximate zCDP: Whitehouse et al. 2023) the account is (epsilon, d + D)-private,
where D bounds the deltas and epsilon is read from the first sum at d. Both bounds must be fixed before the first
answer: ``selecting`` (``kept`` below) is that D. Without it the rest of delta is what the deltas charged so far leave,
which is exact where nobody chooses *because of earlier answers* whether to select keys or to draw noise. Who did so
could spend, where earlier draws turned out harmless, on revealing what could then no longer be gained from noise. For
such a reader the account's delta is at most the sum of both, delta plus all deltas that it granted: less than twice the
one that it is read at. Proof: on every path the outcomes without a reveal are a part of the outcomes of draws without
deltas, whose excess above exp(epsilon) is at most d by their filter, and reveals have at most the sum of their deltas.

>>> third = Spent(loss=Fraction(1, 3))
>>> third.plus(third).plus(third).loss
Fraction(1, 1)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal, Self

from pydantic import Field, model_validator

from dprelease.canonical import Value
from dprelease.errors import BrokenPromiseError, PlanError, UnsupportedEvent
from dprelease.privacy.accountants.base import Atoms, atoms, rest_epsilon, taken
from dprelease.privacy.accountants.pld import Pld
from dprelease.privacy.accountants.rdp import curve_of
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.rho import plain_rho, summed_rhos
from dprelease.privacy.accountants.zcdp import exact_sum
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.event import Approximate, Composed, Event, KNorm, Parallel, Repeated
from dprelease.privacy.rounding import real, upper
from dprelease.privacy.theorems.concentrated import rho_to_epsilon
from dprelease.privacy.theorems.conversion import epsilon_at
from dprelease.privacy.theorems.renyi import Curve

__all__ = [
    "Composition",
    "Spent",
    "Terms",
    "account_loss",
    "read_total",
    "series_loss",
    "spent_before",
    "spent_on",
    "within",
]

Composition = Literal["basic", "zcdp", "rdp", "pld"]

_MOST_BITS = 2000  # of a denominator; sums of a few hundred plain fractions stay exact
_GRAIN = 10**60
_LONG = 4 * _MOST_BITS  # of what denominators have in common: a sum over such is long, unless all but cancels
_FINE = 512  # binary digits of each part of a long sum


class Spent(Value):
    """What an account has spent, in its own currency: numbers that add up, and are never below the true sums.

    Attributes:
        loss: Sum of epsilons (``basic``), of rho (``zcdp``), or of Renyi divergences at the account's order (``rdp``).
            With ``pld`` 0: a series is checked draw by draw.
        reveals: Sum of the deltas that draws have of their own.

    Sums are exact; one whose denominator would have more than 2,000 bits is the next multiple of 10^-60 above, as is
    one of losses whose common denominator has more than 8,000.
    """

    loss: Fraction = Field(default=Fraction(0), ge=0)
    reveals: Fraction = Field(default=Fraction(0), ge=0)

    def plus(self, other: Spent) -> Spent:
        """Both together."""
        reveals = _short(self.reveals + other.reveals) if other.reveals else self.reveals
        # Sums of what was found not to be negative are not validated again: a check adds up every release.
        return Spent.of_checked({"loss": _short(self.loss + other.loss), "reveals": reveals})

    def minus(self, other: Spent) -> Spent:
        """What is left after something that was added is taken back; never below the sum of everything else.

        The total is at least the true sum, and ``other`` is taken off as it was added.

        Raises:
            BrokenPromiseError: If ``other`` is more than there is: it was never added.
        """
        if other.loss > self.loss or other.reveals > self.reveals:
            raise BrokenPromiseError(
                "more would be given back to an account than it was ever charged",
                hint="nothing was given back; `dprelease ledger check` compares the sums with the entries",
                code="DPR-B410",
            )
        return Spent(loss=_short(self.loss - other.loss), reveals=_short(self.reveals - other.reveals))


class Terms(Value):
    """How an account adds up, fixed when it is opened.

    Attributes:
        composition: The kind.
        order: For ``rdp``, and only there: its Renyi order, from 1.000001 to 10^9, where 60 digits are enough.
        selecting: For ``zcdp`` and ``rdp``: the part of every delta that is kept for draws with deltas of their own.

    Raises:
        ValueError: If ``rdp`` has no order, or another kind has one.
    """

    composition: Composition
    order: Fraction | None = Field(default=None, ge=1 + Fraction(1, 10**6), le=10**9)
    selecting: Fraction = Field(default=Fraction(0), ge=0, lt=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.composition == "rdp") != (self.order is not None):
            raise ValueError("an account with rdp composition has one Renyi order, and no other kind has")
        return self


def spent_on(terms: Terms, event: Event) -> Spent:
    """What an event costs such an account: exact, or rounded up.

    Epsilons and deltas are exact, and so are rho and the Renyi divergence of Gaussian noise; those of other noise are
    rounded up in their 30th digit.

    Raises:
        UnsupportedEvent: If the account's composition has no theorem for it.
    """
    if terms.composition == "pld":
        taken("pld", event, Pld.takes)
        return Spent()
    counted = atoms(event)
    found = peeled(counted)
    if terms.composition == "zcdp":
        losses = summed_rhos(counted)
    elif terms.composition == "rdp":
        losses = _divergences(_excess(terms), found.atoms)
    else:
        losses = _epsilons(counted)
    return Spent(loss=_short_sum(losses), reveals=_short(found.spent))


def spent_before(terms: Terms, event: Event) -> Spent:
    """What the same event was charged before the losses of pure noise were read exactly: never less than `spent_on`.

    For entries that were made then: what is recorded stands, and what an entry leaves to be worked out is worked out as
    it was. Laplace and other pure noise cost a rho of ``plain_rho``, and K-norm noise the Renyi divergence of
    randomized response (docs/decisions/0050-what-pure-noise-costs.md).

    Raises:
        UnsupportedEvent: As there.
    """
    if terms.composition not in ("zcdp", "rdp"):
        return spent_on(terms, event)
    found = peeled(atoms(event))
    if terms.composition == "zcdp":
        losses = [n * plain_rho(atom) for atom, n in atoms(event).items()]
    else:
        losses = _divergences(_excess(terms), peeled(atoms(_as_response(event))).atoms)
    return Spent(loss=_short_sum(losses), reveals=_short(found.spent))


def _as_response(event: Event) -> Event:
    """The event with each K-norm draw as any pure draw of its epsilon."""
    match event:
        case KNorm():
            return Approximate(epsilon=event.gauge / event.scale)
        case Repeated():
            return event.model_copy(update={"event": _as_response(event.event)})
        case Composed() | Parallel():
            return event.model_copy(update={"events": tuple(map(_as_response, event.events))})
    return event


def read_total(terms: Terms, spent: Spent, delta: Fraction) -> Loss:
    """A total as (epsilon, delta), rounded up.

    Args:
        terms: The terms of the account.
        spent: The total, in the currency of these terms.
        delta: At which epsilon is read; ``selecting`` is a part of it, but for ``basic``.

    Raises:
        UnsupportedEvent: If draws' own deltas are more than the terms have for them, or no finite epsilon is proved.
        PlanError: With ``pld``, where sums say nothing: ``series_loss`` does.
    """
    if terms.composition == "basic":
        _require_reveals(spent.reveals, delta)
        return Loss(epsilon=spent.loss, delta=delta)
    kept = min(terms.selecting, delta)
    _require_reveals(spent.reveals, kept)
    return Loss(epsilon=_epsilon_at(terms, spent.loss, delta, delta - kept), delta=delta)


def within(terms: Terms, spent: Spent, cap: Budget, slack: Fraction | int = 0) -> bool:
    """Whether a total is inside a cap, by no more than a relative ``slack`` outside.

    A cap in rho is compared with the sum of rho, exactly. False also where nothing finite can be read at the cap's
    delta, or the draws' own deltas are more than there is for them: there the slack counts for nothing.

    Raises:
        PlanError: With ``pld``, or for a cap in rho with another composition than ``zcdp``.
    """
    if cap.rho is not None:
        if terms.composition != "zcdp":
            raise PlanError(
                f"an account with {terms.composition} composition has no cap in rho",
                hint="give the cap as epsilon and delta, or ask for `composition: zcdp`, in policy.yaml",
                code="DPR-P402",
            )
        return spent.loss <= cap.rho * (1 + slack) and spent.reveals <= min(terms.selecting, cap.delta)
    try:
        return read_total(terms, spent, cap.delta).epsilon <= cap.limit * (1 + slack)
    except UnsupportedEvent:
        return False


def series_loss(series: Mapping[Event, int] | Iterable[tuple[Event, int]], delta: Fraction) -> Loss:
    """What a series costs whose every draw was recorded before the first one, at this delta, rounded up.

    Args:
        series: Each event and how often it may be drawn, whatever the order and whether or not it is drawn.
        delta: At which epsilon is read.

    Raises:
        UnsupportedEvent: If no dominating pair is known for one of them, or no finite epsilon exists at delta.
    """
    pairs = series.items() if isinstance(series, Mapping) else series
    events = tuple(Repeated(event=event, count=count) for event, count in pairs)
    return Loss(epsilon=Pld().epsilon(Composed(events=events), delta) if events else Fraction(0), delta=delta)


def account_loss(
    composition: Composition,
    events: Sequence[Event],
    delta: Fraction,
    *,
    kept: Fraction | None = None,
    order: Fraction | None = None,
) -> Loss:
    """What all these events have cost an account together, read at this delta and rounded up.

    Args:
        composition: The composition of the account. With ``pld`` these events are taken for the whole series.
        events: Everything ever charged.
        delta: At which epsilon is read; the deltas that draws have of their own are part of it.
        kept: For a ``zcdp`` or ``rdp`` account: how much of ``delta`` is set aside for such deltas, the same for ever.
            Left out: as much as they are, which needs them not to depend on answers (see above).
        order: For an ``rdp`` account: its Renyi order.

    Raises:
        UnsupportedEvent: If the account's composition cannot take one of them, or the draws' own deltas together
            exceed ``delta``, or what is kept for them.
    """
    if composition == "pld":
        return series_loss([(event, 1) for event in events], delta)
    terms = Terms(composition=composition, order=order, selecting=kept or Fraction(0))
    everything = Composed(events=tuple(events))
    spent = spent_on(terms, everything)
    if composition == "basic" or kept is not None:
        return read_total(terms, spent, delta)
    left = peeled(atoms(everything)).slack(delta)
    if spent.loss and left <= 0 < delta:
        raise UnsupportedEvent(
            f"draws with deltas of their own leave nothing of the account's delta {float(delta):.6g}",
            hint="select fewer keys by noise, at smaller deltas, or give the account a larger delta",
        )
    return Loss(epsilon=_epsilon_at(terms, spent.loss, delta, max(left, Fraction(0))), delta=delta)


def _short(value: Fraction) -> Fraction:
    if value.denominator.bit_length() <= _MOST_BITS:
        return value
    return Fraction(-(-value.numerator * _GRAIN // value.denominator), _GRAIN)


def _short_sum(values: Sequence[Fraction]) -> Fraction:
    """``_short`` of the exact sum; of ten thousand denominators that product would take longer than all else."""
    common = 1
    for value in values:
        common = math.lcm(common, value.denominator)
        if common.bit_length() > _LONG:
            break
    else:
        return _short(exact_sum(values))
    least = sum((value.numerator << _FINE) // value.denominator for value in values)
    low, high = (-(-each * _GRAIN >> _FINE) for each in (least, least + len(values)))
    return Fraction(low, _GRAIN) if low == high else _short(exact_sum(values))


def _excess(terms: Terms) -> float:
    """The account's order, less 1, as the float that is not below it: the order that is meant everywhere here."""
    exact = (terms.order or Fraction(2)) - 1
    near = float(exact)
    return near if near >= exact else math.nextafter(near, math.inf)


def _divergences(excess: float, counted: Atoms) -> list[Fraction]:
    """The Renyi divergence at the order 1 + excess of draws without deltas, upper bounds that add up."""
    # Each kind of draw is rounded for itself, so that releases add up to exactly what they would cost as one.
    return [n * _one(curve_of(atom), excess) for atom, n in counted.items()]


def _one(curve: Curve, excess: float) -> Fraction:
    rest = replace(curve, slope=Fraction(0))
    return (1 + Fraction(excess)) * curve.slope + (upper(rest.certified(excess)) if rest != Curve() else 0)


def _epsilons(counted: Atoms) -> list[Fraction]:
    spent = []
    for atom, n in counted.items():
        epsilon = rest_epsilon(atom)
        if epsilon is None:
            raise UnsupportedEvent(
                "an account with basic composition cannot take Gaussian noise",
                hint="write `noise: laplace` in the spec, or open the account with `composition: zcdp`",
            )
        spent.append(n * epsilon)
    return spent


def _epsilon_at(terms: Terms, loss: Fraction, delta: Fraction, left: Fraction) -> Fraction:
    """Epsilon from a sum of rho or of Renyi divergences, at what is left of delta."""
    if terms.composition == "pld":
        raise PlanError(
            "an account with pld composition has no sum to read",
            hint="what it costs is what its whole series costs: `series_loss`",
            code="DPR-P401",
        )
    if loss and left <= 0 < delta:
        raise UnsupportedEvent(
            f"`selecting` leaves nothing of the delta {float(delta):.6g} for noise",
            hint="read it at a larger delta, or open an account that keeps less for key selections",
        )
    if terms.composition == "zcdp":
        return rho_to_epsilon(loss, left)
    if not loss or left >= 1:
        return Fraction(0)
    if left == 0:
        raise UnsupportedEvent(
            "a Renyi divergence at one order implies no finite epsilon at delta 0",
            hint="give the budget a delta, such as 1e-9, or write `accounting: basic`",
        )
    return epsilon_at(real(loss), _excess(terms), left)


def _require_reveals(reveals: Fraction, delta: Fraction) -> None:
    if reveals > delta:
        raise UnsupportedEvent(
            f"draws with deltas of their own, such as key selection, use up {float(reveals):.6g} of the account, "
            f"which has {float(delta):.6g} for them",
            hint="give the keys in the spec, lower the release's delta, or give the account a larger one",
        )
