"""How periods that share their noise, and sums of them, are made of the draws of all periods, as formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.estimate.series import PARTS
from dprelease.measures.text import FormulaTerm
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.comparing.earlier import EarlierRelease, publication_told

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

_COMBINED = (
    "What is so made of the draws of a query with `ranges` are not its numbers but combinations of its cells, the y "
    "that stand there, in steps of their lattice: of each period solve F x = y, add up as it is said there, and round "
    f"each number to the nearest of {PARTS} parts. A sum is that of the rounded numbers of its last `count` periods.",
)

_RECONCILED = (
    "What is so made of the draws of a query with `marginals` are not its numbers but those of its draws, in steps of "
    "their lattices: of each period make the tables as `workloads` says, with these in the place of what the steps "
    f"hold, and round each number to the nearest of {PARTS} parts. A sum is that of the rounded numbers of its last "
    "`count` periods. Variances are those that `workloads` says, times the sum of the squares of the weights w_k.",
)

_MADE = (
    "A measure under `made` is its formula, in which x1, x2, ... are the rounded numbers of a period in grid steps, "
    "of the draws under `inputs`; of several periods together the sums of these over the last `count` periods. Where "
    "one of `blank` holds, nothing is published.",
)


def recipe_of_series(plan: ReleasePlan, taken: Mapping[str, EarlierRelease]) -> list[dict[str, Any]]:
    """The queries whose periods share their noise."""
    found = []
    for name, query in {query.workload or query.name: query for query in plan.queries if query.series}.items():
        series = query.series
        if series is None:
            continue
        steps = [(label, plan.step(feeds[0].step)) for label, feeds in query.inputs.items() if len(feeds) == 1]
        if query.workload is not None:
            steps = [(label, plan.step(step)) for label in query.measures for step in plan.fed_by(query)]
        made = [_made(plan, query, label) for label, feeds in query.inputs.items() if len(feeds) > 1]
        sums = [
            {
                "number": number,
                "of": asked.measure,
                "count": series.length(asked.sum_of) if asked.sum_of else None,
            }
            for number, asked in query.compare.items()
        ]
        told = [publication_told(period, taken) for period in series.periods]
        replaced = [each for each in told if len(each) > 1]
        found.append(
            {
                "query": name,
                "periods": list(series.periods),
                **({"replaced": replaced} if replaced else {}),
                "band": list(series.band.coefficients),
                "draws": [
                    {"measure": label, "step": step.id, "grid": str(step.parts[0].grid), "scale": str(step.scale)}
                    for label, step in steps
                ],
                "sums": sums,
                **({"made": made} if made else {}),
                "words": [*_WORDS, *(_MADE if made else ()), *_combined(query)],
            }
        )
    return found


def _combined(query: PlannedQuery) -> tuple[str, ...]:
    """What is done with combinations of cells, of each period and then of several."""
    return _RECONCILED if query.workload is not None else _COMBINED if query.ranges is not None else ()


def _made(plan: ReleasePlan, query: PlannedQuery, label: str) -> dict[str, Any]:
    """A mean or a ratio, of the draws that it is made of."""
    parts = [plan.step(feed.step).parts[0] for feed in query.inputs[label]]
    formula = query.measures[label].formula([FormulaTerm(f"x{at}", part) for at, part in enumerate(parts, start=1)])
    return {
        "measure": label,
        "formula": formula.text,
        "blank": list(formula.blank),
        "inputs": [feed.step for feed in query.inputs[label]],
    }
