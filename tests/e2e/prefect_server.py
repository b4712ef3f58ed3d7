"""A real Prefect server that lasts: killed, started again on the same port and database; and what is run beside it.

Everything is in one folder and on the loopback; nothing outlives the test (see ``keeper``). Linux only.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dprelease.flows.server.child import copy, empty_database, provide
from dprelease.flows.server.settings import make_home
from tests.e2e.keeper import below
from tests.project import environment

__all__ = ["Household", "Started", "Stopped", "prepare"]

_ROOT = Path(__file__).resolve().parents[2]
_START_TIMEOUT = 90.0
_POLL = 0.4


class Stopped(AssertionError):
    """What was waited for did not come."""


@dataclass(frozen=True)
class Started:
    """A process of the household; its output and errors are in ``log``."""

    process: int
    log: Path

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        try:
            return "\nState:\tZ" not in Path(f"/proc/{self.process}/status").read_text()
        except OSError:
            return False


def _words(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


class Household:
    """A server, its database, and the processes that a test starts beside it. A context manager.

    Args:
        folder: For everything that Prefect writes, and for the logs.
        level: Prefect's log level in all processes that ask for none of their own.
    """

    def __init__(self, folder: Path, level: str = "WARNING") -> None:
        self.folder, self.home, self.logs = folder, folder / "prefect", folder / "logs"
        self.temporary = folder / "tmp"
        self._without = folder / "without"
        for each in (self.home, self.logs, self.temporary, self._without):
            each.mkdir(parents=True)
        # jsonschema looks whether something checks international addresses, of which no schema here has any: it loads a
        # grammar, two seconds of the five that every process of Prefect takes to begin.
        (self._without / "rfc3987_syntax.py").write_text("raise ImportError('done without')\n", encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.api = f"http://127.0.0.1:{self.port}/api"
        self.database = self.home / "prefect.db"
        self.secret = ""  # USER:PASSWORD, where the server wants one
        self._level = level
        self._lasting: list[Started] = []
        self._keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.e2e.keeper"],
            cwd=_ROOT,
            env={**environment(), "PYTHONPATH": str(_ROOT)},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the test alone
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._keeper.communicate(timeout=60)

    def environment(self, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        """Of the server and of everything that talks to it."""
        given = variables or {}
        return {
            **environment(),
            "DO_NOT_TRACK": "1",
            "NO_PROXY": "127.0.0.1",
            "OPENBLAS_NUM_THREADS": "1",
            "PREFECT_API_URL": self.api,
            "PREFECT_HOME": str(self.home),
            "PREFECT_LOGGING_LEVEL": self._level,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "TMPDIR": str(self.temporary),
            **given,
            "PYTHONPATH": f"{self._without}{os.pathsep}{given.get('PYTHONPATH', _ROOT)}",
        }

    def start(
        self,
        name: str,
        *words: str,
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
        lasting: bool = True,
    ) -> Started:
        """Start a Python module with its words; it is killed at the end of the test at the latest.

        Args:
            name: Of its log.
            words: The module and its arguments.
            folder: Where it starts.
            variables: Of its environment, beside those that all have.
            lasting: Whether to wait for anything makes sense only while it runs.
        """
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        log = self.logs / f"{name}.log"
        order = {
            "words": [sys.executable, "-m", *words],
            "folder": str(folder or self.folder),
            "environment": self.environment(variables),
            "log": str(log),
        }
        self._keeper.stdin.write(json.dumps(order) + "\n")
        self._keeper.stdin.flush()
        started = Started(int(self._keeper.stdout.readline()), log)
        if lasting:
            self._lasting.append(started)
        return started

    def finish(
        self,
        name: str,
        *words: str,
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
        told: str | None = None,
        code: int = 0,
    ) -> str:
        """Run a Python module to its end, which must be ``code``; its output and errors, also in its log."""
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder or self.folder,
            env=self.environment(variables),
            input=told,
            stdin=subprocess.DEVNULL if told is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        with open(self.logs / f"{name}.log", "a", encoding="utf-8") as log:
            log.write(done.stdout)
        assert done.returncode == code, f"{name} ended with {done.returncode}:\n{done.stdout[-4000:]}"
        return done.stdout

    def at_work(self) -> list[int]:
        """The processes of flow runs that are under way, whoever started them."""
        return [each for each in below(self._keeper.pid) if "prefect.engine" in _words(each)]

    def until(self, what: str, true: Callable[[], Any], timeout: float = 120.0) -> Any:
        """Wait for something, and return it; as long as all lives that is to last.

        Raises:
            Stopped: It did not come in time, or cannot come any more.
        """
        deadline = time.monotonic() + timeout
        while not (found := true()):
            for each in self._lasting:
                if not each.alive:
                    said = each.log.read_text(errors="replace")[-4000:]
                    raise Stopped(f"{what}: {each.log.stem} has ended, and said last:\n{said}")
            if time.monotonic() > deadline:
                raise Stopped(f"{what}: not within {timeout:.0f} seconds; see {self.logs}")
            time.sleep(_POLL)  # longer than it could be: what is asked often costs the server a core
        return found

    def kill(self, started: Started, number: int = signal.SIGKILL, timeout: float = 60.0) -> None:
        """Send a signal to a process, and wait for its end."""
        self._lasting = [each for each in self._lasting if each != started]
        with contextlib.suppress(ProcessLookupError):
            os.kill(started.process, number)
        self.until(f"the end of {started.log.stem}", lambda: not started.alive, timeout)

    # The server.

    def serve(self, empty: Path, variables: Mapping[str, str] | None = None) -> Started:
        """Start the server, or start it again, as ``prefect server start`` does; returns when it answers.

        Args:
            empty: Folder for the database that no run was written to; kept for the next one.
            variables: Further settings of the server.
        """
        provide(self.database, _made(empty))
        server = self.start(
            "server",
            *("prefect", "server", "start", "--host", "127.0.0.1", "--port", str(self.port), "--no-ui"),
            variables={
                "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{self.database}",
                "PREFECT_API_DATABASE_MIGRATE_ON_START": "false",  # it is of this very version
                "PREFECT_SERVER_LOGGING_LEVEL": self._level,
                # Whole seconds: Prefect cuts a fraction to 0, and its recorder then spins.
                "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
                **(variables or {}),
            },
        )
        self.until("an answer of the server", self._answers, _START_TIMEOUT)
        return server

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("GET", "/health") is True
        return False

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What the API answers; asked again, as Prefect's client does, when its database was busy.

        Raises:
            OSError, http.client.HTTPException: It does not.
        """
        text = None if body is None else json.dumps(body)
        deadline = time.monotonic() + _START_TIMEOUT
        while True:
            with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
                headers = {"Content-Type": "application/json"}
                if self.secret:
                    headers["Authorization"] = f"Basic {base64.b64encode(self.secret.encode()).decode()}"
                connection.request(method, f"/api{path}", body=text, headers=headers)
                answer = connection.getresponse()
                said = answer.read()
            if answer.status != http.client.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
                assert answer.status < 300, f"{method} {path}: {answer.status} {said[:2000]!r}"
                return json.loads(said) if said else None
            time.sleep(_POLL)

    def runs(self, **states: object) -> list[dict[str, Any]]:
        """All flow runs that the server knows but those that are only planned, the earliest first."""
        kinds = ["SCHEDULED"] if not states else []
        found: list[dict[str, Any]] = self.ask(
            "POST",
            "/flow_runs/filter",
            {
                "sort": "EXPECTED_START_TIME_ASC",
                "limit": 200,
                "flow_runs": {"state": {"type": {"not_any_": kinds}}} if kinds else states,
            },
        )
        return found

    def query(self, sql: str) -> list[Any]:
        """Rows of Prefect's database."""
        with closing(sqlite3.connect(self.database)) as database:
            return database.execute(sql).fetchall()


def prepare(home: Path, empty: Path) -> None:
    """Make a home as every run but its first one finds it: with the empty database, which takes seconds to make.

    What a first run does is tried in ``test_flow.py``.
    """
    make_home(home)
    copy(_made(empty), empty_database(home))


def _made(empty: Path) -> Path:
    """A database of the installed version, made once for all tests at work."""
    made = empty_database(empty)
    with open(empty / "lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            lean = "import sys; from dprelease.lean_imports import LeanImports; sys.meta_path.insert(0, LeanImports())"
            code = f"{lean}; from pathlib import Path; from dprelease.flows.server.child import _make_empty"
            subprocess.run(
                [sys.executable, "-c", f"{code}; _make_empty(Path(sys.argv[1]))", str(made)],
                env={**environment(), "PREFECT_HOME": str(empty), "DO_NOT_TRACK": "1"},
                cwd=_ROOT,
                check=True,
                timeout=180,
            )
    return made
