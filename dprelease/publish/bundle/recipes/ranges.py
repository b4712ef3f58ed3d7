"""How prefixes and ranges are made of their draw, so that a stranger can work them out again."""

from __future__ import annotations

from typing import Any

from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.tables.ranges import step_of_sums

__all__ = ["ranges_recipe"]

_ROOT = (
    "F has n rows and columns, counted from 0, and no number above its diagonal. With p_k = floor(2^40 C(2k, k) / 4^k) "
    "and r_m = floor(sqrt(p_0^2 + ... + p_m^2)), the number in row i and column j is "
    "floor((2 grain p_(i - j) + r_(n - 1 - j)) / (2 r_(n - 1 - j)))."
)
_HELD = "F is the matrix beside this, row by row."
_PLAIN = "F is the matrix with 1 on its diagonal, and 0 elsewhere."
_SUMS = {
    "prefixes": "Add up x from the first key to each key: these are the numbers of the table.",
    "all": "Add up x from each key to itself and to every later one: these are the numbers of the table.",
}


def ranges_recipe(plan: ReleasePlan, query: PlannedQuery) -> dict[str, Any]:
    """The part of ``recipe.json`` on one query with ranges; it follows from the plan alone.

    Args:
        plan: That was measured.
        query: Of the plan, with ranges.
    """
    step, ranges = step_of_sums(plan, query), query.ranges
    if ranges is None:
        raise ValueError("only a query with ranges has sums along a column")
    factor = step.factor
    kind = "counts" if factor is None else factor.kind
    column = plan.catalog.tables[query.table].column(ranges.of)
    matrix = {} if factor is None or factor.rows is None else {"matrix": [list(row) for row in factor.rows]}
    told = {"root": _ROOT, "matrix": _HELD, "counts": _PLAIN}[kind]
    return {
        "query": query.name,
        "step": step.id,
        "of": ranges.of,
        "n": column.cells,
        "which": ranges.which,
        "kind": kind,
        "grain": None if factor is None else factor.grain,
        **matrix,
        "how": [
            f"For every combination of the other keys, the numbers of the step along {ranges.of} are y = F x + noise.",
            told,
            "Solve F x = y.",
            _SUMS[ranges.which],
            "The standard error of such a sum s'x is the square root of (s' F^-1 F'^-1 s) times the variance of the "
            "noise on one number, which stands beside the step.",
        ],
    }
