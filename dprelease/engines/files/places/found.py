"""The files of a table, of this machine or of a store, with what their paths say of the rows in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dprelease.catalog.source import DeltaSource
from dprelease.catalog.table import Table
from dprelease.engines.files.places.delta import lake_files
from dprelease.engines.files.places.folders import MAGIC, files, resolved
from dprelease.engines.files.places.objects import LOG, StoredObject, in_lake, stored_objects
from dprelease.engines.files.places.partitions import (
    PathValue,
    folder_values,
    is_data,
    of_other_period,
    partition_columns,
)
from dprelease.engines.files.places.stores import is_stored
from dprelease.errors import TableMismatch, Unavailable

__all__ = ["DataFile", "data_files", "of_period", "refuse_lake"]


@dataclass(frozen=True)
class DataFile:
    """One file of a table.

    Attributes:
        path: Where it is.
        values: What its path says for the partition columns, in the order of these.
    """

    path: Path | StoredObject
    values: tuple[PathValue, ...] = ()


@dataclass(frozen=True)
class _Place:
    """A file with the folders that lead to it, and its path below the folder that a pattern looks through."""

    path: Path | StoredObject
    folders: tuple[str, ...]
    below: tuple[str, ...]


def data_files(table: Table, folder: Path, environment: Mapping[str, str]) -> tuple[DataFile, ...]:
    """The files of a table in which rows of its period may be, sorted by path.

    Raises:
        Unavailable: As of ``files.places.folders.files`` and ``files.places.objects.stored_objects``.
        TableMismatch: As there; if a path does not say what is declared of it; if a link leads out of the folder of a
            source with partitions; or if the files belong to a Delta table, whose log says which of them count.
    """
    address = resolved(table.files, environment)
    if isinstance(table.source, DeltaSource):
        lake = lake_files(table, table.source, address, folder, environment)
        return of_period(table, [DataFile(each.path, each.values) for each in lake])
    places = (
        _objects(table, address, environment) if is_stored(address) else _paths(table, address, folder, environment)
    )
    if not partition_columns(table):
        return tuple(DataFile(each.path) for each in places)
    places = [each for each in places if is_data(each.below)]
    if not places:
        raise Unavailable(
            f"no file of {table.files.file!r} holds data: all are in folders, or have names, that begin with _ or .",
            hint="put the files there, or correct `source.file` (it is relative to the project's folder)",
            code="DPR-E102",
        )
    found = [
        DataFile(each.path, folder_values(table, each.folders, _told(table, at, len(places))))
        for at, each in enumerate(places, start=1)
    ]
    return of_period(table, found)


def of_period(table: Table, found: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """Those of them in which rows of the table's period may be."""
    others = of_other_period(table, [each.values for each in found])
    return tuple(each for each, other in zip(found, others, strict=True) if not other)


def _told(table: Table, at: int, total: int) -> str:
    return f"{table.files.file!r} (file {at} of {total}, sorted by name)"


def _paths(table: Table, pattern: str, folder: Path, environment: Mapping[str, str]) -> list[_Place]:
    paths = files(table.files, folder, environment)
    base = _fixed(pattern, folder)
    if base is not None:
        lakes = {parent / LOG for path in paths for parent in path.parents}
        refuse_lake(table, any(lake.is_dir() for lake in lakes))
        if partition_columns(table):
            _refuse_links(table, base, [path for path in paths if is_data(path.relative_to(base).parts)])
    return [
        _Place(
            path,
            # Those of the project say nothing: where it lies is no matter of the data.
            (path.relative_to(folder) if path.is_relative_to(folder) else path).parent.parts,
            () if base is None else path.relative_to(base).parts,
        )
        for path in paths
    ]


def _fixed(pattern: str, folder: Path) -> Path | None:
    """The folder below which a pattern looks; None where it is the name of one file."""
    parts = Path(pattern).parts
    magic = next((at for at, part in enumerate(parts) if MAGIC.search(part)), None)
    if magic is None or (folder / pattern).is_file():
        return None
    return folder.joinpath(*parts[:magic])


def _objects(table: Table, address: str, environment: Mapping[str, str]) -> list[_Place]:
    objects, base = stored_objects(table.files, address, environment)
    if base is not None:
        refuse_lake(table, in_lake(objects))
    skipped = 0 if base is None else len(base.split("/")) if base else 0
    return [_Place(each, each.parts[:-1], () if base is None else each.parts[skipped:]) for each in objects]


def refuse_lake(table: Table, is_lake: bool) -> None:
    """Refuse the bare files of a Delta table: most folders also hold files that were deleted or replaced."""
    if is_lake:
        raise TableMismatch(
            f"table {table.name!r}: the files of {table.files.file!r} belong to a Delta table",
            detail="its folder also holds files with rows that were changed or deleted since; which files count is "
            "said by the table's log, in the folder `_delta_log`",
            hint="write `source: {delta: FOLDER, version: N}` instead of `file`",
            code="DPR-E314",
        )


def _refuse_links(table: Table, base: Path, paths: Sequence[Path]) -> None:
    inside = base.resolve()
    for at, path in enumerate(paths, start=1):
        if not path.resolve().is_relative_to(inside):
            raise TableMismatch(
                f"table {table.name!r}: a link leads from {_told(table, at, len(paths))} out of the source's folder",
                detail="the path says what its rows are, and the rows would be somebody else's",
                hint="put the file itself there, or name the folder that it is in",
                code="DPR-E313",
            )
