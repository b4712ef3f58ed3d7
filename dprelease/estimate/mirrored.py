"""Sums along a line that was drawn by a mirrored line: the inverse, and all variances, in n^2 steps instead of n^3.

F = F0 diag(t) with F0 of ``catalog.mirrored``. F0 has the eigenvectors of the second difference matrix, so that its
eigenvalues are the cosine transform of its line, and any power of it has a line, too: that of the transform's power
(docs/proofs/prefix-draws.md, section 8). With Q = F0^-2 the covariance of the counts is Q_ij / (t_i t_j) per variance
of one number, that of prefixes is added up along both ways, and a range is the difference of two prefixes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.catalog.factor import Factor
from dprelease.catalog.mirrored import Mirror, mirrored_rows

__all__ = ["eigenvalues_of_line", "least_eigenvalue", "line_of_eigenvalues", "mirrored_prefixes", "mirrored_variances"]

Floats = npt.NDArray[np.float64]


def eigenvalues_of_line(line: Floats, kind: Mirror) -> Floats:
    """The eigenvalues of F0, by rising frequency.

    ``l_0 + 2 sum of l_d cos(d a_k)``, d from 1 to n, with ``a_k = (2k + 1) pi / (2n + 1)`` (k from 0) for prefixes and
    ``k pi / (n + 1)`` (k from 1) for ranges.

    Args:
        line: l, shape ``(keys + 1,)``.
        kind: How it is mirrored.

    Returns:
        Shape ``(keys,)``.
    """
    keys = len(line) - 1
    if kind == "mirrored_ranges":
        return np.asarray(np.fft.rfft(np.concatenate([line, [0.0], line[:0:-1]])).real[1 : keys + 1])
    half = np.concatenate([line, -line[:0:-1]])  # of a period, whose other half is the same with the other sign
    return np.asarray(np.fft.rfft(np.concatenate([half, -half])).real[1 : 2 * keys : 2]) / 2


def line_of_eigenvalues(values: Floats, kind: Mirror) -> Floats:
    """The line of the matrix with these eigenvalues: the other way round; what adds nothing to a matrix is left out.

    Args:
        values: By rising frequency, shape ``(keys,)``.
        kind: How the line is mirrored.

    Returns:
        Shape ``(keys + 1,)``.
    """
    keys = len(values)
    if kind == "mirrored_ranges":
        line = np.fft.irfft(np.concatenate([[0.0], values, [0.0]]), 2 * (keys + 1))
        return np.asarray(line[: keys + 1] - line[keys + 1])
    spread = np.zeros(2 * keys + 2)
    spread[1 : 2 * keys : 2] = values
    return np.asarray(2 * np.fft.irfft(spread, 4 * keys + 2)[: keys + 1])


def least_eigenvalue(factor: Factor) -> float:
    """The least eigenvalue of F0: of whole numbers below 2^24, doubles tell it to a part in a million of 1."""
    line, kind, _ = _parts(factor)
    return float(eigenvalues_of_line(line, kind).min())


def _parts(factor: Factor) -> tuple[Floats, Mirror, Floats]:
    if factor.mirror is None or factor.line is None or factor.times is None:
        raise ValueError("only a mirrored line is inverted by its transform")
    return np.array(factor.line, dtype=np.float64), factor.mirror, np.array(factor.times, dtype=np.float64)


def _power(factor: Factor, power: int) -> tuple[Floats, Mirror, Floats]:
    """The line of a power of F0, how it is mirrored, and t."""
    line, kind, times = _parts(factor)
    return line_of_eigenvalues(eigenvalues_of_line(line, kind) ** power, kind), kind, times


def mirrored_prefixes(factor: Factor) -> Floats:
    """B = L F^-1 with L adding up: what says all prefixes of a line from its numbers.

    Args:
        factor: Of a mirrored line.

    Returns:
        Shape ``(keys, keys)``.
    """
    line, kind, times = _power(factor, -1)
    found = np.empty((factor.length, factor.length))
    total = np.zeros(factor.length)
    for at, row in enumerate(mirrored_rows(line, kind)):
        total += row / times[at]
        found[at] = total
    return found


def mirrored_variances(factor: Factor, which: Literal["prefixes", "all"]) -> Floats:
    """The variance of every sum of a line, where the noise on one number has the variance 1.

    Args:
        factor: Of a mirrored line.
        which: Which sums.

    Returns:
        Of every prefix; or of every range, by where they begin, then where they end.
    """
    line, kind, times = _power(factor, -2)
    keys, begin = factor.length, 0
    total, prefixes = np.zeros(keys), np.empty(keys)  # total: the covariances of the prefix before with all others
    found = np.empty(keys * (keys + 1) // 2 if which == "all" else 0)
    for first, row in enumerate(mirrored_rows(line, kind)):
        if which == "all":
            part = found[begin : begin + keys - first]
            part[...] = prefixes[first - 1] - 2 * total[first:] if first else 0.0
            begin += len(part)
        total += np.cumsum(row / (times[first] * times))
        prefixes[first] = total[first]
    if which == "prefixes":
        return prefixes
    begin = 0
    for first in range(keys):
        found[begin : begin + keys - first] += prefixes[first:]
        begin += keys - first
    return found
