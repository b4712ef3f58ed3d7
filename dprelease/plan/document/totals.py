"""The totals of a query as a plan says them: which, what each takes of the query's budget, and where its rows stand.

A table of totals has fewer of the query's key columns; in its rows the columns that were added up have the key
``_total``, which comes behind their own keys. It is drawn by itself, of the very rows that the cells count, or added
up; either way all numbers of a query are the least squares estimate of everything that was drawn of it, so that they
add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dprelease.canonical import Value
from dprelease.catalog.table import Column
from dprelease.plan.document.step import Feed
from dprelease.spec.fields.workloads import TOTAL_KEY

__all__ = ["PlannedTotals", "TotalTable"]

Places = npt.NDArray[np.int64]


class TotalTable(Value):
    """One table of totals.

    Attributes:
        by: Its key columns, some of the query's, in their order.
        part: Its part of the query's budget; None: nothing is drawn, its numbers are added up.
        inputs: For each measure the steps that feed it, as those of the query feed the cells; none where nothing is
            drawn.
    """

    by: tuple[str, ...]
    part: Fraction | None = Field(default=None, gt=0, lt=1)
    inputs: dict[str, tuple[Feed, ...]] = {}


class PlannedTotals(Value):
    """All totals of one query.

    Attributes:
        by: The key columns of the query.
        part: What the cells have of the query's budget; with those of the tables it adds up to one.
        tables: The tables of totals, each once.
    """

    by: tuple[str, ...]
    part: Fraction = Field(gt=0, le=1)
    tables: tuple[TotalTable, ...]

    @property
    def drawn(self) -> tuple[TotalTable, ...]:
        """Those of which something is drawn."""
        return tuple(table for table in self.tables if table.part is not None)

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """All that feeds a table of totals."""
        return tuple(feed for table in self.tables for feeds in table.inputs.values() for feed in feeds)

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """The key columns of the cells, then those of each table, as positions among the query's."""
        every = (self.by, *(table.by for table in self.tables))
        return tuple(tuple(sorted(self.by.index(name) for name in each)) for each in every)

    def columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """The published key columns: one that is added up somewhere has texts for keys, ``_total`` behind them.

        Args:
            columns: Those of the query, as they are declared.
        """
        added = {name for table in self.tables for name in set(self.by) - set(table.by)}
        return tuple(_with_total(column) if column.name in added else column for column in columns)

    def places(self, columns: Sequence[Column]) -> tuple[Places, ...]:
        """For the cells and each table the positions of its rows in the product of the published keys.

        Args:
            columns: Of the query, as they are declared.
        """
        sizes = tuple(column.cells for column in self.columns(columns))
        found = []
        for axes in self.sets:
            keys = [
                np.arange(column.cells) if at in axes else np.array([column.cells]) for at, column in enumerate(columns)
            ]
            grid = np.meshgrid(*keys, indexing="ij") if keys else []
            found.append(np.ravel_multi_index(tuple(grid), sizes).reshape(-1) if grid else np.zeros(1, dtype=np.int64))
        return tuple(found)

    def left_out(self, columns: Sequence[Column]) -> tuple[int, ...]:
        """The positions of combinations of the published keys that have no row."""
        rows = np.ones(int(np.prod([column.cells for column in self.columns(columns)], dtype=np.int64)), dtype=bool)
        for places in self.places(columns):
            rows[places] = False
        return tuple(np.flatnonzero(rows).tolist())


def _with_total(column: Column) -> Column:
    """The column with texts for keys, the total behind them."""
    texts = (str(key).lower() if isinstance(key, bool) else str(key) for key in column.keys or ())
    labels = {**column.labels, TOTAL_KEY: column.labels.get(TOTAL_KEY, "Total")}
    return column.model_copy(update={"type": "text", "keys": (*texts, TOTAL_KEY), "labels": labels})
