"""Tables of a metastore as sources: asked for whenever files are looked for, and refused once the answer has changed.

A metastore can point elsewhere for a moment, and back, which no file would show: inode and times of a file tell that
the file was written to, not that another one was meant. So what was said first of a table stands for as long as the
engine lives, and the first other answer refuses the table for good, as a file that was written to does. What holds
between two processes is what holds for all files: the keyed hashes in the ledger, of bytes and of values in paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from dprelease.catalog.source import DeltaSource, MetastoreSource
from dprelease.catalog.table import Table
from dprelease.engines.base import scrubbed
from dprelease.engines.files.places.delta import lake_files
from dprelease.engines.files.places.found import DataFile, of_period
from dprelease.engines.files.reader import FileReader
from dprelease.engines.files.source import stored_columns
from dprelease.engines.spark.metastore import RecordedTable, TableRecords, table_on_record
from dprelease.engines.spark.session import spark_context
from dprelease.engines.spark.session_catalog import SessionCatalog
from dprelease.engines.spark.table_folders import address_of, folder_files
from dprelease.errors import BrokenPromiseError, EngineError, TableMismatch

__all__ = ["MetastoreReader"]


class MetastoreReader(FileReader):
    """Reads tables of the metastore of the running Spark session; arguments as of a reader of files."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(folder, environment)
        self._lock = Lock()
        self._first: dict[str, tuple[DataFile, ...]] = {}
        self._changed: set[str] = set()

    def files(self, table: Table) -> tuple[DataFile, ...]:
        """The files of a table, as the metastore says them now.

        Raises:
            EngineError: If it has said other ones before (DPR-E105).
            Unavailable: As of ``metastore.table_on_record`` and ``table_folders.folder_files``.
            TableMismatch: As there.
        """
        identity = table.fingerprint()
        found = scrubbed(f"table {table.name!r}, asking the metastore", lambda: self._found(table))
        with self._lock:
            if self._first.setdefault(identity, found) != found:
                self._changed.add(identity)
            changed = identity in self._changed
        if changed:
            raise EngineError(
                f"table {table.name!r}: the metastore names other files of {table.files.file!r} than it did before",
                detail="what was read last gets no answer, for it may be of no state of the table",
                hint="let no one change the table, then run the same command again: it compares the files with "
                "what was read first, and resumes",
                code="DPR-E105",
            )
        return found

    def _found(self, table: Table) -> tuple[DataFile, ...]:
        source = table.source
        if not isinstance(source, MetastoreSource):
            raise BrokenPromiseError(f"the rows of table {table.name!r} are in no metastore")
        record = table_on_record(source, self._records())
        if source.version is None:
            _require_columns(table, source, record)
            return folder_files(table, source, record, self._environment)
        lake = DeltaSource(file=source.file, version=source.version, null_values=source.null_values)
        address = address_of(source, record.location)
        files = lake_files(table, lake, address, self._folder, self._environment)
        return of_period(table, [DataFile(each.path, each.values) for each in files])

    def _records(self) -> TableRecords:
        return SessionCatalog(spark_context(self._environment))


def _require_columns(table: Table, source: MetastoreSource, record: RecordedTable) -> None:
    """The declared columns are in the table, and those stand in paths of which it is said.

    A metastore writes names in small letters, so that capitals are compared with the files alone.
    """
    named, in_paths = ({name.lower() for name in each} for each in (record.columns, record.partitioned_by))
    for column in stored_columns(table):
        if column.name.lower() not in named:
            raise TableMismatch(
                f"table {table.name!r}: {source.file!r} has no column {column.name!r} in the metastore",
                hint="correct the name under `columns` of the table",
                code="DPR-E301",
            )
        if column.partition != (column.name.lower() in in_paths):
            says = "is no partition column" if column.partition else "is a partition column"
            raise TableMismatch(
                f"table {table.name!r}: {column.name!r} {says} of {source.file!r} in the metastore",
                hint="leave `partition: true` out" if column.partition else "write `partition: true` at the column",
                code="DPR-E152",
            )
