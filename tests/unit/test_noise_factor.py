"""The draw of a factor: a matrix times every line in whole numbers, clamped so that they fit, and noise on them."""

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

from dprelease.catalog.factor import Factor
from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact, ExactHistogram, open_exact
from dprelease.noise.mechanisms.factor import counted_classes, draw_factor
from dprelease.noise.truth import true_factor
from dprelease.plan.lower.ranges import mirrored_factor

SILENT = Fraction(1, 64)  # noise other than 0 has a probability of exp(-2048)


@st.composite
def factors(draw: st.DrawFn) -> Factor:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(shape) - 1))
    keys = shape[axis]
    kind = draw(st.sampled_from(["root", "matrix", "mirrored"]))
    if kind == "mirrored":
        return mirrored_factor(shape, axis, draw(st.sampled_from(["prefixes", "all"])))
    if kind == "root":
        return Factor(shape=shape, axis=axis, kind="root", grain=draw(st.integers(1024, 5000)))
    line = st.lists(st.integers(-5000, 5000), min_size=keys, max_size=keys).map(tuple)
    rows = tuple(draw(st.lists(line, min_size=keys, max_size=keys)))
    if not any(map(any, rows)):
        rows = ((1,) * keys,) * keys
    return Factor(shape=shape, axis=axis, kind="matrix", grain=4096, rows=rows)


def query(factor: Factor) -> npt.NDArray[np.object_]:
    """The matrix of the whole table, by its definition, in integers of any size."""
    parts = (
        factor.matrix.astype(object) if at == factor.axis else np.eye(n, dtype=int).astype(object)
        for at, n in enumerate(factor.shape)
    )
    return reduce(np.kron, parts, np.ones((1, 1), dtype=int).astype(object))


@given(factors(), st.data())
def test_without_noise_a_draw_is_the_kronecker_product_times_the_counts(factor: Factor, data: st.DataObject) -> None:
    cells = prod(factor.shape)
    counts = data.draw(st.lists(st.integers(0, 10**6), min_size=cells, max_size=cells))
    box = Exact(np.array(counts, dtype=np.int64))
    drawn = draw_factor(box, factor, SILENT)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == (query(factor) @ np.array(counts, dtype=object)).tolist()
    assert true_factor(box, factor).tolist() == drawn.tolist()


@pytest.mark.slow
@given(factors(), st.data())
def test_counts_of_any_size_are_clamped_so_that_no_number_overflows(factor: Factor, data: st.DataObject) -> None:
    cells, most = prod(factor.shape), factor.most_rows
    sizes = st.one_of(st.integers(0, 2**63 - 1), st.sampled_from([0, 2**63 - 1]))
    counts = data.draw(st.lists(sizes, min_size=cells, max_size=cells))
    box = Exact(np.array(counts, dtype=np.int64))
    drawn = draw_factor(box, factor, SILENT)
    expected = query(factor) @ np.array([min(count, most) for count in counts], dtype=object)
    assert drawn.tolist() == expected.tolist() == true_factor(box, factor).tolist()
    assert max(abs(number) for number in expected.tolist()) <= 2**61


@pytest.mark.parametrize(("shape", "axis"), [((3, 4), 1), ((4, 3), 0)])
def test_the_largest_counts_are_clamped_on_lines_side_by_side_too(shape: tuple[int, ...], axis: int) -> None:
    factor = Factor(shape=shape, axis=axis, kind="root", grain=1024)
    box = Exact(np.full(prod(shape), 2**63 - 1))
    expected = query(factor) @ np.full(prod(shape), factor.most_rows, dtype=object)
    assert draw_factor(box, factor, SILENT).tolist() == expected.tolist()


@given(factors())
def test_the_clamp_is_as_wide_as_it_can_be(factor: Factor) -> None:
    growth = max(sum(abs(entry) for entry in row) for row in factor.matrix.tolist())
    assert factor.growth == growth
    assert factor.most_rows * growth <= 2**61 < (factor.most_rows + 1) * growth


@pytest.mark.parametrize(("shape", "axis"), [((3, 700), 1), ((700, 3), 0), ((2, 300, 3), 1), ((1, 513), 1)])
@pytest.mark.parametrize("kind", ["root", "mirrored"])
def test_large_matrices_are_multiplied_in_blocks(kind: str, shape: tuple[int, ...], axis: int) -> None:
    factor = Factor(shape=shape, axis=axis, kind="root", grain=2**14)
    if kind == "mirrored":
        factor = mirrored_factor(shape, axis, "all")
    counts = np.arange(prod(shape), dtype=np.int64) * 7919 % 10_007
    drawn = draw_factor(Exact(counts), factor, SILENT)
    lines = np.moveaxis(counts.reshape(shape), axis, -1)
    expected = np.moveaxis(lines @ factor.matrix.astype(np.int64).T, -1, axis)
    assert np.array_equal(drawn, expected.reshape(-1))


def test_the_exact_counts_stay_as_they_are() -> None:
    box = Exact(np.arange(12))
    draw_factor(box, Factor(shape=(3, 4), axis=1, kind="root", grain=1024), Fraction(1000))
    assert open_exact(box).tolist() == list(range(12))


def test_a_table_of_another_shape_is_refused_without_a_number() -> None:
    with pytest.raises(BrokenPromiseError) as caught:
        draw_factor(Exact(np.arange(11)), Factor(shape=(3, 4), axis=1, kind="root", grain=1024), Fraction(10))
    assert not any(letter.isdigit() for letter in caught.value.summary + caught.value.detail)


def test_a_draw_takes_the_memory_of_its_answer_and_blocks() -> None:
    factor = Factor(shape=(1 << 16, 16), axis=1, kind="root", grain=2**14)
    counts = np.ones(prod(factor.shape), dtype=np.int64)
    draw_factor(Exact(counts[:16]), Factor(shape=(1, 16), axis=1, kind="root", grain=2**14), Fraction(50_000))
    tracemalloc.start()
    draw_factor(Exact(counts), factor, Fraction(50_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= counts.nbytes + (28 << 20)  # blocks of a million numbers: clipped, multiplied; and of noise


def test_the_other_sampler_draws_factors_too() -> None:
    pytest.importorskip("opendp")
    factor = Factor(shape=(2, 3), axis=1, kind="root", grain=1024)
    drawn = draw_factor(Exact(np.array([5, 1, 0, 2, 2, 2])), factor, SILENT, "opendp")
    assert drawn.tolist() == (query(factor) @ np.array([5, 1, 0, 2, 2, 2], dtype=object)).tolist()


def test_a_value_is_in_the_class_that_begins_at_it() -> None:
    cell, value, count = (
        np.array(each, dtype=np.int64) for each in ([0, 0, 0, 1, 1], [-3, 5, 7, 8, 99], [1, 2, 4, 8, 16])
    )
    counted = counted_classes(ExactHistogram(2, cell, value, count), (0, 5, 8))
    assert open_exact(counted).tolist() == [1, 6, 0, 0, 0, 24]
