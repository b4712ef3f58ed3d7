"""What statements are made and run with, loaded when the first one is: a release that needs none does without."""

from __future__ import annotations

from typing import Any

from dprelease.late_modules import Late

__all__ = ["duckdb", "ibis", "operations"]

ibis: Any = Late("ibis")
operations: Any = Late("ibis.expr.operations")
duckdb: Any = Late("duckdb")
