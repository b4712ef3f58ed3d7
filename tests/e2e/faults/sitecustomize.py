"""Python imports this at its start where a test has put this folder on ``PYTHONPATH``: what goes wrong, and where.

A test writes ``FOLDER/POINT`` (FOLDER is in ``DPRELEASE_TEST_FAULTS``, POINT one of ``dprelease.failpoints``) with JSON in
it; the first process that reaches the point takes the order, so that it is obeyed once:

``{"do": "raise", "text": TEXT}``  an error that nobody expects, with TEXT in it, in its cause and beside it
``{"do": "kill"}``                 this process is gone
``{"do": "full"}``                 from now on no file of this process can grow
``{"do": "wait"}``                 wait until ``FOLDER/POINT.go`` is there

Of an order that was taken, ``FOLDER/POINT.taken`` holds the process id.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_FOLDER = os.environ.get("DPRELEASE_TEST_FAULTS", "")
_PATIENCE = 1800.0  # seconds; the test ends it all earlier


def _taken(order: Path) -> dict[str, Any] | None:
    """The order, if this process is the one that takes it."""
    mine = order.with_name(f"{order.name}.{os.getpid()}")
    try:
        order.rename(mine)  # of several, one succeeds
    except OSError:
        return None
    said: dict[str, Any] = json.loads(mine.read_text())
    mine.write_text(str(os.getpid()))
    mine.rename(order.with_name(f"{order.name}.taken"))
    return said


def _obey(said: dict[str, Any], order: Path) -> None:
    if said["do"] == "kill":
        os.kill(os.getpid(), 9)
    if said["do"] == "full":
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if said["do"] == "wait":
        deadline = time.monotonic() + _PATIENCE
        while not order.with_name(f"{order.name}.go").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
    if said["do"] == "raise":
        row = {"value": said["text"]}
        try:
            raise KeyError(row["value"])
        except KeyError as cause:
            raise ValueError(f"Could not convert string {row['value']!r} to INT32") from cause


def _hook(event: str, told: tuple[Any, ...]) -> None:
    if event == "dprelease.point":
        order = Path(_FOLDER, told[0])
        if (said := _taken(order)) is not None:
            _obey(said, order)


if _FOLDER:
    sys.addaudithook(_hook)
