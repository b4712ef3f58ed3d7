"""Nearest non-negative tables in the metric of what the estimates know: their own precision, residual by residual.

All of it is after the noise: numbers in, numbers out, no privacy to lose.

Least squares counts an error of one person the same in every direction. Estimates of a workload do not: a margin that
was drawn by itself is known far better than the sum of its cells would be. So the distance here is Mahalanobis', of the
covariance of the best linear unbiased estimate (Gauss-Markov; the same distance is minus twice the log-likelihood of
normal noise, up to a constant). Given its parent that covariance is diagonal over residuals, u_b P_b for each child
(:mod:`dprelease.estimate.workloads.hierarchy`; P_b is the projection onto centred tables of b), so that

    ``|x - a|^2 = sum over children, b of N_b / u_b |x_b - a_b|^2``

with x_b the part of a whole table x in the space of residual b (the residual spread evenly over the N_b cells of the
other attributes: ``|x_b|^2 = |z_b|^2 / N_b``). It is minimised over {x >= 0, the children's totals, in every cell the
children add up to the parent}. Where the table of attributes A is exact, its cells are given as the total is: x_b of
every b within A is.

The method is that of Douglas and Rachford (Lions and Mercier, SIAM J. Numer. Anal. 16, 1979). Of a number v per cell,
``z = max(v, 0)`` is the candidate and ``|v| = 2 z - v`` its reflection, and in every round

    ``v <- v + 1.6 (x - z)``,  x the minimum of ``1/2 |x - a|^2 + r/2 |x - |v||^2`` over all x with the right sums,

the second norm being Euclid's. x has a closed form, since residuals are apart: with ``g = r / (r + N_b / u_b)`` of each
child (0 of what is given) and ``d = g (|v|_b - a_b)``,
``x_b = a_b + d - g / (sum of g over siblings) (sum of d over siblings)``.

Proof. Both steps minimise a convex function plus a multiple of the squared distance from a point, so that R: v -> |v|
and S: q -> 2 x - q, their reflections, are non-expansive. A round is ``v <- 0.2 v + 0.8 S(R(v))``, an average with a
non-expansive map: the Euclidean length of ``x - z`` never grows, and v converges to a fixed point if there is one
(Krasnosel'skii 1955, Mann 1953). There x = z, and the conditions of Karush, Kuhn and Tucker hold with the multipliers
``r (z - v)``: z is the nearest table. Conversely the nearest table, which exists and is the only one, has multipliers
since all constraints are linear, and they make a fixed point.

Cells that are 0 by declaration are one more constraint of the first step: there z = 0 and the reflection is ``-v``. It
is the nearest point of a convex set as before, and the proof stays; their multipliers may have any sign.
"""

from __future__ import annotations

from copy import copy

import numpy as np
import numpy.typing as npt

from dprelease.estimate.workloads.contrast import join, split_residuals
from dprelease.estimate.workloads.design import Floats

__all__ = ["Problems"]

_STEP = 1.6  # from 0 to 2; most problems need a third fewer rounds than with 1
_BLOCK = 2**17  # cells that are worked on at a time: they stay near the processor


