"""DuckDB behind Ibis, in this process and locked, begun when the first statement is made."""

from __future__ import annotations

from typing import Any

from dprelease.engines.base import scrubbed
from dprelease.engines.drivers import ibis
from dprelease.engines.locked import lock, unlocked_duckdb

__all__ = ["Backend", "locked_connection"]

# What groups took and dropped tables held goes back to the machine when so much is free, and not at 128 and 512 MB.
_GIVEN_BACK = {"allocator_flush_threshold": "16MB", "allocator_bulk_deallocation_flush_threshold": "16MB"}


def locked_connection(memory: int | None = None) -> Any:
    """An Ibis backend over an empty in-memory DuckDB that can reach nothing outside itself.

    It has no temporary directory (more data than memory is an error, never a file), reads and writes no file,
    installs and loads no extension, sees no Python variable, and none of that can be switched back on.

    Args:
        memory: The bytes that it may take; None: DuckDB's own limit, a part of what the machine or its container has.
    """
    # Bits: groups by few and small columns need no hashing, which is several times as fast. Of more bits the many sums
    # of one pass would take much memory, as every possible group has a place.
    limit = {} if memory is None else {"memory_limit": f"{memory}B"}
    connection = unlocked_duckdb(perfect_ht_threshold="16", **_GIVEN_BACK, **limit)
    backend = ibis.duckdb.from_connection(connection)  # sets the time zone, so before the lock
    lock(connection)
    return backend


class Backend:
    """A :func:`locked_connection` that is made when something of it is first asked for, by one thread at a time.

    Args:
        memory: The bytes that it may take.
    """

    def __init__(self, memory: int | None) -> None:
        self._memory = memory
        self._begun: Any = None

    def begin(self) -> Any:
        """The connection, made now if it is not there.

        Raises:
            EngineError: If it cannot be made.
        """
        if self._begun is None:
            self._begun = scrubbed("starting DuckDB", lambda: locked_connection(self._memory))
        return self._begun

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._begun is not None:
            scrubbed("closing DuckDB", self._begun.disconnect)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.begin(), name)
