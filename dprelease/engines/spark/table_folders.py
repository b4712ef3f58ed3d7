"""The files of a table of a metastore: all that Spark would read as its rows, and nothing else that lies there.

Spark reads the folders that the metastore lists, and our reader the files in the table's folder: they must be the same
ones. So every partition lies in the table's own folder under its own name and value, no file lies anywhere else below
that folder, and no link leads into or out of it. Names with ``_`` or ``.`` in front are nobody's rows, for both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dprelease.catalog.source import STORES, MetastoreSource, store_meant
from dprelease.catalog.table import Table
from dprelease.engines.files.places.folders import require_each_once
from dprelease.engines.files.places.found import DataFile, of_period, refuse_lake
from dprelease.engines.files.places.objects import LOG, FilePath, StoredObject, objects_below
from dprelease.engines.files.places.partitions import folder_values, is_data
from dprelease.engines.files.places.stores import opened_store
from dprelease.engines.spark.metastore import Partition, RecordedTable
from dprelease.errors import TableMismatch, Unavailable

__all__ = ["address_of", "folder_files"]

_HALF = "._COPYING_"  # the ending of what `hadoop fs -put` has not written to its end, and Spark does not read


@dataclass(frozen=True)
class _Found:
    """What is below a folder: files by the names that lead to them, and the folders that there are."""

    files: Mapping[tuple[str, ...], FilePath]
    folders: frozenset[tuple[str, ...]] | None  # a store has none
    is_lake: bool


def folder_files(
    table: Table, source: MetastoreSource, found: RecordedTable, environment: Mapping[str, str]
) -> tuple[DataFile, ...]:
    """The files of a table that is no Delta table, sorted by path.

    Args:
        table: The declaration.
        source: Its source.
        found: What the metastore has on record of it.
        environment: What holds the credentials of a store.

    Raises:
        Unavailable: If there is no file, or its folder cannot be looked into.
        TableMismatch: If the metastore and the folder do not agree (DPR-E159), or a path does not say what is declared.
    """
    address = address_of(source, found.location)
    listed = [_below(source, found, at, each) for at, each in enumerate(found.partitions, start=1)]
    below = _objects(source, address, environment) if "://" in address else _paths(source, Path(address))
    refuse_lake(table, below.is_lake)
    names = sorted(below.files)
    wanted = set(listed) if found.partitioned_by else {()}
    if len(set(listed)) < len(listed):
        raise _disagree(source, "two partitions of it have one folder", _COPY)
    for at, each in enumerate(names, start=1):
        where = f"file {at} of {len(names)} in its folder, sorted by path,"
        if each[-1].endswith(_HALF):
            raise _disagree(source, f"{where} is still being written", "wait until it is there, or take it out")
        if each[:-1] not in wanted:
            if found.partitioned_by:
                raise _disagree(source, f"{where} is in no partition that the metastore lists", _repair(source))
            raise _disagree(source, f"{where} is in a folder below it", f"take it out of there; or {_COPY}")
    if below.folders is not None and not below.folders.issuperset(listed):
        at = next(at for at, each in enumerate(listed, start=1) if each not in below.folders)
        says = f"the folder of partition {at} of {len(listed)}, as listed, is not there"
        raise _disagree(source, says, _repair(source))
    if not names:
        raise Unavailable(
            f"the table {source.file!r} of the metastore has no file",
            hint="let whoever writes it write its rows, then run the same command again",
            code="DPR-E102",
        )
    files = [
        DataFile(below.files[each], folder_values(table, each[:-1], f"{source.file!r} (file {at} of {len(names)})"))
        for at, each in enumerate(names, start=1)
    ]
    return of_period(table, files)


def address_of(source: MetastoreSource, location: str) -> str:
    """The path of a folder, or its address in a store, as sources have them.

    >>> source = MetastoreSource(file="office.visits")
    >>> address_of(source, "file:/srv/a%20b"), address_of(source, "s3a://office/visits/")
    ('/srv/a b', 's3://office/visits')

    Raises:
        TableMismatch: If it is neither (DPR-E158).
    """
    scheme, place, path = _parts(location)
    if scheme == "file" and not place:
        return path
    if (known := store_meant(scheme)) in STORES and place:
        return f"{known}://{place}{path}"
    says = f"begins with `{scheme}:`, which is not read" if scheme else "names no file system"
    raise TableMismatch(
        f"the folder of the table {source.file!r} is at an address that {says}",
        detail="files are opened by readers of our own: in folders that all machines mount, and in object stores",
        hint="write a copy of the table to such a place (`CREATE TABLE ... USING parquet LOCATION 'file:/...'`)",
        code="DPR-E158",
    )


def _parts(location: str) -> tuple[str, str, str]:
    """Scheme, place and path of an address, the path as it is on a disk."""
    split = urlsplit(location)
    return split.scheme.lower(), split.netloc, unquote(split.path, errors="surrogateescape").rstrip("/")


def _below(source: MetastoreSource, found: RecordedTable, at: int, partition: Partition) -> tuple[str, ...]:
    """The folders that lead from a table's own one to a partition, which say its values."""
    where = f"partition {at} of {len(found.partitions)}, as listed,"
    base, place = _parts(found.location), _parts(partition.location)
    if place[:2] != base[:2] or not place[2].startswith(f"{base[2]}/"):
        raise _disagree(source, f"{where} is outside of the table's folder", _COPY)
    names = tuple(place[2][len(base[2]) + 1 :].split("/"))
    if not _says(names, found.partitioned_by, partition.values):
        raise _disagree(source, f"{where} is in no folder that is named by its columns and values", _COPY)
    return names


