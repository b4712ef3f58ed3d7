"""Do the published tables of a workload err as they say? Drawn again and again, from the noise to the published row.

Every draw of a plan is made by the samplers that a release uses, and the tables by the code that publishes them. Held
against the law: for every table the errors of all of its cells together, by their stated covariance; for every cell its
stated error and margin.

*Chi-square.* Let e be the errors of the cells of a table in one release, S their stated covariance and r its rank. If S
is right, ``e' S^+ e`` is chi-square with r degrees of freedom, and over n independent releases the sum with n r: noise
on lattices of many steps is as good as normal (its kurtosis differs by less than 1e-9 from scale 3 on), and rounding of
the tables to decimals is left out. Both sides are tested, and that e lies in the range of S.

*Coverage.* For one cell, releases are independent, and a margin holds the truth with the stated confidence: binomial.

Each test of one workload fails by chance once in 10^9 runs at most (Bonferroni over tables and cells), and so does each
that shows their power.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.estimate.workloads.reconcile import PublishedCell, covariance_without_zeros
from dprelease.noise import MECHANISMS, Measurement
from dprelease.noise.exact import Exact
from dprelease.noise.mechanisms.residual import draw_residual
from dprelease.plan.design.workload_design import design_of
from dprelease.plan.document import ReleasePlan, Step
from dprelease.publish.measured import workload_tables
from tests.planned import plan_of
from tests.workloads import GEO, areas, crosstabs, spec_of

Floats = npt.NDArray[np.float64]

LEVEL = 1e-9
FEW, FULL = 750, 2000
SHARES = """shares:
  levels: {region: 1/7, state: 2/7, puma: 4/7}
  tables: {total: [null, 1/4, 1/4], sex: [1/2, 1/4, 1/4], sex*race: 1/2}"""
WORKLOADS = {
    "residuals": spec_of(crosstabs()),
    "levels": spec_of(areas()),
    "tables": spec_of(areas(SHARES)),
    "replaced": spec_of(crosstabs(ways="[1, 3]"), relation="replace_one"),
}
RUNS = [
    *((name, FEW) for name in WORKLOADS),
    *(pytest.param(name, FULL, marks=pytest.mark.nightly) for name in WORKLOADS),
]


@dataclass(frozen=True)
class Seen:
    """What one table erred by.

    Attributes:
        errors: Of every release and cell, shape (releases, cells).
        stated: The covariance of the cells as the reconciliation has it, shape (cells, cells).
        standard_error: As published, of every cell.
        margin: As published, of every cell.
        held: In how many releases value -/+ margin holds the truth, for every cell.
    """

    errors: Floats
    stated: Floats
    standard_error: Floats
    margin: Floats

    @property
    def held(self) -> npt.NDArray[np.int64]:
        return np.asarray((np.abs(self.errors) <= self.margin).sum(axis=0))


@cache
def plan(name: str) -> ReleasePlan:
    return plan_of(WORKLOADS[name], files={"geo": GEO.encode()})


def _joint(made: ReleasePlan) -> Floats:
    """True counts by all areas and attributes, some of them 0."""
    (workload,) = made.workloads
    design = design_of(workload, made.catalog, {step.id: step for step in made.steps})
    shape = (design.tree.sizes[-1], *design.sizes)
    return np.asarray(np.random.default_rng(5).integers(0, 40, shape) ** 2 // 10, dtype=np.float64)


def _table(made: ReleasePlan, joint: Floats, level: int, axes: tuple[int, ...]) -> Floats:
    """A true table of the workload, shape (nodes of the level, *keys)."""
    (workload,) = made.workloads
    tree = design_of(workload, made.catalog, {step.id: step for step in made.steps}).tree
    table: Floats = joint.sum(axis=tuple(at + 1 for at in range(joint.ndim - 1) if at not in axes))
    for parents, above in list(zip(tree.parents, tree.sizes[:-1], strict=True))[level:][::-1]:
        upper = np.zeros((above, *table.shape[1:]))
        np.add.at(upper, parents, table)
        table = upper
    return table


def _drawn(step: Step, counts: Floats) -> Measurement:
    exact = Exact(counts.ravel().astype(np.int64))
    if step.residual is not None:
        return Measurement(step=step.id, values=draw_residual(exact, step.residual, step.scale))
    return Measurement(step=step.id, values=MECHANISMS[step.mechanism].draw(exact, step.scale))


@cache
def simulated(name: str, releases: int) -> dict[str, Seen]:
    """Errors of every table over so many releases."""
    made = plan(name)
    (workload,) = made.workloads
    joint, steps = _joint(made), {step.id: step for step in made.steps}
    truth = {table: _table(made, joint, *workload.place(table)).ravel() for table in workload.tables}
    counts = {take.step: _table(made, joint, take.level, take.axes) for take in workload.takes}
    errors: dict[str, list[Floats]] = {table: [] for table in workload.tables}
    found = {}
    for _ in range(releases):
        measured = {step: _drawn(steps[step], table) for step, table in counts.items()}
        found = workload_tables(made, workload, measured)
        for table in workload.tables:
            errors[table].append(np.asarray(found[table].measures[0].value, dtype=np.float64) - truth[table])
    design, seen = design_of(workload, made.catalog, steps), {}
    for table in workload.tables:
        level, axes = workload.place(table)
        shape = (design.tree.sizes[level], *(design.sizes[at] for at in axes))
        cells = [PublishedCell(level, axes, node, tuple(keys)) for node, *keys in product(*map(range, shape))]
        stated = np.array([[covariance_without_zeros(design, one, other) for other in cells] for one in cells])
        (measure,) = found[table].measures
        seen[table] = Seen(
            np.array(errors[table]),
            stated,
            np.asarray(measure.standard_error, float),
            np.asarray(measure.margin, float),
        )
    return seen


def chance(errors: Floats, stated: Floats) -> float:
    """The chance of a sum of ``e' S^+ e`` as far from its mean, on either side."""
    values, vectors = np.linalg.eigh(stated)
    real = values > values.max() * 1e-9
    turned = errors @ vectors
    assert np.abs(turned[:, ~real]).max(initial=0) <= 1e-6 * float(np.sqrt(values.max()))
    total = float((turned[:, real] ** 2 / values[real]).sum())
    degrees = int(real.sum()) * len(errors)
    return 2 * min(float(stats.chi2.cdf(total, degrees)), float(stats.chi2.sf(total, degrees)))


