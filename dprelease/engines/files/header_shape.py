"""What is said of a CSV in whose header declared columns are missing: which declaration would find them there.

Only the shape of the first line is told, how many fields it has and which declared names are in it in another form:
the line may be a row of data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dprelease.catalog.dialect import Dialect
from dprelease.catalog.table import Source
from dprelease.engines.files.csv_lines import compressed_by, csv_header, decompresses, opened

__all__ = ["looks_like", "shape_advice", "spelling_advice"]

_NAME_IT = "give it a name that ends in {}, and write that name in `file`"
_BEGINNINGS = (
    (b"\xff\xfe", "text in UTF-16", "save the file as CSV in UTF-8"),
    (b"\xfe\xff", "text in UTF-16", "save the file as CSV in UTF-8"),
    (b"\x1f\x8b", "a file compressed by gzip", _NAME_IT.format(".csv.gz, where a CSV is in it")),
    (b"\x28\xb5\x2f\xfd", "a file compressed by zstd", _NAME_IT.format(".csv.zst, where a CSV is in it")),
    (b"PK\x03\x04", "an Excel workbook or a zip archive", _NAME_IT.format(".xlsx where it is one")),
    (b"PAR1", "a Parquet file", _NAME_IT.format(".parquet")),
    (b"$FL", "an SPSS file", _NAME_IT.format(".sav or .zsav")),
    (b"<stata_dta>", "a Stata file", _NAME_IT.format(".dta")),
    (b"HEADER RECORD***", "a SAS transport file", _NAME_IT.format(".xpt")),
    (b"\0" * 12 + b"\xc2\xea\x81\x60", "a SAS data set", _NAME_IT.format(".sas7bdat")),
)
_DELIMITERS = {",": "`,`", ";": "`;`", "\t": "a tab", "|": "`|`"}
_WRITTEN = {",": '","', ";": '";"', "\t": "tab", "|": '"|"'}
_RENAME = (
    "letters' case and blanks count: write the names as the file has them, or names of your own by `skip: 1` and "
    "`header: [...]` under `source`, one for each column of the file"
)
_ENCODINGS = ("utf-8", "windows-1252", "latin-1", "windows-1250", "iso-8859-2")


def shape_advice(source: Source, path: Path, declared: Sequence[str]) -> tuple[str, str] | None:
    """What the first line looks like, and what to write or do; None where its shape says nothing.

    Args:
        source: As it is declared, a CSV.
        path: One of its files.
        declared: The columns that are wanted, some of which are not in the header.
    """
    with path.open("rb") as file:
        beginning = file.read(16)
    by_name = compressed_by(path)
    if by_name is not None and not decompresses(path):
        is_such = beginning.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd"))
        says = f"it is {'damaged or cut short' if is_such else f'not compressed by {by_name}'}"
        return says, "compress it again" if is_such else _NAME_IT.format(".csv where it is not compressed")
    with opened(path) as lines:
        beginning = lines.read(16)
    if like := looks_like(path, beginning):
        return like
    if b"\x00" in beginning:
        return "there are zero bytes in its first line: it is no text, or text in UTF-16", "save it as CSV in UTF-8"
    dialect = source.dialect
    if not dialect.header:
        return "`header` lists the columns of the file", "add the missing ones to `header`, in the order of the file"
    fields = csv_header(path, dialect) or []
    return (
        _by_delimiter(path, dialect, fields, declared)
        or _by_encoding(path, dialect, declared)
        or ((spelled := spelling_advice(fields, declared)) and (spelled, _RENAME))
        or _by_position(path, dialect, declared)
    )


def looks_like(path: Path, beginning: bytes | None = None, besides: str = "") -> tuple[str, str] | None:
    """What a file of another kind begins like, and what to do; None where it begins like none of those known.

    Args:
        path: The file.
        beginning: Its first 16 bytes; None: they are read.
        besides: An ending that it has already.
    """
    if beginning is None:
        with path.open("rb") as file:
            beginning = file.read(16)
    for bytes_, kind, hint in _BEGINNINGS:
        if beginning.startswith(bytes_) and f".{besides}" not in hint.replace(",", " ").split():
            return f"it begins like {kind}", hint
    return None


def _by_delimiter(
    path: Path, dialect: Dialect, fields: Sequence[str], declared: Sequence[str]
) -> tuple[str, str] | None:
    for delimiter, called in _DELIMITERS.items():
        names = csv_header(path, dialect.model_copy(update={"delimiter": delimiter})) or []
        if len(names) > max(len(fields), 1) and (len(fields) == 1 or set(declared) <= set(names)):
            counted = "there is one field" if len(fields) == 1 else f"there are {len(fields)} fields"
            wanted = "one column is" if len(declared) == 1 else f"{len(declared)} columns are"
            says = f"{counted} where {wanted} declared: is the delimiter {called}?"
            return says, f"write `delimiter: {_WRITTEN[delimiter]}` under `source`"
    return None


def _by_encoding(path: Path, dialect: Dialect, declared: Sequence[str]) -> tuple[str, str] | None:
    for encoding in _ENCODINGS:
        names = csv_header(path, dialect.model_copy(update={"encoding": encoding})) or []
        if encoding != dialect.encoding and set(declared) <= set(names):
            return (
                f"all of them are there where it is read as {encoding}",
                f"write `encoding: {encoding}` under `source`",
            )
    return None


def spelling_advice(fields: Sequence[str], declared: Sequence[str]) -> str | None:
    """Names that differ in case or blanks alone: they say no more than the spec does; None: there are none."""
    like = {field.strip().casefold(): field for field in fields}
    pairs = [
        (name, like[name.strip().casefold()])
        for name in declared
        if name not in fields and name.strip().casefold() in like
    ]
    if not pairs:
        return None
    told = ", ".join(f"{field!r} for {name!r}" for name, field in pairs)
    return f"it has {told}"


def _by_position(path: Path, dialect: Dialect, declared: Sequence[str]) -> tuple[str, str] | None:
    """A header some lines further down, below a title or the like."""
    for skip in range(dialect.skip + 1, dialect.skip + 11):
        names = csv_header(path, dialect.model_copy(update={"skip": skip})) or []
        if len(declared) > 1 and set(declared) <= set(names):
            return f"line {skip + 1} has all of them", f"write `skip: {skip}` under `source`"
    return None
