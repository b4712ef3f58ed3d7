"""The rules of joins: columns on both sides, types that agree, and confidential tables of the same units."""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.catalog.table import ColumnType
from dprelease.spec.checks.columns import check_reference
from dprelease.spec.fields.document import JoinSpec, ReleaseSpec, TableSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_joins", "id_type"]


def id_type(table: TableSpec) -> ColumnType:
    """How the unit id of a table is read; text where it is not declared as a column."""
    column = table.columns.get(table.unit_id or "")
    return column.type if column is not None else "text"


@dataclass(frozen=True)
class _Joined:
    """What the joins of one table add: by references up to here, by all references, and by tables."""

    so_far: frozenset[str]
    public: frozenset[str]
    private: frozenset[str]


def check_joins(spec: ReleaseSpec, name: str, table: TableSpec, findings: Findings) -> None:
    """Every join of one table."""
    public = frozenset(column for join in table.join if join.reference is not None for column in join.add)
    private = frozenset(column for join in table.join if join.table is not None for column in join.add)
    added: set[str] = set()
    before: set[str] = set()
    for number, join in enumerate(table.join):
        at = ("tables", name, "join", number)
        if join.reference is not None:
            _check_public(spec, table, join, at, _Joined(frozenset(before), public, private), findings)
            before |= set(join.add)
        else:
            _check_private(spec, name, table, join, at, findings)
        _check_added(table, join, at, added, findings)
        added |= set(join.add)


def _check_added(table: TableSpec, join: JoinSpec, at: Path, added: set[str], findings: Findings) -> None:
    """No column is added twice, computed as well, or the one that says whose row it is."""
    for place, column in enumerate(join.add):
        here, about = (*at, "add", place), (*at[:2], "columns", column)
        if column in added or column in join.add[:place]:
            findings.add("DPR-S522", here, f"adds {shown(column)!r} a second time", "add every column once")
        elif column == table.unit_id:
            hint = "leave it out: the unit id is a column of the source"
            findings.add("DPR-S522", here, f"adds {shown(column)!r}, the unit id", hint)
        elif column in table.columns and table.columns[column].is_derived:
            hint = "rename one of the two"
            findings.add("DPR-S522", here, f"adds {shown(column)!r}, which the table computes", hint, about)


def _check_public(
    spec: ReleaseSpec, table: TableSpec, join: JoinSpec, at: Path, joined: _Joined, findings: Findings
) -> None:
    reference, columns_at = join.reference or "", (*at[:2], "columns")
    if reference not in spec.references:
        check_reference(spec, reference, join.on, None, (*at, "reference"), findings)
        return
    if join.on not in table.columns:
        says, hint = f"is no declared column: {shown(join.on)!r}", did_you_mean(join.on, table.columns)
        findings.add("DPR-S520", (*at, "on"), says, hint, (*columns_at, join.on))
    elif (wrong := _unfit(table, join, joined)) is not None:
        hint = "join on a column of the source, or on one that an earlier join adds"
        findings.add("DPR-S522", (*at, "on"), wrong, hint, (*columns_at, join.on))
    else:
        check_reference(spec, reference, join.on, table.columns[join.on].type, (*at, "on"), findings)
    for place, column in enumerate(join.add):
        here = (*at, "add", place)
        kind = table.columns[column].type if column in table.columns else None
        found = check_reference(spec, reference, column, kind, here, findings)
        if found and kind is None:
            _undeclared(column, spec.references[reference].columns[column], here, findings)


def _unfit(table: TableSpec, join: JoinSpec, joined: _Joined) -> str | None:
    """Why the column that a public join is on is not there yet when the join is made; None where it is."""
    if join.on in joined.public - joined.so_far:
        return "is added by this join or a later one"
    if join.on in joined.private:
        return "is added by a confidential table, which is joined later"
    return "is computed, and joins come before what is computed" if table.columns[join.on].is_derived else None


