"""The names of a file's columns, for a spec that is yet to be written: of a CSV its first line, and nothing below it.

A Parquet file and one of SPSS, Stata or SAS say in their own dictionaries how their columns are called, and which of
them are days; in a workbook the first line of its sheet says it. To be sure that one of these is whole its parser goes
through it, and hands over nothing of a row.
A database says it in its catalog.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dprelease.catalog.dialect import ENCODINGS, Dialect
from dprelease.catalog.source import DATABASE_SCHEMES, SOURCE_FORMATS, DatabaseSource, Source
from dprelease.catalog.table import ColumnType, Table
from dprelease.catalog.urls import HOLD, VARIABLE
from dprelease.engines.databases.reader import DatabaseReader
from dprelease.engines.files.csv_lines import line_fields, opened
from dprelease.engines.files.encodings import in_utf8
from dprelease.engines.files.header_shape import looks_like
from dprelease.errors import Problem, SpecError, Where

__all__ = [
    "ColumnNames",
    "FirstLine",
    "file_format",
    "first_line",
    "is_database",
    "names_in_database",
    "names_in_dictionary",
]

_LONGEST = 1 << 16
_MARK = b"\xef\xbb\xbf"
_DELIMITERS = ",;\t|"
_VALUE = re.compile(r"\s*[-+]?[0-9][0-9.,:/ _-]*\s*")  # a number, a day or a time is no name
_STORED: tuple[tuple[re.Pattern[str], ColumnType], ...] = (
    (re.compile(r"u?(tiny|small|medium|big|huge)?int(eger|[0-9]+)?\b"), "integer"),
    (re.compile("halffloat|float|double|decimal|real|numeric|number"), "decimal"),
    (re.compile("timestamp|datetime"), "timestamp"),
    (re.compile("date"), "date"),
    (re.compile("bool"), "boolean"),
)
"""The types of columns by what the names of stored types begin with, in Arrow and in databases; others hold texts."""
_WORKBOOKS = (".xls", ".xlsm", ".xlsb", ".ods")


@dataclass(frozen=True)
class ColumnNames:
    """How the columns of a file are called, in its order.

    Attributes:
        names: As the file has them.
        types: Of those whose type the file itself declares.
    """

    names: tuple[str, ...]
    types: dict[str, ColumnType] = field(default_factory=dict)


@dataclass(frozen=True)
class FirstLine:
    """The line of a CSV that may name its columns.

    Attributes:
        line: Its bytes, without line end and byte order mark.
        encoding: The one that it surely is in; None: it does not tell.
        delimiters: What may stand between its fields, likeliest first; empty: it is one field.
    """

    line: bytes
    encoding: str | None
    delimiters: tuple[str, ...]
    file: str = ""

    def named(self, delimiter: str, encoding: str) -> ColumnNames:
        """Its fields as names.

        Raises:
            SpecError: If it cannot be the names of columns; the message quotes nothing of it.
        """
        try:
            fields = line_fields(in_utf8(self.line, encoding), Dialect(delimiter=delimiter))
            names = None if fields is None else tuple(each.decode("utf-8") for each in fields)
        except UnicodeDecodeError:
            says, hint = f"the first line is no text in {encoding}", f"give `--encoding`, one of {', '.join(ENCODINGS)}"
            raise _refused(says, hint, self.file) from None
        if names is None or not _are_names(names):
            raise _refused(_NO_NAMES, "give the names of all columns in their order: `--header id,sex,age`", self.file)
        if len(set(names)) < len(names):
            says = "the first line has a field twice, so it may be a row"
            raise _refused(says, "give each column a name of its own, or all names by `--header`", self.file)
        return ColumnNames(names)


_NO_NAMES = "the first line does not name columns: a field of it is empty or a number, so it may be a row"


def _are_names(names: Sequence[str]) -> bool:
    return not any(not name.strip() or _VALUE.fullmatch(name) for name in names)


def _refused(says: str, hint: str, file: str, code: str = "DPR-S906") -> SpecError:
    return SpecError([Problem(code, says, hint, Where(file))])


def file_format(path: Path) -> str:
    """The format of a file, by its ending.

    Raises:
        SpecError: If no engine reads such a file; it says what to do instead.
    """
    shown = str(path)
    if ":/" in shown:
        says = "files in a store are not asked for their columns"
        hint = "name one of them that is here, and write its address into the spec: docs/how-to/read-your-files.md"
        raise _refused(says, hint, "", "DPR-S907")
    name = path.name.lower()
    if name.endswith(_WORKBOOKS):
        hint = "save it as an Excel workbook (.xlsx) or the sheet as CSV in UTF-8: `dprelease new DATA.xlsx`"
        raise _refused("a workbook of this kind is not read", hint, shown, "DPR-S907")
    found = next((kind for kind, ending in SOURCE_FORMATS.items() if name.endswith(ending)), None)
    if found is None:
        says = f"the name ends in none of {', '.join(SOURCE_FORMATS.values())}"
        raise _refused(says, "export it as one of these, and name that file", shown, "DPR-S907")
    if not path.is_file():
        raise _refused("there is no such file", "give the path of a file of rows", shown, "DPR-S907")
    if re.search(r"[*?\[]|\$\{", shown):
        raise _refused("the name has a sign that means several files", "give the file another name", shown, "DPR-S907")
    return found


def first_line(path: Path) -> FirstLine:
    """The first line of a CSV, of at most 64 KiB; nothing after it is looked at.

    Raises:
        SpecError: If there is none, or the file is of another kind than its name says.
    """
    shown = str(path)
    if like := None if path.name.lower().endswith((".gz", ".zst")) else looks_like(path):
        raise _refused(f"{like[0]}, not like a CSV", like[1], shown)
    try:
        with opened(path) as file:
            line = file.readline(_LONGEST + 1)
    except OSError as error:
        raise _refused(f"it cannot be read: {error.strerror or 'damaged'}", "look at the file", shown) from None
    if len(line) > _LONGEST or not line.strip() or b"\x00" in line or b"\r" in line.rstrip(b"\r\n"):
        says = "the first line is empty, longer than 64 KiB, or no text"
        raise _refused(says, "save the file as CSV in UTF-8 whose first line names the columns", shown)
    marked = line.startswith(_MARK)
    line = line.removeprefix(_MARK).rstrip(b"\r\n")
    return FirstLine(line, _sure(line, marked=marked), _delimiters(line), shown)


def _sure(line: bytes, *, marked: bool) -> str | None:
    """UTF-8 where its mark or its own sequences of bytes say so; a line of ASCII tells nothing of the rows."""
    if line.isascii():
        return "utf-8" if marked else None
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return "utf-8"


def _delimiters(line: bytes) -> tuple[str, ...]:
    """Those that stand in the line, the sniffer's choice first."""
    text = line.decode("latin-1")
    there = [each for each in _DELIMITERS if each in text]
    if len(there) < 2:
        return tuple(there)
    try:
        likely = csv.Sniffer().sniff(text, _DELIMITERS).delimiter
    except csv.Error:
        likely = max(there, key=text.count)
    return (likely, *(each for each in there if each != likely))


