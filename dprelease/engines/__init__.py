"""Who adds up the rows? Engines: they read confidential tables and return exact integers in boxes.

Floor 6. An engine is given a declared table, a grouping and quantities, bounds the rows of every unit, and hands back
one box per quantity; no row, count of rows or driver's message leaves it. ``ENGINES`` is closed: what reads the data
must be audited. Importing this package loads DuckDB, Ibis and Arrow (about a second), so commands import it where
they run a plan.

>>> from pathlib import Path
>>> engine = ENGINES["duckdb"](Path("."), {})
>>> engine.close()
"""

from __future__ import annotations

from dprelease.engines.base import Engine, Maker
from dprelease.engines.duckdb import DuckDBEngine

__all__ = ["ENGINES", "DuckDBEngine", "Engine", "Maker"]

ENGINES: dict[str, Maker] = {"duckdb": DuckDBEngine}
