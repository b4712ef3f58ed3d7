"""Blocks of a CSV in which every line is plain: Arrow's reader says of them what ``csv_lines`` says, but faster.

Arrow reads a quoted line break as text, ends a line at a carriage return, and drops a byte order mark. So it is given
only blocks in which there is no carriage return but before a newline, no mark at the beginning and no line that is too
long, without the quotes, each pair of which must stand around a whole field that holds no delimiter, newline or quote.
Of these every line is read by itself: cut at each delimiter. Arrow refuses a block in which a line has another number
of fields; ``csv_lines`` reads it then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv

from dprelease.catalog.dialect import Dialect

__all__ = ["split_plain"]

_MARK = b"\xef\xbb\xbf"


def split_plain(
    block: bytes, width: int, wanted: Sequence[int], repeated: Collection[int], dialect: Dialect
) -> list[Any] | None:
    """Whole lines of UTF-8 to Arrow arrays of bytes, one per wanted column; None: they are not all plain.

    Args:
        block: Ends with a newline.
        width: The number of fields of a line.
        wanted: Positions of the columns to keep, in the order to give them.
        repeated: Those with few different values, which are given as a dictionary.
        dialect: How the file is written.
    """
    if (returns := block.count(b"\r")) and returns != block.count(b"\r\n"):
        return None
    if dialect.quote is not None and (quote := dialect.quote.encode()) in block:
        if not _around_fields(block, quote, dialect.delimiter.encode()):
            return None
        block = block.translate(None, quote)
    if block.startswith(_MARK):
        return None
    encoded = pa.dictionary(pa.int32(), pa.binary())
    read = pv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=[f"{at}" for at in range(width)])
    parse = pv.ParseOptions(
        delimiter=dialect.delimiter,
        quote_char=False,
        double_quote=False,
        escape_char=False,
        newlines_in_values=False,
        ignore_empty_lines=True,
    )
    convert = pv.ConvertOptions(
        check_utf8=False,
        column_types={f"{at}": encoded if at in repeated else pa.binary() for at in wanted},
        null_values=[],
        strings_can_be_null=False,
        include_columns=[f"{at}" for at in dict.fromkeys(wanted)],
    )
    try:
        table = pv.read_csv(pa.BufferReader(block), read, parse, convert)
    except pa.ArrowException:  # whose words quote a line; a handler of such lines of Arrow's own would decode it
        return None
    return [_whole(table.column(f"{at}")) for at in wanted]


def _around_fields(block: bytes, quote: bytes, delimiter: bytes) -> bool:
    """Whether quotes come in pairs around whole fields, with nothing in between that would need them.

    A line of an empty field alone needs them: without them it would be no line.
    """
    data = np.frombuffer(block, np.uint8)
    quotes = data == quote[0]
    at = np.flatnonzero(quotes)
    opening, closing = at[0::2], at[1::2]
    if len(opening) != len(closing):
        return False
    ends = (data == delimiter[0]) | (data == 10)
    before, after = data[opening - 1], data[closing + 1]  # before the first byte, the last one of the block: a newline
    whole = ends[opening - 1] & (ends[closing + 1] | (after == 13))
    lone = (closing - opening == 1) & (before == 10) & (after != delimiter[0])
    inside = np.bitwise_xor.accumulate(quotes)
    return bool(whole.all() and not lone.any() and not (inside & ends).any())


def _whole(column: Any) -> Any:
    """A column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
