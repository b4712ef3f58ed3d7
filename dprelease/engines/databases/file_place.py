"""Databases that are files: whether one is there, and which one it is."""

from __future__ import annotations

import os
from pathlib import Path

from dprelease.errors import Unavailable

__all__ = ["existing", "file_identity"]


def existing(path: Path) -> Path:
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


def file_identity(path: Path, folder: Path) -> tuple[str]:
    """The file, through links, as the project's folder sees it: a project that is moved as a whole keeps it."""
    real, home = path.resolve(), folder.resolve()
    return (real.relative_to(home).as_posix() if real.is_relative_to(home) else real.as_posix(),)
