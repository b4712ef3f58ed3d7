"""What native noise must satisfy, as checks of any set of modules: the real ones, and ones with a planted fault."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from math import log
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import mpmath
import numpy as np
import pytest

from tests.unit import native_oracle as oracle
from tests.unit.native_oracle import Again, Listed, Tied, Watched

SMALL = [
    ("gaussian", Fraction(1)),
    ("gaussian", Fraction(1, 2)),
    ("gaussian", Fraction(104, 411)),
    ("laplace", Fraction(1)),
    ("laplace", Fraction(7, 3)),
]


def law_of(kit: Any, kind: str, scale: Fraction, both: bool = True) -> Any:
    law = getattr(kit.cumulative.Decay, kind)(scale)
    return kit.cumulative.Decay(law.power, law.rate, both)


def drawn(sampler: Any, kit: Any, words: list[int], source: Any) -> list[int]:
    out = np.empty(len(words), dtype=np.int64)
    sampler.fill(np.array(words, dtype=np.uint64), out, source, kit.lookup.Scratch(len(words)))
    return [int(value) for value in out]


def one(sampler: Any, kit: Any, word: int, source: Any) -> int:
    return drawn(sampler, kit, [word], source)[0]


def outcome(call: Callable[..., Any], *given: Any) -> Any:
    try:
        return call(*given)
    except Tied:
        return "tied"
    except Again:
        return "again"


# ---------------------------------------------------------------- distribution functions


def thresholds_are_those_of_many_digits(kit: Any) -> None:
    for (kind, scale), both in product(SMALL, (True, False)):
        found = kit.cumulative.cumulative(law_of(kit, kind, scale, both), 64)
        for index, (low, high) in enumerate(zip(found.low, found.high, strict=True)):
            exact = oracle.digits_before(kind, scale, found.first + index, 64, both)
            assert low == exact
            assert high == exact + (both or index > 0)
        first, floors = kit.cumulative.separated(law_of(kit, kind, scale, both), 64)
        assert floors == [oracle.digits_before(kind, scale, first + i, 64, both) for i in range(len(floors))]
        assert floors[0] == 0 < floors[1]
        assert floors[-2] < floors[-1] == 2**64 - 1


def bounds_hold_with_few_guard_digits(kit: Any) -> None:
    """Every rounding goes outwards: with hardly a digit to spare the bounds are wide, and still bounds."""
    for (kind, scale), both in product(SMALL, (True, False)):
        law = law_of(kit, kind, scale, both)
        for bits in (16, 17, 19, 24, 60):
            found = kit.cumulative.cumulative(law, bits, -15)
            for index, (low, high) in enumerate(zip(found.low, found.high, strict=True)):
                with mpmath.workdps(oracle.DIGITS):
                    exact = oracle.before(kind, scale, found.first + index, both) * 2**bits
                assert low <= exact <= high


# ---------------------------------------------------------------- one table


def every_word_has_its_exact_value(kit: Any) -> None:
    """All words of 12 digits: the value is that of all reals which begin so, or further digits are asked for."""
    for kind, scale in SMALL:
        sampler = kit.lookup.Lookup(law_of(kit, kind, scale), bits=12, more=4)
        edges = {value: oracle.digits_before(kind, scale, value, 12) for value in range(-200, 200)}
        rising, masses = list(edges.values()), Counter[Any]()
        for word in range(1 << 12):
            found = outcome(one, sampler, kit, word, Listed())
            passed = bisect_left(rising, word)
            assert found == ("tied" if rising[passed] == word else passed - 201)
            masses[found] += 1
        for value in range(-200, 199):
            assert masses[value] == max(0, edges[value + 1] - edges[value] - 1)
        assert masses["tied"] == len({edge for edge in edges.values() if edge < 1 << 12})


def further_digits_have_their_exact_value(kit: Any) -> None:
    """All strings of 12 and 4 digits that begin with a tie, and so on: the mass of every value is the exact one."""
    for kind, scale in SMALL:
        sampler = kit.lookup.Lookup(law_of(kit, kind, scale), bits=8, more=6)
        masses: Counter[Any] = Counter()
        for word in range(1 << 8):
            first = outcome(one, sampler, kit, word, Listed())
            if first != "tied":
                masses[first] += 1 << 6
                continue
            for more in range(1 << 6):
                masses[outcome(one, sampler, kit, word, Listed(digits=[more]))] += 1
        edges = {value: oracle.digits_before(kind, scale, value, 14) for value in range(-200, 200)}
        for value in range(-199, 199):
            assert Fraction(masses[value], 1 << 14) == Fraction(max(0, edges[value + 1] - edges[value] - 1), 1 << 14)


def ties_are_broken_by_as_many_digits_as_it_takes(kit: Any) -> None:
    for kind, scale in SMALL:
        sampler = kit.lookup.Lookup(law_of(kit, kind, scale))
        for edge, ties in product((-1, 0, 1), (1, 2, 10)):
            bits = 64 * ties
            digits = oracle.digits_before(kind, scale, edge, bits)
            parts = [digits >> bits - 64 * (turn + 1) & (1 << 64) - 1 for turn in range(ties)]
            for last, value in ((0, edge - 1), ((1 << 64) - 1, edge)):
                source = Listed(digits=[*parts[1:], last])
                assert drawn(sampler, kit, [parts[0]], source) == [value]
                assert source.asked == ties


def tails_go_on(kit: Any) -> None:
    """Words of zeros or ones alone lie where no threshold is tabulated."""
    for kind, scale in SMALL:
        sampler = kit.lookup.Lookup(law_of(kit, kind, scale))
        for ties in (1, 2, 10):
            half, ones, bits = 1 << 63, (1 << 64) - 1, 64 * ties + 64
            low = outcome(one, sampler, kit, 0, Listed(digits=[*[0] * (ties - 1), half]))
            high = outcome(one, sampler, kit, ones, Listed(digits=[*[ones] * (ties - 1), half]))
            assert low == outcome(oracle.value_at, kind, scale, half, bits)
            assert high == outcome(oracle.value_at, kind, scale, (1 << bits) - half, bits)


def a_vector_is_its_words_one_by_one(kit: Any) -> None:
    """Buckets with one threshold, with several and with none, and ties, all in one block."""
    for kind, scale in (("gaussian", Fraction(1)), ("laplace", Fraction(7, 3)), ("gaussian", Fraction(12))):
        sampler = kit.lookup.Lookup(law_of(kit, kind, scale), bits=16, more=16)
        words = list(range(0, 1 << 16, 97)) + list(range(60)) + list(range((1 << 16) - 60, 1 << 16))
        together = drawn(sampler, kit, words, Listed(digits=[0x5555] * len(words)))
        assert together == [drawn(sampler, kit, [word], Listed(digits=[0x5555] * 3))[0] for word in words]
        edges = np.array([oracle.digits_before(kind, scale, value, 16) for value in range(-300, 300)])
        for word, value in zip(words, together, strict=True):
            passed = int(np.searchsorted(edges, word, side="left"))
            assert edges[min(passed, len(edges) - 1)] == word or value == passed - 1 - 300


# ---------------------------------------------------------------- blocks

BLOCKED = [
    ("gaussian", Fraction(20)),
    ("gaussian", Fraction(31, 7)),
    ("laplace", Fraction(20)),
    ("laplace", Fraction(5)),
]


def every_pair_of_words_has_its_exact_value(kit: Any) -> None:
    """All pairs of a block's word and a second one: as many accept, refuse and stay open as reals say."""
    width, bits, coin = 2, 5, 4
    for kind, scale in BLOCKED[1:3]:
        sampler = kit.blocks.BlockTable(law_of(kit, kind, scale), width, bits=bits, coin=coin)
        found: Counter[Any] = Counter()
        for block, second in product(range(1 << bits), range(1 << 1 + width + coin)):
            found[_one(kit, sampler, block, second)] += 1
        expected: Counter[Any] = Counter()
        for y in range(100):
            often = _decided(kind, scale / (1 << width), y, bits)
            for offset, side in product(range(1 << width), (False, True)):
                value = ~(4 * y + offset) if side else 4 * y + offset
                yes, no = _coins(kind, scale, value, 4 * y, coin)
                expected[value] += often * yes
                expected["again"] += often * no
        expected["tied"] = (1 << bits + 1 + width + coin) - sum(expected.values())
        assert +found == +expected


