"""Deployments: register products with a Prefect server, and run here what it starts. Imports Prefect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import httpx
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateName,
)
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import FlowRunSort
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runner import Runner
from prefect.schedules import Cron, Interval
from prefect.settings import PREFECT_UI_URL
from prefect.states import Cancelled
from prefect.types.entrypoint import EntrypointType
from prefect.utilities.annotations import freeze

from dprelease.errors import OrchestratorError
from dprelease.flows.concurrency import limit_names, make_limits
from dprelease.flows.deployment import Product, Registered, kept_plans
from dprelease.flows.flow import dprelease
from dprelease.flows.server.settings import run_environment

__all__ = ["UNFINISHED", "hanging", "register", "run_deployments"]

_AT_ONCE = 4  # runs, each a process of its own
_AGAIN = 5.0  # seconds
_MISSED = 200  # late runs that are looked at, the most that Prefect lists at once
UNFINISHED = ("Submitting", "Pending", "Running", "Retrying", "AwaitingRetry", "Cancelling")
_LONG = timedelta(minutes=10)
_SILENT = (httpx.TransportError, PrefectHTTPStatusError)  # a server that is gone, or is starting


def register(
    products: Sequence[Product], pool: str | None = None, every: float | None = None, most: int = 0
) -> tuple[Registered, ...]:
    """Make a deployment for each product, or bring it up to date; one that is right already is left alone.

    Args:
        products: To register.
        pool: The work pool whose workers run them; None: ``serve``.
        every: Seconds; takes the place of cron, for tests.
        most: Periods that one run releases at most; 0: all.
    """
    make_limits(sorted({name for product in products for name in limit_names(product.tags)}))
    takes_environment = pool is not None and _takes_environment(pool)
    registered = []
    for product in products:
        environment = run_environment(product.home, [product.project.folder])
        variables = {"env": environment} if takes_environment else None
        registered.append(_register(product, _deployment(product, pool, every, most, variables)))
    return tuple(registered)


def _takes_environment(pool: str) -> bool:
    """Whether a deployment may say the environment of its runs; a pool that is closed has it in its own template."""
    with get_client(sync_client=True) as client:
        template = client.read_work_pool(pool).base_job_template
    return "env" in template.get("variables", {}).get("properties", {})


def _deployment(
    product: Product,
    pool: str | None,
    every: float | None,
    most: int,
    variables: dict[str, Any] | None = None,
) -> RunnerDeployment:
    when = product.scheduled.schedule
    schedule = Interval(timedelta(seconds=every)) if every else Cron(when.cron, timezone=when.timezone)
    parameters: dict[str, Any] = {"target": str(product.target), "period": "", "most": most}
    simple: Any = "prefect:simple"  # nothing of a git repository that happens to be here
    deployment = RunnerDeployment.from_flow(
        dprelease,
        name=product.name,
        schedule=schedule,
        parameters=parameters,
        description=product.description,
        tags=list(product.tags),
        version=product.version,
        version_type=simple,
        enforce_parameter_schema=True,
        work_pool_name=pool,
        job_variables=variables,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    # Whoever may start a run in Prefect may not point it at another file: shown, and not to be changed. Assigned now,
    # for Prefect looks for what is frozen when there is a schema that it can be written into.
    deployment.parameters = {**parameters, "target": freeze(str(product.target))}
    return deployment


def _register(product: Product, wanted: RunnerDeployment) -> Registered:
    with get_client(sync_client=True) as client:
        before = _read(client, wanted.full_name)
        changes = () if before is None else _changes(before, wanted)
        if before is None or changes:
            wanted.apply()
        now = client.read_deployment_by_name(wanted.full_name)
    if now.pull_steps:
        raise OrchestratorError(
            f"the deployment {wanted.full_name} has pull steps, which run commands on the workers, and they stay",
            hint=f"take it away with `prefect deployment delete {wanted.full_name}`, and register again",
            code="DPR-O114",
        )
    return Registered(
        release=product.name,
        deployment=wanted.full_name,
        state="created" if before is None else "changed" if changes else "unchanged",
        changes=changes,
        version=product.version,
        schedule=_schedules(now.schedules)[0],
        pool=now.work_pool_name or "",
        paused=now.paused or not all(each.active for each in now.schedules),
        page=f"{PREFECT_UI_URL.value() or ''}/deployments/deployment/{now.id}",
        kept=kept_plans(product) if "spec" in changes else None,
    )


def _read(client: SyncPrefectClient, name: str) -> DeploymentResponse | None:
    try:
        return client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None


def _changes(registered: DeploymentResponse, wanted: RunnerDeployment) -> tuple[str, ...]:
    """What is not as it is wanted, in words."""
    compared = {
        "spec": (registered.version, wanted.version),
        "schedule": (_schedules(registered.schedules), _schedules(wanted.schedules or ())),
        "parameters": (registered.parameters, wanted.model_dump(mode="json")["parameters"]),
        "description": (registered.description, wanted.description),
        "tags": (sorted(registered.tags), sorted(wanted.tags)),
        "work pool": (registered.work_pool_name, wanted.work_pool_name),
        "environment": (registered.job_variables or {}, wanted.job_variables or {}),
        "pull steps": (registered.pull_steps or [], []),
        "entry point": (registered.entrypoint, wanted.entrypoint),
    }
    return tuple(name for name, (is_now, shall_be) in compared.items() if is_now != shall_be)


def _schedules(schedules: Sequence[Any]) -> list[str]:
    """``0 6 5 * * Europe/Paris``, or ``every 20 s``."""
    texts = []
    for each in schedules:
        when = each.schedule
        every = getattr(when, "interval", None)
        texts.append(f"every {every.total_seconds():g} s" if every else f"{when.cron} {when.timezone}")
    return texts


def _runs_in(states: Sequence[str], deployment: str, client: SyncPrefectClient) -> list[FlowRun]:
    """The runs of a deployment that are in one of these states, by name, the newest first."""
    return client.read_flow_runs(
        deployment_filter=DeploymentFilter(name=DeploymentFilterName(any_=[deployment])),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(name=FlowRunFilterStateName(any_=list(states)))),
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
        limit=_MISSED,
    )


def _pass_over_late(deployment: str) -> None:
    """Cancel the runs that nobody ran in time, but for the last: that one releases what all of them would have."""
    with get_client(sync_client=True) as client:
        for run in _runs_in(["Late"], deployment, client)[1:]:
            client.set_flow_run_state(run.id, Cancelled(message="passed over: a later run does the same"), force=True)


def _tell_hanging(deployment: str, told: Callable[[str], None]) -> None:
    """Name the runs that were left in a state that nobody will end, for their process was killed."""
    with get_client(sync_client=True) as client:
        begun = _runs_in(UNFINISHED, deployment, client)
    runs = [(str(run.id), run.state.name or "", run.state.timestamp) for run in begun if run.state is not None]
    for line in hanging(deployment, runs, datetime.now(UTC)):
        told(line)


class _Patient(Runner):
    """Prefect's runner, but for two things: a server that does not answer ends neither it nor the runs it has started.

    Prefect's own gives up after three polls without an answer, and kills what it has started; a release that is under
    way needs no server. Where a later Prefect is built otherwise, this is Prefect's own one, started again.
    """

    def __init__(self, told: Callable[[str], None]) -> None:
        super().__init__(name="dprelease", pause_on_shutdown=False, limit=_AT_ONCE)
        self._told = told

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        poller = getattr(self, "_scheduled_run_poller", None)
        poll = getattr(poller, "_get_and_submit_flow_runs", None)
        if poller is not None and poll is not None:
            poller._get_and_submit_flow_runs = self._patiently(poll)
        return self

    def _patiently(self, poll: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        silent = False

        async def polled(*words: Any, **named: Any) -> None:
            nonlocal silent
            try:
                await poll(*words, **named)
            except _SILENT as error:
                if not silent:
                    self._told(f"Prefect's server does not answer ({type(error).__name__}); waiting for it")
                silent = True
                return
            if silent:
                self._told("Prefect's server answers again")
            silent = False

        return polled

    def handle_sigterm(self, *_: object) -> None:
        """End as by Ctrl-C; Prefect's own handler does not await what it calls."""
        raise KeyboardInterrupt


