"""Sums along a line from noisy combinations of it: values and variances against dense matrices, rows in public order."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.catalog.factor import Factor
from dprelease.catalog.table import Column
from dprelease.estimate.counts import table_of_counts
from dprelease.estimate.ranges import Which, line_sums, range_rows, rows_of_a_line, variances_of
from dprelease.measures.count import Count
from dprelease.plan.document.ranges import PlannedRanges, rows_of
from dprelease.plan.lower.ranges import mirrored_factor, near_optimal
from tests.tiers import few

Floats = npt.NDArray[np.float64]


def adding(keys: int, which: Which) -> Floats:
    """The sums of a line as rows of 0 and 1, by their definition."""
    if which == "prefixes":
        ends = [(0, last) for last in range(keys)]
    else:
        ends = [(first, last) for first in range(keys) for last in range(first, keys)]
    return np.array([[float(first <= at <= last) for at in range(keys)] for first, last in ends])


KINDS = ["counts", "root", "matrix", "mirrored prefixes", "mirrored all"]


def factor_of(kind: str, shape: tuple[int, ...], axis: int) -> Factor | None:
    if kind == "counts":
        return None
    if kind == "root":
        return Factor(shape=shape, axis=axis, kind="root", grain=2**14)
    if kind in {"mirrored prefixes", "mirrored all"}:
        return mirrored_factor(shape, axis, "prefixes" if kind == "mirrored prefixes" else "all")
    rows = tuple(map(tuple, near_optimal(shape[axis], "all").tolist()))
    return Factor(shape=shape, axis=axis, kind="matrix", grain=2**12, rows=rows)


@pytest.mark.thin
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["prefixes", "all"])
@pytest.mark.parametrize("keys", [1, 2, 7, 64, 65, 128])
def test_variances_are_those_of_dense_matrices(keys: int, which: Which, kind: str) -> None:
    factor = factor_of(kind, (keys,), 0)
    matrix = np.eye(keys) if factor is None else factor.matrix.astype(np.float64)
    back = adding(keys, which) @ np.linalg.inv(matrix)
    np.testing.assert_allclose(variances_of(factor, keys, which), (back**2).sum(axis=1), rtol=1e-9)
    assert len(back) == rows_of_a_line(keys, which)


@pytest.mark.parametrize("kind", ["root", "mirrored prefixes", "mirrored all"])
def test_the_inverse_of_a_large_matrix_is_one(kind: str) -> None:
    factor = factor_of(kind, (700,), 0)
    assert factor is not None
    counts = np.arange(700) % 13
    found = line_sums(factor.matrix.astype(np.int64) @ counts, (700,), 0, factor, "prefixes")
    np.testing.assert_allclose(found, np.cumsum(counts), rtol=0, atol=1e-8)


@settings(max_examples=few(60), deadline=None)
@given(st.data())
def test_without_noise_sums_are_the_sums(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    which: Which = data.draw(st.sampled_from(["prefixes", "all"]))
    factor = factor_of(data.draw(st.sampled_from(KINDS)), shape, axis)
    cells = int(np.prod(shape))
    counts = np.array(data.draw(st.lists(st.integers(0, 10**9), min_size=cells, max_size=cells)), dtype=np.int64)
    lines = np.moveaxis(counts.reshape(shape), axis, -1)
    drawn = lines if factor is None else lines @ factor.matrix.T.astype(np.int64)
    values = np.moveaxis(drawn, -1, axis).reshape(-1)
    expected = lines.reshape(-1, shape[axis]) @ adding(shape[axis], which).T
    np.testing.assert_allclose(
        line_sums(values, shape, axis, factor, which), expected.reshape(-1), rtol=1e-9, atol=1e-5
    )


SEX = Column(name="sex", type="text", keys=("f", "m"))
PLACE = Column(name="place", type="integer", keys=(1, 2, 3))
AGE = Column(name="age", type="integer", keys=(0, 1, 2), labels={"2": "two and older"})


def test_rows_are_the_other_keys_and_then_where_sums_end() -> None:
    ranges = PlannedRanges(of="age", which="prefixes")
    columns = ranges.columns((SEX, AGE, PLACE))
    assert [column.name for column in columns] == ["sex", "place", "age_to"]
    assert columns[-1].labels == AGE.labels
    rows = range_rows(columns, "prefixes")
    assert list(rows) == list(product("fm", (1, 2, 3), (0, 1, 2)))
    assert rows_of(columns, ranges) == len(rows) == 18


def test_ranges_have_the_rows_that_rise() -> None:
    ranges = PlannedRanges(of="age", which="all")
    columns = ranges.columns((AGE, SEX))
    assert [column.name for column in columns] == ["sex", "age_from", "age_to"]
    rows = range_rows(columns, "all")
    ends = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    assert list(rows) == [(sex, *pair) for sex in "fm" for pair in ends]
    assert rows_of(columns, ranges) == len(rows) == 12
    assert rows_of((SEX, PLACE), None) == 6


def test_a_table_of_one_line_has_no_other_keys() -> None:
    assert list(range_rows(PlannedRanges(of="age", which="prefixes").columns((AGE,)), "prefixes")) == [(0,), (1,), (2,)]


def test_a_published_table_has_errors_of_its_own_in_every_row_and_cuts_intervals_at_zero() -> None:
    columns = PlannedRanges(of="age", which="prefixes").columns((SEX, AGE))
    value = np.array([-0.5, 3.25, 9, 100, 120, 130])
    table = table_of_counts(
        "ages",
        "Ages",
        columns,
        range_rows(columns, "prefixes"),
        "n",
        Count(count="rows"),
        value,
        value,
        np.tile([1.0, 2.0, 3.0], 2),
        reach=2.0,
        confidence=Fraction(95, 100),
        unreliable_above=Fraction(1, 2),
        unreliable_show="blank",
        whole=False,
    )
    (measure,) = table.measures
    assert table.cells == 6
    assert list(measure.status) == ["unreliable", "unreliable", "unreliable", "ok", "ok", "ok"]
    assert np.isnan(measure.value[:3]).all()
    assert np.isnan(measure.standard_error[:3]).all()
    assert measure.value[3:].tolist() == [100, 120, 130]
    assert measure.standard_error[3:].tolist() == [1, 2, 3]
    assert measure.margin[3:].tolist() == [2, 4, 6]
    assert (measure.places, measure.integer) == (None, False)
    columns, value = PlannedRanges(of="age", which="prefixes").columns((AGE,)), np.array([-0.5, 3.25, 9])
    shown = table_of_counts(
        "ages",
        "Ages",
        columns,
        range_rows(columns, "prefixes"),
        "n",
        Count(count="rows"),
        value,
        value,
        np.array([1.0, 2.0, 3.0]),
        reach=2.0,
        confidence=Fraction(95, 100),
        unreliable_above=None,
        unreliable_show="flag",
        whole=False,
    ).measures[0]
    assert shown.value.tolist() == [-0.5, 3.25, 9]
    assert shown.lower.tolist() == pytest.approx([0, 0, 3])
    assert shown.upper.tolist() == pytest.approx([1.5, 7.25, 15])
