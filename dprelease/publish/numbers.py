"""Numbers as a person reads them: thousands separated, no more digits than the margin supports.

>>> with_margin(1234.4, 55.3, 0)
('1,234', '56')
>>> with_margin(48211.38472, 3120.4, None)
('48,210', '3,130')
>>> with_margin(-2.0, 55.0, 0)[0]
'−2'
>>> with_margin(-0.536, 1370.0, None), with_margin(1.062, 1370.0, None), with_margin(0.0, 1370.0, None)[0]
(('−0.536', '1,370'), ('1.06', '1,370'), '0')
>>> at_most(Fraction(2, 3))
'0.667'
>>> at_least(Fraction(2, 3))
'0.666'
>>> odds_factor(Fraction(2)), sure_after(Fraction(2)), percent_at_most(Fraction(1, 3))
('7.39', '88.1', '33.4')
>>> beliefs(Fraction(1, 100), Fraction(2))
('0.136', '6.95')
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from dprelease.measures.text import decimal
from dprelease.privacy.budget import round_up
from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.words import marked_many, number_written, phrase_many, spoken

__all__ = [
    "at_least",
    "at_most",
    "beliefs",
    "odds_factor",
    "percent",
    "percent_at_most",
    "power_of_ten",
    "round_step",
    "so_many",
    "sure_after",
    "with_margin",
    "zeros_dropped",
]

_DIGITS = 3
_THINGS = {
    "row": marked_many("{number} row", "{number} rows"),
    "cell": marked_many("{number} cell", "{number} cells"),
    "table": marked_many("{number} table", "{number} tables"),
    "column": marked_many("{number} column", "{number} columns"),
    "draw": marked_many("{number} draw", "{number} draws"),
}
_CONTEXT = Context(prec=400)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def with_margin(value: float, margin: float, places: int | None) -> tuple[str, str]:
    """A value and its margin, both at the place of the margin's third digit; a value that would be 0 there at its own.

    Args:
        value: Finite, or NaN: nothing is published.
        margin: At least 0; rounded up.
        places: Decimals in which both are exact, or None.

    Returns:
        Two texts; the first is empty where there is no value, the second where there is no margin.
    """
    if math.isnan(value):
        return "", ""
    finest = -places if places is not None else -12
    if not math.isfinite(margin) or margin <= 0:
        place = finest if places is not None else _place(abs(value), finest)
        return _rounded(value, place, ROUND_HALF_EVEN), "0" if margin == 0 else ""
    place = _place(margin, finest)
    # A number that is not 0 is not shown as 0, however large its margin: half a percent is no zero.
    own = min(place, _place(abs(value), finest)) if value and 2 * abs(value) <= 10.0**place else place
    return _rounded(value, own, ROUND_HALF_EVEN), _rounded(margin, place, ROUND_CEILING)


def zeros_dropped(number: str) -> str:
    """A number as it is written, without zeros behind its last decimal, in the language that is spoken.

    >>> zeros_dropped("1,230.00"), zeros_dropped("1,200"), zeros_dropped("−0.50")
    ('1,230', '1,200', '−0.5')
    """
    point = spoken().point
    return number.rstrip("0").rstrip(point) if point in number else number


def _place(size: float, finest: int) -> int:
    """The power of ten of the last digit shown."""
    return max(finest, Decimal(repr(size)).adjusted() - _DIGITS + 1) if size else max(finest, 0)


def _rounded(number: float, place: int, rounding: str) -> str:
    unit = Decimal(1).scaleb(place)
    return decimal(Decimal(repr(number)).quantize(unit, rounding, context=_CONTEXT))


def at_most(value: Fraction, digits: int = _DIGITS) -> str:
    """A loss, never shown smaller than it is; small ones as a power of ten."""
    text = round_up(value, digits)
    if "e" not in text:
        return decimal(Decimal(text))
    mantissa, exponent = text.split("e")
    power = power_of_ten(int(exponent))
    return power if mantissa == "1" else f"{number_written(mantissa)} × {power}"


def power_of_ten(exponent: int) -> str:
    """A power of ten, with its exponent raised."""
    return f"10{str(exponent).translate(_RAISED)}"


def round_step(span: float) -> float:
    """The distance between ticks of an axis: a round number, three to six of which make up the span."""
    power = 10.0 ** math.floor(math.log10(span / 5))
    return next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= span / 5)


def so_many(number: int, what: str) -> str:
    """So many of something, in the singular or the plural: ``1 row``, ``2,000 rows``."""
    return phrase_many(*_THINGS[what], number)


def at_least(value: Fraction, digits: int = _DIGITS) -> str:
    """What is promised from below, never shown larger than it is; small ones as a power of ten."""
    if Fraction(round_up(value, digits)) <= value:
        return at_most(value, digits)
    unit = Fraction(10) ** (Decimal(float(value)).adjusted() - digits + 1)
    return at_most(value // unit * unit, digits)


def percent(share: Fraction) -> str:
    """A share as a percentage with at most four digits, rounded to even."""
    return number_written(f"{float(share) * 100:.4g}")


def odds_factor(epsilon: Fraction) -> str:
    """e^epsilon rounded up: how much likelier one unit can make any outcome."""
    return "1" if epsilon == 0 else at_most(upper(CONTEXT.exp(real(epsilon))))


def percent_at_most(chance: Fraction) -> str:
    """A probability in percent, rounded up to three digits; more where it would else be 100 and is not."""
    return "100" if chance >= 1 else _below_certain(chance * 100)


def sure_after(epsilon: Fraction) -> str:
    """How sure, in percent, an outcome with a loss of epsilon makes somebody who was 50 % sure; rounded up."""
    factor = CONTEXT.exp(real(epsilon))
    return _below_certain(upper(factor / (1 + factor)) * 100)


def beliefs(before: Fraction, epsilon: Fraction) -> tuple[str, str]:
    """What somebody can believe of one unit after reading a release, in percent: at least, and at most.

    Bayes' rule with a likelihood ratio between e^-epsilon and e^epsilon: the odds grow or shrink by at most e^epsilon.
    With a delta above 0 the ratio can be larger, and that is more likely than delta: ``privacy.tails`` says how likely.

    Args:
        before: What was believed, strictly between 0 and 1.
        epsilon: The epsilon of the release.

    Returns:
        The smallest belief rounded down, and the largest rounded up.
    """
    factor, odds = CONTEXT.exp(real(epsilon)), real(before / (1 - before))
    most, least = odds * factor / (1 + odds * factor), odds / factor / (1 + odds / factor)
    shown_most = _below_certain(upper(most) * 100)
    return at_least(upper(least) * (1 - Fraction(1, 10**20)) * 100), shown_most


def _below_certain(chance: Fraction) -> str:
    """A percentage rounded up to three digits, more where it would else be 100."""
    return next((text for places in range(3, 25) if (text := at_most(chance, places)) != "100"), "100")
