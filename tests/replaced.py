"""Plans of small workloads under either relation, and what rows move in all of their draws, by definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement, product

import numpy as np
import numpy.typing as npt

from dprelease.plan.document import ReleasePlan, Step
from tests.planned import plan_of

__all__ = ["GEO", "answers", "planned", "text_of", "units", "worst_of"]

Reals = npt.NDArray[np.float64]
GEO = "region,town\nN,A\nN,B\nS,C\n"
_SPEC = """
dprelease: 1
release: {name: pairs, period: 2024}
privacy:
  unit: {entity: person}
  neighboring: RELATION
  budget: BUDGET
  accounting: ACCOUNTING
  noise: gaussian
REFERENCEStables:
  people:
    account: people
UNIT    source: {file: people.csv}
JOIN    columns:
COLUMNS
HIERARCHYqueries:
  w:
    table: people
LEVELS    marginals: {of: [OF], ways: WAYS}
"""


def text_of(
    sizes: Sequence[int],
    ways: str,
    *,
    relation: str = "replace_one",
    accounting: str = "zcdp",
    levels: bool = False,
    rows: int = 0,
    budget: str = "{epsilon: 1, delta: 1e-9}",
) -> str:
    columns = [f"      c{at}: {{type: integer, keys: {{from: 1, to: {n}}}}}" for at, n in enumerate(sizes)]
    places = [f"      {name}: {{type: text, keys: {{reference: geo}}}}" for name in ("town", "region")]
    unit = f"    unit_id: who\n    bounds: {{max_rows: {rows}, truncate: sample}}\n" if rows else ""
    filled = {
        "RELATION": relation,
        "BUDGET": budget,
        "ACCOUNTING": accounting,
        "REFERENCES": "references:\n  geo: {file: geo.csv, columns: {region: text, town: text}}\n" if levels else "",
        "UNIT": unit,
        "JOIN": "    join: [{reference: geo, on: town, add: [region]}]\n" if levels else "",
        "COLUMNS": "\n".join(columns + (places if levels else [])),
        "HIERARCHY": "hierarchies:\n  places: [region, town]\n" if levels else "",
        "LEVELS": "    levels: places\n" if levels else "",
        "OF": ", ".join(f"c{at}" for at in range(len(sizes))),
        "WAYS": ways,
    }
    text = _SPEC
    for name, value in filled.items():
        text = text.replace(name, value)
    return text


def planned(sizes: Sequence[int], ways: str, **how: object) -> ReleasePlan:
    return plan_of(text_of(sizes, ways, **how), {"geo": GEO.encode()})  # type: ignore[arg-type]


def answers(plan: ReleasePlan) -> Reals:
    """What a row adds to the answers of all draws, each over its scale: one line for each cell of all columns."""
    workload, table = plan.workloads[0], plan.catalog.tables["people"]
    names = (*workload.levels[-1:], *workload.attributes)
    keys = [table.column(name).keys or () for name in names]
    region = {"A": "N", "B": "N", "C": "S"}
    found = []
    for cell in product(*keys):
        row = dict(zip(names, cell, strict=True))
        if "town" in row:
            row["region"] = region[str(row["town"])]
        found.append(np.concatenate([answer(plan, step, row) for step in plan.steps]))
    return np.array(found)


def answer(plan: ReleasePlan, step: Step, row: Mapping[str, object]) -> Reals:
    one = np.ones(1)
    for at, name in enumerate(step.aggregate.by):
        keys = plan.catalog.tables["people"].column(name).keys or ()
        here = np.array([float(key == row[name]) for key in keys])
        one = np.kron(one, len(keys) * here - 1 if step.residual and at in step.residual.axes else here)
    return one * (step.residual.grain if step.residual else 1) / float(step.scale)


def units(moves: Reals, rows: int) -> Reals:
    """The answers to every unit with at most so many rows."""
    found = [np.zeros(moves.shape[1])]
    for held in range(1, rows + 1):
        found += [moves[list(where)].sum(axis=0) for where in combinations_with_replacement(range(len(moves)), held)]
    return np.array(found)


def worst_of(plan: ReleasePlan, rows: int) -> float:
    """The largest sum of squared changes over scale^2 of a replaced unit."""
    every = units(answers(plan), rows)
    return max(float(((every - one) ** 2).sum(axis=1).max()) for one in every)
