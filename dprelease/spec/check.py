"""What crosses fields and names: every name leads somewhere, and every limit can be kept; all problems at once.

``clip_per`` may be left out: where every row is one unit, ``row`` and ``unit_cell`` are the same.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import prod

from dprelease.errors import Problem
from dprelease.measures import MEASURES, Measure
from dprelease.measures.base import Clipped
from dprelease.measures.count import Count
from dprelease.measures.variance import Stddev, Variance
from dprelease.spec.check_budget import check_accuracy, check_privacy
from dprelease.spec.check_columns import FINEST, check_grid, check_tables, keys_are_sound, step_is_sound
from dprelease.spec.document import ColumnSpec, KeySpan, QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.findings import Findings
from dprelease.spec.keys import size_of
from dprelease.spec.names import COLUMN_NAME, NAME_RULE, QUERY_NAME, did_you_mean, shown
from dprelease.spec.nodes import Path, Places
from dprelease.spec.prune import Hidden

__all__ = ["MOST_CELLS", "check", "check_cells"]

MOST_CELLS = 10_000_000
_REHEARSAL = "rehearsal"  # the column that marks a table of a rehearsal
# Engines square whole steps in 90 bits: from here on a value's distance from the middle of its clip is too far.
_FARTHEST = 2**45


def check(spec: ReleaseSpec, places: Places, hidden: Hidden) -> list[Problem]:
    """Every problem of names and limits in a spec, or in what is left of one.

    Args:
        spec: Valid field by field.
        places: Where its parts are.
        hidden: What was left out because it is wrong in itself; nothing that depends on it is reported.
    """
    findings = Findings(places, hidden)
    check_privacy(spec, findings)
    check_tables(spec, findings)
    if not spec.queries:
        hint = "write `queries: {people: {table: people, by: [sex], measures: {persons: {count: rows}}}}`"
        findings.add("DPR-S501", ("queries",), "has no query", hint)
    findings.same_file_name("queries", list(spec.queries))
    for name, query in spec.queries.items():
        if not QUERY_NAME.fullmatch(name):
            findings.add("DPR-S502", ("queries", name), "is no name", f"{NAME_RULE}; - as well", key=True)
        _check_query(spec, name, query, findings)
    for number, form in enumerate(spec.publish.formats):
        if form in spec.publish.formats[:number]:
            findings.add("DPR-S535", ("publish", "formats", number), f"repeats {form}", "list every format once")
    return findings.problems


def _check_query(spec: ReleaseSpec, name: str, query: QuerySpec, findings: Findings) -> None:
    at = ("queries", name)
    table = spec.tables.get(query.table)
    if table is None:
        says, hint = f"means no table: {shown(query.table)!r}", did_you_mean(query.table, spec.tables)
        findings.add("DPR-S503", (*at, "table"), says, hint, ("tables", query.table))
    else:
        _check_by(query, table, at, findings)
        check_cells(query, [_known_cells(table, column) for column in query.by], at, findings)
    for label, measure in query.measures.items():
        here = (*at, "measures", label)
        if not COLUMN_NAME.fullmatch(label):
            findings.add("DPR-S502", here, "is no name", NAME_RULE, key=True)
        if table is not None:
            _check_measure(query.table, table, measure, here, findings)
    _check_outputs(query, at, findings)
    check_accuracy(spec, query, at, findings)


def _check_by(query: QuerySpec, table: TableSpec, at: Path, findings: Findings) -> None:
    for number, column in enumerate(query.by):
        here, about = (*at, "by", number), ("tables", query.table, "columns", column)
        if column in query.by[:number]:
            findings.add("DPR-S506", here, f"repeats {shown(column)!r}", "name every column once")
        if column not in table.columns:
            says, hint = (
                f"is no column of table {query.table!r}: {shown(column)!r}",
                did_you_mean(column, table.columns),
            )
            findings.add("DPR-S504", here, says, hint, about)
        elif table.columns[column].keys is None:
            hint = "declare its public values: `keys: [...]`, `{reference: ...}` or `{from: ..., to: ...}`"
            findings.add("DPR-S505", here, f"is a column without keys: {shown(column)!r}", hint, about)


def _known_cells(table: TableSpec, name: str) -> int:
    """The number of keys that the spec spells out; 1 where a reference does, or where they are wrong."""
    column: ColumnSpec | None = table.columns.get(name)
    if column is None or not keys_are_sound(column):
        return 1
    if isinstance(column.keys, KeySpan):
        return size_of(column.keys)
    return max(1, len(column.keys)) if isinstance(column.keys, tuple) else 1


def check_cells(query: QuerySpec, keys: list[int], at: Path, findings: Findings) -> None:
    """At most ten million cells in one query, empty ones included."""
    cells = prod(keys)
    if cells > MOST_CELLS:
        says = f"makes {cells} cells, more than ten million" if len(str(cells)) < 30 else "makes far too many cells"
        findings.add("DPR-S528", (*at, "by"), says, "take a column out, or fewer keys")


def _check_measure(table_name: str, table: TableSpec, measure: Measure, at: Path, findings: Findings) -> None:
    kind = next(kind for kind, model in MEASURES.items() if type(measure) is model)
    name = getattr(measure, kind)
    if isinstance(measure, Count) and name in ("rows", "units"):
        return
    about = ("tables", table_name, "columns", name)
    column = table.columns.get(name)
    if column is None:
        near = did_you_mean(name, [*table.columns, *(("rows", "units") if isinstance(measure, Count) else ())])
        says = f"is no column of table {table_name!r}: {shown(name)!r}"
        findings.add("DPR-S504", (*at, kind), says, near, about)
    elif isinstance(measure, Clipped):
        if column.type not in ("integer", "decimal"):
            says = f"needs a number, and {shown(name)!r} is {column.type}"
            findings.add("DPR-S507", (*at, kind), says, "count it, or take an integer or decimal column", about)
        elif column.range is None:
            says = f"needs a range, and {shown(name)!r} has none"
            hint = f"declare `range: [low, high]` of {shown(name)}: public limits, never read from the data"
            findings.add("DPR-S508", (*at, kind), says, hint, about)
        if measure.clip is not None and step_is_sound(column):
            check_grid(measure.clip, column.step, (*at, "clip"), ("DPR-S512", "DPR-S513"), findings, about)
        if isinstance(measure, Variance | Stddev) and step_is_sound(column):
            _check_squares(measure, name, column, kind, at, findings, about)


def _check_squares(
    measure: Variance | Stddev, name: str, column: ColumnSpec, kind: str, at: Path, findings: Findings, about: Path
) -> None:
    """The squares of a clip in steps can be computed; what is wrong with the clip itself is told elsewhere."""
    limits = measure.clip if measure.clip is not None else column.range
    if limits is None or limits[0] >= limits[1]:
        return
    low, high = (limit / column.step for limit in limits)
    if max(low.denominator, high.denominator) > 1 or max(abs(low), abs(high)) > FINEST:
        return
    if -((low - high) // 2) >= _FARTHEST:
        says = f"reaches 2^45 steps of {shown(name)} or more to either side of its middle, too far for squares"
        hint = f"give {shown(name)} a coarser step, such as `step: {_coarser(limits)}`, or narrow the `clip`"
        where = (*at, "clip") if measure.clip is not None else (*at, kind)
        findings.add("DPR-S547", where, says, hint, about)


def _coarser(limits: tuple[Fraction, Fraction]) -> str:
    """The smallest power of ten that is a step on which squares between these limits fit.

    >>> _coarser((Fraction(0), Fraction(2**46 - 2))), _coarser((Fraction(0), Fraction(2**46 - 1)))
    ('1', '10')
    >>> _coarser((Fraction(0), Fraction(8 * 10**9)))
    '0.001'
    """
    needed = (limits[1] - limits[0]) / (2 * _FARTHEST - 2)
    power = next(power for power in range(-400, 400) if Fraction(10) ** power >= needed)
    return f"{Decimal(1).scaleb(power):f}"


def _check_outputs(query: QuerySpec, at: Path, findings: Findings) -> None:
    """A measure m publishes m, m_se, m_margin and m_status beside the keys; capitals do not tell names apart."""
    taken = {column.lower(): f"key column {column}" for column in query.by} | {_REHEARSAL: "mark of rehearsals"}
    for label in query.measures:
        names = [label, f"{label}_se", f"{label}_margin", f"{label}_status"]
        clash = next((name for name in names if name.lower() in taken), None)
        if clash is not None:
            says = f"publishes a column {shown(clash)!r}, which is the name of the {shown(taken[clash.lower()])}"
            findings.add("DPR-S523", (*at, "measures", label), says, "rename the measure", (*at, "by"), key=True)
        taken |= {name.lower(): f"column {name}" for name in names}
