"""Exact losses of small events, from nothing but the mass functions of their noise: what every claim is held against.

A law is the privacy loss of one pair of outputs laws: its values, and their probabilities under the first hypothesis.
Sums are in float64, over outputs whose tails beyond are below 1e-17; figures down to 1e-9 are good to 1e-7 of
themselves and mostly far better.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from dprelease.privacy.event import Approximate, DiscreteGaussian, DiscreteLaplace, KNorm

__all__ = ["NOTHING", "Law", "black_box", "cell", "covered", "knorm", "moved", "together", "worst_delta"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """A privacy loss: its values and their probabilities, of one shape."""

    losses: Floats
    mass: Floats

    def delta(self, epsilon: float) -> float:
        """``E max(0, 1 - exp(epsilon - loss))``: the smallest delta that is true."""
        over = self.losses > epsilon
        return float((self.mass[over] * -np.expm1(epsilon - self.losses[over])).sum())

    def renyi(self, order: float) -> float:
        """The Renyi divergence of that order."""
        top = float(self.losses.max())
        return top + float(np.log((self.mass * np.exp((order - 1) * (self.losses - top))).sum())) / (order - 1)


NOTHING = Law(np.zeros(1), np.ones(1))


def _law(losses: Floats, mass: Floats) -> Law:
    """Equal losses once; a millionth of a millionth apart is equal."""
    found, place = np.unique(np.round(losses, 12), return_inverse=True)
    return Law(found, np.bincount(place.ravel(), weights=mass.ravel()).astype(np.float64))


def cell(kind: str, scale: float, shift: int) -> Law:
    """Integer noise on one cell that moves by ``shift``."""
    reach = int((45 if kind == "discrete_laplace" else 14) * scale) + 2 * abs(shift) + 20
    noise = np.arange(-reach, reach + 1, dtype=np.float64)
    if kind == "discrete_laplace":
        weight, losses = np.exp(-np.abs(noise) / scale), (np.abs(noise - shift) - np.abs(noise)) / scale
    else:
        weight, losses = np.exp(-((noise / scale) ** 2) / 2), ((noise - shift) ** 2 - noise**2) / (2 * scale**2)
    return _law(losses, weight / weight.sum())


def together(laws: Iterable[Law]) -> Law:
    """Independent losses added up."""
    whole = NOTHING
    for law in laws:
        whole = _law(np.add.outer(whole.losses, law.losses), np.multiply.outer(whole.mass, law.mass))
    return whole


def moved(draw: DiscreteLaplace | DiscreteGaussian, change: Iterable[int]) -> Law:
    """One draw whose cells move by this vector."""
    return together(cell(draw.kind, float(draw.scale), c) for c in change if c)


def black_box(box: Approximate) -> Law:
    """The worst mechanism that is (epsilon, delta)-private: it fails openly, or answers one question at random."""
    epsilon, delta = float(box.epsilon), float(box.delta)
    honest = 1 / (1 + np.exp(-epsilon))
    mass = np.array([delta, (1 - delta) * honest, (1 - delta) * (1 - honest)])
    return Law(np.array([np.inf, epsilon, -epsilon]), mass)


def norm(ball: str, vector: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The K-norm of integer vectors along the last axis."""
    if ball == "linf":
        return np.asarray(np.abs(vector).max(axis=-1))
    return np.asarray(np.maximum(vector, 0).max(axis=-1) + np.maximum(-vector, 0).max(axis=-1))


def knorm(draw: KNorm, change: Iterable[int]) -> Law:
    """One cell of K-norm noise that moves by this vector."""
    reach = int(28 * draw.scale)
    vectors = np.array(list(product(range(-reach, reach + 1), repeat=draw.dimension)))
    before, after = norm(draw.ball, vectors), norm(draw.ball, vectors - np.array(list(change)))
    weight = np.exp(-before / float(draw.scale))
    return _law((after - before) / float(draw.scale), weight / weight.sum())


def covered(changes: Iterable[Iterable[int]]) -> list[tuple[int, ...]]:
    """The changes, sorted and without signs, that no other one covers: noise is symmetric and alike in every cell."""
    vectors = {tuple(sorted((abs(c) for c in change if c), reverse=True)) for change in changes}
    return [
        v
        for v in sorted(vectors)
        if not any(v != w and len(v) <= len(w) and all(a <= b for a, b in zip(v, w, strict=False)) for w in vectors)
    ]


def worst_delta(laws: Iterable[Law], epsilon: float) -> float:
    """The largest delta of several pairs."""
    return max(law.delta(epsilon) for law in laws)
