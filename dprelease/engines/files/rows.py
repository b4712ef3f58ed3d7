"""Arrow arrays as they are stored to Arrow arrays as they are declared; a function of each value alone.

A stored value means what its text means: a column is reduced to its distinct values, those are read as text by
``values.READ``, and the answers are put back. Whole arrays of plain numbers take a shorter way to the same result.

The text of a unit's id is that of ``values.id_text``, by which no two ids become one. In all other columns what is not
UTF-8 is read with replacement characters: two such values of one row's own can be one there, as two beyond a range can.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.catalog.dialect import Dialect
from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Column, ColumnType, Join, Key, Table, TimeFilter
from dprelease.engines.files.decimals import Texts, on_grid
from dprelease.engines.files.notation import in_plain_notation
from dprelease.engines.files.values import BLANKS, LIMIT, MARK, READ, id_text, number_text

__all__ = [
    "ARROW",
    "as_declared",
    "can_mean",
    "in_period",
    "is_text",
    "join_keys",
    "stored_texts",
    "typed",
    "typed_with_steps",
    "unwrapped",
]

ARROW: dict[ColumnType, Any] = {
    "text": pa.string(),
    "integer": pa.int64(),
    "decimal": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.string(),
    "timestamp": pa.string(),
}
_PLAIN = {"integer": "^-?[0-9]{1,18}$", "decimal": r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"}
_DIGITS = {"integer": b"0123456789-", "decimal": b"0123456789-."}
_LONG = 18  # so many of these characters are no number beyond 64 bits, nor beyond a double
_MOST = LIMIT - 1
_DAYS = (-719162, 2932896)  # 0001-01-01 and 9999-12-31, from 1970-01-01
_PER_DAY = {"s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6, "ns": 86400 * 10**9}


def typed(column: Column, stored: Any, nulls: Sequence[str] = (), *, unit: bool = False) -> Any:
    """Read a stored Arrow array under a declared type, null values and range.

    Args:
        column: The declaration.
        stored: An Arrow array of any type.
        nulls: Texts that stand for null.
        unit: Whether it tells units apart: then different texts and bytes are different values, UTF-8 or not.

    Returns:
        An array of the same length and of type ``ARROW[column.type]``. Dates and timestamps are ISO text.
    """
    return typed_with_steps(column, stored, nulls, (), unit=unit)[0]


def typed_with_steps(
    column: Column,
    stored: Any,
    nulls: Sequence[str],
    grids: Sequence[Fraction],
    *,
    unit: bool = False,
    dialect: Dialect | None = None,
) -> list[Any]:
    """The same, and beside it for every grid the whole steps of each value, as ``decimals.on_grid`` has them.

    Args:
        column: The declaration.
        stored: An Arrow array of any type.
        nulls: Texts that stand for null.
        grids: Steps; only for a decimal.
        unit: As of :func:`typed`.
        dialect: The notation of texts; None: the plain one.
    """
    stored = unwrapped(stored)
    plain = _stored_numbers(column, stored, nulls)
    if plain is not None:
        return _with_steps(column, plain, grids, lambda at: [number_text(each) for each in _at(plain, at)])
    if is_text(stored.type):
        if unit and column.type == "text":
            listed = pa.array([item.encode() for item in nulls], pa.binary())
            return [_without(_identified(_bytes(stored)), _identified(listed))]
        raw = _bytes(stored)
        plain = _plain_numbers(column, raw, nulls) if dialect is None else None
        if plain is not None:
            return _with_steps(column, plain, grids, lambda at: [item.decode() for item in _at(raw, at)])
        return _read(column, _decoded(raw), nulls, grids, dialect)
    if not _has_text(stored.type):
        return [pa.nulls(len(stored), ARROW[column.type]), *(pa.nulls(len(stored), pa.int64()) for _ in grids)]
    encoded = stored.dictionary_encode()
    arrays = _read(column, stored_texts(encoded.dictionary, column.type), nulls, grids)
    return [each.take(encoded.indices) for each in arrays]


def _with_steps(column: Column, values: Any, grids: Sequence[Fraction], texts: Texts) -> list[Any]:
    """Numbers within the declared range, and their steps."""
    inside = _within(column, values)
    return [inside, *(on_grid(column, inside, step, texts) for step in grids)]


def _at(array: Any, at: npt.NDArray[np.int64]) -> list[Any]:
    values: list[Any] = array.take(pa.array(at)).to_pylist()
    return values


def in_period(time: TimeFilter, moments: Any) -> Any:
    """Which rows lie in a period, as an Arrow array of true and false; a null lies in none.

    ISO texts of years of four digits are in the order of what they say, and a day comes before every moment of it:
    so ``[start, end)`` of days is, as texts, that of the moments in UTC too.

    Args:
        time: The period.
        moments: Dates or timestamps as :func:`typed` gives them.
    """
    start, end = time.start.isoformat(), time.end.isoformat()
    inside = pc.and_(pc.less_equal(pa.scalar(start), moments), pc.less(moments, pa.scalar(end)))
    return pc.fill_null(inside, False)


def unwrapped(stored: Any) -> Any:
    """A stored array without what stands around its values: dictionaries, extension types, narrow decimals."""
    if pa.types.is_dictionary(stored.type):
        stored = stored.dictionary_decode()
    if isinstance(stored.type, pa.BaseExtensionType):  # whether its type is known here must make no difference
        stored = stored.storage
    if pa.types.is_decimal(stored.type) and stored.type.bit_width < 128:  # Arrow cannot do much with these
        stored = stored.cast(pa.decimal128(stored.type.precision, stored.type.scale))
    return stored


def is_text(kind: Any) -> bool:
    """Whether a stored type holds texts or bytes."""
    views = (pa.types.is_string_view(kind), pa.types.is_binary_view(kind), pa.types.is_fixed_size_binary(kind))
    return any(views) or any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )


def _bytes(stored: Any) -> Any:
    """Text or bytes of any width as an Arrow binary array."""
    return stored if pa.types.is_binary(stored.type) else stored.cast(pa.large_binary()).cast(pa.binary())


def _decoded(raw: Any) -> Any:
    """An Arrow binary array as text; bytes that are not UTF-8 become replacement characters."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:  # says that some value is not UTF-8; which one is nobody's business
        texts = (None if item is None else item.decode("utf-8", "replace") for item in raw.to_pylist())
        return pa.array(texts, pa.string())


