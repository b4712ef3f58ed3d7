"""What researchers get beside the noisy measurements: how to read them, an example, covariances, and what was moved.

All of it but ``moved.json`` follows from the plan. Plans from before have none of it (``publish.research``).
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from math import isinf, nextafter
from typing import Any

import numpy as np

from dprelease.canonical import dumps
from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.estimate.workloads.reconcile import measured_variances
from dprelease.plan.design.workload_design import design_of
from dprelease.plan.document import PlannedQuery, ReleasePlan, Workload
from dprelease.publish.columns import moves

__all__ = ["MOVED", "moved_file", "research_files", "research_paths"]

_FOLDER = "measurements"
README, EXAMPLE = f"{_FOLDER}/README.md", f"{_FOLDER}/example.py"
COVARIANCE, FUNCTION, MOVED = f"{_FOLDER}/covariance.json", f"{_FOLDER}/covariance.py", f"{_FOLDER}/moved.json"
_WORDS = {
    "measured": "of every residual, a set of attributes: the variance of what measures it at each level, the top "
    "first; null where nothing does, 0 where it is exact",
    "parents": "of every level below the top: for each node, counted from 0, the place of its parent",
    "sizes": "how many keys every attribute has",
    "zeros": "whether combinations were declared impossible: these are the covariances before that was put to use",
    "before": "all of it is about the estimates before anything was made non-negative or whole: `_unadjusted`",
}


def research_files(plan: ReleasePlan) -> dict[str, bytes]:
    """Everything here that the plan alone decides, by path; empty for plans from before."""
    if plan.publish.research is None:
        return {}
    found = {README: _readme(plan)}
    if _plain(plan):
        found[EXAMPLE] = _text("example.txt")
    if plan.workloads:
        found[COVARIANCE] = (dumps(_covariances(plan)) + "\n").encode()
        found[FUNCTION] = _text("covariance.txt")
    return found


def research_paths(plan: ReleasePlan) -> tuple[str, ...]:
    """The paths of all files here that a release of the plan has."""
    if plan.publish.research is None:
        return ()
    example = (EXAMPLE,) if _plain(plan) else ()
    return (README, *example, *((COVARIANCE, FUNCTION) if plan.workloads else ()), *((MOVED,) if _moving(plan) else ()))


def moved_file(plan: ReleasePlan, tables: Iterable[PublishedTable]) -> dict[str, bytes]:
    """``moved.json``: what was made non-negative or whole of each table, and by how much at most; else nothing.

    Args:
        plan: As it is shown.
        tables: The published tables, derived ones among them.
    """
    moving = {query.name for query in _moving(plan)}
    if plan.publish.research is None or not moving:
        return {}
    told = [
        _moved(table, measure)
        for table in tables
        if table.name in moving
        for measure in table.measures
        if measure.unadjusted is not None
    ]
    words = {
        "most": "the largest distance of a number in the files from its `_unadjusted` estimate, rounded up",
        "moved": "how many numbers are not what was estimated",
    }
    return {MOVED: (dumps({"format": 1, "words": words, "tables": told}) + "\n").encode()}


def _moved(table: PublishedTable, measure: PublishedMeasure) -> dict[str, Any]:
    before = measure.value if measure.unadjusted is None else measure.unadjusted
    apart = np.abs(np.asarray(measure.value) - np.asarray(before))
    apart = apart[np.isfinite(apart)]
    most = float(apart.max(initial=0.0))
    return {
        "table": table.name,
        "measure": measure.name,
        "numbers": len(apart),
        "moved": int(np.count_nonzero(apart)),
        "most": "0" if most == 0 else repr(nextafter(most, float("inf"))),
    }


def _moving(plan: ReleasePlan) -> list[PlannedQuery]:
    return [query for query in plan.queries if moves(plan, query)]


def _plain(plan: ReleasePlan) -> list[PlannedQuery]:
    """The queries whose numbers have formulas of their own, row by row, and whose rows are declared."""
    return [
        query
        for query in plan.queries
        if query.workload is None and query.ranges is None and query.totals is None and query.measures
        and query.series is None
        and query.selection is None and query.ranking is None
    ]  # fmt: skip


def _covariances(plan: ReleasePlan) -> dict[str, Any]:
    return {"format": 1, "words": _WORDS, "workloads": [_of_workload(plan, each) for each in _alone(plan)]}


def _alone(plan: ReleasePlan) -> list[Workload]:
    """The workloads without a series: of one with it the numbers of a period are no draws of that period."""
    shared = {query.workload for query in plan.queries if query.series is not None}
    return [each for each in plan.workloads if each.name not in shared]


def _of_workload(plan: ReleasePlan, workload: Workload) -> dict[str, Any]:
    steps = {take.step: plan.taken(take.step) for take in workload.takes}
    design = design_of(workload, plan.catalog, steps)
    return {
        "workload": workload.name,
        "attributes": list(workload.attributes),
        "sizes": list(design.sizes),
        "levels": list(workload.levels),
        "parents": [each.tolist() for each in design.tree.parents],
        "zeros": workload.name in plan.catalog.zeros,
        "residuals": [
            {
                "attributes": [workload.attributes[at] for at in b],
                "measured": [None if isinf(each) else repr(float(each)) for each in own],
            }
            for b, own in measured_variances(design).items()
        ],
    }


def _readme(plan: ReleasePlan) -> bytes:
    parts = [_text("measurements.md")]
    if plan.workloads:
        parts.append(_text("workloads.md"))
    if plan.series:
        parts.append(_text("series.md"))
    after = {name for each in plan.workloads for name in each.post}
    if after & {"nonnegative", "integer"}:
        parts.append(_text("moved.md"))
    parts += [_text(f"{name}.md") for name in ("nonnegative", "integer") if name in after]
    return b"\n".join(parts)


def _text(name: str) -> bytes:
    return (files("dprelease.publish") / "templates" / "research" / name).read_bytes()
