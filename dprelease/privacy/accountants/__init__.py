"""What does it cost? One file per accountant: events in, an upper bound on (epsilon, delta) out.

Each is a theorem about the same fixed mechanisms, so the smallest of them is a valid bound too: that is what
``accounting: auto`` takes. To add one, write its file and put it in ``ACCOUNTANTS``; the laws then run on it.

>>> ACCOUNTANTS["zcdp"].words.framework
'zero-concentrated differential privacy, mapped to (ε, δ)'
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from dprelease.canonical import one_of
from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.advanced import Advanced
from dprelease.privacy.accountants.base import Accountant
from dprelease.privacy.accountants.basic import Basic
from dprelease.privacy.accountants.pld import Pld
from dprelease.privacy.accountants.rdp import Rdp
from dprelease.privacy.accountants.zcdp import Zcdp
from dprelease.privacy.event import Event

__all__ = ["ACCOUNTANTS", "Accountant", "AccountantName", "AccountingName", "losses", "smallest"]

ACCOUNTANTS: dict[str, Accountant] = {
    each.name: each
    for each in (
        Basic(),
        Advanced(),
        Zcdp(),
        Rdp(),
        Pld(),
    )
}
AccountantName = Annotated[str, one_of(lambda: ACCOUNTANTS)]
AccountingName = Annotated[str, one_of(lambda: ("auto", *ACCOUNTANTS))]
"""An accountant, or ``auto`` for the smallest bound of all of them."""


def losses(event: Event, delta: Fraction) -> dict[str, Fraction]:
    """Epsilon at this delta under every accountant that can prove a finite one."""
    found = {}
    for name, accountant in ACCOUNTANTS.items():
        try:
            found[name] = accountant.epsilon(event, delta)
        except UnsupportedEvent:
            continue  # that accountant has no theorem for it; another one may
    return found


def smallest(event: Event, delta: Fraction) -> tuple[str, Fraction]:
    """The accountant with the smallest bound, and the bound; the first one in table order on a tie.

    Raises:
        UnsupportedEvent: If no accountant can prove a finite epsilon.
    """
    found = losses(event, delta)
    if not found:
        raise UnsupportedEvent(
            "no accountant can prove a finite epsilon at this delta",
            hint="give the budget a delta, such as 1e-9, or write `noise: laplace`",
        )
    return min(found.items(), key=lambda item: item[1])
