"""Exact losses of small events, from nothing but the mass functions of their noise: what every claim is held against.

A law is the privacy loss of one pair of outputs laws: its values, and their probabilities under the first hypothesis.
Sums are in float64, over outputs whose tails beyond are below 1e-17; figures down to 1e-9 are good to 1e-7 of
themselves and mostly far better.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from dprelease.privacy.event import Approximate, DiscreteGaussian, DiscreteLaplace, KNorm

__all__ = [
    "NOTHING",
    "Cell",
    "Law",
    "black_box",
    "cell",
    "cells_of",
    "covered",
    "knorm",
    "moved",
    "of_cells",
    "together",
    "worst_delta",
]

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
    _, first, place = np.unique(np.round(losses, 12), return_index=True, return_inverse=True)
    return Law(losses.ravel()[first], np.bincount(place.ravel(), weights=mass.ravel()).astype(np.float64))


Whole = tuple[npt.NDArray[np.int64], Floats]
"""Losses in whole steps of a lattice, and their probabilities."""


def _whole(kind: str, scale: float, shift: int) -> tuple[Whole, float]:
    """The loss of one cell in whole steps, and the step."""
    reach = int((45 if kind == "discrete_laplace" else 9.5) * scale) + 2 * abs(shift) + 20
    noise = np.arange(-reach, reach + 1)
    if kind == "discrete_laplace":
        weight, steps, step = np.exp(-np.abs(noise) / scale), np.abs(noise - shift) - np.abs(noise), 1 / scale
    else:
        weight, steps = np.exp(-((noise / scale) ** 2) / 2), (noise - shift) ** 2 - noise**2
        step = 1 / (2 * scale**2)
    return _counted(steps, weight / weight.sum()), step


def _counted(steps: npt.NDArray[np.int64], mass: Floats) -> Whole:
    lowest = int(steps.min())
    sums = np.bincount((steps - lowest).ravel(), weights=mass.ravel())
    found = np.flatnonzero(sums)
    return found + lowest, sums[found].astype(np.float64)


def cell(kind: str, scale: float, shift: int) -> Law:
    """Integer noise on one cell that moves by ``shift``."""
    return of_cells([(kind, scale, shift)])


def together(laws: Iterable[Law]) -> Law:
    """Independent losses added up."""
    whole = NOTHING
    for law in laws:
        whole = _law(np.add.outer(whole.losses, law.losses), np.multiply.outer(whole.mass, law.mass))
    return whole


Cell = tuple[str, float, int]
"""Kind, scale and shift of one cell; the arguments of ``cell``."""


def cells_of(draw: DiscreteLaplace | DiscreteGaussian, change: Iterable[int]) -> list[Cell]:
    """The cells of one draw that move by this vector."""
    return [(draw.kind, float(draw.scale), abs(c)) for c in change if c]


def moved(draw: DiscreteLaplace | DiscreteGaussian, change: Iterable[int]) -> Law:
    """One draw whose cells move by this vector."""
    return of_cells(cells_of(draw, change))


def of_cells(cells: Iterable[Cell]) -> Law:
    """Many cells."""
    return _of_cells(tuple(sorted(cells)))


@lru_cache(maxsize=1 << 10)
def _of_cells(cells: tuple[Cell, ...]) -> Law:
    alike = {each[:2]: [other for other in cells if other[:2] == each[:2]] for each in cells}
    if len(alike) != 1:
        return together(_of_cells(tuple(group)) for group in alike.values())
    whole, step = _alike(cells)
    return Law((whole[0] * step).astype(np.float64), whole[1])


@lru_cache(maxsize=1 << 10)
def _alike(cells: tuple[Cell, ...]) -> tuple[Whole, float]:
    """Cells with the same noise: their losses stay on one lattice."""
    last, step = _whole(*cells[-1])
    if len(cells) == 1:
        return last, step
    before = _alike(cells[:-1])[0]
    return _counted(np.add.outer(before[0], last[0]), np.multiply.outer(before[1], last[1])), step


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
