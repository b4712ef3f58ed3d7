"""What the data owner's policy says of an account, as a plan and a ledger keep it."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field

from dprelease.canonical import GrownValue, Value
from dprelease.privacy.budget import Budget, Loss
from dprelease.privacy.filters import Composition
from dprelease.privacy.unit import Neighboring
from dprelease.spec.period import Per, windows

__all__ = ["Account", "AccountLosses", "Composition", "Parallel", "Window"]


class Window(GrownValue):
    """A cap on what may be spent on the rows of one stretch of time, beside the lifetime cap of an account.

    Attributes:
        per: How long a stretch is.
        cap: What may be spent on the rows of each.
        column: When a row was, in every table of the account: one column, so that a row is of one stretch. None: of
            accounts from before the policy had to name it.
        type: How it is read.
    """

    LATER: ClassVar[tuple[str, ...]] = ("column", "type")
    per: Literal["day", "week", "month", "quarter", "year"]
    cap: Budget
    column: str | None = None
    type: Literal["date", "timestamp"] | None = None

    @property
    def time(self) -> tuple[str, str] | None:
        """Column and type of the rows' time; None: the policy named none."""
        return (self.column, self.type) if self.column is not None and self.type is not None else None


class Parallel(Value):
    """Releases about different stretches are about different units: the lifetime cap holds for each by itself.

    Attributes:
        per: How long a stretch is.
        column: When a row was, in every table of the account: one column, so that a row is of one stretch.
        type: How it is read.
    """

    per: Per
    column: str
    type: Literal["date", "timestamp"]


class Account(GrownValue):
    """What the data owner's policy says of an account.

    Attributes:
        name: The name of the account.
        unit: Whom it protects.
        neighboring: Its relation between data sets.
        composition: How the losses of its releases add up.
        lifetime: Its cap.
        selecting: For a ``zcdp`` or ``rdp`` account: the part of every delta that is kept for key selections, for ever
            the same (``privacy.filters``). The losses of all other draws are read at the rest.
        order: For an ``rdp`` account: its one Renyi order, for ever the same.
        window: A further cap, on each day, week, month, quarter or year of the rows.
        nests: Units that specs may protect instead, to how many of them one unit of the account holds at most.
        parallel: Where a unit has its rows in one stretch of time; None: releases about any time add up.
        prefer: Which one wins where less noise costs the account more: the noise (``accuracy``) or the charge
            (``account``); None: less noise, up to the release's epsilon or a quarter more than the least charge.
    """

    LATER: ClassVar[tuple[str, ...]] = ("order", "window", "nests", "parallel", "prefer")
    name: str
    unit: str
    neighboring: Neighboring
    composition: Composition
    lifetime: Budget
    selecting: Fraction = Field(default=Fraction(0), ge=0, lt=1)
    order: Fraction | None = Field(default=None, gt=1)
    window: Window | None = None
    nests: dict[str, int] = {}
    parallel: Parallel | None = None
    prefer: Literal["accuracy", "account"] | None = None

    @property
    def stretch(self) -> Per | None:
        """What the account keeps sums of, beside the sum of everything; None: nothing."""
        return self.parallel.per if self.parallel else self.window.per if self.window else None

    def stretches(self, *periods: str) -> tuple[str, ...]:
        """The stretches of the account that a release of this period touches: it is charged in full to every one.

        Args:
            periods: The release's own, and others of which it reads rows that nobody has charged for such a reading.

        Raises:
            PlanError: The account keeps sums of stretches, and a period is none of the calendar.
        """
        if (stretch := self.stretch) is None:
            return ()
        found = (windows(period, stretch) for period in periods)
        return tuple(dict.fromkeys(each for touched in found for each in touched))


class AccountLosses(Value):
    """What an account had lost before a release and has lost with it, both read at the delta of ``cap``.

    ``window`` names the stretch of time that ``cap`` is about, such as ``2024``; empty: for ever. Of a parallel account
    that replaces units it may name two, ``2024-03 and 2024-01``: the two that lost most together.
    """

    name: str
    composition: Composition
    cap: Budget
    before: Loss
    after: Loss
    window: str = ""
