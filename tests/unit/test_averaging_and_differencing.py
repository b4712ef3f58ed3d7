"""Means of redrawn answers come near, committed ones stay; differences of totals tell, released ones within the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprelease.attacks.averaging import SCALE, demonstrate_averaging, distance_after
from dprelease.attacks.base import guess_bound
from dprelease.attacks.differencing import released_differences, share_from_rounded


@pytest.mark.parametrize("times", [100, 1000])
def test_the_mean_comes_near_as_theory_says(times: int) -> None:
    """The standard error of a mean of 400 distances is 2.6 %."""
    found = distance_after(np.random.default_rng(0), times, 400)

    assert found == pytest.approx(SCALE * math.sqrt(math.pi / times), rel=0.13)


def test_a_release_answers_once_and_is_refused_at_its_cap() -> None:
    rows = demonstrate_averaging(1).tables[1].rows

    assert [row[1] for row in rows] == [*["published", "exists"] * 3, "DPR-L100"]
    assert all(rows[at][2:] == rows[at + 1][2:] for at in (0, 2, 4))


def test_rounded_totals_tell_by_five_pairs_and_released_ones_within_the_bound() -> None:
    source = np.random.default_rng(9)

    assert 0.5 < share_from_rounded(source, 1) < 0.72  # expected: 0.6, of 400
    assert share_from_rounded(source, 5) == 1
    assert 0.5 < released_differences(source, "0.5") < guess_bound(0.5, 0) + 0.1  # four standard errors
