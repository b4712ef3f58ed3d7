"""Intervals of columns that compare hold the truth as often as they say, over draws of the very laws; with power."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet

from dprelease.catalog.aggregate import Quantity
from dprelease.estimate import coded
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from tests.planned import plan_of
from tests.unit.compared import SPEC, compared, measured, noise_of, planned, truths

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


MEASURES = (
    """{n: {count: rows}, young: {count: rows, where: "pay < 5"}, share: {ratio: [young, n]}, average: {mean: pay}}"""
)
OF_QUOTIENTS = """
      of_mean: {measure: average, change_from: previous}
      of_share: {measure: share, change_from: previous}
      mean_apart: {measure: average, difference_from: {kind: 1}}
      share_apart: {measure: share, difference_from: {kind: 1}}
"""


def exact_of(quantity: Quantity, pay: np.ndarray) -> int:
    """What a step counts or adds up of the pay of some people, in its own steps."""
    young = int((pay < 5).sum())
    if quantity.kind == "balance":
        return 2 * young - len(pay)
    if quantity.kind == "sum":
        return int((pay - quantity.centre).sum())
    if quantity.kind == "rest":
        return len(pay) - young
    return young if quantity.where else len(pay)


def of_quotients(budget: str, times: int, size: int, compare: str = OF_QUOTIENTS) -> dict[str, tuple[float, float]]:
    """How often the intervals of changes and differences of means and shares held, and their median width."""
    areas, kinds = 6, 3
    plans = [
        plan_of(SPEC.format(period=period, budget=budget, areas=areas, kinds=kinds, measures=MEASURES, compare=compare))
        for period in (2024, 2023)
    ]
    chance = np.random.default_rng(125)
    people = [
        [
            [chance.binomial(10, chance.random(), chance.integers(size, 2 * size)) for _ in range(kinds)]
            for _ in range(areas)
        ]
        for _ in plans
    ]
    cells = [[[np.concatenate(area), *area] for area in year] for year in people]  # the total of an area first

    def draw(plan: ReleasePlan, year: list[list[np.ndarray]]) -> dict[str, Measurement]:
        found = {}
        for step in plan.steps:
            groups = [area[1:] if "kind" in step.aggregate.by else area[:1] for area in year]
            exact = [exact_of(part, pay) for part in step.parts for area in groups for pay in area]
            found[step.id] = Measurement(step.id, np.array(exact) + noise_of(step, len(exact), chance))
        return found

    def truth(name: str, area: int, kind: int) -> float:
        def made(pay: np.ndarray) -> float:
            return float(pay.mean() if "mean" in name else (pay < 5).mean())

        other = cells[0][area][1] if "apart" in name else cells[1][area][kind]
        return made(cells[0][area][kind]) - made(other)

    within: dict[str, list[np.ndarray]] = {}
    widths: dict[str, list[np.ndarray]] = {}
    for _ in range(times):
        table = compared(plans[0], draw(plans[0], cells[0]), plans[1], draw(plans[1], cells[1]))
        places = [
            (int(area) - 1, 0 if kind == "_total" else int(kind))
            for area, kind in zip(*(list(coded(each)) for each in table.keys), strict=True)
        ]
        for column in table.measures[-4:]:
            true = np.array([truth(column.name, *place) for place in places])
            told = ~np.isnan(column.lower)
            inside = (column.lower <= true + 1e-9) & (true <= column.upper + 1e-9)
            within.setdefault(column.name, []).append(inside[told])
            widths.setdefault(column.name, []).append((column.upper - column.lower)[told])
    return {
        name: (float(np.concatenate(each).mean()), float(np.median(np.concatenate(widths[name]))))
        for name, each in within.items()
    }


@pytest.mark.parametrize("budget", ["{epsilon: 1}", "{rho: 1/20, delta: 1e-9}"])
@pytest.mark.parametrize(
    ("size", "times"), [(40, 10), *(pytest.param(size, 500, marks=pytest.mark.nightly) for size in (4, 40, 400))]
)
def test_changes_and_differences_of_means_and_shares_hold_at_least_what_they_say(
    budget: str, size: int, times: int
) -> None:
    """Two intervals that hold together: they hold more often than one number's test would, and never less."""
    found = of_quotients(budget, times, size)
    assert min(held for held, _ in found.values()) >= (0.945 if times > 100 else 0.92), found


@pytest.mark.parametrize("budget", ["{epsilon: 1}", "{rho: 1/20, delta: 1e-9}"])
@pytest.mark.parametrize(
    ("size", "times"), [(40, 6), *(pytest.param(size, 500, marks=pytest.mark.nightly) for size in (40, 400))]
)
def test_what_is_measured_and_not_proved_holds_about_as_often_and_is_narrower(
    budget: str, size: int, times: int
) -> None:
    """From the spec to the column, K-norm draws among them: 18 rows a column.

    The medians of 500 releases were 1.20 times narrower or more; least where proved sets are cut at what is possible.
    """
    proved = of_quotients(budget, times, size)
    found = of_quotients(budget, times, size, OF_QUOTIENTS.replace("}\n", ", proved: false}\n"))
    assert min(held for held, _ in found.values()) >= (0.944 if times > 100 else 0.85), found
    for name, (_, width) in found.items():
        assert width <= proved[name][1] / (1.15 if times > 100 else 1.1), (name, found, proved)