def run_deployments(products: Sequence[Product], every: float | None, most: int, told: Callable[[str], None]) -> None:
    """Run what the server starts of some products, each run in a process of its own, until interrupted.

    A run that is killed is told to the server, and what it left is done by the next one. A server that is lost is
    waited for. Schedules are not paused on leaving: what was missed meanwhile is late on Prefect's pages, as it is.

    Args:
        products: That are registered.
        every: As of :func:`register`.
        most: As of :func:`register`.
        told: Called when the server is lost, and when it is there again.
    """
    named = False
    while True:
        runner = _Patient(told)
        try:
            for product in products:
                runner.add_deployment(_deployment(product, None, every, most))
                _pass_over_late(product.name)
                if not named:
                    _tell_hanging(product.name, told)
            named = True
            asyncio.run(runner.start())
            return
        except KeyboardInterrupt:
            return
        except Exception as error:
            told(f"Prefect's runner ended ({type(error).__name__}); starting another one")
            time.sleep(_AGAIN)


def hanging(release: str, runs: Sequence[tuple[str, str, datetime]], now: datetime) -> Iterator[str]:
    """What to tell of the runs that have been in a state of `UNFINISHED` for long; nothing: there are none.

    They are not ended. Prefect does not know whether a process is alive, and a live run that is marked as crashed has
    its next tasks refused. The ledger knows better than both; nothing of a release depends on these states.

    Args:
        release: The deployment's release.
        runs: Prefect's id, the name of the state, and since when, with a time zone.
        now: With a time zone.
    """
    old = sorted((since, name, state) for name, state, since in runs if state in UNFINISHED and now - since > _LONG)
    if not old:
        return
    yield (
        f"{release}: {len(old)} run(s) are begun in Prefect for more than {int(_LONG.total_seconds() // 60)} minutes; "
        "where nobody works on them (`dprelease ledger status` names the locks), they were killed, and nothing waits "
        "for them:"
    )
    for since, name, state in old:
        yield f"  {state} since {since:%Y-%m-%dT%H:%M:%SZ}; to remove it from the pages: prefect flow-run delete {name}"
