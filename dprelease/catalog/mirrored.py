"""A matrix of one falling line that is mirrored at both ends: what sums along many keys are drawn by.

With n keys and whole numbers l_0 >= l_1 >= ... >= l_n >= 0 (the *line*), F0 has in row i and column j (from 0)

* for prefixes ``l_|i-j| + l'_(i+j+1)`` with ``l'_d = l_d`` up to d = n, and ``-l_(2n+1-d)`` beyond;
* for ranges ``l_|i-j| - l'_(i+j+2)`` with ``l'_d = l_d`` up to d = n, ``l'_(n+1) = 0``, and ``l_(2n+2-d)`` beyond.

Such matrices are the functions of the second difference matrix with the ends that prefixes or ranges have, so that
products and inverses of them are such matrices, too, of another line (docs/proofs/prefix-draws.md, section 8). No entry
is negative, because the line falls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["MIRRORS", "Mirror", "mirrored_rows"]

Mirror = Literal["mirrored_prefixes", "mirrored_ranges"]
MIRRORS: tuple[Mirror, ...] = ("mirrored_prefixes", "mirrored_ranges")


def mirrored_rows(line: npt.NDArray[Any], kind: Mirror) -> Iterator[npt.NDArray[Any]]:
    """The rows of F0, one after the other, each of shape ``(keys,)``.

    Args:
        line: l, shape ``(keys + 1,)``; also one that does not fall, such as that of an inverse.
        kind: How it is mirrored.
    """
    keys = len(line) - 1
    near = np.concatenate([line[keys - 1 : 0 : -1], line[:keys]])
    if kind == "mirrored_prefixes":
        far, skipped = np.concatenate([line, -line[::-1]]), 1
    else:
        far, skipped = np.concatenate([-line, np.zeros(1, dtype=line.dtype), -line[::-1]]), 2
    for row in range(keys):
        yield near[keys - 1 - row : 2 * keys - 1 - row] + far[row + skipped : row + skipped + keys]
