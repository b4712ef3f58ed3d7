"""How the columns that compare, and tables by SQL, are made of published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.plan.document import ReleasePlan
from dprelease.publish.comparing.earlier import FOLDER, EarlierRelease, period_of, publication_told

__all__ = ["recipe_of_comparisons", "recipe_of_derived"]

_COMPARED = {
    "share": "{whole} * clip(x / t, 0, 1), where t is the number of the total in the same row",
    "change": "x - y, where y is the same number of the earlier period",
    "growth": "100 * (x / y - 1), where y is the same number of the earlier period",
    "index": "100 * x / y, where y is the same number of the base period",
    "difference": "x - g, where g is the number of the other group in the row with otherwise the same keys",
}


def recipe_of_comparisons(plan: ReleasePlan, taken: Mapping[str, EarlierRelease]) -> list[dict[str, Any]]:
    """The columns that are made of published numbers, before any of these is rounded."""
    found = []
    for query in (each for each in plan.queries if each.series is None):
        for name, asked in query.compare.items():
            of_count = asked.kind in ("change", "difference")
            figures = plan.publish.figures
            base = None if figures is None else figures.bases.get(query.name, {}).get(name)
            found.append(
                {
                    "query": query.name,
                    "measure": name,
                    "what": asked.described(),
                    "x": asked.measure,
                    "formula": _COMPARED[asked.kind].format(whole=asked.whole),
                    "blank": [] if of_count else ["the number below is less than one step of its grid"],
                    **({"total": list(asked.share_of)} if asked.share_of is not None else {}),
                    **(publication_told(period_of(plan, asked), taken) if asked.period else {}),
                    **({"group": list(asked.difference_from)} if asked.difference_from else {}),
                    **({"rounded_to": str(base)} if base is not None else {}),
                }
            )
    return found


def recipe_of_derived(plan: ReleasePlan, taken: Mapping[str, EarlierRelease]) -> list[dict[str, Any]]:
    """The SQL of derived tables; of tables of earlier periods what it calls them, and where their measurements are."""
    found = []
    for derived in plan.derive:
        earlier = {
            name: {
                "query": each.query,
                **publication_told(each.period_in(plan.release.period), taken),
                "measurements": f"{FOLDER}/",
            }
            for name, each in derived.earlier.items()
        }
        found.append({"name": derived.name, "sql": derived.sql, **({"earlier": earlier} if earlier else {})})
    return found
