"""A workload: many tables of counts that are planned, measured and reconciled as one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dprelease.canonical import Value
from dprelease.plan.document.goal import Goal

__all__ = ["PostProcess", "Take", "Workload"]

PostProcess = Literal["consistent", "nonnegative", "integer"]


class Take(Value):
    """One draw of a workload: a table of counts, or its residual, at one level; or an invariant, a table without noise.

    Attributes:
        step: Which step or invariant it is; ``Step.residual`` says whether it is a residual.
        level: Position among the levels; 0 where there are none.
        axes: Positions among the attributes, rising.
    """

    step: str
    level: int = Field(ge=0)
    axes: tuple[int, ...]


class Workload(Value):
    """What a query with ``marginals`` became.

    Attributes:
        name: The name of the query.
        title: What a reader sees.
        measure: The name of the number in every cell.
        table: Whose rows are counted.
        attributes: The columns that the tables are made of.
        hierarchy: Its name, where there are levels.
        levels: The columns of the hierarchy, top first.
        sets: The published sets of attributes, as positions, in published order; every one at every level.
        tables: The names of the published tables: for each level its sets.
        takes: What is drawn.
        strategy: How the draws were chosen, for people.
        post: What happens to the tables after they were reconciled.
        goal: What the author asked of its accuracy or price.
    """

    name: str
    title: str
    measure: str
    table: str
    attributes: tuple[str, ...]
    hierarchy: str | None = None
    levels: tuple[str, ...] = ()
    sets: tuple[tuple[int, ...], ...]
    tables: tuple[str, ...]
    takes: tuple[Take, ...]
    strategy: str
    post: tuple[PostProcess, ...] = ("consistent",)
    goal: Goal

    def columns(self, level: int, axes: tuple[int, ...]) -> tuple[str, ...]:
        """The key columns of a table of it, in published order."""
        first = (self.levels[level],) if self.levels else ()
        return (*first, *(self.attributes[at] for at in axes))

    def place(self, table: str) -> tuple[int, tuple[int, ...]]:
        """The level and the set of a published table."""
        level, at = divmod(self.tables.index(table), len(self.sets))
        return level, self.sets[at]
