"""CSV read by a fixed dialect, a line at a time: no line can change how another one is read.

UTF-8 with or without a byte order mark, comma, double quote, one header line per file. A newline always ends a
record, and one carriage return before it is dropped. An empty line is no row. A line that does not parse (another
number of fields than the header, an unclosed quote, text after a closing quote, more than ``LONGEST`` bytes) is a
row of nulls. Fields are bytes here: what those that are not UTF-8 mean is decided value by value (``rows``).

No general reader promises that: in them one open quote swallows the rows after it, and types are sniffed from rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["LONGEST", "column_blocks", "csv_header", "line_fields", "split_lines"]

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LONGEST = 1 << 24  # bytes of the longest line that is read as a row
_BLOCK = 1 << 24
_MARK = b"\xef\xbb\xbf"
_NEWLINE, _RETURN, _QUOTE, _COMMA = 10, 13, 34, 44
_FIELD = re.compile(rb'(?:"([^"]*+(?:""[^"]*+)*+)"|([^",][^,]*+|))(,|\Z)')


def line_fields(line: bytes) -> list[bytes] | None:
    """The fields of one line without its line end, or None if it does not parse.

    >>> line_fields(b'a,"b,""c",'), line_fields(b'a,"b'), line_fields(b'"a"b')
    ([b'a', b'b,"c', b''], None, None)
    """
    fields: list[bytes] = []
    at, more = 0, True
    while more:
        match = _FIELD.match(line, at)
        if match is None:
            return None
        quoted, plain, separator = match.groups()
        fields.append(plain if quoted is None else quoted.replace(b'""', b'"'))
        at, more = match.end(), separator == b","
    return fields


def csv_header(path: Path) -> list[str] | None:
    """The names in the first line, or None where there is no line that can be a header."""
    with path.open("rb") as file:
        line = file.readline(1 << 20)
    line = line.removeprefix(_MARK).removesuffix(b"\n").removesuffix(b"\r")
    # A carriage return inside: lines end in CR alone, so that the "header" is the whole file.
    names = None if not line or len(line) >= (1 << 20) - 3 or b"\r" in line else line_fields(line)
    return None if names is None else [name.decode("utf-8", "replace") for name in names]


def column_blocks(path: Path, width: int, wanted: Sequence[int], size: int = _BLOCK) -> Iterator[list[Any]]:
    """The wanted columns as Arrow arrays of bytes, a block of lines at a time.

    Args:
        path: The file.
        width: The number of fields in its header.
        wanted: Positions of the columns to keep, in the order to give them.
        size: Bytes to read at once.
    """
    with path.open("rb") as file:
        file.readline()
        carry = b""
        while chunk := file.read(size):
            data = carry + chunk
            cut = data.rfind(b"\n") + 1
            if cut:
                yield split_lines(data[:cut], width, wanted)
            # What is cut off here belongs to a line that is too long already, and stays too long.
            carry = data[cut : cut + LONGEST + 2]
        if carry:
            yield split_lines(carry + b"\n", width, wanted)


def split_lines(block: bytes, width: int, wanted: Sequence[int]) -> list[Any]:
    """Whole lines to Arrow arrays of bytes, one per wanted column; rows that do not parse come last, as nulls.

    Positions of newlines, commas and quotes give every field of every well-formed line at once. Lines with
    quotes inside a field are left to :func:`line_fields`.
    """
    data = np.frombuffer(block, dtype=np.uint8)
    newlines = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate([[0], newlines[:-1] + 1])
    stops = newlines - ((newlines > starts) & (data[newlines - 1] == _RETURN))
    rows = (stops > starts) & (stops - starts <= LONGEST)
    begin, finish, last, hard = _fields(data, newlines, starts, stops)
    whole = rows & ~hard & (np.diff(last, prepend=-1) == width)
    parsed = [line_fields(block[starts[at] : stops[at]]) for at in np.flatnonzero(rows & hard)]
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
    data: npt.NDArray[np.uint8], newlines: Positions, starts: Positions, stops: Positions
) -> tuple[Positions, Positions, Positions, Flags]:
    """Begin and end of every field of a block, the last field of every line, and the lines left to do by hand."""
    marks = np.flatnonzero((data == _COMMA) | (data == _NEWLINE))
    quotes = np.flatnonzero(data == _QUOTE)
    hard = np.zeros(len(newlines), dtype=np.bool_)
    if quotes.size:  # a comma after an odd number of quotes of its line is text
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
        wrapped = (held == 2) & (data[begin] == _QUOTE) & (data[finish - 1] == _QUOTE)
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
