"""Locks that the kernel frees when their holder dies: of a release, and the turn of a writer."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Self
from weakref import WeakSet

from dprelease.canonical import dumps, fingerprint
from dprelease.errors import LedgerError, Locked
from dprelease.ledger.model.process import forgotten_by_children, make_folder, utc_now
from dprelease.ledger.model.store import Holder, Lock

__all__ = ["ReleaseLock", "break_lock", "file_holders", "turn"]


class _OpenFile:
    """An open file, or folder, whose lock ends when it is closed."""

    _file: int | None = None

    def forget(self) -> None:
        """Close it: frees the lock in the process that took it, and changes nothing in a forked child."""
        file, self._file = self._file, None
        _HELD.discard(self)
        if file is not None:
            os.close(file)


class ReleaseLock(_OpenFile, Lock):
    """An ``flock`` on a file beside the ledger, which says who holds it.

    So it ends with the process however that dies, and a file left behind locks nothing.

    Args:
        folder: Where lock files are; created (0700) where it is missing.
        release: Name of the release.
        period: Its period; only its hash reaches the file's name.
        doing: As of `Lock`.
        clock: As of `Lock`.
    """

    def __init__(
        self, folder: Path, release: str, period: str, doing: str, clock: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__(release, period, doing, clock)
        self.path = Path(os.path.abspath(folder)) / f"release-{fingerprint([release, period])[:32]}.lock"

    def acquire(self) -> None:
        """Take the lock."""
        make_folder(self.path.parent)
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(file, 0)
            os.pwrite(file, dumps(self._description()).encode(), 0)
        except BlockingIOError:
            holder = self._holder(file)
            os.close(file)
            raise holder from None
        except OSError as error:
            os.close(file)
            raise self._unusable(error) from error
        self._file = file
        _HELD.add(self)

    def release(self) -> None:
        """Free the lock; again does nothing."""
        if self._file is not None:
            # The file stays: unlinking it would let a third process lock a new file beside a waiting second.
            with contextlib.suppress(OSError):  # an undescribed lock is still a lock; what counts is the close
                os.ftruncate(self._file, 0)
            # Said aloud, not left to the close: a child forked a moment ago may still hold the same open file.
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self.forget()

    def _holder(self, file: int) -> Locked:
        who = "another process, which has not said yet what it does"
        with contextlib.suppress(ValueError, KeyError, TypeError):  # half-written words: it is locked all the same
            facts = json.loads(os.pread(file, 4096, 0))
            who = f"process {facts['process']} on {facts['host']} since {facts['since']}, doing: {facts['doing']}"
        return Locked(
            f"{self._release} {self._period} is held by {who}",
            hint="wait for it, or end it: `dprelease ledger unlock` asks first; a dead process holds nothing",
        )

    def _unusable(self, error: OSError) -> LedgerError:
        return LedgerError(
            f"the lock file {self.path} cannot be used: {error.strerror}",
            hint="the ledger's folder must be yours, writable, and on a disk of this host",
            code="DPR-L140",
        )


@contextmanager
def turn(folder: Path, patience: float) -> Iterator[bool]:
    """Wait in line among those who write in a folder; the kernel wakes them one by one, in the order they came.

    A courtesy, on which nothing rests: a database lets one writer in, whoever that is, and of many who poll for it some
    are let in again and again and others never. So whoever has waited too long, or is in a folder that cannot be
    locked, goes on without a turn. It is an ``flock`` on the folder itself, which makes no file, and ends with its
    holder however that dies. Those who only read need no turn.

    Args:
        folder: That the database is in.
        patience: Seconds after which one goes on without: the holder may be stopped.

    Yields:
        Whether it is one's turn.
    """
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    mine = _Turn(file)
    try:
        yield mine.take(patience)
    finally:
        mine.leave()


class _Turn(_OpenFile):
    """One place in the line; ``file`` is the open folder, which this closes."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._mutex = threading.Lock()
        self._waits = self._left = self._mine = False
        _HELD.add(self)

    def take(self, patience: float) -> bool:
        """Wait; whether the turn came."""
        if self._file is None:
            return False
        with contextlib.suppress(OSError):  # a file system without such locks
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._mine = True
            except BlockingIOError:
                self._stand(self._file, patience)
        return self._mine

    def _stand(self, file: int, patience: float) -> None:
        # The kernel's line knows no end of patience, so that another thread stands in it.
        waiting = threading.Thread(target=self._wait, args=(file,), daemon=True)
        self._waits = True
        try:
            waiting.start()
        except RuntimeError:  # there are too many threads, or the interpreter is about to end
            self._waits = False
        else:
            waiting.join(patience)

    def _wait(self, file: int) -> None:
        came = False
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
            came = True
        with self._mutex:
            self._waits, self._mine = False, came and not self._left
            if self._left:
                self._close()

    def leave(self) -> None:
        """Let the next one in; a turn that never came is given away as soon as it comes."""
        with self._mutex:
            self._left = True
            if not self._waits:
                self._close()

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                # Said aloud: a child forked a moment ago may still hold the same open folder.
                fcntl.flock(self._file, fcntl.LOCK_UN)
        self.forget()


