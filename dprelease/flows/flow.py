"""The flow: the one release that a command has opened, or every period that is due. Imports Prefect.

Prefect starts it, shows it, and tries a task again; which periods are missing is asked of the ledger on every run, so
that nothing is forgotten that a scheduler forgot.

A flow refuses to run where Prefect would store results. Every task says for itself that nothing is stored, but who
starts a scheduled run - a worker with settings of its own, somebody's profile - is not in our hands, and what was
pickled into a file cannot be taken back. Nor is what a run is told to do: whoever may use Prefect's API may start a
flow with any parameters, for the server compares a frozen one for a deployment's own runs alone. So this machine says
what may be released on it.
"""

from __future__ import annotations

import contextlib
import os
import time
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import httpx
from prefect import flow, get_client, runtime, tags
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import State
from prefect.context import TagsContext
from prefect.events.worker import EventsWorker
from prefect.exceptions import PrefectException
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    get_current_settings,
    temporary_settings,
)
from prefect.states import Completed
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from pydantic import Field

from dprelease.errors import OrchestratorError
from dprelease.flows.pages import Listener
from dprelease.flows.run_context import THREADS, RunContext, current_context, using
from dprelease.flows.server.settings import PROJECTS
from dprelease.flows.tasks import walk_steps

__all__ = ["dprelease", "refuse_what_is_no_product", "refuse_what_runs_before", "refuse_what_stores", "walk"]

_LAST_EVENTS = 10.0  # seconds to hand the last events to the server
_LAST_RECORDS = 3.0  # seconds for the server to write them down

_RUNNER: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=THREADS)
# What Prefect imports at the first call of a flow: loaded now, while the server boots.
for _late in ("fastapi.applications", "prefect.flow_engine", "prefect.task_engine"):
    import_module(_late)

Target = Annotated[str, Field(min_length=1, max_length=4096)]
OnePeriod = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$")]
Most = Annotated[int, Field(ge=0, le=1000)]


def refuse_what_stores() -> None:
    """Look at the settings of this very process.

    Raises:
        OrchestratorError: Naming the setting that is on.
    """
    settings = get_current_settings()
    on = {
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": settings.results.persist_by_default,
        "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": bool(settings.tasks.default_persist_result),
        "PREFECT_TASKS_REFRESH_CACHE": settings.tasks.refresh_cache,
        "PREFECT_LOGGING_LOG_PRINTS": settings.logging.log_prints,
        "PREFECT_LOGGING_EXTRA_LOGGERS": bool(settings.logging.extra_loggers),
    }
    wrong = [name for name, is_on in on.items() if is_on]
    if wrong:
        raise OrchestratorError(
            f"Prefect is set to keep what a release does: {', '.join(wrong)}",
            detail="nothing was read",
            hint="unset it where this run is started, and in the work pool; `dprelease schedule` sets the deployment's",
            code="DPR-O301",
        )


def refuse_what_is_no_product(target: str) -> None:
    """Look whether a spec is one that runs of Prefect may release on this machine.

    The answer does not tell whether there is such a file.

    Args:
        target: What the run was told to release.

    Raises:
        OrchestratorError: If this process was not told its project (DPR-O302), or the target is no product of it
            (DPR-O303).
    """
    from dprelease.flows.deployment import is_product
    from dprelease.release.project import Project

    folders = [Path(each) for each in os.environ.get(PROJECTS, "").split(os.pathsep) if each]
    if not folders:
        raise OrchestratorError(
            "this worker was not told whose releases it runs",
            detail="nothing was read",
            hint=f"where the worker is started: export {PROJECTS}=FOLDER, that of dprelease.yaml; or run `dprelease "
            "schedule` again, which says it in the deployment",
            code="DPR-O302",
        )
    if not any(is_product(Project.open(folder.resolve()), Path(target)) for folder in folders):
        raise OrchestratorError(
            "what this run was told to release is no product of this worker",
            detail="nothing was read; a product is a spec with a schedule in the project's folder, among the "
            "`products` of dprelease.yaml where that lists some",
            hint="if nobody of yours asked for it, close Prefect's API: docs/how-to/close-the-server.md",
            code="DPR-O303",
        )


