"""The first lines of sources beside what is declared of them: of a file's form, nothing of its rows is looked at."""

from __future__ import annotations

import os
from pathlib import Path

from dprelease.catalog.table import Catalog, MetastoreSource
from dprelease.engines import engine_for
from dprelease.errors import Unavailable

__all__ = ["tables_not_here"]


def tables_not_here(catalog: Catalog, folder: Path) -> dict[str, str]:
    """Compare the columns of every source that is here with the declared ones.

    Args:
        catalog: Whose tables.
        folder: What the sources' paths are relative to.

    Returns:
        The tables whose source cannot be read here, by name, and why.

    Raises:
        TableMismatch: If a source has not the declared columns.
    """
    away: dict[str, str] = {}
    engine = engine_for(catalog.tables.values())(folder, os.environ)
    try:
        for name, table in catalog.tables.items():
            if isinstance(table.source, MetastoreSource):  # that would start a session
                away[name] = f"{table.source.file!r} is a table of a metastore, which `dprelease run` asks"
                continue
            try:
                engine.describe(table)
            except Unavailable as error:
                away[name] = error.summary
    finally:
        engine.close()
    return away