def _identified(raw: Any) -> Any:
    """An Arrow binary array as the texts of ids."""
    try:
        texts = raw.cast(pa.string())
        if not pc.any(pc.starts_with(texts, MARK)).as_py():
            return texts
    except pa.ArrowInvalid:
        pass
    return pa.array((None if item is None else id_text(item) for item in raw.to_pylist()), pa.string())


def can_mean(kind: Any) -> bool:
    """Whether values of a stored type mean anything: lists, structures, times of day and lengths of time do not."""
    if pa.types.is_dictionary(kind):
        return can_mean(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return can_mean(kind.storage_type)
    return is_text(kind) or _has_text(kind)


def _has_text(kind: Any) -> bool:
    """Whether a stored type that is no text can mean anything."""
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_decimal,
        pa.types.is_date,
        pa.types.is_timestamp,
    )
    return any(test(kind) for test in tests)


def _stored_numbers(column: Column, stored: Any, nulls: Sequence[str]) -> Any:
    """The short way for integers under integer and numbers under decimal; None where there is none."""
    kind = stored.type
    if column.type == "integer" and pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        values, listed = stored.cast(pa.int64()), [item for item in nulls if _is_digits(item)]
        return _without(values, pa.array([int(item) for item in listed], pa.int64()))
    if column.type == "decimal" and pa.types.is_floating(kind):
        values = pc.add(stored.cast(pa.float64()), 0.0)
        values = pc.if_else(pc.is_finite(values), values, None)
        numbers = [(item, READ["decimal"](item)) for item in nulls]
        same = [number for item, number in numbers if isinstance(number, float) and number_text(number) == item]
        return _without(values, pa.array(same, pa.float64()))
    return None


def _plain_numbers(column: Column, raw: Any, nulls: Sequence[str]) -> Any:
    """The short way for texts of digits, a sign and a point alone; None where it may say other than ``values.READ``.

    Of such texts up to 18 characters Arrow reads those that are numbers, exactly, and refuses all others: what else it
    takes for a number, such as hexadecimal digits or names, has other characters. An empty text is null.
    """
    digits = _DIGITS.get(column.type)
    if digits is None or any(item and not item.encode().strip(digits) for item in nulls):
        return None
    sizes = pc.binary_length(raw)
    longest = pc.max(sizes).as_py()
    if not longest or longest > _LONG:
        return None
    start, stop = np.frombuffer(raw.buffers()[1], np.int32)[[raw.offset, raw.offset + len(raw)]]
    if memoryview(raw.buffers()[2])[start:stop].tobytes().translate(None, digits):
        return None
    try:
        numbers = pc.if_else(pc.equal(sizes, 0), None, raw.cast(pa.string())).cast(ARROW[column.type])
    except pa.ArrowInvalid:  # one of them is no number
        return None
    return pc.add(numbers, 0.0) if column.type == "decimal" else numbers


def _is_digits(text: str) -> bool:
    """Whether a text is how a stored integer shows."""
    value = READ["integer"](text)
    return value is not None and abs(int(value)) < LIMIT and str(value) == text


def _without(values: Any, listed: Any) -> Any:
    return pc.if_else(pc.is_in(values, value_set=listed), None, values) if len(listed) else values


