"""Who adds up the rows? Engines: they read confidential tables and return exact integers in boxes.

Floor 6. An engine is given a declared table, a grouping and quantities, bounds the rows of every unit, and hands back
one box per quantity; no row, count of rows or driver's message leaves it. ``ENGINES`` is closed: what reads the data
must be audited. :func:`engine_for` chooses the one that reads a plan's sources. Importing this package loads DuckDB,
Ibis and Arrow (about a second), so commands import it where they run a plan.

>>> from pathlib import Path
>>> engine = ENGINES["duckdb"](Path("."), {})
>>> engine.close()
"""

from __future__ import annotations

from collections.abc import Iterable

from dprelease.catalog.table import Table
from dprelease.engines.base import Engine, Maker, OpenedEngine
from dprelease.engines.duck.engine import DuckDBEngine
from dprelease.errors import Unsupported

__all__ = ["ENGINES", "DuckDBEngine", "Engine", "Maker", "OpenedEngine", "engine_for"]

ENGINES: dict[str, Maker] = {"duckdb": DuckDBEngine}


def engine_for(tables: Iterable[Table]) -> Maker:
    """The first engine in ``ENGINES`` that reads the sources of all these tables: rows are joined within one engine.

    Raises:
        Unsupported: If there is none (DPR-E202).
    """
    formats = sorted({table.source.format for table in tables})
    for maker in ENGINES.values():
        if maker.formats.issuperset(formats):
            return maker
    raise Unsupported(
        f"no engine reads sources that are {' and '.join(formats)}",
        hint="; ".join(f"{name} reads {', '.join(sorted(maker.formats))}" for name, maker in ENGINES.items()),
        code="DPR-E202",
    )
