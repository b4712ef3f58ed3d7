"""What a plan rounds values to before anything is made of them, and whether anybody was told."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.catalog.table import Column
from dprelease.plan.document import ReleasePlan
from dprelease.spec.steps import COARSE

__all__ = ["Rounded", "grid_facts", "grid_texts", "is_rounded", "rounded", "rounded_in_silence"]


@dataclass(frozen=True)
class Rounded:
    """A column on one of its grids.

    Attributes:
        table: The table of the column.
        column: As declared.
        step: The step of the grid.
        kinds: The quantities that are measured on it, in plan order: ``sum``, ``square``, ``quantile``.
        width: The width of the narrowest clip that is measured on it.
    """

    table: str
    column: Column
    step: Fraction
    kinds: tuple[str, ...]
    width: Fraction

    @property
    def is_coarse(self) -> bool:
        """Whether a step is wider than a thousandth of a clip."""
        return self.step > COARSE * self.width


def is_rounded(column: Column, step: Fraction) -> bool:
    """Whether a grid changes values: whole numbers are on a grid of 1 already."""
    return column.type == "decimal" or step != 1


def rounded(plan: ReleasePlan) -> tuple[Rounded, ...]:
    """Every column and grid that something is measured on and that changes values, in the order of the steps."""
    found: dict[tuple[str, str, Fraction], tuple[list[str], list[Fraction]]] = {}
    for measured in plan.measured:
        for part in measured.parts:
            if part.kind in ("sum", "square", "quantile") and part.column is not None:
                kinds, widths = found.setdefault((measured.aggregate.table, part.column, part.step), ([], []))
                kinds.append(part.kind)
                widths.append((part.high - part.low) * part.step)
    columns = {place: plan.catalog.tables[place[0]].column(place[1]) for place in found}
    return tuple(
        Rounded(place[0], columns[place], place[2], tuple(dict.fromkeys(kinds)), min(widths))
        for place, (kinds, widths) in found.items()
        if is_rounded(columns[place], place[2])
    )


def rounded_in_silence(plan: ReleasePlan) -> tuple[Rounded, ...]:
    """Decimals that were rounded to whole numbers, over a thousandth of a clip, by a plan that says nothing of it.

    Such plans are older than ``Column.step_from``: a decimal without a written step had a step of 1. A written 1 cannot
    be told from that one, and the pages are as silent about it.
    """
    return tuple(
        each
        for each in rounded(plan)
        if each.column.type == "decimal" and each.column.step_from is None and each.step == 1 and each.is_coarse
    )


def grid_facts(plan: ReleasePlan) -> list[dict[str, Any]]:
    """The grids of a plan that says who chose them, for machines."""
    return [
        {
            "table": each.table,
            "column": each.column.name,
            "of": list(each.kinds),
            "step": str(each.step),
            "chosen_by": each.column.step_from,
        }
        for each in rounded(plan)
        if each.column.step_from is not None
    ]


def grid_texts(plan: ReleasePlan) -> tuple[str, ...]:
    """The grids that nobody wrote, for people."""
    return tuple(
        f"{each.table}.{each.column.name}: no `step` is written, so its values are rounded to {_shown(each.step)} for "
        f"{' and '.join(_WORDS[kind] for kind in each.kinds)}"
        for each in rounded(plan)
        if each.column.step_from == "limits"
    )


_WORDS = {"sum": "sums and means", "square": "variances", "quantile": "quantiles"}


def _shown(step: Fraction) -> str:
    """A power of ten, at most 1, in digits."""
    return "whole numbers" if step == 1 else f"multiples of 0.{'0' * (len(str(step.denominator)) - 2)}1"
