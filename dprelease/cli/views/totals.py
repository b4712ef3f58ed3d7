"""The small table of totals in ``plan``: what drawing them takes from the cells, and what adding up would leave."""

from __future__ import annotations

from fractions import Fraction

from dprelease.cli.views import say, text_table
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.totals import totals_facts

__all__ = ["print_totals"]


def print_totals(plan: ReleasePlan) -> None:
    """One table for each query with totals, with the standard errors of its cells and of each table of totals."""
    facts = totals_facts(plan)
    for query in dict.fromkeys(each["query"] for each in facts):
        own = [each for each in facts if each["query"] == query]
        drawn = 1 - Fraction(own[0]["part"])
        measures = [name for name in dict.fromkeys(each["measure"] for each in own) if _known(own, name)]
        say(f"totals of {query}, drawn with {float(drawn):.0%} of its budget: standard errors, in brackets what they")
        say("would be if all of it drew the cells, and totals were added up")
        rows = []
        for by in dict.fromkeys(tuple(each["by"]) for each in own):
            lines = {each["measure"]: each for each in own if tuple(each["by"]) == by}
            first = next(iter(lines.values()))
            part = "added up" if first["part"] is None else f"{float(Fraction(first['part'])):.1%}"
            cells = [f"{_short(lines[name]['standard_error'])} ({_short(lines[name]['standard_error_added_up'])})"
                     for name in measures]  # fmt: skip
            rows.append([", ".join(by) or "total", f"{first['cells']:,}", part, *cells])
        right = frozenset(range(1, 3 + len(measures)))
        say(text_table(["by", "rows", "share", *measures], rows, right=right))
        say("")


def _known(lines: list[dict[str, str | None]], measure: str) -> bool:
    return all(each["standard_error"] is not None for each in lines if each["measure"] == measure)


def _short(number: str) -> str:
    found = float(number)
    return f"{found:,.0f}" if found >= 1000 else f"{found:.3g}"
