"""The un-noised numbers that a comparison on stand-in data is made with, each against its definition."""

from __future__ import annotations

import ast
import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.catalog.residual import Residual
from dprelease.noise import Exact, ExactHistogram
from dprelease.noise.truth import true_numbers, true_quantile, true_residual

PACKAGE = Path(__file__).parents[2] / "dprelease"


def test_few_files_of_the_package_may_know_the_truth() -> None:
    users = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "truth" in text else ():
            names = [each.name for each in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module if isinstance(node, ast.ImportFrom) else ""
            if any(f"{module}.{name}".strip(".").startswith("dprelease.noise.truth") for name in names):
                users.add(path.relative_to(PACKAGE).as_posix())
    # one compares a plan with the truth on stand-in data, the others attack it on rows that belong to nobody
    assert users == {"release/tuning/utility.py", "audit/choices.py", "audit/draws.py", "audit/pairs.py"}


def test_what_is_handed_out_is_a_copy() -> None:
    box = Exact(np.array([3, -4]))
    true_numbers(box)[0] = 99
    assert true_numbers(box).tolist() == [3, -4]


@pytest.mark.parametrize(("shape", "axes"), [((4,), ()), ((3,), (0,)), ((2, 3, 4), (0, 2)), ((2, 3, 2), (0, 1, 2))])
def test_a_residual_is_the_product_of_its_matrices(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    counts = np.random.default_rng(1).integers(0, 1000, int(np.prod(shape)))
    matrix = np.ones((1, 1), dtype=np.int64)
    for at, size in enumerate(shape):
        own = size * np.eye(size, dtype=np.int64) - 1 if at in axes else np.eye(size, dtype=np.int64)
        matrix = np.kron(matrix, own)
    found = true_residual(Exact(counts), Residual(shape=shape, axes=axes, grain=7))
    assert found.tolist() == (7 * matrix @ counts).tolist()
    assert true_numbers(Exact(counts)).tolist() == counts.tolist()


@given(
    st.lists(st.lists(st.integers(-5, 5), max_size=7), min_size=1, max_size=4),
    st.fractions(0, 1, max_denominator=8),
    st.randoms(use_true_random=False),
)
def test_a_quantile_is_the_first_value_with_enough_at_or_below_it(
    cells: list[list[int]], at: Fraction, order: object
) -> None:
    entries = [(cell, value, 1) for cell, values in enumerate(cells) for value in values]
    entries += [(0, 4, 0)]  # an entry without rows is none
    order.shuffle(entries)  # type: ignore[attr-defined]
    box = ExactHistogram(len(cells), *(np.array(part, dtype=np.int64) for part in zip(*entries, strict=True)))
    for values, found in itertools.zip_longest(cells, true_quantile(box, at).tolist()):
        if not values:
            assert np.isnan(found)
            continue
        below, above = sum(v < found for v in values), sum(v > found for v in values)
        assert found in values
        assert below <= at * len(values)
        assert above <= (1 - at) * len(values)
        assert not any(sum(v <= w for v in values) >= max(1, at * len(values)) for w in values if w < found)
