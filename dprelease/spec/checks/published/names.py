"""What a spec says of names: titles, labels and conditions in words, and the day of the next publication."""

from __future__ import annotations

from dprelease.errors import DpReleaseError
from dprelease.measures import expand_measures
from dprelease.spec.checks.columns import check_reference
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec
from dprelease.spec.fields.published.told import ReferenceLabels, said
from dprelease.spec.period import span
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown

__all__ = ["check_names"]


def check_names(spec: ReleaseSpec, findings: Findings) -> None:
    """Every problem with what a spec says of names; that words are missing in a language is a warning."""
    for table, described in spec.tables.items():
        for name, column in described.columns.items():
            at = ("tables", table, "columns", name, "labels")
            if not isinstance(column.labels, ReferenceLabels):
                continue
            for told in said(column.labels.column, spec.release.languages).values():
                check_reference(spec, column.labels.reference, told, None, at, findings)
            if column.labels.key is not None:
                check_reference(spec, column.labels.reference, column.labels.key, None, at, findings)
    for name, query in spec.queries.items():
        _check_names_of(name, query, findings)
    release, schedule = spec.release, spec.schedule
    if release.next == "schedule" and (schedule is None or span(release.period) is None):
        hint = "write the day, `next: 2024-06-01`; or a `schedule`, and a period of the calendar"
        findings.add("DPR-S477", ("release", "next"), "takes the day from a schedule that says none", hint)


def _check_names_of(name: str, query: QuerySpec, findings: Findings) -> None:
    if query.condition and query.where is None:
        says = "says in words what `where` says, and there is no `where`"
        findings.add("DPR-S479", ("queries", name, "condition"), says, "leave it out, or write `where`")
    if not query.names:
        return
    try:
        pairs = tuple(f"{label}_" for label, each in query.compare.items() if each.differences_between is not None)
        compared = {label for label, each in query.compare.items() if each.differences_between is None}
        published = {*query.measures, *expand_measures(query.measures), *compared}
    except (DpReleaseError, ValueError, KeyError):  # told where the measures are checked
        return
    for measure, words in query.names.items():
        at = ("queries", name, "names", measure)
        if measure not in published and not (pairs and measure.startswith(pairs)):
            hint = did_you_mean(measure, sorted(published), "name a number that the query publishes")
            findings.add("DPR-S478", at, f"names no number of the query: {shown(measure)!r}", hint, key=True)
        elif words.condition and getattr(query.measures.get(measure), "where", None) is None:
            says = "says in words what `where` of the measure says, and there is none"
            findings.add("DPR-S479", (*at, "condition"), says, "leave it out, or write `where` at the measure")
