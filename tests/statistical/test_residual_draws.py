"""Is a residual draw what it is said to be: its mean the contrasts of the counts, its noise independent and of the
stated variance; in rows, once centred, of the covariance that reconciliation works with. With power.

A right draw fails once in 10^9 runs of a test at most, and a wrong one passes as seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import sqrt

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.catalog.residual import Residual
from dprelease.noise.exact import Exact
from dprelease.noise.mechanisms.residual import draw_residual

NODES = 60_000  # slices of one draw, each with the same counts
SHAPE = (3, 4)
CELLS = 12
SCALE = Fraction(1000)
LIMIT = float(stats.norm.isf(1e-9 / 2 / CELLS**2))  # of any of the numbers that are looked at
RESIDUAL = Residual(shape=(NODES, *SHAPE), axes=(1, 2), grain=86)
COUNTS = np.array([5, 0, 17, 3, 1, 1, 0, 40, 2, 9, 6, 1], dtype=np.int64)
Floats = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def noise() -> Floats:
    """The draw less the contrasts of the counts by their definition, one slice in each line."""
    drawn = draw_residual(Exact(np.tile(COUNTS, NODES)), RESIDUAL, SCALE)
    first, second = (n * np.eye(n, dtype=np.int64) - 1 for n in SHAPE)
    contrasts = 86 * np.kron(first, second) @ COUNTS
    return (drawn.reshape(NODES, CELLS) - contrasts).astype(np.float64)


def worst_mean(noise: Floats) -> float:
    """The mean of each number, in its standard deviations: the one that is farthest off."""
    return float(np.abs(noise.mean(axis=0)).max() / (float(SCALE) / sqrt(len(noise))))


def worst_covariance(noise: Floats, expected: Floats) -> float:
    """The same of variances and covariances; those of normal noise S have Var(S_ij) = (S_ii S_jj + S_ij^2) / slices."""
    found = noise.T @ noise / len(noise)
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / len(noise))
    return float((np.abs(found - expected) / spread).max())


def centred(values: Floats) -> Floats:
    table = values.reshape(-1, *SHAPE)
    for axis in (1, 2):
        table = table - table.mean(axis=axis, keepdims=True)
    return table.reshape(-1, CELLS)


def in_rows() -> Floats:
    """(scale / divisor)^2 (x) (I - 1 1^T / n)."""
    first, second = (np.eye(n) - 1 / n for n in SHAPE)
    whole: Floats = (float(SCALE) / RESIDUAL.divisor) ** 2 * np.kron(first, second).astype(np.float64)
    return whole


def test_the_mean_of_a_draw_is_the_contrasts_of_the_counts(noise: Floats) -> None:
    assert worst_mean(noise) < LIMIT


def test_the_noise_is_independent_from_number_to_number_and_of_the_stated_variance(noise: Floats) -> None:
    assert worst_covariance(noise, float(SCALE) ** 2 * np.eye(CELLS)) < LIMIT


def test_neighbouring_slices_have_nothing_in_common(noise: Floats) -> None:
    products = (noise[1:] * noise[:-1]).ravel()
    assert abs(products.sum()) / (float(SCALE) ** 2 * sqrt(len(products))) < LIMIT


def test_in_rows_the_covariance_is_the_one_that_reconciliation_works_with() -> None:
    drawn = draw_residual(Exact(np.tile(COUNTS, NODES)), RESIDUAL, SCALE)
    rows = centred(drawn / RESIDUAL.divisor)
    expected = centred(COUNTS.astype(np.float64))[0]
    covariance = in_rows()
    errors = np.abs(rows.mean(axis=0) - expected) / np.sqrt(np.diag(covariance) / NODES)
    assert errors.max() < LIMIT
    assert worst_covariance(rows - expected, covariance) < LIMIT


def _shared(noise: Floats) -> Floats:
    """A thirtieth of the noise, in standard deviations, is the same for all numbers of a slice."""
    return noise + noise[::-1, :1] * sqrt(1 / 30)


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (lambda noise: noise * 1.03, "covariance"),  # a scale 3 % wrong
        (_shared, "covariance"),
        (lambda noise: noise + 40, "mean"),  # a twenty-fifth of a row
        (lambda noise: noise + 86 * np.eye(CELLS)[0], "mean"),  # one contrast wrong by its smallest step
    ],
    ids=["scale", "shared", "shifted", "one"],
)
def test_power_a_draw_that_is_a_little_wrong_is_seen(
    noise: Floats, broken: Callable[[Floats], Floats], what: str
) -> None:
    wrong = broken(noise)
    found = worst_mean(wrong) if what == "mean" else worst_covariance(wrong, float(SCALE) ** 2 * np.eye(CELLS))
    assert found > LIMIT
