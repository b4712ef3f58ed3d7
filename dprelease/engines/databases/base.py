"""What every kind of database gives, and what is said where a table is not as it was declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol, TypeVar

from dprelease.catalog.source import DatabaseSource
from dprelease.catalog.table import Column, Table
from dprelease.engines.files.source import stored_columns
from dprelease.errors import BrokenPromiseError, DpReleaseError, TableMismatch, Unavailable, Unsupported

__all__ = [
    "RowSums",
    "Snapshot",
    "database_of",
    "gone",
    "no_table",
    "require_columns",
    "require_readable_types",
    "require_view",
    "told",
]

Result = TypeVar("Result")


@dataclass(frozen=True)
class RowSums:
    """What tells the rows of one state from those of another: no order counts, and equal rows count each.

    Attributes:
        rows: How many.
        sums: Of two hashes of every row.
        method: Whose hashes they are.
        types: The types that the columns are stored with, by name.
    """

    rows: int
    sums: tuple[int, int]
    method: str
    types: dict[str, str]


class Snapshot(Protocol):
    """One read-only state of a database. Used by one thread at a time; a lost connection is ``Unavailable``."""

    def describe(self, table: Table) -> None:
        """Check that the table is there, may be read, and has the declared columns; reads no row."""
        ...

    def columns(self, table: Table) -> dict[str, str]:
        """All columns of the table that this user may see, in its order, and the types they are stored with."""
        ...

    def identity(self, table: Table) -> tuple[str, ...]:
        """Which table of which database it is, whatever it is called by those who connect."""
        ...

    def sums(self, table: Table) -> RowSums:
        """Sums over the rows of the period, in the columns that a release reads."""
        ...

    def blocks(self, table: Table, columns: Sequence[Column]) -> Iterator[list[Any]]:
        """See ``SourceReader.blocks``."""
        ...

    def close(self) -> None:
        """Let go of the state, and of the connection to it."""
        ...


def database_of(table: Table) -> DatabaseSource:
    """The source of a table that is in a database; a reader of databases is handed no other."""
    if not isinstance(table.source, DatabaseSource):
        raise BrokenPromiseError(f"the rows of table {table.name!r} are in no database")
    return table.source


def told(doing: str, action: Callable[[], Result], refused: Callable[[str, Exception], DpReleaseError]) -> Result:
    """Run an action; what a driver raises becomes an error of ours, which has none of its words.

    The new error is raised after the ``except`` block has ended, so that no traceback leads to the driver's.

    Args:
        doing: What was under way, in public words.
        action: What to do.
        refused: The error for a driver's one; it may look at codes and class names alone.
    """
    try:
        return action()
    except DpReleaseError:
        raise
    except Exception as error:
        instead = refused(doing, error)
    raise instead


def gone(doing: str, why: str) -> Unavailable:
    """The error for a database that does not answer now."""
    return Unavailable(
        f"{doing}: the database cannot be reached now ({why})",
        detail="nothing was drawn from what was read of it",
        hint="run the same command again once it answers: it compares the rows with what was read first, and resumes",
        code="DPR-E120",
    )


def no_table(table: Table, schema: str, names: Sequence[str]) -> TableMismatch:
    """The error for a table that is not there, or that this user sees nothing of."""
    source = database_of(table)
    near = get_close_matches(source.table or "", names, 1)
    return TableMismatch(
        f"table {table.name!r}: schema {schema!r} of the database has no table or view {source.table!r}",
        hint=f"did you mean {near[0]!r}?"
        if near
        else "correct `table` and `schema` of the source, or ask the owner of the database for the right to see it",
        code="DPR-E330",
    )


def require_view(table: Table, *, is_view: bool) -> None:
    """Refuse a view of which nobody has promised that a unit's rows come from that unit alone.

    Raises:
        TableMismatch: DPR-E332.
    """
    if is_view and not database_of(table).view:
        raise TableMismatch(
            f"table {table.name!r}: {database_of(table).table!r} is a view",
            detail="one person more may change rows of others in it: where it ranks, limits, compares or samples rows, "
            "or takes the newest of a group",
            hint="name the table that the view reads; or, where each of its rows is made of one unit's rows alone, "
            "write `view: true` under `source`",
            code="DPR-E332",
        )


def require_columns(table: Table, found: Sequence[str], columns: Sequence[Column] = ()) -> None:
    """Refuse a table without the declared columns and those that are read beside them, or with two of a name.

    Raises:
        TableMismatch: DPR-E301 or DPR-E302, with the nearest name for each column that is missing.
    """
    declared = list(dict.fromkeys(column.name for column in (*stored_columns(table), *columns)))
    missing = [name for name in declared if name not in found]
    if missing:
        near = {name: get_close_matches(name, found, 1, 0.5) or _in_case(name, found) for name in missing}
        meant = [f"{each[0]!r} for {name!r}" for name, each in near.items() if each]
        raise TableMismatch(
            f"table {table.name!r}: the database has no column {', '.join(map(repr, missing))} there",
            detail=f"declared: {', '.join(declared)}\n    found: {', '.join(found) or 'none'}",
            hint=f"did you mean {', '.join(meant)}?" if meant else "correct the names under `columns` of the table",
            code="DPR-E301",
        )
    twice = [name for name in declared if list(found).count(name) > 1]
    if twice:
        raise TableMismatch(
            f"table {table.name!r}: its query has more than one column {', '.join(map(repr, twice))}",
            hint="give every column of the query its own name, with `AS`",
            code="DPR-E302",
        )


def _in_case(name: str, found: Sequence[str]) -> list[str]:
    return [each for each in found if each.lower() == name.lower()]


def require_readable_types(table: Table, types: dict[str, str], readable: Callable[[str], bool]) -> None:
    """Refuse columns of types that no text of ours means anything for, such as lists and intervals.

    Raises:
        Unsupported: DPR-E221.
    """
    for column in stored_columns(table):
        stored = types[column.name]
        if not readable(stored):
            raise Unsupported(
                f"table {table.name!r}: column {column.name!r} is stored as {stored}, which is read as no type of ours",
                hint="store what is meant of it as a number, a text, a day or a moment, or leave the column out",
                code="DPR-E221",
            )
