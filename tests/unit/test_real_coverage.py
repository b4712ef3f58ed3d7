"""The bench that draws the releases of real data again and again: what it adds up, and that it sees what is too seldom."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bench.real_coverage import added_up
from dprelease.estimate import interval
from dprelease.measures import Possible
from dprelease.release.tuning.error_figures import Errors


def errors(size: str, compared: int, coverage: float | None) -> Errors:
    return Errors("t", 1, "m", size, compared, 3, 1.0, 1.0, 0.0, coverage, 1.0)


def test_classes_of_size_are_added_up() -> None:
    (found,) = added_up([errors("0", 1000, 0.94), errors("1-9", 3000, 0.96), errors("10-99", 50, None)])
    assert (found.numbers, found.held, found.blank) == (4000, 3820, 6)
    assert 0.5 < found.chance < 1


def test_intervals_that_hold_too_seldom_are_seen() -> None:
    (found,) = added_up([errors("0", 4000, 0.95 - 0.02)])
    assert found.chance < 1e-6


def test_the_median_width_of_a_table_of_small_counts_is_chance_and_not_the_rule_for_impossible_numbers() -> None:
    """Orders of the web shop: 494 cells, nearly half of them empty, noise of 49. Releases differ by more than rules do.

    Of one release the median width was 97.5, of a later one 103, with the very same noise. On the same draws the interval
    about the nearest possible number has the same median nearly always; it is longer where the other one was no
    interval at all, or one that is shorter than what is known.
    """
    releases, chance = 1000, np.random.default_rng(24)
    true = np.repeat([0.0, 3, 30, 300, 2000], [220, 233, 28, 10, 3])
    value = true + np.rint(chance.normal(0, 49.25, (releases, 494)))
    counts: Possible = (Fraction(0), None)
    ends = [interval(value, np.full(value.shape, 97.0), counts, nearest=each) for each in (False, True)]
    old, new = (high - low for low, high in ends)
    assert new[value >= 0] == pytest.approx(old[value >= 0])
    assert new[value < 0] == pytest.approx(97)
    medians = [np.median(each, axis=1) for each in (old, new)]
    decision = (Path(__file__).parents[2] / "docs/decisions/0135-coverage-of-the-real-releases.md").read_text("utf-8")
    for each, said in zip(medians, ("between 96 and 107", "between 97 and 107"), strict=True):
        told = [float(word) for word in said.split()[1::2]]
        assert np.quantile(each, [0.025, 0.975]) == pytest.approx(told, abs=1.0)
        assert said in " ".join(decision.split())
    assert np.mean(medians[1] - medians[0]) < 0.1
    assert (new.mean(), old.mean()) == pytest.approx((119.9, 102.5), abs=0.2)
    assert (old < 1e-9).mean() == pytest.approx(0.022, abs=0.002)  # of no length, which promised 95 %
