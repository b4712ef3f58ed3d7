"""The one door to OpenDP: its integer primitives, exact samplers with operating-system entropy.

OpenDP's discrete samplers (Canonne, Kamath and Steinke 2020) work on big integers and on the rational value of
the floating-point scale; the noisy sum saturates at 64 bits after the noise, which is post-processing.
Nothing else of OpenDP is used: its Polars layer has open privacy bugs.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError

__all__ = ["add_noise"]

Kind = Literal["laplace", "gaussian"]
_BLOCK = 65_536


@cache
def _primitive(kind: Kind, scale: Fraction) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(scale))
    return dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=float(scale))


def add_noise(kind: Kind, values: npt.NDArray[np.int64], scale: Fraction) -> npt.NDArray[np.int64]:
    """Values plus independent exact noise.

    Args:
        kind: ``laplace`` or ``gaussian``, both discrete.
        values: Exact integers, shape ``(cells,)``.
        scale: In grid steps; must be exactly a 64-bit float, so that what is drawn is what was accounted.

    Returns:
        A new ``int64`` array of the same shape, saturated at the limits of the type.

    Raises:
        BrokenPromiseError: If the scale is not positive or not exactly a float.
    """
    if scale <= 0 or Fraction(float(scale)) != scale:
        raise BrokenPromiseError(f"a noise scale of {scale} is not exactly a positive float")
    primitive = _primitive(kind, scale)
    noisy = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        noisy[start : start + len(block)] = primitive(block.tolist())
    return noisy