def _one(kit: Any, sampler: Any, block: int, second: int) -> Any:
    out = np.empty(1, dtype=np.int64)

    def draw() -> int:
        sampler.fill(out, Listed(words=[[block], [second]]), kit.lookup.Scratch(1))
        return int(out[0])

    return outcome(draw)


def _decided(kind: str, scale: Fraction, value: int, bits: int) -> int:
    edges = [oracle.digits_before(kind, scale, each, bits, both=False) for each in (value, value + 1)]
    return max(0, edges[1] - edges[0] - 1)


def _coins(kind: str, scale: Fraction, value: int, start: int, coin: int) -> tuple[int, int]:
    """How many of 2^coin intervals lie below, and above, the probability to keep the value."""
    rate = oracle.exponent(kind, scale, value) - oracle.exponent(kind, scale, start)
    with mpmath.workdps(60):
        chance = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator) * 2**coin
        return int(mpmath.floor(chance)), (1 << coin) - int(mpmath.ceil(chance))


def refused_draws_are_drawn_again(kit: Any) -> None:
    """Three draws, of which the first is refused twice and the last once; every other keeps its place."""
    sampler = kit.blocks.BlockTable(law_of(kit, "laplace", Fraction(5)), 2, bits=6, coin=5)
    refused = 31 << 3 | 3 << 1  # offset 3, and a coin of 31 / 32
    kept = [offset << 1 | side for offset, side in ((0, 0), (1, 1), (2, 0))]
    out = np.empty(3, dtype=np.int64)
    words = [[1, 1, 1], [refused, kept[0], refused], [1, 1], [refused, kept[1]], [1], [kept[2]]]
    sampler.fill(out, Listed(words=words), kit.lookup.Scratch(3))
    assert out.tolist() == [2, 0, -2]


