"""What the flow walks, out of Prefect's sight: the open run, and the errors of its steps as they were raised.

Prefect writes what it sees of an error into its database, its results folder and its log: the text, the traceback,
and the exception itself, pickled. So a task lets it see a :class:`StepFailed` only, which holds the class, the code
and the name of the step. The error itself stays in this process, and the command raises that one.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from dprelease.errors import BrokenPromiseError, DpReleaseError, Locked, Retryable
from dprelease.flows.chunks import Chunk, chunks

if TYPE_CHECKING:
    from dprelease.release.publishing.rendering import Outcome
    from dprelease.release.run import Progress, Request, Run

__all__ = ["THREADS", "RunContext", "StepFailed", "attempted", "current", "using"]

THREADS = 4
"""That measure at once; what they do is up to the engine."""

Result = TypeVar("Result")

_HELD = "DPR-L200"  # somebody else works on this very release; a busy ledger has other codes
_CURRENT: ContextVar[RunContext | None] = ContextVar("the work that a command has opened for its flow", default=None)


class StepFailed(Exception):
    """All that Prefect sees of an error; ``kind`` is its class and code."""

    def __init__(self, message: str, *, kind: str = "", retryable: bool = False) -> None:
        super().__init__(message)
        self.kind, self.retryable = kind, retryable


class RunContext:
    """A request, the run that is open for it, and what became of its steps.

    ``doing`` is what others are told who find its lock; it ``leaves`` a release that they work on to them. Handed to
    tasks as an argument, which Prefect does not store. It has no fields that Prefect could walk into,
    no useful text, and does not pickle.
    """

    __slots__ = (
        "_chunks",
        "_counting",
        "_failures",
        "_measured",
        "_progress",
        "_run",
        "doing",
        "done",
        "flow_run",
        "leaves",
        "outcome",
        "request",
        "tasks",
    )

    def __init__(
        self, request: Request, progress: Progress | None = None, *, leaves: bool = False, doing: str = "dprelease run"
    ) -> None:
        self.request, self.leaves, self.doing = request, leaves, doing
        self.outcome: Outcome | None = None
        self.flow_run = ""  # Prefect's id of it
        self.tasks: set[str] = set()  # that have begun
        self.done = 0  # steps that were measured
        self._progress = progress
        self._run: Run | None = None
        self._chunks: tuple[Chunk, ...] = ()
        self._measured: set[tuple[int, int]] = set()
        self._counting = threading.Lock()
        self._failures: dict[str, Exception] = {}

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an open run does not leave its process")

    def open(self) -> bool:
        """Load, plan, lock and reserve, unless that is done; False: ``leaves``, and another process works on it."""
        if self._run is None:
            from dprelease.release import run as release

            try:
                run = release.open_run(self.request, self.doing)
            except Locked as error:
                if self.leaves and error.code == _HELD:
                    return False
                raise
            try:
                self._chunks = chunks(run.batches(), THREADS)
            except BaseException:
                run.__exit__()  # a retry begins with its lock
                raise
            self._run = run
        return True

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
        """One public name for each task that measures, such as ``persons: income, visits_by_state, ...``."""
        return tuple(chunk.label for chunk in self._chunks)

    @property
    def total(self) -> int:
        """The number of steps that are to be measured."""
        return sum(chunk.size for chunk in self._chunks)

    def measure(self, index: int) -> int:
        """Measure the batches of one chunk that are not yet; the number of its steps, all of which are committed."""
        for at, batch in enumerate(self._chunks[index].batches):
            if (index, at) in self._measured:  # a try before this one got so far
                continue
            measured = self.run.measure(batch)
            with self._counting:
                self._measured.add((index, at))
                self.done += measured
                self.show("measuring", self.done, self.total)
        return self._chunks[index].size

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
        return next((_shown(step, error) for step, error in self._failures.items()), None)


def attempted(step: str, do: Callable[[], Result], tell: Callable[[str], None]) -> Result:
    """Do what belongs to no release; its error is told here, and a :class:`StepFailed` is raised in its place.

    Raises:
        StepFailed: With the class, the code and the name of the step.
    """
    try:
        return do()
    except Exception as error:
        tell(str(_shown(step, error)))
        failed = _seen(step, error)
    raise failed


def _shown(step: str, error: Exception) -> DpReleaseError:
    """An error fit to be shown: one of ours by itself, any other one without its words."""
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


def _seen(step: str, error: Exception) -> StepFailed:
    code = f" {error.code}" if isinstance(error, DpReleaseError) else ""
    kind = f"{type(error).__name__}{code}"
    return StepFailed(f"{step}: {kind}", kind=kind, retryable=isinstance(error, Retryable))


def _place(error: Exception) -> str:
    """File and line of the innermost frame: code, never values."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown line"


def current() -> RunContext | None:
    """The work that the command which calls the flow has opened; None in a served flow, which opens its own."""
    return _CURRENT.get()


@contextmanager
def using(context: RunContext) -> Iterator[None]:
    """Let a flow that is called here find ``context``: its parameters are stored in clear, and this is not public."""
    token = _CURRENT.set(context)
    try:
        yield
    finally:
        _CURRENT.reset(token)
