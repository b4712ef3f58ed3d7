"""A release that compares, planned and measured many times without any data: truths, and draws of the very laws."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt

from dprelease.estimate import PublishedTable, coded
from dprelease.noise import Measurement
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.plan.document import ReleasePlan, Step
from dprelease.publish.comparing.columns import compared_tables
from dprelease.publish.comparing.earlier import EarlierRelease, taken_from
from dprelease.publish.measured import inputs_of, queries_as_tables
from tests.planned import plan_of

__all__ = ["COLUMNS", "SPEC", "compared", "measured", "truths"]

SPEC = """
dprelease: 1
release: {{name: yearly, period: {period}}}
privacy: {{unit: {{entity: person}}, budget: {budget}}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns:
      area: {{type: integer, keys: {{from: 1, to: {areas}}}}}
      kind: {{type: integer, keys: {{from: 1, to: {kinds}}}}}
      pay: {{type: integer, range: [0, 10]}}
queries:
  people:
    table: people
    by: [area, kind]
    totals: [[area]]
    measures: {measures}
    compare: {compare}
    expect: {{n: 40}}
"""
COLUMNS = """
      share: {measure: n, share_of: [area], show: percent}
      change: {measure: n, change_from: previous}
      growth: {measure: n, change_from: previous, show: percent}
      index: {measure: n, index_to: 2023}
      apart: {measure: n, difference_from: {kind: 1}}
"""


def planned(budget: str, areas: int, kinds: int, period: int, compare: str = COLUMNS) -> ReleasePlan:
    """The plan of one year."""
    return plan_of(
        SPEC.format(
            period=period, budget=budget, areas=areas, kinds=kinds, measures="{n: {count: rows}}", compare=compare
        )
    )


def noise_of(step: Step, size: int, chance: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draws of the law of a step by its probabilities."""
    scale = float(step.scale)
    at = np.arange(-int(40 * scale) - 5, int(40 * scale) + 6)
    gaussian = isinstance(step.law, DiscreteGaussianLaw)
    mass = np.exp(-((at / scale) ** 2) / 2) if gaussian else np.exp(-np.abs(at) / scale)
    total = np.cumsum(mass)
    found: npt.NDArray[np.int64] = at[np.searchsorted(total / total[-1], chance.random(size) * (1 - 1e-12))]
    return found


def measured(plan: ReleasePlan, cells: npt.NDArray[np.int64], chance: np.random.Generator) -> dict[str, Measurement]:
    """A draw of every step of a plan whose cells have these counts, shape ``(areas, kinds)``."""
    found = {}
    for step in plan.steps:
        gone = tuple(at for at, name in enumerate(("area", "kind")) if name not in step.aggregate.by)
        exact = cells.sum(axis=gone).reshape(-1)
        found[step.id] = Measurement(step.id, exact + noise_of(step, len(exact), chance))
    return found


def compared(
    plan: ReleasePlan, now: Mapping[str, Measurement], earlier: ReleasePlan, before: Mapping[str, Measurement]
) -> PublishedTable:
    """The table of the later year."""
    taken: dict[str, EarlierRelease] = {"2023": taken_from(plan, earlier, before, "2023", "0" * 64, 1)}
    inputs = inputs_of(plan, now)
    (table,) = compared_tables(plan, queries_as_tables(plan, inputs), inputs, taken)
    return table


def truths(
    table: PublishedTable, now: npt.NDArray[np.int64], before: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[np.float64]]:
    """The true value of each column that compares, in the rows of the table; NaN where there is none."""
    areas, kinds = now.shape
    keys = [list(coded(each)) for each in table.keys]
    found: dict[str, list[float]] = {name: [] for name in ("share", "change", "growth", "index", "apart")}
    for area, kind in zip(*keys, strict=True):
        row = (slice(None) if area == "_total" else int(area) - 1, slice(None) if kind == "_total" else int(kind) - 1)
        one, two, whole = now[row].sum(), before[row].sum(), now[row[0]].sum()
        first = np.nan if kind in ("_total", "1") else now[row[0], 0].sum()
        found["share"].append(100 * one / whole)
        found["change"].append(one - two)
        found["growth"].append(100 * (one / two - 1))
        found["index"].append(100 * one / two)
        found["apart"].append(one - first)
    assert prod((areas, kinds + 1)) == table.cells
    return {name: np.array(values, dtype=np.float64) for name, values in found.items()}
