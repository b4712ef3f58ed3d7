"""A Prefect server for one run: started before it is needed, gone with the process that started it.

Prefect's own temporary server starts when the first flow is called, in a process that has by then imported the
server too, checks its schema on every start, and outlives a killed client. This one boots while the release is
planned, from a database made once, on a socket that is bound before the process exists - so there is no port to
guess, and a request sent too early waits instead of failing.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Self

from dprelease.errors import OrchestratorError
from dprelease.flows.server.settings import FOLDER, api_in_use, without_prefect

__all__ = ["HINT", "TemporaryServer"]

HINT = "`dprelease run --direct` runs the same steps without Prefect"
_START_TIMEOUT = 90.0
_STOP_TIMEOUT = 5.0


class TemporaryServer:
    """A context manager; entering it returns at once, :meth:`wait` returns when requests are answered.

    Where the environment names a running API, none is started, and ``api`` stays empty. Enter it in a thread that
    lives as long as the server shall: Linux ends the server with the thread that started it.
    :meth:`use` says where its database is.
    """

    def __init__(self) -> None:
        self.api: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._secret = f"dprelease:{os.urandom(24).hex()}"
        self._port = 0

    def __enter__(self) -> Self:
        if api_in_use():
            return self
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(128)
            self._port = listening.getsockname()[1]
            self._log = tempfile.TemporaryFile()
            self._process = self._spawn(listening.fileno())
        self.api = {
            "PREFECT_API_URL": f"http://127.0.0.1:{self._port}/api",
            "PREFECT_API_AUTH_STRING": self._secret,
            "PREFECT_CLIENT_MAX_RETRIES": "1",  # if it is gone, it stays gone
            # A proxy of the environment is not for this machine.
            "NO_PROXY": ",".join(filter(None, (os.environ.get("NO_PROXY", ""), "127.0.0.1"))),
            "no_proxy": ",".join(filter(None, (os.environ.get("no_proxy", ""), "127.0.0.1"))),
        }
        return self

    def _spawn(self, listening: int) -> subprocess.Popen[bytes]:
        # -P: the current folder is not where modules come from. Its own session: Ctrl-C in the terminal is for the
        # run, which still reports to the server while it stops.
        command = [sys.executable, "-P", "-m", "dprelease.flows.server.child", str(listening), str(os.getpid())]
        return subprocess.Popen(  # noqa: S603  (our own interpreter and module; no text of a spec in it)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            cwd=FOLDER,
            env=without_prefect(os.environ),
            pass_fds=(listening,),
            start_new_session=True,
        )

    def use(self, home: Path) -> None:
        """Say where the database is; the server has begun to load without it."""
        if self._process is None or self._process.stdin is None:
            return
        orders = {"home": str(home.resolve()), "secret": self._secret}
        try:
            self._process.stdin.write(json.dumps(orders).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed() from None

    def wait(self) -> None:
        """Return when the server answers.

        Raises:
            OrchestratorError: If it ended, or did not answer in 90 seconds.
        """
        if self._process is None:
            return
        deadline = time.monotonic() + _START_TIMEOUT
        while (left := deadline - time.monotonic()) > 0:
            if self._answers(left):
                return
            if self._process.poll() is not None:
                raise self._failed()
            time.sleep(0.05)
        raise OrchestratorError(
            f"Prefect's server did not answer within {_START_TIMEOUT:.0f} seconds", hint=HINT, code="DPR-O101"
        )

    def _answers(self, timeout: float) -> bool:
        # The socket listens already: the request waits in its queue until the server takes it.
        token = base64.b64encode(self._secret.encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=timeout)
        try:
            connection.request("GET", "/api/health", headers={"Authorization": f"Basic {token}"})
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _failed(self) -> OrchestratorError:
        if self._process is not None:
            self._process.wait(_STOP_TIMEOUT)
        last = ""
        if self._log:
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            last = lines[-1][:300] if lines else ""
        return OrchestratorError("Prefect's server could not be started", detail=last, hint=HINT, code="DPR-O100")

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdin:
                self._process.stdin.close()
        if self._log:
            self._log.close()
