"""What was found of one thing that a release needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Condition"]


@dataclass(frozen=True)
class Condition:
    """One finding.

    Attributes:
        about: What was looked at: ``clock``, ``ledger``.
        state: ``good``; ``note``: it can be meant so; ``wrong``: a release fails, or promises less than it says.
        says: What was found, in one line. Never a value of confidential data, and never a secret.
        hint: What to do about it; empty where nothing is to be done.
    """

    about: str
    state: Literal["good", "note", "wrong"]
    says: str
    hint: str = ""

    @property
    def line(self) -> str:
        """For a person; the hint, if any, on a line of its own."""
        return f"{self.state:6} {self.about}: {self.says}" + (f"\n         {self.hint}" if self.hint else "")
