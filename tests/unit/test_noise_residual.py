"""The residual draw: contrasts in whole numbers, clamped so that they fit, noise on them, and back to rows."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from functools import reduce
from math import prod

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dprelease.catalog.residual import Residual, grain_for
from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact, open_exact
from dprelease.noise.mechanisms.residual import draw_residual

SILENT = Fraction(1, 64)  # noise other than 0 has a probability of exp(-2048)
Integers = npt.NDArray[np.int64]


@st.composite
def residuals(draw: st.DrawFn) -> Residual:
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    axes = tuple(at for at, n in enumerate(shape) if n > 1 and draw(st.booleans()))
    return Residual(shape=shape, axes=axes, grain=draw(st.integers(1, 2000)))


def query(residual: Residual) -> npt.NDArray[np.object_]:
    """The matrix, by its definition, in integers of any size."""
    factors = (
        n * np.eye(n, dtype=int) - np.ones((n, n), dtype=int) if at in residual.axes else np.eye(n, dtype=int)
        for at, n in enumerate(residual.shape)
    )
    return residual.grain * reduce(np.kron, factors, np.ones((1, 1), dtype=int)).astype(object)


@given(residuals(), st.data())
def test_without_noise_a_draw_is_the_kronecker_product_times_the_counts(
    residual: Residual, data: st.DataObject
) -> None:
    cells = prod(residual.shape)
    counts = data.draw(st.lists(st.integers(0, 10**6), min_size=cells, max_size=cells))
    drawn = draw_residual(Exact(np.array(counts, dtype=np.int64)), residual, SILENT)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == (query(residual) @ np.array(counts, dtype=object)).tolist()


@given(residuals(), st.data())
def test_contrasts_of_counts_of_any_size_are_clamped_so_that_no_number_overflows(
    residual: Residual, data: st.DataObject
) -> None:
    cells, most = prod(residual.shape), residual.most_rows
    sizes = st.one_of(st.integers(0, 2**63 - 1), st.sampled_from([0, most, 2**63 - 1]))
    counts = data.draw(st.lists(sizes, min_size=cells, max_size=cells))
    drawn = draw_residual(Exact(np.array(counts, dtype=np.int64)), residual, SILENT)
    expected = query(residual) @ np.array(counts, dtype=object)
    assert drawn.tolist() == [max(-(2**61), min(number, 2**61)) for number in expected.tolist()]


def test_the_clamp_is_as_wide_as_it_can_be() -> None:
    residual = Residual(shape=(3, 4), axes=(0, 1), grain=86)
    growth = max(sum(abs(entry) for entry in row) for row in query(residual).tolist())
    assert residual.most_rows * growth <= 2**61 < (residual.most_rows + 1) * growth


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_a_clamped_count_changes_by_no_more_and_to_the_same_side(count: int, change: int, most: int) -> None:
    assert 0 <= min(count + change, most) - min(count, most) <= change


@given(residuals(), st.data())
def test_a_draw_in_rows_is_the_table_centred_along_the_axes(residual: Residual, data: st.DataObject) -> None:
    cells = prod(residual.shape)
    counts = data.draw(st.lists(st.integers(0, 10**6), min_size=cells, max_size=cells))
    table = np.array(counts, dtype=np.int64)
    found = draw_residual(Exact(table), residual, SILENT) / residual.divisor
    centred = table.reshape(residual.shape).astype(np.float64)
    for axis in residual.axes:
        centred = centred - centred.mean(axis=axis, keepdims=True)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, centred.ravel(), rtol=0, atol=1e-8)


def test_the_exact_counts_stay_as_they_are() -> None:
    box = Exact(np.arange(12))
    draw_residual(box, Residual(shape=(3, 4), axes=(0, 1), grain=86), Fraction(1000))
    assert open_exact(box).tolist() == list(range(12))


def test_a_table_of_another_shape_is_refused_without_a_number() -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        draw_residual(Exact(np.arange(11)), Residual(shape=(3, 4), axes=(0,), grain=1), Fraction(10))
    assert not any(letter.isdigit() for letter in caught.value.summary + caught.value.detail)


def test_a_draw_takes_the_memory_of_two_tables_at_most() -> None:
    residual = Residual(shape=(1 << 16, 2, 8), axes=(1, 2), grain=64)
    counts = np.ones(prod(residual.shape), dtype=np.int64)
    box = Exact(counts)
    draw_residual(Exact(counts[:16]), Residual(shape=(2, 8), axes=(1,), grain=64), Fraction(5000))  # tables are made
    tracemalloc.start()
    draw_residual(box, residual, Fraction(5000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 2 * counts.nbytes + (4 << 20)  # and what one block of noise takes


def test_the_other_sampler_draws_residuals_too() -> None:
    pytest.importorskip("opendp")
    residual = Residual(shape=(2, 3), axes=(1,), grain=342)
    drawn = draw_residual(Exact(np.array([5, 1, 0, 2, 2, 2])), residual, SILENT, "opendp")
    assert drawn.tolist() == [342 * each for each in (9, -3, -6, 0, 0, 0)]


@pytest.mark.parametrize(
    ("shape", "axes", "grain"),
    [
        ((3, 1), (1,), 1),  # one key: the query is zero
        ((3, 0), (0,), 1),
        ((3, 4), (1, 0), 1),
        ((3, 4), (0, 0), 1),
        ((3, 4), (2,), 1),
        ((3, 4), (-1,), 1),
        ((3, 4), (0,), 0),
    ],
)
def test_contrasts_that_make_no_sense_are_refused(shape: tuple[int, ...], axes: tuple[int, ...], grain: int) -> None:
    with pytest.raises(ValidationError):
        Residual(shape=shape, axes=axes, grain=grain)


@given(st.lists(st.integers(2, 200), max_size=4))
def test_the_grain_is_the_smallest_with_a_divisor_of_1024(sizes: list[int]) -> None:
    shape, axes = tuple(sizes), tuple(range(len(sizes)))
    grain = grain_for(shape, axes)
    assert Residual(shape=shape, axes=axes, grain=grain).divisor >= 1024
    assert grain == 1 or Residual(shape=shape, axes=axes, grain=grain - 1).divisor < 1024
