"""Reconstruction finds what theory says from counts that are changed a little, and no more than the bound in a release."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from dprelease.attacks.base import guess_bound
from dprelease.attacks.reconstruction import CONTROLS, released_towns, share_from_control, share_from_random
from dprelease.attacks.subset_counts import (
    bits_by_least_squares,
    bits_by_shrinking,
    consistent_candidates,
    every_subset,
    expected_share,
    random_subsets,
    worst_answers,
)

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "why" / "reconstruction.md").read_text("utf-8").split())
TWELVE = every_subset(12)
BALANCED = np.arange(12) % 2


def mean_share(people: int, factor: int, error: float, runs: int) -> float:
    """Of several towns, each with a seed of its own."""
    found = [share_from_random(np.random.default_rng(seed), people, factor * people, error) for seed in range(runs)]
    return float(np.mean(found))


@pytest.mark.parametrize(("error", "left", "wrong"), [(0, 1, 0), (1, 6, 4), (2, 70, 8), (3, 924, 12)])
def test_the_worst_answers_leave_as_many_candidates_as_there_are_exchanges(error: int, left: int, wrong: int) -> None:
    """The truth and the other agree on 12 - 4 E people; half way between them are C(4 E, 2 E) candidates."""
    answers = worst_answers(TWELVE, BALANCED, error)
    found = consistent_candidates(TWELVE, answers, error)

    assert np.abs(answers - TWELVE @ BALANCED).max() <= error
    assert left == math.comb(4 * error, 2 * error) == len(found)
    assert np.abs(found - BALANCED).sum(axis=1).max() == wrong == 4 * error


@pytest.mark.parametrize("error", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_no_candidate_is_wrong_in_more_than_four_times_the_error(error: int, seed: int) -> None:
    source, subsets = np.random.default_rng(seed), every_subset(9)
    bits = source.integers(0, 2, 9)
    answers = subsets @ bits + source.integers(-error, error + 1, len(subsets))
    found = consistent_candidates(subsets, answers.astype(np.float64), error)

    brute = [
        each
        for each in subsets
        if all(abs(each @ who - told) <= error for who, told in zip(subsets, answers, strict=True))
    ]
    assert np.array_equal(found, brute)
    assert any(np.array_equal(each, bits) for each in found)
    assert np.abs(found - bits).sum(axis=1).max() <= 4 * error


@pytest.mark.parametrize(
    ("factor", "error"), [(4, 0.125), (4, 0.25), (4, 0.5), (4, 1.0), (4, 2.0), (20, 0.5), (20, 1.0)]
)
@pytest.mark.parametrize(("people", "runs"), [(50, 60), (200, 12)])
def test_random_subsets_give_the_share_of_the_formula(factor: int, error: float, people: int, runs: int) -> None:
    """Within four standard errors of so many independent bits, doubled for those of one town; and the same for each n."""
    expected = expected_share(factor, error)
    assert expected == pytest.approx(norm.cdf(math.sqrt(factor - 1) / (4 * error)), abs=1e-12)

    room = 4 * math.sqrt(2 * expected * (1 - expected) / (people * runs)) + 0.002
    assert room < 0.06
    assert abs(mean_share(people, factor, error, runs) - expected) < room


@pytest.mark.slow
@pytest.mark.parametrize(("people", "error", "runs"), [(1000, 0.25, 4), (1000, 1.0, 4), (2000, 0.5, 2), (2000, 2.0, 2)])
def test_the_share_is_the_same_for_many_people(people: int, error: float, runs: int) -> None:
    expected = expected_share(4, error)

    room = 4 * math.sqrt(2 * expected * (1 - expected) / (people * runs))
    assert abs(mean_share(people, 4, error, runs) - expected) < room < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("control", CONTROLS)
def test_classic_rules_leave_all_bits_of_two_thousand_people(control: str) -> None:
    assert share_from_control(np.random.default_rng(0), 2000, 8000, control) == 1


@pytest.mark.parametrize("control", CONTROLS)
def test_classic_rules_leave_98_percent_of_the_bits(control: str) -> None:
    found = [share_from_control(np.random.default_rng(seed), 200, 800, control) for seed in range(5)]

    assert min(found) >= 0.98


def test_rounding_moves_counts_and_suppression_hides_them() -> None:
    counts, source = np.array([3.0, 12.0, 48.0]), np.random.default_rng(0)

    assert CONTROLS["rounded to 5"](counts, source).tolist() == [5, 10, 50]
    assert {tuple(CONTROLS["randomly rounded to 5"](counts, source) % 5) for _ in range(9)} == {(0, 0, 0)}
    drawn = np.mean([CONTROLS["randomly rounded to 5"](counts, source) for _ in range(4000)], axis=0)
    assert drawn == pytest.approx(counts, abs=0.2)  # a standard error of 0.04
    assert np.isnan(CONTROLS["suppressed below 10"](counts, source)).tolist() == [True, False, False]


def test_too_few_answers_are_refused() -> None:
    with pytest.raises(ValueError, match="3 answers cannot determine 4 bits"):
        bits_by_least_squares(np.ones((4, 4)), np.array([1, 2, np.nan, 3]))


def test_least_squares_is_that_of_the_library() -> None:
    source = np.random.default_rng(5)
    subsets = random_subsets(source, 120, 30)
    answers = subsets @ source.integers(0, 2, 30) + source.normal(0, 2, 120)
    solved = np.linalg.lstsq(subsets, answers, rcond=None)[0]

    assert bits_by_least_squares(subsets, answers).tolist() == (solved > 0.5).astype(int).tolist()
    assert bits_by_shrinking(subsets, answers, 1e-6).tolist() == (solved > 0.5).astype(int).tolist()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-6), (4.0, 1e-6), (1.0, 0.2)])
def test_the_bound_is_the_best_of_all_tests_of_randomized_response(epsilon: float, delta: float) -> None:
    """The pair that reveals with delta and otherwise answers with odds e^epsilon reaches it: no smaller bound holds."""
    right = delta + (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))

    assert guess_bound(epsilon, delta) == pytest.approx((math.exp(epsilon) + delta) / (1 + math.exp(epsilon)))
    assert guess_bound(epsilon, delta) == pytest.approx(right)


def test_a_release_keeps_its_bits_and_the_same_attack_finds_them_without_noise() -> None:
    """500 bits: expected at epsilon 1 is 0.54, the bound is 0.73: eight standard errors of independent bits apart."""
    release = released_towns(np.random.default_rng(2), "1", towns=10)
    exact = np.einsum("tcp,tp->tc", release.subsets, release.bits)
    noise = release.answers - exact

    assert 0.999 < release.epsilon <= 1
    assert "an error of about 84 in a town of 50" in PAGE
    assert round(release.standard_error) == 84
    assert 0.9 < noise.std() / release.standard_error < 1.1  # 2,000 counts: six standard errors
    assert 0.4 < release.share_right < guess_bound(1, 1e-6)
    assert replace(release, answers=exact, standard_error=1e-3).share_right == 1


def test_a_budget_for_each_count_gives_the_bits_away() -> None:
    """An error of the square root of 2, as the formula has it, and in the demonstration's own words on the page."""
    alone = expected_share(4, math.sqrt(2) / math.sqrt(50))
    source = np.random.default_rng(3)
    bits, subsets = source.integers(0, 2, (20, 50)), random_subsets(source, 200, 50)
    answers = bits @ subsets.T + source.laplace(0, 1, (20, 200))
    found = np.mean([bits_by_least_squares(subsets, each) for each in answers] == bits)

    assert "at least 95 % of the secrets are found again" in PAGE
    assert alone > 0.98
    assert found > 0.95


def test_the_numbers_of_the_page_are_true() -> None:
    shares = {
        "95.8 % at c = 0.25": expected_share(4, 0.25),
        "80.7 % at c = 0.5": expected_share(4, 0.5),
        "58.6 % at c = 2": expected_share(4, 2),
        "99.8 % at c = 0.5": expected_share(36, 0.5),
    }
    for text, true in shares.items():
        assert text in PAGE
        assert abs(100 * true - float(text.split()[0])) < 0.05, text
    for epsilon, text in ((1, "at most 73.2 %"), (4, "it is 98.3 %")):
        assert text in PAGE
        assert 0 <= float(re.findall(r"[\d.]+", text)[0]) - 100 * guess_bound(epsilon, 1e-6) < 0.1
    assert "6 lists are left, and the worst of them is wrong about 4 people" in PAGE
    assert math.comb(4, 2) == 6
    assert "924 are left" in PAGE
    assert math.comb(12, 6) == 924
    assert f"all {len(TWELVE):,} groups of 12 people" in PAGE
