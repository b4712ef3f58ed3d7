"""How accurate every published number will be, by the laws of the noise alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from dprelease.catalog.table import Catalog
from dprelease.estimate.ranges import variances_of
from dprelease.estimate.series import errors_of_linear, law_of_sum
from dprelease.estimate.workloads.design import Design
from dprelease.estimate.workloads.tails import laplace_reach
from dprelease.estimate.workloads.zeros import cell_variances
from dprelease.measures import Expected, Measure
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import normal_margin
from dprelease.noise.mechanisms.tables_knorm import TablesLaw
from dprelease.plan.design.comparing import expected_comparison
from dprelease.plan.design.totals import drawn_laws, laws_of_measure
from dprelease.plan.design.workload_design import design_of
from dprelease.plan.design.workload_joint import joint_reach
from dprelease.plan.document import Measured, Output, PlannedQuery, Step, Workload
from dprelease.plan.resolve.grouping import expected_rows
from dprelease.privacy.budget import round_up

__all__ = ["error_of_sums", "mean_noise", "outputs", "reach_of"]


def outputs(
    queries: Sequence[PlannedQuery],
    workloads: Sequence[Workload],
    catalog: Catalog,
    steps: Mapping[str, Measured],
    confidence: Fraction,
) -> tuple[Output, ...]:
    """One line for every measure of every query, in published order; of a workload's table for its worst cell."""
    designs = {each.name: design_of(each, catalog, steps) for each in workloads}
    variances = {
        (name, *place): float(found.max())
        for name, design in designs.items()
        for place, found in cell_variances(design).items()
    }
    reaches = {each.name: reach_of(each, designs[each.name], steps, confidence) for each in workloads}
    by_name = {each.name: each for each in workloads}
    found = []
    for query in queries:
        if query.workload is not None:
            workload = by_name[query.workload]
            variance = variances[workload.name, *workload.place(query.name)]
            found.append(_reconciled(query, workload, variance, reaches[workload.name]))
            if query.series is not None:
                found[-1:] = _of_series(query, workload, variance, reaches[workload.name], steps)
            continue
        if query.ranges is not None:
            found += [_summed(query, name, catalog, steps, confidence) for name in (*query.measures, *query.compare)]
            continue
        for label, measure in query.measures.items():
            laws = None
            if query.totals is not None:
                laws = laws_of_measure(query, label, catalog, steps)[query.totals.sets[0]]
            found.append(_output(query, label, measure, steps, confidence, laws))
        found += [_compared(query, label, catalog, steps, confidence) for label in query.compare]
    return tuple(found)


def mean_noise(queries: Iterable[tuple[float, Sequence[float]]]) -> float:
    """The mean logarithm of the noise of published numbers, by which plans of a spec are compared.

    A query counts by its share, and each of its numbers alike. Where each number has a draw of its own, the logarithm
    of its error falls with that of its budget, and the shares are then the very division with the least mean: of
    budgets b_q that add up to one, sum_q s_q log b_q is largest at b_q = s_q (Gibbs). So no other division has less
    noise by this mean, the naive one included, at losses that add up.

    Args:
        queries: For each query its share, and the variance or the standard error of each of its numbers.
    """
    total = weight = 0.0
    for share, found in queries:
        total += share * sum(math.log(max(each, 1e-300)) for each in found) / len(found)
        weight += share
    return total / weight if weight else 0.0


def error_of_sums(worst: float, law: Law, scale: Fraction, confidence: Fraction) -> Expected:
    """The accuracy of the worst prefix or range.

    Args:
        worst: Its variance per variance of one number that is drawn.
        law: The law of the noise on one number.
        scale: The scale of that noise, in steps of its lattice.
        confidence: The confidence of the margin.
    """
    error = math.sqrt(worst * law.variance)
    return Expected(standard_error=error, margin=normal_margin(confidence, scale) * error)


