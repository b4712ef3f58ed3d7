"""Do the bounded rows obey the bounds? Counted again, by nothing that bounded them; a breach ends the release.

The noise is made for what the bounds promise, so a total of rows that break them must not be handed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.table import Table
from dprelease.engines.duck.temp_tables import Stage
from dprelease.engines.unit_cells import broken_bound

__all__ = ["check_all_counted", "check_cell_bounds", "check_row_bounds"]


def check_row_bounds(stage: Stage, rows: Any, table: Table, unit: str, limit: int) -> None:
    """Count the rows of every unit of a table, before joins.

    Raises:
        BrokenPromiseError: If a unit has more than ``limit``; says how many of nothing.
    """
    present = rows.filter(rows[unit].notnull())
    counts = present.group_by(unit).aggregate(held=present.count())
    _check(stage, counts.aggregate(held=counts["held"].max()), table, {"held": ("max_rows", limit)})


def check_cell_bounds(stage: Stage, pairs: Any, table: Table, unit: Sequence[str], grouping: Grouping) -> None:
    """Count the cells, the rows per cell and all rows of every unit.

    Args:
        stage: Reads the counts.
        pairs: One row per unit and cell, with the number of its rows as ``held``: what totals are made of.
        table: The declaration.
        unit: The columns that tell units apart.
        grouping: The bounds.

    Raises:
        BrokenPromiseError: If a declared bound is exceeded; says how many of nothing.
    """
    limits = {
        "cells": ("max_groups", grouping.max_groups),
        "most": ("max_rows_per_group", grouping.max_rows_per_group),
        "held": ("max_rows after joins", table.most_rows),
    }
    declared = {name: (bound, limit) for name, (bound, limit) in limits.items() if limit is not None}
    counts = pairs.group_by(list(unit)).aggregate(
        cells=pairs.count(), most=pairs["held"].max(), held=pairs["held"].sum().cast("int64")
    )
    largest = counts.aggregate(**{name: counts[name].max() for name in limits})
    _check(stage, largest, table, declared)


def check_all_counted(stage: Stage, rows: Any, pairs: Any, table: Table) -> None:
    """Hold the rows in pairs of a unit and a cell, before they are bounded, against a count of the rows by themselves.

    Raises:
        BrokenPromiseError: If there are more in the pairs: some row would count twice; says how many of nothing.
    """
    (counted,) = stage.read(pairs.aggregate(held=pairs["held"].sum().cast("int64"))).to_pylist()
    (there,) = stage.read(rows.aggregate(held=rows.count())).to_pylist()
    _check_each({"held": counted["held"] or 0}, table, {"held": ("the number of rows", there["held"])})


def _check(stage: Stage, largest: Any, table: Table, limits: dict[str, tuple[str, int]]) -> None:
    (row,) = stage.read(largest).to_pylist()
    _check_each(row, table, limits)


def _check_each(row: dict[str, int | None], table: Table, limits: dict[str, tuple[str, int]]) -> None:
    for name, (bound, limit) in limits.items():
        found = row[name]
        if found is not None and found > limit:
            raise broken_bound(table.name, bound)
