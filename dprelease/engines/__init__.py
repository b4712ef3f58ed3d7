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
from dprelease.engines.spark.engine import SparkEngine
from dprelease.errors import Unsupported

__all__ = ["ENGINES", "DuckDBEngine", "Engine", "Maker", "OpenedEngine", "engine_for"]

ENGINES: dict[str, Maker] = {"duckdb": DuckDBEngine, "spark": SparkEngine}
NAMED = ("spark",)  # those that read only the tables that name them


def engine_for(tables: Iterable[Table]) -> Maker:
    """The engine that all these tables name, or else the first one in ``ENGINES`` that reads all of their sources.

    Rows are joined within one engine, and one of them measures a release.

    Raises:
        Unsupported: If there is none (DPR-E202), or some tables name one and others do not (DPR-E139).
    """
    known = list(tables)
    named = {table.engine for table in known}
    if len(named) > 1:
        without = ", ".join(repr(table.name) for table in known if table.engine is None)
        raise Unsupported(
            f"some tables of the release are read by Spark, and others are not: {without}",
            detail="one engine measures all tables of a release",
            hint="write `engine: spark` in all of them, or in none",
            code="DPR-E139",
        )
    formats = sorted({table.source.format for table in known})
    for name, maker in ENGINES.items():
        if maker.formats.issuperset(formats) and named <= {name if name in NAMED else None}:
            return maker
    raise Unsupported(
        f"{'Spark reads no' if 'spark' in named else 'no engine reads'} sources that are {' and '.join(formats)}",
        hint="; ".join(f"{name} reads {', '.join(sorted(maker.formats))}" for name, maker in ENGINES.items()),
        code="DPR-E202",
    )
