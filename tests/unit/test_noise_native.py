"""Native noise is exact: all short strings of entropy listed, ties forced, thresholds held against many digits."""

from __future__ import annotations

import math
import multiprocessing
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any
from unittest.mock import Mock

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import BrokenPromiseError
from dprelease.noise.mechanisms import knorm
from dprelease.noise.native import draws as native
from dprelease.noise.native import lookup
from dprelease.noise.native.cumulative import Decay, cumulative, separated
from dprelease.noise.native.entropy import Entropy
from dprelease.noise.native.source import System
from tests.unit import native_oracle as oracle
from tests.unit.native_checks import CHECKS, real_kit

SCALES = st.fractions(min_value=Fraction(1, 40), max_value=6, max_denominator=5000)


@pytest.mark.thin(every=3)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_native_noise(check: Callable[[Any], None]) -> None:
    check(real_kit())


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(kind=st.sampled_from(["gaussian", "laplace"]), scale=SCALES, both=st.booleans())
def test_thresholds_of_any_rational_scale_are_those_of_many_digits(kind: str, scale: Fraction, both: bool) -> None:
    law = getattr(Decay, kind)(scale)
    first, floors = separated(Decay(law.power, law.rate, both), 64)
    picked = {0, 1, len(floors) // 2, len(floors) - 2, len(floors) - 1} & set(range(len(floors)))
    assert [floors[i] for i in picked] == [oracle.digits_before(kind, scale, first + i, 64, both) for i in picked]


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_scale_104_of_4099_has_its_rare_values(kind: str) -> None:
    """P(X != 0) is about 2^-1100 or 2^-56: nothing of it is cut off."""
    scale = Fraction(104, 4099)
    for bits in (64, 640, 1280):
        law = getattr(Decay, kind)(scale)
        found = cumulative(law, bits)
        # P(X < 0) is w / (1 + w) for Laplace, and w / (1 + 2 w) but for w^3 of it for Gaussian noise
        rate = oracle.exponent(kind, scale, 1)
        with mpmath.workdps(500):
            w = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
            exact = w / (1 + (2 if kind == "gaussian" else 1) * w) * mpmath.mpf(2) ** bits
            index = -found.first
            assert found.low[index] <= exact * (1 + w**3)
            assert exact * (1 - 3 * w**3) <= found.high[index]
            assert found.high[index] - found.low[index] <= 1


@pytest.mark.parametrize(
    ("kind", "scale"), [("gaussian", Fraction(0)), ("laplace", Fraction(-3)), ("gaussian", Fraction(10**19))]
)
def test_a_scale_that_cannot_be_drawn_is_refused(kind: native.Kind, scale: Fraction) -> None:
    with pytest.raises(BrokenPromiseError, match="scale"):
        native.fill(kind, scale, np.empty(1, dtype=np.int64))


@pytest.mark.parametrize("count", [0, 1, 2, lookup.BLOCK - 1, lookup.BLOCK, lookup.BLOCK + 1])
@pytest.mark.parametrize("scale", [Fraction(30), Fraction(10**6)])
def test_every_place_of_an_array_is_drawn(count: int, scale: Fraction) -> None:
    out = np.full(count, 2**60)
    native.fill("gaussian", scale, out)
    assert (abs(out) < 20 * int(scale)).all()


@pytest.mark.parametrize("scale", [Fraction(30), Fraction(10**6)])
def test_memory_does_not_grow_with_the_number_of_draws(scale: Fraction) -> None:
    native.discrete_gaussian(scale, 1)  # makes the tables
    peaks = []
    for blocks in (1, 20):
        out = np.empty(blocks * lookup.BLOCK, dtype=np.int64)
        tracemalloc.start()
        native.fill("gaussian", scale, out)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] < 12 * 8 * lookup.BLOCK


def test_wiped_words_are_zero_and_further_words_are_new() -> None:
    with System() as source:
        words = source.words(1000)
        kept = words.copy()
        assert kept.any()
    assert not words.any()
    assert not (System().words(1000) == kept).any()
    assert {System().bits(3) for _ in range(200)} == set(range(8))
    assert max(System().bits(64) for _ in range(50)) >> 60


def test_a_pool_of_integers_is_wiped_as_it_is_used_up_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bytes] = []

    def urandom(size: int, ask: Callable[[int], bytes] = os.urandom) -> bytes:
        given.append(ask(size))
        return given[-1]

    monkeypatch.setattr("os.urandom", urandom)
    with Entropy() as entropy:
        for _ in range(4 + 8 + 16):  # pools of 64 bytes
            entropy.below(1 << 512)
        assert [len(raw) for raw in given] == [256, 512, 1024]
        assert [any(raw) for raw in given] == [False, False, True]
        entropy.below(1 << 9000)
        assert len(given[-1]) == 2048
        assert [any(raw) for raw in given] == [False, False, False, True]
        wide = entropy.below(1 << 90_000)
        assert wide >> 80_000
        assert len(given[-1]) == 8 * -(-90_000 // 64)
    assert not any(map(any, given))
    before = len(given)
    assert entropy.below(1 << 512)
    assert len(given) == before + 1, "nothing that was wiped is drawn"


def test_threads_draw_differently_and_share_one_table() -> None:
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(lambda _: str(knorm.draw_noise("linf", 4, Fraction(10**9), 20)), range(64)))
    assert len(set(vectors)) == 64
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: native.discrete_gaussian(Fraction(10**9), 5000).tobytes(), range(64)))
    assert len(set(drawn)) == 64
    assert native.sampler_of("gaussian", Fraction(10**9)) is native.sampler_of("gaussian", Fraction(10**9))


