"""What a plan says of the accuracy of its numbers, worked out again from the laws of the noise.

The tables of a workload residual by residual, up and down the tree: The residual b of a table is its sum over the other
attributes, centred along those of b. A draw of a table A of cell variance s has the residual b of every subset at the
variance s prod_{A - b} n; a drawn residual of divisor d and scale s has its own at (s / d)^2. Residuals are
uncorrelated: each is a tree of numbers of its own, in which a node is the sum of its children. What is known from below
adds up over children, what is known at a node joins it by precision, and the way down shares out by how much a node's
siblings leave open. A cell of A then has, with n the numbers of keys,

    sum_{b in A} v_b prod_{i in b} (1 - 1 / n_i) prod_{j in A - b} 1 / n_j^2.

Only with cells that no row can have is this not so; of these the estimator tells (``estimate.workloads.zeros``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Catalog
from dprelease.estimate.workloads.design import Design, StructuralZeros, Tree, WorkloadDraw
from dprelease.estimate.workloads.zeros import cell_variances
from dprelease.measures import Expected, Measure
from dprelease.noise import Law
from dprelease.noise.weighted_sums import WeightedLaw
from dprelease.plan.document import Invariant, Measured, Output, PlannedQuery, ReleasePlan, Step, Workload
from dprelease.plan.verify.factor import expected_of_sums
from dprelease.plan.verify.reach import require
from dprelease.plan.verify.tables import taken_together
from dprelease.plan.verify.totals import check_compared

__all__ = ["check_outputs", "covers", "figure", "worst_variances"]

_BLUR = 0.015  # standard errors, by which a law is widened before it is inverted
_FINE_BLUR = 0.004  # where margins are nearer to the least that are right
_TOLERANCE = 1e-9  # of a figure that is worked out in floats, on one machine or another


def check_outputs(plan: ReleasePlan) -> None:
    """One line for every number that is published, none more accurate than the noise allows, and every target met.

    The tables of workloads are held against their draws by ``plan.verify.workloads``.

    Raises:
        BrokenPromiseError: If a line is missing, there twice or of nothing, tells too small an error, or a target is
            missed.
    """
    told = {(output.query, output.measure): output for output in plan.outputs}
    wanted = [(query.name, label) for query in plan.queries for label in (*query.measures, *query.compare)]
    lines = Counter((output.query, output.measure) for output in plan.outputs)
    require(lines == Counter(wanted), "it tells the accuracy of other numbers than it publishes")
    taken = {each.id: each for each in plan.measured}
    for query in plan.queries:
        asked = query.goal.targets if query.workload is None else {}
        check_compared(plan, query, told)
        for label in asked:
            pairs = {each.among for each in query.compare.values()}
            require(
                label in query.measures or label in query.compare or label in pairs,
                f"{query.name} has a target for a measure that is not there",
            )
        for label in query.measures:
            output, name = told[query.name, label], f"{query.name}.{label}"
            require(output.table == query.table, f"{name} is told of another table")
            if query.workload is None:
                fed = tuple(dict.fromkeys(feed.step for feed in query.inputs[label]))
                require(output.steps == fed, f"{name} is told of other steps")
                steps = [(taken[feed.step], feed.part) for feed in query.inputs[label]]
                quantities = [step.parts[part] for step, part in steps]
                laws, drawn = [step.law for step, _ in steps], [step.id for step, _ in steps]
                if query.totals is not None and query.totals.drawn:
                    laws, drawn = _laws_of_cells(plan, query, label, taken), []
                measure = query.measures[label]
                if query.ranges is not None and query.series is not None:
                    continue  # ``series.shared_noise``
                if query.ranges is not None:
                    found = expected_of_sums(plan, query, plan.step(fed[0]))
                else:
                    found = _expected(plan, measure, quantities, laws, _rows(query, label), drawn)
                _check_told(name, output, found, asked.get(label))


def _expected(
    plan: ReleasePlan,
    measure: Measure,
    quantities: Sequence[Quantity],
    laws: Sequence[Law],
    rows: int | None,
    drawn: Sequence[str],
) -> Expected:
    """The figures of a number; those of a percentage are a hundred times those of the quotient that it is."""
    plain = measure.model_copy(update={"show": None}) if measure.whole == 100 else measure
    confidence = plan.publish.confidence
    if plan.publish.tests(measure):
        found = plain.expected_tested(quantities, laws, confidence, rows, drawn)
    else:
        found = plain.expected(quantities, laws, confidence, rows)
    if plain is measure or found.standard_error is None or found.margin is None:
        return found
    return Expected(100 * found.standard_error, 100 * found.margin)


def _check_told(name: str, output: Output, found: Expected, target: Fraction | None) -> None:
    margin = None if found.margin is None else Fraction(found.margin)
    met = target is None or (margin is not None and margin <= target)
    require(met, f"{name} misses its target")
    for told, true in ((output.standard_error, found.standard_error), (output.margin, found.margin)):
        honest = told is None if true is None else figure(told, name) >= Fraction(true * (1 - _TOLERANCE))
        require(honest, f"{name} is told to be more accurate than it is")


def figure(text: str | None, name: str) -> Fraction:
    """A number that a plan tells.

    Raises:
        BrokenPromiseError: If it tells none.
    """
    try:
        found = Fraction(text or "")
    except (ValueError, ZeroDivisionError):
        found = Fraction(-1)
    require(found >= 0, f"{name} has no accuracy")
    return found


def _rows(query: PlannedQuery, label: str) -> int | None:
    """The guess of rows per cell: that for a count of the measure's own column, else the first one given."""
    own = query.measures[label]
    if own.others:  # what a ratio divides by
        own = query.measures.get(own.others[-1], own)
    for name, guess in query.expect.items():
        counted = query.measures[name].counted if name in query.measures else None
        if counted is not None and counted == own.target:
            return guess
    return next(iter(query.expect.values()), None)