def draws_of_any_size_have_their_exact_value(kit: Any) -> None:
    """One at a time, with digits for offset, sign and coin: the values and refusals that whole blocks have."""
    for kind, scale in BLOCKED:
        sampler = kit.blocks.BlockTable(law_of(kit, kind, scale), 2, bits=6, coin=5)
        for offset, side, coin in product(range(4), (0, 1), range(32)):
            second = coin << 3 | offset << 1 | side
            source = Listed(words=[[20]], digits=[offset, side, coin])
            found = outcome(sampler.integer, source, kit.lookup.Scratch(1))
            assert found == _one(kit, sampler, 20, second)
    big = kit.blocks.BlockTable(kit.cumulative.Decay.laplace(Fraction(2**200)), 192)
    source = Listed(words=[[1 << 63]], digits=[5, 1, 0])
    value = big.integer(source, kit.lookup.Scratch(1))
    assert ~value == (int(256 * log(2)) << 192) + 5  # the block where 1 - exp(-y / 256) passes one half


def coins_are_tossed_to_the_last_digit(kit: Any) -> None:
    for (kind, scale), value in product(BLOCKED, (7, -8, 1, -4)):
        sampler = kit.blocks.BlockTable(law_of(kit, kind, scale), 2)
        start = (value if value >= 0 else ~value) // 4 * 4
        rate = oracle.exponent(kind, scale, value) - oracle.exponent(kind, scale, start)
        for ties in (1, 2, 10):
            bits = 61 + 64 * (ties - 1)
            with mpmath.workdps(oracle.DIGITS):
                digits = int(mpmath.floor(mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator) * 2**bits))
            parts = [digits >> 64 * turn & (1 << 64) - 1 for turn in range(ties - 2, -1, -1)]
            for last, kept in ((0, True), ((1 << 64) - 1, False)):
                source = Listed(digits=[*parts, last])
                assert sampler.accepts(value, digits >> bits - 61, source) is kept
                assert source.asked == ties


def a_quick_yes_is_a_true_yes(kit: Any) -> None:
    """Whatever is kept without a closer look would be kept after one, at the largest coin that is."""
    for kind, scale, width in (
        ("gaussian", Fraction(3000), 2),
        ("laplace", Fraction(2**20), 11),
        ("gaussian", Fraction(2**40), 30),
    ):
        law = law_of(kit, kind, scale)
        sampler = kit.blocks.BlockTable(law, width)
        rng = np.random.default_rng(5)
        for y, offset, side in zip(
            [0, 1, 5, 700, sampler._table.size - 1, sampler._table.size, sampler._table.size + 9] * 8,
            rng.integers(0, 1 << width, 56).tolist(),
            rng.integers(0, 2, 56).tolist(),
            strict=True,
        ):
            value = -((y << width) + offset + 1) if side else (y << width) + offset
            rate = oracle.exponent(kind, scale, value) - oracle.exponent(kind, scale, y << width)
            coin = 63 - width
            slope = int(sampler._slopes[min(y, len(sampler._slopes) - 1)])
            most = (1 << coin) - slope * ((offset >> max(0, width - 10)) + 1)
            with mpmath.workdps(60):
                assert most <= mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator) * 2**coin
            if most > 0:  # the largest coin that is kept at once, and the first that is looked at
                for digits, looks in ((most - 1, 0), (most, 1)):
                    looked = sampler.accepts = Mock(return_value=True)
                    sampler._table.fill = partial(_filled, y)
                    out = np.empty(1, dtype=np.int64)
                    second = digits << width + 1 | offset << 1 | side
                    sampler.fill(out, Listed(words=[[0], [second]]), kit.lookup.Scratch(1))
                    assert out.tolist() == [value]
                    assert looked.call_count == looks
                    del sampler.accepts, sampler._table.fill


