"""Columns as text and rows as lines, some thousand at a time: what all CSV files are made of.

Every text is the one that Python writes: ``repr(x)`` of a number without a grid, ``f"{x:.2f}"`` of one with two
decimals. Where arithmetic on whole columns is known to give that text it is used; Python writes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.table import Column, Key
from dprelease.estimate import coded
from dprelease.plan.document import Publish
from dprelease.publish.base import key_as_text

__all__ = [
    "MARK",
    "Texts",
    "constant_texts",
    "csv_quoted",
    "escaped",
    "escapes",
    "head_line",
    "key_texts",
    "key_width",
    "line_blocks",
    "number_texts",
    "rows_at_once",
    "side_by_side",
    "small_files",
    "unescaped",
    "unescaped_texts",
    "whole_texts",
    "word_texts",
    "written",
]

Floats = npt.NDArray[np.float64]
Texts = Callable[[int, int], Any]
"""The texts of the rows from a first to a last one (not among them), as an Arrow array of strings without nulls."""

_AT_ONCE = 1 << 17  # rows
_BYTES_AT_ONCE = 1 << 28  # an Arrow array of strings holds at most 2 GB
_NUMBER = 400  # bytes of a number, at most: a large one with all its digits
_PLAIN = (1e-3, 1e9)  # sizes of numbers that Arrow writes as Python does
_SURE = 2.0**40  # so many steps of a grid; see ``_whole``
_LARGEST = 2.0**63
MARK = "'"
# With their full-width forms, and the spaces that are skipped before them.
_SIGNS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


def csv_quoted(text: str) -> str:
    """A text in quotes, as RFC 4180 has it."""
    return '"' + text.replace('"', '""') + '"'


def head_line(names: Sequence[str]) -> bytes:
    """The first line of a CSV file: names in quotes where they must be."""
    plain = (csv_quoted(name) if any(sign in name for sign in ',"\r\n') else name for name in names)
    return f"{','.join(plain)}\r\n".encode()


def line_blocks(names: Sequence[str], columns: Sequence[Texts], rows: int, width: int = 0) -> Iterator[bytes]:
    """The lines of a CSV file, some thousand at a time; they end with CRLF.

    Args:
        names: The names of the columns.
        columns: Their texts.
        rows: How many there are.
        width: Bytes of the keys and words of a row, at most.
    """
    yield head_line(names)
    if columns:
        yield from side_by_side([columns], rows, width)


def small_files(names: Sequence[str], columns: Sequence[Texts], sizes: Sequence[int]) -> Iterator[bytes]:
    """CSV files of a few rows with the same columns; each has the next rows.

    Args:
        names: The names of the columns.
        columns: Their texts, of the rows of all files; at least one.
        sizes: How many rows each file has; at most ``rows_at_once`` of all together.
    """
    head, lines, first = head_line(names), _lines([texts(0, sum(sizes)) for texts in columns]), 0
    for size in sizes:
        yield head + _data(lines.slice(first, size))
        first += size


def rows_at_once(columns: int, width: int) -> int:
    """How many rows are made together, of so many columns and so many bytes of keys and words at most."""
    return max(1, min(_AT_ONCE, _BYTES_AT_ONCE // (width + _NUMBER * columns + 1)))


def side_by_side(several: Sequence[Sequence[Texts]], rows: int, width: int) -> Iterator[bytes]:
    """Lines, some thousand rows at a time, of tables of as many rows: the first rows of all, then the second ones.

    Args:
        several: For each table the texts of its columns.
        rows: How many each has.
        width: Bytes of the keys and words of a row, at most.
    """
    import pyarrow as pa

    step = rows_at_once(sum(map(len, several)), width * len(several))
    for first in range(0, rows, step):
        last = min(first + step, rows)
        lines = [_lines([texts(first, last) for texts in each]) for each in several]
        if len(lines) == 1:
            yield _data(lines[0])
        elif lines:
            order = np.arange(len(lines) * (last - first), dtype=np.int32).reshape(len(lines), -1).T.ravel()
            yield _data(pa.concat_arrays(lines).take(pa.array(order)))


def _lines(columns: Sequence[Any]) -> Any:
    """One line for each row."""
    import pyarrow.compute as pc

    ended = pc.binary_join_element_wise(columns[-1], "\r\n", "")
    return pc.binary_join_element_wise(*columns[:-1], ended, ",") if len(columns) > 1 else ended


def _data(ended: Any) -> bytes:
    """The texts of an Arrow array of strings, behind one another: so they lie in memory."""
    starts = np.frombuffer(ended.buffers()[1], dtype=np.int32)
    first, last = int(starts[ended.offset]), int(starts[ended.offset + len(ended)])
    found: bytes = ended.buffers()[2].slice(first, last - first).to_pybytes()
    return found


def key_texts(column: Column, keys: Sequence[Key], *, escape: bool = False) -> Texts:
    """The keys of a column: text in quotes, everything else bare; ``escape``: with what ``formulas`` puts before it."""
    text = coded(keys).mapped(key_as_text)
    text = text.mapped(escaped) if escape else text
    return word_texts(text.mapped(csv_quoted) if column.type == "text" else text)


def key_width(columns: Sequence[Sequence[Key]]) -> int:
    """Bytes of the keys of a row as texts in quotes, at most."""
    longest = (max((len(key_as_text(key)) for key in coded(keys).keys), default=0) for keys in columns)
    return sum(8 * each + 2 for each in longest)  # four bytes for a sign, and twice as many for a quote


def word_texts(words: Sequence[str]) -> Texts:
    """A column of texts that holds the words unchanged."""
    import pyarrow as pa

    held = coded(words)
    known = pa.array(held.keys, type=pa.string())
    return lambda first, last: known.take(pa.array(held.part(first, last)))


def constant_texts(text: str) -> Texts:
    """The same text in every row."""
    import pyarrow as pa

    return lambda first, last: pa.repeat(pa.scalar(text, pa.string()), last - first)


def whole_texts(numbers: npt.NDArray[np.int64]) -> Texts:
    """Whole numbers in plain digits."""
    import pyarrow as pa

    return lambda first, last: pa.array(numbers[first:last]).cast(pa.string())


def number_texts(numbers: Floats, places: int | None, blank: str = "") -> Texts:
    """Numbers; those that are NaN are blank.

    Args:
        numbers: Shape ``(rows,)``, of any strides.
        places: Decimals; None: as many as tell the number from all others.
        blank: What stands for NaN.
    """
    return lambda first, last: _number_texts(np.ascontiguousarray(numbers[first:last]), places, blank)


def _number_texts(numbers: Floats, places: int | None, blank: str) -> Any:
    """The texts of some numbers; of equal neighbours (the margins of most tables) one is written."""
    import pyarrow as pa

    bits = numbers.view(np.int64)
    starts = np.flatnonzero(np.concatenate([[True], bits[1:] != bits[:-1]])) if len(bits) else np.zeros(0, np.int64)
    if len(starts) > len(numbers) // 2:
        return _each_text(numbers, places, blank)
    lengths = np.diff(np.append(starts, len(numbers)))
    texts = _each_text(numbers[starts], places, blank)
    return texts.take(pa.array(np.repeat(np.arange(len(starts), dtype=np.int32), lengths)))


def _each_text(numbers: Floats, places: int | None, blank: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if places is None:
        texts, sure = _plain_texts(numbers)
        write: Callable[[float], str] = repr
    else:
        whole, sure = _whole(numbers, places)
        texts = _decimal_texts(np.where(sure, whole, 0.0).astype(np.int64), places)
        write = f"{{:.{places}f}}".format
    none = np.isnan(numbers)
    rest = ~sure & ~none
    if rest.any():
        found = pa.array([write(number) for number in numbers[rest].tolist()], type=pa.string())
        texts = pc.replace_with_mask(texts, pa.array(rest), found)
    return pc.if_else(pa.array(none), blank, texts) if none.any() else texts


def _plain_texts(numbers: Floats) -> tuple[Any, npt.NDArray[np.bool_]]:
    """The shortest texts that read as the numbers, and where they are surely those of ``repr``.

    Arrow finds the same digits, but writes 20.0 as 20, and large and small numbers with other exponents.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    size = np.abs(numbers)
    whole = (size < _PLAIN[1]) & (numbers == np.rint(numbers))
    texts = pa.array(numbers).cast(pa.string())
    if whole.any():
        digits = pa.array(numbers[whole].astype(np.int64)).cast(pa.string())
        texts = pc.replace_with_mask(texts, pa.array(whole), pc.binary_join_element_wise(digits, "0", "."))
        whole &= ~(np.signbit(numbers) & (numbers == 0))
    return texts, whole | ((size >= _PLAIN[0]) & (size < _PLAIN[1]))


