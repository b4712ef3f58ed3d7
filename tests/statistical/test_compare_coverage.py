"""Intervals of columns that compare hold the truth as often as they say, over draws of the very laws; with power."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet

from tests.unit.compared import compared, measured, planned, truths

COLUMNS = ("share", "change", "growth", "index", "apart")
SETTINGS = {
    "Laplace, added up": ("{epsilon: 1}", 40, 5),
    "Gaussian, added up": ("{rho: 1/20, delta: 1e-9}", 40, 5),
    "Laplace, drawn totals": ("{epsilon: 1}", 12, 16),
    "Gaussian, drawn totals": ("{rho: 1/20, delta: 1e-9}", 12, 16),
}


def held(setting: str, times: int, shrunk: float = 1.0) -> dict[str, float]:
    """How often each column's intervals, ``shrunk`` about their middle, held the truth; totals are among the rows."""
    budget, areas, kinds = SETTINGS[setting]
    now, before = (planned(budget, areas, kinds, period) for period in (2024, 2023))
    chance = np.random.default_rng(86)
    cells = chance.integers(15, 90, (2, areas, kinds))
    within: dict[str, list[np.ndarray]] = {name: [] for name in COLUMNS}
    for _ in range(times):
        table = compared(now, measured(now, cells[0], chance), before, measured(before, cells[1], chance))
        true = truths(table, cells[0], cells[1])
        for column in table.measures[1:]:
            middle, half = (column.lower + column.upper) / 2, shrunk * (column.upper - column.lower) / 2
            told = ~np.isnan(column.lower) & ~np.isnan(true[column.name]) & (half > 0)
            inside = np.abs(true[column.name] - middle) <= half
            within[column.name].append(inside[told])
    return {name: float(np.concatenate(each).mean()) for name, each in within.items()}


def settings() -> Iterator[ParameterSet]:
    for name in SETTINGS:
        yield pytest.param(name, 40, id=name, marks=[] if "added" in name and "Laplace" in name else pytest.mark.slow)
        yield pytest.param(name, 1000, id=f"{name}, in full", marks=pytest.mark.nightly)


@pytest.mark.parametrize(("setting", "times"), list(settings()))
def test_intervals_hold_what_they_say(setting: str, times: int) -> None:
    """About 200 intervals a draw and column: at 0.95, below 0.938 over 40 draws is a chance of less than 1e-5.

    Rows of one table share draws, so that the number that counts is nearer to 5,000 than to 8,000.
    """
    found = held(setting, times)
    assert min(found.values()) >= (0.938 if times < 100 else 0.946), found
    assert max(found[name] for name in ("share", "change", "apart")) <= 0.985, found


def test_a_shorter_interval_is_told_apart() -> None:
    """Intervals of 85 % of the length hold too little: the test above would fail."""
    found = held("Laplace, added up", 40, 0.85)
    assert max(found.values()) < 0.938, found