def _says(names: Sequence[str], columns: Sequence[str], values: Sequence[str | None]) -> bool:
    if len(names) != len(columns):
        return False
    for name, column, value in zip(names, columns, values, strict=True):
        key, equals, text = name.partition("=")
        said = None if text == "__HIVE_DEFAULT_PARTITION__" else unquote(text)
        if not equals or unquote(key).lower() != column.lower() or said != value:
            return False
    return True


def _paths(source: MetastoreSource, base: Path) -> _Found:
    files: dict[tuple[str, ...], FilePath] = {}
    folders: set[tuple[str, ...]] = set()
    try:
        for names, entry in _entries(base, ()):
            if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
                what = "a link" if entry.is_symlink() else "neither a file nor a folder"
                raise _disagree(source, f"there is {what} in its folder", "put the files themselves there")
            if entry.is_dir():
                folders.add(names)
            else:
                files[names] = Path(entry.path)
        is_lake = (base / LOG).is_dir()
        require_each_once([files[each] for each in sorted(files)], source.file)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
    else:
        return _Found(files, frozenset(folders), is_lake)
    raise Unavailable(
        f"the files of the table {source.file!r} of the metastore cannot be looked for: {why}",
        hint="let the user that runs this list and enter the table's folder, under the path that the metastore has; "
        "then run the same command again",
        code="DPR-E106",
    )


def _entries(folder: Path, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_data((entry.name,)):
                yield (*names, entry.name), entry
                if entry.is_dir(follow_symlinks=False):
                    yield from _entries(Path(entry.path), (*names, entry.name))


def _objects(source: MetastoreSource, address: str, environment: Mapping[str, str]) -> _Found:
    store = opened_store(source.file, f"{address}/", environment)
    base = "/".join(filter(None, (store.bucket, store.pattern.strip("/"))))
    listed = objects_below(
        store, base, source.file, "write fewer and larger files, or a table of the rows that are asked for"
    )
    named = {tuple(path[len(base) + 1 :].split("/")): path for path in listed}
    return _Found(
        {names: StoredObject(path, source.file, store.filesystem) for names, path in named.items() if is_data(names)},
        None,
        _begins(named, LOG),
    )


def _begins(named: Iterable[tuple[str, ...]], folder: str) -> bool:
    return any(names[0] == folder for names in named)


def _disagree(source: MetastoreSource, says: str, do: str) -> TableMismatch:
    return TableMismatch(
        f"the table {source.file!r} of the metastore is not what lies in its folder: {says}",
        detail="the rows of the table are perhaps not those of the files in the folder",
        hint=f"{do}; then run the same command again",
        code="DPR-E159",
    )


def _repair(source: MetastoreSource) -> str:
    return (
        f"type `MSCK REPAIR TABLE {source.file} SYNC PARTITIONS` in spark-sql, or take out what does not belong there"
    )


_COPY = "write a copy of the table (`CREATE TABLE ... USING parquet AS SELECT ...`) and name that"
