"""The noise off: the very path of a release, on made-up rows, with nothing added to what it counts.

For tests alone, in a process of theirs. What draws is replaced: integer noise is zero, and a choice takes what is most
likely. Everything before and after it (bounds, clips, contrasts, sums over classes, least squares, pages) is the product's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.noise.exact import Exact, ExactKeys, open_exact, open_keys
from dprelease.noise.mechanisms.exponential import LevelChoice
from dprelease.noise.mechanisms.tables_knorm import TablesKNorm
from dprelease.noise.mechanisms.threshold import OptimalSelection
from tests.faults.planting import everywhere

__all__ = ["silence"]


def _as_it_is(kind: str, values: npt.NDArray[np.int64], scale: Fraction, sampler: str = "native") -> Any:
    return values.copy()


def _jointly(exacts: Sequence[Exact], scale: Fraction, noise_of: object) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(open_exact(each).copy() for each in exacts)


def _tables(self: object, exacts: Sequence[Exact], scale: Fraction) -> tuple[npt.NDArray[np.int64], ...]:
    return _jointly(exacts, scale, None)


def _likeliest(self: LevelChoice, below: object, bits: int = 0) -> int:
    return min((level, at) for at, (weight, level) in enumerate(self._terms) if weight)[1]


def _shown(
    self: OptimalSelection, keys: ExactKeys, epsilon: Fraction, delta: Fraction, shift: int = 0
) -> tuple[tuple[Any, ...], ...]:
    held, counts = open_keys(keys)
    least = shift + self.half_point(epsilon, delta)
    shown = [key for key, count in zip(held, counts.tolist(), strict=True) if count >= least]
    return tuple(sorted(shown, key=lambda key: tuple((str(part), type(part).__name__) for part in key)))


@contextmanager
def silence() -> Iterator[None]:
    """No noise within the block, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        everywhere(patch, "add_noise", _as_it_is)
        everywhere(patch, "hidden_jointly", _jointly)
        patch.setattr(TablesKNorm, "draw_tables", _tables)
        patch.setattr(LevelChoice, "draw", _likeliest)
        patch.setattr(OptimalSelection, "draw", _shown)
        yield
