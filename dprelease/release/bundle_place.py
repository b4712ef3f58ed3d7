"""Where is the bundle that a command names? Apart from ``project``, which reads specs: a stranger has none."""

from __future__ import annotations

from pathlib import Path

from dprelease.errors import CheckFailed, SpecError
from dprelease.publish.manifest import MANIFEST_FILE

__all__ = ["bundle_folder", "require_bundle"]

_PARTS = ("SHA256SUMS", "plan.json", "accounting.json", "measurements", "tables")  # of a bundle, whatever it is about
_MOST_NAMED = 5


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


def require_bundle(folder: Path, given: str) -> None:
    """Refuse what is no bundle and only holds some, such as a project: no file of it is missing or changed.

    A folder that has a part of a bundle and no manifest is another matter: its checks fail.

    Args:
        folder: Where the bundle should be.
        given: How that was written.

    Raises:
        CheckFailed: There is no such folder, or it is no bundle; those that it holds are named (DPR-C121).
    """
    if not folder.is_dir():
        hint = "give the folder of a published release: releases/NAME/PERIOD, or NAME/PERIOD in its project"
        raise CheckFailed(f"there is no bundle {given}", hint=hint, code="DPR-C121")
    if (folder / MANIFEST_FILE).exists():
        return
    below = _bundles_below(folder)
    if not below and any((folder / part).exists() for part in _PARTS):
        return
    shown = [
        str(each.relative_to(folder) if given in (".", "") else Path(given, each.relative_to(folder))) for each in below
    ]
    more = f", and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
    raise CheckFailed(
        f"{given} is no bundle: it has no {MANIFEST_FILE}",
        detail=f"bundles in it: {', '.join(shown[:_MOST_NAMED])}{more}" if shown else "and no folder in it has one",
        hint=f"verify one of them: `dprelease verify {shown[-1]}`"
        if shown
        else "give the folder of a published release",
        code="DPR-C121",
    )


def _bundles_below(folder: Path) -> list[Path]:
    """The folders with a manifest below a folder of a product, of releases, or of a project; the earliest first."""
    patterns = [f"{above}{MANIFEST_FILE}" for above in ("*/", "*/*/", "releases/*/*/")]
    found = {each.parent for pattern in patterns for each in folder.glob(pattern)}
    return sorted(each for each in found if not any(part.startswith(".") for part in each.relative_to(folder).parts))
