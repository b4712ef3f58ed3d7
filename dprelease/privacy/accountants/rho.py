"""What one draw costs in zero-concentrated privacy, where it does not reveal: as little as is proved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import TypeGuard

from dprelease.privacy.accountants.base import Atom, parts_of_one_unit, rest_epsilon
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    KNorm,
    Laplace,
    Parallel,
    RandomScale,
    TotalResidual,
)
from dprelease.privacy.theorems.concentrated import laplace_rho, response_rho, rough_laplace_rho, triple_rho
from dprelease.privacy.theorems.joint.random_scale import random_scale_rho
from dprelease.privacy.theorems.joint.total_residual import total_residual_rho
from dprelease.privacy.theorems.lattice import knorm_top

__all__ = ["as_priced", "is_joint", "plain_rho", "rough_rho", "summed_rhos", "zcdp_rho"]

_GAUSSIAN = frozenset((DiscreteGaussian, Gaussian))
_NOISE = frozenset((Gaussian, DiscreteLaplace, Laplace))


_BEFORE: ContextVar[bool] = ContextVar("_BEFORE", default=False)


@contextmanager
def as_priced(before: bool) -> Iterator[None]:
    """Read pure noise as it was read ``before`` its losses were known exactly: for what was made then, made again."""
    token = _BEFORE.set(before)
    try:
        yield
    finally:
        _BEFORE.reset(token)


def is_joint(atom: Atom) -> TypeGuard[KNorm]:
    """Whether a draw is read by the law of K-norm noise that moves by a norm of 1."""
    return isinstance(atom, KNorm) and atom.gauge == 1 and not _BEFORE.get()


def zcdp_rho(atom: Atom) -> Fraction:
    """The zero-concentrated loss of one draw where it does not reveal (see ``reveals``), as little as is proved.

    Gaussian noise: squared L2 sensitivity / (2 scale^2) (Canonne, Kamath and Steinke 2020, Theorem 14), exact. The
    mean losses of docs/proofs/tight-rho.md, rounded up in their 30th digit: discrete Laplace noise, cell by cell;
    K-norm noise that moves by a norm of 1; every other pure draw as randomized response. A total with residuals: its
    mean loss, too (docs/proofs/total-residual.md). Noise of one random scale: as of the smallest scale
    (docs/proofs/random-scale.md). Bounded range: epsilon^2 / 8 (Cesar and Rogers 2021). All add up
    also where a draw is chosen after the answers of those before it, its rho being fixed (Bun and Steinke 2016, Lemma
    1.7).
    """
    if type(atom) in _GAUSSIAN or _BEFORE.get():
        return plain_rho(atom)
    if isinstance(atom, DiscreteLaplace):
        return _laplace_rho(atom)
    if is_joint(atom):
        return triple_rho(1 / atom.scale, knorm_top(atom.ball, atom.dimension, atom.scale))
    if isinstance(atom, TotalResidual):
        return total_residual_rho(atom)
    if isinstance(atom, KNorm) or (isinstance(atom, Approximate) and atom.epsilon):
        return response_rho(rest_epsilon(atom) or Fraction(0))
    if isinstance(atom, Parallel):
        return parts_of_one_unit(atom, zcdp_rho) or Fraction(0)
    return plain_rho(atom)


def summed_rhos(counted: Mapping[Atom, int]) -> list[Fraction]:
    """``zcdp_rho`` of each draw, as often as it occurs: what is to be added up."""
    return [zcdp_rho(atom) * n if n != 1 else zcdp_rho(atom) for atom, n in counted.items()]


def rough_rho(atom: Atom) -> float:
    """``zcdp_rho`` in floats, not rounded up: for searches."""
    if isinstance(atom, DiscreteLaplace) and len(atom.sensitivity.shifts) == 1 and not _BEFORE.get():
        scale = float(atom.scale)
        return math.fsum(rough_laplace_rho(scale, c) for c in atom.sensitivity.shifts[0])
    return float(zcdp_rho(atom))


def plain_rho(atom: Atom) -> Fraction:
    """A rho that is never below ``zcdp_rho``, and what accounts were charged before that: an exact rational.

    Laplace noise, independent on every cell: a cell that moves by c is (c / scale)-private, so it costs at most c^2 /
    (2 scale^2), and the cells add up to squared L2 sensitivity / (2 scale^2), the formula of Gaussian noise. Bounded
    range: epsilon^2 / 8. Any other pure draw: epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4 and Lemma 1.7).
    """
    if isinstance(atom, DiscreteGaussian) or type(atom) in _NOISE:
        # The first has one figure for draws that are bounded together, the others have both of these.
        square = atom.squared if isinstance(atom, DiscreteGaussian) else atom.sensitivity.l2_squared  # type: ignore[union-attr]
        scale = atom.scale  # type: ignore[union-attr]
        return Fraction(square.numerator * scale.denominator**2, 2 * square.denominator * scale.numerator**2)
    if isinstance(atom, TotalResidual):
        return total_residual_rho(atom)
    if isinstance(atom, RandomScale):
        return random_scale_rho(atom)
    if isinstance(atom, Concentrated):
        return atom.rho
    if isinstance(atom, BoundedRange):
        return atom.epsilon * atom.epsilon / 8
    if isinstance(atom, Parallel):
        return parts_of_one_unit(atom, plain_rho) or Fraction(0)
    epsilon = rest_epsilon(atom)
    if epsilon is None:
        raise TypeError(f"an event of kind {atom.kind!r} is not one draw: `total_rho` takes compositions")
    return epsilon * epsilon / 2


def _laplace_rho(atom: DiscreteLaplace) -> Fraction:
    """Of the worst way to move, where the ways are known; of whole norms alone by docs/proofs/tight-rho.md, Lemma 3."""
    known = atom.sensitivity
    if known.shifts:
        return max(sum((laplace_rho(atom.scale, c) for c in way), Fraction(0)) for way in known.shifts)
    norms = (known.l1, known.l2_squared, known.linf)
    if not all(norms) or any(norm.denominator > 1 for norm in norms):
        return plain_rho(atom)
    return min(known.l2_squared * laplace_rho(atom.scale, 1), laplace_rho(atom.scale, int(known.l1)))
