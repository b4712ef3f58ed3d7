"""Refuse to run where Prefect would store results, and what this machine was not set up to release.

Every task says for itself that nothing is stored. But who starts a scheduled run - a worker with settings of its own,
somebody's profile - is not in our hands, and what was pickled into a file cannot be taken back.

Nor is what a run is told to do: whoever may use Prefect's API may start a flow with any parameters, for the server
compares a frozen one for a deployment's own runs alone. So this machine says what may be released on it.
"""

from __future__ import annotations

import os
from pathlib import Path

from prefect import get_client, runtime
from prefect.settings import get_current_settings

from dprelease.errors import OrchestratorError
from dprelease.flows.server.settings import PROJECTS

__all__ = ["refuse_what_is_no_product", "refuse_what_runs_before", "refuse_what_stores"]


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