Axes = tuple[int, ...]


Array = Any


def worst_variances(
    workload: Workload, catalog: Catalog, steps: Mapping[str, Measured]
) -> dict[tuple[int, Axes], float]:
    """The variance of the most uncertain cell of every published table, by level and set; infinite where one is open.

    Args:
        workload: The workload of a plan.
        catalog: The catalog of the same plan.
        steps: By id.
    """
    table = catalog.tables[workload.table]
    sizes = tuple(table.column(name).cells for name in workload.attributes)
    takes = [
        *taken_together(workload, steps, sizes),
        *(
            _taken(take.level, take.axes, step, sizes)
            for take in workload.takes
            if isinstance(step := steps[take.step], Invariant) or not step.tables
        ),
    ]
    if workload.name in catalog.zeros:
        zeros = catalog.zeros[workload.name]
        places = StructuralZeros(tuple(map(workload.attributes.index, zeros.columns)), zeros.cells)
        found = cell_variances(Design(sizes, Tree.flat(), workload.sets, tuple(takes), places))
        return {place: float(each.max()) for place, each in found.items()}
    parents = (
        [np.asarray(each) for each in catalog.hierarchies[workload.hierarchy].parents] if workload.hierarchy else []
    )
    nodes = (table.column(workload.levels[0]).cells if workload.levels else 1, *map(len, parents))
    totals = {(level, axes): np.zeros(count) for level, count in enumerate(nodes) for axes in workload.sets}
    last: tuple[tuple[float, ...], list[Array]] = ((), [])
    for residual, known in sorted(_precisions(workload.sets, takes, sizes, len(nodes)).items()):
        if known != last[0]:
            last = known, _smoothed(known, nodes, parents)  # neighbours often agree; all together may not fit
        for axes in workload.sets:
            factor = math.prod(1 - 1 / sizes[i] if i in residual else sizes[i] ** -2 for i in axes)
            if factor and set(residual) <= set(axes):
                for level, variances in enumerate(last[1]):
                    totals[level, axes] += factor * variances
    return {place: float(each.max()) for place, each in totals.items()}


def covers(
    workload: Workload, catalog: Catalog, steps: Mapping[str, Measured], axes: Axes, margin: float, alpha: float
) -> bool:
    """Whether a number of a table of discrete Laplace draws is within the margin as often as its confidence says.

    Two ways to see that are tried, beside Chebyshev's inequality. Of any weights: the generating function of a draw of
    variance v is 1 / (1 - v (cosh x - 1)), and that of all is at most the one of a single draw of the least variance
    (``estimate.workloads.tails``), so that Chernoff's bound of that holds. Drawn at the lowest level, without
    impossible combinations: the number is a sum of draws with known weights, and the sum S + U, U being four uniform
    numbers in ``_BLUR / 4`` each, is further away than margin - ``_BLUR`` whenever S is further away than the margin.
    Its law is inverted from its characteristic function.

    A cell of a table D has in a cell of A the weight cov(T_A, T_D) / v_D, T being least squares: what is left of a draw
    when its own estimate is taken off has nothing to do with any estimate.

    Args:
        workload: The workload of a plan, of whose draws all have discrete Laplace noise.
        catalog: The catalog of the same plan.
        steps: By id.
        axes: The attributes of the table.
        margin: In standard errors of the number.
        alpha: What the confidence leaves.
    """
    table = catalog.tables[workload.table]
    sizes = tuple(table.column(name).cells for name in workload.attributes)
    takes = [_taken(take.level, take.axes, steps[take.step], sizes) for take in workload.takes]
    drawn = [take for take in takes if take.variance]
    if margin**2 * alpha >= 1 or not drawn:
        return True
    least = min(take.variance for take in drawn)
    rates = np.linspace(0, 1, 4001)[1:-1] * math.sqrt(least) * _reaching(1 / least)
    left = 1 - 2 * least * np.sinh(rates / math.sqrt(least) / 2) ** 2  # which is cosh x - 1 with all its digits
    if float(np.min(np.log(2 / left) - rates * margin)) <= math.log(alpha) + _TOLERANCE:
        return True
    if any(take.level < max(1, len(workload.levels)) - 1 for take in takes) or workload.name in catalog.zeros:
        return False
    parents = catalog.hierarchies[workload.hierarchy].parents if workload.hierarchy else ()
    found = _weights(workload.sets, axes, takes, sizes)
    return all(
        _outside([(one, variance, number * below) for one, variance, number in found], least, margin, alpha) <= alpha
        for below in _lowest_below(parents)
    )