def pooled(count: int) -> bytes:
    """Words as the samplers of integers draw them."""
    with Entropy() as entropy:
        return np.array([entropy.below(1 << 64) for _ in range(count)], dtype=np.uint64).tobytes()


def worker(pipe: Any) -> None:
    words = System().words(500)
    pipe.send_bytes(words.tobytes() + native.discrete_gaussian(Fraction(10**12), 500).tobytes() + pooled(500))
    pipe.close()


# A fork of a process with threads is warned about from Python 3.12 on.
@pytest.mark.thin(first=1)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize(
    ("way", "workers"),
    [
        ("fork", 16),
        ("spawn", 2),
        pytest.param("fork", 64, marks=pytest.mark.nightly),
        pytest.param("spawn", 64, marks=pytest.mark.nightly),
    ],
)
def test_no_word_comes_twice_over_processes(way: str, workers: int) -> None:
    native.discrete_gaussian(Fraction(10**12), 10)
    System().words(500)
    found = [np.frombuffer(pooled(10), dtype=np.uint64)]
    for start in range(0, workers, 8):  # eight at a time
        pairs = [multiprocessing.Pipe(duplex=False) for _ in range(min(8, workers - start))]
        context = multiprocessing.get_context(way)
        running = [context.Process(target=worker, args=(send,)) for _, send in pairs]  # type: ignore[attr-defined]
        for process in running:
            process.start()
        for receive, _ in pairs:
            assert receive.poll(120)
            found.append(np.frombuffer(receive.recv_bytes(), dtype=np.uint64))
        for process in running:
            process.join()
    words = np.concatenate(found)
    assert len(words) == 1500 * workers + 10
    assert len(np.unique(words)) == len(words)


def test_native_noise_needs_neither_opendp_nor_scipy() -> None:
    code = (
        "import sys; sys.modules['opendp'] = sys.modules['scipy'] = None\n"
        "from fractions import Fraction\nimport dprelease.noise\nfrom dprelease.noise.native import draws as native\n"
        "print(len(native.discrete_laplace(Fraction(7, 3), 5)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "."}
    )
    assert done.stdout == "5\n"


@pytest.mark.parametrize(
    ("kind", "own", "reach", "refused", "beyond"),
    [("gaussian", 300, 1.3e15, 0.0027, 3400), ("laplace", 100, 4e14, 0.01, 10_000)],
)
def test_scales_have_the_tables_that_the_proof_speaks_of(
    kind: native.Kind, own: int, reach: float, refused: float, beyond: float
) -> None:
    """Sections 3 and 5 of docs/proofs/native-noise.md, from the widths alone."""
    assert isinstance(native.sampler_of(kind, Fraction(own)), lookup.Lookup)
    for scale in (own + Fraction(1, 7), 2 * own, 2 * own + Fraction(1, 7), 5 * own, 10**6, 10**12 + 1):
        sampler = native.sampler_of(kind, Fraction(scale))
        assert isinstance(sampler, native.BlockTable)
        part = 2**sampler.width / float(scale)
        assert 1 / own <= part < 2 / own
        assert part / (math.sqrt(2 * math.pi) if kind == "gaussian" else 2) <= refused
        assert sampler._table.size < 2**13
    last = Fraction(own * 2**42)  # the largest scale whose draws are made as arrays
    assert reach < last < 1.1 * reach
    assert not native._is_wide(native.sampler_of(kind, last))
    assert native._is_wide(native.sampler_of(kind, last + 1))
    scales = 2.0**62 / float(last)
    assert beyond < scales
    assert (scales if kind == "laplace" else scales**2 / 2) / math.log(2) > 15_000


def test_how_often_a_draw_takes_longer_is_what_the_proof_says() -> None:
    """Section 5: buckets that are searched, ties, and coins that are looked at, for scales from 1/2 on."""
    kinds: dict[native.Kind, int] = {"gaussian": 300, "laplace": 100}
    searched, coins = {}, {}
    for kind, own in kinds.items():
        for scale in [Fraction(1, 2), *map(Fraction, (1, 2, 7, 30, own, 1.005 * own, 1.99 * own, 10**6, 2**12 * own))]:
            sampler = native.sampler_of(kind, scale)
            table = sampler._table if isinstance(sampler, native.BlockTable) else sampler
            searched[kind, scale] = float((table._passed < 0).mean())
            assert 2**3 <= len(table._all) <= 2**14  # of 2^64 words
            if isinstance(sampler, native.BlockTable):
                coins[kind, scale] = looked_at(sampler, 200_000)
    assert 0.0004 < min(searched.values()) <= max(searched.values()) < 0.008
    assert {round(100 * searched[kind, Fraction(30)], 2) for kind in kinds} <= {0.06, 0.07}
    # Five standard deviations of a count of 200,000 are .04 and .14 %.
    assert 0.0013 - 0.0004 < min(coins.values()) < 0.0018
    assert 0.013 < max(coins.values()) < 0.015 + 0.0014


def looked_at(sampler: Any, size: int) -> float:
    """The part of rounds whose coin the quick test leaves open."""
    with System() as source, lookup.Scratch(size) as scratch:
        asked = Mock(return_value=True)
        sampler.accepts = asked
        try:
            sampler._tried(np.empty(size, dtype=np.int64), source, scratch)
        finally:
            del sampler.accepts
    return asked.call_count / size
