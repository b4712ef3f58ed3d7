"""The process that parses one file of SPSS, Stata, SAS or Excel, its whole life. Run as a script, never imported.

The parser is C or Rust over bytes that nobody vouches for. So it has a process of its own, with limits to memory and
time and none of the parent's settings. It gets the open file as standard input, is told public words alone (a format,
names of columns), and answers on standard output: a line of JSON, or rows as an Arrow stream. What goes wrong is one of
``_CODES``; no text of an error leaves it. It writes no file, and no memory dump.

Texts are read as if they were Latin-1, in which every byte is a character, and handed on as the bytes that they are:
so no value can fail, and none changes how another is read. What the bytes mean is decided by the parent.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import islice
from types import ModuleType
from typing import Any, BinaryIO

_CODES = {"damaged": 3, "memory": 4, "missing": 5, "uncounted": 6, "members": 7, "twice": 8, "sheets": 9, "full": 10}
_CODES |= {"locked": 11}
_PLACE = "/dev/fd/0"
_BYTES = "ISO-8859-1"
_BLOCK = 1 << 26  # bytes of memory that a block of rows may take here, about
_MOST_ROWS = 1 << 17
_OBSERVATIONS = (
    b"HEADER RECORD*******OBS     HEADER RECORD!!!!!!!",
    b"HEADER RECORD*******OBSV8   HEADER RECORD!!!!!!!",
)
_MEMBER = b"HEADER RECORD*******MEMB"
_CARD = 80  # bytes of a record of an XPT file
_LAST_LINE = (1 << 20) - 1  # of a sheet, from 0
_EPOCH = datetime(1970, 1, 1)

Read = Callable[..., tuple[Mapping[str, Any], Any]]


class _Refused(Exception):
    """The file is refused for one of the reasons of ``_CODES``."""


class _WithoutPandas:
    """pyarrow looks whether there is pandas, and so loads it: most of the time of this process, which never uses it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("the parser does without pandas", name=name)


def _limit(memory: int, seconds: int) -> None:
    """No more memory, no file, no dump; and the time for the next piece of work."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    _more_time(seconds)


def _more_time(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + seconds + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (until if hard == resource.RLIM_INFINITY else min(until, hard), hard))


def _reader(kind: str) -> Read:
    """``pyreadstat``'s function of a format: codes and not labels, declared missing values as nulls, plain numbers."""
    import pyreadstat

    read = {
        "sav": pyreadstat.read_sav,
        "zsav": pyreadstat.read_sav,
        "por": pyreadstat.read_por,
        "dta": pyreadstat.read_dta,
        "xpt": pyreadstat.read_xport,
        "sas7bdat": pyreadstat.read_sas7bdat,
    }[kind]
    whole = None if os.path.isfile(_PLACE) else sys.stdin.buffer.read()  # a pipe has no places to go back to

    def action(**words: Any) -> tuple[Mapping[str, Any], Any]:
        if whole is None:
            os.lseek(0, 0, os.SEEK_SET)
        place = _PLACE if whole is None else io.BytesIO(whole)
        found: tuple[Mapping[str, Any], Any] = read(
            place, output_format="dict", disable_datetime_conversion=True, **words
        )
        return found

    action.bytes = whole  # type: ignore[attr-defined]
    return action


def _file(read: Read) -> BinaryIO:
    """The file itself, from its beginning."""
    whole = read.bytes  # type: ignore[attr-defined]
    return open(_PLACE, "rb") if whole is None else io.BytesIO(whole)


def _in_bytes(kind: str) -> dict[str, str]:
    return {} if kind == "por" else {"encoding": _BYTES}  # a POR file brings its own table of characters


def _encoding(kind: str, read: Read) -> str | None:
    """The encoding that the file says its texts are in, or that its format demands; None: nobody says.

    Empty: it says one that is not known here, or has names and labels that are in another one.
    """
    if kind == "por":
        return "utf-8"
    if kind == "dta":
        with _file(read) as file:
            beginning = file.read(31)
        tagged = beginning.startswith(b"<stata_dta><header><release>")
        return "utf-8" if tagged and int(beginning[28:31]) >= 118 else "windows-1252"
    try:
        told: str | None = read(metadataonly=True)[1].file_encoding
    except Exception:
        return ""
    return told


def _dictionary(kind: str, read: Read) -> tuple[dict[str, Any], Any]:
    """What the file says of its columns, names as characters of Latin-1."""
    found = read(metadataonly=True, **_in_bytes(kind))[1]
    names = found.column_names
    told = {
        "names": names,
        "formats": [found.original_variable_types[name] or "" for name in names],
        "encoding": _encoding(kind, read),
    }
    return told, found