def _summed(
    query: PlannedQuery, name: str, catalog: Catalog, steps: Mapping[str, Measured], confidence: Fraction
) -> Output:
    assert query.ranges is not None  # noqa: S101 - asked for by the caller
    ((feed,),) = query.inputs.values()
    step = steps[feed.step]
    assert isinstance(step, Step)  # noqa: S101 - ranges are no invariants
    keys = catalog.tables[query.table].column(query.ranges.of).cells
    worst = float(variances_of(step.factor, keys, query.ranges.which).max())
    found = error_of_sums(worst, step.law, step.scale, confidence)
    if query.series is not None and step.series is not None:
        asked = query.compare[name].sum_of if name in query.compare else 1
        length = query.series.length(asked or 1)
        found = Expected(why_null=query.series.why_blank(asked or 1))
        if length is not None:
            variance = np.array([worst * float(step.scale) ** 2])
            error = float(errors_of_linear(variance, keys, step.scale, step.series, length)[0])
            found = Expected(error, max(1.0, normal_margin(confidence, step.scale)) * error)
    return Output(
        query=query.name,
        table=query.table,
        measure=name,
        steps=(step.id,),
        standard_error=None if found.standard_error is None else round_up(Fraction(found.standard_error), 6),
        margin=None if found.margin is None else round_up(Fraction(found.margin), 6),
        why_null=found.why_null,
    )


def reach_of(workload: Workload, design: Design, steps: Mapping[str, Measured], confidence: Fraction) -> float:
    """A margin of a reconciled number, in its standard errors; exact totals among its takes add nothing to either.

    Args:
        workload: The workload.
        design: What was drawn of it (``plan.design.workload_design.design_of``).
        steps: By id.
        confidence: Of the margin.
    """
    for law in (step.law for take in workload.takes if isinstance(step := steps[take.step], Step) and step.tables):
        if isinstance(law, TablesLaw):
            return joint_reach(law, design, confidence)
    if any(
        isinstance(step := steps[take.step], Step) and step.mechanism == "discrete_laplace" for take in workload.takes
    ):
        return laplace_reach(design, confidence)
    scales = (steps[take.step].scale for take in workload.takes)
    return normal_margin(confidence, min(scale for scale in scales if scale))


def _reconciled(query: PlannedQuery, workload: Workload, variance: float, reach: float) -> Output:
    error = math.sqrt(variance)
    return Output(
        query=query.name,
        table=query.table,
        measure=workload.measure,
        steps=tuple(dict.fromkeys(take.step for take in workload.takes)),
        standard_error=round_up(Fraction(error), 6),
        margin=round_up(Fraction(reach * error), 6),
    )


def _of_series(
    query: PlannedQuery, workload: Workload, variance: float, reach: float, steps: Mapping[str, Measured]
) -> Iterator[Output]:
    """The accuracy of a table of a workload whose periods share their noise, and of its sums."""
    ids = tuple(dict.fromkeys(take.step for take in workload.takes))
    drawn = [step for name in ids if isinstance(step := steps[name], Step)]
    for name in (workload.measure, *query.compare):
        asked = query.compare[name].sum_of if name in query.compare else 1
        length = None if query.series is None else query.series.length(asked or 1)
        found = Expected(why_null="" if query.series is None else query.series.why_blank(asked or 1))
        if length is not None and drawn[0].series is not None:
            numbers, least = sum(step.cells or 0 for step in drawn), min(step.scale for step in drawn)
            error = float(errors_of_linear(np.array([variance]), numbers, least, drawn[0].series, length)[0])
            found = Expected(error, max(1.0, reach) * error)
        yield Output(
            query=query.name,
            table=query.table,
            measure=name,
            steps=ids,
            standard_error=None if found.standard_error is None else round_up(Fraction(found.standard_error), 6),
            margin=None if found.margin is None else round_up(Fraction(found.margin), 6),
            why_null=found.why_null,
        )


