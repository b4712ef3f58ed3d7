"""Tables for a while: small public ones lent to DuckDB, steps of one pass kept in its memory, all gone at the end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from types import TracebackType
from typing import Any

from dprelease.engines.drivers import operations
from dprelease.engines.files.decimals import MOST

__all__ = ["Stage"]


class Stage:
    """A context in which tables are lent and kept; leaving it drops them, whatever happened.

    Args:
        backend: Ibis over DuckDB.
        names: Numbers that no other table of the backend has in its name.
        lasting: A stage that lasts longer, and has the views of what no table of this one is needed for.
    """

    def __init__(self, backend: Any, names: count[int], lasting: Stage | None = None) -> None:
        self._backend = backend
        self._names = names
        self._lasting = lasting
        self._lent: list[str] = []
        self._kept: list[str] = []
        self._views: dict[Any, str] = {}

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop everything that was lent and kept."""
        for name in self._views.values():
            self._backend.con.execute(f"DROP VIEW IF EXISTS {_quoted(name)}")
        for name in self._kept:
            self._backend.con.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")
        for name in self._lent:
            self._backend.con.unregister(name)
        self._views.clear()
        self._kept.clear()
        self._lent.clear()

    def lend(self, rows: Any) -> Any:
        """Show an Arrow table to DuckDB without copying it."""
        name = f"t{next(self._names)}"
        self._backend.con.register(name, rows)
        self._lent.append(name)
        return self._backend.table(name)

    def seen(self, rows: Any) -> Any:
        """The same rows as a view, of equal ones the same: how they are made is no part of a statement over it.

        Ibis writes a statement anew in several passes, in each of which all that stands above a changed part is made
        again: half of the time of a statement with many totals.
        """
        stage = self if self._lasting is None or self._lent or self._kept else self._lasting
        made_of = rows.op()
        if (name := stage._views.get(made_of)) is None:
            name = stage._views[made_of] = f"t{next(self._names)}"
            self._backend.con.execute(f"CREATE VIEW {_quoted(name)} AS {self._backend.compile(rows)}")
        where = operations.Namespace(catalog=None, database=None)
        return operations.DatabaseTable(name, schema=rows.schema(), source=self._backend, namespace=where).to_expr()

    def read(self, rows: Any) -> Any:
        """Compute an Ibis table and fetch it, as an Arrow table."""
        return self._backend.to_pyarrow(rows)

    def read_part(self, rows: Any, column: str, number: int, parts: int, among: int = 1) -> Any:
        """The same of one of so many parts of the rows, by a hash of a column: rows that are equal in it are in one.

        Args:
            rows: An Ibis table.
            column: The column.
            number: Which part.
            parts: How many there are.
            among: Into how many parts the table was divided, of which these rows are one (:meth:`keep_part`).
        """
        return self._backend.con.sql(self._part(rows, column, number, parts, among)).to_arrow_table()

    def keep_part(self, rows: Any, column: str, number: int, parts: int) -> Any:
        """One of these parts, kept."""
        return self.keep_query(self._part(rows, column, number, parts, 1), ())

    def _part(self, rows: Any, column: str, number: int, parts: int, among: int) -> str:
        # Not through Ibis, which makes text of a hash on the way to a number.
        part = f"(hash({_quoted(column)}) // {among}) % {parts} = {number}"
        return f"SELECT * FROM ({self._backend.compile(rows)}) WHERE {part}"  # noqa: S608 - made by us alone

    def read_kept(self, rows: Any, within: Sequence[str] = (), parts: int = 1) -> Any:
        """A kept table as it is, sums in 128 bits; with several parts also the number of a row's part, as ``part``.

        Args:
            rows: The table.
            within: Rows that are equal in these columns are in one part.
            parts: How many parts there are.
        """
        part = f", CAST(hash({', '.join(map(_quoted, within))}) % {parts} AS INTEGER) AS part" if parts > 1 else ""
        sql = f"SELECT *{part} FROM {_quoted(rows.get_name())}"  # noqa: S608 - made by us alone
        return self._backend.con.sql(sql).to_arrow_table()

    def read_totals(self, totals: Any, within: Sequence[str], names: Sequence[str]) -> Any:
        """Compute totals and fetch them as they are handed on: in 62 bits; the total of no row is 0.

        Args:
            totals: An Ibis table of one row per group.
            within: The columns that make a group.
            names: The columns of totals.
        """
        # Not through Ibis, which takes as long for the limits of a total as for the total, and left null it would take
        # the limit (LEAST passes over nulls).
        limited = (f"LEAST(GREATEST(COALESCE({_quoted(name)}, 0), {-MOST}), {MOST})" for name in names)
        columns = [
            *map(_quoted, within),
            *(f"CAST({each} AS BIGINT) AS {_quoted(name)}" for each, name in zip(limited, names, strict=True)),
        ]
        sql = f"SELECT {', '.join(columns)} FROM ({self._backend.compile(totals)})"  # noqa: S608 - made by us alone
        return self._backend.con.sql(sql).to_arrow_table()

    def keep(self, rows: Any) -> Any:
        """Compute an Ibis table now, so that every later step reads the same rows."""
        # Not through Ibis: it would cast sums of 128 bits to the 64 that it takes them for, which can fail.
        return self.keep_query(self._backend.compile(rows), ())

    def keep_query(self, query: str, values: Sequence[str]) -> Any:
        """The same of SQL that was made by us alone, with its parameters: of these no text is made."""
        name = self._new_name()
        self._backend.con.execute(f"CREATE TABLE {_quoted(name)} AS {query}", list(values))
        return self._backend.table(name)

    def add_up(self, parts: Sequence[Any], within: Sequence[str], names: Sequence[str]) -> Any:
        """One kept table of several: their different groups, and the sums of some columns, in 128 bits.

        Args:
            parts: Kept tables of the same columns.
            within: The columns that make a group.
            names: The columns that are added up.
        """
        columns = [*within, *names]
        of_all, *others = (self._backend.con.table(part.get_name()).select(*columns) for part in parts)
        for of_part in others:
            of_all = of_all.union(of_part)
        groups = ", ".join(map(_quoted, within))
        sums = (f"sum({_quoted(name)}) AS {_quoted(name)}" for name in names)
        name = self._new_name()
        of_all.aggregate(", ".join([*map(_quoted, within), *sums]), groups).create(name)
        return self._backend.table(name)

    def _new_name(self) -> str:
        """The name of a table that is about to be kept."""
        name = f"t{next(self._names)}"
        self._kept.append(name)
        return name

    def forget(self, rows: Any) -> None:
        """Drop a kept table before the end."""
        name = rows.get_name()
        self._kept.remove(name)
        self._backend.con.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")


def _quoted(name: str) -> str:
    return f'"{name}"'