def _read(
    column: Column, texts: Any, nulls: Sequence[str], grids: Sequence[Fraction], dialect: Dialect | None = None
) -> list[Any]:
    """Text under a declared type: distinct values first, so that the slow way is taken once per value."""
    if column.type == "text":
        return [_without(texts, pa.array(nulls, pa.string()))]
    encoded = texts.dictionary_encode()
    words = _without(encoded.dictionary, pa.array(nulls, pa.string()))
    if dialect is not None:
        words, nulls = in_plain_notation(column.type, words, dialect, nulls), ()
    meanings = _meanings(column, words, frozenset(nulls))
    arrays = _with_steps(column, meanings, grids, lambda at: _at(words, at))
    return [each.take(encoded.indices) for each in arrays]


def _meanings(column: Column, words: Any, nulls: frozenset[str]) -> Any:
    """Distinct texts to values, not yet within the range."""
    kind = ARROW[column.type]
    pattern = _PLAIN.get(column.type)
    if pattern is None:
        return pa.array([_meaning(column, word, nulls) for word in words.to_pylist()], kind)
    plain = pc.fill_null(pc.match_substring_regex(words, pattern), True)
    short = pc.if_else(plain, words, None).cast(kind)
    if column.type == "decimal":
        short = pc.add(short, 0.0)  # minus zero plus zero is zero
    if pc.all(plain).as_py() is not False:
        return short
    at = np.flatnonzero(~plain.to_numpy(zero_copy_only=False))
    odd = [_meaning(column, word, nulls) for word in words.take(pa.array(at)).to_pylist()]
    return pc.replace_with_mask(short, pc.invert(plain), pa.array(odd, kind))


def _meaning(column: Column, word: str | None, nulls: frozenset[str]) -> Any:
    """One text to a value that its Arrow type can hold."""
    if word is None or word.strip(BLANKS) in nulls:
        return None
    value = READ[column.type](word)
    if column.type == "integer" and isinstance(value, int) and not -LIMIT <= value <= _MOST:
        if column.range is None or column.outside == "null":
            return None
        return _MOST if value > 0 else -_MOST
    return value


def _within(column: Column, values: Any) -> Any:
    """Numbers within the declared range; the limits of an integer column are whole and fit in 64 bits."""
    if column.range is None or column.type not in ("integer", "decimal"):
        return values
    low: int | float
    high: int | float
    if column.type == "integer":
        low = min(max(ceil(column.range.low), -_MOST), _MOST)
        high = min(max(floor(column.range.high), -_MOST), _MOST)
    else:
        low, high = float(column.range.low), float(column.range.high)
    if column.type == "integer" and column.outside != "null" and not values.null_count:
        return pa.array(values.to_numpy().clip(low, high))  # in a tenth of the time
    lower, upper = pa.scalar(low, values.type), pa.scalar(high, values.type)
    if column.outside == "null":
        return pc.if_else(pc.and_(pc.less_equal(lower, values), pc.less_equal(values, upper)), values, None)
    return pc.max_element_wise(pc.min_element_wise(values, upper, skip_nulls=False), lower, skip_nulls=False)


def stored_texts(words: Any, wanted: ColumnType) -> Any:
    """Stored numbers, truth values, days or moments to their texts under a declared type; what has none is null."""
    kind = words.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return words.cast(pa.string())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = (words.cast(pa.float64()) if pa.types.is_floating(kind) else words).to_pylist()
        return pa.array([None if item is None else number_text(item) for item in numbers], pa.string())
    return _moments(words, wanted)


def _moments(words: Any, wanted: ColumnType) -> Any:
    """Stored dates and timestamps (read as UTC) to ISO text, the same in every unit; beyond years 1 to 9999 null."""
    unit = "D" if pa.types.is_date32(words.type) else "ms" if pa.types.is_date64(words.type) else words.type.unit
    raw = words.cast(pa.int32()).cast(pa.int64()) if unit == "D" else words.cast(pa.int64())
    ticks = pc.fill_null(raw, 0).to_numpy(zero_copy_only=False)
    days = ticks // _PER_DAY.get(unit, 1)
    real = (days >= _DAYS[0]) & (days <= _DAYS[1]) & words.is_valid().to_numpy(zero_copy_only=False)
    shown = "D" if wanted == "date" or pa.types.is_date(words.type) else unit
    moments = np.where(real, ticks, 0).astype(f"datetime64[{unit}]").astype(f"datetime64[{shown}]")
    texts = pa.array(np.datetime_as_string(moments), pa.string(), mask=~real)
    return texts if shown in ("D", "s") else pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")


def join_keys(table: Table, join: Join, public: ReferenceTable) -> Any:
    """The keys of a reference as the table reads them, not clamped: two at one limit would double a row."""
    free = table.column(join.on).model_copy(update={"range": None})
    return as_declared(free, public.columns[join.on], unit=join.on == table.unit_id)


def as_declared(column: Column, keys: Sequence[Key], *, unit: bool = False) -> Any:
    """Public values as an Arrow array, read as the source's are; ``unit``: as ids are."""
    return typed(column, _as_texts(keys), unit=unit)


def _as_texts(keys: Sequence[Key]) -> Any:
    return pa.array([str(key).lower() if isinstance(key, bool) else str(key) for key in keys], pa.string())
