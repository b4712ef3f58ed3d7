"""Every choice of the integer K-norm sampler, by the decision tree of its own code, in 50 digits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from math import comb
from typing import Any

import pytest

from dprelease.noise.mechanisms import knorm
from dprelease.noise.mechanisms.lattice_ball import Ball, numerator, points
from dprelease.noise.native import entropy
from dprelease.noise.native.entropy import Entropy, TiltedChoice, bernoulli_exp, exp_bounds, geometric
from dprelease.privacy.rounding import CONTEXT, real
from tests.unit.knorm_sums import BALLS, TINY, plain_norm, q_of, whole_mass


class _More(Exception):
    """The sampler asks for one more choice than the path has."""


class _TooFar(Exception):
    """The path leaves what is enumerated."""


def leaves(sampler: Callable[[Any], Any], chances: Callable[[Any], list[Any]], least: Any) -> Iterator[tuple[Any, Any]]:
    """Every answer of a sampler with the chance of the path to it, but for paths of chance below ``least``."""
    paths: list[tuple[tuple[int, ...], Any]] = [((), 1)]
    while paths:
        path, chance = paths.pop()
        asked: list[Any] = []
        steps = iter(path)

        def below(what: Any, steps: Iterator[int] = steps, asked: list[Any] = asked) -> int:
            for step in steps:
                return step
            asked.append(what)
            raise _More

        try:
            yield sampler(below), chance
        except _More:
            weights = chances(asked[0])
            paths += [((*path, i), chance * w) for i, w in enumerate(weights) if w and chance * w >= least]
        except _TooFar:
            pass


def collected(found: Iterator[tuple[Any, Any]]) -> dict[Any, Any]:
    totals: dict[Any, Any] = {}
    for answer, chance in found:
        totals[answer] = totals.get(answer, 0) + chance
    return totals


def uniform(limit: int) -> list[Fraction]:
    return [Fraction(1, limit)] * limit


# ---------------------------------------------------------------- the choices


class _Compared:
    """A uniform integer below a limit of which only one comparison is asked: a choice of two."""

    def __init__(self, limit: int, below: Callable[[Any], int]) -> None:
        self._limit, self._below = limit, below

    def __lt__(self, other: int) -> bool:
        return self._below(Fraction(min(other, self._limit), self._limit)) == 1


@pytest.mark.parametrize(("rate", "denominator"), [(0, 1), (1, 1), (1, 7), (2, 3), (5, 6), (6, 6)])
def test_bernoulli_exp_by_its_whole_decision_tree(rate: int, denominator: int) -> None:
    def sampler(below: Callable[[Any], int]) -> bool:
        return bernoulli_exp(lambda limit: _Compared(limit, below), rate, denominator)  # type: ignore[return-value, arg-type]

    found = collected(leaves(sampler, lambda yes: [1 - yes, yes], Fraction(1, 10**55)))
    exact = CONTEXT.exp(-real(Fraction(rate, denominator)))
    assert abs(real(found[True]) - exact) < TINY
    assert abs(real(found.get(False, 0)) + exact - 1) < TINY


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 3), Fraction(2), Fraction(2, 5), Fraction(3, 2)])
def test_geometric_by_its_decision_tree(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coin has its proved chance (test above); everything else of the tree is the code's."""
    monkeypatch.setattr(entropy, "bernoulli_exp", lambda below, n, d: below((n, d)) == 1)

    def chances(what: Any) -> list[Any]:
        if isinstance(what, tuple):
            yes = CONTEXT.exp(-real(Fraction(*what)))
            return [1 - yes, yes]
        return [1 / CONTEXT.mpf(what)] * what

    found = collected(leaves(lambda below: geometric(below, scale), chances, 10**-8))
    missing, q = 1 - sum(found.values()), q_of(scale)
    assert missing < 1e-3
    for g in range(8):
        assert found.get(g, 0) <= (1 - q) * q**g + TINY <= found.get(g, 0) + missing + 2 * TINY


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 10**9), Fraction(1, 3), 1, Fraction(7, 2), 40, 2000])
@pytest.mark.parametrize("bits", [8, 64, 130])
def test_exp_bounds_enclose_and_are_close(rate: Fraction, bits: int) -> None:
    low, high = exp_bounds(Fraction(rate), bits)
    exact = CONTEXT.exp(-real(Fraction(rate))) * 2**bits
    assert low <= exact + TINY
    assert exact <= high + TINY
    assert high - low <= 2


def distribution(weights: tuple[int, ...], scale: Fraction) -> list[Any]:
    masses = [weight * CONTEXT.exp(-j / real(scale)) for j, weight in enumerate(weights)]
    return [CONTEXT.fsum(masses[: j + 1]) / CONTEXT.fsum(masses) for j in range(len(masses))]


@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(3, 2), Fraction(10**6)])
@pytest.mark.parametrize("weights", [(1,), (1, 11, 11, 1), (1, 0, 5), numerator("count", 60)])
def test_a_tilted_choice_is_the_exact_inverse_of_its_distribution(weights: tuple[int, ...], scale: Fraction) -> None:
    steps = distribution(weights, scale)
    choice = TiltedChoice(weights, scale)
    for bits in (1, 9):
        undecided = 0
        for digits in range(1 << bits):
            index = choice._certain(digits, bits)
            if index is None:
                undecided += 1
            else:
                assert digits + 1 <= steps[index] * 2**bits + TINY
                assert index == 0 or steps[index - 1] * 2**bits <= digits + TINY
        assert undecided < len(weights), "at most the interval around each step between two indices"


