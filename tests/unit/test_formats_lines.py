"""Text made of whole columns is the text that Python makes of each number."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.catalog.table import Column
from dprelease.estimate import PublishedMeasure, PublishedTable, full_product, statuses
from dprelease.publish import csv_text as lines
from dprelease.publish.base import key_as_text
from dprelease.publish.bundle.read_tables import csv_columns, csv_names
from dprelease.publish.columns import table_header
from dprelease.publish.csv_text import key_texts, number_texts, whole_texts, written
from dprelease.publish.formats.datapackage import csv_blocks

EDGES = [0.0, -0.0, 1.0, -1.0, 20.0, 1e9, 1e9 - 1, 1e9 + 0.5, 999_999_999.75, 1e15, 1e16, 1e17, 2.0**63, -(2.0**63),
         2.0**62, 1e22, 1e-4, 1e-5, 1e-3, 9.999e-4, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan,
         0.1, 0.5, 1.5, 2.5, -0.5, -0.3, 0.125, 0.005, 1.005, 2.675, 1e300, 1099511627776.5]  # fmt: skip
NUMBERS = st.one_of(st.floats(), st.sampled_from(EDGES), st.integers(-(10**6), 10**6).map(lambda number: number / 200))
PLACES = st.sampled_from([None, 0, 1, 2, 3, 6, 18])


def one_by_one(number: float, places: int | None) -> str:
    if math.isnan(number):
        return ""
    return repr(number) if places is None else f"{number:.{places}f}"


@given(st.lists(NUMBERS), PLACES)
def test_every_number_has_the_text_that_python_writes(numbers: list[float], places: int | None) -> None:
    given_numbers = np.array(numbers, dtype=np.float64)
    expected = [one_by_one(number, places) for number in numbers]
    assert number_texts(given_numbers, places)(0, len(numbers)).to_pylist() == expected
    read = [float(text) if text else math.nan for text in expected]
    assert np.array_equal(written(given_numbers, places), np.array(read, dtype=np.float64), equal_nan=True)


@pytest.mark.parametrize("places", [None, 0, 2])
def test_a_hundred_thousand_numbers_of_every_size_have_the_text_that_python_writes(places: int | None) -> None:
    generator = np.random.default_rng(1)
    small = generator.normal(size=20_000) * 10.0 ** generator.integers(-30, 30, 20_000)
    halves = np.arange(-20_000, 20_000) / 200
    numbers = np.concatenate([EDGES, small, generator.normal(100, 1e4, 40_000), halves, np.nextafter(halves, 9)])
    found = number_texts(numbers, places)(0, len(numbers)).to_pylist()
    assert found == [one_by_one(number, places) for number in numbers.tolist()]


def test_equal_neighbours_and_broadcast_numbers_are_written_like_others() -> None:
    nodes = np.array([1.5, math.nan, -0.0, 0.0, 3.0])
    numbers = np.broadcast_to(nodes[:, None], (5, 4)).reshape(-1)
    expected = [one_by_one(number, None) for number in numbers.tolist()]
    assert number_texts(numbers, None)(0, 20).to_pylist() == expected
    one = np.broadcast_to(np.float64(2.25), 10)
    assert number_texts(one, None)(3, 7).to_pylist() == ["2.25"] * 4


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_whole_numbers_have_all_their_digits(numbers: list[int]) -> None:
    assert whole_texts(np.array(numbers, dtype=np.int64))(0, len(numbers)).to_pylist() == list(map(str, numbers))


def line_by_line(table: PublishedTable) -> Iterator[str]:
    """The CSV file as one would write it cell by cell."""
    yield ",".join(table_header(table))
    for at, keys in enumerate(zip(*table.keys, strict=True)):
        cells = [
            '"' + key_as_text(key).replace('"', '""') + '"' if column.type == "text" else key_as_text(key)
            for column, key in zip(table.key_columns, keys, strict=True)
        ]
        for each in table.measures:
            numbers = (each.value, each.standard_error, each.margin, each.lower, each.upper)
            places = (each.places, None, each.places, each.places, each.places)
            cells += [one_by_one(float(number[at]), place) for number, place in zip(numbers, places, strict=True)]
            cells.append(each.status[at])
        yield ",".join(cells)


def crosstab(rows: int) -> PublishedTable:
    """A table with hostile keys, real numbers and counts, blanks among them."""
    columns = (
        Column(name="place", type="text", keys=tuple(f'{at}"\r\n,=é' for at in range(rows // 4))),
        Column(name="adult", type="boolean", keys=(False, True)),
        Column(name="sex", type="integer", keys=(1, -2)),
    )
    keys = full_product(columns).columns
    value = np.random.default_rng(3).normal(0, 1e3, len(keys[0]))
    value[::7] = math.nan
    margin = np.where(np.isnan(value), math.nan, 3.0)
    status = statuses(np.isnan(value), np.abs(value) < 100)
    real = PublishedMeasure(
        "real", None, value, margin / 3, margin, value - margin, value + margin, status, None, False
    )
    whole = np.rint(value) + 0.0
    count = PublishedMeasure("count", None, whole, margin, margin, whole - 3, whole + 3, status, 0, True)
    return PublishedTable("t", "T", columns, keys, (real, count), Fraction(19, 20), len(value))


def test_a_csv_file_is_the_one_that_is_written_cell_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    table = crosstab(4000)
    expected = "".join(f"{line}\r\n" for line in line_by_line(table)).encode()
    assert b"".join(csv_blocks(table_header(table), table)) == expected
    monkeypatch.setattr(lines, "_AT_ONCE", 777)
    blocks = list(csv_blocks(table_header(table), table))
    assert b"".join(blocks) == expected
    assert len(blocks) == 1 + -(-table.cells // 777)


def test_long_keys_are_written_in_smaller_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Arrow array of strings holds at most 2 GB: the block is as small as the longest keys ask for."""
    monkeypatch.setattr(lines, "_BYTES_AT_ONCE", 100_000)
    table = crosstab(40)
    sizes = [len(block) for block in csv_blocks(table_header(table), table)][1:]
    assert len(sizes) > 1
    assert max(sizes) <= 100_000


