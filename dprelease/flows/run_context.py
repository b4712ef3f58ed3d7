"""What the flow walks, out of Prefect's sight: the open run, and the errors of its steps as they were raised.

Prefect writes what it sees of an error into its database, its results folder and its log: the text, the traceback,
and the exception itself, pickled. So a task lets it see a :class:`StepFailed` only, which holds the class, the code
and the name of the step. The error itself stays in this process, and the command raises that one.
"""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from dprelease.errors import BrokenPromiseError, DpReleaseError, Locked, Retryable

if TYPE_CHECKING:
    from dprelease.plan.document import Batch
    from dprelease.release.publishing.rendering import Outcome
    from dprelease.release.run import Progress, Request, Run

__all__ = ["LARGEST", "THREADS", "Chunk", "RunContext", "StepFailed", "attempted", "chunks", "current_context", "using"]

THREADS = 4
"""That measure at once; what they do is up to the engine."""

LARGEST = 50
"""Steps of a chunk at most, but for a batch that has more."""

Result = TypeVar("Result")

_LEAST = 5  # steps of a chunk, if every thread still has one: a smaller one would save less than its task costs
_NAMED, _LONGEST = 3, 40  # queries in a label, letters of a name in it

_HELD = "DPR-L200"  # somebody else works on this very release; a busy ledger has other codes
_CURRENT: ContextVar[RunContext | None] = ContextVar("the work that a command has opened for its flow", default=None)


@dataclass(frozen=True)
class Chunk:
    """Batches of one table that are one task.

    Attributes:
        label: Public, and of no other chunk: the table and the first of its queries.
        batches: In plan order.
    """

    label: str
    batches: tuple[Batch, ...]

    @property
    def size(self) -> int:
        """The number of steps."""
        return sum(len(batch.steps) for batch in self.batches)


def chunks(batches: Sequence[Batch], threads: int) -> tuple[Chunk, ...]:
    """Tasks of the batches of a release: few enough for Prefect, many enough for every thread.

    A task costs Prefect's server 17 ms and 19 KB, whatever it does; a batch can be one query of a second. So batches of
    one table that follow one another share a task. Threads take the chunks in order, and the chunks become smaller
    towards the end, each half of a thread's share of the steps left, so that all threads end at about the same time:
    guided self-scheduling (Polychronopoulos and Kuck, IEEE Transactions on Computers C-36, 1987). There is one for
    every thread, if batches are enough.

    Steps in pieces are the longest, and come first: one task for each top-level unit, with its pieces of all of them.

    Args:
        batches: What is to be measured, in plan order.
        threads: That measure at once.
    """
    whole = [batch for batch in batches if batch.piece is None]
    wanted = min(threads, len(whole))
    cut: list[list[Batch]] = []
    for largest in range(LARGEST, 0, -1):
        cut = _cut(whole, largest, threads)
        if len(cut) >= wanted:
            break
    cut = [*_units(batches), *cut]
    labels = [_label(part) for part in cut]
    again = Counter(labels)
    seen: Counter[str] = Counter()
    labelled = []
    for label, part in zip(labels, cut, strict=True):
        seen[label] += 1
        labelled.append(Chunk(f"{label} #{seen[label]}" if again[label] > 1 else label, tuple(part)))
    return tuple(labelled)


def _units(batches: Sequence[Batch]) -> list[list[Batch]]:
    """The batches of each top-level unit together, wherever they stand: what is left of a unit is one task again."""
    units: dict[tuple[str, str, int], list[Batch]] = {}
    for batch in batches:
        if batch.piece is not None:
            units.setdefault((batch.table, batch.piece.column, batch.piece.unit), []).append(batch)
    return list(units.values())


def _cut(batches: Sequence[Batch], largest: int, threads: int) -> list[list[Batch]]:
    parts: list[list[Batch]] = []
    left = sum(len(batch.steps) for batch in batches)
    for _, of_table in groupby(batches, key=lambda batch: batch.table):
        room = 0
        for batch in of_table:
            size = len(batch.steps)
            if size > room:
                parts.append([])
                room = min(largest, max(_LEAST, -(-left // (2 * threads))))
            parts[-1].append(batch)
            room -= size
            left -= size
    return parts


def _label(batches: Sequence[Batch]) -> str:
    """``persons: income, visits_by_state, ...``, or ``persons: areas in region South``: what a person looks for."""
    queries = dict.fromkeys(answer.query for batch in batches for step in batch.steps for answer in step.answers)
    named = [_short(name) for name in queries]
    more = ["..."] if len(named) > _NAMED else []
    piece = batches[0].piece
    where = f" in {_short(piece.column)} {_short(piece.key)}" if piece is not None else ""
    return f"{batches[0].table}: {', '.join([*named[:_NAMED], *more])}{where}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."


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


def current_context() -> RunContext | None:
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
