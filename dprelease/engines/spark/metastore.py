"""What has a metastore on record of a table, and is a row of it what its Parquet files say, no more and no less?

That is so of the tables that Spark and Hive keep as Parquet, and of Delta tables by their log. Of a view, of other
formats and of tables with transactions it is not: they are refused by what they are. Where the folder lies, and the
values of partitions, are shown in no error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dprelease.catalog.source import MetastoreSource
from dprelease.errors import DpReleaseError, TableMismatch, Unavailable

__all__ = ["Partition", "RecordedTable", "TableRecords", "table_on_record"]

_HIVE = "org.apache.hadoop.hive.ql.io.parquet"
_PARQUET = {"inputFormat": f"{_HIVE}.MapredParquetInputFormat", "serde": f"{_HIVE}.serde.ParquetHiveSerDe"}
_OPTIONS = {"path", "compression", "parquet.compression", "serialization.format", "mergeschema"}
"""The options of a table that change no row of it; with any other one it might be read in another way."""
_FOREIGN = ("table_type", "storage_handler", "parquet.column.index.access")
_NULLS = (None, "__HIVE_DEFAULT_PARTITION__")


class TableRecords(Protocol):
    """A catalog that can be asked: ``session_catalog.SessionCatalog``."""

    in_memory: bool

    def table(self, database: str, name: str) -> str | None:
        """What is on record of a table, as JSON; None where there is none."""
        ...

    def partitions(self, database: str, name: str) -> str:
        """What is on record of all partitions of a table, as JSON."""
        ...


@dataclass(frozen=True, repr=False)
class Partition:
    """A partition of a table.

    Attributes:
        values: Of each partition column the text of its value; None: null.
        location: The address of its folder.
    """

    values: tuple[str | None, ...]
    location: str


@dataclass(frozen=True, repr=False)
class RecordedTable:
    """A table whose rows are those of its files.

    Attributes:
        location: The address of its folder.
        columns: The names of its columns; of a Delta table its log has them.
        partitioned_by: Those whose values stand in paths.
        partitions: All of them; none of a table without such columns.
    """

    location: str
    columns: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()


def table_on_record(source: MetastoreSource, records: TableRecords) -> RecordedTable:
    """What is on record of a table, where it is one that is read.

    Raises:
        Unavailable: If there is no such table, or the metastore does not answer (DPR-E157).
        TableMismatch: If it is of a kind that is not read (DPR-E158), or a Delta table without a version in the spec,
            or another one with a version (DPR-E135).
    """
    database, _, name = source.file.partition(".")
    found = _asked(source, lambda: records.table(database, name))
    if found is None:
        own = "the session keeps its catalog in memory (spark.sql.catalogImplementation), and has no metastore"
        raise Unavailable(
            f"there is no table {source.file!r} in the metastore of the Spark session",
            detail=own if records.in_memory else "",
            hint="correct `source.metastore` (DATABASE.TABLE); where the metastore is, spark-defaults.conf and "
            "hive-site.xml say, in the folder that SPARK_CONF_DIR names",
            code="DPR-E157",
        )
    said = json.loads(found)
    is_delta = _kind(source, said) == "delta"
    if is_delta != (source.version is not None):
        raise _wrong_version(source, is_delta=is_delta)
    location = said["storage"]["locationUri"]
    if not location:
        raise _unread(source, "has no folder of its own")
    if is_delta:
        return RecordedTable(location)
    _require_plain(source, said)
    columns = tuple(field["name"] for field in said["schema"]["fields"])
    by = tuple(said["partitionColumnNames"])
    if not by:
        return RecordedTable(location, columns)
    if not said["tracksPartitionsInCatalog"]:
        raise TableMismatch(
            f"the metastore does not list the partitions of the table {source.file!r}",
            detail="it could not be told which folders belong to the table",
            hint=f"type `MSCK REPAIR TABLE {source.file}` in spark-sql, then run the same command again",
            code="DPR-E159",
        )
    listed = json.loads(_asked(source, lambda: records.partitions(database, name)) or "")
    return RecordedTable(location, columns, by, tuple(_partition(source, said, by, each) for each in listed))


def _asked(source: MetastoreSource, ask: Callable[[], str | None]) -> str | None:
    """What the metastore answers; its own words are withheld, for they may quote values of partitions."""
    try:
        answer = ask()
    except DpReleaseError:
        raise
    except Exception as error:
        kind = type(error).__name__
    else:
        return answer
    raise Unavailable(
        f"the metastore does not say what the table {source.file!r} is ({kind}); its own words are withheld",
        hint="check that it can be reached (`hive.metastore.uris`) and that this user may see the table "
        f"(`DESCRIBE {source.file}` in spark-sql), then run the same command again",
        code="DPR-E157",
    )


def _kind(source: MetastoreSource, said: Mapping[str, Any]) -> str:
    """``parquet`` or ``delta``."""
    kind = said["tableType"]["name"]
    if kind not in ("MANAGED", "EXTERNAL"):
        says = "is a view, whose rows a query makes" if kind == "VIEW" else "is neither a managed nor an external one"
        raise _unread(source, says)
    provider = (said["provider"] or "hive").lower()
    if provider in ("parquet", "delta"):
        return str(provider)
    if provider != "hive":
        raise _unread(source, f"is of the provider {provider}")
    if not _is_parquet(said["storage"]):
        raise _unread(source, "is a Hive table whose files are no Parquet files, or are read by a class of their own")
    return "parquet"


def _is_parquet(storage: Mapping[str, Any]) -> bool:
    return all(storage[name] == value for name, value in _PARQUET.items())


def _require_plain(source: MetastoreSource, said: Mapping[str, Any]) -> None:
    properties = {name.lower(): value for name, value in said["properties"].items()}
    if properties.get("transactional", "false").lower() != "false":
        raise _unread(source, "has transactions (ACID), of which only Hive knows the files that count")
    for name in _FOREIGN:
        if properties.get(name, "false").lower() not in ("false", "managed_table", "external_table"):
            raise _unread(source, f"has the property `{name}`, by which its files are read in another way")
    if said.get("unsupportedFeatures"):
        raise _unread(source, f"has what Spark does not read either: {', '.join(said['unsupportedFeatures'])}")
    _require_options(source, said["storage"])


def _require_options(source: MetastoreSource, storage: Mapping[str, Any]) -> None:
    if others := sorted(name for name in storage["properties"] if name.lower() not in _OPTIONS):
        raise _unread(source, f"has the option `{others[0]}`, by which its files may be read in another way")


def _partition(
    source: MetastoreSource, said: Mapping[str, Any], by: tuple[str, ...], found: Mapping[str, Any]
) -> Partition:
    storage = found["storage"]
    if (said["provider"] or "hive").lower() == "hive" and not _is_parquet(storage):
        raise _unread(source, "has a partition whose files are no Parquet files")
    _require_options(source, storage)
    values = {name.lower(): value for name, value in found["spec"].items()}
    texts = (values[name.lower()] for name in by)
    return Partition(tuple(None if text in _NULLS else text for text in texts), storage["locationUri"] or "")


def _unread(source: MetastoreSource, says: str) -> TableMismatch:
    return TableMismatch(
        f"the table {source.file!r} of the metastore {says}",
        detail="tables are read whose rows are those of Parquet files in one folder, and Delta tables by version",
        hint="write a copy (`CREATE TABLE ... USING parquet AS SELECT ...`) and name that, or its files as `file`",
        code="DPR-E158",
    )


def _wrong_version(source: MetastoreSource, *, is_delta: bool) -> TableMismatch:
    if is_delta:
        return TableMismatch(
            f"the table {source.file!r} of the metastore is a Delta table, and the spec has no `version` of it",
            detail="it changes, and a plan names the state that it is of",
            hint=f"write `source: {{metastore: {source.file}, version: N}}`, as `DESCRIBE HISTORY {source.file}` lists",
            code="DPR-E135",
        )
    return TableMismatch(
        f"the table {source.file!r} of the metastore is no Delta table, and the spec has a `version` of it",
        hint=f"leave it out: `source: {{metastore: {source.file}}}`",
        code="DPR-E135",
    )
