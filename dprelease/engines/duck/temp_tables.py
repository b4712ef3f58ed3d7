"""Tables for a while: small public ones lent to DuckDB, steps of one pass kept in its memory, all gone at the end."""

from __future__ import annotations

from itertools import count
from types import TracebackType
from typing import Any

__all__ = ["Stage"]


class Stage:
    """A context in which tables are lent and kept; leaving it drops them, whatever happened.

    Args:
        backend: Ibis over DuckDB.
        names: Numbers that no other table of the backend has in its name.
    """

    def __init__(self, backend: Any, names: count[int]) -> None:
        self._backend = backend
        self._names = names
        self._lent: list[str] = []
        self._kept: list[str] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name in self._kept:
            self._backend.con.execute(f'DROP TABLE IF EXISTS "{name}"')
        for name in self._lent:
            self._backend.con.unregister(name)

    def lend(self, rows: Any) -> Any:
        """Show an Arrow table to DuckDB without copying it."""
        name = f"t{next(self._names)}"
        self._backend.con.register(name, rows)
        self._lent.append(name)
        return self._backend.table(name)

    def read(self, rows: Any) -> Any:
        """Compute an Ibis table and fetch it, as an Arrow table."""
        return self._backend.to_pyarrow(rows)

    def keep(self, rows: Any) -> Any:
        """Compute an Ibis table now, so that every later step reads the same rows."""
        name = f"t{next(self._names)}"
        self._kept.append(name)
        # Not through Ibis: it would cast sums of 128 bits to the 64 that it takes them for, which can fail.
        self._backend.con.execute(f'CREATE TABLE "{name}" AS {self._backend.compile(rows)}')
        return self._backend.table(name)

    def forget(self, rows: Any) -> None:
        """Drop a kept table before the end."""
        name = rows.get_name()
        self._kept.remove(name)
        self._backend.con.execute(f'DROP TABLE IF EXISTS "{name}"')