def _undeclared(column: str, kind: ColumnType, here: Path, findings: Findings) -> None:
    says = f"adds {shown(column)!r}, which the table does not declare"
    hint = f"declare it: `{shown(column)}: {{type: {kind}}}`"
    findings.add("DPR-S521", here, says, hint, (*here[:2], "columns", column))


def _check_private(
    spec: ReleaseSpec, name: str, table: TableSpec, join: JoinSpec, at: Path, findings: Findings
) -> None:
    """A join with another confidential table: both have units, the same ones, and one account pays for both."""
    other_name = join.table or ""
    here, about = (*at, "table"), ("tables", other_name)
    other = spec.tables.get(other_name)
    if other is None:
        others = [each for each in spec.tables if each != name]
        hint = did_you_mean(other_name, others, "declare it under `tables`; a public file is joined by `reference`")
        findings.add("DPR-S564", here, f"means no table: {shown(other_name)!r}", hint, about)
        return
    if other_name == name:
        findings.add("DPR-S564", here, "joins the table with itself", "leave the join out")
        return
    if any(each.table == other_name for each in table.join[: int(at[-1])]):
        findings.add("DPR-S564", here, f"joins {shown(other_name)!r} a second time", "add all columns in one join")
        return
    if any(each.table is not None for each in other.join):
        says = f"joins {shown(other_name)!r}, which joins a confidential table itself"
        findings.add("DPR-S566", here, says, "join that table here as well, by its own join", (*about, "join"))
        return
    if other.account != table.account:
        says = f"joins {shown(other_name)!r}, for which account {shown(other.account)!r} pays"
        hint = f"one account pays for both: this table has {shown(table.account)!r}"
        findings.add("DPR-S568", here, says, hint, (*about, "account"), (*at[:2], "account"))
    _check_ids(table, join, other, at, findings)
    for place, column in enumerate(join.add):
        _check_lent(table, other_name, other, column, (*at, "add", place), findings)


def _check_ids(table: TableSpec, join: JoinSpec, other: TableSpec, at: Path, findings: Findings) -> None:
    """Both tables have the unit id that the join is on, read in the same way."""
    other_name, on = join.table or "", (*at, "on")
    mine, theirs = (*at[:2], "unit_id"), ("tables", other_name, "unit_id")
    for whose, each, about in (("this table", table, mine), (f"table {shown(other_name)!r}", other, theirs)):
        if each.unit_id is None:
            says = f"joins confidential tables, and {whose} has no `unit_id`"
            hint = "write `unit_id: COLUMN` in both: a confidential join is on whose rows they are"
            findings.add("DPR-S564", (*at, "table"), says, hint, about)
            return
        if each.unit_id != join.on:
            says = f"is {shown(join.on)!r}, and the `unit_id` of {whose} is {shown(each.unit_id)!r}"
            findings.add("DPR-S565", on, says, "join on the `unit_id` of both tables, under one name", about)
            return
    if id_type(table) != id_type(other):
        says = f"joins types that differ: {id_type(table)} here, {id_type(other)} in {shown(other_name)!r}"
        hint = "declare one type in both places"
        columns = ((*at[:2], "columns", join.on), ("tables", other_name, "columns", join.on))
        findings.add("DPR-S519", on, says, hint, *columns)


def _check_lent(
    table: TableSpec, other_name: str, other: TableSpec, column: str, here: Path, findings: Findings
) -> None:
    lent, about = other.columns.get(column), ("tables", other_name, "columns", column)
    if lent is None:
        says = f"means a column that table {shown(other_name)!r} does not declare: {shown(column)!r}"
        findings.add("DPR-S518", here, says, did_you_mean(column, other.columns), about)
    elif column not in table.columns:
        _undeclared(column, lent.type, here, findings)
    elif table.columns[column].type != lent.type:
        mine = table.columns[column].type
        says = f"joins types that differ: {shown(column)!r} is {mine} here, {lent.type} in {shown(other_name)!r}"
        findings.add("DPR-S519", here, says, "declare one type in both places", about, (*here[:2], "columns", column))
