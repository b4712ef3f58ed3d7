"""What the flow walks, out of Prefect's sight: the open run, and the errors of its steps as they were raised.

Prefect writes what it sees of an error into its database, its results folder and its log: the text, the traceback,
and the exception itself, pickled. So a task lets it see a :class:`StepFailed` only, which holds the class, the code
and the name of the step. The error itself stays in this process, and the command raises that one.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from dprelease.errors import BrokenPromiseError, DpReleaseError, Retryable

if TYPE_CHECKING:
    from dprelease.plan.document import Batch
    from dprelease.release.publishing import Outcome
    from dprelease.release.run import Progress, Request, Run

__all__ = ["StepFailed", "Work", "given", "giving"]

Result = TypeVar("Result")

_GIVEN: ContextVar[Work | None] = ContextVar("the work that a command has opened for its flow", default=None)


class StepFailed(Exception):
    """All that Prefect sees of an error."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class Work:
    """A request, the run that is open for it, and what became of its steps.

    Handed to tasks as an argument, which Prefect does not store. It has no fields that Prefect could walk into,
    no useful text, and does not pickle.
    """

    __slots__ = ("_batches", "_failures", "_progress", "_run", "flow_run", "outcome", "request", "tried")

    def __init__(self, request: Request, progress: Progress | None = None) -> None:
        self.request = request
        self.outcome: Outcome | None = None
        self.flow_run = ""  # Prefect's id of it
        self.tried: set[str] = set()
        self._progress = progress
        self._run: Run | None = None
        self._batches: tuple[Batch, ...] = ()
        self._failures: dict[str, Exception] = {}

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an open run does not leave its process")

    def open(self, doing: str) -> None:
        """Load, plan, lock and reserve, unless that is done."""
        if self._run is None:
            from dprelease.release import run as release

            run = release.open_run(self.request, doing)
            try:
                self._batches = run.batches()
            except BaseException:
                run.__exit__()  # a retry begins with its lock
                raise
            self._run = run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._run is not None:
            self._run.__exit__(kind, error, where)
            self._run = None

    @property
    def run(self) -> Run:
        """The open run."""
        if self._run is None:
            raise BrokenPromiseError("the release is not open", code="DPR-O902")
        return self._run

    @property
    def labels(self) -> tuple[str, ...]:
        """One public name for each batch that is to be measured, such as ``2: persons by state, sex``."""
        return tuple(
            f"{number}: {batch.table} by {', '.join(batch.by) or 'nothing'}"
            for number, batch in enumerate(self._batches, 1)
        )

    def sizes(self) -> tuple[int, ...]:
        """The number of steps of each batch."""
        return tuple(len(batch.steps) for batch in self._batches)

    def measure(self, index: int) -> int:
        """Measure one batch; the number of steps that it has committed."""
        return self.run.measure(self._batches[index])

    def publish(self) -> None:
        """Publish what is committed, and keep the outcome."""
        self.outcome = self.run.publish()

    def show(self, label: str, done: int, total: int) -> None:
        """Tell whoever watches."""
        if self._progress:
            self._progress(label, done, total)

    def attempt(self, step: str, do: Callable[[], Result]) -> Result:
        """Do a step; its error is kept here, and a :class:`StepFailed` without cause or context is raised.

        Raises:
            StepFailed: With the class, the code and the name of the step.
        """
        failed: StepFailed | None = None
        self.tried.add(step)
        try:
            result = do()
        except Exception as error:
            self._failures[step] = error
            failed = _seen(step, error)
        if failed is not None:
            # Outside the except block: its context would carry the first error along.
            raise failed
        self._failures.pop(step, None)  # a retry went well
        return result

    def failure(self) -> DpReleaseError | None:
        """The first error of a step, fit to be shown; None if every step went well in the end."""
        for step, error in self._failures.items():
            if isinstance(error, DpReleaseError):
                # What caused it may hold rows, and so may the variables of its frames.
                error.__cause__ = error.__context__ = None
                return error.with_traceback(None)
            return BrokenPromiseError(
                f"{type(error).__name__} in {step}; its text is withheld, it may hold data",
                detail=f"raised at {_place(error)}",
                hint="this is a bug; the release stays charged, and the same command resumes it",
                code="DPR-O901",
            )
        return None


def _seen(step: str, error: Exception) -> StepFailed:
    code = f" {error.code}" if isinstance(error, DpReleaseError) else ""
    return StepFailed(f"{step}: {type(error).__name__}{code}", retryable=isinstance(error, Retryable))


def _place(error: Exception) -> str:
    """File and line of the innermost frame: code, never values."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown line"


def given() -> Work | None:
    """The work that the command which calls the flow has opened; None in a served flow, which opens its own."""
    return _GIVEN.get()


@contextmanager
def giving(work: Work) -> Iterator[None]:
    """Let a flow that is called here find ``work``: its parameters are stored in clear, and this is not public."""
    token = _GIVEN.set(work)
    try:
        yield
    finally:
        _GIVEN.reset(token)
