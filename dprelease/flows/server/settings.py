"""What Prefect is told, and what it is kept from reading.

Prefect takes settings from the environment, a profile, and - silently - from ``.env``, ``prefect.toml`` and
``pyproject.toml`` of the current folder: somebody's ``.env`` beside a spec could send our metadata to another server.
So the environment is reduced to how to reach a server, and Prefect is imported and used from a folder of this
package, where none of those files exists.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from dprelease.errors import OrchestratorError

__all__ = [
    "FOLDER",
    "NO_CREDENTIALS",
    "PROJECTS",
    "api_in_use",
    "client_environment",
    "make_home",
    "prepared",
    "refused_by_server",
    "run_environment",
    "server_environment",
    "without_prefect",
]

FOLDER = Path(__file__).resolve().parent
"""The current folder while Prefect is imported and used: it holds code only."""

PROJECTS = "DPRELEASE_PROJECT"
"""Variable of a worker: the folders of the projects that it releases, as a path list."""

_URL = "PREFECT_API_URL"
NO_CREDENTIALS = (401, 403)  # of HTTP: none or wrong ones, and ones that may not do this
# How to reach and trust a server is the operator's to say; everything else (retries, caches, result storage,
# logging, database) would change what a release does or what is written about it.
_KEPT = frozenset(
    {
        _URL,
        "PREFECT_API_KEY",
        "PREFECT_API_AUTH_STRING",
        "PREFECT_API_SSL_CERT_FILE",
        "PREFECT_API_TLS_INSECURE_SKIP_VERIFY",
        "PREFECT_CLIENT_CUSTOM_HEADERS",
        "PREFECT_CLOUD_API_URL",
    }
)
_SERVICES_OFF = (
    "CANCELLATION_CLEANUP",
    "EVENT_LOGGER",
    "EVENT_PERSISTER",
    "FOREMAN",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "REPOSSESSOR",
    "SCHEDULER",
    "TRIGGERS",
)


def api_in_use(environ: Mapping[str, str] | None = None) -> str:
    """The Prefect API that a run will report to; empty when a temporary server is started for it.

    Only the real environment counts, never a ``.env`` or another file of the current folder.
    """
    return (os.environ if environ is None else environ).get(_URL, "").strip()


def refused_by_server(error: BaseException | None) -> OrchestratorError | None:
    """The error to raise where Prefect's server answered that it wants other credentials; None: it did not.

    Args:
        error: Whatever was raised while Prefect was used, with its causes.
    """
    while error is not None:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in NO_CREDENTIALS:
            named = urlsplit(api_in_use())
            return OrchestratorError(
                f"Prefect's server at {named.hostname}:{named.port} "
                + ("wants credentials" if status == NO_CREDENTIALS[0] else "does not let these credentials do this"),
                detail=f"it answered {status}",
                hint="export PREFECT_API_AUTH_STRING=USER:PASSWORD, as the server was started with "
                "PREFECT_SERVER_API_AUTH_STRING; through a proxy with roles, register on the server's own machine",
                code="DPR-O113",
            )
        error = error.__cause__ or error.__context__
    return None


def without_prefect(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without Prefect's settings, but for how to reach a server. Prefect ignores case, so do we."""
    reachable = bool(api_in_use(environ))
    return {
        name: value
        for name, value in environ.items()
        if not name.upper().startswith("PREFECT_") or (reachable and name in _KEPT)
    }


def _quiet(home: Path) -> dict[str, str]:
    # CRITICAL, not ERROR: a failed task is told once, by the command, and not a second time as a traceback.
    return {
        "PREFECT_HOME": str(home),
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "results"),
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_ROOT_LEVEL": "CRITICAL",
        "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "DO_NOT_TRACK": "1",
    }


def client_environment(home: Path) -> dict[str, str]:
    """What the process that runs the flow tells Prefect."""
    return {
        **_quiet(home),
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
        "PREFECT_TASKS_REFRESH_CACHE": "false",
        "PREFECT_TASKS_DISABLE_CACHING": "true",
        "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "false",
        "PREFECT_LOGGING_LOG_PRINTS": "false",
    }


def run_environment(home: Path, projects: Iterable[Path]) -> dict[str, str]:
    """What the process of a scheduled run tells Prefect, whoever starts it: ``serve``, or a worker.

    Three retries bridge 14 seconds without a server, in which one starts again; Prefect's own five are a minute for
    each call. Heartbeats let an automation tell a run that was killed from one that is long.

    Args:
        home: Folder for what Prefect writes.
        projects: Folders of the projects whose products it may release.
    """
    return {
        **client_environment(home),
        PROJECTS: os.pathsep.join(str(folder) for folder in projects),
        "PREFECT_CLIENT_MAX_RETRIES": "3",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        "PREFECT_LOGGING_EXTRA_LOGGERS": "",
    }


def server_environment(home: Path, database: Path, secret: str) -> dict[str, str]:
    """What the temporary server is told: one user, one run, and nothing that the run does not need."""
    services = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _SERVICES_OFF}
    return {
        **_quiet(home),
        **services,
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}",
        "PREFECT_API_DATABASE_MIGRATE_ON_START": "false",
        "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
        "PREFECT_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
        "PREFECT_SERVER_API_AUTH_STRING": secret,
        "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
        # Whole seconds: Prefect cuts a fraction to 0, and its recorder then spins on a core of its own.
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
        "PREFECT_UI_ENABLED": "false",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
    }


def make_home(home: Path) -> None:
    """Make the home and its missing parents for this user alone; one that others can enter is closed to them.

    ``serve`` may be the first to make ``state/``, in which the ledger will be; and Prefect's history, which it writes
    with the rights that its process gives, says who ran what and when. A home of another user is left as it is.
    """
    for each in reversed([each for each in (home, *home.parents) if not each.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid == os.geteuid() and home.stat().st_mode & 0o077:
        home.chmod(0o700)
    for path in home.glob("*.db*"):
        with suppress(OSError):  # another run may just have removed it
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)


@contextmanager
def prepared(home: Path, api: Mapping[str, str]) -> Iterator[None]:
    """Environment and current folder as Prefect shall find them, put back on leaving.

    Both belong to the whole process: run no other work in it meanwhile that relies on the current folder. Import
    Prefect inside, for it reads most settings once, when it is imported.

    Args:
        home: Absolute folder for what Prefect writes.
        api: How to reach the temporary server; empty if the environment names a running one.
    """
    make_home(home)
    before, folder = dict(os.environ), Path.cwd()
    wanted = {**without_prefect(before), **client_environment(home), **api}
    _replace(wanted)
    os.chdir(FOLDER)
    try:
        yield
    finally:
        _replace(before)
        os.chdir(folder)


def _replace(wanted: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)
