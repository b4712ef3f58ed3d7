"""Sources that are files: found, checked, fingerprinted and read, whatever their format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count, starmap
from pathlib import Path
from typing import Any

from dprelease.catalog.table import Column, Table
from dprelease.engines.base import scrubbed
from dprelease.engines.files.fingerprint import Watch, present
from dprelease.engines.files.in_turn import THREADS, parts_in_turn
from dprelease.engines.files.parquet import parquet_runs
from dprelease.engines.files.places.found import DataFile, data_files
from dprelease.engines.files.places.objects import threads_for
from dprelease.engines.files.source import checked_headers, stored_blocks

__all__ = ["FileReader"]


class FileReader:
    """A ``SourceReader`` of files (``dprelease.engines.readers``).

    Args:
        folder: What ``source.file`` is relative to.
        environment: What ``${env:NAME}`` in it may name.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._watch = Watch(self.files)

    def files(self, table: Table) -> tuple[DataFile, ...]:
        """The files of a table, as they are now; see ``files.places.found.data_files``."""
        return data_files(table, self._folder, self._environment)

    def describe(self, table: Table) -> None:
        """Check the files and the names in them."""
        found = self.files(table)
        checked_headers(table, [each.path for each in found])

    def present(self, table: Table) -> None:
        """Check that the files may be read."""
        present(table, self.files)

    def known(self, table: Table, key: bytes) -> tuple[str, ...] | None:
        """The keyed hashes, where every file looks as it did."""
        return self._watch.known(table, key)

    def fingerprint(self, table: Table, key: bytes, *, loaded: bool) -> tuple[str, ...]:
        """The keyed hash of every file."""
        return self._watch.fingerprint(table, key, loaded=loaded)

    def blocks(
        self, table: Table, columns: Sequence[Column], show: Callable[[int, int], None] = lambda done, parts: None
    ) -> Iterator[list[Any]]:
        """The blocks of all files, one file after the other, whose names and headers are checked first."""
        return self._in_order(table, columns, self._checked(table), show)

    def parts(self, table: Table, columns: Sequence[Column]) -> Sequence[Iterator[list[Any]]]:
        """Runs of row groups of Parquet files of this machine that are about as long; of other files all in one."""
        files = self._checked(table)
        paths = [file.path for file, _ in files]
        local = table.files.file_format == "parquet" and all(isinstance(path, Path) for path in paths)
        runs = scrubbed(f"table {table.name!r}, its row groups", lambda: parquet_runs(paths, THREADS)) if local else []
        if len(runs) < 2:
            return [self._in_order(table, columns, files)]

        def blocks_of(at: int, piece: tuple[int, int]) -> Iterator[list[Any]]:
            file, names = files[at]
            return stored_blocks(table, file.path, names, columns, file.values, piece)

        return [chain.from_iterable(starmap(blocks_of, run)) for run in runs]

    def _checked(self, table: Table) -> list[tuple[DataFile, tuple[str, ...]]]:
        """The files of a table with their columns, after checking these."""
        found = self.files(table)
        return [*zip(found, checked_headers(table, [each.path for each in found]), strict=True)]

    def _in_order(
        self,
        table: Table,
        columns: Sequence[Column],
        files: Sequence[tuple[DataFile, tuple[str, ...]]],
        show: Callable[[int, int], None] = lambda done, parts: None,
    ) -> Iterator[list[Any]]:
        read = count(1)

        def blocks_of(file: DataFile, names: Sequence[str]) -> Iterator[list[Any]]:
            yield from stored_blocks(table, file.path, names, columns, file.values)
            show(next(read), len(files))

        parts = (blocks_of(file, names) for file, names in files)
        return parts_in_turn(parts, threads_for([file.path for file, _ in files]))

    def close(self) -> None:
        """Nothing is held."""
