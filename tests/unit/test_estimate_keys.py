"""Columns by codes are the tuples that they stand for."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.catalog.table import Column, Key
from dprelease.estimate import Coded, PublishedMeasure, PublishedTable, Rows, as_rows, coded, full_product, statuses

KEYS = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "06", "6"]))


@given(st.lists(KEYS), st.integers(-8, 8), st.integers(-8, 8), st.sampled_from([1, 2, -1]))
def test_a_column_is_the_tuple_that_it_was_made_of(values: list[Key], first: int, last: int, step: int) -> None:
    column = Coded.of(values)
    assert len(column) == len(values)
    assert list(map(repr, column)) == list(map(repr, values))  # True is not 1
    assert column == tuple(values)
    assert tuple(values) == column
    assert repr(list(column[first:last:step])) == repr(values[first:last:step])
    assert [column[at] for at in range(-len(values), len(values))] == values + values
    for value in ("a", 1, True, "absent"):
        assert (value in column) == (value in values)
        assert column.count(value) == values.count(value)
        assert column.where(value).tolist() == [each == value for each in values]
    assert coded(column) is column


@given(st.lists(st.integers(0, 4), max_size=4), st.integers(-70, 70), st.integers(-70, 70))
def test_crossed_columns_are_the_product_and_so_is_each_part(sizes: list[int], first: int, last: int) -> None:
    columns = [Column(name=f"c{at}", type="integer", keys=tuple(range(size))) for at, size in enumerate(sizes)]
    rows, expected = full_product(columns), list(product(*(range(size) for size in sizes)))
    assert list(rows) == expected
    assert list(rows[first:last]) == expected[first:last]
    for at, column in enumerate(rows.columns):
        assert column.codes.tolist() == [row[at] for row in expected]
        part = column[first:last]
        assert part.codes.tolist() == [row[at] for row in expected][first:last]
        assert part[1:].codes.tolist() == [row[at] for row in expected][first:last][1:]
        assert column.mapped(str)[first:last] == tuple(str(row[at]) for row in expected[first:last])


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_rows_that_are_left_out_are_not_there(one: int, two: int, data: st.DataObject) -> None:
    columns = [Column(name=f"c{size}", type="integer", keys=tuple(range(size))) for size in (one, two)]
    left_out = data.draw(st.sets(st.integers(0, one * two - 1)))
    expected = [row for at, row in enumerate(product(range(one), range(two))) if at not in left_out]
    assert list(full_product(columns).without(left_out)) == expected


def test_a_full_product_of_ten_million_rows_takes_no_memory() -> None:
    columns = [
        Column(name=name, type="integer", keys=tuple(range(size))) for name, size in (("a", 10_000), ("b", 1000))
    ]
    rows = full_product(columns)
    assert len(rows) == 10_000_000
    assert rows[9_999_999] == (9999, 999)
    assert rows[5_000_000:][0] == (5000, 0)
    assert all(column._codes is None for column in rows[1:].columns)


def test_rows_need_columns_of_their_length_and_codes_need_keys() -> None:
    with pytest.raises(ValueError, match="other lengths"):
        Rows([Coded.of(("a", "b"))], 3)
    for codes in ([2], [-1], [[0]]):
        with pytest.raises(ValueError, match="places of keys"):
            Coded(("a", "b"), codes)
    assert list(as_rows(((), ()), 0)) == [(), ()]


def test_codes_cannot_be_changed() -> None:
    codes = np.array([0, 1], dtype=np.int32)
    column = Coded(("a", "b"), codes)
    with pytest.raises(ValueError, match="read-only"):
        column.codes[0] = 1
    codes[0] = 0  # those that were given still can


def test_a_table_takes_tuples_and_holds_columns() -> None:
    number = np.zeros(2)
    measure = PublishedMeasure("n", None, number, number, number, number, number, ("ok", "blank"), 0, True)
    column = Column(name="x", type="boolean")
    made = PublishedTable("t", "T", (column,), ((True, False),), (measure,), Fraction(1, 2), 2)
    assert isinstance(made.keys[0], Coded)
    assert isinstance(made.measures[0].status, Coded)
    assert made.keys == ((True, False),)


def test_blank_goes_before_unreliable() -> None:
    blank, weak = np.array([False, True, False, True]), np.array([False, False, True, True])
    assert statuses(blank, weak) == ("ok", "blank", "unreliable", "blank")
