"""Where is the bundle that a command names? Apart from ``project``, which reads specs: a stranger has none."""

from __future__ import annotations

from pathlib import Path

from dprelease.errors import SpecError

__all__ = ["bundle_folder"]


def bundle_folder(given: str) -> Path:
    """The folder of a bundle: its path, or NAME/PERIOD of a release of the project in the working folder.

    Where neither is there, the path as it was given: whoever opens it says so.
    """
    path = Path(given)
    if path.exists() or path.is_absolute() or len(path.parts) != 2:
        return path
    from dprelease.release.project import Project

    try:
        named = Project.find(Path()).releases / path
    except SpecError:  # a stranger has a bundle and no project
        return path
    return named if named.exists() else path
