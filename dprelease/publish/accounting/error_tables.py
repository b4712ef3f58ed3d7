"""How far the tables of a workload can be from the truth, by the law of the noise alone: no data, no draw.

Statistical offices publish such tables beside a census, by level of geography and by size of the count. Here they need
no experiment: least squares on draws of known variance has a known variance
(``estimate.workloads.zeros.cell_variances``). A relative error is the standard error over the true count; that of a
count of N is as large as one N-th of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dprelease.catalog.aggregate import cells_of
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.budget import round_up
from dprelease.publish.numbers import at_most
from dprelease.words import amount, phrase

__all__ = ["SIZES", "error_facts", "error_rows"]

SIZES = (10, 100, 1_000, 10_000)
"""True counts for which a relative error is said."""


def error_facts(plan: ReleasePlan) -> dict[str, Any]:
    """``error_tables`` of ``accounting.json``: one entry for every table; nothing where a plan has no workload.

    ``standard_error`` and ``margin`` are in rows, of the least accurate cell of the level, rounded up; ``margin`` is
    null where none is promised. ``relative_error`` is by true count: the standard error as a share of it, rounded up.
    """
    found = _tables(plan)
    return {"error_tables": found} if found else {}


def _tables(plan: ReleasePlan) -> list[dict[str, Any]]:
    told = {output.query: output for output in plan.outputs}
    found = []
    for workload in plan.workloads:
        queries = {query.name: query for query in plan.queries if query.workload == workload.name}
        for name in workload.tables:
            level, axes = workload.place(name)
            output = told[name]
            if output.standard_error is None:
                continue
            error = Fraction(output.standard_error)
            found.append(
                {
                    "workload": workload.name,
                    "level": workload.levels[level] if workload.levels else "all",
                    "table": name,
                    "attributes": [workload.attributes[at] for at in axes],
                    "cells": cells_of(queries[name], plan.catalog),
                    "standard_error": output.standard_error,
                    "margin": output.margin,
                    "relative_error": {str(size): round_up(error / size, 4) for size in SIZES},
                }
            )
    return found


def error_rows(plan: ReleasePlan) -> list[dict[str, Any]]:
    """The same for the page: one row for the tables of each level and number of attributes; errors are the largest."""
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for each in _tables(plan):
        groups.setdefault((each["workload"], each["level"], len(each["attributes"])), []).append(each)
    return [
        {
            "workload": workload,
            "level": level if level != "all" else phrase("all"),
            "attributes": str(ways) if ways else phrase("total"),
            "tables": amount(len(tables)),
            "cells": amount(sum(each["cells"] for each in tables)),
            "standard_error": _ends([each["standard_error"] for each in tables]),
            "margin": _ends([each["margin"] for each in tables]),
            "relative": [
                _percent(max(Fraction(each["relative_error"][str(size)]) for each in tables)) for size in SIZES
            ],
        }
        for (workload, level, ways), tables in groups.items()
    ]


def _ends(texts: Sequence[str | None]) -> str:
    """The least and the largest, once where they are shown alike; rounded up."""
    if None in texts:
        return phrase("none")
    numbers = sorted(Fraction(text) for text in texts if text is not None)
    lower, upper = at_most(numbers[0]), at_most(numbers[-1])
    return lower if lower == upper else phrase("{lower} to {upper}", lower=lower, upper=upper)


def _percent(share: Fraction) -> str:
    return "0" if not share else phrase("over 100 %") if share > 1 else f"{at_most(100 * share, 2)} %"
