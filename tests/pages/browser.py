"""A headless browser for tests, over the two pipes of its remote debugging protocol: no driver, no WebSocket, no network.

Messages are JSON, each ended by a NUL (https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any

__all__ = ["CHROMIUM", "Browser", "opened"]

CHROMIUM = os.environ.get("CHROMIUM", "chromium")
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --remote-debugging-pipe"
)
_SECONDS = 120


class Browser:
    """One page of a running browser."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._rest, self._number = to, back, b"", 0
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", {"url": "about:blank"}, "")["targetId"]
        self._session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True}, "")["sessionId"]
        for domain in ("Page", "DOM", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, params: dict[str, Any] | None = None, session: str | None = None) -> dict[str, Any]:
        """Ask for something, and wait for the answer; what else is told meanwhile is kept in ``events``."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params or {}}
        if session is None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + _SECONDS
        while True:
            for found in self._heard(until):
                if found.get("id") == self._number:
                    assert "error" not in found, found
                    return dict(found["result"])
                self.events.append(found)

    def _heard(self, until: float) -> list[dict[str, Any]]:
        assert select([self._back], [], [], max(0, until - time.monotonic()))[0], "the browser does not answer"
        found = os.read(self._back, 1 << 20)
        assert found, "the browser has ended"
        *whole, self._rest = (self._rest + found).split(b"\0")
        return [json.loads(each) for each in whole]

    def value(self, expression: str) -> Any:
        """What an expression gives on the page."""
        found = self.send("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """What an expression gives, as soon as that is anything."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            if found := self.value(expression):
                return found
            time.sleep(0.02)
        raise AssertionError(f"never: {expression}")

    def open(self, page: Path) -> None:
        """Go to a page on disk, and wait for it; the page that was open is ready as well, and is not meant."""
        self.value("document.documentElement.dataset.left = 'yes'")
        self.send("Page.navigate", {"url": page.as_uri()})
        self.until("document.documentElement?.dataset.ready && !document.documentElement.dataset.left")

    def choose(self, selector: str, *paths: Path) -> None:
        """Choose files, or a folder, in an input."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
        self.send("DOM.setFileInputFiles", {"nodeId": node, "files": [*map(str, paths)]})


@contextmanager
def opened(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own.

    Args:
        folder: An empty folder for the profile.
    """
    program = shutil.which(CHROMIUM)
    assert program is not None
    theirs, to = os.pipe()
    back, answers = os.pipe()
    line = f'exec "$0" {_FLAGS} --user-data-dir="$1" 3<&{theirs} 4>&{answers}'
    running = subprocess.Popen(
        ["bash", "-c", line, program, str(folder)],
        pass_fds=(theirs, answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(theirs)
    os.close(answers)
    try:
        yield Browser(to, back)
    finally:
        os.close(to)
        os.close(back)
        os.killpg(running.pid, signal.SIGKILL)  # the group that was started here, and no other
        running.wait()
