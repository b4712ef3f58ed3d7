"""How accurate columns that compare will be, by the laws of the noise; an earlier period has the same noise here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod

from dprelease.catalog.table import Catalog
from dprelease.errors import PlanError
from dprelease.estimate.two_numbers import of_part_and_total, of_two_groups
from dprelease.measures import Expected
from dprelease.measures.comparing.comparison import ComparedNumber
from dprelease.measures.comparing.distances import Distances, noise_of_sum
from dprelease.measures.comparing.parts import TwoSums, share_reach
from dprelease.measures.tested.quotients import Draw, reach_at
from dprelease.noise import Law
from dprelease.noise.weighted_sums import WeightedLaw
from dprelease.plan.document import PlannedQuery
from dprelease.plan.resolve.grouping import expected_rows

__all__ = ["check_independent", "expected_comparison"]

Axes = tuple[int, ...]
Drawn = Sequence[Mapping[Axes, Law]]
_DATA = "depends on the data: how large the numbers are"
_ROWS = "depends on the cell's size: give `expect` for a count of the query"


def expected_comparison(
    query: PlannedQuery,
    asked: ComparedNumber,
    catalog: Catalog,
    drawn: Drawn,
    laws: Sequence[Law],
    confidence: Fraction,
) -> Expected:
    """The accuracy of a comparison in a cell of the expected size.

    Args:
        query: The query.
        asked: The comparison.
        catalog: Of the plan.
        drawn: For each quantity of the measure the law of each table that is drawn, by its key columns.
        laws: The law of each quantity in a cell.
        confidence: Of the margin.
    """
    measure, table = query.measures[asked.measure], catalog.tables[query.table]
    quantities = measure.quantities(table)
    form = next((each for each in measure.alternatives(table) if len(each) == len(laws)), quantities)
    weights = measure.coefficients(form)
    count = expected_rows(query.expect, query.measures, asked.measure)
    if weights is None:
        return _of_intervals(query, asked, form, laws, confidence, count)
    known = [float(each) for each in weights]
    sizes = tuple(table.column(name).cells for name in query.by)
    if asked.kind == "share":
        return _share(query, asked, sizes, drawn, known, confidence, count if measure.is_count else None)
    if asked.kind == "difference" and query.totals is not None and asked.difference_from is not None:
        full, along = tuple(range(len(sizes))), query.by.index(asked.difference_from[0])
        sums = _weighed([of_two_groups(sizes, each, full, along) for each in drawn], known)
        noise = Distances(
            WeightedLaw(tuple((abs(a - b), n, v) for a, b, n, v in sums.parts if a != b), sums.gaussian), 1.0
        )
        return Expected(noise.standard_error, noise.margin(confidence))
    if asked.kind in ("change", "difference"):
        noise = noise_of_sum([*zip(known, laws, strict=True), *zip(known, laws, strict=True)])
        return Expected(noise.standard_error, noise.margin(confidence))
    if count is None or not measure.is_count:
        return Expected(why_null=_ROWS if measure.is_count else _DATA)
    pairs = [*zip(known, laws, strict=True)]
    draws = [Draw(law, weight, 0.0, f"{at}") for at, (weight, law) in enumerate(pairs)]
    draws += [Draw(law, 0.0, weight, f"earlier {at}") for at, (weight, law) in enumerate(pairs)]
    error = math.sqrt(2 * math.fsum(weight**2 * law.variance for weight, law in pairs))
    # An end of the set of a quotient of 1 is the r with |A' - r B'| = q(r), of which q(1) / B' is what noise moves.
    return Expected(asked.whole * error / count, asked.whole * reach_at(draws, 1.0, confidence) / count)


def _of_intervals(
    query: PlannedQuery,
    asked: ComparedNumber,
    form: Sequence[object],
    laws: Sequence[Law],
    confidence: Fraction,
    count: int | None,
) -> Expected:
    """The difference of two intervals at half the error probability each."""
    measure = query.measures[asked.measure]
    found = measure.expected_tested(form, laws, 1 - (1 - confidence) / 2, count)  # type: ignore[arg-type]  # quantities
    if found.margin is None or found.standard_error is None:
        return found
    # The interval of each has its value in it and is at most two margins wide.
    return Expected(math.sqrt(2) * found.standard_error, 2 * found.margin)


def check_independent(query: PlannedQuery) -> None:
    """Refuse differences that are measured, and not proved, of numbers whose noise is not independent.

    Raises:
        PlanError: A query's cells are fitted together with its totals (DPR-P346).
    """
    if query.totals is None or not query.totals.drawn:
        return
    for label, asked in query.compare.items():
        if not asked.proved and asked.kind == "difference":
            raise PlanError(
                f"`compare.{asked.among or label}` of {query.name!r} has `proved: false`, and its groups share noise",
                detail="cells and totals that were drawn are fitted together; what is measured is of independent noise",
                hint="leave `proved` out, or publish the totals in a query of their own",
                code="DPR-P346",
            )


def _weighed(sums: Sequence[TwoSums], weights: Sequence[float]) -> TwoSums:
    parts = tuple(
        (weight * a, weight * b, times, variance)
        for weight, each in zip(weights, sums, strict=True)
        for a, b, times, variance in each.parts
        if times
    )
    return TwoSums(parts, sums[0].gaussian)


def _share(
    query: PlannedQuery,
    asked: ComparedNumber,
    sizes: tuple[int, ...],
    drawn: Drawn,
    weights: Sequence[float],
    confidence: Fraction,
    count: int | None,
) -> Expected:
    """Of a cell as large as the others: the share 1 / K of a total of K cells."""
    if count is None:
        measure = query.measures[asked.measure]
        return Expected(why_null=_ROWS if measure.is_count else _DATA)
    full = tuple(range(len(sizes)))
    total = tuple(at for at, name in enumerate(query.by) if name in (asked.share_of or ()))
    below = prod(size for at, size in enumerate(sizes) if at not in total)
    sums = _weighed([of_part_and_total(sizes, each, full, total) for each in drawn], weights)
    reach, error = share_reach(sums, 1 / below, confidence), float(sums.error(1 / below))
    size = count * below
    return Expected(asked.whole * error / size, asked.whole * min(reach / size, 1.0))
