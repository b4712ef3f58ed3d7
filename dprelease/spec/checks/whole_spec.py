"""What crosses fields and names: every name leads somewhere, and every limit can be kept; all problems at once."""

from __future__ import annotations

from dprelease.errors import Problem
from dprelease.spec.checks.after import check_invariants, check_postprocess, check_table_names
from dprelease.spec.checks.budget import check_accuracy, check_pin, check_privacy
from dprelease.spec.checks.keys import check_rows
from dprelease.spec.checks.levels import check_hierarchies
from dprelease.spec.checks.measures import check_measures
from dprelease.spec.checks.ranges import check_ranges
from dprelease.spec.checks.tables import check_tables
from dprelease.spec.checks.units import check_query_bounds
from dprelease.spec.checks.workloads import check_no_workload, check_workload
from dprelease.spec.expressions import check_where, types_of
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec
from dprelease.spec.fields.schedule import check_schedule
from dprelease.spec.steps import measured
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import NAME_RULE, QUERY_NAME, did_you_mean, shown
from dprelease.spec.text.nodes import Places
from dprelease.spec.text.prune import Hidden

__all__ = ["check"]


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
    check_hierarchies(spec, findings)
    check_schedule(spec.schedule, spec.release.period if "period" in spec.release.model_fields_set else None, findings)
    if not spec.queries:
        hint = "write `queries: {people: {table: people, by: [sex], measures: {persons: {count: rows}}}}`"
        findings.add("DPR-S501", ("queries",), "has no query", hint)
    findings.same_file_name("queries", list(spec.queries))
    for name, query in spec.queries.items():
        if not QUERY_NAME.fullmatch(name):
            findings.add("DPR-S502", ("queries", name), "is no name", f"{NAME_RULE}; - as well", key=True)
        _check_query(spec, name, query, findings)
    _check_derive(spec, findings)
    check_table_names(spec, findings)
    check_postprocess(spec, findings)
    check_invariants(spec, findings)
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
        columns = ("tables", query.table, "columns")
        check_where(query.where, types_of(table.columns), (*at, "where"), findings, columns)
    if query.ranges is not None:
        check_ranges(spec, name, query, table, findings)
    if query.marginals is not None:
        check_workload(spec, name, query, table, findings)
        return
    check_no_workload(query, at, findings)
    if table is not None:
        check_rows(spec, query, table, at, findings)
        check_query_bounds(query, table, at, findings)
    check_measures(query, table, measured(spec, query.table), at, findings)
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
