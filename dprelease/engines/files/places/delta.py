"""Delta tables: which files one version has, by its log; the rows in them are read by our own reader of Parquet.

A version is a snapshot: what is appended, changed or deleted later makes another one. The library that reads the log
tells the files of a version, but not what else a reader must do with their rows. So only tables are read of which a
row is what its file says: a feature that asks more of a reader (vectors of deleted rows, columns by other names) is
refused by its name, whether or not this version makes use of it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from dprelease.catalog.source import DeltaSource
from dprelease.catalog.table import Table
from dprelease.engines.files.places.objects import FilePath, StoredObject
from dprelease.engines.files.places.partitions import PathValue, partition_columns
from dprelease.engines.files.places.stores import is_stored, opened_store, store_failure
from dprelease.errors import MissingExtra, TableMismatch, Unavailable

__all__ = ["LakeFile", "lake_files"]

_PLAIN = {"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"}
"""Features of readers that leave a row what its file says, and the library that reads the log knows."""
_FEATURE = re.compile(r"[Ff]eature '?(\w+)'? is not supported|(minimum reader version \d+)")
_MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True)
class LakeFile:
    """A file of a version.

    Attributes:
        path: Where it is.
        values: What the log says for the partition columns of the table, in the order of these.
    """

    path: FilePath
    values: tuple[PathValue, ...]


def lake_files(
    table: Table, source: DeltaSource, address: str, folder: Path, environment: Mapping[str, str]
) -> list[LakeFile]:
    """The files of a version of a Delta table, sorted by path.

    Args:
        table: The declaration.
        source: Its source.
        address: The folder or the address of the table, with the values of its variables.
        folder: What a path is relative to.
        environment: What holds the credentials of a store.

    Raises:
        MissingExtra: If the library that reads the log is not installed.
        Unavailable: If there is no such table or version, or the store cannot be reached.
        TableMismatch: If it has a feature that is not supported, lacks a declared column, has other partition columns
            than are declared, or names a file outside of its folder.
    """
    store = opened_store(source.file, f"{address}/", environment) if is_stored(address) else None
    place = address if store is not None else str((folder / address).resolve())
    version = _version(source, place, _options(environment) if store is not None else {})
    _require_plain(source, version)
    named = [field.name for field in version.schema().fields]
    _require_columns(table, source, named, version.metadata().partition_columns)
    found = []
    for each in pa.table(version.get_add_actions(flatten=True)).to_pylist():
        values = tuple(_as_text(each[f"partition.{column.name}"]) for column in partition_columns(table))
        below = unquote(each["path"])
        outside = "://" in below or below.startswith("/") or ".." in below.split("/")
        if outside or (store is None and not Path(place, below).resolve().is_relative_to(place)):
            raise TableMismatch(
                f"the log of {source.file!r} names a file that is not in the table's own folder, or a link out of it",
                hint="copy the table as a whole, with its files: a shallow clone has those of another table",
                code="DPR-E153",
            )
        if store is None:
            found.append(LakeFile(Path(place) / below, values))
        else:
            name = "/".join(filter(None, (store.bucket, store.pattern.strip("/"), below)))
            found.append(LakeFile(StoredObject(name, source.file, store.filesystem), values))
    return sorted(found, key=lambda each: each.path)


def _options(environment: Mapping[str, str]) -> dict[str, str]:
    """What the library is told of a store: the same as Arrow."""
    known = {name: value for name, value in environment.items() if re.match("AWS_|AZURE_STORAGE_|GOOGLE_", name)}
    return {**known, "AWS_ALLOW_HTTP": "true"} if known.get("AWS_ENDPOINT_URL", "").startswith("http:") else known


def _version(source: DeltaSource, place: str, options: Mapping[str, str]) -> Any:
    """The pinned version of a table; whatever the library says is withheld, but for the name of a feature."""
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise MissingExtra(
            f"{source.file!r} is a Delta table, and the package that reads its log is not installed",
            hint='pip install "dprelease[delta]"',
            code="DPR-X110",
        ) from None
    try:
        return DeltaTable(place, version=source.version, storage_options=dict(options))
    except Exception as error:
        says = str(error)
    if feature := _FEATURE.search(says):
        raise _unsupported(source, feature[1] or feature[2])
    newest = None
    with suppress(Exception):
        newest = DeltaTable(place, storage_options=dict(options)).version()
    if newest is not None:
        raise Unavailable(
            f"version {source.version} of the Delta table {source.file!r} cannot be read; its newest one is {newest}",
            detail="a version that is not written yet, or whose log was cleaned up, is no snapshot",
            hint="write a `version` that is there, and plan again",
            code="DPR-E151",
        )
    if options and "log segment" not in says.lower():  # there is a store, and it did not say that there is no log
        raise store_failure(source.file, "DeltaError", says)
    raise Unavailable(
        f"there is no Delta table at {source.file!r} that can be read",
        hint="name the folder that holds `_delta_log` (it is relative to the project's folder)",
        code="DPR-E102",
    )


def _unsupported(source: DeltaSource, feature: str) -> TableMismatch:
    return TableMismatch(
        f"the Delta table {source.file!r} has a feature that is not supported: {feature}",
        detail="its rows are not just those of its files, and would be read wrong",
        hint="write a copy without it: in Spark, `REORG TABLE ... APPLY (PURGE)` and `ALTER TABLE ... DROP "
        "FEATURE ...`; or save the rows as Parquet",
        code="DPR-E150",
    )


def _require_plain(source: DeltaSource, version: Any) -> None:
    protocol, configured = version.protocol(), version.metadata().configuration
    features = sorted(set(protocol.reader_features or ()) - _PLAIN)
    if features:
        raise _unsupported(source, ", ".join(features))
    if protocol.min_reader_version > 3:
        raise _unsupported(source, f"reader version {protocol.min_reader_version}")
    if configured.get(_MAPPING, "none") != "none":
        raise _unsupported(source, "columnMapping")


def _require_columns(table: Table, source: DeltaSource, named: list[str], partitions: list[str]) -> None:
    """The declared columns are in the table, and those are partitions that it has for partitions."""
    for column in table.columns:
        if not column.in_source or (column.name in named and column.partition == (column.name in partitions)):
            continue
        if column.name not in named:
            raise TableMismatch(
                f"table {table.name!r}: version {source.version} of {source.file!r} has no column {column.name!r}",
                hint="correct the name under `columns` of the table, or pin another `version`",
                code="DPR-E301",
            )
        says = "is a partition column" if column.name in partitions else "is no partition column"
        hint = "write `partition: true` at the column" if column.name in partitions else "leave `partition: true` out"
        raise TableMismatch(
            f"table {table.name!r}: {column.name!r} {says} of the Delta table {source.file!r}",
            hint=hint,
            code="DPR-E152",
        )


def _as_text(value: Any) -> PathValue:
    """A value of the log as its text, which is then read as that of a path is."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return str(value).lower().encode()
    if isinstance(value, dt.datetime):  # one without a zone is in UTC, as a stored one is
        return (
            value.astimezone(dt.UTC).replace(tzinfo=None).isoformat().encode()
            if value.tzinfo
            else value.isoformat().encode()
        )
    if isinstance(value, Decimal):
        return format(value, "f").encode()
    return str(value).encode()
