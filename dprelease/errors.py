"""What can go wrong, as one tree; every error says what, where, what was expected and what to type next.

The classes below stand in the order of the exit codes; each says what it is about, and the one that it comes from says
with which code a command ends. :class:`Retryable` marks those that a task tries again.

No message ever holds a value read from confidential data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "BrokenPromiseError",
    "BudgetExceeded",
    "BudgetTooSmall",
    "CheckFailed",
    "Corrupt",
    "DpReleaseError",
    "EngineError",
    "ExactLeakError",
    "LedgerError",
    "Locked",
    "MissingExtra",
    "NoOpinion",
    "NotEnoughMemory",
    "OrchestratorError",
    "PlanError",
    "Problem",
    "PublishError",
    "Retryable",
    "SpecError",
    "StalePlan",
    "TableMismatch",
    "Unavailable",
    "Unsupported",
    "UnsupportedEvent",
    "Where",
    "out_of_memory",
]


@dataclass(frozen=True)
class Where:
    """A place in a file that the author wrote; line and column count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True)
class Problem:
    """One finding about a spec.

    Attributes:
        code: Stable short name such as ``DPR-S203``.
        summary: What is wrong, in one line.
        hint: What was expected, or what to type instead; may be empty.
        where: The place in the file.
    """

    code: str
    summary: str
    hint: str = ""
    where: Where | None = None

    def __str__(self) -> str:
        place = f"{self.where}  " if self.where else ""
        tail = f"\n    {self.hint}" if self.hint else ""
        return f"{place}{self.code}  {self.summary}{tail}"


class Retryable:
    """Mixin: the same call may succeed later, and trying again hands on no second answer."""


class DpReleaseError(Exception):
    """Root of everything that dprelease raises on purpose.

    Args:
        summary: What is wrong, in one line.
        detail: More lines, when one is not enough.
        hint: What to type or change next.
        where: The place in a file, when there is one.
        code: Stable short name; each class has its own default.
    """

    exit_code: ClassVar[int] = 1
    default_code: ClassVar[str] = "DPR-0000"

    def __init__(
        self, summary: str, *, detail: str = "", hint: str = "", where: Where | None = None, code: str = ""
    ) -> None:
        super().__init__(summary)
        self.summary = summary
        self.detail = detail
        self.hint = hint
        self.where = where
        self.code = code or self.default_code

    def __str__(self) -> str:
        place = f"{self.where}  " if self.where else ""
        lines = [f"{place}{self.code}  {self.summary}"]
        lines += [f"    {text}" for text in (self.detail, self.hint) if text]
        return "\n".join(lines)


class SpecError(DpReleaseError):
    """The author can fix it. Carries every problem that was found, in file order."""

    exit_code = 2
    default_code = "DPR-S000"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.summary, hint=first.hint, where=first.where, code=first.code)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class PlanError(DpReleaseError):
    """No plan can be made, or a plan does not hold what it claims."""

    exit_code = 3
    default_code = "DPR-P000"


class BudgetTooSmall(PlanError):
    """The budget cannot buy what the spec asks for; ``needed`` is the least that would do, where it is known."""

    default_code = "DPR-P100"
    needed: float = float("inf")


class UnsupportedEvent(PlanError):
    """An accountant was asked about a mechanism for which it has no theorem."""

    default_code = "DPR-P200"


class StalePlan(PlanError):
    """A frozen plan no longer fits the spec or the ledger."""

    default_code = "DPR-P300"


class NoOpinion(PlanError, Retryable):
    """``dp_accounting`` is installed and does not answer, so that nothing may be drawn from the plan."""

    default_code = "DPR-P500"


class LedgerError(DpReleaseError):
    """The ledger cannot be used, or refuses."""

    exit_code = 4
    default_code = "DPR-L000"


class BudgetExceeded(LedgerError):
    """A cap, ceiling or account says no; nothing was charged."""

    default_code = "DPR-L100"


class Locked(LedgerError, Retryable):
    """Somebody else holds the release."""

    default_code = "DPR-L200"


class Corrupt(LedgerError):
    """An entry or a measurement is not what its hash says."""

    default_code = "DPR-L300"


class EngineError(DpReleaseError):
    """Reading or aggregating failed; the driver's own words are withheld, they may quote rows."""

    exit_code = 5
    default_code = "DPR-E000"


class Unavailable(EngineError, Retryable):
    """A source that cannot be reached now."""

    default_code = "DPR-E100"


class Unsupported(EngineError):
    """This engine cannot compute what the plan asks for."""

    default_code = "DPR-E200"


class TableMismatch(EngineError):
    """The declared columns and the found ones differ, or a file is in a table twice."""

    default_code = "DPR-E300"


class NotEnoughMemory(EngineError):
    """More memory was asked for than this process may take."""

    default_code = "DPR-E004"


class PublishError(DpReleaseError):
    """The bundle could not be written."""

    exit_code = 6
    default_code = "DPR-W000"


class CheckFailed(DpReleaseError):
    """A check ran and found a difference."""

    exit_code = 7
    default_code = "DPR-C000"


class OrchestratorError(DpReleaseError):
    """Prefect could not be started, or lost the run; the ledger knows what was done."""

    exit_code = 8
    default_code = "DPR-O000"


class MissingExtra(DpReleaseError):
    """An optional package is not installed."""

    exit_code = 9
    default_code = "DPR-X000"


class BrokenPromiseError(DpReleaseError):
    """An invariant failed. This is our bug; nothing was published."""

    exit_code = 70
    default_code = "DPR-B000"


class ExactLeakError(BrokenPromiseError):
    """Somebody tried to print, copy, pickle or serialise an un-noised value."""

    default_code = "DPR-B100"


def out_of_memory() -> EngineError:
    """The error in place of a ``MemoryError``, whose traceback has frames that may hold rows."""
    return EngineError(
        "this process was refused more memory, and has ended",
        detail="what was charged stays charged, what was measured is kept",
        hint="free some memory, raise the limit (`ulimit -v`, the container's), or read a smaller file; then run the "
        "same command again: it goes on where it stopped",
        code="DPR-E001",
    )
