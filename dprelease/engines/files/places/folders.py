"""Files of folders that this machine reaches: by name or by pattern, each of them once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from glob import glob
from pathlib import Path

from dprelease.catalog.source import Source
from dprelease.errors import TableMismatch, Unavailable

__all__ = ["MAGIC", "MOST", "files", "require_each_once", "resolved"]

_VARIABLE = re.compile(r"\$\{env:([^}]*)\}")
MAGIC = re.compile(r"[*?[]")
MOST = 100_000  # files and folders that a pattern with `**` may lead through


def resolved(source: Source, environment: Mapping[str, str]) -> str:
    """The file or pattern of a source, with the values of its variables.

    Raises:
        Unavailable: If one of them is not set.
    """
    for name in _VARIABLE.findall(source.file):
        if name not in environment:
            raise Unavailable(
                f"the environment variable {name} is not set; {source.file!r} needs it",
                hint=f"export {name}=... and run the same command again",
                code="DPR-E101",
            )
    return _VARIABLE.sub(lambda found: environment[found[1]], source.file)


def files(source: Source, folder: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that a source names, sorted; a name that exists is taken as it is, else it is a pattern.

    Raises:
        Unavailable: If a variable is not set, no file matches, or a folder on the way may not be looked into; quotes
            the source as it was written.
        TableMismatch: If two of the files are one, by a link: its rows would count twice. Or if what matches a pattern
            is no file.
    """
    pattern = resolved(source, environment)
    try:
        _require_bounded(pattern, folder, source.file)
        matches = _matches(pattern, folder)
        _require_files(matches, source.file)
        require_each_once(matches, source.file)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
    else:
        if matches:
            return matches
        why = ""
    if why:
        raise Unavailable(
            f"the files of {source.file!r} cannot be looked for: {why}",
            hint="let the user that runs this list and enter every folder that `source.file` leads through (it is "
            "relative to the project's folder), then run the same command again",
            code="DPR-E106",
        )
    raise Unavailable(
        f"no file matches {source.file!r}",
        hint="put the file there, or correct `source.file` (it is relative to the project's folder)",
        code="DPR-E102",
    )


def _matches(pattern: str, folder: Path) -> tuple[Path, ...]:
    """What a name or a pattern leads to, sorted; of a name alone only a file.

    Raises:
        OSError: If a folder may not be looked into: nobody could tell whether a file is in there.
    """
    if "\0" in pattern:
        return ()
    if (folder / pattern).is_file():
        return (folder / pattern,)
    paths = sorted({folder / name for name in glob(pattern, root_dir=folder, recursive=True)})  # `**/**` finds twice
    _require_access(pattern, folder)
    return tuple(paths) if MAGIC.search(pattern) else ()


def _require_files(paths: Sequence[Path], written: str) -> None:
    """Refuse what matches a pattern and is no file: rows that were meant would be left out without a word.

    Raises:
        TableMismatch: It is a link to nowhere, a folder, or no file that could be read twice.
    """
    at, path = next(((at, path) for at, path in enumerate(paths, start=1) if not path.is_file()), (0, None))
    if path is None:
        return
    if path.is_dir():
        what, hint = "a folder", "name the files in it too, as in `visits.parquet/*.parquet`, or take it away"
    elif path.is_symlink() and not path.exists():
        what, hint = "a link that leads nowhere", "mount what it leads to, or take the link away"
    else:
        what, hint = "no file, but a pipe or a device", "put a file there, or take it away"
    raise TableMismatch(
        f"what matches {written!r} is not files alone: number {at} of {len(paths)}, sorted by name, is {what}",
        detail="its rows would be left out without a word",
        hint=hint,
        code="DPR-E128",
    )


def require_each_once(paths: Sequence[Path], written: str) -> None:
    """Refuse two paths that lead to one file.

    Args:
        paths: Sorted by name.
        written: The source as the spec has it.

    Raises:
        TableMismatch: Two of them do.
        OSError: If one has gone.
    """
    first: dict[tuple[int, int], int] = {}
    for at, path in enumerate(paths, start=1):
        facts = path.stat()
        if (before := first.setdefault((facts.st_dev, facts.st_ino), at)) != at:
            raise TableMismatch(
                f"files {before} and {at} of {len(paths)} of {written!r}, sorted by name, are one file",
                detail="a link leads to it by another name, and every row of it would count twice",
                hint="take the link away, or write a pattern that finds the file once, and run the same command again",
                code="DPR-E310",
            )


def _require_bounded(pattern: str, folder: Path, written: str) -> None:
    """Refuse a pattern with ``**`` below which there is half a disk: it would be walked for minutes, or for ever.

    Raises:
        Unavailable: There are more than `MOST` files and folders to look at.
    """
    parts = Path(pattern).parts
    if "**" not in parts:
        return
    if "\0" in pattern or (folder / pattern).is_file():
        return
    fixed = next(at for at, part in enumerate(parts) if MAGIC.search(part))
    seen = 0
    for _, folders, names in os.walk(folder.joinpath(*parts[:fixed])):
        seen += len(folders) + len(names)
        if seen > MOST:
            raise Unavailable(
                f"the files of {written!r} cannot be looked for: `**` leads through more than {MOST:,} of them",
                hint="name the folder that they are in before the `**`, or the folders one by one with `*`",
                code="DPR-E106",
            )


def _require_access(pattern: str, folder: Path) -> None:
    """Open every folder that a pattern leads through: ``glob`` passes over those that it may not, without a word.

    Raises:
        OSError: If one may not be listed or entered.
    """
    parts = Path(pattern).parts
    for at, part in enumerate(parts):
        if not any(map(MAGIC.search, parts[: at + 1])):
            continue
        upper = Path(*parts[: at + 1 if part == "**" else at])
        for name in glob(str(upper), root_dir=folder, recursive=True):
            if (place := folder / name).is_dir():
                os.stat(f"{place}/.")  # a Path drops the dot, which asks for the right to enter
                if MAGIC.search(part):
                    os.scandir(place).close()
