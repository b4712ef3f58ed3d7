"""Databases that are files: whether one is there, and which one it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dprelease.catalog.table import Table
from dprelease.engines.databases.base import database_of
from dprelease.engines.databases.row_sums import HashedHere
from dprelease.errors import Unavailable

__all__ = ["FileSnapshot", "quoted"]


def _existing(path: Path) -> Path:
    """A path that leads to a file which may be read.

    Raises:
        Unavailable: There is none (DPR-E102), or it may not be read (DPR-E103).
    """
    if not path.is_file():
        raise Unavailable(
            "there is no file at the place of the database",
            hint="put the file there, or correct `source.database` (its path is relative to the project's folder; "
            "four slashes make it absolute)",
            code="DPR-E102",
        )
    if not os.access(path, os.R_OK):
        raise Unavailable(
            "the file of the database may not be read by this user",
            hint="let this user read it, then run the same command again",
            code="DPR-E103",
        )
    return path


def _identity(path: Path, folder: Path) -> str:
    """The file, through links, as the project's folder sees it: a project that is moved as a whole keeps it."""
    real, home = path.resolve(), folder.resolve()
    return real.relative_to(home).as_posix() if real.is_relative_to(home) else real.as_posix()


def quoted(name: str) -> str:
    """A name as both kinds of file take it in a statement."""
    return '"' + name.replace('"', '""') + '"'


class FileSnapshot(HashedHere):
    """A ``Snapshot`` of a database that is a file.

    Args:
        url: Its scheme, three slashes and a path.
        folder: What the path is relative to.
    """

    SCHEME = ""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        self._path = _existing(folder / url.removeprefix(f"{self.SCHEME}:///"))
        self._connection = self._opened()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _opened(self) -> Any:
        """A connection whose state has begun."""
        raise NotImplementedError

    def _within(self, table: Table) -> tuple[str, ...]:
        """Which table or query of the file it is."""
        source = database_of(table)
        return (source.table or "", source.query_sha256 or "")

    def identity(self, table: Table) -> tuple[str, ...]:
        """The file, as the project's folder sees it, and the table in it."""
        return (self.SCHEME, _identity(self._path, self._folder), *self._within(table))

    def close(self) -> None:
        """End the transaction and close the file."""
        self._connection.close()
