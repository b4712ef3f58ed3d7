"""Where a ledger is, who asks and when: folders, the clock and the name of this process."""

from __future__ import annotations

import getpass
import os
import socket
import stat
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from dprelease.errors import LedgerError
from dprelease.ledger.model.balance import Actor
from dprelease.version import __version__

__all__ = ["cannot_use", "forgotten_by_children", "make_folder", "require_owner", "this_process", "utc_now", "utc_text"]


def utc_now() -> datetime:
    """The time, for the record; nothing is ever ordered by it."""
    return datetime.now(UTC)


def utc_text(moment: datetime) -> str:
    """ISO text in UTC to the second: ``2024-03-07T05:06:07Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def this_process(command: str = "") -> Actor:
    """Who runs this process, where, with which version, and what."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.geteuid())
    return Actor(user=user, host=socket.gethostname(), process=os.getpid(), version=__version__, command=command)


class _Forgettable(Protocol):
    def forget(self) -> None: ...


def forgotten_by_children(held: Collection[_Forgettable]) -> None:
    """Let every forked child forget what is held at that time; a process has one such hook for each collection."""

    def forget_all() -> None:
        for each in tuple(held):
            each.forget()

    os.register_at_fork(after_in_child=forget_all)


def cannot_use(path: Path, why: str) -> LedgerError:
    """The error for a place that cannot hold a ledger."""
    return LedgerError(
        f"the ledger {path} cannot be used: {why}",
        hint="it must be a file of yours in a writable folder on a disk of this host; see `ledger:` in dprelease.yaml",
        code="DPR-L140",
    )


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, for this user alone (0700).

    Raises:
        LedgerError: If it cannot be created or is not a folder.
    """
    try:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise cannot_use(folder, str(error.strerror)) from error
    if not folder.is_dir():
        raise cannot_use(folder, "it is not a folder")


def require_owner(path: Path) -> os.stat_result | None:
    """Facts of the file if it exists; None where there is none.

    Raises:
        LedgerError: If it is not a regular file, or belongs to somebody else: what one user writes there
            another could then not read.
    """
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise cannot_use(path, str(error.strerror)) from error
    if not path.is_file():
        raise cannot_use(path, "it is not a file")
    if facts.st_uid != os.geteuid():
        raise cannot_use(path, f"it belongs to user {facts.st_uid}, and this process is user {os.geteuid()}")
    _require_unshared(path, facts.st_mode, path.parent.stat().st_mode)
    return facts


def _require_unshared(path: Path, mode: int, folder: int) -> None:
    """Refuse a file that others can write, or replace.

    The chain is not signed: whoever can write the file can write another one that adds up, and spend again.
    """
    sticky = folder & stat.S_ISVTX  # of such a folder nobody can remove what is another user's
    if mode & 0o022:
        why, hint = f"others can write it (mode {stat.S_IMODE(mode):04o})", f"chmod 600 {path}"
    elif folder & 0o022 and not sticky:
        why = f"others can replace it (mode {stat.S_IMODE(folder):04o} of its folder)"
        hint = f"chmod 700 {path.parent}"
    else:
        return
    raise LedgerError(
        f"the ledger {path} is not yours alone: {why}",
        detail="whoever can change it can take back what was spent, and have a second answer drawn",
        hint=f"`dprelease ledger check` once it is closed to them: {hint}",
        code="DPR-L181",
    )
