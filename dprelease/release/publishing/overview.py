"""What is written over all releases of a project after each of them: pages, one for every product, and feeds."""

from __future__ import annotations

import errno
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.formats import FORMATS
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.presentation import Presentation, presented
from dprelease.publish import Facts
from dprelease.publish.bundle.package import LOOK_FILE
from dprelease.publish.formats.all_periods import Row, rows_of_csv
from dprelease.publish.formats.filed import filed_table
from dprelease.publish.manifest import MANIFEST_FILE, Manifest
from dprelease.publish.products.listed import Listed
from dprelease.publish.products.over_periods import FOLDER
from dprelease.publish.products.releases import overview_files
from dprelease.publish.products.tables import wanted_tables
from dprelease.regular import LARGEST_MANIFEST, LARGEST_PLAN, read_regular, replace_file
from dprelease.release.publishing.published import manifests_in

__all__ = ["OVERVIEW", "write_overview"]

OVERVIEW = "index.html"
_LISTED_BY = ("facts.json", "plan.json")
_TIMES = 5
_MADE = (".html", ".csv", ".parquet")  # ends the names of files over all periods


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
            files = _files(releases, seen)
            for path, data in files.items():
                _replace(releases / path, data)
            _remove_others(releases, files)
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
    listed, changed = _with_numbers(releases, listed)
    return overview_files(listed, [*unreadable, *changed])


def _with_numbers(releases: Path, listed: Sequence[Listed]) -> tuple[list[Listed], list[str]]:
    """The bundles with the numbers that pages are made of, and paths of those whose files cannot be read."""
    wanted, found, changed = wanted_tables(listed), list[Listed](), list[str]()
    for each in listed:
        try:
            numbers = {name: _rows(releases / each.path, name, each) for name in wanted.get(each.path, ())}
            found.append(replace(each, numbers=numbers))
        except Exception:  # whatever is wrong with it
            changed.append(each.path)
    if not changed:
        return found, []
    again, more = _with_numbers(releases, [replace(each, numbers={}) for each in found])  # others are the newest now
    return again, [*changed, *more]


def _listed(path: Path, name: str) -> Listed:
    """A bundle, if what is read of it is what its manifest says.

    Raises:
        ValueError: It is not, or it cannot be read.
    """
    if path.is_symlink() or path.parent.is_symlink():
        raise ValueError("a link")
    manifest = Manifest.from_canonical(read_regular(path / MANIFEST_FILE, LARGEST_MANIFEST))
    facts, plan = (_sound(path, each, manifest) for each in _LISTED_BY)
    made = ReleasePlan.reread(plan)
    if LOOK_FILE in manifest.files:  # its files are as it says
        made = presented(made, Presentation.from_canonical(_sound(path, LOOK_FILE, manifest)))
    listed = Listed(name, manifest, Facts.from_canonical(facts), made)
    same = listed.facts.plan_fingerprint == manifest.plan_fingerprint and listed.facts.signer == manifest.signer
    if not same or listed.facts.rehearsal != manifest.rehearsal:
        raise ValueError("of another release")
    return listed


def _rows(path: Path, table: str, each: Listed) -> list[Row]:
    """The rows of a table as its CSV file has them."""
    text = _sound(path, FORMATS["csv"].path(table), each.manifest).decode()
    return rows_of_csv(text, filed_table(each.plan, table))


def _sound(path: Path, name: str, manifest: Manifest) -> bytes:
    data = read_regular(path / name, LARGEST_PLAN)
    if sha256(data) != manifest.files[name].sha256:
        raise ValueError("changed")
    return data


def _replace(path: Path, data: bytes) -> None:
    """Write the page, unless it is there already."""
    if path.parent.name == FOLDER:
        path.parent.mkdir(exist_ok=True)
        if path.parent.is_symlink():
            raise OSError(errno.ELOOP, "a folder in it is a link")
    if not (path.is_file() and not path.is_symlink() and path.read_bytes() == data):
        replace_file(path, data)


def _remove_others(releases: Path, files: Collection[str]) -> None:
    """Take away pages over periods of tables that have none any more: what they show may have been replaced."""
    for path in releases.glob(f"*/{FOLDER}/*"):
        ours = not path.parent.is_symlink() and path.suffix in _MADE
        if ours and path.is_file() and path.relative_to(releases).as_posix() not in files:
            path.unlink(missing_ok=True)
