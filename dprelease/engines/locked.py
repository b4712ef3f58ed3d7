"""A DuckDB that can reach nothing outside itself, or nothing but the one file that it reads."""

from __future__ import annotations

from typing import Any

from dprelease.engines.drivers import duckdb

__all__ = ["lock", "locked_duckdb", "unlocked_duckdb"]


def unlocked_duckdb(path: str = ":memory:", **settings: str) -> Any:
    """A connection that is still to be locked, with no temporary directory: more data than memory is an error.

    Args:
        path: A file, which is opened for reading only.
        settings: Further ones.
    """
    connection = duckdb.connect(
        path,
        read_only=path != ":memory:",
        config={
            "temp_directory": "",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
            "preserve_insertion_order": "false",
            **settings,
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # which it shows where it takes a process for somebody's own
    return connection


def lock(connection: Any) -> None:
    """It reads and writes no other file and loads no extension from now on, and none of that can be switched back."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def locked_duckdb(path: str = ":memory:") -> Any:
    """A locked connection; of a file, to that file alone."""
    connection = unlocked_duckdb(path)
    try:
        lock(connection)
    except BaseException:
        connection.close()
        raise
    return connection
