"""How quantiles are made of a noisy draw of counts of classes of values, in words that a stranger can follow."""

from __future__ import annotations

from typing import Any

from dprelease.plan.document import Step

__all__ = ["CLASS_WORDS", "recipe_of_classes"]

CLASS_WORDS = {
    "quantile(x, a)": "the quantile at the rank a of the values that are counted in classes; `classes` says how it is "
    "found",
    "quantile_low(x, a)": "where the interval begins that is found in the same way with half of what the confidence "
    "leaves",
    "prefix(x, i)": "how many of these values lie in the first i classes: P(i), as `classes` says",
    "total(x)": "what these values add up to, in steps, each taken to be in the middle of its class: T, as `classes` "
    "says",
    "gini(x)": "the Gini coefficient of these values; `classes` says how it is found",
}
_PLACED = (
    "Add up x from the first class to each class: these are P(1) to P(n). G(i) is half of the largest of P(1) to P(i), "
    "and half of the least of P(i) to P(n). N is P(n), or 0 where that is negative.",
    "The quantile at the rank a is in the first class i with G(i) >= a N, in the last class where there is none. With "
    "u and v the first and the last value of the class, and g = G(i - 1), 0 before the first class, it is u + floor((v "
    "- u) t + 1/2), t being (a N - g) / (G(i) - g), but at least 0 and at most 1.",
    "P(i) - a P(n) is a sum s'x. Its standard error s(i) is the square root of (s' F^-1 F'^-1 s) times the variance of "
    "the noise on one number, for which the square of the scale is taken.",
    "With z the point that a normal variable exceeds with half of what the confidence leaves, the interval begins at "
    "the first value of the first class i with P(i) - a P(n) >= -z s(i). It ends at the last value of the last class i "
    "that is the first class, or has P(i - 1) - a P(n) <= z s(i - 1). Where it begins nowhere it is all values.",
    "The published value is that quantile, moved to the nearer end of the interval where it lies outside of it, times "
    "the step of values. The margin is the distance of the farther end.",
    "With m(i) the mean of the first and the last value of class i, T is m(n) P(n) less the sum of (m(i + 1) - m(i)) "
    "P(i) over the classes before the last. The Gini coefficient is the sum over them of (m(i + 1) - m(i)) (P(i) (P(n) "
    "- P(i)) + s(i)^2), s(i) being that of a = P(i) / P(n), over P(n) T: but at least 0 and at most 1, and moved into "
    "its interval.",
)


def recipe_of_classes(step: Step, matrix: str) -> dict[str, Any]:
    """The part of a recipe on one draw of counts of classes of grid values.

    Args:
        step: The draw, which has a factor.
        matrix: What F is, in words.
    """
    quantity, factor = step.aggregate.quantity, step.factor
    return {
        "step": step.id,
        "column": quantity.column,
        "n": len(quantity.classes),
        "first_values": list(quantity.classes),
        "last_value": quantity.high,
        "step_of_values": str(quantity.step),
        "kind": None if factor is None else factor.kind,
        "grain": None if factor is None else factor.grain,
        "how": [
            "The numbers of the step in a cell, one for each class of values, are y = F x + noise. `first_values` has "
            "the first value of each class, and `last_value` is the last one of the last class, in steps of values.",
            matrix,
            "Solve F x = y.",
            *_PLACED,
        ],
    }
