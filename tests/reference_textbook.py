"""The textbook form of advanced composition, which is a theorem only inside a guard: kept to explain, not to plan."""

from __future__ import annotations

from fractions import Fraction

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.rounding import CONTEXT, real, upper

__all__ = ["textbook_epsilon", "textbook_holds"]


def textbook_holds(epsilon: Fraction, count: int, slack: Fraction) -> bool:
    """Whether ``exp(epsilon) - 1 <= sqrt(2 ln(1 / slack) / count)``: where the textbook form is proved.

    Dwork, Rothblum and Vadhan 2010, Theorem III.3 gives ``epsilon sqrt(2 k ln(1/d')) + k epsilon (exp(epsilon) - 1)``.
    Twice its first summand bounds it exactly where the second one is not the larger, which is this inequality.
    Outside, the form can claim less than is true: at epsilon 1, 1,000 draws and d' = 1e-6 it says 332 where the
    smallest epsilon that holds is 591.

    Args:
        epsilon: Loss of one draw.
        count: The number of draws, at least 1.
        slack: The d' of the theorem, above 0 and below 1.
    """
    if not 0 < slack < 1 or epsilon < 0 or count < 1:
        return False
    return bool(CONTEXT.expm1(real(epsilon)) <= CONTEXT.sqrt(-2 * CONTEXT.log(real(slack)) / count))


def textbook_epsilon(epsilon: Fraction, count: int, slack: Fraction) -> Fraction:
    """``epsilon sqrt(8 count ln(1 / slack))``, rounded up, at total delta ``count d + slack``.

    Source: Dwork and Roth 2014, Corollary 3.21, solved for the total. Never the smallest choice.

    Raises:
        UnsupportedEvent: Outside ``textbook_holds``.
    """
    if not textbook_holds(epsilon, count, slack):
        raise UnsupportedEvent(
            f"the textbook form of advanced composition is not proved for {count} draws of epsilon "
            f"{float(epsilon):.6g} at delta {float(slack):.6g}",
            detail="it needs exp(epsilon) - 1 <= sqrt(2 ln(1/delta) / draws), and claims too little outside",
            hint="write `accounting: advanced` (the exact optimum for such draws) or `accounting: auto`",
        )
    return upper(real(epsilon) * CONTEXT.sqrt(-8 * count * CONTEXT.log(real(slack))))
