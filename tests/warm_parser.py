"""The parser of statistical files and workbooks without the third of a second of its imports.

A warm process has ``parser.py`` and all that it imports, and forks a child for each file. That child gets the same open
file, the same words, limits of its own, and ends with the same code or signal as a process from scratch, which is tried
in ``unit/test_statistical_sources.py``. What the parser's parent starts in its place is a script of a few lines, which
hands its streams to the warm process and ends as the child has ended.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from dprelease.engines.files.statistical import process

__all__ = ["warm_parser"]

_ROOT = Path(__file__).resolve().parents[1]
_PARSER = _ROOT / "dprelease" / "engines" / "files" / "statistical" / "parser.py"
_IMPORTED = ("pyarrow", "pyreadstat", "python_calamine")
_LONGEST = 1 << 16  # bytes of what is asked
_SCRIPT = """
import os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
    asked.connect(ADDRESS)
    socket.send_fds(asked, [chr(0).join(sys.argv[1:]).encode()], [0, 1])
    os.close(0)
    os.close(1)
    code = int(asked.recv(16))
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@pytest.fixture
def warm_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are parsed by children of the warm process."""
    monkeypatch.setattr(process, "_PARSER", _started())


@cache
def _started() -> Path:
    """The script that stands in for the parser; the warm process ends with this one."""
    folder = Path(tempfile.mkdtemp(prefix="parser-"))
    script, address = folder / "ask.py", folder / "asked"
    script.write_text(_SCRIPT.replace("ADDRESS", repr(str(address))), encoding="utf-8")
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm_parser", str(address)],
        cwd=_ROOT,
        env={"LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(server.communicate)
    assert server.stdout is not None
    assert server.stdout.readline() == b"listening\n"
    return script


def _serve(address: str) -> None:
    """Fork a child for everyone who asks, until whoever started this process has ended."""
    for name in _IMPORTED:
        importlib.import_module(name)
    parse: Callable[[], int] = runpy.run_path(str(_PARSER), run_name="parser")["main"]
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(address)
        listening.listen(16)
        print("listening", flush=True)
        children: set[int] = set()
        while not _can_read(0, listening.fileno()):
            asking, _ = listening.accept()
            if not (child := os.fork()):
                os._exit(_answer(asking, parse))
            asking.close()
            children = {each for each in children | {child} if os.waitpid(each, os.WNOHANG) == (0, 0)}
        for child in children:
            os.waitpid(child, 0)


def _answer(asking: socket.socket, parse: Callable[[], int]) -> int:
    """Become the parser in a child, and tell how it ended; where nobody waits any longer, it is killed."""
    words, streams, _, _ = socket.recv_fds(asking, _LONGEST, 2)
    if not (child := os.fork()):
        for stream, place in (*zip(streams, (0, 1), strict=True), (os.open(os.devnull, os.O_WRONLY), 2)):
            os.dup2(stream, place)
            os.close(stream)
        asking.close()
        sys.argv = [str(_PARSER), *words.decode().split("\0")]
        os._exit(parse())
    for stream in streams:
        os.close(stream)
    waits = _can_read(os.pidfd_open(child), asking.fileno())
    if not waits:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if waits:
        asking.send(str(os.waitstatus_to_exitcode(status)).encode())
    return 0


def _can_read(one: int, other: int) -> bool:
    """Whether it is the one of two descriptors that can be read first."""
    return one in select.select([one, other], [], [])[0]


if __name__ == "__main__":
    _serve(sys.argv[1])