def _blocks(kind: str, read: Read, wanted: Sequence[str], seconds: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Some columns of all rows, block by block, with the number of rows of each."""
    found = read(metadataonly=True, **_in_bytes(kind))[1]
    counted = kind not in ("xpt", "por")
    if counted and found.number_rows is None:
        raise _Refused("uncounted")
    held = found.column_names if kind == "xpt" else wanted
    sizes = (_size(found.readstat_variable_types[name], found.variable_storage_width[name]) for name in held)
    step, at = max(1, min(_MOST_ROWS, _BLOCK // (1 + sum(sizes)))), 0
    while not counted or at < found.number_rows:
        _more_time(seconds)
        values, told = read(usecols=list(held), row_offset=at, row_limit=step, **_in_bytes(kind))
        rows = told.number_rows
        if rows:
            yield _without_blank_rows(rows, values, found) if kind == "xpt" else (rows, values)
        at += rows
        if rows < step:
            break
    if counted and at != found.number_rows:
        raise _Refused("damaged")


def _size(kind: str, width: int) -> int:
    return 64 + 4 * (width or 4096) if kind == "string" else 48


def _without_blank_rows(rows: int, values: Mapping[str, Any], found: Any) -> tuple[int, Mapping[str, Any]]:
    """Rows of an XPT file but those that are blanks alone: at its end nobody can tell these from what fills the record.

    So they are no rows wherever they stand: whether one is a row must not depend on whether another one follows it.
    """
    candidates = set(range(rows))
    for name, column in values.items():
        text = found.readstat_variable_types[name] == "string"
        blank = "" if text else _blank_number(found.variable_storage_width[name])
        candidates = {at for at in candidates if column[at] == blank}
        if not candidates:
            return rows, values
    kept = [at for at in range(rows) if at not in candidates]
    return len(kept), {name: [column[at] for at in kept] for name, column in values.items()}


def _blank_number(width: int) -> float:
    """The number whose bytes are blanks: a sixteenth to the power of 32, times so many 2^-56."""
    return int.from_bytes((b" " * (width - 1)).ljust(7, b"\0"), "big") * 2.0**-56 * 16.0**-32


def _require_one_member(read: Read, width: int) -> None:
    """Refuse an XPT file with several data sets, whose later ones would be read as rows; or one that is cut short."""
    with _file(read) as file:
        beginning = file.read(1 << 24)
        at = next((found for mark in _OBSERVATIONS if (found := beginning.find(mark)) >= 0), -1)
        size = file.seek(0, io.SEEK_END)
        start = at + _CARD
        if at < 0 or at % _CARD or size % _CARD:
            raise _Refused("damaged")
        told = beginning[at + 48 : at + 63].strip()  # version 8 says how many rows there are, version 5 has zeros
        if not told.isdigit() or size - start < int(told) * width:
            raise _Refused("damaged")
        rest = (size - start) % width if width else 0
        file.seek(size - rest)
        if file.read().strip(b" "):
            raise _Refused("damaged")
        file.seek(start)
        while cards := file.read(_CARD << 16):
            found = cards.find(_MEMBER)
            while found >= 0:
                if found % _CARD == 0:
                    raise _Refused("members")
                found = cards.find(_MEMBER, found + 1)


def _describe(kind: str, read: Read, seconds: int, out: BinaryIO) -> None:
    """What the file says of its columns, and how many rows it has: all of them are gone through, and none is kept."""
    told, found = _dictionary(kind, read)
    if kind == "xpt":
        _require_one_member(read, sum(found.variable_storage_width[name] for name in told["names"]))
    plain = [name for name in told["names"] if found.readstat_variable_types[name] != "string"]
    first = (plain or told["names"])[:1]
    told["rows"] = sum(rows for rows, _ in _blocks(kind, read, first, seconds)) if first else 0
    out.write(json.dumps(told).encode())


def _hand_over(kind: str, read: Read, places: Sequence[int], few: Sequence[int], seconds: int, out: BinaryIO) -> None:
    """The columns at some places as an Arrow stream: texts as bytes, whole numbers and doubles."""
    import pyarrow as pa

    found = read(metadataonly=True, **_in_bytes(kind))[1]
    names = [found.column_names[at] for at in places]
    types = {"string": pa.binary(), "float": pa.float64(), "double": pa.float64()}
    stored = [types.get(found.readstat_variable_types[name], pa.int64()) for name in names]
    kinds = [pa.dictionary(pa.int32(), each) if at in few else each for at, each in zip(places, stored, strict=True)]
    schema = pa.schema([(str(at), each) for at, each in zip(places, kinds, strict=True)])
    encoding = "utf-8" if kind == "por" else "latin-1"
    with pa.ipc.new_stream(out, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=False)) as stream:
        for _, values in _blocks(kind, read, names, seconds):
            arrays = []
            for name, each, whole in zip(names, stored, kinds, strict=True):
                column = values[name]
                if each == pa.binary():
                    column = [None if text is None else text.encode(encoding) for text in column]
                array = pa.array(column, each)
                arrays.append(array if whole is each else array.dictionary_encode())
            stream.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _sheet() -> Any:
    """The only sheet of a workbook that has values, hidden ones counted."""
    from python_calamine import CalamineWorkbook, PasswordError, SheetTypeEnum

    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(sys.stdin.buffer.read()))
    except PasswordError:
        raise _Refused("locked") from None
    told = [each.name for each in book.sheets_metadata if each.typ == SheetTypeEnum.WorkSheet]
    filled = [sheet for sheet in map(book.get_sheet_by_name, told) if any(map(_has_value, sheet.iter_rows()))]
    if len(filled) != 1:
        raise _Refused("sheets")
    last, _ = filled[0].end or (0, 0)
    if last >= _LAST_LINE:
        raise _Refused("full")
    return filled[0]


def _has_value(row: Sequence[object]) -> bool:
    return any(cell != "" for cell in row)


def _lines() -> Iterator[Sequence[Any]]:
    """The lines of the sheet with a value in them: the first one names the columns, the others are rows."""
    return filter(_has_value, _sheet().iter_rows())


def _describe_sheet(out: BinaryIO) -> None:
    lines = _lines()
    names = [cell.encode().decode("latin-1") if isinstance(cell, str) else "" for cell in next(lines)]
    named = [name for name in names if name]
    if len(set(named)) < len(named):
        raise _Refused("twice")
    told = {"names": names, "formats": [""] * len(names), "encoding": "utf-8", "rows": sum(1 for _ in lines)}
    out.write(json.dumps(told).encode())


def _hand_over_sheet(places: Sequence[int], out: BinaryIO) -> None:
    """Each cell by what it is: a text, a number or a moment, which is in milliseconds from 1970-01-01."""
    import pyarrow as pa

    kind = pa.struct([("text", pa.binary()), ("number", pa.float64()), ("moment", pa.int64())])
    schema = pa.schema([(str(at), kind) for at in places])
    lines = _lines()
    next(lines)
    with pa.ipc.new_stream(out, schema) as stream:
        while block := list(islice(lines, _MOST_ROWS)):
            columns = ([_cell(line[at]) for line in block] for at in places)
            arrays = [pa.array(column, kind) for column in columns]
            stream.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _cell(cell: object) -> dict[str, Any]:
    if isinstance(cell, bool):
        return {"text": b"true" if cell else b"false"}
    if isinstance(cell, str):
        return {"text": cell.encode("utf-8", "replace") if cell else None}
    if isinstance(cell, int | float):
        return {"number": float(cell)}
    if isinstance(cell, date):  # a day is the moment that it begins
        moment = cell if isinstance(cell, datetime) else datetime(cell.year, cell.month, cell.day)
        return {"moment": round((moment - _EPOCH) / timedelta(milliseconds=1))}
    return {}  # a time of day, or a length of time


def main() -> int:
    """Do what is asked by the arguments: paths of modules, and the task; give the code of how it went."""
    sys.path[:] = json.loads(sys.argv[1])
    sys.meta_path.insert(0, _WithoutPandas)
    asked = json.loads(sys.argv[2])
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    _limit(asked["memory"], asked["seconds"])
    warnings.filterwarnings("error", message="column .* is duplicated")
    try:
        kind, places, seconds = asked["kind"], asked["places"], asked["seconds"]
        if kind == "xlsx":
            _describe_sheet(out) if places is None else _hand_over_sheet(places, out)
        elif places is None:
            _describe(kind, _reader(kind), seconds, out)
        else:
            _hand_over(kind, _reader(kind), places, asked["few"], seconds, out)
        out.flush()
    except ImportError:
        return _CODES["missing"]
    except MemoryError:
        return _CODES["memory"]
    except UserWarning:
        return _CODES["twice"]
    except _Refused as refused:
        return _CODES[str(refused)]
    except Exception as error:
        return _CODES["memory" if "allocate" in str(error) or "malloc" in str(error) else "damaged"]
    return 0


if __name__ == "__main__":
    os._exit(main())
