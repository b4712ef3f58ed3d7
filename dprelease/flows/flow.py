"""The flow: open the release, one task for each batch of steps, publish, and two artifacts. Imports Prefect.

Prefect retries, schedules and shows. That a step is drawn once and that a crashed release resumes is the ledger's
doing: no result is stored or cached here, and a new run does not care what Prefect shows of the old one.
"""

from __future__ import annotations

import contextlib
import os
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
from prefect import flow, get_client, runtime, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import State, TaskRun
from prefect.events.worker import EventsWorker
from prefect.exceptions import PrefectException
from prefect.futures import as_completed
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    temporary_settings,
)
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from dprelease.flows.work import StepFailed, Work, given, giving

if TYPE_CHECKING:
    from dprelease.release.publishing import Outcome

__all__ = ["dprelease", "walk", "walk_steps"]

_WORKERS = 4
_RETRY_AFTER = [1.0, 5.0]  # seconds, before the second and the third try
_LAST_EVENTS = 10.0  # seconds to hand the last events to the server
_LAST_RECORDS = 3.0  # seconds for the server to write them down

_THREADS: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=_WORKERS)
# What Prefect imports at the first call of a flow: loaded now, while the server boots.
for _late in ("fastapi.applications", "prefect.flow_engine", "prefect.task_engine"):
    import_module(_late)


def _may_retry(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Only what its author declared safe to try again: a :class:`~dprelease.errors.Retryable`."""
    error = state.data
    return isinstance(error, StepFailed) and error.retryable


@task(
    name="open",
    persist_result=False,
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=_RETRY_AFTER,
    retry_condition_fn=_may_retry,
    log_prints=False,
)
def _open(work: Work) -> None:
    work.attempt("open", lambda: work.open("flow dprelease"))


@task(
    name="measure",
    task_run_name="measure {label}",
    persist_result=False,
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=_RETRY_AFTER,
    retry_condition_fn=_may_retry,
    log_prints=False,
)
def _measure(work: Work, index: int, label: str) -> int:
    return work.attempt(f"measure {label}", lambda: work.measure(index))


@task(
    name="publish",
    persist_result=False,
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=_RETRY_AFTER,
    retry_condition_fn=_may_retry,
    log_prints=False,
)
def _publish(work: Work) -> None:
    work.attempt("publish", work.publish)


def _name() -> str:
    parameters = runtime.flow_run.parameters
    if parameters.get("release"):
        return f"{parameters['release']}/{parameters['period']}"
    return " ".join(filter(None, (Path(str(parameters.get("target", "dprelease"))).name, parameters.get("period"))))


@flow(
    name="dprelease",
    flow_run_name=_name,
    task_runner=_THREADS,
    persist_result=False,
    retries=0,
    log_prints=False,
)
def dprelease(
    target: str, synthetic: bool = False, release: str = "", period: str = "", plan_fingerprint: str = ""
) -> None:
    """Release a spec or a frozen plan. Prefect stores the parameters in clear: all of them are public.

    Args:
        target: Absolute path of a spec or of a frozen plan.
        synthetic: Rehearse on made-up rows; nothing is spent.
        release: Shown only; what is released is what the target says.
        period: Takes the place of the spec's own; empty: that one.
        plan_fingerprint: Shown only.
    """
    from dprelease.release.run import Request

    # A served flow is pickled by value with every global that it names: only what can be imported may stand here.
    if (opened := given()) is not None:
        walk_steps(opened)
        return
    with Work(Request(target=target, synthetic=synthetic, period=period or None)) as work:
        walk_steps(work)


def walk_steps(work: Work) -> None:
    """Open, measure, publish and show, as tasks of the flow that is running."""
    work.flow_run = str(runtime.flow_run.id)
    _open(work)
    sizes = work.sizes()
    done, total = 0, sum(sizes)
    work.show("measuring", done, total)
    futures = [_measure.submit(work, index, label) for index, label in enumerate(work.labels)]
    for future in as_completed(futures):
        done += future.result()
        work.show("measuring", done, total)
    work.show("publishing", done, total)
    _publish(work)
    if work.outcome:
        _artifacts(work.outcome)


def _artifacts(outcome: Outcome) -> None:
    """Two public pages beside the run: what the accounts hold, and where the release is."""
    create_table_artifact(
        key=f"{outcome.release}-accounting",
        table=[account.model_dump(mode="json") for account in outcome.accounts],
        description=f"Accounts before and after {outcome.release}/{outcome.period}",
    )
    folder = Path(outcome.folder)
    create_markdown_artifact(
        key=f"{outcome.release}-release",
        markdown=f"# {outcome.release}/{outcome.period}\n\n"
        f"[{folder.name}]({folder.as_uri()}): {outcome.drawn} steps drawn, {outcome.reused} reused\n\n"
        f"Plan `{outcome.plan_fingerprint}`\n",
        description=f"{outcome.release}/{outcome.period} ({outcome.state})",
    )


def _settle(work: Work) -> None:
    """Wait until the server has written how every task ended: it learns it from events, a little later.

    Only for a server that is about to be stopped, and at most for some seconds: Prefect's record is not the audit
    trail, so what is missing from it costs nothing but a clean picture.
    """
    if not work.flow_run:
        return
    deadline = time.monotonic() + _LAST_RECORDS
    wanted = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(work.flow_run)]))
    with get_client(sync_client=True) as client:
        while time.monotonic() < deadline:
            runs = client.read_task_runs(flow_run_filter=wanted, limit=200)
            ended = [run for run in runs if run.state is not None and run.state.is_final()]
            if len(ended) >= min(len(work.tried), 200):
                return
            time.sleep(0.05)


def walk(work: Work, *, settle: bool = False) -> None:
    """Run the flow here, on work that is open, and hand its last events to the server.

    Without a heartbeat, which would add a second to each run: whoever typed the command sees whether it lives.

    Args:
        work: Open.
        settle: Wait for the server's record of the tasks, for the server is stopped next.

    Raises:
        StepFailed: If a step failed; ``work.failure()`` says how.
        Exception: Whatever Prefect raises when it loses its server.
    """
    plan = work.run.plan
    here = {
        PREFECT_API_URL: os.environ["PREFECT_API_URL"],
        PREFECT_API_AUTH_STRING: os.environ.get("PREFECT_API_AUTH_STRING"),
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
    }
    with temporary_settings(here):
        try:
            with giving(work):
                dprelease(
                    target=work.request.target,
                    synthetic=work.request.synthetic,
                    release=plan.release.name,
                    period=plan.release.period,
                    plan_fingerprint=plan.fingerprint(),
                )
        finally:
            EventsWorker.drain_all(timeout=_LAST_EVENTS, at_exit=False)
            if settle:
                with contextlib.suppress(httpx.HTTPError, PrefectException):  # the server is gone: nothing to wait for
                    _settle(work)
