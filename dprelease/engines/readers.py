"""Where do rows come from? Readers: each hands over the rows of one kind of source as Arrow arrays, as they are stored.

What a value means is not theirs to say: typing is one definition for all of them (``files.values``, ``files.rows``).
``SOURCE_READERS`` is closed, for what reads the data must be audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dprelease.catalog.table import Column, Table
from dprelease.engines.databases.reader import DatabaseReader
from dprelease.engines.files.formats import FILE_FORMATS
from dprelease.engines.files.reader import FileReader

__all__ = ["SOURCE_READERS", "SourceReader"]


class SourceReader(Protocol):
    """Reads tables of one kind of source. An engine calls it by one thread at a time, but for :meth:`known`."""

    def describe(self, table: Table) -> None:
        """Check that the source is there and has the declared columns; see ``Engine.describe``."""
        ...

    def present(self, table: Table) -> None:
        """Check that the source can be read now, without reading any of it; see ``Engine.present``."""
        ...

    def known(self, table: Table, key: bytes) -> tuple[str, ...] | None:
        """The fingerprint, if it is cheap to tell that the source is as it was; else None. Safe for threads."""
        ...

    def fingerprint(self, table: Table, key: bytes, *, loaded: bool) -> tuple[str, ...]:
        """Keyed hashes of what the source holds now, sorted; see ``Engine.fingerprint``.

        Args:
            table: Whose source.
            key: 64 secret bytes (32 of an earlier key).
            loaded: Whether an engine answers from rows of it: then it must be what those were read from.
        """
        ...

    def blocks(
        self, table: Table, columns: Sequence[Column], show: Callable[[int, int], None] = lambda done, parts: None
    ) -> Iterator[list[Any]]:
        """Some columns of all rows as they are stored, block by block; each block a list of Arrow arrays of one length.

        What can be refused is refused by the call, before the first block. Rows that are surely of no period of the
        table may be left out; no row changes how another one is read. It is called again for each part of a table that
        does not fit in memory: then the rows are the same, in any order, or the next fingerprint differs.

        Args:
            table: The declaration.
            columns: What is read, by name and as declared; none of a table without columns of its own: then one array
                of a block is enough, for its length.
            show: Called after each part of the source, such as a file, with how many are read and how many there are.

        Raises:
            Unavailable: As in ``Engine.describe``.
            TableMismatch: As there.
        """
        ...

    def parts(self, table: Table, columns: Sequence[Column]) -> Sequence[Iterator[list[Any]]]:
        """The same rows in parts that may be read at once, each by a thread of its own; one where there are no parts.

        Raises:
            Unavailable: As in ``Engine.describe``.
            TableMismatch: As there.
        """
        ...

    def close(self) -> None:
        """Let go of what is held for later calls, such as connections; a second time does nothing."""
        ...


SOURCE_READERS: dict[str, Callable[[Path, Mapping[str, str]], SourceReader]] = {
    **dict.fromkeys((*FILE_FORMATS, "delta"), FileReader),
    "database": DatabaseReader,
}
