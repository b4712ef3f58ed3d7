"""The rules of hierarchies: columns that nest for every row, because each level is made from one below it."""

from __future__ import annotations

from dprelease.spec.fields.document import ColumnSpec, QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import COLUMN_NAME, NAME_RULE, did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_hierarchies", "check_levels"]

_CODE = "DPR-S656"


def check_hierarchies(spec: ReleaseSpec, findings: Findings) -> None:
    """What a hierarchy says of itself: a name, and every column once."""
    for name, levels in spec.hierarchies.items():
        at = ("hierarchies", name)
        if not COLUMN_NAME.fullmatch(name):
            findings.add("DPR-S502", at, "is no name", NAME_RULE, key=True)
        for number, column in enumerate(levels):
            if column in levels[:number]:
                findings.add("DPR-S650", (*at, number), f"repeats {shown(column)!r}", "name every level once")


def check_levels(spec: ReleaseSpec, query: QuerySpec, table: TableSpec | None, at: Path, findings: Findings) -> bool:
    """The levels of one workload are columns of its table with keys, and each is made from one below it.

    A row then has the ancestors of its lowest key, whatever the data hold. A null or a number out of its range, given
    a key at one level by itself, would have others elsewhere.

    Args:
        spec: Has the hierarchies.
        query: With marginals.
        table: Its table; None where there is none of that name.
        at: The path of the query.
        findings: Where problems go.

    Returns:
        Whether the levels are what their author meant, so that what names them can be judged.
    """
    if query.levels is None or query.marginals is None:
        return True
    if query.levels not in spec.hierarchies:
        says = f"means no hierarchy: {shown(query.levels)!r}"
        hint = did_you_mean(query.levels, spec.hierarchies, "declare it: `hierarchies: {geography: [region, state]}`")
        findings.add("DPR-S655", (*at, "levels"), says, hint, ("hierarchies", query.levels))
        return False
    levels = spec.hierarchies[query.levels]
    for number, name in enumerate(levels):
        here = ("hierarchies", query.levels, number)
        if name in query.marginals.attributes:
            says = f"is a level of {shown(query.levels)!r} and a column of the tables: {shown(name)!r}"
            hint = "take it out of `marginals`: every table has the column of its level"
            findings.add("DPR-S657", (*at, "marginals"), says, hint, here)
        if table is not None:
            _check_level(query, table, levels, number, here, findings)
    known = table is None or all(name in table.columns for name in levels)
    return known and len(set(levels)) == len(levels)


def _check_level(
    query: QuerySpec, table: TableSpec, levels: tuple[str, ...], number: int, here: Path, findings: Findings
) -> None:
    name = levels[number]
    about, column = ("tables", query.table, "columns", name), table.columns.get(name)
    if column is None:
        says = f"is no column of table {query.table!r}: {shown(name)!r}"
        findings.add("DPR-S504", here, says, did_you_mean(name, table.columns), about)
        return
    if not column.has_keys:
        hint = "declare its public values: `keys: {reference: ...}` or `keys: [...]`"
        findings.add("DPR-S505", here, f"is a column without keys: {shown(name)!r}", hint, about)
    for field, what in (("null", "nulls a key"), ("range", "numbers outside its range a key")):
        if getattr(column, field) is not None:
            says = f"gives {what}, and is a level of {shown(query.levels or '')!r}"
            hint = "leave it out: a row without a key at the lowest level is in no table of the workload"
            findings.add(_CODE, (*about, field), says, hint, here, (*about[:3], name))
    below = levels[number + 1 :]
    if below and not _is_made(table, name, column, below):
        lowest = shown(levels[-1])
        says = f"is not made from {_either(below)}: {shown(name)!r}"
        hint = (
            f"write `join: [{{reference: NAME, on: {lowest}, add: [{shown(name)}]}}]` in the table, or make it"
            f" `{{map: {lowest}, to: ...}}`, or a `bin` whose edges are among those of the level below"
        )
        findings.add(_CODE, here, says, hint, about, ("tables", query.table, "join"), *_columns(query, below))


def _columns(query: QuerySpec, names: tuple[str, ...]) -> list[Path]:
    return [("tables", query.table, "columns", name) for name in names]


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(repr(shown(name)) for name in names)


def _is_made(table: TableSpec, name: str, column: ColumnSpec, below: tuple[str, ...]) -> bool:
    """Whether a level follows from one below it, row by row."""
    if column.map is not None:
        return column.map in below
    if column.bin is not None:
        finer = next((table.columns[each] for each in below if each in table.columns and table.columns[each].bin), None)
        same = finer is not None and finer.bin == column.bin
        return finer is not None and same and set(column.edges or ()) <= set(finer.edges or ())
    return any(join.reference is not None and name in join.add and join.on in below for join in table.join)
