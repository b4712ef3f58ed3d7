"""The rules of units: whose row it is, how many rows of one unit stay, and that every query has finite limits."""

from __future__ import annotations

from math import prod

from dprelease.spec.fields.document import QuerySpec, TableSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import COLUMN_NAME, NAME_RULE, did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_query_bounds", "check_unit", "may_repeat"]

_BOUNDS = "one row is one unit here, and there is nothing to bound: leave it out, or write `unit_id: COLUMN`"


def check_unit(name: str, table: TableSpec, findings: Findings) -> None:
    """The unit id of a table and what hangs on it."""
    at = ("tables", name)
    if table.unit_id is None:
        about = (*at, "unit_id")
        if "null_id" in table.model_fields_set:
            hint = "leave it out, or write `unit_id: COLUMN`"
            findings.add("DPR-S551", (*at, "null_id"), "is for tables with a `unit_id`", hint, about)
        if table.bounds is not None:
            findings.add("DPR-S552", (*at, "bounds"), "is for tables with a `unit_id`", _BOUNDS, about)
        return
    _check_id(table, table.unit_id, at, findings)
    if table.bounds is not None:
        _check_order(table, (*at, "bounds"), findings)


def _check_id(table: TableSpec, name: str, at: Path, findings: Findings) -> None:
    """Ids that are clamped, rounded or computed would make one unit of two, and their rows unbounded."""
    here, about = (*at, "unit_id"), (*at, "columns", name)
    if not COLUMN_NAME.fullmatch(name):
        findings.add("DPR-S502", here, "is no name", f"{NAME_RULE}; rename the column in the data")
        return
    column = table.columns.get(name)
    if column is None:
        return
    if column.is_derived:
        hint = "name a column of the source, which need not be declared under `columns`"
        findings.add("DPR-S550", here, f"is computed: {shown(name)!r}", hint, about)
    elif column.type not in ("text", "integer"):
        says = f"is a column of type {column.type}, and ids are text or whole numbers"
        findings.add("DPR-S550", here, says, "write `type: text`, or leave the column out of `columns`", about)
    for field in ("range", "step", "null"):
        if field in column.model_fields_set and getattr(column, field) is not None:
            says = f"would change {shown(name)!r}, which says whose row it is"
            findings.add("DPR-S550", (*about, field), says, "leave it out: two units must never become one", here)


def _check_order(table: TableSpec, at: Path, findings: Findings) -> None:
    """``first`` and ``last`` say by which columns; a sample has no order."""
    bounds = table.bounds
    assert bounds is not None  # noqa: S101 - asked for by the caller
    here, columns = (*at, "order_by"), (*at[:2], "columns")
    if bounds.truncate == "sample":
        if bounds.order_by:
            hint = "leave it out, or write `truncate: first` or `truncate: last`"
            findings.add(
                "DPR-S553", here, "is for `first` and `last`, and a sample has no order", hint, (*at, "truncate")
            )
        return
    if not bounds.order_by:
        hint = "write `order_by: [COLUMN]`: which rows of a unit come first"
        findings.add("DPR-S553", (*at, "truncate"), f"is {bounds.truncate}, and there is no `order_by`", hint, here)
    joined = {column for join in table.join for column in join.add}
    read = [name for name, column in table.columns.items() if name not in joined and not column.is_derived]
    for number, name in enumerate(bounds.order_by):
        if name in bounds.order_by[:number]:
            findings.add("DPR-S553", (*here, number), f"repeats {shown(name)!r}", "name every column once")
        elif name not in read:
            what = "is joined or computed" if name in table.columns else "is no declared column"
            hint = "order by columns of the source" if name in table.columns else did_you_mean(name, read)
            findings.add("DPR-S553", (*here, number), f"{what}: {shown(name)!r}", hint, (*columns, name))


def may_repeat(query: QuerySpec, table: TableSpec) -> bool:
    """Whether one unit may have several rows in one cell."""
    if table.unit_id is None:
        return False
    matches = prod(join.max_matches or 1 for join in table.join)
    if table.bounds is not None and table.bounds.max_rows * matches == 1:
        return False
    return query.bounds is None or query.bounds.max_rows_per_group != 1


def check_query_bounds(query: QuerySpec, table: TableSpec, at: Path, findings: Findings) -> None:
    """Every limit of a query is finite: cells per unit, and rows per unit and cell where rows are what is added up."""
    of_table = ("tables", query.table)
    if table.unit_id is None:
        has_problem = table.bounds is not None or "null_id" in table.model_fields_set
        if query.bounds is not None and not has_problem:
            findings.add("DPR-S552", (*at, "bounds"), "is for tables with a `unit_id`", _BOUNDS, (*of_table, "unit_id"))
        return
    about = ((*of_table, "unit_id"), (*of_table, "bounds"), (*at, "bounds"))
    bounds = query.bounds
    if table.bounds is not None:
        return
    if query.keys == "private" and (bounds is None or bounds.max_groups is None):
        hint = "write `bounds: {max_groups: 3}`, or `bounds: {max_rows: 100}` in the table"
        says = "is private, and nothing bounds in how many cells one unit is"
        findings.add("DPR-S555", (*at, "keys"), says, hint, *about)
    if bounds is not None and bounds.max_rows_per_group is not None:
        return
    hint = "write `bounds: {max_rows_per_group: 10}`, or `bounds: {max_rows: 100}` in the table"
    if query.top_k is not None:
        if query.of == "rows":
            says = "counts rows, and nothing bounds how many rows one unit may have"
            findings.add("DPR-S554", (*at, "of"), says, f"{hint}; or write `of: units`", *about)
        return
    label = next((label for label, measure in query.measures.items() if measure.adds_rows), None)
    if label is not None:
        says = "adds up rows, and nothing bounds how many rows one unit may have"
        findings.add("DPR-S554", (*at, "measures", label), says, hint, *about, key=True)
