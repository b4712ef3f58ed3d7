"""What an account may grant: composition that stays valid when later releases depend on earlier answers.

An account has one kind of composition, fixed when it is opened. Inside one release every parameter is fixed
before the first draw, so any accountant may be used there; over releases it may not, for the next spec is
written by people who have read the last tables. Both kinds here remain theorems in that setting:

``zcdp``: the sum of rho of adaptively chosen mechanisms, stopped before a fixed bound, is a valid privacy filter
(Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023). The total is then converted once.

``basic``: sums of pure epsilons likewise (Rogers, Roth, Ullman and Vadhan 2016, Theorem 3.6 at delta 0). A
Gaussian draw has no pure epsilon and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.base import atoms, pure_epsilon
from dprelease.privacy.accountants.zcdp import rho_to_epsilon, total_rho
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Composed, Event

__all__ = ["Composition", "account_loss"]

Composition = Literal["basic", "zcdp"]


def account_loss(composition: Composition, events: Sequence[Event], delta: Fraction) -> Loss:
    """What all these events have cost an account together, read at this delta and rounded up.

    Raises:
        UnsupportedEvent: If the account's composition cannot take one of them.
    """
    everything = Composed(events=tuple(events))
    if composition == "zcdp":
        return Loss(epsilon=rho_to_epsilon(total_rho(everything), delta), delta=delta)
    spent = Fraction(0)
    for atom, n in atoms(everything).items():
        epsilon = pure_epsilon(atom)
        if epsilon is None:
            raise UnsupportedEvent(
                "an account with basic composition cannot take Gaussian noise",
                hint="write `noise: laplace` in the spec, or open the account with `composition: zcdp`",
            )
        spent += n * epsilon
    return Loss(epsilon=spent, delta=delta)
