"""Columns that compare published numbers: with a total, another group, or an earlier period."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.measures import Measure
from dprelease.spec.checks.columns import sound_keys
from dprelease.spec.fields.columns import label_text
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.fields.published.compare import MOST_GROUPS, CompareSpec
from dprelease.spec.period import CALENDAR, span
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import COLUMN_NAME, NAME_RULE, did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_compare"]

# What a query cannot have beside `compare`, to what can be done instead.
_BESIDE: Mapping[str, str] = {
    "marginals": "write the table as a query by columns, with `totals`",
    "ranges": "write the cells as a query by columns, and compare these",
    "top_k": "a list of keys has no numbers to compare",
    "keys": "declare the keys: which of them appear is noise, and differs between periods",
}
_LINEAR = ("count", "sum")


def check_compare(spec: ReleaseSpec, name: str, query: QuerySpec, table: TableSpec | None, findings: Findings) -> None:
    """Every comparison of one query.

    Args:
        spec: Has the period and the invariants.
        name: The name of the query.
        query: With `compare`.
        table: Its table; None where there is none of that name.
        findings: Where problems go.
    """
    at: Path = ("queries", name)
    for field, hint in _BESIDE.items():
        if getattr(query, field):
            findings.add("DPR-S433", (*at, "compare"), f"stands beside `{field}`", hint, (*at, field))
            return
    if any(each.query == name for each in spec.invariants):
        says = "compares numbers that are published exactly: their noise has no law"
        findings.add("DPR-S433", (*at, "compare"), says, "compare them in a spreadsheet", ("invariants",))
        return
    published = [each for label, measure in query.measures.items() for each in measure.published(label)]
    for label, asked in query.compare.items():
        here = (*at, "compare", label)
        if not COLUMN_NAME.fullmatch(label):
            findings.add("DPR-S502", here, "is no name", NAME_RULE, key=True)
        elif label in published or label in query.by:
            findings.add("DPR-S434", here, "has the name of a measure or a key column", "rename it", key=True)
        measure = query.measures.get(asked.measure)
        if measure is None:
            says, hint = (
                f"means no measure of this query: {shown(asked.measure)!r}",
                did_you_mean(asked.measure, query.measures),
            )
            findings.add("DPR-S434", (*here, "measure"), says, hint or "name a measure of the query", (*at, "measures"))
            continue
        _check_period(spec, query, asked, here, findings)
        if asked.share_of is not None:
            _check_share(query, table, asked, measure, here, findings)
        elif measure.kind not in (*_LINEAR, "mean", "ratio"):
            says = f"compares a {measure.kind}, of whose noise no law is known"
            hint = "compare counts, sums, means or ratios"
            findings.add("DPR-S436", (*here, "measure"), says, hint, (*at, "measures", asked.measure))
        elif (asked.index_to is not None or asked.show) and measure.kind not in _LINEAR:
            says = f"asks how many times larger a {measure.kind} is"
            hint = "take the change without `show: percent`: the difference of the two, with its interval"
            findings.add("DPR-S436", (*here, "measure"), says, hint, (*at, "measures", asked.measure))
        else:
            _check_groups(query, table, asked, here, findings)


def _check_period(spec: ReleaseSpec, query: QuerySpec, asked: CompareSpec, here: Path, findings: Findings) -> None:
    """A period that is in the calendar, and numbers that mean the same in it; and a proof where there is one."""
    measure = query.measures[asked.measure]
    if not asked.proved and (asked.share_of is not None or measure.kind in _LINEAR):
        says = f"is of a {measure.kind}, whose interval is proved and no wider than need be"
        hint = "leave `proved` out: it is for changes and differences of means and ratios"
        findings.add("DPR-S923", (*here, "proved"), says, hint, (*here[:2], "measures", asked.measure))
    if not asked.period_word:
        return
    if measure.chosen_clip is not None:
        says = "looks back to another period, and noise chooses the clip of its measure anew in every period"
        hint = "write the clip as two numbers, such as the ones that an earlier release has chosen"
        findings.add("DPR-S738", here, says, hint, (*here[:2], "measures", asked.measure))
    if asked.is_previous and span(spec.release.period) is None:
        says = f"is `previous`, and the period {shown(spec.release.period)!r} is none of the calendar"
        hint = f"write the period by name, or a `period` such as {CALENDAR}"
        findings.add("DPR-S437", here, says, hint, ("release", "period"))


def _check_share(
    query: QuerySpec, table: TableSpec | None, asked: CompareSpec, measure: Measure, here: Path, findings: Findings
) -> None:
    at = (*here, "share_of")
    totals = [frozenset(each) for each in query.totals or ()]
    if frozenset(asked.share_of or ()) not in totals:
        listed = ", ".join(asked.share_of or ())
        says = f"means a total that the query does not publish: [{shown(listed)}]"
        findings.add("DPR-S432", at, says, f"add it: `totals: [[{listed}]]`, or `totals: all`")
    low: Fraction | None = Fraction(0) if measure.kind == "count" else None
    if measure.kind == "sum":
        column = table.columns.get(measure.column or "") if table is not None else None
        limits = measure.limits or (column.range if column is not None else None)
        low = limits[0] if limits is not None else Fraction(0)
    if low is None or low < 0:
        says = f"is a share of {measure.kind}s" if low is None else "is a share of sums that can be negative"
        hint = "take a share of counts, or of sums whose clip begins at 0 or above"
        findings.add("DPR-S436", at, says, hint, (*here[:2], "measures", asked.measure))


def _check_groups(
    query: QuerySpec, table: TableSpec | None, asked: CompareSpec, here: Path, findings: Findings
) -> None:
    """The group that is subtracted, or all of a column: as many as a person can read, where its keys are known here."""
    group = next(iter((asked.difference_from or {}).items()), None)
    column = asked.differences_between if group is None else group[0]
    if column is None:  # no groups are compared
        return
    at = (*here, "differences_between" if group is None else "difference_from")
    if column not in query.by:
        says, hint = f"names no column of `by`: {shown(column)!r}", did_you_mean(column, query.by)
        findings.add("DPR-S435", at, says, hint or "name a column of `by`")
        return
    keys = sound_keys(table.columns[column]) if table is not None and column in table.columns else None
    known = list(map(label_text, keys or ()))
    if group is not None and known and group[1] not in known:
        says = f"names no key of {shown(column)!r}: {shown(group[1])!r}"
        findings.add("DPR-S435", at, says, did_you_mean(group[1], known) or "name one of its keys")
    elif group is None and known and not 2 <= len(known) <= MOST_GROUPS:
        says = f"is of {len(known):,} groups, of which there would be {len(known) * (len(known) - 1) // 2:,} pairs"
        findings.add(
            "DPR-S780", at, says, f"compare {MOST_GROUPS} groups at most, or all with one by `difference_from`"
        )
