"""What is written over all releases of a project after each of them: pages, one for every product, and feeds."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.formats import FORMATS
from dprelease.plan.document import ReleasePlan
from dprelease.publish import Facts
from dprelease.publish.manifest import MANIFEST_FILE, Manifest
from dprelease.publish.site.releases import Listed, overview_files
from dprelease.publish.site.series import MOST_ROWS, Numbers
from dprelease.regular import LARGEST_MANIFEST, LARGEST_PLAN, read_regular, replace_file
from dprelease.release.publishing.published import manifests_in

__all__ = ["OVERVIEW", "write_overview"]

OVERVIEW = "index.html"
_LISTED_BY = ("facts.json", "plan.json")
_TIMES = 5
_MOST_TABLES = 12  # of a bundle whose numbers are read
_LARGEST_TABLE = 1 << 15


def write_overview(releases: Path) -> str:
    """Write pages and feeds, each in one step; what they say is read from each ``releases/<name>/<period>``.

    A bundle that is broken is listed as unreadable. Nothing is raised, for a release is complete without them.
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
            for path, data in _files(releases, seen).items():
                _replace(releases / path, data)
            if _bundles(releases) == seen:
                break
    except OSError as error:
        return f"{releases / OVERVIEW} could not be written: {error.strerror or type(error).__name__}"
    except Exception as error:  # what somebody put there must not undo a release that is complete
        return f"{releases / OVERVIEW} could not be made: {type(error).__name__}"
    return ""


def _bundles(releases: Path) -> dict[Path, int]:
    """Folders that have a manifest, and when it was written."""
    times = {}
    for path in manifests_in(releases):
        with suppress(FileNotFoundError):  # replaced at this very moment; it is looked at again
            if path.is_file():
                times[path.parent] = path.stat().st_mtime_ns
    return times


def _files(releases: Path, bundles: dict[Path, int]) -> dict[str, bytes]:
    listed, unreadable = [], []
    for path in bundles:
        name = path.relative_to(releases).as_posix()
        try:
            listed.append(_listed(path, name))
        except Exception:  # whatever is wrong with it
            unreadable.append(name)
    return overview_files(listed, unreadable)


def _listed(path: Path, name: str) -> Listed:
    """A bundle, if what is read of it is what its manifest says.

    Raises:
        ValueError: It is not, or it cannot be read.
    """
    if path.is_symlink() or path.parent.is_symlink():
        raise ValueError("a link")
    manifest = Manifest.from_canonical(read_regular(path / MANIFEST_FILE, LARGEST_MANIFEST))
    facts, plan = (_sound(path, each, manifest) for each in _LISTED_BY)
    made = ReleasePlan.from_canonical(plan)
    listed = Listed(name, manifest, Facts.from_canonical(facts), made, _numbers(path, manifest, made))
    same = listed.facts.plan_fingerprint == manifest.plan_fingerprint and listed.facts.signer == manifest.signer
    if not same or listed.facts.rehearsal != manifest.rehearsal:
        raise ValueError("of another release")
    return listed


def _numbers(path: Path, manifest: Manifest, plan: ReleasePlan) -> Numbers:
    """The rows of the first tables that are small enough to be shown over the periods."""
    found: dict[str, list[dict[str, str]]] = {}
    for query in plan.queries:
        name = FORMATS["csv"].path(query.name)
        if len(found) < _MOST_TABLES and name in manifest.files and manifest.files[name].bytes <= _LARGEST_TABLE:
            text = _sound(path, name, manifest).decode()
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
            found |= {query.name: rows} if len(rows) <= MOST_ROWS else {}
    return found


def _sound(path: Path, name: str, manifest: Manifest) -> bytes:
    data = read_regular(path / name, LARGEST_PLAN)
    if sha256(data) != manifest.files[name].sha256:
        raise ValueError("changed")
    return data


def _replace(path: Path, data: bytes) -> None:
    """Write the page, unless it is there already."""
    if not (path.is_file() and not path.is_symlink() and path.read_bytes() == data):
        replace_file(path, data)
