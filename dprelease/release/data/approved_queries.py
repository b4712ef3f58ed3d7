"""Queries that rows come from: each is a right to look at the data, and the owner's policy lists it as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dprelease.canonical import sha256
from dprelease.errors import Problem, SpecError
from dprelease.regular import read_regular
from dprelease.spec.load import Loaded
from dprelease.spec.project import PolicySpec

__all__ = ["approved_hashes", "queries_of"]

_LARGEST = 1 << 20


def queries_of(loaded: Loaded, folder: Path) -> dict[str, bytes | None]:
    """The bytes of every query that rows come from, by table; None: there is no such file."""
    found: dict[str, bytes | None] = {}
    for name, table in loaded.spec.tables.items():
        if table.source.query is not None:
            try:
                found[name] = read_regular(folder / table.source.query, _LARGEST)
            except (OSError, ValueError):
                found[name] = None
    return found


def approved_hashes(loaded: Loaded, queries: Mapping[str, bytes | None], policy: PolicySpec) -> dict[str, str]:
    """The SHA-256 of every query, by table, each of which is in the policy.

    Raises:
        SpecError: If the policy does not list one, as it is (DPR-S420).
    """
    problems, hashes = [], {}
    for name, data in queries.items():
        file, digest = loaded.spec.tables[name].source.query or "", sha256(data or b"")
        hashes[name] = digest
        if policy.source_queries.get(file) != digest:
            says = f"query {file!r} is {'another one' if file in policy.source_queries else 'none'} in the policy"
            hint = (
                f"its owner, who alone decides this, reads the file and writes `source_queries: {{{file}: {digest}}}`"
            )
            problems.append(Problem("DPR-S420", says, hint, loaded.where("tables", name, "source", "query")))
    if problems:
        raise SpecError(problems)
    return hashes