def _filled(value: int, words: Any, out: Any, *_: Any) -> None:
    assert len(words) == len(out)
    out.fill(value)


# ---------------------------------------------------------------- whole draws


def every_word_is_used_once_and_wiped(kit: Any) -> None:
    size = 2 * kit.lookup.BLOCK + 17
    for scale, least in ((Fraction(30), 1), (Fraction(10**6), 2)):
        watched = Watched(kit.source.System())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kit.native, "System", lambda: watched)  # noqa: B023 - called at once
            out = kit.native.discrete_gaussian(scale, size)
        assert sum(map(len, watched.given)) >= least * size
        assert not any(words.any() for words in watched.given)
        handed = np.concatenate(watched.first)
        assert len(np.unique(handed)) == len(handed)
        if least == 1:  # the values are those of the words, in their order
            again = drawn(kit.lookup.Lookup(law_of(kit, "gaussian", scale)), kit, handed.tolist(), Listed())
            assert out.tolist() == again


def sums_saturate_and_keep_their_place(kit: Any) -> None:
    limits = np.iinfo(np.int64)
    values = np.arange(kit.lookup.BLOCK + 5, dtype=np.int64) * 1000
    noisy = kit.native.add_native("laplace", values, Fraction(1, 100))
    assert noisy.tolist() == values.tolist()
    edge = np.array([limits.max, limits.min, 0] * 200, dtype=np.int64)
    for scale in (Fraction(1000), Fraction(10**17)):
        noisy = kit.native.add_native("gaussian", edge, scale)
        assert (noisy[::3] > limits.max - 20 * int(scale)).all()
        assert (noisy[1::3] < limits.min + 20 * int(scale)).all()
        assert (abs(noisy[2::3]) < 20 * int(scale)).all()
        assert (noisy[::3] == limits.max).sum() > 50
    for kind in ("gaussian", "laplace"):  # the limit is that of the sum: nothing is left of the value
        noisy = kit.native.add_native(kind, np.array([2**62, -(2**62)] * 150, dtype=np.int64), Fraction(2**90))
        assert set(noisy.tolist()) == {limits.max, limits.min}
        assert 80 < (noisy > 0).sum() < 220
    values = np.full(4000, 10**17)
    noisy = kit.native.add_native("gaussian", values, Fraction(10**16))
    assert abs((noisy - 10**17).std() / 1e16 - 1) < 0.06
    assert abs((noisy - 10**17).mean()) < 6e16 / 4000**0.5
    assert edge.tolist() == [limits.max, limits.min, 0] * 200


def few_draws_look_like_the_law(kit: Any) -> None:
    """Twelve bins of 2 x 10^5 draws: a bias in sign, place or spread of a few in a hundred shows."""
    for kind, scale in (
        ("gaussian", Fraction(30)),
        ("laplace", Fraction(1)),
        ("gaussian", Fraction(5000)),
        ("laplace", Fraction(9999, 7)),
    ):
        out = np.empty(200_000, dtype=np.int64)
        kit.native.fill(kind, scale, out)
        deviation = float(out.std()) / float(scale)
        expected = {"gaussian": 1.0, "laplace": 2**0.5 if scale > 5 else 1.357}[kind]
        assert abs(deviation / expected - 1) < 0.02
        assert abs(out.mean()) < 6 * expected * float(scale) / 200_000**0.5
        assert abs(np.corrcoef(out[1:], out[:-1])[0, 1]) < 0.012
        assert abs((out > 0).sum() - (out < 0).sum()) < 6 * 200_000**0.5


CHECKS = [
    thresholds_are_those_of_many_digits,
    bounds_hold_with_few_guard_digits,
    a_vector_is_its_words_one_by_one,
    every_word_has_its_exact_value,
    further_digits_have_their_exact_value,
    ties_are_broken_by_as_many_digits_as_it_takes,
    tails_go_on,
    coins_are_tossed_to_the_last_digit,
    refused_draws_are_drawn_again,
    draws_of_any_size_have_their_exact_value,
    a_quick_yes_is_a_true_yes,
    every_pair_of_words_has_its_exact_value,
    sums_saturate_and_keep_their_place,
    every_word_is_used_once_and_wiped,
    few_draws_look_like_the_law,
]


def real_kit() -> Any:
    from dprelease.noise.native import cumulative, entropy, lookup, source
    from dprelease.noise.native import draws as native

    return SimpleNamespace(
        entropy=entropy, source=source, cumulative=cumulative, lookup=lookup, blocks=native, native=native
    )
