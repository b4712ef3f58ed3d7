"""What a fault is: a name, what it breaks, how it is planted, and what of the project must see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dprelease.plan.document import Step
from tests.faults.planting import Patch, Seen

__all__ = ["Fault", "Spoil"]

Spoil = Callable[[Step], Step]


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: As the table of faults has it.
        kind: What it is about.
        tells: What an outsider then learns, or what is then wrong.
        seen: The test of the suite that fails with it, in ``make test-all`` at the latest; None of what is in the plan,
            for it is ``verify`` that is tested there.
        plant: Plants it in the code; None: it is in the plan.
        spoil: Plants it in every step of the plan; ``verify`` refuses such a plan.
        spec: A name in ``SPECS`` whose path it is on; empty: no plan shows it.
        verify: What ``verify`` says of the plan of that spec, made with the fault; empty: it sees nothing, for the plan
            is right.
        audit: Whether an audit of that spec reports a breach.
        beyond: Why no audit can, of what is in the code that reads, totals and hides.
    """

    name: str
    kind: str
    tells: str
    seen: Seen | None
    plant: Patch | None = None
    spoil: Spoil | None = None
    spec: str = ""
    verify: str = ""
    audit: bool = False
    beyond: str = ""
