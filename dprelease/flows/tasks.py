"""One release as tasks of the flow that is running: open it, measure it chunk by chunk, publish it.

No result is stored or cached here. That a step is drawn once, and that a release goes on where it was left, is the
ledger's doing; what Prefect shows of an earlier run is of no account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from prefect import runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import as_completed

from dprelease.flows.pages import Listener, Pages
from dprelease.flows.run_context import RunContext, StepFailed

__all__ = ["walk_steps"]

Result = TypeVar("Result")

_SHOWN = "show the release"


def _may_retry(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Only what its author declared safe to try again: a :class:`~dprelease.errors.Retryable`."""
    error = state.data
    return isinstance(error, StepFailed) and error.retryable


# Said for every task, although the process is set so: what is said here goes before any setting.
_TASK: Mapping[str, Any] = {
    "persist_result": False,
    "cache_policy": NO_CACHE,
    "retries": 2,
    "retry_delay_seconds": [1.0, 5.0],
    "retry_condition_fn": _may_retry,
    "log_prints": False,
}


@task(name="open", task_run_name="open {period}", **_TASK)
def _open(context: RunContext, period: str) -> bool:
    return _attempt(context, f"open {period}", context.open)


@task(name="measure", task_run_name="measure {label} ({period})", **_TASK)
def _measure(context: RunContext, index: int, label: str, period: str) -> int:
    return _attempt(context, f"measure {label} ({period})", lambda: context.measure(index))


@task(name="publish", task_run_name="publish {period}", **_TASK)
def _publish(context: RunContext, period: str) -> None:
    _attempt(context, f"publish {period}", context.publish)


def _attempt(context: RunContext, step: str, do: Callable[[], Result]) -> Result:
    """What a task does, counted: the server's record is complete once it knows how every one of them ended."""
    context.tasks.add(step)
    return context.attempt(step, do)


def walk_steps(context: RunContext, period: str, listener: Listener) -> str:
    """Open, measure, publish and show. What can be measured is, also after a chunk has failed.

    Args:
        context: Its request says what; opened here unless it is.
        period: Shown in the names of the tasks.
        listener: Is told the artifacts.

    Returns:
        What became of it: ``published``, or ``exists``, or that it is left to another process.

    Raises:
        StepFailed: The first step that failed.
    """
    context.flow_run = str(runtime.flow_run.id)
    if not _open(context, period):
        return "left to the process that works on it"
    pages = Pages(context, listener)
    context.attempt(_SHOWN, pages.begin)  # its errors, too, are told by class and step
    context.show("measuring", context.done, context.total)
    failed: StepFailed | None = None
    futures = [_measure.submit(context, index, label, period) for index, label in enumerate(context.labels)]
    for future in as_completed(futures):
        try:
            future.result()
        except StepFailed as error:
            failed = failed or error
        context.attempt(_SHOWN, pages.advance)  # here, where a slow server keeps nobody from measuring
    if failed is not None:
        raise failed
    context.show("publishing", context.done, context.total)
    _publish(context, period)
    if context.outcome is None:
        return "not published"
    outcome = context.outcome
    context.attempt(_SHOWN, lambda: pages.end(outcome))
    return outcome.state
