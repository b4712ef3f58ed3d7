"""Writing a bundle: whole or not at all."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dprelease.errors import PublishError
from dprelease.failpoints import hit
from dprelease.publish.base import Publication
from dprelease.publish.manifest import MANIFEST_FILE, SIGNATURE_FILE, SUMS_FILE, SUMS_SIGNATURE_FILE, Manifest
from dprelease.publish.packed import blocks_of, size_in
from dprelease.regular import LARGEST_MANIFEST, read_regular

__all__ = ["files_in", "folder_for", "set_aside", "write"]

_FLUSHED = 64  # files that are open at a time: some systems allow a process 256, some of which are its own


def folder_for(releases: Path, release: str, period: str) -> Path:
    """Where a release's bundle lies; whatever the period is written as, the folder stays inside ``releases``.

    >>> folder_for(Path("releases"), "monitor", "2024-03").as_posix()
    'releases/monitor/2024-03'
    >>> folder_for(Path("releases"), "monitor", "../Q1").as_posix()
    'releases/monitor/%2E.%2FQ1'
    """
    return releases / _part(release) / _part(period)


def _part(text: str) -> str:
    plain = quote(text, safe=" ") or "%00"
    return "%2E" + plain[1:] if plain.startswith(".") else plain


def write(publication: Publication, folder: Path) -> None:
    """Write a bundle as a folder that is complete as soon as it can be seen.

    Files go to a new folder beside the target, are forced to disk, and are renamed into place in one step. A
    bundle with the same bytes is left alone. Another bundle of the same ledger entry is moved aside, replaced and
    deleted; a process that is killed between those two renames leaves no folder, and publishing again is free.

    Raises:
        PublishError: If the folder is a link or a file (DPR-W202), holds anything but a bundle of this release
            (DPR-W203), or cannot be written (DPR-W204).
    """
    hit("write.begun")
    try:
        _check_target(publication, folder)
        if _same(publication, folder):
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".dprelease-", suffix=".tmp", dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        _fill(publication, made)
        _swap(made, folder)
    except OSError as error:
        if _same(publication, folder):  # another process was faster with the same bundle
            return
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def set_aside(folder: Path, entry: str) -> None:
    """Keep the bundle of another ledger entry, which this release replaces, beside its old place; nothing if none is.

    It goes to ``<period>.superseded-<plan>``, whole and as it was published.

    Args:
        folder: The folder of the release.
        entry: The hash of the entry that charged it.

    Raises:
        PublishError: If it cannot be moved (DPR-W204).
    """
    old = _manifest_of(folder)
    if old is None or old.get("rehearsal") or _entry(old) == entry:
        return
    aside = folder.with_name(f"{folder.name}.superseded-{str(old.get('plan_fingerprint'))[:12]}")
    if aside.exists():
        aside = aside.with_name(f"{aside.name}-{_entry(old)[:12]}")
    try:
        folder.rename(aside)
        _sync(folder.parent)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _check_target(publication: Publication, folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise PublishError(
            f"{folder} is not a folder of its own",
            hint="move the link or file away, or publish elsewhere",
            code="DPR-W202",
        )
    if not folder.exists() or not any(folder.iterdir()):
        return
    new = Manifest.from_canonical(publication.files[MANIFEST_FILE])
    old = _manifest_of(folder)
    same = old is not None and _identity(old) == _identity(new.model_dump())
    beside = {MANIFEST_FILE, SIGNATURE_FILE, SUMS_FILE, SUMS_SIGNATURE_FILE}
    listed = {*beside, *old["files"]} if old is not None else set()
    if not same or any(path not in listed for path in files_in(folder)):
        raise PublishError(
            f"{folder} holds something else than this bundle of this release; it was left as it is",
            hint="move what is in it away, then publish again",
            code="DPR-W203",
        )


def _identity(manifest: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a bundle is of: a bundle of another ledger entry is another answer, and is never replaced."""
    entry = "" if manifest.get("rehearsal") else _entry(manifest)
    return (*(manifest.get(name) for name in ("release", "period", "rehearsal")), entry)


def _entry(manifest: Mapping[str, Any]) -> str:
    """The hash of the ledger entry that charged it."""
    ledger = manifest.get("ledger")
    return str(ledger.get("hash")) if isinstance(ledger, dict) else ""


def _manifest_of(folder: Path) -> dict[str, Any] | None:
    """What lies there as a manifest, whole or not: a damaged bundle may be replaced."""
    try:
        found = json.loads(read_regular(folder / MANIFEST_FILE, LARGEST_MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("files"), dict) else None


def files_in(folder: Path) -> list[str]:
    """Every entry that is not a folder, links included, relative to the folder."""
    return sorted(
        (Path(top) / name).relative_to(folder).as_posix()
        for top, folders, names in os.walk(folder)
        for name in [*names, *(each for each in folders if (Path(top) / each).is_symlink())]
    )


def _same(publication: Publication, folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir() or files_in(folder) != sorted(publication.files):
        return False
    return all(
        not (folder / path).is_symlink() and _same_bytes(publication, path, folder / path) for path in publication.files
    )


def _same_bytes(publication: Publication, path: str, file: Path) -> bool:
    if file.stat().st_size != size_in(publication.files, path):
        return False
    with file.open("rb") as found:
        return all(found.read(len(block)) == block for block in blocks_of(publication.files, path))


def _fill(publication: Publication, made: Path) -> None:
    made.chmod(0o755)
    folders = {made, *(made / parent for parent in {os.path.dirname(path) for path in publication.files})}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    paths = list(publication.files)
    for start in range(0, len(paths), _FLUSHED):
        _write_files(publication, made, paths[start : start + _FLUSHED])
    hit("write.written")
    for folder in folders:
        _sync(folder)
    hit("write.synced")


def _write_files(publication: Publication, made: Path, paths: Sequence[str]) -> None:
    """Write all of these files, then force all to disk: a file system puts down at once what has come together."""
    top = os.fspath(made)
    with ExitStack() as opened:
        files = []
        for path in paths:
            file = opened.enter_context(open(f"{top}/{path}", "xb", buffering=0))
            for block in blocks_of(publication.files, path):
                _write_whole(file, block)
            files.append(file)
        for file in files:
            os.fsync(file.fileno())


def _write_whole(file: io.FileIO, block: bytes) -> None:
    """All of a block: a file without a buffer may take a part of it at a time."""
    left = memoryview(block)
    while left:
        left = left[file.write(left) or 0 :]


def _swap(made: Path, folder: Path) -> None:
    if not folder.exists():
        made.rename(folder)
        hit("write.moved")
        _sync(folder.parent)
        return
    aside = Path(tempfile.mkdtemp(prefix=".dprelease-", suffix=".old", dir=folder.parent))
    try:
        folder.rename(aside)  # onto an empty folder: one step on POSIX
        hit("write.replaced")
        made.rename(folder)
    except BaseException:
        if any(aside.iterdir()):
            aside.rename(folder)
        else:
            aside.rmdir()
        raise
    _sync(folder.parent)
    shutil.rmtree(aside)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(folder: Path, error: OSError) -> PublishError:
    return PublishError(
        f"{folder} cannot be written: {error.strerror or type(error).__name__}",
        hint="free some space or correct the permissions, then `dprelease publish` again: it costs nothing",
        code="DPR-W204",
    )
