"""The figures of a percentage are a hundred times those of the ratio, and its interval covers as often."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest

from dprelease.measures import Estimate, Measure, Noisy, expand_measures
from dprelease.measures.ratio import PlannedRatio, Ratio
from dprelease.measures.text import FormulaTerm
from dprelease.noise import MECHANISMS
from tests.unit.test_measures_ratio import ASKED, LEVEL, TABLE

SHARES = ("rate", "self")
NAMES = (*SHARES, "mean", "loose", "back", "over_mean")


def both(name: str) -> tuple[PlannedRatio, PlannedRatio]:
    asked = ASKED[name]
    assert isinstance(asked, Ratio)
    others: Mapping[str, Measure] = {**ASKED, name: asked.model_copy(update={"show": "percent"})}
    plain, percent = expand_measures(ASKED)[name], expand_measures(others)[name]
    assert isinstance(plain, PlannedRatio)
    assert isinstance(percent, PlannedRatio)
    return plain, percent


def noisy(measure: Measure, mechanism: str) -> list[Noisy]:
    """Large, small, equal, impossible and blank cells."""
    law = MECHANISMS[mechanism].law(Fraction(3))
    quantities = list(dict.fromkeys(measure.quantities(TABLE)))
    values = np.array([[30, 3, 100, 140, -5, 40], [100, 4, 100, 100, 50, 0], [900, 31, 7, 8, 9, 2]])
    made = {each: Noisy(each, values[at], law, f"s{at}") for at, each in enumerate(quantities)}
    return [made[each] for each in measure.quantities(TABLE)]


def same(plain: Estimate, percent: Estimate) -> None:
    for name in ("value", "standard_error", "margin"):
        one, other = getattr(plain, name), getattr(percent, name)
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
        np.testing.assert_allclose(other, 100 * one, rtol=1e-15)
    assert (plain.ends is None) == (percent.ends is None)
    for one, other in zip(plain.ends or (), percent.ends or (), strict=True):
        np.testing.assert_allclose(other, 100 * one, rtol=1e-15)


@pytest.mark.parametrize("mechanism", ["discrete_laplace", "discrete_gaussian"])
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_a_hundred_times_that_of_the_ratio(name: str, mechanism: str) -> None:
    plain, percent = both(name)
    fed = noisy(plain, mechanism)
    same(plain.estimate(fed, LEVEL), percent.estimate(fed, LEVEL))
    same(plain.estimate_tested(fed, LEVEL), percent.estimate_tested(fed, LEVEL))
    quantities, laws = [each.quantity for each in fed], [each.law for each in fed]
    for expect in ("expected", "expected_tested"):
        for count in (None, 1, 100):
            one = getattr(plain, expect)(quantities, laws, LEVEL, count)
            other = getattr(percent, expect)(quantities, laws, LEVEL, count)
            assert one.why_null == other.why_null
            if one.margin is not None:
                assert other.margin == pytest.approx(100 * one.margin, rel=1e-12)
                assert other.standard_error == pytest.approx(100 * one.standard_error, rel=1e-12)
    variances = [each.law.variance for each in fed]
    assert percent.error(quantities, variances, 40) == pytest.approx(100 * plain.error(quantities, variances, 40))
    weights = zip(plain.weights(quantities, 40), percent.weights(quantities, 40), strict=True)
    assert all(other == pytest.approx(10_000 * one) for one, other in weights)
    assert percent.bounds(quantities) == tuple(end if end is None else 100 * end for end in plain.bounds(quantities))


def test_a_share_in_percent_is_between_0_and_100_and_never_outside_of_its_interval() -> None:
    _, percent = both("rate")
    found = percent.estimate_tested(noisy(percent, "discrete_laplace"), LEVEL)
    assert found.ends is not None
    low, high = (each[:-1] for each in found.ends)
    value = found.value[:-1]
    assert np.isnan(found.value[-1])
    assert ((low >= 0) & (low <= value) & (value <= high) & (high <= 100)).all()
    assert (high > 1).any()


def test_a_stranger_works_out_the_percentage() -> None:
    for name in ("rate", "mean"):
        plain, percent = both(name)
        terms = [FormulaTerm(f"x{at}", each) for at, each in enumerate(plain.quantities(TABLE))]
        assert percent.formula(terms).text == f"100 * ({plain.formula(terms).text})"
        assert percent.formula(terms).blank == plain.formula(terms).blank


def test_intervals_in_percent_cover_as_often_as_they_say() -> None:
    """3 of 10, 30 of 100 and 970 of 1,000 rows, 4,000 draws each: below 92.5 % by chance is below 1e-11 at 95 %."""
    _, percent = both("rate")
    generator = np.random.default_rng(85)
    q = np.exp(-1 / 3)
    for part, whole in ((3, 10), (30, 100), (970, 1000)):
        noise = generator.geometric(1 - q, (2, 2, 4000)).astype(np.int64)
        law = MECHANISMS["discrete_laplace"].law(Fraction(3))
        first, second = percent.quantities(TABLE)
        fed = [
            Noisy(first, part + noise[0, 0] - noise[0, 1], law),
            Noisy(second, whole + noise[1, 0] - noise[1, 1], law),
        ]
        found = percent.estimate_tested(fed, LEVEL)
        assert found.ends is not None
        told = ~np.isnan(found.value)
        held = (found.ends[0] <= 100 * part / whole) & (100 * part / whole <= found.ends[1])
        assert told.mean() > 0.9
        assert held[told].mean() >= 0.925
