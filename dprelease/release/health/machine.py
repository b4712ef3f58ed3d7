"""Can this machine keep what a project promises? Its folders, keys, ledger, anchors, clock, locks and disk."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from dprelease.errors import DpReleaseError
from dprelease.ledger import Ledger
from dprelease.release.data.sources import SourceKey
from dprelease.release.health.condition import Condition
from dprelease.release.project import Project

__all__ = ["machine"]

_LITTLE = 1 << 30  # bytes: a large release with its pages takes some hundred MiB
_FAR = 60.0  # seconds between this machine's clock and that of a disk, or the newest entry of the ledger


def machine(project: Project, environment: Mapping[str, str], now: datetime) -> Iterator[Condition]:
    """What can be told of one project without reading its data; errors of ours are findings, not errors.

    Args:
        project: The project.
        environment: What ``${env:NAME}`` in its settings may name.
        now: The time by this machine's clock.
    """
    parts: tuple[tuple[str, Callable[[], Iterator[Condition]]], ...] = (
        ("releases", lambda: _folder("releases", project.releases, now)),
        ("source key", lambda: _source_key(project)),
        ("signing key", lambda: _signing_key(project, environment)),
        ("ledger", lambda: _ledger(project, now)),
    )
    for about, found in parts:
        try:
            yield from found()
        except DpReleaseError as error:
            yield Condition(about, "wrong", f"{error.code} {error.summary}", error.hint)
        except OSError as error:
            yield Condition(about, "wrong", error.strerror or type(error).__name__)


def _folder(about: str, folder: Path, now: datetime) -> Iterator[Condition]:
    """Whether files can be made in a folder, whether locks hold and its clock is ours, and how much room is left."""
    there = _nearest(folder)
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".dprelease-doctor") as made:
            written = datetime.fromtimestamp(os.fstat(made.fileno()).st_mtime, UTC)
            locks = _locks_hold(Path(made.name))
    except OSError as error:
        why = error.strerror or type(error).__name__
        yield Condition(about, "wrong", f"no file can be made in {there}: {why}", f"give this user the folder {folder}")
        return
    yield Condition(about, "good", f"{folder} can be written to")
    if not locks:
        hint = "keep it on a local disk, or on a network file system whose locks work (NFS 4)"
        yield Condition(about, "wrong", f"locks of files do not hold in {there}", hint)
    away = abs((written - now).total_seconds())
    if away > _FAR:
        hint = "set the clock of both machines by NTP"
        yield Condition("clock", "wrong", f"the disk of {there} is {away:.0f} seconds away from this clock", hint)
    left = shutil.disk_usage(there).free
    room = f"{left / 2**30:.1f} GiB are free in {there}"
    few = left < _LITTLE
    yield Condition("disk", "wrong" if few else "good", room, "make room before a release needs it" if few else "")


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists: a release makes what is missing."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _locks_hold(file: Path) -> bool:
    """Whether a second handle on a locked file is refused the lock."""
    with file.open("rb") as first, file.open("rb") as second:
        try:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    return False


def _source_key(project: Project) -> Iterator[Condition]:
    path = project.source_key
    if not path.exists():
        hint = "the first release makes it; on a further host, copy that of the first one"
        yield Condition("source key", "note", f"{path} is not there yet", hint)
        return
    key = SourceKey.of(path, (project.releases,))
    yield Condition("source key", "good", f"{path}, named {key.id}: the same on every host of this ledger")


def _signing_key(project: Project, environment: Mapping[str, str]) -> Iterator[Condition]:
    key = project.signing_key(environment)
    if key is None:
        hint = "`dprelease keys new FILE` makes one; name it in dprelease.yaml: `signing_key:`"
        yield Condition("signing key", "note", "none is named: releases are not signed", hint)
    else:
        yield Condition("signing key", "good", f"its public key has the fingerprint {key.public.fingerprint}")


def _ledger(project: Project, now: datetime) -> Iterator[Condition]:
    ledger = project.open_ledger()
    try:
        yield from _file_of(ledger, now)
        if not ledger.exists:
            hint = "the first release makes it; where there was one, put it back from a backup first"
            yield Condition("ledger", "note", f"{ledger.place} is not there yet", hint)
            return
        newest = max((each.reserved_at for each in ledger.reservations()), default="")
        yield Condition("ledger", "good", f"{ledger.place} can be read; `dprelease ledger check` reads all of it")
        ahead = (datetime.fromisoformat(newest) - now).total_seconds() if newest else 0.0
        if ahead > _FAR:
            says = f"the newest release was reserved {ahead:.0f} seconds in the future of this clock"
            yield Condition("clock", "wrong", says, "set the clock by NTP: periods are due by it")
        for text in ledger.warnings(every=True):
            yield Condition("anchor", "note", text)
        yield from _anchors(project, ledger)
    finally:
        ledger.disconnect()


def _file_of(ledger: Ledger, now: datetime) -> Iterator[Condition]:
    """Of a ledger that is a file: its folder, and who else can reach it."""
    folder = ledger.folder
    if folder is None:
        return
    yield from _folder("ledger", folder, now)
    if not folder.is_dir():
        return
    open_to = [path for path in chain([folder], sorted(folder.glob("ledger.db*"))) if _mode(path) & 0o077]
    for path in open_to:
        says = f"others can reach {path} (mode {_mode(path):04o}): it holds the keys of open releases"
        yield Condition("ledger", "wrong", says, f"chmod {'700' if path.is_dir() else '600'} {path}")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _anchors(project: Project, ledger: Ledger) -> Iterator[Condition]:
    """Whether an anchor is on another disk than the ledger: what is put back with it says nothing."""
    paths = [project.folder / each for each in (*project.settings.anchors, *project.settings.shared_anchors)]
    if not paths:
        hint = "write `anchors: [/elsewhere/head.json]` in dprelease.yaml, on another disk than the ledger"
        yield Condition("anchor", "wrong", "none is named: a ledger that lost its end would look whole", hint)
        return
    if ledger.folder is None:
        return
    own = _nearest(ledger.folder).stat().st_dev
    if all(_nearest(path.parent).stat().st_dev == own for path in paths):
        hint = "name a second one on another disk in `anchors:` of dprelease.yaml"
        says = "every anchor is on the ledger's own disk: a snapshot of it takes back both"
        yield Condition("anchor", "note", says, hint)
    else:
        yield Condition("anchor", "good", "one is on another disk than the ledger")
