"""Public reference files: key sets and joined columns, read strictly and pinned by content."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from dprelease.catalog.table import ColumnType, Key
from dprelease.catalog.workbook import WORKBOOK, WorkbookError, workbook_rows

__all__ = [
    "REORDERS",
    "ReferenceFileError",
    "ReferenceTable",
    "References",
    "RefusedFile",
    "found_names",
    "key_as_text",
    "read_key",
    "read_reference",
]

REORDERS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Signs that have text around them shown in another order than it has (Unicode Standard Annex 9, embeddings, overrides
and isolates); marks that only give a direction to their neighbours belong to correct Arabic and Hebrew."""
_NAME = re.compile(r"\w[\w .:/()%-]{0,63}")


class ReferenceFileError(ValueError):
    """A file is not what was declared; the message quotes nothing of it, for it may be another one than was meant."""


@dataclass(frozen=True)
class RefusedFile:
    """A file that cannot be a reference.

    Attributes:
        code: The code of the problem.
        says: What is wrong with it; completes "`references.NAME.file` ...".
        hint: What to do instead.
    """

    code: str
    says: str
    hint: str


@dataclass(frozen=True)
class ReferenceTable:
    """The rows of a reference, column by column, in file order."""

    columns: Mapping[str, tuple[Key, ...]]

    def keys(self, column: str) -> tuple[Key, ...]:
        """The distinct values of a column in order of first appearance."""
        return tuple(dict.fromkeys(self.columns[column]))

    def is_unique(self, column: str) -> bool:
        """Whether no value of the column appears twice."""
        return len(set(self.columns[column])) == len(self.columns[column])


References = Mapping[str, ReferenceTable]
"""Public references by name."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_INTEGER = re.compile(r"[+-]?\d{1,18}")


def key_as_text(key: Key) -> str:
    """A key as text: as declared; ``true`` and ``false`` in small letters."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def read_key(text: str, kind: ColumnType) -> Key:
    """A key from its text, by the type of its column.

    Raises:
        ReferenceFileError: If the text is not of that type, or the type cannot be a key.
    """
    if kind == "text":
        return text
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    if kind == "date" and _DATE.fullmatch(text) and _is_day(text):
        return text
    if kind in ("decimal", "timestamp"):
        raise ReferenceFileError(f"a {kind} column cannot be a key: bin it first")
    raise ReferenceFileError(f"a value is not of type {kind}")


def found_names(declared: Sequence[str], names: Sequence[str]) -> str:
    """The names in the first line of a file, unless it may be a row of data: a header shares a name with the spec.

    >>> found_names(["district"], ["district", "sex"]), found_names(["district"], ["Alice", "42"])[:13]
    ('district, sex', 'none of these')
    """
    if not set(declared) & set(names):
        return "none of these (other names are not shown: the first line may be a row of data)"
    known = [name for name in names if _NAME.fullmatch(name)]
    hidden = len(names) - len(known)
    return ", ".join(known) + (f" and {hidden} that do not look like names" if hidden else "")


def _value(text: str, name: str, kind: ColumnType, line: int) -> Key:
    if reordered := REORDERS.search(text):
        sign = f"U+{ord(reordered[0]):04X}"
        raise ReferenceFileError(f"column {name!r}, line {line}: a sign that reorders what is shown around it ({sign})")
    try:
        return read_key(text, kind)
    except ReferenceFileError as error:
        raise ReferenceFileError(f"column {name!r}, line {line}: {error}") from error


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def read_reference(data: bytes, columns: Mapping[str, ColumnType], file: str = "") -> ReferenceTable:
    """Read a reference: a CSV in UTF-8 with commas, or an Excel workbook; a header that has every declared column.

    Args:
        data: The bytes of the file.
        columns: Declared name to type; other columns of the file are ignored.
        file: Its name, whose ending says what it is; any but ``WORKBOOK``: a CSV.

    Raises:
        ReferenceFileError: If it is not that, a declared column is missing, a line has another number of
            fields than the header, or a value is not of its type.
        MissingExtra: If a workbook cannot be read here.
    """
    if file.lower().endswith(WORKBOOK):
        try:
            rows = workbook_rows(data, columns)
        except WorkbookError as error:
            raise ReferenceFileError(str(error)) from error
    else:
        rows = _csv_rows(data)
    header = rows[0]
    missing = [name for name in columns if name not in header]
    if missing:
        raise ReferenceFileError(f"no column {missing[0]!r}; the file has: {found_names(tuple(columns), header)}")
    body = [(number, row) for number, row in enumerate(rows[1:], start=2) if row]
    for number, row in body:
        if len(row) != len(header):
            raise ReferenceFileError(f"line {number} has {len(row)} fields, the header has {len(header)}")
    columns_read: dict[str, tuple[Key, ...]] = {}
    for name, kind in columns.items():
        at = header.index(name)
        columns_read[name] = tuple(_value(row[at], name, kind, number) for number, row in body)
    return ReferenceTable(columns=columns_read)


def _csv_rows(data: bytes) -> list[list[str]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReferenceFileError(f"not UTF-8 at byte {error.start}") from error
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise ReferenceFileError(f"not CSV: {error}") from error
    if not rows:
        raise ReferenceFileError("the file is empty")
    return rows
