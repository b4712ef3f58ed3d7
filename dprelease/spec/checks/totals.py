"""The rules of totals: coarser tables of the same rows, whose numbers are sums of those of the cells."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.measures import Measure
from dprelease.spec.checks.columns import sound_keys
from dprelease.spec.checks.levels import check_shares
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.fields.queries import MOST_TOTALS
from dprelease.spec.fields.workloads import TOTAL, TOTAL_KEY
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_totals"]

# What stands beside `totals`, to what can be done instead; all else of a query may stand there.
_BESIDE: Mapping[str, str] = {
    "keys": "leave it out: totals are made of the cells of all keys, which are public",
    "min_units": "leave it out: every cell is published, empty ones too",
    "except_": "leave it out: a total is of all cells",
    "top_k": "write one query for the list, and one for the table with totals",
    "marginals": "leave it out: `marginals` lists the tables, the total among them",
    "ranges": "leave it out: the last prefix is the total",
    "bounds": "leave it out: totals count every row that `bounds: {max_rows: 100}` of the table leaves a unit",
}


def check_totals(spec: ReleaseSpec, name: str, query: QuerySpec, table: TableSpec | None, findings: Findings) -> None:
    """One query with `totals`: what stands beside it, its lists of columns, its measures, and no second one like it.

    Args:
        spec: Has the other queries.
        name: The name of the query.
        query: With totals.
        table: Its table; None where there is none of that name.
        findings: Where problems go.
    """
    at: Path = ("queries", name)
    for field, hint in _BESIDE.items():
        if getattr(query, field):
            findings.add("DPR-S712", (*at, field.rstrip("_")), "stands beside `totals`", hint, (*at, "totals"))
    if query.marginals is not None or query.top_k is not None:
        return  # the rest is meant for one of the two
    _check_measures(query, table, at, findings)
    if not _check_lists(query, at, findings):
        return
    if query.shares is not None:
        _check_parts(query, at, findings)
    for column in query.by if table is not None else ():
        keys = sound_keys(table.columns[column]) if table is not None and column in table.columns else None
        if TOTAL_KEY in (keys or ()):
            says = f"has a key `{TOTAL_KEY}`, which is that of totals: {shown(column)!r}"
            findings.add("DPR-S713", (*at, "by"), says, "rename the key", ("tables", query.table, "columns", column))
    for other, second in spec.queries.items():
        if other == name:
            return
        same = (second.table, second.where, set(second.by)) == (query.table, query.where, set(query.by))
        if second.totals is not None and same:
            says = f"has totals of the same rows as query {shown(other)!r}: two totals that differ, and both are paid"
            hint = "write the measures and the totals of both in one query"
            findings.add("DPR-S715", (*at, "totals"), says, hint, ("queries", other, "totals"))
            return


def _check_lists(query: QuerySpec, at: Path, findings: Findings) -> bool:
    """Each is some of the columns of `by`, fewer than all, and is there once."""
    here, before = (*at, "totals"), len(findings.problems)
    lists = query.totals or ()
    if not lists:
        hint = "write `totals: [[]]` for one total of all, or `totals: all`; or leave it out"
        findings.add("DPR-S711", here, "lists no totals", hint, (*at, "by"))
    if len(lists) > MOST_TOTALS:
        findings.add("DPR-S711", here, f"lists {len(lists)} tables of totals, more than {MOST_TOTALS}", "write fewer")
    seen: set[frozenset[str]] = set()
    for number, columns in enumerate(lists):
        place = (*here, number)
        wrong = next((each for each in columns if each not in query.by), None)
        if wrong is not None:
            says, hint = f"names no column of `by`: {shown(wrong)!r}", did_you_mean(wrong, query.by)
            findings.add("DPR-S711", place, says, hint or "name columns of `by`", (*at, "by"))
        elif len(set(columns)) < len(columns):
            findings.add("DPR-S711", place, "names a column twice", "name every column once", (*at, "by"))
        elif set(columns) == set(query.by):
            says = "names every column of `by`, whose cells are published anyway"
            findings.add("DPR-S711", place, says, "leave one of its columns out, or the list", (*at, "by"))
        elif frozenset(columns) in seen:
            findings.add("DPR-S711", place, "is there twice", "write every list once", (*at, "by"))
        seen.add(frozenset(columns))
    return len(findings.problems) == before and len(set(query.by)) == len(query.by)


def _check_measures(query: QuerySpec, table: TableSpec | None, at: Path, findings: Findings) -> None:
    """Sums over rows, and quotients of such: the number of a total is then the sum of those of its cells."""
    for label, measure in query.measures.items():
        here = (*at, "measures", label)
        if not measure.has_totals:
            says = "has no total that its cells add up to"
            hint = "write it in a query of its own; totals are of counts, sums, means and ratios"
            findings.add("DPR-S714", here, says, hint, (*at, "totals"), key=True)
        elif table is not None and table.unit_id is not None and (wrong := _of_units(measure)):
            says = f"{wrong}, and one unit may be in several cells of a total"
            hint = "count rows, or clip each row; or write it in a query of its own for each table"
            findings.add("DPR-S714", here, says, hint, (*at, "totals"), ("tables", query.table, "unit_id"), key=True)


def _of_units(measure: Measure) -> str:
    if measure.counted == "units":
        return "counts units"
    return "clips the sum of a unit's rows in a cell" if getattr(measure, "clip_per", None) == "unit_cell" else ""


def _check_parts(query: QuerySpec, at: Path, findings: Findings) -> None:
    """The parts of the cells and of the totals, as those of the tables of a workload; the cells need one."""
    if TOTAL in query.by:
        says = "divides totals, and a column of `by` has the name of the total of all: 'total'"
        findings.add("DPR-S666", (*at, "shares"), says, "rename the column", (*at, "by"))
        return
    check_shares(query.model_copy(update={"marginals": query.with_totals}), {}, at, findings)
    named = {frozenset(part.strip() for part in label.split("*")): parts for label, parts in _tables(query).items()}
    if query.shares is not None and not any(part for part in named.get(frozenset(query.by), (None,))):
        label = "*".join(query.by)
        says, hint = "gives the cells nothing, and all numbers are made of them", f'write `"{label}": 4/5` in it'
        findings.add("DPR-S666", (*at, "shares", "tables"), says, hint, (*at, "by"))


def _tables(query: QuerySpec) -> Mapping[str, tuple[Fraction | None, ...]]:
    return query.shares.tables if query.shares is not None else {}
