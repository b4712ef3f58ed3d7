"""A metastore in this process: what the catalog of a Spark session says of tables, in the JSON that Spark 4.0 makes of it.

It stands in for ``engines.spark.session_catalog.SessionCatalog``. That Spark says the same is tried in ``test_spark.py``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = ["HIVE", "PlainMetastore", "partition", "table"]

HIVE = {
    "inputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "outputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    "serde": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
}


def table(location: Path | str, columns: Sequence[str], by: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """What is on record of a table of the provider Parquet, but for what else is said."""
    storage = {"locationUri": _uri(location), **HIVE, "compressed": False, "properties": {}}
    return {
        "identifier": {"table": "visits", "database": "office", "catalog": "spark_catalog"},
        "tableType": {"name": "MANAGED"},
        "storage": {**storage, **more.pop("storage", {})},
        "schema": {"type": "struct", "fields": [{"name": name, "type": "string"} for name in (*columns, *by)]},
        "provider": "parquet",
        "partitionColumnNames": [*by],
        "bucketSpec": None,
        "properties": {},
        "unsupportedFeatures": [],
        "tracksPartitionsInCatalog": bool(by),
        **more,
    }


def partition(location: Path | str, **values: str | None) -> dict[str, Any]:
    """What is on record of a partition."""
    storage = {"locationUri": _uri(location), **HIVE, "compressed": False, "properties": {"serialization.format": "1"}}
    return {"spec": values, "storage": storage, "parameters": {"numFiles": "1"}, "stats": None}


class PlainMetastore:
    """The tables ``office.visits`` and the like, by name; each is what ``table`` makes, with its partitions.

    Attributes:
        asked: How often it was asked for a table.
        fails: What it raises when it is asked; None: it answers.
    """

    def __init__(self) -> None:
        self.in_memory = False
        self.tables: dict[str, dict[str, Any]] = {}
        self.listed: dict[str, list[dict[str, Any]]] = {}
        self.asked = 0
        self.fails: Exception | None = None

    def table(self, database: str, name: str) -> str | None:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        found = self.tables.get(f"{database}.{name}")
        return None if found is None else json.dumps(found)

    def partitions(self, database: str, name: str) -> str:
        return json.dumps(self.listed[f"{database}.{name}"])


def _uri(location: Path | str) -> str:
    return location if isinstance(location, str) else f"file:{quote(str(location))}"
