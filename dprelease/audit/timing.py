"""How many runs there is time for, and an end of them where a machine turns out to be slower than a few had shown."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["affordable", "answers_in_parts", "seconds_each"]

Answers = npt.NDArray[np.int64]
_Totals = TypeVar("_Totals")
_FEWEST, _MOST, _TRIAL = 60, 1_000_000, 100  # runs a side
_HELD = 16_000_000  # numbers of all runs of a side, for memory
_PARTS = 8  # that runs are made in


def seconds_each(draw: Callable[[int], object], seconds: float) -> float:
    """How long a run takes, by a few of them: by more where these are quick. The first one makes tables for all."""
    draw(1)
    each, runs, begun = math.inf, 1, time.monotonic()
    while runs <= _TRIAL and time.monotonic() - begun < seconds / 20:
        started = time.monotonic()
        draw(runs)
        each, runs = (time.monotonic() - started) / runs, runs * 7
    return each


def answers_in_parts(
    draw: Callable[[_Totals, int], Answers], both: tuple[_Totals, _Totals], runs: int, seconds: float
) -> tuple[Answers, Answers]:
    """So many answers on two data sets, in parts: no further part is begun once the time is over.

    How many there are says nothing of what they are, so that stopping leaves the tests what they were.
    """
    begun, made, size = time.monotonic(), 0, max(_FEWEST, 2 * (runs // (2 * _PARTS)))
    found: tuple[list[Answers], list[Answers]] = ([], [])
    while made < runs and (not made or time.monotonic() - begun < seconds):
        some = min(size, runs - made)
        for side, held in zip(found, both, strict=True):
            side.append(draw(held, some))
        made += some
    return np.concatenate(found[0]), np.concatenate(found[1])


def affordable(seconds: float, each: float, numbers: int) -> int:
    """Runs a side, an even number; none where there is no time for so few that they could prove something."""
    most = min(_MOST, _HELD // max(1, numbers))
    runs = min(most, int(seconds / (2 * max(each, 1e-7))))
    return 0 if runs < _FEWEST else 2 * (runs // 2)
