"""How numbers are shown once they are estimated: which are reliable, signs for states, and rounding for reading.

Everything here is arithmetic on published numbers, so that it costs nothing and hides nothing: the measurements are
public. Plans from before there was such a thing have none, and their bundles are made again as they were.

>>> figures = FigureRules(caution_above=Fraction(1, 3), symbols=SYMBOLS)
>>> value = np.array([388.0, 100.0, 100.0, -38.0])
>>> lower, upper = np.array([0.0, 60, 90, 0]), np.array([776.0, 140, 110, 37])
>>> caution, unreliable = figures.judged(value, lower, upper, (Fraction(0), None), Fraction(2, 3))
>>> caution.tolist(), unreliable.tolist()
([False, True, False, False], [True, False, False, True])
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from dprelease.canonical import Value
from dprelease.measures import Possible
from dprelease.words import marked

__all__ = ["COMPARED", "STATES", "SYMBOLS", "FigureRules", "ShareLimits", "ShowRules", "usual_base"]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# What a number can be that needs a sign, with the words of its legend.
STATES = {
    "caution": marked("use with care: half of its interval is more than {caution} % of the number"),
    "unreliable": marked("unreliable: half of its interval is more than {unreliable} % of the number"),
    "withheld": marked("withheld after the noise, because a noisy number of its row was below a limit"),
    "no_estimate": marked("no estimate: it cannot be made of the noisy measurements"),
    "low": marked("rounds to 0, and its interval does not hold 0"),
    "not_distinguishable": marked("not distinguishable from 0: noise alone may have made it"),
    "not_applicable": marked("not applicable: there is no such number in this row"),
}
COMPARED = ("not_distinguishable", "not_applicable")  # signs that only plans with columns that compare have
# Letters in square brackets, as the UK Government Analysis Function has them; [w] and [caution] are said by a legend.
SYMBOLS = {
    "caution": "[caution]",
    "unreliable": "[u]",
    "withheld": "[w]",
    "no_estimate": "[x]",
    "low": "[low]",
    "not_distinguishable": "[nd]",
    "not_applicable": "[z]",
}
_SHARE = (Fraction(0), Fraction(1))


class ShareLimits(Value):
    """When a share, a number between 0 and 1, is unreliable: by the width of its interval.

    Parker et al. 2017 (NCHS data presentation standards for proportions): good where the interval is at most 0.05
    wide, unreliable from 0.30 on, and between these where it is wider than 130 % of the share. Here the share is the
    smaller one of p and 1 - p, so that a share and what it leaves are judged alike.

    Attributes:
        narrow: Up to this width it is reliable.
        wide: From this width on it is not.
        relative: Between the two it is unreliable where the width is more than this times the smaller of p and 1 - p.
    """

    narrow: Fraction = Fraction(1, 20)
    wide: Fraction = Fraction(3, 10)
    relative: Fraction = Fraction(13, 10)


class FigureRules(Value):
    """The rules by which a release shows its numbers.

    With it a number that was moved after it was estimated has an interval that holds it too and no margin, pages show
    no number outside of its interval, and numbers are judged by half the width of their interval, not by the margin.

    Attributes:
        caution_above: Care is needed where half the interval is more than this part of the number; None: never.
        shares: How shares are judged; None: as any other number.
        symbols: The sign of each state (``STATES``).
        bases: By query and measure: numbers are rounded to multiples of this after the noise.
    """

    caution_above: Fraction | None = None
    shares: ShareLimits | None = None
    symbols: dict[str, str] = {}
    bases: dict[str, dict[str, Fraction]] = {}

    def judged(
        self, value: Floats, lower: Floats, upper: Floats, possible: Possible, above: Fraction | None
    ) -> tuple[Flags, Flags]:
        """Which numbers need care, and which are unreliable; none is both.

        A number outside of its interval, such as a negative count, is judged as the possible one that is nearest. Where
        there is no interval nothing is said.

        Args:
            value: Shape ``(cells,)``.
            lower: Of the same shape, the lower ends.
            upper: The upper ends.
            possible: What the true number can be: one between 0 and 1 is a share.
            above: A number is unreliable where half its interval is more than this part of it; None: never.
        """
        no = np.zeros(value.shape, dtype=bool)
        with np.errstate(over="ignore", invalid="ignore"):
            shown, width = np.clip(value, lower, upper), upper - lower
            if above is not None and self.shares is not None and possible == _SHARE:
                limits, rest = self.shares, np.minimum(shown, 1 - shown)
                between = (width > float(limits.narrow)) & (width > float(limits.relative) * rest)
                return no, (width >= float(limits.wide)) | between
            unreliable = no if above is None else _more(width, above, shown)
            care = no if self.caution_above is None else _more(width, self.caution_above, shown) & ~unreliable
        return care, unreliable


def _more(width: Floats, part: Fraction, shown: Floats) -> Flags:
    """Whether half the width is more than a part of the number: without a division, which would be rounded."""
    return np.asarray(width * part.denominator > 2 * part.numerator * np.abs(shown))


@dataclass(frozen=True)
class ShowRules:
    """How the numbers of a table are judged, and which of them are withheld.

    Attributes:
        above: A number is unreliable where its margin, or by ``figures`` half its interval, is more than this part of
            it; None: never.
        show: ``flag`` keeps an unreliable number, ``blank`` withholds it.
        nearest: Whether intervals are about the nearest possible number (``intervals.interval``).
        figures: The rules of newer plans; None: of a plan from before there were any.
    """

    above: Fraction | None
    show: Literal["flag", "blank"]
    nearest: bool
    figures: FigureRules | None

    def judged(
        self,
        value: Floats,
        margin: Floats,
        lower: Floats,
        upper: Floats,
        bounds: Possible,
        blank: Flags,
        *,
        counts: bool,
    ) -> tuple[Flags, Flags, Flags]:
        """Which numbers need care, which are unreliable, and which are not shown.

        Of a count whose interval begins at the least that is possible "at most U" is known. That is a result, however
        wide the interval is, so that it is marked and never withheld.

        Args:
            value: Shape ``(cells,)``.
            margin: The margins, of the same shape as all that follow.
            lower: The lower ends.
            upper: The upper ends.
            bounds: What the true numbers can be.
            blank: Which numbers are not shown whatever they are.
            counts: Whether they are counts.
        """
        none = np.zeros(value.shape, dtype=bool)
        if self.figures is None:
            weak = none if self.above is None else ~blank & (margin > float(self.above) * np.abs(value))
            return none, weak, blank | weak if self.show == "blank" else blank
        caution, weak = (~blank & each for each in self.figures.judged(value, lower, upper, bounds, self.above))
        if self.show == "flag":
            return caution, weak, blank
        result = lower <= float(bounds[0]) if counts and bounds[0] is not None else none
        return caution, weak, blank | (weak & ~result)


def usual_base(error: Fraction) -> Fraction | None:
    """The largest of 1, 2, 5, 10, 20, ... that is at most a standard error; None: it is below 1.

    Rounding to it adds at most 4 % to the error: sqrt(1 + 1/12) = 1.041.

    >>> [str(usual_base(Fraction(error))) for error in ("0.9", "1", "19", "20", "4999", "5000")]
    ['None', '1', '10', '20', '2000', '5000']
    """
    if error < 1:
        return None
    power = Fraction(10 ** (len(str(int(error))) - 1))
    return next(size * power for size in (5, 2, 1) if size * power <= error)
