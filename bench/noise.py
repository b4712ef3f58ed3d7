"""Exact draws a second on one core, beside OpenDP, NumPy's inexact normal and raw ``os.urandom``, in one run.

Usage: ``python -m bench.noise [--quick]``. Every figure is the best of several runs, by the processor's time of this
process, which counts the kernel's work for entropy and leaves out what other programs take; ``wall`` is the clock's.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt

from dprelease.noise.native import draws as native
from dprelease.noise.native.draws import Kind
from dprelease.noise.sampler import add_noise

SCALES = [Fraction(1, 2), Fraction(1), Fraction(30), Fraction(1000), Fraction(10**6), Fraction(104, 4099)]
SIZES = [1, 10**3, 10**6, 10**7]
OPENDP_MOST = 20_000
Integers = npt.NDArray[np.int64]


def best(call: Callable[[], object], seconds: float) -> tuple[float, float]:
    """The least processor time and the least clock time of one call, over about so many seconds."""
    times: list[tuple[float, float]] = []
    started = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - started < seconds:
        wall, processor = time.perf_counter(), time.process_time()
        call()
        times.append((time.process_time() - processor, time.perf_counter() - wall))
    return min(each[0] for each in times), min(each[1] for each in times)


def rate(name: str, size: int, call: Callable[[], object], seconds: float) -> None:
    processor, wall = best(call, seconds)
    each = f"{wall / size * 1e6:10.1f} us" if size == 1 else ""
    print(f"{name:34} {size:>10,} {size / max(processor, 1e-9) / 1e6:9.3f} {size / wall / 1e6:9.3f} {each}", flush=True)


def native_into(kind: Kind, scale: Fraction, out: Integers) -> Callable[[], None]:
    return lambda: native.fill(kind, scale, out)


def main() -> None:
    seconds = 0.1 if "--quick" in sys.argv else 1.0
    sizes = SIZES[:3] if "--quick" in sys.argv else SIZES
    print(f"{'':34} {'draws':>10} {'M/s':>9} {'M/s wall':>9}")
    for size in sizes:
        rate("os.urandom, 8 bytes", size, partial(os.urandom, 8 * size), seconds)
    generator = np.random.default_rng(1)
    for size in sizes:
        rate("numpy normal (inexact)", size, partial(generator.normal, 0, 30, size), seconds)
    kinds: tuple[Kind, ...] = ("gaussian", "laplace")
    for scale in SCALES:
        for kind in kinds:
            started = time.process_time()
            native.fill(kind, scale, np.empty(1, dtype=np.int64))
            print(f"tables of {kind} {scale}: {(time.process_time() - started) * 1e3:.1f} ms")
            for size in sizes:
                out = np.empty(size, dtype=np.int64)
                rate(f"native {kind} {scale}", size, native_into(kind, scale, out), seconds)
            if Fraction(float(scale)) == scale:
                zeros = np.zeros(OPENDP_MOST, dtype=np.int64)
                oracle = f"OpenDP {kind} {scale}"
                rate(oracle, len(zeros), partial(add_noise, kind, zeros, scale, "opendp"), seconds)


if __name__ == "__main__":
    main()