def names_in_dictionary(path: Path, kind: str) -> ColumnNames:
    """The columns of a file that says itself how they are called.

    Args:
        path: The file.
        kind: Its format: parquet, or one of SPSS, Stata, SAS or Excel.

    Raises:
        SpecError: If it cannot be read.
    """
    if kind != "parquet":
        return _of_dictionary(path, kind)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        raise _refused("it is damaged, or no Parquet file", "write it again", str(path)) from None
    return ColumnNames(tuple(schema.names), {each.name: _type_of(str(each.type)) for each in schema})


def _type_of(stored: str) -> ColumnType:
    return next((kind for begins, kind in _STORED if begins.match(stored)), "text")


def is_database(data: str) -> bool:
    """Whether what was named is a database: the URL of one, or a variable that holds it."""
    bare = VARIABLE.sub(HOLD, data)
    return bare.startswith(HOLD) or any(scheme.takes(bare) for scheme in DATABASE_SCHEMES.values())


def names_in_database(source: DatabaseSource, folder: Path, environment: Mapping[str, str]) -> ColumnNames:
    """The columns of a table of a database, by its catalog; no row is asked for.

    Args:
        source: A table or a view.
        folder: What the path of a file is relative to.
        environment: What ``${env:NAME}`` may name.

    Raises:
        EngineError: If it cannot be reached, or the table cannot be read.
    """
    reader = DatabaseReader(folder, environment)
    try:
        stored = reader.columns(Table(name=source.table or "", account="", source=source, columns=()))
    finally:
        reader.close()
    types = {name: _type_of(kind.lower()) for name, kind in stored.items() if kind}
    return ColumnNames(tuple(stored), types)


def _of_dictionary(path: Path, kind: str) -> ColumnNames:
    from dprelease.engines.files.statistical.files import StatisticalFile
    from dprelease.engines.files.statistical.moments import shown_as
    from dprelease.engines.files.statistical.process import Unreadable, dictionary_of

    try:
        formats = dictionary_of(kind, path).formats
    except Unreadable as error:
        raise _refused(f"the file {error.says}", error.hint, str(path)) from None
    source = Source(file=path.name, format=kind, dialect=Dialect(encoding="as stored"))
    names = StatisticalFile(kind).names(source, path)
    if names is None:
        raise _refused("its names are in an encoding that is not known here", "write them in UTF-8", str(path))
    if kind == "xlsx" and not _are_names(names):
        raise _refused(_NO_NAMES, "write the names of all columns into the first line of the sheet", str(path))
    shown = {name: shown_as(kind, each) for name, each in zip(names, formats, strict=True)}
    types: dict[str, ColumnType] = {}
    for name, each in shown.items():
        if each is not None:
            types[name] = "date" if each == "day" else "timestamp"
    return ColumnNames(names, types)