def _lowest_below(parents: Sequence[Sequence[int]]) -> set[int]:
    """How many nodes of the lowest level any node has: every one is followed up to the top."""
    found, above = {1}, list(range(len(parents[-1]))) if parents else []
    for each in reversed(parents):
        above = [each[node] for node in above]
        found |= set(Counter(above).values())
    return found


def _weights(
    sets: Sequence[Axes], axes: Axes, takes: Sequence[WorkloadDraw], sizes: Sequence[int]
) -> list[tuple[float, float, int]]:
    """Of each kind of cell of each draw: its weight in a cell of a table, the variance, how many cells there are."""
    precisions, found = _precisions(sets, takes, sizes, 1 + max(take.level for take in takes)), []
    for take in takes:
        both = [i for i in take.axes if i in axes]
        apart = {j: sizes[j] for j in (*take.axes, *axes)}
        for agree in _subsets(tuple(both)) if take.variance else ():
            covariance = 0.0
            for b in _subsets(tuple(both)):
                spread = math.prod(apart[j] for own in (axes, take.axes) for j in own if j not in b)
                signs = math.prod((i in agree) - 1 / sizes[i] for i in b)
                covariance += signs / spread / precisions[b][-1]
            number = math.prod(sizes[j] - (j in both) for j in take.axes if j not in agree)
            found.append((covariance / take.variance, take.variance, number))
    return found


def _laws_of_cells(plan: ReleasePlan, query: PlannedQuery, label: str, steps: Mapping[str, Measured]) -> list[Law]:
    """The laws of what a measure is made of in the cells of a query whose totals are drawn, too.

    The weights of the draws follow from the covariances of least squares (:func:`covers`); a margin of the law so made
    is held against that law, inverted as there.
    """
    totals, table = query.totals, plan.catalog.tables[query.table]
    assert totals is not None  # noqa: S101 - asked for by the caller
    sizes, full = tuple(table.column(name).cells for name in query.by), tuple(range(len(query.by)))
    fed = {full: query.inputs[label]}
    fed |= {tuple(map(query.by.index, each.by)): each.inputs[label] for each in totals.drawn}
    found: list[Law] = []
    for at in range(len(fed[full])):
        drawn = {axes: steps[feeds[at].step] for axes, feeds in fed.items()}
        gaussian = all(isinstance(each, Step) and each.mechanism == "discrete_gaussian" for each in drawn.values())
        weights = _weights([full], full, [_taken(0, axes, step, sizes) for axes, step in drawn.items()], sizes)
        law = WeightedLaw(tuple((weight, number, variance) for weight, variance, number in weights), gaussian)
        alpha = float(1 - plan.publish.confidence)
        margin = law.margin(plan.publish.confidence) / math.sqrt(law.variance) if law.variance else 0.0
        least = min(variance for _, variance, _ in weights)
        far = margin**2 * alpha >= 1 or _outside(weights, least, margin, alpha, gaussian, _FINE_BLUR) <= alpha
        require(far, f"{query.name}.{label} is told to be within a margin more often than it is")
        found.append(law)
    return found


