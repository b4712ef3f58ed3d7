"""The rules of what happens after the noise, of numbers without any, and of the names of what is published."""

from __future__ import annotations

from fractions import Fraction

from dprelease.formats import FORMATS
from dprelease.spec.checks.workloads import can_be_made
from dprelease.spec.fields.document import InvariantSpec, QuerySpec, ReleaseSpec
from dprelease.spec.fields.published_sets import published_sets
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_across", "check_exact_counts", "check_postprocess", "check_rounding", "check_table_names"]

_ORDER = ("consistent", "nonnegative", "integer")
# Of the name of a table: with the longest ending 100 letters, the most that a file of a bundle can have.
_LONGEST = 100 - max(len(each.ending) for each in FORMATS.values())


def check_postprocess(spec: ReleaseSpec, findings: Findings) -> None:
    """Steps that follow one another, for workloads that they exist for."""
    steps = spec.postprocess
    if not steps:
        return
    at: Path = ("postprocess",)
    workloads = {name: query for name, query in spec.queries.items() if query.marginals is not None}
    if not workloads:
        hint = "leave it out, or write `marginals` in a query: other numbers are published as they were measured"
        findings.add("DPR-S662", at, "is for queries with `marginals`, and there are none", hint, ("queries",))
        return
    for number, step in enumerate(steps):
        if step in steps[:number]:
            findings.add("DPR-S662", (*at, number), f"repeats {step}", "write every step once")
            return
    if tuple(sorted(steps, key=_ORDER.index)) != steps:
        right = ", ".join(sorted(steps, key=_ORDER.index))
        findings.add("DPR-S662", at, "is not in the order in which it is done", f"write `postprocess: [{right}]`")
    elif steps[0] != "consistent":
        says, hint = "is done to tables that are consistent", f"write `postprocess: [consistent, {', '.join(steps)}]`"
        findings.add("DPR-S662", (*at, 0), says, hint)
    elif len(steps) > 1:
        for name, query in workloads.items():
            if can_be_made(query, spec.hierarchies):
                _check_joint(name, query, steps[1:], findings)


def _check_joint(name: str, query: QuerySpec, steps: tuple[str, ...], findings: Findings) -> None:
    """One table has the columns of all others, so that all of them are sums of it."""
    marginals = query.marginals
    if marginals is None or set(marginals.attributes) in map(set, marginals.tables):
        return
    says = (
        f"asks for {' and '.join(steps)} tables, and no table of {shown(name)!r} has the columns of all others: "
        "consistent tables of such numbers need not exist (for three-way tables: Cox)"
    )
    joint = f"[{shown(', '.join(marginals.attributes), 200)}]"
    way = f"{len(marginals.attributes)} to `ways`" if marginals.of is not None else f"{joint} to `sets`"
    hint = f"add {way}, the finest joint table; or write `postprocess: [consistent]`"
    findings.add("DPR-S662", ("postprocess", 1), says, hint, ("queries", name, "marginals"))


def check_exact_counts(spec: ReleaseSpec, findings: Findings) -> None:
    """Each is a count of rows, alone in a query of its own, beside queries of the same account that noise hides."""
    exact = [invariant.query for invariant in spec.invariants]
    drawn = {query.table for name, query in spec.queries.items() if name not in exact}
    paying = {spec.tables[table].account for table in drawn if table in spec.tables}
    for number, invariant in enumerate(spec.invariants):
        at = ("invariants", number)
        if invariant.query in exact[:number]:
            says = f"repeats query {shown(invariant.query)!r}"
            findings.add("DPR-S663", (*at, "query"), says, "write it once", ("queries", invariant.query))
            continue
        before = len(findings.problems)
        _check_invariant(spec, invariant, at, findings)
        query = spec.queries.get(invariant.query)  # none where the problem is hidden behind one that was told before
        table = spec.tables.get(query.table) if query is not None and len(findings.problems) == before else None
        if table is not None and table.account not in paying:
            says = f"is of account {shown(table.account)!r}, of which this release protects nothing"
            hint = "publish such numbers without dprelease; or add a query of that account which is no invariant"
            findings.add("DPR-S663", at, says, hint, ("queries", invariant.query))


