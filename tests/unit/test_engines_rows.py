"""What stored values mean, and that the vectorised way says what the one definition says."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.catalog.table import Column, ColumnType, Range
from dprelease.engines.files import csv_lines as csvfile
from dprelease.engines.files.rows import ARROW, typed
from dprelease.engines.files.values import LIMIT, READ

INTEGER = Column(name="n", type="integer")
DECIMAL = Column(name="n", type="decimal")


def read(column: Column, stored: Any, *nulls: str) -> list[Any]:
    found = typed(column, stored if isinstance(stored, pa.Array) else pa.array(stored), nulls)
    assert found.type == ARROW[column.type]
    return list(found.to_pylist())


NUMBERS = st.from_regex(r"[ ]?[+-]?[0-9]{0,22}\.?[0-9]{0,3}([eE][+-]?[0-9]{1,3})?[ ]?", fullmatch=True)


@pytest.mark.slow
@given(st.lists(st.one_of(st.none(), NUMBERS, st.text(max_size=6)), max_size=8), st.sampled_from(get_args(ColumnType)))
def test_reading_an_array_is_reading_its_values(texts: list[str | None], kind: ColumnType) -> None:
    column = Column(name="c", type=kind)
    one = [None if text is None else READ[kind](text) for text in texts]
    if kind == "integer":
        one = [value if value is not None and -LIMIT <= int(value) < LIMIT else None for value in one]
    assert read(column, pa.array(texts, pa.string())) == one


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("15400", 15400), ("15400.0", 15400), ("15400.000", 15400), ("15400.", 15400), ("15400.5", None), ("+7", 7),
        ("1e3", 1000), ("1.5e1", 15), ("10e-1", 1), ("1e-1", None), ("0e-999999999999999999999", 0), (" 8\t", 8),
        ("0.0001e4", 1), ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)), ("1_0", None),
        ("0x10", None), ("٣", None), ("", None), ("-", None), ("1e", None), (".", None), ("nan", None), ("1\x00", None),
    ],
)  # fmt: skip
def test_integers(text: str, value: int | None) -> None:
    assert read(INTEGER, [text]) == [value]


@pytest.mark.parametrize("text", ["9" * 400, "1e400", "9223372036854775809", "1" + "0" * 5000, "1e" + "9" * 5000])
def test_a_number_beyond_64_bits_is_a_number_outside_the_range(text: str) -> None:
    limits = Range(low=Fraction(-5), high=Fraction(99))
    assert read(INTEGER, [text, "-" + text]) == [None, None]
    assert read(INTEGER.model_copy(update={"range": limits}), [text, "-" + text]) == [99, -5]
    assert read(INTEGER.model_copy(update={"range": limits, "outside": "null"}), [text, "-" + text]) == [None, None]


def test_decimals_are_finite_doubles_or_null() -> None:
    texts = ["0.1", "-1e308", "1e309", "inf", "-Infinity", "NaN", " 2 ", ".5", "5.", "1,5", "9" * 400, "-0.0", "1e-400"]
    found = read(DECIMAL, texts)
    assert found == [0.1, -1e308, None, None, None, None, 2.0, 0.5, 5.0, None, None, 0.0, 0.0]
    assert str(found[11]) == "0.0"


def test_a_range_clamps_or_nulls_and_leaves_nulls_alone() -> None:
    limits = Range(low=Fraction(-1, 2), high=Fraction(5, 2))
    texts = ["-9", "-0.5", "2", "2.5", "9", "x", None]
    clamped, nulled = ({"range": limits}, {"range": limits, "outside": "null"})
    assert read(DECIMAL.model_copy(update=clamped), texts) == [-0.5, -0.5, 2.0, 2.5, 2.5, None, None]
    assert read(DECIMAL.model_copy(update=nulled), texts) == [None, -0.5, 2.0, 2.5, None, None, None]
    assert read(INTEGER.model_copy(update=clamped), ["-9", "9"]) == [0, 2]


def test_null_values_are_compared_with_the_text() -> None:
    assert read(Column(name="c", type="text"), ["", "N", " N", "n"], "", "N") == [None, None, " N", "n"]
    assert read(INTEGER, ["-9", " -9 ", "-9.0", "9"], "-9") == [None, None, -9, 9]
    assert read(INTEGER, pa.array([-9, 9]), "-9") == [None, 9]
    assert read(DECIMAL, pa.array([-9.0, 0.5, 9.0]), "-9", "0.5", "9.0") == [None, None, 9.0]


def test_booleans_and_dates() -> None:
    texts = ["true", "T", "1", "FALSE", "f", "0", "yes", "", "2"]
    assert read(Column(name="c", type="boolean"), texts) == [True] * 3 + [False] * 3 + [None] * 3
    days = ["2024-02-29", "2023-02-29", "0000-01-01", "20240229", "2024-02-29T00:00:00", "9999-12-31"]
    assert read(Column(name="c", type="date"), days) == ["2024-02-29", None, None, None, None, "9999-12-31"]
    moments = ["2024-02-29T10:00:00Z", "2024-02-29 10:00", "2024-02-29T25:00:00", "2024-02-29"]
    assert read(Column(name="c", type="timestamp"), moments) == ["2024-02-29T10:00:00"] * 2 + [None, None]


def test_one_moment_is_one_value_however_a_file_writes_it() -> None:
    """Else a unit's sample, distinct moments and the first of its rows would depend on the format of the file."""
    texts = ["2024-03-01 00:30", "2024-03-01T00:30:00.000", "2024-02-29T23:30:00-01:00", "2024-03-01T01:30:00+01:00"]
    stored = pa.array([dt.datetime(2024, 3, 1, 0, 30)] * 4, pa.timestamp("us"))
    assert read(column("timestamp"), texts) == read(column("timestamp"), stored) == ["2024-03-01T00:30:00"] * 4
    assert read(column("timestamp"), ["0001-01-01T00:00+01:00", "2024-03-01T00:00+24:00"]) == [None, None]


