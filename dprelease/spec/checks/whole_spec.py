"""What crosses fields and names: every name leads somewhere, and every limit can be kept; problems and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from dprelease.catalog.table import ColumnType
from dprelease.errors import Problem
from dprelease.formats import CERTIFICATE
from dprelease.measures import Measure
from dprelease.spec.checks.budget import check_accuracy, check_pin, check_privacy
from dprelease.spec.checks.collected.answers import check_answers
from dprelease.spec.checks.collected.uses import check_uses
from dprelease.spec.checks.columns import check_column, check_partition
from dprelease.spec.checks.derived import check_computed_column
from dprelease.spec.checks.joins import check_joins
from dprelease.spec.checks.keys import check_row_keys
from dprelease.spec.checks.levels import check_hierarchies
from dprelease.spec.checks.measures import check_chosen_clips, check_counted, check_measures
from dprelease.spec.checks.published.after import (
    check_across,
    check_exact_counts,
    check_postprocess,
    check_rounding,
    check_table_names,
)
from dprelease.spec.checks.published.compare import check_compare
from dprelease.spec.checks.published.earlier import check_earlier_tables
from dprelease.spec.checks.published.names import check_names
from dprelease.spec.checks.ranges import check_range_query
from dprelease.spec.checks.series import check_series
from dprelease.spec.checks.totals import check_totals
from dprelease.spec.checks.units import check_query_bounds, check_unit
from dprelease.spec.checks.unsaid import warn_of_clip, warn_of_forgotten, warn_of_labels
from dprelease.spec.checks.weights import check_weight, check_weighted
from dprelease.spec.checks.workloads import check_no_workload, check_workload
from dprelease.spec.expressions import check_where, types_of
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.fields.published.catalogued import check_catalogued
from dprelease.spec.fields.schedule import check_schedule
from dprelease.spec.period import CALENDAR, Per, beyond, span, windows
from dprelease.spec.steps import COARSE, MeasuredLimits, grid_of, measured_by_table, measured_limits
from dprelease.spec.text.findings import Findings, Hidden
from dprelease.spec.text.names import COLUMN_NAME, NAME_RULE, QUERY_NAME, did_you_mean, shown
from dprelease.spec.text.nodes import Path, Places

__all__ = ["check_spec", "check_tables", "check_time", "warnings_of"]


def check_spec(spec: ReleaseSpec, places: Places, hidden: Hidden) -> list[Problem]:
    """Every problem of names and limits in a spec, or in what is left of one.

    Args:
        spec: Valid field by field.
        places: Where its parts are.
        hidden: What was left out because it is wrong in itself; nothing that depends on it is reported.
    """
    findings = Findings(places, hidden)
    check_privacy(spec, findings)
    check_tables(spec, findings)
    check_hierarchies(spec, findings)
    check_schedule(spec.schedule, spec.release.period if "period" in spec.release.model_fields_set else None, findings)
    check_catalogued(spec.release, spec.release.next, scheduled=spec.schedule is not None, findings=findings)
    if not spec.queries:
        hint = "write `queries: {people: {table: people, by: [sex], measures: {persons: {count: rows}}}}`"
        findings.add("DPR-S501", ("queries",), "has no query", hint)
    findings.same_file_name("queries", list(spec.queries))
    limits = measured_by_table(spec)
    for name, query in spec.queries.items():
        if not QUERY_NAME.fullmatch(name):
            findings.add("DPR-S502", ("queries", name), "is no name", f"{NAME_RULE}; - as well", key=True)
        _check_query(spec, name, query, limits[query.table], findings)
    check_uses(spec, findings)
    _check_derive(spec, findings)
    check_table_names(spec, findings)
    check_postprocess(spec, findings)
    check_exact_counts(spec, findings)
    check_rounding(spec, findings)
    check_names(spec, findings)
    check_across(spec, findings)
    for number, form in enumerate(spec.publish.formats):
        if form in spec.publish.formats[:number]:
            findings.add("DPR-S535", ("publish", "formats", number), f"repeats {form}", "list every format once")
    if CERTIFICATE in spec.publish.formats and not spec.publish.certificate:
        says, hint = f"is off, and {CERTIFICATE} is among the formats", f"leave {CERTIFICATE} or `certificate` out"
        findings.add("DPR-S717", ("publish", "certificate"), says, hint)
    return findings.problems


def _check_query(
    spec: ReleaseSpec, name: str, query: QuerySpec, limits: Mapping[str, MeasuredLimits], findings: Findings
) -> None:
    at = ("queries", name)
    table = spec.tables.get(query.table)
    if table is None:
        says, hint = f"means no table: {shown(query.table)!r}", did_you_mean(query.table, spec.tables)
        findings.add("DPR-S503", (*at, "table"), says, hint, ("tables", query.table))
    else:
        columns = ("tables", query.table, "columns")
        if query.where is not None:
            check_where(query.where, types_of(table.columns), (*at, "where"), findings, columns)
        check_weighted(spec, name, query, table, findings)
    if query.ranges is not None:
        check_range_query(spec, name, query, table, findings)
    if query.totals is not None and query.marginals is None:
        check_totals(spec, name, query, table, findings)
    if query.series is not None:
        check_series(spec, name, query, table, findings)
    if query.compare:
        check_compare(spec, name, query, table, findings)
    if query.marginals is not None:
        check_workload(spec, name, query, table, findings)
        return
    check_no_workload(query, at, findings)
    if table is not None:
        check_row_keys(spec, query, table, at, findings)
        check_query_bounds(query, table, at, findings)
    check_measures(query, table, limits, at, findings)
    if table is not None:
        check_chosen_clips(query, table, limits, at, findings)
    check_counted(spec, query, at, findings)
    if query.top_k is None:
        check_accuracy(spec, query, at, findings)
    else:
        check_pin(spec, query, at, findings)


def _check_derive(spec: ReleaseSpec, findings: Findings) -> None:
    """Tables made from the published ones have names of their own, for each is a file."""
    findings.same_file_name("derive", list(spec.derive))
    queries = {name.lower(): name for name in spec.queries}
    for name in spec.derive:
        at = ("derive", name)
        if not QUERY_NAME.fullmatch(name):
            findings.add("DPR-S502", at, "is no name", f"{NAME_RULE}; - as well", key=True)
        elif name.lower() in queries:
            says = f"has the name of query {shown(queries[name.lower()])!r}, and both would be one file"
            findings.add("DPR-S586", at, says, "rename it", ("queries", queries[name.lower()]), key=True)
        check_earlier_tables(spec, name, findings)


def check_tables(spec: ReleaseSpec, findings: Findings) -> None:
    """Every reference's name, and every table."""
    for name in spec.references:
        if not COLUMN_NAME.fullmatch(name):
            findings.add("DPR-S502", ("references", name), "is no name", NAME_RULE, key=True)
    for name, table in spec.tables.items():
        if not COLUMN_NAME.fullmatch(name):
            findings.add("DPR-S502", ("tables", name), "is no name", NAME_RULE, key=True)
        _check_engine(name, table, findings)
        check_unit(name, table, findings)
        check_joins(spec, name, table, findings)
        check_time(spec, name, table, findings)
        check_weight(name, table, findings)
        check_answers(name, table, findings)
        above: dict[str, ColumnType] = {}
        limits = measured_limits(spec, name)
        for column, described in table.columns.items():
            at = ("tables", name, "columns", column)
            check_column(spec, column, described, grid_of(table, column, limits), at, findings)
            check_computed_column(column, table, above, at, findings)
            check_partition(column, table, at, findings)
            above[column] = described.type


