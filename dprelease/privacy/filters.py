"""What an account may grant: composition that stays valid when later releases depend on earlier answers.

An account has one kind of composition, fixed when it is opened. Inside one release every parameter is fixed
before the first draw, so any accountant may be used there; over releases it may not, for the next spec is
written by people who have read the last tables. Both kinds here remain theorems in that setting:

``zcdp``: the sum of rho of adaptively chosen mechanisms, stopped before a fixed bound, is a valid privacy filter
(Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023). The total is then converted once.

``basic``: sums of epsilons, and of deltas, likewise (Rogers, Roth, Ullman and Vadhan 2016, Theorem 3.6). A
Gaussian draw has no pure epsilon and is refused. Deltas of their own (key selection) add up beside the epsilons; two
sums, each stopped before a bound of its own, are what the theorem is about, so nothing else is needed.

**Deltas of their own in a ``zcdp`` account.** With sums of rho *and* of deltas each stopped before a bound of its own
(approximate zCDP: Whitehouse et al. 2023) the account is (epsilon, d + D)-private, where D bounds the deltas and
epsilon is read from rho at d. Both bounds must be fixed before the first answer: ``kept`` below is that D. Without it
the rest of delta is what the deltas charged so far leave, which is exact where nobody chooses *because of earlier
answers* whether to select keys or to draw noise. Who did so could spend, where earlier draws turned out harmless, on
revealing what could then no longer be gained from noise. For such a reader the account's delta is at most the sum of
both, delta plus all deltas that it granted: less than twice the one that it is read at. Proof: on every path the
outcomes without a reveal are a part of the outcomes of zCDP draws, whose excess above exp(epsilon) is at most delta
by their filter, and reveals have at most the sum of their deltas.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import atoms, rest_epsilon
from dprelease.privacy.accountants.reveals import peeled, total_reveal
from dprelease.privacy.accountants.zcdp import rho_to_epsilon, total_rho
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Composed, Event

__all__ = ["Composition", "account_loss", "account_rho"]

Composition = Literal["basic", "zcdp"]


def account_loss(
    composition: Composition, events: Sequence[Event], delta: Fraction, *, kept: Fraction | None = None
) -> Loss:
    """What all these events have cost an account together, read at this delta and rounded up.

    Args:
        composition: Of the account.
        events: Everything ever charged.
        delta: At which epsilon is read; the deltas that draws have of their own are part of it.
        kept: Of a ``zcdp`` account: how much of ``delta`` is set aside for such deltas, the same for ever. Left out:
            as much as they are, which needs them not to depend on answers (see above).

    Raises:
        UnsupportedEvent: If the account's composition cannot take one of them, or the draws' own deltas together
            exceed ``delta``, or what is kept for them.
    """
    everything = Composed(events=tuple(events))
    if composition == "zcdp":
        rho = account_rho(events, delta if kept is None else min(kept, delta))
        left = peeled(atoms(everything)).slack(delta) if kept is None else delta - kept
        if rho and left <= 0 < delta:
            raise UnsupportedEvent(
                f"draws with deltas of their own leave nothing of the account's delta {float(delta):.6g}",
                hint="select fewer keys by noise, at smaller deltas, or give the account a larger delta",
            )
        return Loss(epsilon=rho_to_epsilon(rho, max(left, Fraction(0))), delta=delta)
    spent = Fraction(0)
    for atom, n in atoms(everything).items():
        epsilon = rest_epsilon(atom)
        if epsilon is None:
            raise UnsupportedEvent(
                "an account with basic composition cannot take Gaussian noise",
                hint="write `noise: laplace` in the spec, or open the account with `composition: zcdp`",
            )
        spent += n * epsilon
    _require_reveals(events, delta)
    return Loss(epsilon=spent, delta=delta)


def account_rho(events: Sequence[Event], delta: Fraction) -> Fraction:
    """The rho of all these events, whose own deltas must together be at most ``delta``: for a cap in rho.

    Raises:
        UnsupportedEvent: If they are more.
    """
    _require_reveals(events, delta)
    return total_rho(Composed(events=tuple(events)))


def _require_reveals(events: Sequence[Event], delta: Fraction) -> None:
    reveals = total_reveal(Composed(events=tuple(events)))
    if reveals > delta:
        raise UnsupportedEvent(
            f"draws with deltas of their own, such as key selection, use up {float(reveals):.6g} of the account, "
            f"which has {float(delta):.6g} for them",
            hint="give the keys in the spec, lower the release's delta, or give the account a larger one",
        )