def _check_invariant(spec: ReleaseSpec, invariant: InvariantSpec, at: Path, findings: Findings) -> None:
    query, about = spec.queries.get(invariant.query), ("queries", invariant.query)
    if query is None:
        says, hint = f"means no query: {shown(invariant.query)!r}", did_you_mean(invariant.query, spec.queries)
        findings.add("DPR-S663", (*at, "query"), says, hint, about)
        return
    named = shown(invariant.query)
    for wrong, what in (
        (query.marginals is not None, "has `marginals`"),
        (query.ranges is not None, "has `ranges`"),
        (query.totals is not None, "has `totals`"),
        (query.top_k is not None, "is a list of keys"),
        (query.keys == "private", "has private keys"),
        (query.bounds is not None, "has `bounds`"),
        (query.except_ is not None, "leaves cells out"),
        (query.suppress is not None, "has `suppress`"),
        (query.share not in (None, 1), "has a `share`"),
        (query.budget is not None, "has a `budget`"),
        (bool(query.target), "has a `target`"),
        (len(query.measures) > 1, "has other measures beside it"),
        (query.table in spec.tables and spec.tables[query.table].unit_id is not None, "reads a table with a `unit_id`"),
    ):
        if wrong:
            hint = "name a query of rows by public keys with this one measure, which asks for nothing else"
            findings.add("DPR-S663", (*at, "query"), f"means {named!r}, which {what}", hint, about)
            return
    measure, here = query.measures.get(invariant.measure), (*at, "measure")
    if measure is None:
        says = f"is no measure of query {named!r}: {shown(invariant.measure)!r}"
        findings.add("DPR-S663", here, says, did_you_mean(invariant.measure, query.measures), about)
    elif measure.counted != "rows" or measure.where is not None:
        says = f"is no count of rows: {shown(invariant.measure)!r}"
        findings.add("DPR-S663", here, says, "name a measure `{count: rows}`; a `where` belongs to the query", about)


def check_rounding(spec: ReleaseSpec, findings: Findings) -> None:
    """Bases are of measures of their query, and those of counts are whole."""
    usual = spec.publish.round
    if isinstance(usual, Fraction) and usual.denominator != 1:
        hint = "write a whole number, such as 10; other numbers are rounded in their query, by name"
        findings.add("DPR-S696", ("publish", "round"), "is no whole number, and rounds counts", hint)
    for name, query in spec.queries.items():
        for label, base in (query.round or {}).items():
            at: Path = ("queries", name, "round", label) if label else ("queries", name, "round")
            if label in query.compare:
                continue
            if label in query.measures:
                if query.measures[label].is_count and isinstance(base, Fraction) and base.denominator != 1:
                    findings.add("DPR-S696", at, "is no whole number, and rounds a count", "write one, such as 10")
                continue
            says = f"means no measure of the query: {shown(label)!r}" if label else "has no count to round"
            fitting = next(iter(query.measures), "n")
            hint = did_you_mean(label, query.measures, f"name each measure: `round: {{{fitting}: 10}}`")
            findings.add("DPR-S698", at, says, hint, ("queries", name, "measures"))


def check_across(spec: ReleaseSpec, findings: Findings) -> None:
    """A column across is one of two or more of a query whose table has every combination of its keys, once."""
    for name, column in spec.publish.across.items():
        at, query = ("publish", "across", name), spec.queries.get(name)
        if query is None:
            says, hint = f"means no query: {shown(name)!r}", did_you_mean(name, spec.queries)
            findings.add("DPR-S726", at, says, hint, ("queries", name), key=True)
            continue
        about = ("queries", name)
        if column not in query.by or len(query.by) < 2:
            says = f"is {shown(column)!r}, which is none of two or more columns of its `by`"
            hint = did_you_mean(column, query.by, f"name one of them, such as `across: {{{name}: COLUMN}}`")
            findings.add("DPR-S727", at, says, hint, (*about, "by"))
            continue
        parts = ("keys", "except_", "ranges", "totals", "suppress")
        other = next((part for part in parts if getattr(query, part) is not None), None)
        if other is not None:
            word = other.rstrip("_")
            says = f"asks for a table across, and the query has `{word}`: rows can be missing or be totals"
            findings.add("DPR-S728", at, says, f"leave out either this or `{word}`", about)


def check_table_names(spec: ReleaseSpec, findings: Findings) -> None:
    """No two published tables are one file, and no name is longer than a file may have."""
    taken = {name.lower(): f"query {shown(name)!r}" for name in spec.queries}
    taken |= {name.lower(): f"derived table {shown(name)!r}" for name in spec.derive if name.lower() not in taken}
    for name, query in spec.queries.items():
        at = ("queries", name)
        if not can_be_made(query, spec.hierarchies):
            continue
        for table in published_sets(name, query, spec.hierarchies):
            other = taken.get(table.name.lower())
            if other is not None:
                says = f"makes a table {shown(table.name, _LONGEST)!r}, which has the name of the {other}"
                hint = "rename the query, or a column: both would be one file"
                findings.add("DPR-S660", at, says, hint, (*at, "marginals"), (*at, "levels"), key=True)
                break
            if len(table.name) > _LONGEST:
                says = f"makes a table whose name has {len(table.name)} letters, more than {_LONGEST}"
                hint = "give the query, or its columns, shorter names"
                findings.add("DPR-S660", at, says, hint, (*at, "marginals"), (*at, "levels"), key=True)
                break
            taken[table.name.lower()] = f"table {shown(table.name, _LONGEST)!r} of query {shown(name)!r}"