def column(kind: ColumnType) -> Column:
    return Column(name="c", type=kind)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()])
def test_stored_integers_of_every_width(kind: Any) -> None:
    stored = pa.array([1, 100, None], kind)
    assert read(column("integer"), stored) == [1, 100, None]
    assert read(column("decimal"), stored) == [1.0, 100.0, None]
    assert read(column("text"), stored) == ["1", "100", None]
    assert read(column("boolean"), stored) == [True, None, None]
    assert read(column("date"), stored) == [None] * 3


def test_the_largest_unsigned_integer_is_beyond() -> None:
    wide = INTEGER.model_copy(update={"range": Range(low=Fraction(0), high=Fraction(7))})
    assert read(wide, pa.array([2**64 - 1], pa.uint64())) == [7]
    assert read(INTEGER, pa.array([2**64 - 1], pa.uint64())) == [None]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_stored_floats(kind: Any) -> None:
    stored = pa.array([np.float16(item) for item in (15.0, 0.5, np.nan, np.inf, -0.0)], pa.float16()).cast(kind)
    assert read(column("integer"), stored) == [15, None, None, None, 0]
    assert read(column("decimal"), stored) == [15.0, 0.5, None, None, 0.0]
    assert read(column("text"), stored) == ["15", "0.5", None, None, "0"]


def test_stored_moments() -> None:
    days = pa.array([dt.date(2024, 2, 29), dt.date(1, 1, 1), None])
    assert read(column("date"), days) == ["2024-02-29", "0001-01-01", None]
    assert read(column("date"), days.cast(pa.date64())) == ["2024-02-29", "0001-01-01", None]
    moments = pa.array([dt.datetime(1969, 12, 31, 23, 59, 59), None], pa.timestamp("us", "Asia/Tokyo"))
    assert read(column("date"), moments) == ["1969-12-31", None]
    assert read(column("timestamp"), moments) == ["1969-12-31T23:59:59", None]
    assert read(column("integer"), moments) == [None, None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_impossible_stored_moments_are_null(unit: str) -> None:
    raw = pa.array([2**63 - 1, -(2**63), 0], pa.int64()).view(pa.timestamp(unit))
    expected = ["2262-04-11", None, "1970-01-01"] if unit == "ns" else [None, None, "1970-01-01"]
    found = read(column("date"), raw)
    assert found[0] == expected[0]
    assert found[2] == expected[2]
    assert read(column("date"), pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32())) == [None, None]


def test_other_stored_types() -> None:
    assert read(column("text"), pa.array([b"a", b"\xff"])) == ["a", "\ufffd"]
    assert read(column("text"), pa.array(["a", None], pa.large_string())) == ["a", None]
    assert read(column("text"), pa.array(["a", None], pa.string_view())) == ["a", None]
    assert read(column("text"), pa.array([b"ab"], pa.binary(2))) == ["ab"]
    assert read(column("text"), pa.array(["a", "b", "a"]).dictionary_encode()) == ["a", "b", "a"]
    assert read(column("text"), pa.array([True, False])) == ["true", "false"]
    assert read(column("boolean"), pa.array([True, False, None])) == [True, False, None]
    assert read(column("integer"), pa.array([True])) == [None]
    assert read(column("decimal"), pa.array([Decimal("1.50"), Decimal("-0.25")])) == [1.5, -0.25]
    for stored in (pa.array([[1]]), pa.array([{"a": 1}]), pa.nulls(1), pa.array([dt.time(1)])):
        assert read(column("text"), stored) == [None]
        assert read(column("integer"), stored) == [None]


def rows(block: bytes, width: int) -> list[tuple[Any, ...]]:
    return list(zip(*(item.to_pylist() for item in csvfile.split_lines(block, width, range(width))), strict=True))


@given(st.lists(st.binary(max_size=9).filter(lambda raw: b"\n" not in raw), max_size=6), st.integers(1, 3))
def test_splitting_a_block_is_splitting_its_lines(lines: list[bytes], width: int) -> None:
    """The lines of a block, well-formed or not, read as they do alone; and as field by field."""
    one = [rows(raw + b"\n", width) for raw in lines]
    assert sorted(map(repr, rows(b"".join(raw + b"\n" for raw in lines), width))) == sorted(
        repr(r) for x in one for r in x
    )
    for raw, found in zip(lines, one, strict=True):
        by_hand = csvfile.line_fields(raw.removesuffix(b"\r"))
        whole = by_hand is not None and len(by_hand) == width
        expected = [tuple(by_hand)] if by_hand is not None and whole else [(None,) * width]
        assert found == (expected if raw.removesuffix(b"\r") else [])


@given(
    st.lists(st.sampled_from([b'a,"b', b'"a""b",c', b'"a,b",c', b"a,b\r", b"", b"x", b'"",""', b'a"b,c']), max_size=9)
)
def test_quotes_read_the_same_in_a_block_as_alone(lines: list[bytes]) -> None:
    together = rows(b"".join(raw + b"\n" for raw in lines), 2)
    alone = [row for raw in lines for row in rows(raw + b"\n", 2)]
    assert sorted(map(repr, together)) == sorted(map(repr, alone))
