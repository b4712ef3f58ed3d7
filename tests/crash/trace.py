"""What a release writes, in order, as the kernel saw it: one run under ``strace``, read back as operations on files.

Writes to the shared memory of SQLite's log are not seen (they are no system calls), so that file is left out
everywhere: SQLite makes it again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.crash.child import Orders
from tests.project import environment

__all__ = ["Operation", "record", "why_not"]

_ROOT = Path(__file__).resolve().parents[2]
_CALLS = (
    "openat,open,creat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,rename,renameat,renameat2,link,linkat,unlink,unlinkat,"
    "rmdir,mkdir,mkdirat,fsync,fdatasync,lseek,copy_file_range,sendfile,fallocate"
)
# What no run does; were one to do it, the model would be wrong and must be told.
_UNKNOWN = ("writev", "pwritev", "pwritev2", "truncate", "creat", "copy_file_range", "sendfile", "fallocate", "open")
_CALL = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)(.*)$", re.DOTALL)
_HEX = re.compile(r"(?:\\x[0-9a-f]{2})+")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_FILE = re.compile(r"(\d+)<((?:\\x[0-9a-f]{2}|[^<>])*)>")

Kind = Literal["make", "folder", "write", "cut", "move", "link", "remove", "sync", "handed"]


@dataclass(frozen=True)
class Operation:
    """One change of a file or folder; ``path`` is absolute.

    Attributes:
        kind: ``make`` an empty file, make a ``folder``, ``write`` ``data`` at ``at``, ``cut`` to the size ``at``,
            ``move`` or ``link`` to ``to``, ``remove``, ``sync``; ``handed``: an answer was handed on.
        began: For a ``sync``: how many operations were complete when it began; only they are surely on the disk.
    """

    kind: Kind
    path: str
    at: int = 0
    data: bytes = b""
    to: str = ""
    began: int = 0


def why_not() -> str:
    """Why runs cannot be recorded here; empty if they can."""
    if sys.platform != "linux" or not (strace := shutil.which("strace")):
        return "strace is not installed"
    tried = subprocess.run([strace, "-f", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    return f"strace may not trace here: {tried.stderr.strip()[-200:]}" if tried.returncode else ""


def record(orders: Orders, folder: Path, file: Path) -> list[Operation]:
    """Run a release and tell every operation in a folder, and on the note of what was handed on.

    Raises:
        RuntimeError: The run failed, or it did what is not understood here.
    """
    command = [
        "strace",
        "-f",
        "-y",
        "-xx",
        "--seccomp-bpf",
        "-s",
        str(1 << 24),
        "-e",
        f"trace={_CALLS}",
        "-o",
        str(file),
    ]
    child = [sys.executable, "-m", "tests.crash.child", orders.text()]
    done = subprocess.run(
        [*command, *child], cwd=_ROOT, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the recorded run ended with {done.returncode}: {done.stderr[-2000:]}")
    with file.open(encoding="ascii", errors="replace") as lines:
        return _Reader(str(folder) + "/", orders.note).read(lines)


def _plain(text: str) -> str:
    return _HEX.sub(lambda found: bytes.fromhex(found[0].replace("\\x", "")).decode("utf-8", "replace"), text)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


class _Reader:
    """Turns lines into operations; knows where each open file is written next."""

    def __init__(self, folder: str, note: str) -> None:
        self._folder, self._note = folder, note
        self._found: list[Operation] = []
        self._next: dict[str, int | None] = {}  # by file number; None: at the end of the file
        self._begun: dict[str, tuple[str, int]] = {}

    def read(self, lines: Iterator[str]) -> list[Operation]:
        for line in lines:
            self._line(line.rstrip("\n"))
        return self._found

    def _line(self, line: str) -> None:
        thread = line.partition(" ")[0]
        began = len(self._found)
        if line.endswith("<unfinished ...>"):
            self._begun[thread] = (line.removesuffix("<unfinished ...>").rstrip(), began)
            return
        if resumed := re.match(r"^\d+ +<\.\.\. \w+ resumed>(.*)$", line, re.DOTALL):
            head, began = self._begun.pop(thread)
            line = head + resumed[1]
        if (found := _CALL.match(line)) and int(found[4]) >= 0:
            self._call(found[2], found[3], int(found[4]), found[5], began)

    def _ours(self, path: str) -> bool:
        inside = path.startswith(self._folder) or path == self._folder[:-1]
        return inside and not path.endswith(("-shm", " (deleted)"))

    def _call(self, name: str, told: str, result: int, behind: str, began: int) -> None:
        if name == "openat":
            self._open(told, f"{result}{behind}")
        elif name in ("write", "pwrite64", "ftruncate", "fsync", "fdatasync", "lseek"):
            self._on_file(name, told, result, began)
        elif name in ("rename", "renameat", "renameat2", "link", "linkat"):
            source, target = (_bytes(each[0]).decode() for each in _TEXT.findall(told))
            if self._ours(source) or self._ours(target):
                self._found.append(Operation("link" if "link" in name else "move", source, to=target))
        elif name in ("unlink", "unlinkat", "rmdir", "mkdir", "mkdirat"):
            path = self._named(told)
            if self._ours(path):
                self._found.append(Operation("folder" if name.startswith("mkdir") else "remove", path))
        elif name in _UNKNOWN and self._folder in _plain(told):
            raise RuntimeError(f"the release calls {name}, which is not understood here")

    def _named(self, told: str) -> str:
        """The path of a call that may be relative to an open folder."""
        (text, _), *_ = _TEXT.findall(told)
        path, folder = _bytes(text).decode(), _FILE.match(told)
        return path if path.startswith("/") or folder is None else f"{_plain(folder[2])}/{path}"

    def _open(self, told: str, opened: str) -> None:
        found = _FILE.match(opened)
        if found is None or not self._ours(path := _plain(found[2])):
            if found is not None:
                self._next[found[1]] = 0
            return
        self._next[found[1]] = None if "O_APPEND" in told else 0
        if "O_CREAT" in told:
            self._found.append(Operation("make", path))
        if "O_TRUNC" in told:
            self._found.append(Operation("cut", path))

    def _on_file(self, name: str, told: str, result: int, began: int) -> None:
        found = _FILE.match(told)
        if found is None:
            return
        number, path = found[1], _plain(found[2])
        if name == "lseek":
            self._next[number] = result if self._next.get(number, 0) is not None else None
        elif path == self._note and name == "write":
            self._found.append(Operation("handed", path, data=self._data(told, result)))
        elif not self._ours(path):
            return
        elif name == "ftruncate":
            self._found.append(Operation("cut", path, at=int(told.rpartition(",")[2])))
        elif name == "pwrite64":
            at = int(told.rpartition(",")[2])
            self._found.append(Operation("write", path, at=at, data=self._data(told, result)))
        elif name == "write":
            following = self._next.get(number, 0)
            self._found.append(
                Operation("write", path, at=-1 if following is None else following, data=self._data(told, result))
            )
            self._next[number] = None if following is None else following + result
        else:
            self._found.append(Operation("sync", path, began=began))

    def _data(self, told: str, size: int) -> bytes:
        (text, cut), *_ = _TEXT.findall(told)
        data = _bytes(text)[:size]
        if cut or len(data) != size:
            raise RuntimeError("strace has cut what was written")
        return data
