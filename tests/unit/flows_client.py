"""Parts of the flow that need Prefect, in a process of their own: what they did, as one line of JSON."""

from __future__ import annotations

import json
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

from dprelease.errors import Locked, OrchestratorError, TableMismatch
from dprelease.flows.run_context import RunContext, StepFailed

CANARY = "canary-" + "83519"  # in two parts: the source line in a traceback is not a leak
STORING = {
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": True,
    "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": True,
    "PREFECT_TASKS_REFRESH_CACHE": True,
    "PREFECT_LOGGING_LOG_PRINTS": True,
    "PREFECT_LOGGING_EXTRA_LOGGERS": "duckdb",
}


def guarded() -> dict[str, Any]:
    """Which settings are refused, and that without any of them all is well."""
    import prefect.settings as known

    from dprelease.flows.flow import refuse_what_stores

    said = {}
    refuse_what_stores()
    for name, value in STORING.items():
        with known.temporary_settings({getattr(known, name): value}):
            try:
                refuse_what_stores()
            except OrchestratorError as error:
                said[name] = str(error)
    return said


def turns() -> dict[str, Any]:
    """Three periods, of which the first fails, and one is held by another process when its turn comes."""
    import dprelease.flows.due_runs as due
    from dprelease.flows.pages import Listener
    from dprelease.release.schedule.due_runs import Turn

    tried: list[str] = []

    def walk(work: RunContext, period: str, listener: Listener) -> str:
        def do() -> bool:
            if period == "2024-01":
                raise TableMismatch(f"a message that may be long, {CANARY}", code="DPR-E303")
            return True

        tried.append(period)
        work.attempt(f"measure ({period})", do)
        return "published"

    vars(due)["walk_steps"] = walk
    listener = Listener()
    listener.gone = True  # there is no server
    levels: list[int] = []
    vars(listener)["say"] = lambda text, level=20: levels.append(level)
    said: dict[str, Any] = {}
    periods = ("2024-01", "2024-02", "2024-03")
    waiting = [Turn(period, resumes=period == "2024-03") for period in periods]
    released = partial(due._released, waiting, lambda turn: turn.request("/s.yaml"), listener, release="survey")
    try:
        released(0)
    except StepFailed as error:
        alone = error.__cause__ is None and error.__context__ is None
        said = {"tried": list(tried), "error": str(error), "alone": alone}
    tried.clear()
    try:
        released(1)
    except StepFailed:
        said["at most one"] = list(tried)
    said["levels"] = list(levels)
    for name, most in (("charged", 0), ("charged, at most one", 1)):
        tried.clear()
        try:
            released(most, charged=lambda _: True)
        except StepFailed as error:
            said[name] = [*tried, str(error)]
    return said


def held() -> dict[str, Any]:
    """What a scheduled run makes of a release that another process works on, and of a ledger that is busy."""
    from dprelease.release import run as release

    codes = iter(["DPR-L200", "DPR-L201"])

    def open_run(*_: object) -> None:
        raise Locked("held", code=next(codes))

    release.open_run = open_run  # type: ignore[assignment]
    request: Any = SimpleNamespace(target="/s.yaml")
    left = RunContext(request, leaves=True).open()
    try:
        RunContext(request, leaves=True).open()
    except Locked as error:
        return {"left": not left, "busy": error.code}
    return {}


if __name__ == "__main__":
    print(json.dumps({each.__name__: each() for each in (guarded, turns, held)}), file=sys.stdout)
