"""Mirrored lines, written out from the line as it goes on without end, and what sums along them err by.

Nothing here is shared with ``catalog.mirrored`` or ``estimate.mirrored`` but the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.catalog.factor import Factor
from dprelease.plan.verify.reach import require

__all__ = ["MIRRORED", "MOST_KEYS", "MOST_MIRRORED", "unrolled", "worst_mirrored"]

MIRRORED = {"mirrored_prefixes": 1, "mirrored_ranges": -1}  # the sign of what comes back from the first end
MOST_KEYS = 4096
MOST_MIRRORED = 2**24
_LEAST_EIGENVALUE = 1.0  # of a mirrored line: doubles err by far less
_TOLERANCE = 1e-9
_BLOCK = 256  # rows that are multiplied at once

Reals = npt.NDArray[np.float64]
Whole = npt.NDArray[np.signedinteger[Any]]


@lru_cache(maxsize=1)  # one of 4,096 keys takes 67 MB
def unrolled(factor: Factor, keys: int) -> Whole | None:
    """The matrix of a mirrored line: what a row sends to both sides, and what comes back from mirrors outside.

    The line goes on without end: even around 0; for ranges even around n + 1 too, where it is 0, and for prefixes odd
    around n + 1/2. An entry is what stands at the distance i - j, plus or minus at that to the image in the first end.
    """
    line, times, sign = factor.line or (), factor.times or (), MIRRORED[factor.kind]
    if factor.rows is not None or not 1 <= keys <= MOST_KEYS or (len(line), len(times)) != (keys + 1, keys):
        return None
    falls = list(line) == sorted(line, reverse=True) and line[-1] >= 0
    if not falls or min(times) < 1 or 2 * line[0] * max(times) > MOST_MIRRORED:
        return None
    endless, each = _endless(line, sign), np.array(times, dtype=np.int64)
    before = np.concatenate([endless[1 - keys :], endless[:keys]])[::-1]  # at the distances n - 1, n - 2, ..., 1 - n
    found, image = np.empty((keys, keys), dtype=np.int32), 1 if sign > 0 else 2  # no entry is above 2^24
    for at, row in enumerate(found):
        near, far = before[keys - 1 - at : 2 * keys - 1 - at], endless[at + image : at + image + keys]
        row[...] = (near + sign * far) * each
    found.flags.writeable = False
    return found


def _endless(line: Sequence[int], sign: int) -> Whole:
    """One period of a line that is mirrored for ever, from 0 on: 2 n + 2 numbers for ranges, 4 n + 2 for prefixes."""
    keys = len(line) - 1
    found = dict(enumerate(line))
    if sign < 0:
        found |= {keys + 1: 0, **{2 * keys + 2 - at: line[at] for at in range(1, keys + 1)}}
    else:
        found |= {2 * keys + 1 - at: -line[at] for at in range(keys + 1)}
        found |= {4 * keys + 2 - at: found[at] for at in range(1, 2 * keys + 1)}
    return np.array([found[at] for at in range(len(found))], dtype=np.int64)


def worst_mirrored(factor: Factor, matrix: Whole, which: str) -> float:
    """The largest variance of a sum, per variance of one number, for F = F0 diag(times) of a mirrored line.

    The variance of cells a to b is that of a to b - 1, more twice the sum of row b of the covariance from a to b, less
    its diagonal.
    """
    times, sign = np.array(factor.times, dtype=np.float64), MIRRORED[factor.kind]
    inverse, keys = _inverse_squared(factor, matrix), len(times)
    variances, worst = np.zeros(keys), 0.0
    both = np.concatenate([inverse[keys - 1 : 0 : -1], inverse[:keys]])
    image = 1 if sign > 0 else 2
    for last in range(keys):
        row = both[keys - 1 - last : keys] + sign * inverse[last + image : 2 * last + image + 1]
        row /= times[last] * times[: last + 1]
        if which == "prefixes":
            variances[0] += 2 * row.sum() - row[last]
            worst = max(worst, float(variances[0]))
            continue
        variances[: last + 1] += 2 * np.cumsum(row[::-1])[::-1] - row[last]
        worst = max(worst, float(variances[: last + 1].max()))
    return worst


def _inverse_squared(factor: Factor, matrix: Whole) -> Reals:
    """One period of the line of F0^-2, from 0 to its middle and beyond, as far as entries reach.

    The eigenvectors of F0 are cosines or sines, and its eigenvalues and the line of F0^-2 sums of cosines, which a fast
    Fourier transform adds up to the last digits of doubles. That line makes a matrix R which has the same eigenvectors,
    none of which is 0 in the first cell, so that it is told by its first column: R is F0^-2 if F0 F0 R has the first
    column 1, 0, ..., 0, and it is multiplied out.

    Raises:
        BrokenPromiseError: If F0 may have no inverse, or R is not that of its square.
    """
    times = np.array(factor.times, dtype=np.float64)
    keys, sign = len(times), MIRRORED[factor.kind]
    endless = _endless(factor.line or (), sign).astype(np.float64)
    steps = np.arange(1, 2 * keys, 2) if sign > 0 else np.arange(1, keys + 1)  # of 2 pi / period: the frequencies
    places = np.arange(keys + 1 if sign > 0 else keys + 2)
    values = np.fft.rfft(endless).real[steps] / (2 if sign > 0 else 1)
    require(bool(values.min() > _LEAST_EIGENVALUE), "a mirrored line has no inverse for certain")
    spread = np.zeros(len(endless) // 2 + 1)
    spread[steps] = values**-2.0
    found = np.fft.irfft(spread, len(endless))[: len(places)] * (2 if sign > 0 else 1)
    found = np.concatenate([found, -found[::-1] if sign > 0 else found[-2::-1]])
    image = 1 if sign > 0 else 2
    first = found[:keys] + sign * found[image : image + keys]
    again = _times(matrix, _times(matrix, first / times) / times)
    require(bool(np.abs(again - (places[:keys] == 0)).max() < _TOLERANCE), "the inverse of a mirrored line is another")
    return found


def _times(matrix: Whole, column: Reals) -> Reals:
    """Their product, in bands of rows: as doubles the whole of a large matrix would take 134 MB."""
    starts = range(0, len(matrix), _BLOCK)
    return np.concatenate([matrix[at : at + _BLOCK].astype(np.float64) @ column for at in starts])
