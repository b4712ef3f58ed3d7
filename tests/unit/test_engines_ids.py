"""The canonical text of an id: two byte strings never share one, and what reads whole arrays reads each value alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.catalog.table import Column
from dprelease.engines.files.rows import typed
from dprelease.engines.files.values import MARK, READ, id_text, number_text

ID = Column(name="who", type="text")


def read(stored: Any, *nulls: str) -> list[Any]:
    return list(typed(ID, stored, nulls, unit=True).to_pylist())


# Bytes that hold ends and beginnings of sequences, the mark whole and in parts, and texts that look like escapes.
PARTS = st.sampled_from([MARK.encode(), b"\xef", b"\xb7\x90", b"\xe9", b"\xc3", b"\xa9", b"\xed\xa0\x80", b"f", b"ef", b"\0", b"1"])  # fmt: skip
RAW = st.one_of(st.binary(max_size=6), st.lists(PARTS, max_size=5).map(b"".join))


def bytes_of(text: str) -> bytes:
    """What an id's text says that its bytes are: the proof that no two have the same."""
    return bytes.fromhex(text.removeprefix(MARK)) if text.startswith(MARK) else text.encode()


@given(st.one_of(RAW, RAW.map(lambda raw: id_text(raw).encode())))
@example(b"")
@example(MARK.encode())
def test_the_bytes_of_an_id_can_be_read_from_its_text(raw: bytes) -> None:
    """So two ids with one text would be one: also an id that is written as another one's text is."""
    text = id_text(raw)
    assert bytes_of(text) == raw
    text.encode()  # it is UTF-8 itself


def test_all_short_byte_strings_have_texts_of_their_own() -> None:
    raw = [bytes(each) for size in range(3) for each in product(range(256), repeat=size)]
    texts = read(pa.array(raw, pa.binary()))
    assert texts == [id_text(each) for each in raw]
    assert len(set(texts)) == len(raw) == 1 + 256 + 65536


WAYS: dict[str, Callable[[list[bytes]], Any]] = {
    "binary": lambda raw: pa.array(raw, pa.binary()),
    "large_binary": lambda raw: pa.array(raw, pa.large_binary()),
    "binary_view": lambda raw: pa.array(raw, pa.binary_view()),
    "dictionary": lambda raw: pa.array(raw, pa.binary()).dictionary_encode(),
    "text": lambda raw: pa.Array.from_buffers(pa.string(), len(raw), pa.array(raw, pa.binary()).buffers()),
    "large text": lambda raw: pa.Array.from_buffers(
        pa.large_string(), len(raw), pa.array(raw, pa.large_binary()).buffers()
    ),
}


@pytest.mark.parametrize("way", WAYS)
@given(raw=st.lists(RAW, max_size=6))
def test_an_array_of_ids_is_read_as_each_of_them_is(way: str, raw: list[bytes]) -> None:
    """Whatever else is in the array: one id that is not UTF-8 changes no other one's text."""
    assert read(WAYS[way](raw)) == [id_text(each) for each in raw]


@given(st.lists(st.binary(min_size=3, max_size=3), max_size=6))
def test_bytes_of_one_length_are_read_as_others_are(raw: list[bytes]) -> None:
    assert read(pa.array(raw, pa.binary(3))) == [id_text(each) for each in raw]


@given(RAW, st.lists(st.text(alphabet=[*"a1ef", MARK, "\ufffd"], max_size=4), max_size=3))
def test_null_values_are_those_very_texts(raw: bytes, nulls: list[str]) -> None:
    listed = raw in [each.encode() for each in nulls]
    assert read(pa.array([raw]), *nulls) == [None if listed else id_text(raw)]


DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=4),
    st.decimals(allow_nan=False, allow_infinity=False),
)


@given(st.one_of(st.floats(), DECIMALS, st.integers().map(Decimal), st.integers(-(2**80), 2**80).map(float)))
def test_the_text_of_a_number_is_its_digits(value: float | Decimal) -> None:
    """It says the number, with no sign, zero or exponent that could be left out."""
    text = number_text(value)
    if text is None:
        assert not math.isfinite(value)
        return
    whole, _, part = text.removeprefix("-").partition(".")
    assert (whole + part).isdigit()
    assert whole == "0" or not whole.startswith("0")
    assert not part.endswith("0")
    assert text == text.rstrip(".")
    assert text != "-0"
    read_again = Fraction(text) if isinstance(value, Decimal) else float(text)
    assert read_again == value


@given(st.integers(-(10**14), 10**14), st.integers(0, 4), st.integers(0, 6))
def test_one_decimal_has_one_text_whatever_its_scale(digits: int, places: int, more: int) -> None:
    value = Decimal(digits).scaleb(-places)
    stored = [pa.array([value], pa.decimal128(30, places + more)), pa.array([value], pa.decimal256(60, places + more))]
    if value == value.to_integral_value():
        stored += [pa.array([int(value)]), pa.array([float(value)])]
    assert len({text for array in stored for text in read(array)}) == 1


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(10, 2)])
def test_short_decimals_are_read_as_long_ones_are(kind: Any) -> None:
    assert read(pa.array([Decimal("17.00"), None, Decimal("0.50")], kind)) == ["17", None, "0.5"]


def test_decimals_with_zeros_before_the_point() -> None:
    """Arrow can hold them, though Parquet cannot."""
    assert read(pa.array([Decimal("1.7E+3")], pa.decimal128(5, -2))) == ["1700"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5, unique=True))
def test_different_doubles_have_different_texts(values: list[float]) -> None:
    assert len(set(read(pa.array(values, pa.float64())))) == len(set(values))


@given(st.integers(-(2**62), 2**62), st.sampled_from(["ms", "us", "ns"]))
def test_one_moment_has_one_text_in_every_unit(at: int, unit: str) -> None:
    """Of text as it stands in a file, too, where it is read as a moment."""
    fine = {"ms": "us", "us": "ns", "ns": "ns"}[unit]
    days = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}[unit]
    at %= days * 365 * 100
    stored = np.array([at], dtype=f"datetime64[{unit}]")
    first, second = read(pa.array(stored)), read(pa.array(stored.astype(f"datetime64[{fine}]")))
    assert first == second == [READ["timestamp"](str(first[0]))]
    assert read(pa.array(stored, pa.timestamp(unit, "Asia/Kathmandu"))) == first


def test_a_type_that_is_known_to_some_is_read_as_what_it_is_stored_as() -> None:
    """A UUID is 16 bytes, whether the reader knows of UUIDs or not."""
    raw = [bytes(range(at, at + 16)) for at in (0, 120)]
    plain = pa.array(raw, pa.binary(16))
    known = pa.ExtensionArray.from_storage(pa.uuid(), plain)
    assert read(known) == read(plain) == [id_text(each) for each in raw]