# A forked child shares the open file, and would keep the lock alive after its parent is gone.
_HELD: WeakSet[_OpenFile] = WeakSet()
forgotten_by_children(_HELD)


def file_holders(folder: Path) -> tuple[Holder, ...]:
    """What the lock files of a folder say; ``alive`` where the lock is really held now.

    Words without a lock were left behind by a process that was killed: they lock nothing.
    """
    held = []
    for path in sorted(folder.glob("release-*.lock")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # half-written words describe nobody
            held.append(_read(path))
    return tuple(held)


class _Handle:
    """A process that can be ended, and no other one that gets its number; where the system has such handles (Linux)."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._file = os.pidfd_open(process) if hasattr(os, "pidfd_open") else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)

    def end(self) -> None:
        """Ask it to end.

        Raises:
            ProcessLookupError: It has ended.
            PermissionError: It belongs to another user.
        """
        if self._file is None:
            os.kill(self._process, signal.SIGTERM)
        else:
            signal.pidfd_send_signal(self._file, signal.SIGTERM)


def _read(path: Path) -> Holder:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        facts = json.loads(os.pread(file, 4096, 0))
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            held = False
        except BlockingIOError:
            held = True
    finally:
        os.close(file)
    words = {name: facts[name] for name in ("host", "process", "since", "doing")}
    return Holder(release=facts.get("release", ""), period=facts.get("period", ""), **words, alive=held)


def break_lock(folder: Path, holder: Holder) -> None:
    """End the process that holds a lock on this host; nothing where it is gone already.

    Between the question and the answer it may have ended, and its number have been given to another process. So the
    lock is looked at once more, now, and the process is ended through a handle that is taken before that: while the
    lock is held in the words that the question told, the number is that of its holder, and a handle never moves to
    another process.

    Args:
        folder: The lock files' folder.
        holder: As it was told.

    Raises:
        LedgerError: It runs on another host, belongs to another user, or is not the one that was told.
    """
    if not holder.alive:
        return
    if holder.host != socket.gethostname():
        raise LedgerError(
            f"process {holder.process} runs on {holder.host}, and this is {socket.gethostname()}",
            hint="end it there; its lock ends with it",
            code="DPR-L145",
        )
    try:
        with _Handle(holder.process) as process:
            now = [
                each for each in file_holders(folder) if (each.release, each.period) == (holder.release, holder.period)
            ]
            if not any(each.alive for each in now):
                return  # it has ended by itself
            if holder not in now:
                raise LedgerError(
                    f"the lock of {holder.release}/{holder.period} is not held by process {holder.process} any more",
                    detail="it was freed, and taken by another one, since you were asked; nothing was ended",
                    hint="the same command asks about that one",
                    code="DPR-L182",
                )
            process.end()
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise LedgerError(
            f"process {holder.process} belongs to another user",
            hint="ask that user to end it, or whoever keeps this host",
            code="DPR-L145",
        ) from error