class Problems:
    """Families of siblings side by side: what is wanted of them, and the distance that is to be small.

    Arrays have the shape ``(*keys, children, families)``: the families are the fastest axis, so that sums run along it.
    A family of one child has a total and no parent.

    Args:
        targets: a, split (``contrast.split_residuals``) with each total at the place of the
            total. The given stays, and so do the sums over children of all residuals. Overwritten.
        weights: ``N_b / u_b`` at the places of residual b, above 0 and finite; of the given anything. Overwritten.
        given: The places of what is given, a slice for each axis of keys; None: the totals.
        possible: Which cells are not 0 by declaration, shape ``keys``; None: all.
    """

    def __init__(
        self,
        targets: Floats,
        weights: Floats,
        given: tuple[slice, ...] | None = None,
        possible: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.possible = None if possible is None else possible[..., None, None]
        self.targets = targets
        self.single = targets.shape[-2] == 1
        self.given = tuple(slice(n - 1, n) for n in targets.shape[:-2]) if given is None else given
        self.inside = tuple(range(targets.ndim - 1))
        weights[self.given] = 1
        # r: of no consequence for the result; twice the geometric mean took the fewest rounds of all that were tried
        places = max(1, targets[..., 0].size - targets[self.given][..., 0].size)
        self.pull = np.asarray(2 * np.exp(np.log(weights).sum(axis=self.inside) / places))
        weights += self.pull
        self.gains = np.divide(self.pull, weights, out=weights)
        self.gains[self.given] = 0
        self.among = np.ones(1) if self.single else self.gains.sum(axis=-2, keepdims=True)
        if not self.single:
            self.among[self.given] = 1

    def distance(self, tables: Floats) -> Floats:
        """Squared, of tables with the right sums; shape ``(families,)``."""
        apart = tables.copy()
        split_residuals(_nodes_first(apart))
        apart -= self.targets
        apart[self.given] = 0
        weighted = np.divide(apart, self.gains, out=np.zeros_like(apart), where=self.gains > 0)
        weighted -= apart
        weighted *= self.pull
        join(_nodes_first(apart))
        join(_nodes_first(weighted))
        weighted *= apart
        return np.asarray(weighted.sum(axis=self.inside))

    def solved(self, start: Floats, *, tolerance: float, rounds: int) -> Floats:
        """Nearly the nearest tables: non-negative, with sums that are right up to about the tolerance.

        Args:
            start: Tables to begin with.
            tolerance: In counts: a family is done when no ``|x - z|`` is above it.
            rounds: After which all are.
        """
        at_once = max(1, _BLOCK // max(1, start[..., 0].size))
        if at_once >= start.shape[-1]:
            return self._alternated(start.copy(), tolerance, rounds)
        made = np.empty_like(start)
        for first in range(0, start.shape[-1], at_once):
            some = slice(first, first + at_once)
            made[..., some] = self.only(some)._alternated(start[..., some].copy(), tolerance, rounds)
        return made

    def _alternated(self, state: Floats, tolerance: float, rounds: int) -> Floats:
        """The candidates of a few families at the end; the state, v, is overwritten."""
        left, now, made = np.arange(state.shape[-1]), self, None
        for done in range(1, rounds + 1):
            moved = now.moved(state)
            finished = np.maximum(moved.max(axis=now.inside), -moved.min(axis=now.inside)) <= tolerance
            finished |= done == rounds
            if finished.all():
                break
            if 2 * np.count_nonzero(finished) > len(left):
                made = np.empty_like(state) if made is None else made
                made[..., left[finished]] = self._candidate(state[..., finished])
                left, now = left[~finished], now.only(~finished)
                state, moved = (np.ascontiguousarray(each[..., ~finished]) for each in (state, moved))
            moved *= _STEP
            state += moved
        state = self._candidate(state)
        if made is None:
            return state
        made[..., left] = state
        return made

    def _candidate(self, state: Floats) -> Floats:
        """z; the state is overwritten."""
        np.maximum(state, 0, out=state)
        if self.possible is not None:
            state *= self.possible
        return state

    def moved(self, state: Floats) -> Floats:
        """``x - z`` of every cell."""
        found = np.abs(state) if self.possible is None else np.where(self.possible, np.abs(state), -state)
        nodes = _nodes_first(found)
        split_residuals(nodes)
        found -= self.targets
        found *= self.gains
        if not self.single:
            rest = found.sum(axis=-2, keepdims=True)
            rest /= self.among
            found -= self.gains * rest
        found += self.targets
        join(nodes)
        found -= self._candidate(state.copy())
        return found

    def only(self, kept: npt.NDArray[np.bool_] | slice) -> Problems:
        """The families that are kept."""
        found = copy(self)
        found.targets, found.gains = (np.ascontiguousarray(each[..., kept]) for each in (self.targets, self.gains))
        found.pull, found.among = self.pull[kept], self.among if self.single else self.among[..., kept]
        return found


def _nodes_first(tables: Floats) -> Floats:
    """A view of shape ``(nodes, *keys)``."""
    return np.moveaxis(tables.reshape(*tables.shape[:-2], -1), -1, 0)
