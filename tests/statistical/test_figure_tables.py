"""Coverage and width of intervals of counts, and the error of rounding, exactly: summed over the law of the noise.

The figures are those of ``docs/decisions/0078-figures-that-can-be-read.md`` and ``0079-rounding-and-signs.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column
from dprelease.estimate import PublishedMeasure, estimate
from dprelease.estimate.figures import SYMBOLS, FigureRules, ShareLimits
from dprelease.measures import Noisy
from dprelease.measures.count import Count
from dprelease.noise import MECHANISMS
from dprelease.publish.rounded import error_when_rounded
from tests.unit.test_rounded import rounded

Floats = npt.NDArray[np.float64]
COUNTS = (0, 1, 3, 10, 37, 100)
FIGURES = FigureRules(caution_above=Fraction(1, 3), shares=ShareLimits(), symbols=SYMBOLS)
pytestmark = pytest.mark.slow


def mass(name: str, scale: float) -> tuple[npt.NDArray[np.int64], Floats]:
    """The noise, and its probabilities; what is left out has less than 1e-15 in all."""
    draws = np.arange(-int(45 * scale) - 10, int(45 * scale) + 11)
    size = np.exp(-np.abs(draws) / scale) if name == "discrete_laplace" else np.exp(-(draws**2) / (2 * scale**2))
    return draws, size / size.sum()


def published(name: str, scale: Fraction, count: int, *, nearest: bool) -> tuple[PublishedMeasure, Floats]:
    """What is published of a true count, in every case that the noise can make, with their probabilities."""
    draws, chances = mass(name, float(scale))
    cells = Column(name="case", type="integer", keys=tuple(range(len(draws))))
    noisy = Noisy(Quantity(kind="rows"), draws + count, MECHANISMS[name].law(scale))
    table = estimate(
        "t", "", (cells,), {"n": Count(count="rows")}, {"n": [noisy]},
        confidence=Fraction(95, 100), nearest=nearest, unreliable_above=Fraction(2, 3), figures=FIGURES,
    )  # fmt: skip
    return table.measures[0], chances


@pytest.mark.parametrize(
    ("name", "scale", "nearest", "coverage", "width"),
    [
        ("discrete_gaussian", "19", False, (0.976, 0.952, 0.952, 0.952, 0.952, 0.952), (1.00, 1.03, 1.08, 1.25, 1.80, 2.00)),
        ("discrete_gaussian", "19", True, (0.976, 0.976, 0.976, 0.976, 0.976, 0.952), (1.20, 1.21, 1.24, 1.35, 1.80, 2.00)),
        ("discrete_laplace", "12.35", False, (0.976,), (1.00,)),
        ("discrete_laplace", "12.35", True, (0.976,), (1.16,)),
    ],
)  # fmt: skip
def test_the_table_of_coverage_and_width(
    name: str, scale: str, nearest: bool, coverage: tuple[float, ...], width: tuple[float, ...]
) -> None:
    """The decision's table: how often the interval holds the count, and how wide it is on the mean, in margins."""
    for count, held, wide in zip(COUNTS, coverage, width, strict=False):
        found, chances = published(name, Fraction(scale), count, nearest=nearest)
        assert found.margin.max() == 37
        inside = (found.lower <= count) & (count <= found.upper)
        assert float(chances[inside].sum()) == pytest.approx(held, abs=0.0006)
        assert float((chances * (found.upper - found.lower)).sum()) / 37 == pytest.approx(wide, abs=0.006)
        points = float(chances[found.upper == found.lower].sum())
        if nearest:
            assert points == 0
        elif count == 0:
            assert 0.02 < points < 0.03  # of empty cells 2 to 3 % had an interval of no length


