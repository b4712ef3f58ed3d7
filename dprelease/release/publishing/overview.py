"""``releases/index.html``: a page over every bundle in a folder of releases, made again after each release."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.plan.document import ReleasePlan
from dprelease.publish import Facts
from dprelease.publish.manifest import MANIFEST_FILE, Manifest
from dprelease.publish.site.releases import Listed, releases_page
from dprelease.regular import LARGEST_MANIFEST, LARGEST_PLAN, read_regular, replace_file

__all__ = ["OVERVIEW", "write_overview"]

OVERVIEW = "index.html"
_READ = ("facts.json", "plan.json")
_TIMES = 5


def write_overview(releases: Path) -> str:
    """Write the page in one step; it reads manifest, facts and plan of each ``releases/<name>/<period>``.

    A bundle that is broken is listed as unreadable. Nothing is raised, for a release is complete without this page.
    Two processes that end at the same time may each miss the bundle of the other: whoever wrote looks again, and
    writes again where there is something new, so that the last one has seen all.

    Args:
        releases: The folder of a project's bundles, or that of its rehearsals.

    Returns:
        Why it could not be written, to be shown as a warning; empty when it was.
    """
    try:
        for _ in range(_TIMES):
            seen = _bundles(releases)
            _replace(releases / OVERVIEW, _page(releases, seen))
            if _bundles(releases) == seen:
                break
    except OSError as error:
        return f"{releases / OVERVIEW} could not be written: {error.strerror or type(error).__name__}"
    except Exception as error:  # what somebody put there must not undo a release that is complete
        return f"{releases / OVERVIEW} could not be made: {type(error).__name__}"
    return ""


def _bundles(releases: Path) -> dict[Path, int]:
    """Folders that have a manifest, and when it was written; not those that are being written."""
    times = {}
    for path in sorted(releases.glob("*/*")):
        hidden = any(part.startswith(".") for part in path.relative_to(releases).parts)
        if not hidden and (path / MANIFEST_FILE).is_file():
            with suppress(FileNotFoundError):  # replaced at this very moment; it is looked at again
                times[path] = (path / MANIFEST_FILE).stat().st_mtime_ns
    return times


def _page(releases: Path, bundles: dict[Path, int]) -> bytes:
    listed, unreadable = [], []
    for path in bundles:
        name = path.relative_to(releases).as_posix()
        try:
            listed.append(_listed(path, name))
        except Exception:  # whatever is wrong with it
            unreadable.append(name)
    return releases_page(listed, unreadable)


def _listed(path: Path, name: str) -> Listed:
    """A bundle, if what is read of it is what its manifest says.

    Raises:
        ValueError: It is not, or it cannot be read.
    """
    if path.is_symlink() or path.parent.is_symlink():
        raise ValueError("a link")
    manifest = Manifest.from_canonical(read_regular(path / MANIFEST_FILE, LARGEST_MANIFEST))
    facts, plan = (_sound(path, each, manifest) for each in _READ)
    listed = Listed(name, manifest, Facts.from_canonical(facts), ReleasePlan.from_canonical(plan))
    same = listed.facts.plan_fingerprint == manifest.plan_fingerprint and listed.facts.signer == manifest.signer
    if not same or listed.facts.rehearsal != manifest.rehearsal:
        raise ValueError("of another release")
    return listed


def _sound(path: Path, name: str, manifest: Manifest) -> bytes:
    data = read_regular(path / name, LARGEST_PLAN)
    if sha256(data) != manifest.files[name].sha256:
        raise ValueError("changed")
    return data


def _replace(path: Path, data: bytes) -> None:
    """Write the page, unless it is there already."""
    if not (path.is_file() and not path.is_symlink() and path.read_bytes() == data):
        replace_file(path, data)
