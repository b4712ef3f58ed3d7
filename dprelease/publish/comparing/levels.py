"""The numbers of a query before they are put into rows: its cells and its tables of totals, with their noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.estimate.totals import in_rows
from dprelease.measures import Measure, Noisy
from dprelease.noise import Law
from dprelease.plan.design.totals import drawn_laws
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.measured import Inputs
from dprelease.publish.totals import reconciled_inputs

__all__ = ["Axes", "Levels", "OneLevel", "linear_value"]

Floats = npt.NDArray[np.float64]
Axes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class OneLevel:
    """The cells of a query, or one of its tables of totals.

    Attributes:
        axes: Its key columns, as positions among the query's.
        inputs: For each measure what it is made of here.
        rows: How many numbers it has.
    """

    axes: Axes
    inputs: Mapping[str, Sequence[Noisy]]
    rows: int


@dataclass(frozen=True, eq=False)
class Levels:
    """All numbers of a query.

    Attributes:
        plan: That was measured.
        query: The query, with public keys and no workload.
        levels: The cells, then each table of totals.
    """

    plan: ReleasePlan
    query: PlannedQuery
    levels: tuple[OneLevel, ...]

    @classmethod
    def of(cls, plan: ReleasePlan, query: PlannedQuery, inputs: Inputs) -> Levels:
        """From what was measured."""
        if query.totals is None:
            fed: tuple[Mapping[str, Sequence[Noisy]], ...] = (inputs.of(query),)
            sets: tuple[Axes, ...] = (tuple(range(len(query.by))),)
        else:
            fed, sets = reconciled_inputs(plan, query, inputs.noisy), query.totals.sets
        rows = [max(len(each.values) for parts in one.values() for each in parts) for one in fed]
        return cls(plan, query, tuple(OneLevel(*each) for each in zip(sets, fed, rows, strict=True)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of keys of each column."""
        table = self.plan.catalog.tables[self.query.table]
        return tuple(table.column(name).cells for name in self.query.by)

    def drawn(self, label: str) -> list[dict[Axes, Law]]:
        """For each quantity of a measure the law of a number of each table that was drawn, in steps."""
        return drawn_laws(self.query, label, lambda step: self.plan.step(step).law)

    def in_rows(self, parts: Sequence[Floats]) -> Floats:
        """Numbers of each level as one column, in the order of the table's rows."""
        if self.query.totals is None:
            return np.asarray(parts[0], dtype=np.float64)
        columns = tuple(map(self.plan.catalog.tables[self.query.table].column, self.query.by))
        totals = self.query.totals
        return in_rows(list(parts), totals.places(columns), totals.left_out(columns))


def linear_value(measure: Measure, noisy: Sequence[Noisy]) -> tuple[Floats, tuple[float, ...]]:
    """A number that is linear in its draws, and how often each is in it; shape ``(rows,)``."""
    found = measure.coefficients([each.quantity for each in noisy])
    if found is None:
        raise ValueError("only a measure that is linear in its draws has coefficients")
    weights = tuple(map(float, found))
    parts = (weight * each.values.astype(np.float64) for weight, each in zip(weights, noisy, strict=True))
    return np.asarray(sum(parts), dtype=np.float64), weights
