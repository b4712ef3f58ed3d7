"""Tables of earlier periods that the SQL of a derived table reads: their names, and the periods that they are of."""

from __future__ import annotations

from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.period import CALENDAR, span
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import NAME_RULE, QUERY_NAME, shown

__all__ = ["check_earlier_tables"]

_PREVIOUS = "previous"


def check_earlier_tables(spec: ReleaseSpec, name: str, findings: Findings) -> None:
    """The earlier tables of one derived table; whether there are such tables is known when the release is planned.

    Args:
        spec: Has the queries and the period.
        name: Of the derived table.
        findings: Where problems go.
    """
    queries = {each.lower(): each for each in spec.queries}
    for alias, asked in spec.derive[name].earlier.items():
        at = ("derive", name, "earlier", alias)
        if not QUERY_NAME.fullmatch(alias):
            findings.add("DPR-S502", at, "is no name", f"{NAME_RULE}; - as well", key=True)
        elif alias.lower() in queries:
            says = f"has the name of query {shown(queries[alias.lower()])!r}: the SQL could not tell the two apart"
            hint = f"rename it, for example `{alias}_before`"
            findings.add("DPR-S736", at, says, hint, ("queries", queries[alias.lower()]), key=True)
        if asked.period == _PREVIOUS and span(spec.release.period) is None:
            says = f"is `previous`, and the period {shown(spec.release.period)!r} is none of the calendar"
            hint = f"write the period by name, or a `period` such as {CALENDAR}"
            findings.add("DPR-S737", (*at, "period"), says, hint, ("release", "period"))
