"""The parser's process, asked from here: what a file says of itself, and its columns as Arrow arrays.

``parser.py`` says why it is a process of its own and what it may do. Nothing that it hands over is believed: every
block is checked to be the arrays that were asked for, and whole.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from dprelease.errors import MissingExtra

__all__ = ["Dictionary", "Unreadable", "counted_rows", "dictionary_of", "parsed_blocks"]

MEMORY = 4 << 30  # bytes of address space of the process; a block of rows takes about 64 MiB of it
SECONDS = 600  # of processor time, for a block of rows
_PARSER = Path(__file__).with_name("parser.py")
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # of the settings of this process, where the loader needs them
_LONGEST = 1 << 26  # bytes of what a file may say of its columns


class Unreadable(Exception):
    """A file that is not read.

    Attributes:
        says: Why, in words of our own; completes "the file ...".
        hint: What to do.
    """

    def __init__(self, says: str, hint: str) -> None:
        super().__init__(says)
        self.says, self.hint = says, hint


@dataclass(frozen=True)
class Dictionary:
    """What a file says of itself.

    Attributes:
        names: Its columns in their order, as bytes in the encoding of its texts.
        formats: How each of them is shown, in the words of its format; empty: it does not say.
        encoding: Of its texts; None: it does not say; empty: what it says is wrong, or not known.
        rows: How many it has.
    """

    names: tuple[bytes, ...]
    formats: tuple[str, ...]
    encoding: str | None
    rows: int


def dictionary_of(kind: str, path: Path) -> Dictionary:
    """What a file says of itself, once all of its rows have been gone through: one that is cut short is told here.

    Of a file that looks as it did, the answer of before.

    Args:
        kind: Its format, a name of ``catalog.source.SOURCE_FORMATS``.
        path: The file.

    Raises:
        Unreadable: If it is damaged, cut short, or no such file.
        MissingExtra: If ``pyreadstat`` is not installed (DPR-X106).
        OSError: If it cannot be opened.
    """
    facts = path.stat()
    look = facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
    found = _dictionary(kind, path, look)
    if isinstance(found, tuple):
        raise Unreadable(*found)
    return found


@lru_cache(256)
def _dictionary(kind: str, path: Path, look: tuple[int, ...]) -> Dictionary | tuple[str, str]:
    with path.open("rb") as file:
        try:
            return _told(kind, file, None)
        except Unreadable as error:
            return error.says, error.hint


def _told(kind: str, file: IO[bytes] | int, data: bytes | None) -> Dictionary:
    with _asked(kind, file, None, ()) as process:
        output, _ = process.communicate(data)
    _require_done(kind, process.returncode)
    try:
        told = json.loads(output[:_LONGEST])
        names = tuple(str(name).encode("utf-8" if kind == "por" else "latin-1") for name in told["names"])
        formats = tuple(str(each) for each in told["formats"])
        encoding = None if told["encoding"] is None else str(told["encoding"])
        return Dictionary(names, formats, encoding, int(told["rows"]))
    except (ValueError, KeyError, TypeError) as error:
        raise _refused(kind, "damaged") from error


def counted_rows(kind: str, data: bytes) -> int:
    """How many rows a whole file has.

    Raises:
        Unreadable: As of :func:`dictionary_of`.
    """
    return _told(kind, subprocess.PIPE, data).rows


def parsed_blocks(kind: str, path: Path, places: Sequence[int], few: Sequence[int]) -> Iterator[list[Any]]:
    """Columns of all rows, block by block: Arrow arrays of bytes, whole numbers or doubles; of a workbook, of cells.

    Args:
        kind: As of :func:`dictionary_of`.
        path: The file.
        places: Which of its columns, from 0.
        few: Those of them with few different values, which are given as dictionaries of these.

    Raises:
        Unreadable: As of :func:`dictionary_of`.
    """
    with path.open("rb") as file, _asked(kind, file, places, few) as process:
        broken = False
        try:
            with pa.ipc.open_stream(process.stdout) as stream:
                for batch in stream:
                    batch.validate(full=True)
                    if batch.schema.names != [str(at) for at in places] or not all(map(_is_ours, batch.schema.types)):
                        raise pa.ArrowInvalid("other columns than were asked for")
                    yield batch.columns
        except (pa.ArrowException, OSError):
            broken = True
        process.stdout.close()  # it need not hand over what nobody reads
        _require_done(kind, process.wait())
        if broken:
            raise _refused(kind, "damaged")


_CELL = pa.struct([("text", pa.binary()), ("number", pa.float64()), ("moment", pa.int64())])


def _is_ours(kind: Any) -> bool:
    return (kind.value_type if pa.types.is_dictionary(kind) else kind) in (pa.binary(), pa.int64(), pa.float64(), _CELL)


@contextmanager
def _asked(kind: str, file: IO[bytes] | int, places: Sequence[int] | None, few: Sequence[int]) -> Iterator[Any]:
    """The process at work; it has ended when the block has, however that ends."""
    if find_spec("python_calamine" if kind == "xlsx" else "pyreadstat") is None:
        raise _missing(kind)
    paths = json.dumps([each for each in sys.path if isinstance(each, str)])
    asked = {"kind": kind, "places": places, "few": list(few), "memory": MEMORY, "seconds": SECONDS}
    process = subprocess.Popen(  # noqa: S603 - this interpreter, our own script, no text of the data
        [sys.executable, "-P", str(_PARSER), paths, json.dumps(asked)],
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a parser's words may quote a row
        env={"LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"}
        | {name: os.environ[name] for name in _KEPT if name in os.environ},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _require_done(kind: str, code: int) -> None:
    if code == 0:
        return
    if code == -signal.SIGXCPU:
        raise _refused(kind, "time")
    if code == _CODES["missing"]:
        raise _missing(kind)
    raise _refused(kind, next((why for why, each in _CODES.items() if each == code), "died"))


_CODES = {"damaged": 3, "memory": 4, "missing": 5, "uncounted": 6, "members": 7, "twice": 8, "sheets": 9, "full": 10}
_CODES |= {"locked": 11}
_AGAIN = "write it again with the program that made it, or export it as CSV or Parquet, and name that file"
_WHY = {
    "damaged": ("is damaged, cut short, or no {kind} file", _AGAIN),
    "memory": (
        f"takes more than {MEMORY >> 30} GiB of memory to parse",
        "export it as CSV or Parquet, or leave out its longest texts",
    ),
    "uncounted": ("does not say how many rows it has, so that nobody could tell whether all are there", _AGAIN),
    "members": ("holds more than one data set", "write the one that is meant into a file of its own"),
    "twice": ("has two columns of one name", "give every column of the file its own name"),
    "sheets": (
        "has no sheet with values, or more than one, hidden ones counted",
        "keep one sheet, the one with the rows, in a workbook of its own",
    ),
    "full": (
        "has a sheet that is full to its last line, where a workbook drops the rows that come after it",
        "export the rows as CSV or Parquet from where they come from",
    ),
    "locked": ("is protected by a password", "save it without one, in a folder that is protected"),
    "time": (f"takes the parser more than {SECONDS} seconds for one block of rows", _AGAIN),
    "died": ("ends the parser", _AGAIN),
}


def _refused(kind: str, why: str) -> Unreadable:
    says, hint = _WHY[why]
    return Unreadable(says.format(kind=f".{kind}"), hint)


def _missing(kind: str) -> MissingExtra:
    if kind == "xlsx":
        return MissingExtra(
            "an .xlsx file is read by python-calamine, which is not installed",
            hint='pip install "dprelease[excel]"',
            code="DPR-X107",
        )
    return MissingExtra(
        f"a .{kind} file is read by pyreadstat, which is not installed",
        hint='pip install "dprelease[statfiles]"',
        code="DPR-X106",
    )
