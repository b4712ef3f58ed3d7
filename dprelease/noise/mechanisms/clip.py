"""The exponential mechanism for a clip: about so many rows of all cells together shall lie above it.

``score(c) = max(#{> c} - k, k - #{>= c}, 0)`` over the values of all cells, in the spirit of Huang, Liang and Yi
(NeurIPS 2021), who clip at a rank that the noise decides; drawn exactly, as the quantiles of ``exponential`` are. What
it costs is an event of bounded range (docs/proofs/chosen-clips.md).

>>> clip_levels([5, 5, 30], [3, 1, 1], (40, 20, 10, 4), 1)
[1, 0, 0, 4]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import ExactHistogram, open_histogram
from dprelease.noise.mechanisms.exponential import LevelChoice, Powers
from dprelease.noise.native.entropy import Entropy

__all__ = ["ExponentialClip", "clip_levels"]


def clip_levels(values: Sequence[int], counts: Sequence[int], candidates: Sequence[int], above: int) -> list[int]:
    """The score of every candidate: how many rows must change sides before ``above`` of them lie above it.

    Args:
        values: In rising order; one may be there several times.
        counts: How often each occurs, same length.
        candidates: Clips on the grid of the values.
        above: How many rows shall lie above the clip.
    """
    upto = [0, *accumulate(counts)]
    found = []
    for clip in candidates:
        over = upto[-1] - upto[bisect_right(values, clip)]
        over_or_on = upto[-1] - upto[bisect_left(values, clip)]
        found.append(max(over - above, above - over_or_on, 0))
    return found


class ExponentialClip:
    """One clip for all cells, drawn among public candidates by the exponential mechanism."""

    name = "exponential_clip"

    def draw(
        self, histogram: ExactHistogram, candidates: Sequence[int], above: int, scale: Fraction
    ) -> npt.NDArray[np.int64]:
        """One fresh draw from operating-system entropy.

        Args:
            histogram: The values of each cell, clipped to 0 and the largest candidate.
            candidates: Public clips, in 64 bits; at least one.
            above: How many rows shall lie above the clip, at least 1.
            scale: In rows, any positive rational; used exactly.

        Returns:
            The clip, shape ``(1,)``, type ``int64``.

        Raises:
            BrokenPromiseError: If an argument or a value is outside its bounds; no value is told.
        """
        _, _, value, count = open_histogram(histogram)
        if scale <= 0 or above < 1 or not candidates:
            raise BrokenPromiseError("a clip needs candidates, a positive scale and rows above it")
        if ((value < 0) | (value > max(candidates))).any():
            raise BrokenPromiseError("a histogram holds values that were not clipped to its grid")
        order = np.argsort(value, kind="stable")
        levels = clip_levels(value[order].tolist(), count[order].tolist(), candidates, above)
        with Entropy() as entropy:
            place = LevelChoice([1] * len(candidates), levels, Powers(scale)).draw(entropy.below)
        return np.array([candidates[place]], dtype=np.int64)
