"""The rows that a first spec is about: a file or a table of a database, as a spec names it, and its columns' names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from dprelease.catalog.source import DatabaseSource
from dprelease.errors import Problem, SpecError
from dprelease.release.data.column_names import (
    ColumnNames,
    file_format,
    is_database,
    names_in_database,
    names_in_dictionary,
)
from dprelease.spec.fields.sources import SourceSpec

__all__ = ["FirstTable", "Place"]


@dataclass(frozen=True)
class FirstTable:
    """What is known of the rows before anybody is asked.

    Attributes:
        name: What they may be called: of the file or the table.
        source: The fields under ``source`` that say where they are, written as YAML.
        path: The file; None: they are in a database.
        is_csv: Whether a line of the file may name its columns.
        header: The names of its columns where no line names them; empty: the file names them.
        columns: The columns where something else than a line names them.
    """

    name: str
    source: tuple[tuple[str, str], ...]
    path: Path | None = None
    is_csv: bool = False
    header: tuple[str, ...] = ()
    columns: ColumnNames | None = None


@dataclass(frozen=True)
class Place:
    """Where the rows are, as it was typed.

    Attributes:
        data: A file, or the URL of a database; variables are ``${env:NAME}``.
        table: Of a database.
        schema: Of a database: the schema of its table.
        view: Of a database: whether the table is a view of which each row is made of one unit's rows alone.
        header: Of a CSV: the names of all columns, where no line names them.
    """

    data: str
    table: str | None = None
    schema: str | None = None
    view: bool = False
    header: tuple[str, ...] = ()

    @property
    def words(self) -> Iterable[str]:
        """It, as a command line has it."""
        yield self.data
        for option, said in (("--table", self.table), ("--schema", self.schema), ("--header", ",".join(self.header))):
            if said:
                yield from (option, said)
        if self.view:
            yield "--view"

    def rows(self, folder: Path) -> FirstTable:
        """What is there; of a database after its catalog was asked.

        Args:
            folder: Of the project, which paths in a spec are relative to.

        Raises:
            SpecError: If it cannot be a source, or the options are of another kind of source.
            EngineError: If the database cannot be read.
        """
        if is_database(self.data):
            return self._in_database(folder)
        path = Path(self.data)
        kind = file_format(path)
        if self.table or self.schema or self.view:
            raise _option("--table, --schema and --view are for a database", "leave them out: a file is one table")
        is_csv = kind.startswith("csv")
        if self.header and not is_csv:
            raise _option("--header is for a CSV", "leave it out: the file names its columns")
        whole = path.absolute()
        written = (whole.relative_to(folder) if whole.is_relative_to(folder) else whole).as_posix()
        columns = None if is_csv else names_in_dictionary(path, kind)
        return FirstTable(path.name.split(".")[0], (("file", _quoted(written)),), path, is_csv, self.header, columns)

    def _in_database(self, folder: Path) -> FirstTable:
        if self.header:
            raise _option("--header is for a CSV", "leave it out: the database names its columns")
        if not self.table:
            raise _option("a database has several tables", "say which: `--table NAME`, and its schema by `--schema`")
        asked = {"database": self.data, "table": self.table, "schema": self.schema, "view": self.view}
        said = {name: value for name, value in asked.items() if value}
        try:
            source = SourceSpec.model_validate(said).declared
        except ValidationError as error:
            problems = [_problem(each["type"], each.get("ctx", {})) for each in error.errors(include_url=False)]
        else:
            assert isinstance(source, DatabaseSource)  # noqa: S101 - `database` was given, and makes it one
            columns = names_in_database(source, folder, os.environ)
            written = tuple((name, _quoted(value)) for name, value in said.items())
            return FirstTable(self.table, written, columns=columns)
        raise SpecError(problems)  # outside of the `except`: what was typed may hold a password


def _problem(code: str, told: dict[str, str]) -> Problem:
    return Problem(code, f"the URL of the database {told.get('summary', 'cannot be read')}", told.get("hint", ""))


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _option(says: str, hint: str) -> SpecError:
    return SpecError([Problem("DPR-S908", says, hint)])
