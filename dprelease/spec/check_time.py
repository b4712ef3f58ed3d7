"""The rules of time: a column of the source, read as one type, and a period that is one of the calendar."""

from __future__ import annotations

from dprelease.spec.document import ReleaseSpec, TableSpec
from dprelease.spec.findings import Findings
from dprelease.spec.names import COLUMN_NAME, NAME_RULE, shown
from dprelease.spec.period import CALENDAR, beyond, span

__all__ = ["check_time"]


def check_time(spec: ReleaseSpec, name: str, table: TableSpec, findings: Findings) -> None:
    """The time of a table, where it has one.

    Args:
        spec: Has the period.
        name: Of the table.
        table: As written.
        findings: Where problems go.
    """
    if table.time is None:
        return
    at = ("tables", name, "time")
    _check_column(table, table.time.column, table.time.type, name, findings)
    if span(spec.release.period) is None:
        period = ("release", "period")
        says = f"is {shown(spec.release.period)!r}, no period of the calendar, and tables with a `time` need one"
        hint = f"write {CALENDAR}"
        why = beyond(spec.release.period)
        findings.add("DPR-S590", period, says, f"{hint}; {why}" if why else hint, at)


def _check_column(table: TableSpec, time: str, kind: str, name: str, findings: Findings) -> None:
    here, about = ("tables", name, "time", "column"), ("tables", name, "columns", time)
    if not COLUMN_NAME.fullmatch(time):
        findings.add("DPR-S502", here, "is no name", f"{NAME_RULE}; rename the column in the data")
        return
    if time == table.unit_id:
        hint = "name the column that says when the row was"
        findings.add("DPR-S591", here, f"is the `unit_id`: {shown(time)!r}", hint, ("tables", name, "unit_id"))
        return
    column = table.columns.get(time)
    joined = any(time in join.add for join in table.join)
    if joined or (column is not None and column.is_derived):
        hint = "name a column of the source, which need not be declared under `columns`"
        what = "joined" if joined else "computed"
        findings.add("DPR-S591", here, f"is {what}: {shown(time)!r}", hint, about, ("tables", name, "join"))
    elif column is not None and column.type != kind:
        says = f"is {kind}, and the column {shown(time)!r} is declared as {column.type}"
        hint = "write one type in both places: a stored timestamp can be read as a date"
        findings.add("DPR-S592", ("tables", name, "time", "type"), says, hint, (*about, "type"), here)
