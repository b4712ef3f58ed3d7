"""The rules of which rows a table has: public keys, keys that are selected privately, exceptions, and lists."""

from __future__ import annotations

from math import prod

from dprelease.spec.checks.columns import check_reference, keys_are_sound
from dprelease.spec.fields.columns import span_size, spelled_out
from dprelease.spec.fields.document import ColumnSpec, KeySpan, QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["MOST_CELLS", "check_cell_count", "check_length", "check_row_keys", "known_cells"]

MOST_CELLS = 10_000_000
# What a list of the most frequent keys has no use for.
_NOT_OF_A_LIST = ("by", "measures", "keys", "except_", "suppress", "target", "expect")
_BUDGET: Path = ("privacy", "budget")


def check_row_keys(spec: ReleaseSpec, query: QuerySpec, table: TableSpec, at: Path, findings: Findings) -> None:
    """What decides the rows of one published table.

    Args:
        spec: Has the references and the budget.
        query: As written.
        table: Its table.
        at: The path of the query.
        findings: Where problems go.
    """
    if query.top_k is not None:
        _check_list(query, table, at, findings)
        return
    for field in ("k", "of"):
        if getattr(query, field) is not None:
            hint = "write `top_k: COLUMN` beside it, or leave it out"
            findings.add("DPR-S577", (*at, field), "belongs to `top_k`, and there is none", hint, (*at, "top_k"))
    _check_by(query, table, at, findings)
    if query.keys == "private":
        _check_private(spec, query, table, at, findings)
    else:
        check_cell_count(query, [known_cells(table.columns.get(column)) for column in query.by], at, findings)
        if query.min_units is not None:
            hint = "write `keys: private` beside it; or `suppress`, which acts after the noise"
            findings.add("DPR-S573", (*at, "min_units"), "is for `keys: private`", hint, (*at, "keys"))
    _check_except(spec, query, table, at, findings)
    _check_suppress(query, at, findings)


def _check_by(query: QuerySpec, table: TableSpec, at: Path, findings: Findings) -> None:
    for number, name in enumerate(query.by):
        here, about = (*at, "by", number), ("tables", query.table, "columns", name)
        if name in query.by[:number]:
            findings.add("DPR-S506", here, f"repeats {shown(name)!r}", "name every column once")
        column = table.columns.get(name)
        if column is None:
            says = f"is no column of table {query.table!r}: {shown(name)!r}"
            findings.add("DPR-S504", here, says, did_you_mean(name, table.columns), about)
        elif not column.has_keys and query.keys != "private":
            hint = "declare its public values: `keys: [...]`, `{reference: ...}` or `{from: ..., to: ...}`"
            says = f"is a column without keys: {shown(name)!r}"
            findings.add("DPR-S505", here, says, f"{hint}; or write `keys: private` in the query", about, (*at, "keys"))
        elif not column.has_keys and column.type in ("decimal", "timestamp"):
            says = f"is {column.type}, which no key can be: {shown(name)!r}"
            findings.add("DPR-S571", here, says, "declare bands of it: `{bin: COLUMN, edges: [...]}`", about)


def known_cells(column: ColumnSpec | None) -> int:
    """The number of keys that the spec spells out; 1 where a reference does, or where they are wrong."""
    if column is None or not keys_are_sound(column):
        return 1
    if isinstance(column.keys, KeySpan):
        return span_size(column.keys)
    return max(1, len(spelled_out(column) or ()))


def check_cell_count(query: QuerySpec, keys: list[int], at: Path, findings: Findings) -> None:
    """At most ten million cells in one query, empty ones included."""
    cells = prod(keys)
    if cells > MOST_CELLS:
        says = f"makes {cells} cells, more than ten million" if len(str(cells)) < 30 else "makes far too many cells"
        findings.add("DPR-S528", (*at, "by"), says, "take a column out, or fewer keys")