def _whole(numbers: Floats, places: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The numbers in steps of their last decimal, rounded, and where that is surely what Python's rounding gives.

    Python rounds x * 10^p exactly, half to even. The product of doubles is off by at most 2^-53 of itself, which is
    less than 2^-13 below 2^40 steps; where it is farther than that from the middle of two whole numbers, both round to
    the same one. Without decimals there is no product, and nothing is off. A negative number that rounds to zero keeps
    its sign in Python: it is left to it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        steps = numbers * 10.0**places if places else numbers
        whole = np.rint(steps)
        close = np.abs(steps) < _SURE if places else np.abs(steps) < _LARGEST
        sure = close & ((np.abs(steps - whole) < 0.499) if places else True)
    return whole, sure & ~((whole == 0) & np.signbit(numbers))


def _decimal_texts(steps: npt.NDArray[np.int64], places: int) -> Any:
    """Whole numbers of steps as decimals."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not places:
        return pa.array(steps).cast(pa.string())
    above, below = np.divmod(np.abs(steps), 10**places)
    sign = pa.array(["", "-"]).take(pa.array((steps < 0).astype(np.int8)))
    decimals = pc.utf8_lpad(pa.array(below).cast(pa.string()), width=places, padding="0")
    return pc.binary_join_element_wise(sign, pa.array(above).cast(pa.string()), ".", decimals, "")


def written(numbers: Floats, places: int | None) -> Floats:
    """The numbers as a reader of the CSV file has them: rounded to their decimals."""
    if places is None:
        return numbers
    whole, sure = _whole(numbers, places)
    found = whole / 10.0**places
    rest = ~sure & ~np.isnan(numbers)
    if rest.any():
        found[rest] = [float(f"{number:.{places}f}") for number in numbers[rest].tolist()]
    return found


def escapes(publish: Publish, column: Column) -> bool:
    """Whether the keys of a column are escaped: where the release says so, else where they are no declared texts."""
    if publish.layout == 1 or column.type != "text":
        return False
    return column.keys is None if publish.csv_formulas is None else publish.csv_formulas == "escape"


def escaped(text: str) -> str:
    """The key as it stands in a file whose keys are texts from the data, which anybody who could write a row chose.

    A spreadsheet runs a field that begins with one of a few signs, quotes or not. Every text that begins with one of
    them, or with an apostrophe, gets an apostrophe before it: that is one to one, so that taking it off gives the key.

    >>> [escaped(text) for text in ("=1+1", "'90s", "06", "a=b")], unescaped("'=1+1"), unescaped("''90s")
    (["'=1+1", "''90s", '06', 'a=b'], '=1+1', "'90s")
    """
    return f"{MARK}{text}" if text.startswith((MARK, *_SIGNS)) else text


def unescaped(text: str) -> str:
    """The key that stands in a file; the inverse of :func:`escaped`.

    Raises:
        ValueError: If it begins with a sign that would have been escaped.
    """
    if text.startswith(tuple(_SIGNS)):
        raise ValueError("a formula that is not escaped")
    return text.removeprefix(MARK)


def unescaped_texts(texts: Any) -> Any:
    """A whole column, as an Arrow array of strings without nulls; errors as of :func:`unescaped`."""
    import pyarrow as pa

    held = texts.dictionary_encode()
    known = pa.array([unescaped(text) for text in held.dictionary.to_pylist()], type=pa.string())
    return known.take(held.indices)
