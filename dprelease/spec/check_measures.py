"""The rules of measures: columns that have what is asked of them, limits that can be kept, names that do not clash."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from dprelease.measures import Measure, kind_of
from dprelease.measures.base import Asked, Clipped, Ranged
from dprelease.measures.count import Count
from dprelease.measures.quantile import Quantiles, quantile_name
from dprelease.measures.ratio import Ratio
from dprelease.measures.variance import Stddev, Variance
from dprelease.spec.check_columns import FINEST, NUMBERS, check_grid, step_is_sound
from dprelease.spec.check_units import may_repeat
from dprelease.spec.document import ColumnSpec, QuerySpec, TableSpec
from dprelease.spec.expressions import check_where, types_of
from dprelease.spec.findings import Findings
from dprelease.spec.names import COLUMN_NAME, NAME_RULE, did_you_mean, shown
from dprelease.spec.nodes import Path
from dprelease.spec.steps import Grid, Measured, grid_of

__all__ = ["check_measures", "check_outputs", "published_names"]

_REHEARSAL = "rehearsal"  # the column that marks a table of a rehearsal
# Engines square whole steps in 90 bits: from here on a value's distance from the middle of its clip is too far.
_FARTHEST = 2**45
_MOST_POINTS = 2**31  # of the grid of a quantile
_PARTS = ("count", "count_distinct", "sum")  # what a ratio can be of


def published_names(label: str, measure: Measure) -> tuple[str, ...]:
    """The names under which a measure is published: of quantiles one for each rank, else its own.

    >>> published_names("age", Quantiles(quantiles="years", at=(Fraction(1, 4), Fraction(1, 2))))
    ('age_q25', 'age_q50')
    """
    if isinstance(measure, Quantiles):
        return tuple(quantile_name(label, rank) for rank in measure.at)
    return (label,)


def check_measures(
    query: QuerySpec, table: TableSpec | None, limits: Mapping[str, Measured], at: Path, findings: Findings
) -> None:
    """Every measure of one query, and that their names do not clash.

    Args:
        query: As written.
        table: Its table; None where there is none of that name.
        limits: What is made of the table's columns, in all queries.
        at: The path of the query.
        findings: Where problems go.
    """
    for label, measure in query.measures.items():
        here = (*at, "measures", label)
        if not COLUMN_NAME.fullmatch(label):
            findings.add("DPR-S502", here, "is no name", NAME_RULE, key=True)
        if isinstance(measure, Ratio):
            _check_ratio(query, label, measure, here, findings)
        elif table is not None:
            _check_measure(query, table, limits, measure, here, findings)
    check_outputs(query, query.by, at, findings)


def _check_measure(
    query: QuerySpec,
    table: TableSpec,
    limits: Mapping[str, Measured],
    measure: Measure,
    at: Path,
    findings: Findings,
) -> None:
    kind, columns = kind_of(measure), ("tables", query.table, "columns")
    if measure.where is not None:
        check_where(measure.where, types_of(table.columns), (*at, "where"), findings, columns)
    if isinstance(measure, Clipped) and measure.clip_per is None and may_repeat(query, table):
        of_table = ("tables", query.table)
        hint = "write `clip_per: row`, or `clip_per: unit_cell` to clip the sum of a unit's rows in a cell"
        says = "does not say what is clipped, and one unit may have several rows in a cell"
        findings.add("DPR-S556", at, says, hint, (*of_table, "unit_id"), (*of_table, "bounds"), (*at[:2], "bounds"))
    name = getattr(measure, kind)
    if isinstance(measure, Count) and name in ("rows", "units"):
        return
    about, column = (*columns, name), table.columns.get(name)
    if column is None:
        near = did_you_mean(name, [*table.columns, *(("rows", "units") if isinstance(measure, Count) else ())])
        says = f"is no column of table {query.table!r}: {shown(name)!r}"
        findings.add("DPR-S504", (*at, kind), says, near, about)
    elif isinstance(measure, Ranged):
        _check_ranged(measure, name, column, grid_of(table, name, limits), at, findings, about)
    if isinstance(measure, Quantiles):
        _check_ranks(measure, at, findings)


def _check_ranged(
    measure: Ranged, name: str, column: ColumnSpec, grid: Grid | None, at: Path, findings: Findings, about: Path
) -> None:
    """A number with a range, and a clip on its grid."""
    kind = kind_of(measure)
    if column.type not in NUMBERS:
        says = f"needs a number, and {shown(name)!r} is {column.type}"
        findings.add("DPR-S507", (*at, kind), says, "count it, or take an integer or decimal column", about)
    elif column.range is None:
        says = f"needs a range, and {shown(name)!r} has none"
        hint = f"declare `range: [low, high]` of {shown(name)}: public limits, never read from the data"
        findings.add("DPR-S508", (*at, kind), says, hint, about)
    step = None if grid is None else grid.ranks if measure.grid_kind == "quantile" else grid.step
    if step is None or not step_is_sound(column, step):
        return
    if measure.clip is not None:
        check_grid(measure.clip, step, (*at, "clip"), ("DPR-S512", "DPR-S513"), findings, about)
    limits = measure.clip if measure.clip is not None else column.range
    if limits is None or limits[0] >= limits[1]:
        return
    low, high = (limit / step for limit in limits)
    if max(low.denominator, high.denominator) > 1 or max(abs(low), abs(high)) > FINEST:
        return  # told already
    where = (*at, "clip") if measure.clip is not None else (*at, kind)
    if isinstance(measure, Variance | Stddev) and -((low - high) // 2) >= _FARTHEST:
        says = f"reaches 2^45 steps of {shown(name)!r} or more to either side of its middle, too far for squares"
        hint = f"give {shown(name)} a coarser step, such as `step: {_coarser(limits)}`, or narrow the `clip`"
        findings.add("DPR-S547", where, says, hint, about)
    if isinstance(measure, Asked) and high - low > _MOST_POINTS:
        says = f"spans more than 2^31 steps of {shown(name)!r}, too many to choose from"
        needed = _power_from((limits[1] - limits[0]) / _MOST_POINTS)
        hint = f"give {shown(name)} a coarser step, such as `step: {needed}`, or narrow the `clip`"
        findings.add("DPR-S581", where, says, hint, about)


def _coarser(limits: tuple[Fraction, Fraction]) -> str:
    """The smallest power of ten that is a step on which squares between these limits fit.

    >>> _coarser((Fraction(0), Fraction(2**46 - 2))), _coarser((Fraction(0), Fraction(2**46 - 1)))
    ('1', '10')
    >>> _coarser((Fraction(0), Fraction(8 * 10**9)))
    '0.001'
    """
    return _power_from((limits[1] - limits[0]) / (2 * _FARTHEST - 2))


def _power_from(needed: Fraction) -> str:
    power = next(power for power in range(-400, 400) if Fraction(10) ** power >= needed)
    return f"{Decimal(1).scaleb(power):f}"


def _check_ranks(measure: Quantiles, at: Path, findings: Findings) -> None:
    """Each rank once, from 0 to 1, rising: the published columns come in that order."""
    for number, rank in enumerate(measure.at):
        here = (*at, "at", number)
        if not 0 <= rank <= 1:
            hint = "write a fraction from 0 to 1: 0.5 is the median, 0.9 the 90th percentile"
            findings.add("DPR-S580", here, "is not between 0 and 1", hint)
        elif rank in measure.at[:number]:
            findings.add("DPR-S580", here, "is there already", "write every rank once")
        elif number and rank < measure.at[number - 1]:
            findings.add("DPR-S580", here, "is smaller than the one before", "write them rising: [0.25, 0.5, 0.75]")


def _check_ratio(query: QuerySpec, label: str, measure: Ratio, at: Path, findings: Findings) -> None:
    """Of two other measures of the query, each with an error of its own that is known."""
    for number, name in enumerate(measure.ratio):
        here, about = (*at, "ratio", number), (*at[:-1], name)
        if name == label:
            findings.add(
                "DPR-S582", here, "is the ratio itself", f"name a count or a sum; {did_you_mean('', _fit(query))}"
            )
        elif name not in query.measures:
            says, hint = f"is no measure of this query: {shown(name)!r}", did_you_mean(name, _fit(query))
            findings.add("DPR-S582", here, says, hint, about)
        elif kind_of(query.measures[name]) not in _PARTS:
            says = f"is a {kind_of(query.measures[name])}: {shown(name)!r}"
            findings.add("DPR-S582", here, says, "take a count, a count_distinct or a sum of this query", about)
        elif name in measure.ratio[:number]:
            says = f"is the same measure as the first: {shown(name)!r}"
            findings.add("DPR-S582", here, says, "name two different measures of this query")


def _fit(query: QuerySpec) -> list[str]:
    """The measures of a query that a ratio can be of."""
    return [name for name, measure in query.measures.items() if kind_of(measure) in _PARTS]


def check_outputs(query: QuerySpec, keys: tuple[str, ...], at: Path, findings: Findings) -> None:
    """A number m is published as m, m_se, m_margin, m_lower, m_upper and m_status; capitals do not tell names apart.

    Args:
        query: As written.
        keys: Its key columns.
        at: Its path.
        findings: Where problems go.
    """
    taken = {column.lower(): f"key column {column}" for column in keys} | {_REHEARSAL: "mark of rehearsals"}
    for label, measure in query.measures.items():
        roots = published_names(label, measure)
        ends = ("", "_se", "_margin", "_lower", "_upper", "_status")
        names = list(dict.fromkeys(f"{root}{end}" for root in roots for end in ends))
        clash = next((name for name in names if name.lower() in taken), None)
        if clash is not None:
            says = f"publishes a column {shown(clash)!r}, which is the name of the {shown(taken[clash.lower()])}"
            findings.add(
                "DPR-S523",
                (*at, "measures", label),
                says,
                "rename the measure",
                (*at, "by"),
                (*at, "marginals"),
                key=True,
            )
        taken |= {name.lower(): f"column {name}" for name in names}