def _output(
    query: PlannedQuery,
    label: str,
    measure: Measure,
    steps: Mapping[str, Measured],
    confidence: Fraction,
    reconciled: Sequence[Law] | None,
) -> Output:
    """The accuracy of a measure; ``reconciled`` are the laws of what it is made of where these are estimates."""
    feeds = query.inputs[label]
    fed = [steps[feed.step] for feed in feeds]
    quantities = [step.parts[feed.part] for step, feed in zip(fed, feeds, strict=True)]
    count = expected_rows(query.expect, query.measures, label)
    laws = [step.law for step in fed] if reconciled is None else reconciled
    drawn = [step.id for step in fed] if reconciled is None else ()
    expected = measure.expected_tested(quantities, laws, confidence, count, drawn)

    def text(number: float | None) -> str | None:
        return None if number is None else round_up(Fraction(number), 6)

    return Output(
        query=query.name,
        table=query.table,
        measure=label,
        steps=tuple(dict.fromkeys(feed.step for feed in feeds)),
        standard_error=text(expected.standard_error),
        margin=text(expected.margin),
        why_null=_why_null(expected, fed[0]) if fed else expected.why_null,
    )


def _compared(
    query: PlannedQuery, label: str, catalog: Catalog, steps: Mapping[str, Measured], confidence: Fraction
) -> Output:
    """The accuracy of a column that compares a measure, or of a sum of its periods."""
    asked = query.compare[label]
    feeds = query.inputs[asked.measure]
    if asked.sum_of is not None:
        return _of_periods(query, label, steps, confidence)
    drawn = drawn_laws(query, asked.measure, lambda step: steps[step].law)
    cells = [steps[feed.step].law for feed in feeds]
    if query.totals is not None:
        cells = laws_of_measure(query, asked.measure, catalog, steps)[query.totals.sets[0]]
    expected = expected_comparison(query, asked, catalog, drawn, cells, confidence)
    error, margin = (
        None if each is None else round_up(Fraction(each), 6) for each in (expected.standard_error, expected.margin)
    )
    return Output(
        query=query.name,
        table=query.table,
        measure=label,
        steps=tuple(dict.fromkeys(feed.step for feed in feeds)),
        standard_error=error,
        margin=margin,
        why_null=expected.why_null,
    )


def _of_periods(query: PlannedQuery, label: str, steps: Mapping[str, Measured], confidence: Fraction) -> Output:
    """The accuracy of a measure of several periods that share their noise; of a mean at so many times the rows."""
    asked, series, measure = query.compare[label], query.series, query.measures[query.compare[label].measure]
    feeds = query.inputs[asked.measure]
    fed = [step for feed in feeds if isinstance(step := steps[feed.step], Step)]
    shared = [(step, step.series) for step in fed if step.series is not None]
    if series is None or asked.sum_of is None or not len(shared) == len(fed) == len(feeds):
        raise ValueError(f"{query.name}.{label} is a sum of periods that share no noise")
    length = series.length(asked.sum_of)
    found = Expected(why_null=series.why_blank(asked.sum_of))
    if length is not None:
        laws = [law_of_sum(draw, step.scale, length) for step, draw in shared]
        if len(fed) == 1:
            unit = float(fed[0].parts[0].grid)
            found = Expected(math.sqrt(laws[0].variance) * unit, laws[0].margin(confidence) * unit)
        else:
            rows = expected_rows(query.expect, query.measures, asked.measure)
            quantities, drawn = [step.parts[0] for step in fed], [step.id for step in fed]
            count = None if rows is None else rows * length
            found = measure.expected_tested(quantities, laws, confidence, count, drawn)
    return Output(
        query=query.name,
        table=query.table,
        measure=label,
        steps=tuple(dict.fromkeys(step.id for step in fed)),
        standard_error=None if found.standard_error is None else round_up(Fraction(found.standard_error), 6),
        margin=None if found.margin is None else round_up(Fraction(found.margin), 6),
        why_null=found.why_null,
    )


def _why_null(expected: Expected, step: Measured) -> str | None:
    """Why no accuracy is told; of what is made of counts along a grid with the error of such counts, in ranks."""
    if expected.why_null is None or not isinstance(step, Step) or step.factor is None:
        return expected.why_null
    line = step.factor.model_copy(update={"shape": (step.factor.length,), "axis": 0})
    error = float(step.scale) * math.sqrt(float(variances_of(line, line.length, "prefixes").mean()))
    return f"{expected.why_null}; counts of values up to a point err by {error:.3g}"
