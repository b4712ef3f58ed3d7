"""Private key selection: the threshold is the least one, keys appear as often as they should, and coins are exact."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.noise import SELECTIONS, ExactKeys, Key, OptimalSelection
from dprelease.noise.mechanisms import threshold as module
from dprelease.noise.mechanisms.threshold import Coins, least_threshold, threshold_delta
from dprelease.plan.document.mechanisms import event_of
from dprelease.privacy.event import Approximate, Composed, DiscreteGaussian, DiscreteLaplace, Repeated, Sensitivity
from tests.reference_thresholds import partition_pi

Noise = Literal["laplace", "gaussian"]
NOISES: tuple[Noise, ...] = ("laplace", "gaussian")
SCALES = [Fraction(1, 2), Fraction(1), Fraction(3), Fraction(15, 2), Fraction(40)]


def box(counts: dict[tuple[Key, ...], int]) -> ExactKeys:
    return ExactKeys(tuple(counts), np.array(list(counts.values()), dtype=np.int64))


def appears(noise: Noise, scale: Fraction, threshold: int, units: int = 1) -> float:
    """P(units + noise >= threshold) by a plain sum over the lattice, from the far tail inwards."""
    b = float(scale)
    k = np.arange(-int(40 * b) - 40, int(40 * b) + 41, dtype=np.float64)
    weight = np.exp(-np.abs(k) / b) if noise == "laplace" else np.exp(-(k**2) / (2 * b * b))
    return float(weight[::-1][k[::-1] >= threshold - units].sum() / weight.sum())


def some(probability: float, keys: int) -> float:
    return -math.expm1(keys * math.log1p(-probability))


@pytest.mark.thin
@pytest.mark.parametrize("groups", [1, 4, 50])
@pytest.mark.parametrize("delta", [Fraction(1, 10**9), Fraction(1, 10**5), Fraction(1, 100), Fraction(2, 5)])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("noise", NOISES)
def test_the_threshold_is_the_least_one(noise: Noise, scale: Fraction, delta: Fraction, groups: int) -> None:
    least = least_threshold(noise, scale, delta, groups)
    assert some(appears(noise, scale, least), groups) <= float(delta) * (1 + 1e-9)
    assert some(appears(noise, scale, least - 1), groups) > float(delta) * (1 - 1e-9)
    assert threshold_delta(noise, scale, least, groups) <= delta
    assert float(threshold_delta(noise, scale, least, groups)) == pytest.approx(
        some(appears(noise, scale, least), groups), rel=1e-9
    )


@pytest.mark.parametrize("noise", NOISES)
def test_no_threshold_is_below_2(noise: Noise) -> None:
    """With 1 a key of one unit is more likely seen than not."""
    assert least_threshold(noise, Fraction(1), Fraction(99, 100), 1) == 2
    assert appears(noise, Fraction(1), 1) > 0.5
    assert appears(noise, Fraction(100), 1) > 0.5
    with pytest.raises(BrokenPromiseError):
        SELECTIONS[f"{noise}_threshold"].draw(box({("a",): 1}), Fraction(1), 1)


def test_a_wide_gaussian_is_bounded_by_the_continuous_one_at_most_a_step_off() -> None:
    for scale in (Fraction(201), Fraction(700)):
        for delta in (Fraction(1, 10**8), Fraction(1, 3)):
            least = least_threshold("gaussian", scale, delta, 3)
            assert some(appears("gaussian", scale, least), 3) <= float(delta)
            assert some(appears("gaussian", scale, least - 2), 3) > float(delta)


@pytest.mark.parametrize("scale", [Fraction(10**12), Fraction(1, 50)])
@pytest.mark.parametrize("noise", NOISES)
def test_extreme_scales_and_deltas_have_a_threshold(noise: Noise, scale: Fraction) -> None:
    for delta in (Fraction(1, 10**400), Fraction(1, 10**6), Fraction(1, 3)):
        least = least_threshold(noise, scale, delta, 7)
        assert threshold_delta(noise, scale, least, 7) <= delta
        assert least == 2 or threshold_delta(noise, scale, least - 1, 7) > delta


@pytest.mark.parametrize(
    "bad", [(Fraction(0), Fraction(1, 9), 1), (Fraction(1), Fraction(0), 1), (Fraction(1), Fraction(1, 9), 0)]
)
def test_a_threshold_without_a_meaning_is_refused(bad: tuple[Fraction, Fraction, int]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        least_threshold("laplace", *bad)


# ---------------------------------------------------------------- the draw


@pytest.mark.parametrize("noise", NOISES)
def test_a_key_is_released_at_the_threshold_and_not_one_below(noise: Noise, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Fraction]] = []

    def silent(kind: str, values: npt.NDArray[np.int64], scale: Fraction, sampler: str) -> npt.NDArray[np.int64]:
        asked.append((kind, scale))
        return values

    monkeypatch.setattr(module, "add_noise", silent)
    keys = box({("below",): 6, ("at",): 7, ("above",): 8, ("one",): 1})
    assert SELECTIONS[f"{noise}_threshold"].draw(keys, Fraction(3), 7) == (("above",), ("at",))
    assert asked == [(noise, Fraction(3))]


@pytest.mark.parametrize("noise", NOISES)
def test_keys_appear_as_often_as_their_counts_say(noise: Noise) -> None:
    """20,000 keys of each count in one draw, against the lattice, at six deviations."""
    scale, threshold, runs = Fraction(2), 6, 20_000
    counts: dict[tuple[Key, ...], int] = {(units, run): units for units in (1, 4, 5, 6, 9) for run in range(runs)}
    found = SELECTIONS[f"{noise}_threshold"].draw(box(counts), scale, threshold)
    for units in (1, 4, 5, 6, 9):
        p = appears(noise, scale, threshold, units)
        assert abs(sum(key[0] == units for key in found) - runs * p) < 6 * math.sqrt(runs * p * (1 - p))
    assert appears(noise, scale, threshold, threshold) > 0.5 > appears(noise, scale, threshold, threshold - 1)


def drawn_in_two_orders(keys: list[tuple[Key, ...]]) -> Iterable[tuple[tuple[Key, ...], ...]]:
    for held in (keys, keys[::-1]):
        yield SELECTIONS["laplace_threshold"].draw(box(dict.fromkeys(held, 10**6)), Fraction(1), 100)
        yield OptimalSelection().draw(box(dict.fromkeys(held, 10**6)), Fraction(1), Fraction(1, 100))


def test_the_order_is_that_of_the_text_whatever_the_order_of_the_box() -> None:
    numbers: list[tuple[Key, ...]] = [(n, True) for n in (10, 9, -1, 100)]
    assert set(drawn_in_two_orders(numbers)) == {((-1, True), (10, True), (100, True), (9, True))}
    texts: list[tuple[Key, ...]] = [("b", "x"), ("a", "z"), ("", ""), ("a", "é")]
    assert set(drawn_in_two_orders(texts)) == {(("", ""), ("a", "z"), ("a", "é"), ("b", "x"))}


def test_nothing_to_select_from_is_nothing_selected() -> None:
    assert [name for name, selection in SELECTIONS.items() if selection.draw(box({}), Fraction(1), 5)] == []
    assert OptimalSelection().draw(box({}), Fraction(1), Fraction(1, 100)) == ()


def test_the_events() -> None:
    held, delta = Sensitivity.of_shifts((1, 1)), Fraction(1, 1000)
    unseen = Approximate(epsilon=Fraction(0), delta=delta)
    scale = Fraction(4)
    assert {name: event_of(name, scale, held, delta=delta) for name in SELECTIONS} == {
        "laplace_threshold": Composed(events=(DiscreteLaplace(scale=scale, sensitivity=held), unseen)),
        "gaussian_threshold": Composed(events=(DiscreteGaussian(scale=scale, sensitivity=held), unseen)),
    }
    one = Approximate(epsilon=Fraction(1), delta=delta)
    for keys in (1, 3, 6):
        found = event_of("optimal_selection", Fraction(1), Sensitivity.of_shifts((1,) * keys), delta=keys * delta)
        assert found == (one if keys == 1 else Repeated(event=one, count=keys))


# ---------------------------------------------------------------- the optimal coin

COINS = [
    (Fraction(1), Fraction(1, 10**6)),
    (Fraction(1, 10), Fraction(1, 1000)),
    (Fraction(0), Fraction(1, 7)),
    (Fraction(5), Fraction(9, 10)),
    (Fraction(60), Fraction(1, 10**30)),
]


@pytest.mark.parametrize(("epsilon", "delta"), COINS)
def test_a_coin_is_between_its_bounds(epsilon: Fraction, delta: Fraction) -> None:
    coins, half = Coins(epsilon, delta), OptimalSelection().half_point(epsilon, delta)
    for bits in (1, 64, 192):
        for count in (0, 1, 2, half - 1, half, half + 1, 2 * half, 3 * half):
            low, high, fine = coins.chance(count, bits)
            exact = partition_pi(epsilon, delta, count)
            assert Fraction(low, 1 << fine) - Fraction(1, 10**28) <= exact
            assert exact <= Fraction(high, 1 << fine) + Fraction(1, 10**28)
            assert high - low < 1 << fine - bits


def test_a_coin_draws_on_where_its_digits_do_not_decide() -> None:
    coins = Coins(Fraction(1), Fraction(3, 10))  # pi(1) = 0.3
    assert [coins.certain(digits, 2, 1) for digits in range(4)] == [True, None, False, False]
    asked: list[int] = []
    answers = iter([0, 1 << 126, 0, 0])

    def below(limit: int) -> int:
        asked.append(limit)
        return next(answers)

    assert coins.toss(below, 1, bits=1) is True  # 0.0 01... is 0.125
    assert coins.toss(below, 1, bits=1) is True  # 0.0 000...
    assert asked == [2, 1 << 128] * 2
    assert coins.toss(lambda limit: 0, 0) is False
    assert coins.toss(lambda limit: limit - 1, 10**6) is True


@pytest.mark.parametrize(("epsilon", "delta"), COINS)
def test_coins_of_neighbouring_counts_are_within_epsilon_and_delta(epsilon: Fraction, delta: Fraction) -> None:
    """Both answers, both directions, from the outer bounds; and somewhere delta is reached."""
    coins, half = Coins(epsilon, delta), OptimalSelection().half_point(epsilon, delta)
    grow, nearest = math.exp(epsilon), math.inf
    bounds = [coins.chance(count, 128) for count in range(2 * half + 2)]
    for (low, _, fine), (_, high, _) in pairwise(bounds):
        p, q = float(Fraction(low, 1 << fine)), float(Fraction(high, 1 << fine))
        gaps = [q - grow * p, p - grow * q, (1 - p) - grow * (1 - q), (1 - q) - grow * (1 - p)]
        assert max(gaps) <= float(delta) * (1 + 1e-9) + 1e-9 * grow * min(p, 1e-3)
        nearest = min(nearest, float(delta) - max(gaps))
    assert nearest <= 1e-9 * float(delta)


@pytest.mark.parametrize(("epsilon", "delta"), COINS)
def test_the_half_point_of_a_coin(epsilon: Fraction, delta: Fraction) -> None:
    half = OptimalSelection().half_point(epsilon, delta)
    assert partition_pi(epsilon, delta, half) >= Fraction(1, 2) > partition_pi(epsilon, delta, half - 1)


def test_the_optimal_selection_appears_as_often_as_it_should_and_a_shift_moves_it() -> None:
    epsilon, delta, runs = Fraction(1), Fraction(1, 100), 20_000
    for shift in (0, 4):
        counts: dict[tuple[Key, ...], int] = {(units, run): units for units in (1, 4, 5, 9) for run in range(runs)}
        found = OptimalSelection().draw(box(counts), epsilon, delta, shift)
        for units in (1, 4, 5, 9):
            p = float(partition_pi(epsilon, delta, max(0, units - shift)))
            assert abs(sum(key[0] == units for key in found) - runs * p) <= 6 * math.sqrt(runs * p * (1 - p))


def test_the_optimal_selection_is_better_than_thresholds_for_one_key() -> None:
    """At the same epsilon 1 and delta 1e-6: 18 units against 19 for Laplace noise, whose cost is (1, delta) too."""
    delta = Fraction(1, 10**6)
    optimal = OptimalSelection().half_point(Fraction(1), delta)
    laplace = least_threshold("laplace", Fraction(1), delta, 1)
    assert optimal <= laplace


@pytest.mark.parametrize(
    "bad", [(Fraction(-1), Fraction(1, 9), 0), (Fraction(1), Fraction(0), 0), (Fraction(1), Fraction(1, 9), -1)]
)
def test_an_optimal_selection_without_a_meaning_is_refused(bad: tuple[Fraction, Fraction, int]) -> None:
    with pytest.raises(BrokenPromiseError):
        OptimalSelection().draw(box({("a",): 1}), *bad)
