"""The text of a query that the owner of the data has approved, held against what the plan has pinned."""

from __future__ import annotations

from pathlib import Path

from dprelease.canonical import sha256
from dprelease.catalog.table import Table
from dprelease.engines.databases.base import database_of
from dprelease.errors import TableMismatch
from dprelease.regular import read_regular

__all__ = ["LARGEST_QUERY", "query_text"]

LARGEST_QUERY = 1 << 20  # bytes


def query_text(table: Table, folder: Path) -> str:
    """The text of the query of a table, to stand in brackets as a table of its own: never made of a spec.

    Raises:
        TableMismatch: The file is gone, or is no longer what was approved and planned (DPR-E340).
    """
    source = database_of(table)
    try:
        data = read_regular(folder / (source.query or ""), LARGEST_QUERY)
    except (OSError, ValueError):
        data = b""
    if source.query_sha256 is None or sha256(data) != source.query_sha256:
        raise TableMismatch(
            f"table {table.name!r}: {source.query!r} is not the file that the plan was made with",
            hint=f"put back the file with SHA-256 {(source.query_sha256 or '')[:12]}..., or plan again",
            code="DPR-E340",
        )
    return data.decode("utf-8", "replace").strip().rstrip(";")
