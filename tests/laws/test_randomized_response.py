"""Randomized answers by brute force: what one loses, what noise in series loses, and estimates that hold the truth."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from dprelease.catalog.table import Column, Source, Table
from dprelease.measures import Noisy
from dprelease.measures.randomized import PlannedRandomized, Randomized
from dprelease.noise import MECHANISMS
from dprelease.privacy.randomized import RandomizedResponse, UnaryBit
from dprelease.privacy.rounding import CONTEXT, real
from dprelease.publish.accounting.respondents import through_both
from dprelease.release.data.respond import bits_given, given

BIT = UnaryBit(question="ill", answer="flu")
TABLE = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=())
OF_95 = Fraction(95, 100)


class Every(Exception):
    """A source of entropy that was asked for more than is listed."""


def outcomes(draw: Callable[[Callable[[int], int]], Any]) -> dict[Any, Fraction]:
    """The exact law of what code draws through ``below``: every string of its answers, weighted by its probability."""
    found: dict[Any, Fraction] = defaultdict(Fraction)
    left: list[tuple[int, ...]] = [()]
    while left:
        told = left.pop()
        asked: list[int] = []

        def below(limit: int, told: tuple[int, ...] = told, asked: list[int] = asked) -> int:
            asked.append(limit)
            if len(asked) > len(told):
                raise Every
            return told[len(asked) - 1]

        try:
            result = draw(below)
        except Every:
            left += [(*told, each) for each in range(asked[-1])]
            continue
        found[result] += Fraction(1, math.prod(asked))
    return found


def ratio(laws: list[dict[Any, Fraction]]) -> Fraction:
    """The largest quotient of the probabilities of one outcome under two truths."""
    everything = set().union(*laws)
    assert all(sum(law.values()) == 1 for law in laws)
    return max(one[each] / other[each] for one, other in product(laws, laws) for each in everything)


@pytest.mark.parametrize("weights", [(3, 1), (2, 1), (7, 3)])
@pytest.mark.parametrize("answers", [2, 3, 5])
def test_an_answer_loses_ln_of_its_weights_and_the_code_draws_by_them(weights: tuple[int, int], answers: int) -> None:
    law = RandomizedResponse(weights=weights, choices=answers)
    laws = [outcomes(partial(given, true, law)) for true in range(answers)]

    assert ratio(laws) == Fraction(*weights)
    assert {(truth[at] == law.kept) for at, truth in enumerate(laws)} == {True}
    assert {truth[at] for own, truth in enumerate(laws) for at in range(answers) if at != own} == {law.other}
    over = CONTEXT.exp(real(law.epsilon)) / real(Fraction(*weights))
    assert 0 <= over - 1 < 1e-28


@pytest.mark.parametrize("weights", [(3, 1), (5, 2)])
@pytest.mark.parametrize("bits", [2, 3])
def test_bits_lose_it_together_and_a_bit_that_is_fair_for_all_is_seen(weights: tuple[int, int], bits: int) -> None:
    law = RandomizedResponse(weights=weights, choices=2, unary=BIT)
    laws = [outcomes(partial(bits_given, true, bits, law)) for true in range(bits)]

    assert ratio(laws) == Fraction(*weights)
    for true, at in product(range(bits), range(bits)):
        chance = sum(each for outcome, each in laws[true].items() if outcome[at])
        assert chance == (law.kept if true == at else law.other)


def test_weights_of_an_epsilon_are_those_of_the_page_and_never_lose_more() -> None:
    told = {1: 11_674_931_554, 2: 31_735_754_293, 4: 234_497_268_814}
    for epsilon, right in told.items():
        assert RandomizedResponse.weights_of(Fraction(epsilon)) == (right, 2**32)
        law = RandomizedResponse(weights=(right, 2**32), choices=2)
        assert float(epsilon) - 1e-9 < float(law.epsilon) <= epsilon
    with pytest.raises(ValueError, match="larger weight"):
        RandomizedResponse(weights=(1, 1), choices=2)


def test_noise_in_series_loses_what_the_rule_says_and_no_binary_law_more() -> None:
    worst = 0.0
    for local, central in product((0.1, 0.5, 1.0, 2.0, 4.0), repeat=2):
        most = float(through_both(Fraction(local), Fraction(central)))
        assert abs(math.tanh(most / 2) - math.tanh(local / 2) * math.tanh(central / 2)) < 1e-12
        for first, second in product(np.linspace(0.001, 0.999, 40), repeat=2):
            k = (first, second)  # the probability of answer 1 under either truth
            quotients = (k[0] / k[1], k[1] / k[0], (1 - k[0]) / (1 - k[1]), (1 - k[1]) / (1 - k[0]))
            if max(quotients) > math.exp(local) * (1 + 1e-12):
                continue
            told = [(1 + math.expm1(central) * each) for each in k]
            worst = max(worst, abs(math.log(told[0] / told[1])) - most)
        p = 1 / (1 + math.exp(-local))
        reached = math.log((p * math.exp(central) + 1 - p) / ((1 - p) * math.exp(central) + p))
        assert abs(reached - most) < 1e-12
    assert worst <= 1e-12
    assert round(float(through_both(Fraction(1), Fraction(1))), 3) == 0.434


def planned(law: RandomizedResponse) -> PlannedRandomized:
    (found,) = Randomized(randomized="c", key="0").planned("m", {}).values()
    column = Column(name="c", type="integer", keys=tuple(range(law.choices)), collected=law)
    settled = found.settled(TABLE.model_copy(update={"columns": (column,)}))
    assert isinstance(settled, PlannedRandomized)
    return settled


def simulated(
    law: RandomizedResponse, size: int, true: int, scales: tuple[int, int], runs: int, seed: int
) -> tuple[PlannedRandomized, list[Noisy]]:
    """So many runs of answers and of the noise of their counts, each a cell."""
    chance, measure = np.random.default_rng(seed), planned(law)
    told = chance.binomial(true, float(law.kept), runs) + chance.binomial(size - true, float(law.other), runs)
    table = TABLE.model_copy(
        update={"columns": (Column(name="c", type="integer", keys=tuple(range(law.choices)), collected=law),)}
    )
    kinds = measure.quantities(table)
    noisy = []
    for quantity, exact, scale in zip(kinds, (told, np.full(runs, size)), scales, strict=True):
        q = math.exp(-1 / scale)
        noise = chance.geometric(1 - q, runs) - chance.geometric(1 - q, runs)
        noisy.append(Noisy(quantity, exact + noise, MECHANISMS["discrete_laplace"].law(Fraction(scale))))
    return measure, noisy


CASES = [
    (RandomizedResponse(weights=(3, 1), choices=2), 1000, 200),
    (RandomizedResponse(weights=RandomizedResponse.weights_of(Fraction(1)), choices=10), 10_000, 1000),
    (RandomizedResponse(weights=RandomizedResponse.weights_of(Fraction(4)), choices=2), 60, 1),
    (RandomizedResponse(weights=RandomizedResponse.weights_of(Fraction(2)), choices=2, unary=BIT), 10_000, 0),
]


@pytest.mark.parametrize(("law", "size", "true"), CASES)
@pytest.mark.parametrize("scales", [(1, 1), (40, 20)])
def test_ten_thousand_estimates_have_no_bias_the_stated_variance_and_intervals_that_hold(
    law: RandomizedResponse, size: int, true: int, scales: tuple[int, int]
) -> None:
    runs = 10_000
    measure, noisy = simulated(law, size, true, scales, runs, seed=size + scales[0])
    found = measure.estimate(noisy, OF_95)
    p, q = float(law.kept), float(law.other)
    coins = true * p * (1 - p) + (size - true) * q * (1 - q)
    variance = (coins + noisy[0].law.variance + q**2 * noisy[1].law.variance) / (p - q) ** 2

    assert abs(found.value.mean() - true) < 6 * math.sqrt(variance / runs)  # 2e-9 of chance
    assert abs(found.value.var() / variance - 1) < 6 * math.sqrt(5 / runs)  # excess kurtosis of Laplace noise: 3
    assert found.ends is not None
    low, high = found.ends
    held = float(np.mean((low <= true) & (true <= high)))
    assert held >= 0.95 - 6 * math.sqrt(0.95 * 0.05 / runs)
    assert np.all(found.value - found.margin <= low + 1e-9)
    assert np.all(high <= found.value + found.margin + 1e-9)

    share = measure.model_copy(update={"show": "share"}).estimate(noisy, OF_95)
    assert share.ends is not None
    blank = np.isnan(share.value)
    held = float(np.mean(blank | ((share.ends[0] <= true / size) & (true / size <= share.ends[1]))))
    assert held >= 0.95 - 6 * math.sqrt(0.95 * 0.05 / runs)


def test_an_interval_of_the_noise_alone_would_not_hold_the_truth() -> None:
    law, size, true = CASES[0]
    measure, noisy = simulated(law, size, true, (1, 1), 10_000, seed=5)
    alone = sum(w * part.law.variance for w, part in zip(measure.weights([], None), noisy, strict=True)) ** 0.5
    assert np.mean(np.abs(measure.estimate(noisy, OF_95).value - true) < 3 * alone) < 0.5


@pytest.mark.parametrize(
    ("epsilon", "choices", "unary", "error"),
    [(1, 2, None, 95.952), (1, 10, None, 190.532), (1, 10, BIT, 191.903), (2, 100, None, 160.680), (4, 2, BIT, 27.572)],
)
def test_errors_are_those_of_the_table(epsilon: int, choices: int, unary: UnaryBit | None, error: float) -> None:
    law = RandomizedResponse(
        weights=RandomizedResponse.weights_of(Fraction(epsilon)), choices=choices if unary is None else 2, unary=unary
    )
    p, q = float(law.kept), float(law.other)
    assert abs(math.sqrt(10_000 * q * (1 - q)) / (p - q) - error) < 0.001


def test_a_column_of_one_answer_is_estimated_as_all_of_them() -> None:
    law = RandomizedResponse(weights=(3, 1), choices=4)
    for true, size in ((5000, 5000), (0, 5000)):
        measure, noisy = simulated(law, size, true, (1, 1), 4000, seed=true)
        value = measure.estimate(noisy, OF_95).value
        assert abs(value.mean() - true) < 6 * value.std() / math.sqrt(len(value))


def test_a_plan_promises_no_less_than_what_comes_out() -> None:
    law = CASES[0][0]
    for true in (0, 300, 1000):
        measure, noisy = simulated(law, 1000, true, (3, 3), 2000, seed=true)
        laws = [part.law for part in noisy]
        told = measure.expected([], laws, OF_95, 1000)
        assert told.standard_error is not None
        assert told.margin is not None
        assert measure.estimate(noisy, OF_95).value.std() < told.standard_error * 1.1
        assert np.quantile(np.abs(measure.estimate(noisy, OF_95).value - true), 0.95) < told.margin