def _check_engine(name: str, table: TableSpec, findings: Findings) -> None:
    """Only a session of Spark has a metastore to ask."""
    if table.source.metastore is not None and table.engine is None:
        says = "is a table of a metastore, which only a Spark session can ask"
        hint = "write `engine: spark` in the table, or name its folder: `source: {file: FOLDER/*.parquet}`"
        findings.add("DPR-S741", ("tables", name, "source", "metastore"), says, hint)


def check_time(spec: ReleaseSpec, name: str, table: TableSpec, findings: Findings) -> None:
    """The time of a table, where it has one."""
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


def warnings_of(spec: ReleaseSpec, places: Places) -> list[Problem]:
    """Every warning of a spec that was loaded without a problem; none of them stops anything."""
    findings = Findings(places, Hidden())
    warn_of_forgotten(spec, findings)
    warn_of_labels(spec, findings)
    for name, query in spec.queries.items():
        for label, measure in query.measures.items():
            here = ("queries", name, "measures", label)
            for flaw in measure.warnings():
                findings.add(flaw.code, (*here, *flaw.at), flaw.says, flaw.hint)
            _check_step(spec, query.table, measure, here, findings)
            warn_of_clip(spec, query.table, measure, here, findings)
    return findings.problems


def _check_step(spec: ReleaseSpec, table: str, measure: Measure, at: Path, findings: Findings) -> None:
    """A written step that moves values by more than a reader would take for nothing."""
    name = measure.column
    if measure.grid_kind is None or name is None:
        return
    column = spec.tables[table].columns[name]
    limits = measure.limits or column.range
    if limits is None or column.step is None or (column.type == "integer" and column.step == 1):
        return
    share = column.step / (limits[1] - limits[0])
    if share > COARSE:
        says = f"rounds {name} to a `step` that is {float(share) * 100:.3g} % of its clip, before anything else"
        hint = "write a finer `step` at the column, or leave it out: it is then as fine as costs nothing"
        findings.add("DPR-W121", at, says, hint)
