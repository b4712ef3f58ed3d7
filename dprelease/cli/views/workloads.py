"""A workload as lines of ``dprelease plan``: one for the tables of each level and number of attributes."""

from __future__ import annotations

from fractions import Fraction

from dprelease.catalog.aggregate import cells_of
from dprelease.plan.document import Output, ReleasePlan, Workload

__all__ = ["workload_rows"]


def workload_rows(plan: ReleasePlan, workload: Workload) -> list[list[str]]:
    """Query, measure, cells, how, draws, share, margin and nothing relative; margins are the least and the largest."""
    outputs = {output.query: output for output in plan.outputs}
    groups: dict[tuple[int, int], list[str]] = {}
    for name in workload.tables:
        level, axes = workload.place(name)
        groups.setdefault((level, len(axes)), []).append(name)
    cells = {query.name: cells_of(query, plan.catalog) or 0 for query in plan.queries}
    share = {step.id: step.share for step in plan.steps}
    rows: list[list[str]] = []
    for (level, ways), names in groups.items():
        first = f"{workload.levels[level]}, " if workload.levels else ""
        in_group = [take for take in workload.takes if (take.level, len(take.axes)) == (level, ways)]
        takes = [take for take in in_group if take.step in share]
        exact = f", {len(in_group) - len(takes)} exact" if len(in_group) > len(takes) else ""
        rows.append(
            [
                workload.name if not rows else "",
                f"{first}{_ways(ways)}: {len(names)} table{'s' if len(names) > 1 else ''}",
                f"{sum(cells[name] for name in names)}",
                f"{workload.strategy}, {len(takes)} draws{exact}",
                "",
                f"{float(sum(share[take.step] for take in takes)):.1%}",
                _margins([outputs[name] for name in names]),
                "",
            ]
        )
    drawn: dict[tuple[int, int], list[Fraction]] = {}
    for take in workload.takes:
        place = (take.level, len(take.axes))
        if place not in groups and take.step in share:  # such as the total, which all tables share
            drawn.setdefault(place, []).append(share[take.step])
    for (level, ways), shares in drawn.items():
        first = f"{workload.levels[level]}, " if workload.levels else ""
        how = f"{workload.strategy}, {len(shares)} draws"
        rows.append(["", f"{first}{_ways(ways)}: not published", "", how, "", f"{float(sum(shares)):.1%}", "", ""])
    return rows


def _ways(count: int) -> str:
    return "total" if count == 0 else f"{count}-way"


def _margins(outputs: list[Output]) -> str:
    known = sorted(float(output.margin) for output in outputs if output.margin is not None)
    ends = dict.fromkeys(f"{margin:,.4g}" for margin in (known[0], known[-1]))
    return f"± {' to '.join(ends)}"
