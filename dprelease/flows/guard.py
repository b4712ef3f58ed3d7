"""Refuse to run where Prefect would store results, or run a task again although it has one.

Every task says so for itself as well. But who starts a scheduled run - a worker with settings of its own, somebody's
profile - is not in our hands, and what was pickled into a file cannot be taken back.
"""

from __future__ import annotations

from prefect.settings import get_current_settings

from dprelease.errors import OrchestratorError

__all__ = ["refuse_what_stores"]


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
