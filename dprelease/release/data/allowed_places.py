"""Where the files of sources may lie: in folders that the policy names, whatever path or link leads to them.

Confidential files seldom lie in the project, so that an absolute path is nothing wrong by itself; what a process may
read, the operating system says. The author of a spec is not the owner of the data, though, and runs it as a user who
may read more than this project is about: so the owner can say which folders its files come from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dprelease.errors import Problem
from dprelease.release.data.public_files import files_of, source_pattern
from dprelease.spec.load import Loaded
from dprelease.spec.text.names import listed, shown

__all__ = ["misplaced_sources"]

_PATTERN = re.compile(r"[*?\[]")
_FILE_DATABASES = ("sqlite:///", "duckdb:///")


def misplaced_sources(loaded: Loaded, folder: Path, allowed: Sequence[str]) -> list[Problem]:
    """The sources of a spec that lead out of the folders in which its data may lie; none where all folders are allowed.

    Names and links alone are looked at. Addresses of object stores and of database servers are no files.

    Args:
        loaded: The spec.
        folder: The project's folder, from which relative paths are read.
        allowed: ``sources_under`` of the policy.
    """
    homes = [(folder / each).resolve() for each in allowed]
    if not homes:
        return []
    found = [
        (
            name,
            f"leads out of the folders that data may come from: {shown(source)!r}",
            "name files there, or its owner adds a folder",
        )
        for name, source, pattern in _local(loaded)
        if not all(_is_within(path, homes) for path in _reached(pattern, folder))
    ]
    found += [
        (
            name,
            "is in whatever folder a metastore says, and data may come from some folders alone",
            "name its files as `file`, or its owner takes that out",
        )
        for name, table in loaded.spec.tables.items()
        if table.source.metastore is not None
    ]
    return [
        Problem(
            "DPR-S919",
            says,
            f"the policy has `sources_under`: {listed(allowed)}; {hint}",
            loaded.where("tables", name, "source"),
        )
        for name, says, hint in found
    ]


def _local(loaded: Loaded) -> Iterator[tuple[str, str, str]]:
    """Table, source as written, and the pattern of its files; those whose variables are not set are told by the run."""
    for name, table in loaded.spec.tables.items():
        source = table.source
        written = source.file or source.delta or source.database
        if written is None:
            continue
        pattern = source_pattern(written, os.environ)
        served = source.database is not None and not written.startswith(_FILE_DATABASES)
        if pattern is not None and not served and "://" not in pattern:
            yield name, written, f"{pattern}/**/*" if source.delta else pattern


def _reached(pattern: str, folder: Path) -> Iterator[Path]:
    """The last folder that a pattern names without a wildcard, and every file that it matches, behind all links."""
    parts = Path(pattern).parts
    fixed = next((at for at, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
    yield (folder / Path(*parts[:fixed])).resolve()
    for path in files_of(pattern, folder):
        yield path.resolve()


def _is_within(path: Path, homes: Sequence[Path]) -> bool:
    return any(path.is_relative_to(home) for home in homes)
