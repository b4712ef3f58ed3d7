"""Records without names are linked as theory says; k-anonymity fails twice over; a release tells within its bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprelease.attacks.linkage import (
    DETAILS,
    DIAGNOSES,
    made_up_town,
    one_of_many_bound,
    one_possible,
    share_from_release,
    share_linked,
)
from dprelease.attacks.reconstruction import shares_from_random
from dprelease.attacks.subset_counts import expected_share


@pytest.fixture(scope="module")
def shares() -> dict[str, tuple[float, float, float]]:
    source = np.random.default_rng(3)
    town = made_up_town(source)
    return {name: share_linked(source, town, days) for name, days in DETAILS.items()}


def test_most_people_are_alone_by_their_date_of_birth_and_few_by_the_year(
    shares: dict[str, tuple[float, float, float]],
) -> None:
    alone, linked, theory = shares["date of birth"]

    assert 0.79 < alone < 0.83
    assert 0.88 < linked < 0.92
    for _, right, expected in shares.values():
        assert right == pytest.approx(expected, abs=6 * 0.5 / math.sqrt(37_000))
    assert theory > shares["month of birth"][2] > shares["year of birth"][2] > shares["five years"][2]
    assert shares["month of birth"][2] == pytest.approx(0.194, abs=0.01)


@pytest.mark.parametrize("k", [2, 5, 10, 20])
def test_two_k_anonymous_files_leave_one_diagnosis_as_often_as_theory_says(k: int) -> None:
    found, theory = one_possible(np.random.default_rng(k), k)

    assert found == pytest.approx(theory, abs=0.04)  # patients of a group are no independent trials
    told = {5: 0.724, 10: 0.195}  # on the page
    assert k not in told or round(theory, 3) == told[k]


def test_the_bound_on_one_of_many_is_that_of_randomized_response_and_of_two_for_two() -> None:
    """It is reached by k-ary randomized response, whose true answer has e^epsilon the weight of another one."""
    for epsilon in (0.5, 1.0, 3.0):
        assert one_of_many_bound(epsilon, 50) == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + 49))
        assert one_of_many_bound(epsilon, 2) == pytest.approx(1 / (1 + math.exp(-epsilon)))
    assert [math.ceil(1000 * one_of_many_bound(2 * each, DIAGNOSES)) / 1000 for each in (0.5, 1, 2)] == [
        0.053,
        0.132,
        0.528,
    ]


def test_a_release_tells_within_its_bound_and_one_without_privacy_would_not() -> None:
    town = made_up_town(np.random.default_rng(8), 4000)

    assert share_from_release(town, "0.5") < one_of_many_bound(1, DIAGNOSES) + 4 * math.sqrt(0.05 / 4000)
    assert share_from_release(town, "20") > 0.99


def test_several_errors_on_the_same_subsets_are_each_as_theory_says() -> None:
    errors = (0.25, 0.5, 1.0)
    found = shares_from_random(np.random.default_rng(2), 400, 1600, errors)

    for error, share in zip(errors, found, strict=True):
        assert share == pytest.approx(expected_share(4, error), abs=0.07)
