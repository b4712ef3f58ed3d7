"""The rules of prefixes and ranges: an ordered column of `by`, one count of rows, and Gaussian noise."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod

from dprelease.catalog.factor import MOST_KEYS
from dprelease.spec.checks.budget import check_gaussian
from dprelease.spec.checks.columns import keys_are_sound
from dprelease.spec.checks.keys import MOST_CELLS, known_cells
from dprelease.spec.fields.columns import ColumnSpec, KeySpan, ReferenceKeys, spelled_out
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.fields.queries import RangesSpec, end_columns
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_range_query", "check_range_rows"]

# What stands beside `ranges`, to what can be done instead; all else of a query may stand there.
_BESIDE: Mapping[str, str] = {
    "keys": "leave it out: sums along a column need all of its keys, which are public",
    "min_units": "leave it out: every sum is published",
    "except_": "leave it out: every sum is published, and what is left out of a cell would be missing in sums",
    "top_k": "write one query for the list, and one for the sums",
    "suppress": "leave it out, or write `publish: {unreliable: {relative_error_above: 0.5}}`",
    "marginals": "write one query for the tables, and one for the sums",
    "levels": "leave it out; a level can be one of `by`",
    "shares": "leave it out: one draw is made; `share` is the query's part of the budget",
}


def check_range_query(
    spec: ReleaseSpec, name: str, query: QuerySpec, table: TableSpec | None, findings: Findings
) -> None:
    """One query with `ranges`: what stands beside it, its columns, its measure and its noise.

    What other queries have as well (columns of `by`, bounds, goals) is checked as theirs is.

    Args:
        spec: Has the noise and the budget.
        name: The name of the query.
        query: With ranges.
        table: Its table; None where there is none of that name.
        findings: Where problems go.
    """
    ranges, at = query.ranges, ("queries", name)
    assert ranges is not None  # noqa: S101 - asked for by the caller
    for field, hint in _BESIDE.items():
        if getattr(query, field):
            findings.add("DPR-S671", (*at, field.rstrip("_")), "stands beside `ranges`", hint, (*at, "ranges"))
    if query.marginals is not None or query.top_k is not None:
        return  # the rest is meant for one of the two
    _check_measure(query, at, findings)
    check_gaussian(spec, (*at, "ranges"), "DPR-S673", "a plain query, whose cells add up", findings)
    if ranges.of not in query.by:
        says, hint = f"is no column of `by`: {shown(ranges.of)!r}", did_you_mean(ranges.of, query.by)
        hint = hint or f"write `by: [{shown(ranges.of)}]`, beside other columns if there are any"
        findings.add("DPR-S670", (*at, "ranges", "of"), says, hint, (*at, "by"))
        return
    _check_names(query, ranges, at, findings)
    if table is None or ranges.of not in table.columns:
        return
    column = table.columns[ranges.of]
    if _check_order(column, query, ranges, at, findings):
        check_range_rows(name, query, {each: known_cells(table.columns.get(each)) for each in query.by}, findings)


def _check_measure(query: QuerySpec, at: Path, findings: Findings) -> None:
    here, hint = (*at, "measures"), "write one: `measures: {persons: {count: rows}}`; other measures in another query"
    if len(query.measures) > 1:
        says = f"has {len(query.measures)} measures, and sums along a column have one"
        findings.add("DPR-S672", here, says, hint)
    for label, measure in query.measures.items() if len(query.measures) == 1 else ():
        if measure.counted != "rows":
            says = "is no count of rows, which alone is summed along a column"
            findings.add("DPR-S672", (*here, label), says, hint, key=True)
        elif measure.where is not None:
            findings.add("DPR-S672", (*here, label, "where"), "chooses rows", "write `where` in the query")


def _check_names(query: QuerySpec, ranges: RangesSpec, at: Path, findings: Findings) -> None:
    """The columns that sums begin and end in are told apart from all others; capitals do not tell names apart."""
    taken = {column.lower(): f"column {column} of `by`" for column in query.by if column != ranges.of}
    taken |= {"rehearsal": "mark of rehearsals"}
    for label in query.measures:
        ends = ("", "_se", "_margin", "_lower", "_upper", "_status")
        taken |= {f"{label}{end}".lower(): f"column {label}{end} of a measure" for end in ends}
    for name in end_columns(ranges.of, ranges.which):
        if name.lower() in taken:
            says = f"publishes a column {shown(name)!r}, which is the name of the {shown(taken[name.lower()])}"
            findings.add("DPR-S674", (*at, "ranges"), says, "rename the other one", (*at, "by"), (*at, "measures"))


def _check_order(column: ColumnSpec, query: QuerySpec, ranges: RangesSpec, at: Path, findings: Findings) -> bool:
    """Whether the keys of the column are known to be in order; they are bins, a span, or a rising list."""
    here, about = (*at, "ranges", "of"), ("tables", query.table, "columns", ranges.of)
    if not column.has_keys:
        return False  # which is told where the column is named
    ordered = column.bin is not None or isinstance(column.keys, KeySpan)
    named = shown(ranges.of)
    if not ordered and column.type not in ("integer", "date"):
        says = f"is a {column.type} column, whose keys have no order: {named!r}"
        hint = "take numbers or dates, or bands of a number: `{bin: COLUMN, edges: [0, 18, 65]}`"
        findings.add("DPR-S670", here, says, hint, about)
    elif isinstance(column.keys, ReferenceKeys):
        says = f"has its keys, and their order, from a file: {named!r}"
        hint = "write them out: `keys: {from: 0, to: 99}`, or a list that rises"
        findings.add("DPR-S670", here, says, hint, about)
    elif not keys_are_sound(column):
        return False  # which is told where they are wrong
    elif ordered or all(a < b for a, b in pairwise(spelled_out(column) or ())):  # type: ignore[operator]  # of one type
        return True
    else:
        says, hint = f"has keys that do not rise: {named!r}", "write its `keys` from the least to the largest"
        findings.add("DPR-S670", here, says, hint, about)
    return False


def check_range_rows(name: str, query: QuerySpec, keys: Mapping[str, int], findings: Findings) -> None:
    """At most 4,096 keys in order, and ten million sums.

    Args:
        name: The name of the query.
        query: With ranges.
        keys: How many keys each column of `by` has, as far as it is known.
        findings: Where problems go.
    """
    ranges, at = query.ranges, ("queries", name)
    if ranges is None or ranges.of not in keys:
        return
    size = keys[ranges.of]
    if size > MOST_KEYS:
        says = f"has {size:,} keys, more than {MOST_KEYS:,}"
        findings.add("DPR-S675", (*at, "ranges", "of"), says, "take coarser bins of it", ("tables", query.table))
        return
    rows = prod(keys.values()) // size * (size if ranges.which == "prefixes" else size * (size + 1) // 2)
    if rows > MOST_CELLS:
        says = f"makes {rows:,} sums, more than ten million" if rows < 10**30 else "makes far too many sums"
        hint = "write `which: prefixes`, of which every range is a difference; or take a column out, or fewer keys"
        findings.add("DPR-S675", (*at, "ranges"), says, hint, (*at, "by"))
