"""CSV read by a declared dialect, a line at a time: no line can change how another one is read.

What is not declared is UTF-8 with or without a byte order mark, comma, double quote, one header line per file. A
newline always ends a record, and one carriage return before it is dropped. An empty line is no row. A line that does
not parse (another number of fields than the header, an unclosed quote, text after a closing quote, more than
``LONGEST`` bytes) is a row of nulls. Fields are UTF-8 bytes here, whatever the file's encoding: what those mean that
are not, in a file that should be UTF-8, is decided value by value (``rows``).

A compressed file is the lines that are in it.

No general reader promises that: in them one open quote swallows the rows after it, and types are sniffed from rows.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.catalog.dialect import Dialect
from dprelease.engines.files.encodings import in_utf8
from dprelease.engines.files.in_turn import in_turn
from dprelease.engines.files.plain_lines import split_plain

__all__ = [
    "LONGEST",
    "column_blocks",
    "compressed_by",
    "csv_header",
    "decompresses",
    "header_line",
    "line_fields",
    "opened",
    "split_lines",
]

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LONGEST = 1 << 24  # bytes of the longest line that is read as a row
_BLOCK = 1 << 22
_MARK = b"\xef\xbb\xbf"
_LONGEST_HEADER = 1 << 20
_NEWLINE, _RETURN = 10, 13
_PLAIN = Dialect()
_COMPRESSED = {".gz": "gzip", ".zst": "zstd"}


def line_fields(line: bytes, dialect: Dialect = _PLAIN) -> list[bytes] | None:
    """The fields of one line without its line end, or None if it does not parse.

    >>> line_fields(b'a,"b,""c",'), line_fields(b'a,"b'), line_fields(b'"a"b')
    ([b'a', b'b,"c', b''], None, None)
    """
    delimiter, quote = dialect.delimiter.encode(), (dialect.quote or "").encode()
    if not quote:
        return line.split(delimiter)
    field, fields = _field(delimiter, quote), []
    at, more = 0, True
    while more:
        match = field.match(line, at)
        if match is None:
            return None
        quoted, plain, separator = match.groups()
        fields.append(plain if quoted is None else quoted.replace(quote * 2, quote))
        at, more = match.end(), separator == delimiter
    return fields


@cache
def _field(delimiter: bytes, quote: bytes) -> re.Pattern[bytes]:
    """One field and what ends it."""
    d, q = re.escape(delimiter), re.escape(quote)
    return re.compile(rb"(?:%b([^%b]*+(?:%b%b[^%b]*+)*+)%b|([^%b%b][^%b]*+|))(%b|\Z)" % (q, q, q, q, q, q, q, d, d, d))


def compressed_by(path: Path) -> str | None:
    """What a file is compressed by, as its name says; None: it is not."""
    return next((how for ending, how in _COMPRESSED.items() if path.name.lower().endswith(ending)), None)


def opened(path: Path) -> BinaryIO:
    """The bytes of a file from its beginning, decompressed where its name ends in .gz or .zst."""
    how = compressed_by(path)
    if how is None:
        return path.open("rb")
    return cast(BinaryIO, io.BufferedReader(pa.input_stream(str(path), compression=how, buffer_size=0), _BLOCK))


def decompresses(path: Path) -> bool:
    """Whether a file that is compressed by its name has its end.

    Of one that looks as it did, the answer of before. What is not compressed ends wherever it ends.
    """
    if compressed_by(path) is None:
        return True
    facts = path.stat()
    return facts.st_size > 0 and _decompresses(
        path, (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    )


@lru_cache(256)
def _decompresses(path: Path, look: tuple[int, ...]) -> bool:
    try:
        with opened(path) as file:
            while file.read(_BLOCK):
                pass
    except OSError as error:
        if error.errno is not None:  # of the disk, not of the file
            raise
        return False
    return True


def header_line(path: Path, dialect: Dialect = _PLAIN) -> bytes | None:
    """The line that names the columns, as UTF-8 without its end, or None where no line can be one."""
    with opened(path) as file:
        _at_first_line(file, dialect)
        for _ in range(dialect.skip):
            file.readline()
        line = file.readline(_LONGEST_HEADER)
    cut = len(line) >= _LONGEST_HEADER - len(_MARK)
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    # A carriage return inside: lines end in CR alone, so that the "header" is the whole file.
    return None if not line or cut or b"\r" in line else in_utf8(line, dialect.encoding)


def csv_header(path: Path, dialect: Dialect = _PLAIN) -> list[str] | None:
    """The names of the columns in the order of the file, or None where there is no line that can be a header."""
    if not dialect.header:
        return list(dialect.names)
    line = header_line(path, dialect)
    names = None if line is None else line_fields(line, dialect)
    return None if names is None else [name.decode("utf-8", "replace") for name in names]


def _at_first_line(file: BinaryIO, dialect: Dialect) -> None:
    if dialect.encoding == "utf-8" and file.peek(len(_MARK)).startswith(_MARK):  # type: ignore[attr-defined]
        file.read(len(_MARK))


def column_blocks(
    path: Path,
    width: int,
    wanted: Sequence[int],
    size: int = _BLOCK,
    dialect: Dialect = _PLAIN,
    repeated: Collection[int] = (),
) -> Iterator[list[Any]]:
    """The wanted columns as Arrow arrays of bytes, a block of lines at a time.

    Args:
        path: The file.
        width: The number of fields in its header.
        wanted: Positions of the columns to keep, in the order to give them.
        size: Bytes to read at once.
        dialect: How the file is written.
        repeated: Positions of columns with few different values, which may be given as dictionaries of these.
    """

    def columns(block: bytes) -> list[Any]:
        return _block_columns(in_utf8(block, dialect.encoding), width, wanted, repeated, dialect)

    yield from in_turn(columns, _line_blocks(path, size, dialect))


def _line_blocks(path: Path, size: int, dialect: Dialect) -> Iterator[bytes]:
    """Whole lines, about so many bytes of them at a time."""
    with opened(path) as file:
        _at_first_line(file, dialect)
        for _ in range(dialect.lines_before):
            file.readline()
        carry = b""
        while chunk := file.read(size):
            data = carry + chunk
            cut = data.rfind(b"\n") + 1
            if cut:
                yield data[:cut]
            # What is cut off here belongs to a line that is too long already, and stays too long.
            carry = data[cut : cut + LONGEST + 2]
        if carry:
            yield carry + b"\n"


def _block_columns(
    block: bytes, width: int, wanted: Sequence[int], repeated: Collection[int], dialect: Dialect
) -> list[Any]:
    plain = split_plain(block, width, wanted, repeated, dialect) if len(block) <= LONGEST else None
    return split_lines(block, width, wanted, dialect) if plain is None else plain


def split_lines(block: bytes, width: int, wanted: Sequence[int], dialect: Dialect = _PLAIN) -> list[Any]:
    """Whole lines of UTF-8 to Arrow arrays of bytes, one per wanted column; rows that do not parse come last, as nulls.

    Positions of newlines, delimiters and quotes give every field of every well-formed line at once. Lines with
    quotes inside a field are left to :func:`line_fields`.
    """
    data = np.frombuffer(block, dtype=np.uint8)
    newlines = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate([[0], newlines[:-1] + 1])
    stops = newlines - ((newlines > starts) & (data[newlines - 1] == _RETURN))
    rows = (stops > starts) & (stops - starts <= LONGEST)
    begin, finish, last, hard = _fields(data, newlines, starts, stops, dialect)
    whole = rows & ~hard & (np.diff(last, prepend=-1) == width)
    parsed = [line_fields(block[starts[at] : stops[at]], dialect) for at in np.flatnonzero(rows & hard)]
    easy = [row for row in parsed if row is not None and len(row) == width]
    nulls = int(np.count_nonzero(stops > starts) - np.count_nonzero(whole)) - len(easy)
    first = last[whole] - (width - 1)
    columns = []
    for at in wanted:
        plain = _gather(block, begin[first + at], finish[first + at])
        rest = pa.array([row[at] for row in easy] + [None] * nulls, pa.binary())
        columns.append(pa.concat_arrays([plain, rest]))
    return columns


def _fields(
    data: npt.NDArray[np.uint8], newlines: Positions, starts: Positions, stops: Positions, dialect: Dialect
) -> tuple[Positions, Positions, Positions, Flags]:
    """Begin and end of every field of a block, the last field of every line, and the lines left to do by hand."""
    quote = ord(dialect.quote or "\n")
    marks = np.flatnonzero((data == ord(dialect.delimiter)) | (data == _NEWLINE))
    quotes = np.flatnonzero(data == quote) if dialect.quote else np.array([], dtype=np.int64)
    hard = np.zeros(len(newlines), dtype=np.bool_)
    if quotes.size:  # a delimiter after an odd number of quotes of its line is text
        before = np.searchsorted(quotes, marks)
        line = np.searchsorted(newlines, marks)
        inside = (before - np.searchsorted(quotes, starts)[line]) % 2 == 1
        kept = ~inside | (data[marks] == _NEWLINE)
        marks, before, line = marks[kept], before[kept], line[kept]
    last = np.flatnonzero(data[marks] == _NEWLINE)
    begin = np.concatenate([[0], marks[:-1] + 1])
    finish = marks.copy()
    finish[last] = stops
    if quotes.size:
        held = np.diff(before, prepend=0)
        wrapped = (held == 2) & (data[begin] == quote) & (data[finish - 1] == quote)
        hard[line[(held > 0) & ~wrapped]] = True
        begin, finish = begin + wrapped, finish - wrapped
    return begin, finish, last, hard


def _gather(block: bytes, begin: Positions, finish: Positions) -> Any:
    """The bytes between the positions, as an Arrow array."""
    count = len(begin)
    if not count:
        return pa.array([], pa.binary())
    # One array over fields and the gaps between them shares the block; every second element is a field.
    offsets = np.empty(2 * count, dtype=np.int32)
    offsets[0::2], offsets[1::2] = begin, finish
    woven = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(block)])
    return woven.take(pa.array(np.arange(0, 2 * count - 1, 2)))
