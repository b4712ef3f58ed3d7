"""The one door to integer noise: native tables, or OpenDP's primitives as a second, independent implementation.

Both draw exactly the same laws from the operating system's entropy. Native noise is proved in
docs/proofs/native-noise.md; OpenDP's samplers are those of Canonne, Kamath and Steinke 2020, on big integers. Nothing
else of OpenDP is used: its Polars layer has open privacy bugs.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError, MissingExtra
from dprelease.noise.native.draws import Kind, add_native

__all__ = ["SAMPLERS", "Kind", "Sampler", "add_noise", "recorded_sampler", "require_sampler"]

Sampler = Literal["native", "opendp"]
_BLOCK = 65_536

SAMPLERS: dict[Sampler, str] = {
    "native": "native tables refined by further digits, exact (docs/proofs/native-noise.md)",
    "opendp": "OpenDP integer primitives (Canonne, Kamath and Steinke 2020)",
}
"""What a release records of its sampler."""


def recorded_sampler(words: str) -> Sampler:
    """The sampler of a release that has recorded these words; native for any others."""
    return next((name for name, recorded in SAMPLERS.items() if recorded == words), "native")


def require_sampler(sampler: Sampler) -> None:
    """Refuse a sampler whose package is not there; asked before a release is reserved, and before its data are read.

    Raises:
        MissingExtra: As of :func:`_opendp`.
    """
    if sampler == "opendp":
        _opendp()


def add_noise(
    kind: Kind, values: npt.NDArray[np.int64], scale: Fraction, sampler: Sampler = "native"
) -> npt.NDArray[np.int64]:
    """Values plus independent exact noise.

    Args:
        kind: ``laplace`` or ``gaussian``, both discrete.
        values: Exact integers, shape ``(cells,)``.
        scale: In grid steps; must be exactly a 64-bit float, so that either sampler draws what was accounted.
        sampler: Which implementation draws.

    Returns:
        A new ``int64`` array of the same shape, saturated at the limits of the type.

    Raises:
        BrokenPromiseError: If the scale is not positive or not exactly a float.
        MissingExtra: If OpenDP shall draw and is not installed.
    """
    if scale <= 0 or Fraction(float(scale)) != scale:
        raise BrokenPromiseError(f"a noise scale of {scale} is not exactly a positive float")
    return add_native(kind, values, scale) if sampler == "native" else _add_opendp(kind, values, scale)


def _add_opendp(kind: Kind, values: npt.NDArray[np.int64], scale: Fraction) -> npt.NDArray[np.int64]:
    primitive = _primitive(kind, scale)
    noisy = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        noisy[start : start + len(block)] = primitive(block.tolist())
    return noisy


@cache
def _primitive(kind: Kind, scale: Fraction) -> Any:
    dp = _opendp()
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(scale))
    return dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=float(scale))


def _opendp() -> Any:
    """OpenDP, an extra.

    Raises:
        MissingExtra: If it is not installed (DPR-X105).
    """
    try:
        import opendp.prelude
    except ImportError:
        raise MissingExtra(
            "OpenDP is not installed: a release that it draws, or has begun to draw, needs it",
            hint='pip install "dprelease[opendp]", or begin a release without `--sampler opendp`',
            code="DPR-X105",
        ) from None
    return opendp.prelude
