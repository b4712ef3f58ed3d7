"""How many values of each cell lie up to each class of a grid, as noise left it, and what follows for their ranks.

One draw tells all prefixes of a cell's line of counts. With F the estimated prefixes and N the last of them, the number
D_a(x) = F(x) - a N is unbiased for #{<= x} - a n, and its standard error is known without any data.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.noise.mechanisms.discrete_gaussian import normal_margin

__all__ = ["PrefixCounts"]

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
_HAIR = 1e-9  # of an interval's reach: a thousand sums of doubles lose far less


@dataclass(frozen=True, eq=False)
class PrefixCounts:
    """The estimated prefixes of the lines of a draw.

    Attributes:
        starts: Where each class begins, in grid steps, rising: shape ``(classes,)``.
        last: The last grid value of the last class.
        counts: How many values lie in each class or below: shape ``(cells, classes)``, unbiased, neither whole nor
            rising.
        variances: Of each of them, the same in all cells: shape ``(classes,)``.
        shared: The covariance of each of them with the last, of the same shape.
        scale: The scale of the noise on one number that was drawn, in steps of its lattice.
        drawn: How much of each number that was drawn is in each prefix: shape ``(classes, numbers)``.
    """

    starts: Places
    last: int
    counts: Floats
    variances: Floats
    shared: Floats
    scale: Fraction
    drawn: Floats

    @property
    def size(self) -> Floats:
        """How many values a cell has: shape ``(cells,)``, unbiased."""
        return self.counts[:, -1]

    @property
    def ends(self) -> Places:
        """The last grid value of each class."""
        return np.append(self.starts[1:] - 1, self.last)

    @property
    def monotone(self) -> Floats:
        """Prefixes that rise: half of the largest so far, and half of the least from here on.

        Both of them rise, and so does their mean. It says where a value is, and nothing of how certain that is.
        """
        highest = np.maximum.accumulate(self.counts, axis=1)
        least = np.minimum.accumulate(self.counts[:, ::-1], axis=1)[:, ::-1]
        return np.asarray((highest + least) / 2)

    def quantile(self, at: Fraction) -> Places:
        """The least grid value that the monotone prefixes reach ``at`` times the size at; shape ``(cells,)``.

        Within a class of several values the place is in proportion. It rises with ``at``.
        """
        prefixes = self.monotone
        wanted = np.maximum(self.size, 0.0) * float(at)
        reached = prefixes >= wanted[:, None]
        place = np.where(reached.any(axis=1), reached.argmax(axis=1), len(self.starts) - 1)
        cells = np.arange(len(prefixes))
        before = np.where(place > 0, prefixes[cells, place - 1], 0.0)
        within = np.maximum(prefixes[cells, place] - before, 1e-300)
        part = np.clip((wanted - before) / within, 0.0, 1.0)
        return np.asarray(self.starts[place] + np.floor(part * (self.ends - self.starts)[place] + 0.5), dtype=np.int64)

    def between(self, at: Fraction, confidence: Fraction) -> tuple[Places, Places]:
        """The ends of an interval, in grid steps, that holds each quantile at ``at`` with this confidence.

        The lower end is the first value of the first class x with D(x) >= -z se(x), and the upper end the last value
        of the last class x that is the first of all, or has D(x - 1) <= z se(x - 1) for the class x - 1 before it; z is
        exceeded by D's error on one side, in standard errors, with (1 - confidence) / 2 at most.

        Proof. Let q be a quantile at ``at``, in the class x: #{< q} <= a n <= #{<= q}. No value of a class below x is q
        or more, so that #{<= x - 1} <= #{< q} <= a n, and #{<= x} >= #{<= q} >= a n. So the true D(x) is not below 0,
        and the true D(x - 1) not above it. Where D(x) >= -z se(x) the lower end is not above q, and where D(x - 1) <=
        z se(x - 1), or x is the first class, the upper end is not below it. Each fails with (1 - confidence) / 2 at
        most. It is a test at the class of q alone: nothing is added up over classes, whatever the data are. The two
        ends do not cross: in the class before the lower end D is below -z se. (docs/proofs/quantiles-from-counts.md)

        A cell in which no class is far enough up has the whole grid.
        """
        share = float(at)
        apart = self.counts - share * self.size[:, None]
        squares = self.variances - 2 * share * self.shared + share**2 * self.variances[-1]
        reach = normal_margin(confidence, self.scale) * np.sqrt(np.maximum(squares, 0.0)) * (1 + _HAIR)
        lost = _HAIR * 1e-3 * np.abs(self.counts).max(axis=1, initial=0.0)[:, None]
        above, below = apart >= -reach - lost, apart[:, :-1] <= reach[:-1] + lost
        known = above.any(axis=1)
        first = np.where(known, above.argmax(axis=1), 0)
        # From the right: the first class from there whose predecessor is low enough, and the very first always is.
        held = np.concatenate([np.ones((len(apart), 1), dtype=bool), below], axis=1)[:, ::-1]
        final = np.where(known, len(self.starts) - 1 - held.argmax(axis=1), len(self.starts) - 1)
        return self.starts[first], self.ends[final]

    def placed(self, at: Fraction, confidence: Fraction) -> Places:
        """The quantile at ``at``, moved to the nearer end of its interval where the test refuses it."""
        return np.asarray(np.clip(self.quantile(at), *self.between(at, confidence)), dtype=np.int64)

    def share(self, below: int, confidence: Fraction) -> tuple[Floats, Floats, Floats, Floats]:
        """Which part of a cell's values lies below the first value of a class.

        Fieller's interval: every share s from 0 to 1 at which F - s N is not farther from 0 than z of its standard
        errors, F and N being the prefix of the class and the last one. At the true share that is noise alone, so that
        the set holds it with the confidence, whatever F and N are. The set is where a quadratic is not above 0; where
        it is no interval, all shares are said. Where F and N could not be true, F below 0 or above N, the set of the
        nearest numbers that could be is added, so that no lucky draw makes it short.

        Args:
            below: Where the class begins, in grid steps; at the first one or below it the share is 0 for certain.
            confidence: Of the interval.

        Returns:
            The share, its standard error to first order, and both ends of its interval: each of shape ``(cells,)``; NaN
            where the noisy number of values is below 1.
        """
        place, whole = int(np.searchsorted(self.starts, below)) - 1, self.size
        if place < 0:
            none = np.where(whole >= 1, 0.0, np.nan)
            return none, none, none, none
        part = self.counts[:, place]
        possible = np.clip(part, 0.0, np.maximum(whole, 0.0))
        value = np.where(whole >= 1, np.clip(part / np.maximum(whole, 1.0), 0.0, 1.0), np.nan)
        ends = [self._fieller(each, whole, place, confidence) for each in (part, possible)]
        lower = np.where(np.isnan(value), np.nan, np.minimum(np.minimum(ends[0][0], ends[1][0]), value))
        upper = np.where(np.isnan(value), np.nan, np.maximum(np.maximum(ends[0][1], ends[1][1]), value))
        squares = self.variances[place] - 2 * value * self.shared[place] + value**2 * self.variances[-1]
        error = np.sqrt(np.maximum(squares, 0.0)) / np.maximum(whole, 1.0)
        return value, error, lower, upper

    def _fieller(self, part: Floats, whole: Floats, place: int, confidence: Fraction) -> tuple[Floats, Floats]:
        """The ends of {s : (part - s whole)^2 <= z^2 Var(part - s whole)} within 0 and 1; 0 and 1 if unbounded."""
        square = (normal_margin(confidence, self.scale) * (1 + _HAIR)) ** 2
        above = whole**2 - square * self.variances[-1]
        middle = part * whole - square * self.shared[place]
        below = part**2 - square * self.variances[place]
        inside = middle**2 - above * below
        bounded = (above > 0) & (inside >= 0)
        root, by = np.sqrt(np.maximum(inside, 0.0)), np.where(bounded, above, 1.0)
        lower = np.where(bounded, np.clip((middle - root) / by - _HAIR, 0.0, 1.0), 0.0)
        upper = np.where(bounded, np.clip((middle + root) / by + _HAIR, 0.0, 1.0), 1.0)
        return lower, upper
