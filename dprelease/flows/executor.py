"""``dprelease run``: a server if there is none, the release opened while it boots, then the flow.

Prefect is imported inside :func:`execute` only, after its settings are in place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dprelease.errors import OrchestratorError
from dprelease.flows.run_context import RunContext, StepFailed
from dprelease.flows.server.server import HINT, TemporaryServer
from dprelease.flows.server.settings import api_in_use, prepared, refused_by_server

if TYPE_CHECKING:
    from dprelease.release.publishing.rendering import Outcome
    from dprelease.release.run import Progress, Request

__all__ = ["execute"]


def execute(request: Request, progress: Progress | None = None, *, home: Path | None = None) -> Outcome:
    """Run a request to its end through Prefect.

    Whatever Prefect does or loses, what was measured stays measured, and the same call resumes it.

    Args:
        request: The target, as an absolute path.
        progress: Called in this thread with what is going on, steps done, and steps in all.
        home: What Prefect writes goes there; the project's ``prefect_home`` unless given.

    Raises:
        DpReleaseError: Whatever a step raised, itself.
        BrokenPromiseError: If a step raised anything else; its text is withheld.
        OrchestratorError: If Prefect could not be started, or lost the run before it was published.
    """
    with TemporaryServer() as server:
        folder = (home or _home(request)).resolve()
        server.use(folder)
        with RunContext(request, progress) as context:
            _open(context)
            with prepared(folder, server.api):
                _walk(context, server)
            if context.outcome is None:
                raise OrchestratorError("Prefect ended the run without publishing", hint=HINT, code="DPR-O201")
            return context.outcome


def _home(request: Request) -> Path:
    from dprelease.release.project import Project, read_text

    target = Path(request.target)
    if target.is_dir():
        read_text(target, str(target))  # told as it is elsewhere
    return Project.find(target.parent).prefect_home


def _open(context: RunContext) -> None:
    context.show("starting", 0, 0)
    try:
        context.attempt("open", context.open)
    except StepFailed:
        failure = context.failure()
    else:
        return
    if failure is not None:
        raise failure


def _imported() -> Callable[..., None]:
    broken = ""
    try:
        from dprelease.flows.flow import walk
    except Exception as error:  # whatever is wrong with its packages or settings; no data is near
        broken = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no text'}"[:300]
    else:
        return walk
    raise OrchestratorError("Prefect could not be imported", detail=broken, hint=HINT, code="DPR-O102")


def _walk(context: RunContext, server: TemporaryServer) -> None:
    lost, refused = "", None
    walk = _imported()  # a second: while the server boots
    server.wait()
    try:
        walk(context, settle=bool(server.api))
    except StepFailed:
        lost = "StepFailed"  # told below, by the step's own error
    except Exception as error:
        lost, refused = type(error).__name__, refused_by_server(error)
    if not lost:
        return
    if failure := context.failure():
        raise failure
    if context.outcome is not None:
        # Published and closed in the ledger: only Prefect's own record of it is incomplete.
        logging.getLogger("dprelease").warning("published; Prefect lost its record of the run (%s)", lost)
        return
    if refused is not None:
        raise refused
    named = urlsplit(api_in_use())
    raise OrchestratorError(
        f"Prefect lost the run ({lost})",
        detail=f"its API was {named.hostname}:{named.port}; the ledger has what was measured, the same command resumes",
        hint=HINT,
        code="DPR-O200",
    )
