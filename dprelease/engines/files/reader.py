"""Sources that are files: found, checked, fingerprinted and read, whatever their format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dprelease.catalog.table import Column, Table
from dprelease.engines.files.fingerprint import Watch, present
from dprelease.engines.files.source import checked_headers, files, stored_blocks

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
        self._watch = Watch(folder, environment)

    def describe(self, table: Table) -> None:
        """Check the files and the names in them."""
        checked_headers(table, files(table.files, self._folder, self._environment))

    def present(self, table: Table) -> None:
        """Check that the files may be read."""
        present(table, self._folder, self._environment)

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
        paths = files(table.files, self._folder, self._environment)
        headers = checked_headers(table, paths)

        def read() -> Iterator[list[Any]]:
            for at, (path, names) in enumerate(zip(paths, headers, strict=True), start=1):
                yield from stored_blocks(table, path, names, columns)
                show(at, len(paths))

        return read()

    def close(self) -> None:
        """Nothing is held."""
