"""Where the rows of a table are: files by pattern, their columns by name, and their blocks as Arrow arrays."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from dprelease.catalog.reference import found_names
from dprelease.catalog.table import Column, Source, Table
from dprelease.engines.base import scrubbed
from dprelease.engines.declared import own_columns
from dprelease.engines.files.formats import FILE_FORMATS
from dprelease.errors import TableMismatch, Unavailable

__all__ = ["checked_headers", "files", "stored_blocks", "stored_columns"]

_VARIABLE = re.compile(r"\$\{env:([^}]*)\}")
_MAGIC = re.compile(r"[*?[]")
_MOST = 100_000  # files and folders that a pattern with `**` may lead through


def stored_columns(table: Table) -> tuple[Column, ...]:
    """What is read of a file: its own columns, then the time of its rows where that is not one of them."""
    own, time = own_columns(table), table.time
    if time is None or any(column.name == time.column for column in own):
        return own
    return (*own, Column(name=time.column, type=time.type))


def files(source: Source, folder: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that a source names, sorted; a name that exists is taken as it is, else it is a pattern.

    Raises:
        Unavailable: If a variable is not set, no file matches, or a folder on the way may not be looked into; quotes
            the source as it was written.
        TableMismatch: If two of the files are one, by a link: its rows would count twice.
    """
    for name in _VARIABLE.findall(source.file):
        if name not in environment:
            raise Unavailable(
                f"the environment variable {name} is not set; {source.file!r} needs it",
                hint=f"export {name}=... and run the same command again",
                code="DPR-E101",
            )
    pattern = _VARIABLE.sub(lambda found: environment[found[1]], source.file)
    try:
        _require_bounded(pattern, folder, source.file)
        matches = _matches(pattern, folder)
        same = _twice(matches)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
    else:
        if same is not None:
            raise TableMismatch(
                f"files {same[0]} and {same[1]} of {len(matches)} of {source.file!r}, sorted by name, are one file",
                detail="a link leads to it by another name, and every row of it would count twice",
                hint="take the link away, or write a pattern that finds the file once, and run the same command again",
                code="DPR-E310",
            )
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
    """The files of a name or a pattern, sorted.

    Raises:
        OSError: If a folder may not be looked into: nobody could tell whether a file is in there.
    """
    if "\0" in pattern:
        return ()
    if (folder / pattern).is_file():
        return (folder / pattern,)
    paths = sorted({folder / name for name in glob(pattern, root_dir=folder, recursive=True)})  # `**/**` finds twice
    _require_access(pattern, folder)
    return tuple(path for path in paths if path.is_file())


def _twice(paths: Sequence[Path]) -> tuple[int, int] | None:
    """The numbers, from 1, of two paths that lead to one file; None where each is a file of its own.

    Raises:
        OSError: If one has gone.
    """
    first: dict[tuple[int, int], int] = {}
    for at, path in enumerate(paths, start=1):
        facts = path.stat()
        if (before := first.setdefault((facts.st_dev, facts.st_ino), at)) != at:
            return before, at
    return None


def _require_bounded(pattern: str, folder: Path, written: str) -> None:
    """Refuse a pattern with ``**`` below which there is half a disk: it would be walked for minutes, or for ever.

    Raises:
        Unavailable: There are more than `_MOST` files and folders to look at.
    """
    parts = Path(pattern).parts
    if "**" not in parts:
        return
    if "\0" in pattern or (folder / pattern).is_file():
        return
    fixed = next(at for at, part in enumerate(parts) if _MAGIC.search(part))
    seen = 0
    for _, folders, names in os.walk(folder.joinpath(*parts[:fixed])):
        seen += len(folders) + len(names)
        if seen > _MOST:
            raise Unavailable(
                f"the files of {written!r} cannot be looked for: `**` leads through more than {_MOST:,} of them",
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
        if not any(map(_MAGIC.search, parts[: at + 1])):
            continue
        upper = Path(*parts[: at + 1 if part == "**" else at])
        for name in glob(str(upper), root_dir=folder, recursive=True):
            if (place := folder / name).is_dir():
                os.stat(f"{place}/.")  # a Path drops the dot, which asks for the right to enter
                if _MAGIC.search(part):
                    os.scandir(place).close()


def checked_headers(table: Table, paths: Sequence[Path]) -> tuple[tuple[str, ...], ...]:
    """The column names of every file, after checking that the declared ones are there, each once.

    Raises:
        TableMismatch: Names the declared and the found columns.
        Unavailable: If a file cannot be read.
    """
    return tuple(
        _checked(table, path, f"{table.files.file!r} (file {at} of {len(paths)})")
        for at, path in enumerate(paths, start=1)
    )


def _checked(table: Table, path: Path, where: str) -> tuple[str, ...]:
    doing = f"table {table.name!r}, columns of {where}"
    form = FILE_FORMATS[table.files.format]
    names = scrubbed(doing, lambda: form.names(table.files, path))
    declared = [column.name for column in stored_columns(table)]
    missing = [name for name in declared if name not in (names or ())]
    advice = None
    if missing or names is None:
        advice = scrubbed(doing, lambda: form.advice(table.files, path, declared))
    if names is None:
        raise TableMismatch(
            f"table {table.name!r}: {where} has no header line that can be read",
            detail=advice[0] if advice else "",
            hint=advice[1]
            if advice
            else "save it as UTF-8 with the column names in the first line, and lines that end in \\n or \\r\\n",
            code="DPR-E303",
        )
    if missing:
        found = f"declared: {', '.join(declared)}\n    found: {found_names(declared, names)}"
        raise TableMismatch(
            f"table {table.name!r}: {where} has no column {', '.join(map(repr, missing))}",
            detail=f"{found}\n    {advice[0]}" if advice else found,
            hint=advice[1] if advice else "correct the names under `columns` of the table, or the file's header",
            code="DPR-E301",
        )
    twice = [name for name in declared if names.count(name) > 1]
    if twice:
        raise TableMismatch(
            f"table {table.name!r}: {where} has more than one column {', '.join(map(repr, twice))}",
            hint="give every column of the file its own name",
            code="DPR-E302",
        )
    return names


def stored_blocks(table: Table, path: Path, names: Sequence[str], columns: Sequence[Column]) -> Iterator[list[Any]]:
    """Columns of one file as they are stored, block by block: a list of Arrow arrays of equal length.

    A CSV column is text; a Parquet column has the type that it was written with. Where no column is wanted the first
    one of the file is read, so that its rows can be counted.

    Args:
        table: The declaration.
        path: The file.
        names: Its columns.
        columns: What is wanted of them.
    """
    wanted = [column.name for column in columns] or list(names[:1])
    repeated = [column.name for column in columns if column.keys]
    return FILE_FORMATS[table.files.format].blocks(table, path, names, wanted, repeated)
