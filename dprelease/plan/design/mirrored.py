"""The mirrored line whose sums err least, for any number of keys, and what no Gaussian noise can go below.

Prefixes have the Gram matrix W'W = L^-1, all ranges (n + 1) L^-1, with L the second difference matrix: 2 on its
diagonal (1 in its first cell for prefixes) and -1 beside it. Its eigenvalues are (2 sin(a / 2))^2 with the frequencies
a of ``estimate.mirrored``, so that every power of it is a mirrored line (``catalog.mirrored``), and nothing here takes
more than n log n steps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.catalog.mirrored import Mirror
from dprelease.estimate.mirrored import eigenvalues_of_line, line_of_eigenvalues

__all__ = ["MIRRORED_GRAIN", "least_mean_variance", "mirrored_line"]

MIRRORED_GRAIN = 2**22  # no column is longer
_STEP = 2**12  # of the line: its entries are then rounded by less than a part in a thousand of what errors feel

Reals = npt.NDArray[np.float64]


def mirrored_line(keys: int, kind: Mirror) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The line of ``L^(-1/4)`` in whole numbers, and how often each column is taken so that all have nearly one norm.

    ``(W'W)^(1/4)`` is the best matrix where the sum of the squared norms of its columns is limited (Li and Miklau 2013,
    the singular value bound); with equal norms the largest is limited, too, and :func:`least_mean_variance` says how
    much is lost by it. Column j is taken ``floor(2^22 / norm_j)`` times.

    Args:
        keys: n.
        kind: For which sums, and so how it is mirrored.

    Returns:
        ``line`` and ``times`` of a ``Factor`` with the grain ``MIRRORED_GRAIN``.
    """
    line = np.rint(_line_of_power(keys, kind, -0.25) * _STEP)
    squared = line_of_eigenvalues(eigenvalues_of_line(line, kind) ** 2, kind)
    times = np.floor(MIRRORED_GRAIN / np.sqrt(_diagonal(squared, kind)))
    return tuple(map(int, line)), tuple(map(int, times))


def least_mean_variance(keys: int, kind: Mirror) -> float:
    """What no Gaussian noise with mu = 1 can go below: the mean over all sums of their variance, one row a unit.

    The dual of ``plan.design.ranges.optimal_gaussian``: for weights w of the cells that add up to 1, and ``D =
    diag(sqrt w)``, the total is at least ``trace((D W'W D)^(1/2))^2``. That trace is the sum of the singular values of
    ``H D`` with ``H = (W'W)^(1/2)``, and so at least ``trace(H D)``. With w in proportion to ``H_ii^2`` the total is at
    least the sum of ``H_ii^2``, and H is known.
    """
    diagonal = _diagonal(_line_of_power(keys, kind, -0.5), kind)
    total = float((diagonal**2).sum())
    return total / keys if kind == "mirrored_prefixes" else total * 2 / keys


def _line_of_power(keys: int, kind: Mirror, power: float) -> Reals:
    """The line of a power of L, a falling one that ends at 0 or just above.

    A line is free in two frequencies, 0 and the highest, which add nothing to the matrix. The highest is given the
    power of L's eigenvalues as they would go on, which makes the line fall; with 0 that of ranges is made to end at 0.
    """
    if kind == "mirrored_ranges":
        period, at = 2 * (keys + 1), np.arange(1, keys + 2)
    else:
        period, at = 4 * keys + 2, np.arange(1, 2 * keys + 2, 2)
    spread = np.zeros(period // 2 + 1)
    spread[at] = (2 * np.sin(at * np.pi / period)) ** (2 * power)
    line = np.fft.irfft(spread, period)
    return np.asarray(line[: keys + 1] - line[keys + 1] if kind == "mirrored_ranges" else 2 * line[: keys + 1])


def _diagonal(line: Reals, kind: Mirror) -> Reals:
    """The diagonal of the matrix of a line."""
    keys = len(line) - 1
    if kind == "mirrored_prefixes":
        far = np.concatenate([line, -line[::-1]])
        return np.asarray(line[0] + far[1 : 2 * keys : 2])
    far = np.concatenate([line, [0.0], line[:0:-1]])
    return np.asarray(line[0] - far[2 : 2 * keys + 1 : 2])