def _outside(
    weights: Sequence[tuple[float, float, int]],
    least: float,
    margin: float,
    alpha: float,
    gaussian: bool = False,
    blur: float = _BLUR,
) -> float:
    """At most the probability that a sum of discrete draws is further away than so many standard errors."""
    error = math.sqrt(math.fsum(number * weight**2 * variance for weight, variance, number in weights))
    if not error:
        return 0.0
    rate = math.sqrt(least) * _reaching(1 / (2 * least))
    period = 2 * margin + 2 + 40 / rate  # what comes round again is below exp(-30)
    last = 4 / blur * (0.16 * 1000 / alpha) ** 0.25  # what is left out beyond is below alpha / 1000
    at = np.arange(1, math.ceil(last * period / (2 * math.pi)) + 1) * (2 * math.pi / period)
    law = np.sinc(at * blur / 4 / math.pi) ** 4
    for weight, variance, number in weights:
        if gaussian:
            law *= _gaussian(weight / error * at, variance) ** number
        else:
            law /= (1 + 2 * variance * np.sin(weight / error * at / 2) ** 2) ** number
    edge = margin - blur
    inside = 2 * edge / period + float(np.sum(2 * np.sin(at * edge) * law * 2 / (at * period)))
    return 1 - inside + alpha / 1000 + math.exp(-30)


def _gaussian(turn: Array, variance: float) -> Array:
    """What the cosine of so many radians for each step is on average under discrete Gaussian noise of this scale.

    By the points themselves where the scale is at most 8, up to nine scales, beyond which they are below exp(-40),
    added up by Clenshaw's recurrence; else by the nearest of the copies of the normal one, the next of which is below
    exp(-300).
    """
    if variance > 64:
        return np.exp(-variance * (turn - 2 * math.pi * np.rint(turn / (2 * math.pi))) ** 2 / 2)
    steps = np.arange(1, 2 + math.ceil(9 * math.sqrt(variance)))
    mass = np.exp(-(steps**2) / (2 * variance)) if variance else np.zeros(len(steps))
    once = np.cos(turn)
    above, own = np.zeros_like(once), np.zeros_like(once)
    for each in mass[::-1]:
        above, own = own, each + 2 * once * own - above
    return (1 + 2 * (once * own - above)) / (1 + 2 * mass.sum())


def _reaching(rise: float) -> float:
    """The x at which cosh x - 1 is this."""
    return 2 * math.asinh(math.sqrt(rise / 2))


def _subsets(axes: Axes) -> list[Axes]:
    return [found for size in range(len(axes) + 1) for found in combinations(axes, size)]


def _taken(level: int, axes: Axes, step: Measured, sizes: Sequence[int]) -> WorkloadDraw:
    """The variance of Gaussian noise is at most the square of its scale; an invariant has none."""
    if not isinstance(step, Invariant) and step.mechanism == "discrete_laplace":
        half = 1 / (2 * float(step.scale))
        return WorkloadDraw(level, axes, False, 1 / (2 * math.sinh(half) ** 2) if half < 350 else 0.0)
    residual = None if isinstance(step, Invariant) else step.residual
    contrasted = residual is not None and bool(residual.axes)  # else a table, on a lattice of its own or of counts
    divisor = 1 if residual is None else residual.grain * math.prod(sizes[i] for i in axes if contrasted)
    return WorkloadDraw(level, axes, contrasted, (float(step.scale) / divisor) ** 2)


def _precisions(
    sets: Sequence[Axes], takes: Sequence[WorkloadDraw], sizes: Sequence[int], levels: int
) -> dict[Axes, tuple[float, ...]]:
    """What the draws of every level tell of each residual that is needed; infinite where one is exact."""
    found = {residual: [0.0] * levels for residual in chain.from_iterable(map(_subsets, sets))}
    for take in takes:
        few = [take.axes] if take.residual else _subsets(take.axes) if 2 ** len(take.axes) < len(found) else list(found)
        for residual in few:
            if residual in found and set(residual) <= set(take.axes):
                variance = take.variance * math.prod(sizes[j] for j in take.axes if j not in residual)
                found[residual][take.level] += 1 / variance if variance else math.inf
    return {residual: tuple(known) for residual, known in found.items()}


def _smoothed(known: Sequence[float], nodes: Sequence[int], parents: Sequence[Array]) -> list[Array]:
    """The variance of one residual at every node of every level, given its precision at each level."""
    sums = [np.full(count, math.inf) for count in nodes]
    up = list(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        for level in reversed(range(len(nodes))):
            if level < len(parents):
                sums[level] = np.bincount(parents[level], up[level + 1], nodes[level])
            up[level] = 1 / (known[level] + 1 / sums[level])
        found = up[:1]
        for level, above in enumerate(parents, 1):
            own, together = up[level], sums[level - 1][above]
            share = np.where(together > 0, own / together, 0.0)
            down = share * (together - own) + share * share * found[-1][above]
            alone = np.bincount(above, minlength=nodes[level - 1])[above] == 1
            found.append(np.where(np.isinf(own), np.where(alone, found[-1][above], math.inf), down))
    return found
