"""The rules of tables: names, units, joins, and every column by itself and by what it is computed from."""

from __future__ import annotations

from typing import get_args

from dprelease.catalog.table import ColumnType
from dprelease.spec.checks.columns import check_column
from dprelease.spec.checks.derived import check_derived
from dprelease.spec.checks.joins import check_joins
from dprelease.spec.checks.units import check_unit
from dprelease.spec.fields.document import ReleaseSpec, TableSpec
from dprelease.spec.period import CALENDAR, Per, beyond, span, windows
from dprelease.spec.steps import grid_of, measured
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import COLUMN_NAME, NAME_RULE, shown

__all__ = ["check_tables", "check_time"]


def check_tables(spec: ReleaseSpec, findings: Findings) -> None:
    """Every reference's name, and every table.

    Args:
        spec: As written.
        findings: Where problems go.
    """
    for name in spec.references:
        if not COLUMN_NAME.fullmatch(name):
            findings.add("DPR-S502", ("references", name), "is no name", NAME_RULE, key=True)
    for name, table in spec.tables.items():
        if not COLUMN_NAME.fullmatch(name):
            findings.add("DPR-S502", ("tables", name), "is no name", NAME_RULE, key=True)
        check_unit(name, table, findings)
        check_joins(spec, name, table, findings)
        check_time(spec, name, table, findings)
        above: dict[str, ColumnType] = {}
        limits = measured(spec, name)
        for column, described in table.columns.items():
            at = ("tables", name, "columns", column)
            check_column(spec, column, described, grid_of(table, column, limits), at, findings)
            check_derived(column, table, above, at, findings)
            above[column] = described.type


def check_time(spec: ReleaseSpec, name: str, table: TableSpec, findings: Findings) -> None:
    """The time of a table, where it has one.

    Args:
        spec: Has the period.
        name: Of the table.
        table: As written.
        findings: Where problems go.
    """
    _check_per(spec, name, table, findings)
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


def _check_per(spec: ReleaseSpec, name: str, table: TableSpec, findings: Findings) -> None:
    """An id ties rows together, and its limits hold for all that is read: that has to lie in one stretch of the unit.

    Over a quarter with ``max_rows: 10``, a person-month that leaves may take ten rows with it, and let ten others in.
    """
    unit = spec.privacy.unit
    per = next((each for each in get_args(Per) if each == unit.per), None)
    if per is None or table.unit_id is None:
        return
    whose = f"ties the rows of one {unit.entity} together"
    named = f"or, where it names one {unit} and not one {unit.entity}, `unit: {{entity: {unit}}}`"
    about = ("privacy", "unit")
    if table.time is None:
        says = f"{whose}, of whatever {per}: the table has no `time`, and the unit is one {unit}"
        hint = f"write `time: {{column: COLUMN, type: date}}`, by which the rows of the period are read; {named}"
        findings.add("DPR-S596", ("tables", name, "unit_id"), says, hint, about, ("tables", name, "time"))
    elif span(spec.release.period) is not None and len(windows(spec.release.period, per)) > 1:
        says = f"{whose} in more than one {per} of {spec.release.period}, and the unit is one {unit}"
        hint = f"release a {per}, or a period inside one; {named}"
        findings.add("DPR-S596", ("tables", name, "unit_id"), says, hint, about, ("release", "period"))


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
