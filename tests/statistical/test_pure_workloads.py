"""Do tables of discrete Laplace draws err as they are published to? Drawn again and again, merged and reconciled.

For every published table the mean squared error of its cells is held against its stated standard error. Squares of
numbers with tails as heavy as Laplace noise have at most 6 - 1 = 5 times the square of the variance as their variance, and
those of cells of one release are correlated, at most fully: the mean over n releases has a standard deviation of at
most sqrt(5 / n), and is held within 7 of these. Every margin covers at least as often as its confidence says, but for
six standard deviations of a binomial. A right estimate fails once in 10^9 runs about, and errors that are told
half too small would be seen every time.
"""

from __future__ import annotations

from functools import cache
from math import sqrt

import numpy as np
import pytest

from dprelease.noise import MECHANISMS, TABLES_MECHANISMS, Measurement
from dprelease.noise.exact import Exact
from dprelease.plan.document import ReleasePlan, Step
from dprelease.publish.measured import workload_tables
from tests.planned import plan_of
from tests.workloads import GEO, areas, crosstabs, spec_of

RELEASES = 600
SPECS = {
    "merged": spec_of(crosstabs(), budget="{epsilon: 1}"),
    "tables": spec_of(crosstabs(ways="[1]"), budget="{epsilon: 1}").replace("  budget:", "  noise: laplace\n  budget:"),
    "together": spec_of(crosstabs(ways="[0, 1]"), budget="{epsilon: 1}").replace(
        "  budget:", "  noise: knorm\n  budget:"
    ),
    "levels": spec_of(areas(), budget="{epsilon: 1}"),
}


@cache
def planned(name: str) -> ReleasePlan:
    return plan_of(SPECS[name], files={"geo": GEO.encode()})


def noise(step: Step) -> np.ndarray:
    """What a step draws of no rows."""
    boxes = [Exact(np.zeros(table.cells, dtype=np.int64)) for table in step.tables]
    if boxes:
        return np.concatenate(TABLES_MECHANISMS[step.mechanism].draw_tables(boxes, step.scale))
    return MECHANISMS[step.mechanism].draw(Exact(np.zeros(step.cells or 1, dtype=np.int64)), step.scale)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_errors_and_margins_are_as_published(name: str) -> None:
    """The truth is 0 in every cell: what is published is the error."""
    plan = planned(name)
    (workload,) = plan.workloads
    errors: dict[str, list[np.ndarray]] = {table: [] for table in workload.tables}
    told = {}
    for _ in range(RELEASES):
        measured = {}
        for step in plan.steps:
            measured[step.id] = Measurement(step=step.id, values=noise(step))
        for table, found in workload_tables(plan, workload, measured).items():
            (told[table],) = found.measures
            errors[table].append(np.asarray(told[table].value, dtype=np.float64))
    confidence = float(plan.publish.confidence)
    for table, each in errors.items():
        ratio = np.array(each) ** 2 / np.asarray(told[table].standard_error, dtype=np.float64) ** 2
        assert abs(float(ratio.mean()) - 1) <= 7 * sqrt(5 / RELEASES), table
        held = (np.abs(np.array(each)) <= np.asarray(told[table].margin, dtype=np.float64)).mean(axis=0)
        assert held.min() >= confidence - 6 * sqrt(confidence * (1 - confidence) / RELEASES), table