def refuse_what_runs_before() -> None:
    """Look whether the run's deployment has steps that run a command before the flow begins: ours have none.

    What they did is done when this is asked; it is said, and the run goes no further.

    Raises:
        OrchestratorError: If it has (DPR-O304).
    """
    deployment = runtime.deployment.id
    if not deployment:
        return
    with get_client(sync_client=True) as client:
        registered = client.read_deployment(deployment)
    if registered.pull_steps:
        raise OrchestratorError(
            "this run's deployment has pull steps, which dprelease never writes: they ran on this machine already",
            detail="nothing was read by this run",
            hint="find out who changed the deployment; `dprelease schedule` takes the steps out again, and "
            "docs/how-to/close-the-server.md says how the API is closed",
            code="DPR-O304",
        )


def _name() -> str:
    """``monthly-visits/2024-03``, or ``monthly-visits: what is due`` until that is known."""
    if (opened := current_context()) is not None:
        return f"{opened.run.plan.release.name}/{opened.run.plan.release.period}"
    parameters = runtime.flow_run.parameters
    named = None
    with contextlib.suppress(Exception):  # a name is worth no failure
        named = runtime.deployment.name
    named = named or Path(str(parameters.get("target", "dprelease"))).stem
    return f"{named}/{parameters['period']}" if parameters.get("period") else f"{named}: what is due"


@flow(
    name="dprelease",
    flow_run_name=_name,
    task_runner=_RUNNER,
    persist_result=False,
    retries=0,
    log_prints=False,
)
def dprelease(target: Target, period: OnePeriod = "", most: Most = 0, synthetic: bool = False) -> State[None]:
    """Release every period of a schedule that is due and was not released, the earliest first.

    What is missing is told from the ledger. A period is measured once: what is done already is found, not done again,
    so that a run too many draws and spends nothing. Prefect stores the parameters in clear; all of them are public.

    Args:
        target: The file of the spec, on the machine that runs it.
        period: Such as 2024-03, to release this one alone. Left empty: all that are due.
        most: Stop after so many; the next run goes on. 0: do all.
        synthetic: On made-up rows: nothing is read, nothing is spent, and the result lies apart from the releases.
    """
    # A served flow may be pickled by value with every global that it names: only what can be imported may stand here.
    refuse_what_stores()
    if (opened := current_context()) is not None:
        # Tags are the run's, not its tasks': for a tag Prefect asks its server for a limit before each task begins, and
        # waits two seconds if the server is just writing down how the last one ended (it answers 503 meanwhile).
        with TagsContext(current_tags=set()):
            return Completed(message=walk_steps(opened, opened.run.plan.release.period, Listener()))
    refuse_what_runs_before()
    refuse_what_is_no_product(target)
    from dprelease.flows.due_runs import release_due

    return Completed(message=release_due(target, period, most, synthetic=synthetic))


def _settle(context: RunContext) -> None:
    """Wait until the server has written how every task ended: it learns it from events, a little later.

    Only for a server that is about to be stopped, and at most for some seconds: Prefect's record is not the audit
    trail, so what is missing from it costs nothing but a clean picture.
    """
    if not context.flow_run:
        return
    deadline = time.monotonic() + _LAST_RECORDS
    wanted = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(context.flow_run)]))
    with get_client(sync_client=True) as client:
        while time.monotonic() < deadline:
            runs = client.read_task_runs(flow_run_filter=wanted, limit=200)
            ended = [run for run in runs if run.state is not None and run.state.is_final()]
            if len(ended) >= min(len(context.tasks), 200):
                return
            time.sleep(0.1)


def walk(context: RunContext, *, settle: bool = False) -> None:
    """Run the flow here, in a context that is open, and hand its last events to the server.

    Without a heartbeat, which would add a second to each run: whoever typed the command sees whether it lives.

    Args:
        context: Open.
        settle: Wait for the server's record of the tasks, for the server is stopped next.

    Raises:
        StepFailed: If a step failed; ``context.failure()`` says how.
        Exception: Whatever Prefect raises when it loses its server.
    """
    plan, request = context.run.plan, context.request
    settings = {
        PREFECT_API_URL: os.environ["PREFECT_API_URL"],
        PREFECT_API_AUTH_STRING: os.environ.get("PREFECT_API_AUTH_STRING"),
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
    }
    accounts = [f"account:{account.name}" for account in plan.accounts]
    with temporary_settings(settings):
        try:
            with using(context), tags("dprelease", plan.release.name, *accounts):
                dprelease(target=request.target, period=plan.release.period, synthetic=request.synthetic)
        finally:
            EventsWorker.drain_all(timeout=_LAST_EVENTS, at_exit=False)
            if settle:
                with contextlib.suppress(httpx.HTTPError, PrefectException):  # the server is gone: nothing to wait for
                    _settle(context)
