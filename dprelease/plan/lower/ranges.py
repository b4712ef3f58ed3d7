"""From a query of prefixes or ranges to its draw: every way of measuring, and the one whose published sums err least.

A way is an invertible whole-number matrix F along the ordered column (``catalog.factor``), with independent discrete
Gaussian noise on F x. Tried are the counts of the keys themselves (no factor) and the symmetric root for the very sums
that are published, ``(W'W)^(1/4)`` with columns of equal norm, in whole numbers: up to 128 keys written out
(``matrix``), and beyond as the line that it is made of (``plan.design.mirrored``). It is within 1 % of the least error
that any Gaussian noise can have (``plan.design.ranges.optimal_gaussian``, ``plan.design.mirrored.least_mean_variance``;
the tests hold it against them). Up to 128 keys the square root of the matrix of prefix sums (``root``) is tried, too;
up to 1,024 where a target is set, which is about the sum that errs most: that of the root errs 1 to 2.3 % less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.catalog.aggregate import Grouping
from dprelease.catalog.factor import LEAST_GRAIN, MOST_WRITTEN_OUT, Factor, factor_sensitivity
from dprelease.catalog.mirrored import Mirror
from dprelease.catalog.sensitivity import limits_of
from dprelease.catalog.table import Catalog
from dprelease.estimate.mirrored import least_eigenvalue
from dprelease.estimate.ranges import Which, variances_of
from dprelease.measures import Measure
from dprelease.plan.design.mirrored import MIRRORED_GRAIN, mirrored_line
from dprelease.plan.design.ranges import prefix_gram, range_gram, total_error, tree_information
from dprelease.plan.document import Answer, Considered, Feed
from dprelease.plan.document.ranges import PlannedRanges
from dprelease.plan.document.series import PlannedSeries
from dprelease.plan.lower.lowered import Term
from dprelease.plan.lower.series import drawn_in_series
from dprelease.plan.lower.unscaled import ROOT_GRAIN, UnscaledStep, additive
from dprelease.privacy.budget import round_up
from dprelease.privacy.unit import Neighboring
from dprelease.spec.fields.document import QuerySpec

__all__ = ["NAMES", "LoweredRanges", "has_inverse", "lowered_ranges", "mirrored_factor", "near_optimal"]

NAMES = {
    "root": "square root of the prefix sums",
    "matrix": "near-optimal matrix",
    "mirrored_prefixes": "near-optimal matrix",
    "mirrored_ranges": "near-optimal matrix",
    None: "counts of the keys",
}
_HELD_GRAIN = 2**12  # of a matrix, whose entries the plan holds
_ROOTS = 1024  # keys up to which a root is worked out, and solved for by the verifier, in tenths of a second
_COMPARED = 512  # keys up to which a binary tree is worked out beside it
_PRIME = 2**31 - 1
LEAST_COUNT = 2**32  # of rows of a cell that is not clamped

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LoweredRanges:
    """A query of prefixes or ranges before its noise is chosen.

    Attributes:
        planned: What the plan says of it.
        label: The name of its number.
        draft: Its one draw.
        weight: The mean variance of a published number per variance of one number of the draw.
        considered: The ways that were passed over, the best first, and a binary tree, which no plan draws.
    """

    planned: PlannedRanges
    label: str
    draft: UnscaledStep
    weight: float
    considered: tuple[Considered, ...]

    @property
    def inputs(self) -> dict[str, tuple[Feed, ...]]:
        """What feeds its number."""
        return {self.label: (Feed(step=self.draft.id),)}

    def terms(self, query: int, first: Mapping[str, int], measures: Mapping[str, Measure]) -> list[Term]:
        """What planning sees of it: the mean of its sums.

        Args:
            query: Its place in the spec.
            first: The place of every draft, by its id.
            measures: By name; it has one, whose sums are told by the draw.
        """
        return [Term(query, self.label, ((first[self.draft.id], self.weight),))]


def lowered_ranges(
    name: str,
    query: QuerySpec,
    grouping: Grouping,
    catalog: Catalog,
    relation: Neighboring,
    series: PlannedSeries | None = None,
) -> LoweredRanges:
    """Try every way to measure a query of prefixes or ranges, and take the one with the least mean variance.

    With a target alone the one whose largest variance is least, for the margin of the worst sum has to meet it.

    Args:
        name: The name of the query.
        query: The query of a spec that was loaded without a problem.
        grouping: Its rows and cells.
        catalog: The catalog of the same spec.
        relation: Which tables are neighbours.
        series: Whose periods share their noise; the ways are then compared as those of one period.

    Raises:
        ValueError: If it has no ``ranges``, or nothing bounds how many rows a unit has.
    """
    if query.ranges is None:
        raise ValueError("only a query with ranges asks for sums along a column")
    ((label, measure),) = query.measures.items()
    wanted, relation = relation, relation if series is None else Neighboring.ADD_REMOVE
    (quantity,) = measure.quantities(catalog.tables[grouping.table])
    planned = PlannedRanges(of=query.ranges.of, which=query.ranges.which)
    answers = (Answer(query=name, measure=label),)
    plain = additive(f"{name}.{planned.which}", grouping, quantity, answers, catalog, relation)
    plain = replace(plain, part=Fraction(1))
    rows = limits_of(grouping, catalog).rows
    if rows is None:
        raise ValueError(f"nothing bounds how many rows of {grouping.table} one unit has: give max_rows")
    shape = tuple(catalog.tables[grouping.table].column(column).cells for column in grouping.by)
    axis = grouping.by.index(planned.of)
    drafts = [plain]
    aimed = bool(query.target) and query.share is None  # beside a share a target is the least that it gets
    for factor in _factors(shape, axis, planned.which, aimed=aimed):
        if series is not None and factor.most_rows // series.band.growth < LEAST_COUNT:
            continue
        reach = factor_sensitivity(factor, rows, relation, quantity.each)
        drafts.append(replace(plain, factor=factor, sensitivity=reach))
    variances = [variances_of(draft.factor, shape[axis], planned.which) for draft in drafts]
    weights = [float(each.mean()) for each in variances]
    told = [float(each.max()) for each in variances] if aimed else weights
    errors = [float(draft.sensitivity.l2_squared) * each for draft, each in zip(drafts, told, strict=True)]
    order = sorted(range(len(drafts)), key=errors.__getitem__)  # of two that are as good the plainer one
    best = order[0]
    passed = [(NAMES[_kind(drafts[at])], errors[at]) for at in order[1:]]
    if relation is Neighboring.ADD_REMOVE and 1 < shape[axis] <= _COMPARED and not aimed:
        passed.append(("binary tree", (rows * quantity.each) ** 2 * _error_of_tree(shape[axis], planned.which)))
    considered = tuple(
        Considered(name=f"{name}: {way}", noise=round_up(Fraction(math.sqrt(error / errors[best])), 4))
        for way, error in passed
    )
    own = drafts[best] if series is None else drawn_in_series(drafts[best], series, wanted)
    draft = replace(own, worst=float(variances[best].max()), reach=rows * quantity.each)
    return LoweredRanges(planned, label, draft, weights[best], considered)


def _kind(draft: UnscaledStep) -> str | None:
    return None if draft.factor is None else draft.factor.kind


def _factors(shape: tuple[int, ...], axis: int, which: Which, *, aimed: bool = False) -> list[Factor]:
    """The factors that are tried; ``aimed``: for a target."""
    keys = shape[axis]
    if keys == 1:
        return []
    if keys > MOST_WRITTEN_OUT:  # doubles err by less than 1 in an eigenvalue, so that it has an inverse for certain
        long = mirrored_factor(shape, axis, which)
        found = [long] if least_eigenvalue(long) > 1 else []
        return [*found, _root(shape, axis)] if aimed and keys <= _ROOTS else found
    found = [_root(shape, axis)]
    matrix = near_optimal(keys, which)
    if has_inverse(matrix):
        rows = tuple(tuple(row) for row in matrix.tolist())
        found.append(Factor(shape=shape, axis=axis, kind="matrix", grain=max(_HELD_GRAIN, LEAST_GRAIN), rows=rows))
    return found


def _root(shape: tuple[int, ...], axis: int) -> Factor:
    return Factor(shape=shape, axis=axis, kind="root", grain=ROOT_GRAIN)


def mirrored_factor(shape: tuple[int, ...], axis: int, which: Which) -> Factor:
    """The mirrored line whose sums of this kind err least along one column, as ``plan.design.mirrored`` finds it."""
    kind: Mirror = "mirrored_prefixes" if which == "prefixes" else "mirrored_ranges"
    line, times = mirrored_line(shape[axis], kind)
    return Factor(shape=shape, axis=axis, kind=kind, grain=MIRRORED_GRAIN, line=line, times=times)


def near_optimal(keys: int, which: Which) -> Whole:
    """The symmetric root ``(W'W)^(1/4)`` for all prefixes or ranges, its columns scaled to one norm, in whole numbers.

    ``A = (W'W)^(1/4)`` is the best matrix for a total squared error where only the sum of the squared norms of its
    columns is limited (Li and Miklau 2013, "Optimal error of query sets under the differentially-private matrix
    mechanism", the singular value bound); with equal norms the largest is limited as well. What is published is
    computed from the whole numbers alone: how they were found matters to the error and to nothing else.

    Args:
        keys: n.
        which: The sums.

    Returns:
        Shape ``(keys, keys)``.
    """
    gram = prefix_gram(keys) if which == "prefixes" else range_gram(keys)
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.maximum(values, 0.0) ** 0.25) @ vectors.T
    root /= np.linalg.norm(root, axis=0)
    return np.asarray(np.rint(root * _HELD_GRAIN), dtype=np.int64)


def has_inverse(matrix: Whole) -> bool:
    """Whether a whole-number matrix has an inverse for certain: its determinant is not 0 modulo a prime.

    Elimination modulo 2^31 - 1, in whole numbers below 2^62. A determinant that is a multiple of the prime, and not 0,
    is refused as well, which costs nothing but a way to measure.

    Args:
        matrix: Shape ``(n, n)``.
    """
    rest = np.asarray(matrix, dtype=np.int64) % _PRIME
    while len(rest):
        places = np.flatnonzero(rest[:, 0])
        if not len(places):
            return False
        rest[[0, places[0]]] = rest[[places[0], 0]]
        line = rest[0, 1:] * pow(int(rest[0, 0]), -1, _PRIME) % _PRIME
        rest = (rest[1:, 1:] - rest[1:, :1] * line[None, :] % _PRIME) % _PRIME
    return True


def _error_of_tree(keys: int, which: Which) -> float:
    """The mean variance of a sum from a binary tree of counts with the best noise in every level, times its L2^2."""
    gram = prefix_gram(keys) if which == "prefixes" else range_gram(keys)
    sums = keys if which == "prefixes" else keys * (keys + 1) // 2
    return total_error(gram, tree_information(keys)) / sums
