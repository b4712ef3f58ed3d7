"""The draw of a series: every period's rows are in it by the number that was charged for it."""

from __future__ import annotations

import types
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dprelease.catalog.aggregate import Grouping, Quantity, cells_of
from dprelease.catalog.table import Catalog
from dprelease.noise import Exact, ExactHistogram
from tests.unit.series_example import series_plan
from tests.unit.test_draw import Zeros, measured, reserved


class Months(Zeros):
    """An engine that counts, in every cell, a number of rows that tells of which month they were asked for."""

    ROWS = types.MappingProxyType({1: 10**6, 2: 3 * 10**6, 3: 9 * 10**6})

    def aggregate(
        self, catalog: Catalog, grouping: Grouping, quantities: Sequence[Quantity], *_: object, **__: object
    ) -> tuple[Exact | ExactHistogram, ...]:
        time = catalog.tables[grouping.table].time
        assert time is not None
        assert (time.end - time.start).days in (28, 29, 30, 31)
        cells = cells_of(grouping, catalog) or 0
        return tuple(Exact(np.full(cells, self.ROWS[time.start.month], dtype=np.int64)) for _ in quantities)


def test_a_draw_of_a_series_weights_the_rows_of_every_month_by_its_own_number(tmp_path: Path) -> None:
    """Else a unit is in it by other numbers than those that were charged: rows of one month read twice cost more."""
    plan = series_plan()
    (step,), (values,) = plan.steps, measured(plan, reserved(plan, tmp_path), Months())
    assert step.series is not None
    wanted = sum(number * Months.ROWS[month] for number, month in zip(step.series.read, (3, 2, 1), strict=True))
    assert abs(np.array(values) - wanted).max() < 12 * step.scale < step.series.read[-1] * 10**6