@pytest.mark.parametrize(("value", "ends"), [(-74, (0, 37)), (-38, (0, 37)), (-19, (0, 37)), (0, (0, 37)), (32, (0, 69)), (42, (5, 79))])  # fmt: skip
def test_the_intervals_of_single_numbers(value: int, ends: tuple[int, int]) -> None:
    found, _ = published("discrete_gaussian", Fraction(19), 0, nearest=True)
    at = found.value.tolist().index(value)
    assert (found.lower[at], found.upper[at]) == ends
    assert found.status[at] == "unreliable"


def test_a_margin_too_small_does_not_cover() -> None:
    """The test has power: with a noise that is a fifth larger than its law says, 37 is too small."""
    _, chances = published("discrete_gaussian", Fraction("22.8"), 100, nearest=True)
    draws, _ = mass("discrete_gaussian", 22.8)
    assert float(chances[np.abs(draws) <= 37].sum()) < 0.91


def rounded_values(numbers: Floats, base: int) -> Floats:
    """The numbers as the package rounds them."""
    from dataclasses import replace

    from dprelease.estimate import statuses

    no = np.zeros(numbers.shape, dtype=bool)
    ones = np.ones(numbers.shape)
    whole = PublishedMeasure("n", None, numbers, ones, ones, numbers - 1, numbers + 1, statuses(no, no), 0, True)
    return np.asarray(rounded(replace(whole, held=True), Fraction(base)).value)


@pytest.mark.parametrize(
    ("deviation", "base", "nearest", "by_chance"), [(5, 5, 5.20, 5.39), (10, 10, 10.41, 10.79), (2, 5, 2.45, 2.83)]
)
def test_the_table_of_rounding_errors(deviation: int, base: int, nearest: float, by_chance: float) -> None:
    """The root of the mean squared error, over true counts of every distance from a multiple alike."""
    draws, chances = mass("discrete_gaussian", deviation)
    errors, drawn, biases = [], [], []
    for count in range(1000 * base, 1002 * base):  # ties to even repeat after two bases
        noisy = (draws + count).astype(float)
        found = rounded_values(noisy, base) - count
        errors.append(float((chances * found**2).sum()))
        biases.append(abs(float((chances * found).sum())))
        rest = np.mod(noisy, base)
        up = rest / base  # unbiased: up with the probability of the rest
        low = noisy - rest - count
        drawn.append(float((chances * ((1 - up) * low**2 + up * (low + base) ** 2)).sum()))
    root = math.sqrt(np.mean(errors))
    assert root == pytest.approx(nearest, abs=0.01)
    assert math.sqrt(np.mean(drawn)) == pytest.approx(by_chance, abs=0.01)
    said = error_when_rounded(np.array([math.sqrt(float((chances * draws**2).sum()))]), Fraction(base), Fraction(1))
    assert said[0] == pytest.approx(root, rel=0.003)
    limit = base / math.pi * math.exp(-2 * math.pi**2 * deviation**2 / base**2)
    assert max(biases) <= 2 * limit + 1e-3 * base


@pytest.mark.parametrize(("name", "worst"), [("discrete_gaussian", 0.002), ("discrete_laplace", 0.054)])
def test_the_bias_of_rounding_to_twice_the_noise(name: str, worst: float) -> None:
    """Base 101, an odd one, and noise of half of it: at most 0.2 and 5.4 % of the base."""
    base, deviation = 101, 50.5
    scale = deviation if name == "discrete_gaussian" else deviation / math.sqrt(2)
    draws, chances = mass(name, scale)
    biases = []
    for count in range(1000 * base, 1001 * base, 4):
        found = rounded_values((draws + count).astype(float), base) - count
        biases.append(abs(float((chances * found).sum())) / base)
    assert max(biases) == pytest.approx(worst, abs=0.0012 if name == "discrete_gaussian" else 0.002)
    plain = base / math.pi
    exact = {
        "discrete_gaussian": plain * math.exp(-2 * math.pi**2 * deviation**2 / base**2),
        "discrete_laplace": plain / (1 + 2 * math.pi**2 * deviation**2 / base**2),
    }
    assert max(biases) * base == pytest.approx(exact[name], rel=0.05)
