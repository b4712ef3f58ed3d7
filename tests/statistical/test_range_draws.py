"""Are drawn prefixes unbiased, and of the stated variance each and covariance together? With power.

A right draw fails once in 10^9 runs of a test at most, and a wrong one passes as seldom.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.catalog.factor import Factor
from dprelease.estimate.ranges import line_sums, variances_of
from dprelease.noise.exact import Exact
from dprelease.noise.mechanisms.factor import draw_factor
from dprelease.plan.lower.ranges import mirrored_factor, near_optimal

LINES, KEYS = 40_000, 6
SCALE = Fraction(5000)
COUNTS = np.array([5, 0, 17, 3, 1, 40], dtype=np.int64)
LIMIT = float(stats.norm.isf(1e-9 / 2 / 21**2))  # of any of the numbers that are looked at
HELD = tuple(map(tuple, near_optimal(KEYS, "all").tolist()))
FACTORS = {
    "root": Factor(shape=(LINES, KEYS), axis=1, kind="root", grain=2**14),
    "mirrored": mirrored_factor((LINES, KEYS), 1, "all"),
    "matrix": Factor(shape=(LINES, KEYS), axis=1, kind="matrix", grain=2**12, rows=HELD),
}
Floats = npt.NDArray[np.float64]


def adding(which: str) -> Floats:
    """The sums of a line as rows of 0 and 1."""
    if which == "prefixes":
        return np.tri(KEYS)
    ends = [(first, last) for first in range(KEYS) for last in range(first, KEYS)]
    return np.array([[float(first <= at <= last) for at in range(KEYS)] for first, last in ends])


def errors_of(factor: Factor, which: str) -> Floats:
    """Of many drawn lines with the same counts, one in each row."""
    drawn = draw_factor(Exact(np.tile(COUNTS, LINES)), factor, SCALE)
    found = line_sums(drawn, factor.shape, 1, factor, which)  # type: ignore[arg-type]  # one of the two
    return found.reshape(LINES, -1) - adding(which) @ COUNTS


def covariance(factor: Factor, which: str) -> Floats:
    """By its definition: v S F^-1 F'^-1 S'."""
    back = adding(which) @ np.linalg.inv(factor.matrix.astype(np.float64))
    return float(SCALE) ** 2 * back @ back.T


def worst_mean(errors: Floats, expected: Floats) -> float:
    return float((np.abs(errors.mean(axis=0)) / np.sqrt(np.diag(expected) / len(errors))).max())


def worst_covariance(errors: Floats, expected: Floats) -> float:
    """Those of normal noise S have Var(S_ij) = (S_ii S_jj + S_ij^2) / lines."""
    found = errors.T @ errors / len(errors)
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / len(errors))
    return float((np.abs(found - expected) / spread).max())


@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("which", ["prefixes", "all"])
def test_sums_are_unbiased_and_err_together_as_stated(kind: str, which: str) -> None:
    factor = FACTORS[kind]
    errors, expected = errors_of(factor, which), covariance(factor, which)
    assert worst_mean(errors, expected) < LIMIT
    assert worst_covariance(errors, expected) < LIMIT
    stated = variances_of(factor, KEYS, which) * float(SCALE) ** 2
    np.testing.assert_allclose(stated, np.diag(expected), rtol=1e-9)


@pytest.mark.parametrize("kind", FACTORS)
def test_noise_of_a_scale_that_is_five_percent_off_would_be_seen(kind: str) -> None:
    factor = FACTORS[kind]
    errors = errors_of(factor, "prefixes")
    for wrong in (0.95, 1.05):
        assert worst_covariance(errors * wrong, covariance(factor, "prefixes")) > LIMIT


def test_a_bias_of_a_tenth_of_a_standard_error_and_another_matrix_would_be_seen() -> None:
    factor, other = FACTORS["root"], FACTORS["matrix"]
    errors, expected = errors_of(factor, "prefixes"), covariance(factor, "prefixes")
    assert worst_mean(errors + 0.1 * sqrt(float(np.diag(expected).max())), expected) > LIMIT
    assert worst_covariance(errors, covariance(other, "prefixes")) > LIMIT


def test_the_noise_on_one_number_has_the_variance_that_was_planned() -> None:
    """Chi-square on 240,000 numbers: of independent normal noise, and not of one that is a few percent off."""
    factor = FACTORS["root"]
    drawn = draw_factor(Exact(np.zeros(LINES * KEYS, dtype=np.int64)), factor, SCALE)
    total, degrees = float((drawn.astype(np.float64) ** 2).sum()) / float(SCALE) ** 2, LINES * KEYS
    law = stats.chi2(degrees)
    low, high = law.ppf(5e-10), law.isf(5e-10)
    assert low < total < high
    for wrong in (0.95, 1.05):
        assert not low < total * wrong**2 < high