def test_a_tilted_choice_draws_on_where_its_digits_do_not_decide() -> None:
    """Weights 1 and 2 at exp(-j): from one digit the answer must be refined where the step lies."""
    step = distribution((1, 2), Fraction(1))[0]  # about 0.576
    asked: list[int] = []
    answers = iter([1, 0, 1, (1 << 128) - 1])

    def below(limit: int) -> int:
        asked.append(limit)
        return next(answers)

    choice = TiltedChoice((1, 2), Fraction(1))
    assert 0.5 < step < 1
    assert choice.draw(below, bits=1) == 0  # 0.1 000... is 0.5, below the step
    assert choice.draw(below, bits=1) == 1  # 0.1 111... is nearly 1
    assert asked == [2, 1 << 128] * 2


def test_a_uniform_integer_stays_below_its_limit_and_reaches_everything() -> None:
    below = Entropy().below
    assert {below(1) for _ in range(5)} == {0}
    assert {below(5) for _ in range(400)} == set(range(5))
    assert 0 <= below(10**900) < 10**900


@pytest.mark.parametrize("limit", [2, 3, 5, 8, 11, 200])
def test_a_uniform_integer_is_its_bits_or_is_drawn_again(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pattern of bits below the limit is itself, and every other one gives way to the next bits."""
    width = (limit - 1).bit_length()
    for value in range(1 << width):
        pool = (1 << width | value).to_bytes(256, "big")
        monkeypatch.setattr("os.urandom", lambda size, pool=pool: pool)
        assert Entropy().below(limit) == (value if value < limit else 1)


def test_no_bit_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = iter([bytes(range(256)), bytes(reversed(range(256)))])
    monkeypatch.setattr("os.urandom", lambda size: next(reads))
    below = Entropy().below
    assert [below(256) for _ in range(512)] == [*reversed(range(256)), *range(256)]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_processes_draw_differently() -> None:
    first = knorm.draw_noise("linf", 4, Fraction(10**9), 1)
    read, write = os.pipe()
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            try:
                os.write(write, f"{knorm.draw_noise('linf', 4, Fraction(10**9), 1)}\n".encode())
            finally:
                os._exit(0)
        children.append(child)
    os.close(write)
    for child in children:
        os.waitpid(child, 0)
    with os.fdopen(read) as answers:
        assert len({*answers.read().split("\n")[:-1], str(first)}) == 9


# ---------------------------------------------------------------- the sampler as a whole


@pytest.mark.parametrize(("k", "scale"), [(1, Fraction(1, 2)), (1, Fraction(3)), (2, Fraction(1, 2)), (2, Fraction(1))])
@pytest.mark.parametrize("ball", BALLS)
def test_a_noise_vector_by_its_decision_tree(
    ball: Ball, k: int, scale: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every path with radius at most 6, to 50 digits: P(z, R <= 6) = (q^||z|| - q^7) / sum over Z^k of q^||z||.

    That is what is left of q^||z|| = (1 - q) times the sum over r >= ||z|| of q^r. The components have their proved
    laws (tests above); how they are put together is the code's.
    """
    most, q = 6, q_of(scale)
    monkeypatch.setattr(knorm, "geometric", lambda below, of: below(("geometric", of)))

    class Tilted(TiltedChoice):
        def draw(self, below: Any, bits: int = 0) -> int:
            return int(below(("tilted", self._weights, self._scale)))

    def chances(what: Any) -> list[Any]:
        if isinstance(what, int):
            if what > points(ball, k, most):
                raise _TooFar
            return [1 / CONTEXT.mpf(what)] * what
        if what[0] == "geometric":
            return [(1 - q_of(what[1])) * q_of(what[1]) ** g for g in range(most + 1)]
        steps = distribution(what[1], what[2])
        return [after - before for before, after in zip([0, *steps], steps, strict=False)]

    shift = Tilted(numerator(ball, k), scale)

    def vector(below: Any) -> tuple[int, ...]:
        return tuple(knorm.noise_vector(partial(_limited, below, points(ball, k, most)), ball, k, scale, shift))

    found = collected(leaves(vector, chances, 0))
    inside = [z for z in product(range(-most, most + 1), repeat=k) if plain_norm(ball, z) <= most]
    assert sorted(found) == sorted(inside)
    whole = whole_mass(ball, k, q)
    for z in inside:
        assert abs(found[z] - (q ** plain_norm(ball, z) - q ** (most + 1)) / whole) < 1e-45


def _limited(below: Callable[[Any], int], most: int, what: Any) -> int:
    if isinstance(what, int) and what > most:
        raise _TooFar
    return below(what)


@pytest.mark.thin
@pytest.mark.parametrize("k", [1, 2, 3, 4, 60])
@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(2)])
@pytest.mark.parametrize("ball", BALLS)
def test_radius_times_uniform_point_is_the_mass_function(ball: Ball, scale: Fraction, k: int) -> None:
    """P(R = r) of the sampler, by convolution, over M(r), summed from ||z|| on, against q^||z|| / sum of q^||z||."""
    q, h = q_of(scale), numerator(ball, k)
    tilt = CONTEXT.fsum(weight * q**j for j, weight in enumerate(h))
    reach = int((170 + 40 * k) * scale) + 100

    def radius(r: int) -> Any:
        ways = CONTEXT.fsum(h[j] * comb(r - j + k, k) for j in range(min(r, k) + 1))
        return ways * q**r * (1 - q) ** (k + 1) / tilt

    parts = [radius(r) / points(ball, k, r) for r in range(reach)]
    whole = whole_mass(ball, k, q)
    for length in (0, 1, 2, 5, 20):
        exact = q**length / whole
        assert abs(CONTEXT.fsum(parts[length:]) - exact) < 1e-40 * exact