def test_a_csv_file_is_read_back_as_it_was_written() -> None:
    table = crosstab(400)
    data = b"".join(csv_blocks(table_header(table), table))
    found = csv_columns(data, table_header(table), {"place": "text", "real": "number", "real_status": "text"})
    rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    assert found["place"].to_pylist() == [row["place"] for row in rows]
    assert found["real_status"].to_pylist() == [row["real_status"] for row in rows]
    assert found["real"].to_pylist() == [float(row["real"]) if row["real"] else None for row in rows]


@pytest.mark.parametrize(
    "data",
    [b"", b'"', b"\xff", b"a\r\n1\r\n", b"a,b,c\r\n1,2,3\r\n", b"\xef\xbb\xbfa,b\r\n1,2\r\n", b"a,b\r\n1\r\n",
     b"a,b\r\n1,x\r\n", b"a,b\r\n1,1_0\r\n",  b"a,b\r\n\xff,2\r\n", b"a,b\r\n1,2,3\r\n"],
)  # fmt: skip
def test_what_is_no_such_file_is_refused_without_a_word_of_what_it_holds(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"other columns|no CSV file of these columns") as caught:
        csv_columns(data, ("a", "b"), {"a": "text", "b": "number"})
    assert caught.value.__cause__ is None


def test_an_empty_line_is_a_row_too_many() -> None:
    found = csv_columns(b"a,b\r\n1,2\r\n\r\n", ("a", "b"), {"a": "text", "b": "number"})
    assert (found["a"].to_pylist(), found["b"].to_pylist()) == (["1", ""], [2.0, None])


def test_names_with_signs_are_read_back() -> None:
    names = ("a,b", 'c"d', "e\r\nf", "plain")
    assert csv_names(lines.head_line(names) + b"1,2,3,4\r\n") == list(names)


def test_keys_of_every_type_are_written_as_they_were_declared() -> None:
    text = key_texts(Column(name="x", type="text", keys=("06", '"', "")), ("06", '"', "", "06"))
    assert text(0, 4).to_pylist() == ['"06"', '""""', '""', '"06"']
    bare = key_texts(Column(name="x", type="boolean"), (True, False))
    assert [*bare(0, 1).to_pylist(), *bare(1, 2).to_pylist()] == ["true", "false"]
