"""The grid of every column: the author's ``step``, or for a decimal without one as fine as costs nothing.

>>> limits = (Fraction(0), Fraction(1))
>>> derived_step(limits, [limits], PARTS_OF_A_SUM), derived_step(limits, [limits], PARTS_OF_A_RANK)
(Fraction(1, 1000000), Fraction(1, 1000))
>>> income = (Fraction(0), Fraction(500_000))
>>> clip = (Fraction(0), Fraction(60_000))
>>> derived_step(income, [clip], PARTS_OF_A_SUM), derived_step(income, [income], PARTS_OF_A_RANK)
(Fraction(1, 100), Fraction(1, 1))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # who verifies a bundle reads the grids of a plan, and no spec
    from dprelease.spec.fields.document import ReleaseSpec, TableSpec

__all__ = [
    "COARSE",
    "PARTS_OF_A_RANK",
    "PARTS_OF_A_SUM",
    "Grid",
    "MeasuredLimits",
    "derived_step",
    "grid_of",
    "measured_by_table",
    "measured_limits",
]

Limits = tuple[Fraction, Fraction]

# A sum's noise is as wide on any grid, so that its grid is fine: rounding moves a mean by at most a two-millionth of
# the clip, which is below the noise of a million values. Each ten times finer makes totals ten times larger.
PARTS_OF_A_SUM = 10**6
# A quantile is chosen among grid values, and each ten times more of them cost ln(10) scales of rank. So its grid is as
# coarse as the plan leaves without a warning.
PARTS_OF_A_RANK = 10**3
COARSE = Fraction(1, 1000)  # of a clip: a wider step is warned of
_EXACT = 2**52  # steps from zero; engines and tables hold so many without rounding
_MOST_PLACES = 400  # no limit has more: what is written is below 1e300, and has at most 200 characters


@dataclass
class MeasuredLimits:
    """The limits that a column is clipped to, over all measures of all queries.

    Attributes:
        sums: The sums of sums, means, variances and standard deviations.
        ranks: The ranks of quantiles, least and largest values.
    """

    sums: list[Limits] = field(default_factory=list)
    ranks: list[Limits] = field(default_factory=list)


@dataclass(frozen=True)
class Grid:
    """What a column's values are rounded to.

    Attributes:
        step: Of what is summed.
        ranks: The ranks of quantiles.
        chosen_by: As ``Column.step_from``.
    """

    step: Fraction
    ranks: Fraction
    chosen_by: Literal["spec", "limits"] | None


def measured_limits(spec: ReleaseSpec, table: str) -> Mapping[str, MeasuredLimits]:
    """By column of a table the limits of everything that is made of its values; columns that are not are left out."""
    return measured_by_table(spec).get(table, {})


def measured_by_table(spec: ReleaseSpec) -> Mapping[str, Mapping[str, MeasuredLimits]]:
    """The same by table, of those that queries name: once for all of them."""
    found: dict[str, dict[str, MeasuredLimits]] = {}
    for query in spec.queries.values():
        table, own = spec.tables.get(query.table), found.setdefault(query.table, {})
        for measure in query.measures.values():
            name = measure.column
            if measure.grid_kind is None or name is None:
                continue
            column = table.columns.get(name) if table is not None else None
            limits = measure.limits or (column.range if column is not None else None)
            each = own.setdefault(name, MeasuredLimits())
            if limits is not None:
                (each.ranks if measure.grid_kind == "quantile" else each.sums).append(limits)
    return found


def grid_of(table: TableSpec, name: str, limits: Mapping[str, MeasuredLimits]) -> Grid | None:
    """The grid of a column.

    Args:
        table: That declares it.
        name: The name of the column.
        limits: As :func:`measured_limits` says of the table.

    Returns:
        None where no step is written and no power of ten fits the limits between which a decimal is measured.
    """
    column, weight = table.columns[name], table.weight
    written = weight.step if weight is not None and weight.column == name and column.step is None else column.step
    if written is not None:
        return Grid(written, written, "spec")
    if weight is not None and weight.column == name:
        return Grid(Fraction(1), Fraction(1), "spec")
    if column.type != "decimal" or column.range is None:
        return Grid(Fraction(1), Fraction(1), None)
    asked = limits.get(name, MeasuredLimits())
    ranks = derived_step(column.range, asked.ranks, PARTS_OF_A_RANK) if asked.ranks else None
    step = ranks if asked.ranks and not asked.sums else derived_step(column.range, asked.sums, PARTS_OF_A_SUM)
    ranks = ranks if asked.ranks else step
    return None if step is None or ranks is None else Grid(step, ranks, "limits")


def derived_step(within: Limits, limits: Iterable[Limits], parts: int) -> Fraction | None:
    """The largest power of ten, at most 1, of which the narrowest of some limits has so many parts or more.

    It is smaller where an end would else lie between two steps, and larger where 2^52 steps from zero would not do.

    Args:
        within: The range of the column; it counts as the only limits where there are no others.
        limits: Of what is measured; those that are upside down do not count.
        parts: How many steps there are between the narrowest limits, at least.

    Returns:
        None where no power of ten divides the ends, or one that does is more than a thousandth of the limits.
    """
    given = list(limits) or [within]
    widths = [high - low for low, high in given if high > low]
    ends = [end for pair in (within, *given) for end in pair]
    finest = max(map(abs, ends)) / _EXACT
    wanted = max(finest, min([Fraction(1), *(width / parts for width in widths)]))
    step = Fraction(1)
    for _ in range(_MOST_PLACES):
        if step <= wanted and all((end / step).denominator == 1 for end in ends):
            return step if all(step <= COARSE * width for width in widths) else None
        step /= 10
    return None
