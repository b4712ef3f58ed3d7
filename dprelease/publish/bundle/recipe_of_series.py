"""How periods that share their noise, and sums of them, are made of the draws of all periods, as formulas."""

from __future__ import annotations

from typing import Any

from dprelease.estimate.series import PARTS
from dprelease.plan.document import ReleasePlan

__all__ = ["recipe_of_series"]

_WORDS = (
    "Take the draws y of `step` of all `periods` in their order: those of earlier ones are under `earlier/`, the last "
    "one is in the file of the step. With the numbers c_0, c_1, ... of `band` work out, period by period, x_t = (y_t - "
    "c_1 x_(t-1) - c_2 x_(t-2) - ...) / c_0, where x of a period before the first one is left out; in whole numbers, x "
    f"times 2^40, each quotient rounded down. The number of a period is x_t rounded to the nearest of {PARTS} parts of "
    "a grid step (halves up), times the grid. A sum is that of the so rounded numbers of its last `count` periods; "
    "without a count it would reach back before the first period, and is blank.",
    "The noise on a number is the sum of w_k times the noise of the draw k periods before, with the weights of the "
    "same series of quotients: w_k = h_k + ... + h_(k-count+1), h the power series of 1 / (c_0 + c_1 z + ...). The "
    "noise of every draw has the standard deviation `scale` at most; a standard error is that of the sum, and half a "
    "part of a step for the rounding of each period.",
)


def recipe_of_series(plan: ReleasePlan) -> list[dict[str, Any]]:
    """The queries whose periods share their noise."""
    found = []
    for query in plan.queries:
        series = query.series
        if series is None:
            continue
        steps = {label: plan.step(feeds[0].step) for label, feeds in query.inputs.items()}
        sums = [
            {
                "number": name,
                "of": asked.measure,
                "count": series.length(asked.sum_of) if asked.sum_of else None,
            }
            for name, asked in query.compare.items()
        ]
        found.append(
            {
                "query": query.name,
                "periods": list(series.periods),
                "band": list(series.band.coefficients),
                "draws": [
                    {"measure": label, "step": step.id, "grid": str(step.parts[0].grid), "scale": str(step.scale)}
                    for label, step in steps.items()
                ],
                "sums": sums,
                "words": list(_WORDS),
            }
        )
    return found
