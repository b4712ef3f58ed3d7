"""What the tests of integer K-norm noise compare with: norms and sums written down anew."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dprelease.noise.mechanisms.lattice_ball import Ball
from dprelease.privacy.rounding import CONTEXT, real

BALLS: tuple[Ball, Ball] = ("count", "linf")
TINY = CONTEXT.mpf(10) ** -50


def q_of(scale: Fraction) -> Any:
    return CONTEXT.exp(-1 / real(scale))


def plain_norm(ball: Ball, z: tuple[int, ...]) -> int:
    return max(*z, 0) + max(*(-v for v in z), 0) if ball == "count" else max(abs(v) for v in z)


def whole_mass(ball: Ball, k: int, q: Any) -> Any:
    """The sum of q^||z|| over Z^k by shells, each counted by its own formula; truncated below 1e-70."""
    sizes = {
        "linf": lambda n: (2 * n + 1) ** k - (2 * n - 1) ** k,
        "count": lambda n: (n + 1) ** (k + 1) - 2 * n ** (k + 1) + (n - 1) ** (k + 1),
    }
    reach = int(-(165 + 30 * k) / CONTEXT.log(q)) + 10
    return 1 + CONTEXT.fsum(sizes[ball](n) * q**n for n in range(1, reach))
