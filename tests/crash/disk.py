"""A disk that loses power: what may be on it after the first n operations of a recorded run.

Two models. In order: every operation reaches the disk as it is made. Torn: a file's writes reach it surely only with
the next ``fsync`` of that file; until then each 512-byte sector of each write, and each change of its size, may be
there or not. Names (made, moved, removed) are kept in order, as a journaling file system does: up to the last
``fsync`` of any file or folder for sure, and any number of the later ones.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.trace import Operation

__all__ = ["Disk", "after", "lay_down", "snapshot"]

_SECTOR = 512


@dataclass
class _File:
    """``sure`` is on the disk; ``later`` are the writes since, each with the number of its operation."""

    sure: bytes = b""
    later: list[tuple[int, Operation]] = field(default_factory=list)

    def now(self) -> bytes:
        return _after(self.sure, (each for _, each in self.later))

    def sync(self, began: int) -> None:
        done = [each for number, each in self.later if number < began]
        self.sure = _after(self.sure, done)
        self.later = [(number, each) for number, each in self.later if number >= began]

    def torn(self, chosen: random.Random) -> bytes:
        kept = bytearray(self.sure)
        odds = chosen.choice((0.0, 0.5, 0.9))
        size = len(kept)
        for _, each in self.later:
            if each.kind == "cut":
                if chosen.random() < odds:
                    del kept[each.at :]
                    kept.extend(bytes(each.at - len(kept)))
                continue
            at = size if each.at < 0 else each.at
            size = max(size, at + len(each.data))
            for begin in range(at - at % _SECTOR, at + len(each.data), _SECTOR):
                if chosen.random() < odds:
                    _put(kept, max(at, begin), each.data[max(0, begin - at) : begin + _SECTOR - at])
        return bytes(kept)


def _put(data: bytearray, at: int, what: bytes) -> None:
    data.extend(bytes(max(0, at - len(data))))
    data[at : at + len(what)] = what


def _after(data: bytes, changes: Iterable[Operation]) -> bytes:
    made = bytearray(data)
    for each in changes:
        if each.kind == "cut":
            del made[each.at :]
            made.extend(bytes(each.at - len(made)))
        else:
            _put(made, len(made) if each.at < 0 else each.at, each.data)
    return bytes(made)


Names = dict[str, _File | None]  # None: a folder


class Disk:
    """What lies on the disk while the operations of a run are made, one after the other.

    Args:
        before: Path to content of everything that was there before; None for a folder.
    """

    def __init__(self, before: dict[str, bytes | None]) -> None:
        self._names: Names = {path: None if data is None else _File(data) for path, data in before.items()}
        self._sure: Names = dict(self._names)
        self._later: list[tuple[int, Operation, _File | None]] = []
        self.handed: list[bytes] = []

    def do(self, number: int, operation: Operation) -> None:
        """Make the operation with this number."""
        kind, path = operation.kind, operation.path
        if kind == "handed":
            self.handed.append(operation.data)
        elif kind in ("write", "cut"):
            if (file := self._names.get(path)) is not None:
                file.later.append((number, operation))
        elif kind == "sync":
            if (file := self._names.get(path)) is not None:
                file.sync(operation.began)
            while self._later and self._later[0][0] < operation.began:
                _, done, made = self._later.pop(0)
                _rename(self._sure, done, made)
        elif kind != "make" or path not in self._names:
            made = _File() if kind == "make" else None
            _rename(self._names, operation, made)
            self._later.append((number, operation, made))

    def in_order(self) -> dict[str, bytes | None]:
        """Every operation has reached the disk."""
        return {path: None if file is None else file.now() for path, file in self._names.items()}

    def torn(self, chosen: random.Random) -> dict[str, bytes | None]:
        """One of the states that losing power now may leave."""
        names = dict(self._sure)
        for _, operation, made in self._later[: chosen.randint(0, len(self._later))]:
            _rename(names, operation, made)
        return {path: None if file is None else file.torn(chosen) for path, file in names.items()}


def _rename(names: Names, operation: Operation, made: _File | None) -> None:
    kind, path = operation.kind, operation.path
    if kind in ("make", "folder"):
        names[path] = made
    elif kind == "remove":
        names.pop(path, None)
    elif path in names:
        for old in [each for each in names if each == path or each.startswith(path + "/")]:
            names[operation.to + old[len(path) :]] = names[old]
            if kind == "move":
                del names[old]


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """What lies in a folder, itself included; without the shared memory of SQLite's log."""
    found: dict[str, bytes | None] = {str(folder): None}
    for each in sorted(folder.rglob("*")):
        if not each.name.endswith("-shm"):
            found[str(each)] = None if each.is_dir() else each.read_bytes()
    return found


def lay_down(folder: Path, files: dict[str, bytes | None]) -> None:
    """Make a folder hold exactly these files, for their owner alone."""
    shutil.rmtree(folder)
    for path, data in sorted(files.items()):
        if data is None:
            Path(path).mkdir(mode=0o700, exist_ok=True)
        elif Path(path).parent.is_dir():  # else its folder was not on the disk yet
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)


def after(before: dict[str, bytes | None], operations: Sequence[Operation], count: int) -> Disk:
    """The disk when the first ``count`` operations are made."""
    disk = Disk(before)
    for number, operation in enumerate(operations[:count]):
        disk.do(number, operation)
    return disk
