"""What a test has started ends with it, however it ends: a server that outlives its test would meet the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.keeper import below
from tests.e2e.prefect_server import Started
from tests.project import environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

ROOT = Path(__file__).resolve().parents[2]
# A process that starts another one in a session of its own, and may be gone before it.
ORPHAN = """import os, sys, time
if os.fork():
    time.sleep(float(sys.argv[1]))
    os._exit(0)
os.setsid()
with open("orphan", "w") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""
TEST = """import signal, sys, time
from pathlib import Path
from tests.e2e.prefect_server import Household
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background are made to ignore it
with Household(Path(sys.argv[1]) / "house") as house:
    house.start("it", "orphan", sys.argv[2], variables={"PYTHONPATH": sys.argv[1]})
    time.sleep(600)
"""


def wait(what: str, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("lasts", ["0", "600"])
def test_what_a_test_has_started_is_gone_with_it(tmp_path: Path, number: signal.Signals, lasts: str) -> None:
    (tmp_path / "orphan.py").write_text(ORPHAN)
    test = subprocess.Popen(
        [sys.executable, "-c", TEST, str(tmp_path), lasts],
        cwd=ROOT,
        env=environment(),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    told = tmp_path / "house" / "orphan"
    try:
        wait("a keeper", lambda: bool(below(test.pid)))
        keeper = below(test.pid)[0]
        wait("the orphan", lambda: told.exists() and told.read_text().endswith("\n"))
        orphan = int(told.read_text())
        wait("its parent's end", lambda: lasts == "600" or below(keeper) == [orphan])
        started = below(keeper)
        assert orphan in started
    finally:
        os.killpg(test.pid, number)  # as a terminal does it, and `timeout`
        test.wait(30)
    wait("the end of all", lambda: not any(Started(each, tmp_path).alive for each in (keeper, *started)))