def off_centre(errors: Floats, stated: Floats) -> float:
    """The chance of means of all cells as far from zero."""
    mean = np.sqrt(len(errors)) * errors.mean(axis=0, keepdims=True)
    values, vectors = np.linalg.eigh(stated)
    real = values > values.max() * 1e-9
    return float(stats.chi2.sf(float(((mean @ vectors)[:, real] ** 2 / values[real]).sum()), int(real.sum())))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "releases"), RUNS)
def test_the_errors_of_every_table_have_the_stated_covariance(name: str, releases: int) -> None:
    found = simulated(name, releases)
    for table, seen in found.items():
        assert chance(seen.errors, seen.stated) > LEVEL / (2 * len(found)), table
        assert off_centre(seen.errors, seen.stated) > LEVEL / (2 * len(found)), table


@pytest.mark.slow
@pytest.mark.parametrize(("name", "releases"), RUNS)
def test_published_errors_are_the_stated_ones_and_margins_hold(name: str, releases: int) -> None:
    found = simulated(name, releases)
    cells = sum(seen.margin.size for seen in found.values())
    confidence = float(plan(name).publish.confidence)
    for table, seen in found.items():
        stated = np.sqrt(np.diag(seen.stated))
        assert (seen.standard_error >= stated * (1 - 1e-6)).all(), table
        assert (seen.standard_error <= stated * 1.001 + 0.01).all(), table
        for held, margin, error in zip(seen.held, seen.margin, stated, strict=True):
            promised = float(2 * stats.norm.cdf(margin / error) - 1)
            assert promised >= confidence - 1e-9
            assert stats.binomtest(int(held), releases, promised).pvalue > LEVEL / cells, table


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_power_errors_a_little_larger_or_otherwise_correlated_are_rejected(name: str) -> None:
    """At the few releases of every commit: all errors 10 % off; a shift; each cell of a table from another release."""
    found = simulated(name, FEW)
    limit = LEVEL / (2 * len(found))
    for factor in (1.1, 0.9):
        assert min(chance(seen.errors * factor, seen.stated) for seen in found.values()) < limit
    shifted = [off_centre(seen.errors + 0.5 * np.sqrt(np.diag(seen.stated)), seen.stated) for seen in found.values()]
    assert min(shifted) < limit
    finest = found[plan(name).workloads[0].tables[-1]]
    apart = np.column_stack([np.roll(errors, at) for at, errors in enumerate(finest.errors.T)])
    assert chance(apart, finest.stated) < limit


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_tables_of_one_release_add_up(name: str) -> None:
    (workload,) = plan(name).workloads
    found = simulated(name, FEW)
    total = {workload.place(table)[0]: table for table in workload.tables if workload.place(table)[1] == ()}
    for table, seen in found.items():
        level, _ = workload.place(table)
        if level in total:
            nodes = found[total[level]].errors.shape[1]
            sums = seen.errors.reshape(len(seen.errors), nodes, -1).sum(axis=2)
            assert np.allclose(sums, found[total[level]].errors, atol=1e-6)