def _check_private(spec: ReleaseSpec, query: QuerySpec, table: TableSpec, at: Path, findings: Findings) -> None:
    if not query.by:
        hint = "write `by: [COLUMN]`: the column whose values are to appear"
        findings.add("DPR-S570", (*at, "keys"), "is private, and there is no key: `by` is empty", hint, (*at, "by"))
    if spec.privacy.budget.delta == 0:
        hint = "give `privacy.budget` a delta, such as 1e-9, or declare the keys"
        says = "is private, which needs a delta greater than 0"
        findings.add("DPR-S572", (*at, "keys"), says, hint, _BUDGET)


def _check_except(spec: ReleaseSpec, query: QuerySpec, table: TableSpec, at: Path, findings: Findings) -> None:
    """The reference has a column for each key, of the same type."""
    if query.except_ is None:
        return
    here = (*at, "except")
    if query.keys == "private":
        hint = "leave it out: keys that nobody has do not appear"
        findings.add("DPR-S574", here, "is for public keys, and these are private", hint)
    elif not query.by:
        hint = "write `by: [COLUMN]`, or leave it out"
        findings.add("DPR-S574", here, "leaves keys out, and `by` is empty", hint, (*at, "by"))
    else:
        reference = query.except_.reference
        at_name = (*here, "reference")
        if reference not in spec.references:
            check_reference(spec, reference, query.by[0], None, at_name, findings)
            return
        for name in query.by:
            column = table.columns.get(name)
            if column is not None:
                check_reference(spec, reference, name, column.type, at_name, findings)


def _check_suppress(query: QuerySpec, at: Path, findings: Findings) -> None:
    if query.suppress is None:
        return
    name, here = query.suppress.measure, (*at, "suppress", "measure")
    published = [each for label, measure in query.measures.items() for each in measure.published(label)]
    if name not in published:
        hint = did_you_mean(name, published)
        findings.add("DPR-S584", here, f"is no measure of this query: {shown(name)!r}", hint, (*at, "measures", name))


def _check_list(query: QuerySpec, table: TableSpec, at: Path, findings: Findings) -> None:
    """The most frequent keys of one column with public keys."""
    for field in _NOT_OF_A_LIST:
        if getattr(query, field):
            name = field.rstrip("_")
            hint = "leave it out, or write it in a query of its own: a list of keys has ranks, and no numbers"
            findings.add("DPR-S578", (*at, name), "stands beside `top_k`", hint)
    if query.min_units is not None:
        findings.add("DPR-S573", (*at, "min_units"), "is for `keys: private`", "leave it out", (*at, "keys"))
    name = query.top_k or ""
    here, about, column = (*at, "top_k"), ("tables", query.table, "columns", name), table.columns.get(name)
    if column is None:
        says = f"is no column of table {query.table!r}: {shown(name)!r}"
        findings.add("DPR-S504", here, says, did_you_mean(name, table.columns), about)
    elif not column.has_keys:
        hint = "declare its public values: `keys: [...]`, `{reference: ...}` or `{from: ..., to: ...}`"
        findings.add("DPR-S576", here, f"is a column without keys: {shown(name)!r}", hint, about)
    elif name.lower() in ("rank", "rehearsal"):
        findings.add(
            "DPR-S576", here, f"is published beside a column of that name: {shown(name)!r}", "rename the column", about
        )
    if query.k is None:
        findings.add("DPR-S577", here, "does not say how many", "write `k: 10` beside it", (*at, "k"))
    elif column is not None and keys_are_sound(column):
        check_length(query, known_cells(column), at, findings)


def check_length(query: QuerySpec, keys: int, at: Path, findings: Findings) -> None:
    """A list is not longer than there are keys."""
    if query.k is not None and query.k > keys:
        about = ("tables", query.table, "columns", query.top_k or "")
        says = f"is {query.k}, and the column has {keys} keys"
        findings.add("DPR-S577", (*at, "k"), says, f"write a number from 1 to {keys}", about)
