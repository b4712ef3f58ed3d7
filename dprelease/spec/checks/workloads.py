"""The rules of workloads: which tables, over which keys, with which part of the budget."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from dprelease.spec.checks.budget import check_pin
from dprelease.spec.checks.columns import check_reference
from dprelease.spec.checks.keys import known_cells
from dprelease.spec.checks.levels import check_levels, check_shares
from dprelease.spec.checks.measures import check_published_names
from dprelease.spec.fields.document import QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.fields.published_sets import all_key_columns, levels_of, published_sets
from dprelease.spec.fields.workloads import TOTAL, Hierarchies, MarginalsSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import COLUMN_NAME, NAME_RULE, did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = [
    "MOST_TABLES",
    "can_be_made",
    "check_no_workload",
    "check_workload",
    "check_workload_cells",
]

MOST_TABLES = 5_000  # published by one workload
# Cells of one table, and of all tables of one workload: a hundred million in all have been released and verified on one
# machine of 24 GB. What this machine has no memory for is refused before it is charged (``plan.explain.memory``).
_MOST_CELLS, _MOST_IN_ALL = 100_000_000, 200_000_000
# What stands beside `marginals`, to what can be done instead; all else of a query may stand there.
_BESIDE: Mapping[str, str] = {
    "by": "leave it out: the keys of each table are its columns under `marginals`",
    "bounds": "leave it out: a workload counts every row that `bounds: {max_rows: 100}` of the table leaves a unit",
    "keys": "leave it out: the columns of a workload have public keys",
    "min_units": "leave it out: every cell is published, empty ones too",
    "top_k": "write one query for the list, and one for the tables",
    "suppress": "leave it out: the tables of a workload add up, and blanks would not",
    "totals": "write the lists under `marginals`: `{sets: [[region, sex], [region], []]}`",
    "expect": "leave it out: the cells of many tables have no one size",
}


def check_no_workload(query: QuerySpec, at: Path, findings: Findings) -> None:
    """What only `marginals` gives a meaning, in a query without them."""
    for field in ("levels", "shares"):
        if getattr(query, field) is not None and (field, query.totals is not None) != ("shares", True):
            hint = "write `marginals: {of: [sex, race], ways: [0, 1, 2]}` beside it, or leave it out"
            findings.add("DPR-S653", (*at, field), "belongs to `marginals`, and there are none", hint, at)


def check_workload(spec: ReleaseSpec, name: str, query: QuerySpec, table: TableSpec | None, findings: Findings) -> None:
    """One query with marginals: its columns, its levels, its measure and its part of the budget."""
    at, marginals = ("queries", name), query.marginals
    assert marginals is not None  # noqa: S101 - asked for by the caller
    for field, hint in _BESIDE.items():
        if getattr(query, field):
            findings.add("DPR-S653", (*at, field.rstrip("_")), "stands beside `marginals`", hint)
    for field in ("k", "of"):
        if getattr(query, field) is not None and query.top_k is None:
            hint = "leave it out; columns are named inside: `marginals: {of: [sex, race], ways: [0, 1, 2]}`"
            findings.add("DPR-S653", (*at, field), "stands beside `marginals`", hint, (*at, "top_k"))
    if query.shares is not None and marginals.minimize != "tables":
        hint = "leave one of the two out: shares say what every table gets, whatever is least then"
        findings.add("DPR-S653", (*at, "marginals", "minimize"), "stands beside `shares`", hint, (*at, "shares"))
    if query.top_k is not None:
        return  # the rest is meant for one of the two
    _check_sets(marginals, at, findings)
    if table is not None:
        _check_attributes(query, marginals, table, at, findings)
        _check_rows(query, table, at, findings)
        _check_zeros(spec, query, table, at, findings)
    nests = check_levels(spec, query, table, at, findings)
    _check_measure(spec, query, at, findings)
    check_pin(spec, query, at, findings)
    if not _sound(marginals) or _too_many(name, query, spec.hierarchies, findings):
        return
    if nests:
        check_shares(query, spec.hierarchies, at, findings)
    if table is None:
        return
    columns = all_key_columns(query, spec.hierarchies)
    keys = {column: known_cells(table.columns.get(column)) for column in columns}
    check_workload_cells(name, query, spec.hierarchies, keys, findings)


def can_be_made(query: QuerySpec, hierarchies: Hierarchies) -> bool:
    """Whether the tables of a workload can be listed: they are told apart, and few enough."""
    levels = levels_of(query, hierarchies)
    sound = query.marginals is not None and _sound(query.marginals) and len(set(levels)) == len(levels)
    return sound and _counted(query, hierarchies) <= MOST_TABLES


def _sound(marginals: MarginalsSpec) -> bool:
    """Whether every column, number of columns and set is there once, and names a table."""
    columns, ways = marginals.of or (), marginals.ways or ()
    sets = [frozenset(each) for each in marginals.sets or ()]
    once = all(len(set(each)) == len(each) for each in (columns, ways, sets, *(marginals.sets or ())))
    named = all(column.lower() != TOTAL for column in marginals.attributes)
    return once and named and all(0 <= way <= len(columns) for way in ways)


def _check_sets(marginals: MarginalsSpec, at: Path, findings: Findings) -> None:
    """Every column, number of columns and set is there once."""
    here = (*at, "marginals")
    for number, column in enumerate(marginals.of or ()):
        if column in (marginals.of or ())[:number]:
            findings.add("DPR-S652", (*here, "of", number), f"repeats {shown(column)!r}", "name every column once")
    for number, way in enumerate(marginals.ways or ()):
        most = len(marginals.of or ())
        if not 0 <= way <= most:
            says = f"is {way}, and a table has from 0 to {most} of these columns"
            findings.add("DPR-S652", (*here, "ways", number), says, f"write a number from 0 to {most}", (*here, "of"))
        elif way in (marginals.ways or ())[:number]:
            findings.add("DPR-S652", (*here, "ways", number), f"repeats {way}", "write every number once")
    seen: set[frozenset[str]] = set()
    for number, columns in enumerate(marginals.sets or ()):
        repeated = next((each for place, each in enumerate(columns) if each in columns[:place]), None)
        if repeated is not None:
            hint = "name every column once"
            findings.add("DPR-S652", (*here, "sets", number), f"repeats {shown(repeated)!r}", hint)
        elif frozenset(columns) in seen:
            findings.add("DPR-S652", (*here, "sets", number), "is there already", "list every table once")
        seen.add(frozenset(columns))


def _check_attributes(
    query: QuerySpec, marginals: MarginalsSpec, table: TableSpec, at: Path, findings: Findings
) -> None:
    """Every attribute is a column of the table with public keys."""
    form = "of" if marginals.of is not None else "sets"
    written = [marginals.of] if marginals.of is not None else list(marginals.sets or ())
    checked: set[str] = set()
    for row, columns in enumerate(written):
        for number, name in enumerate(columns or ()):
            if name in checked:
                continue
            checked.add(name)
            here = (*at, "marginals", form, number) if form == "of" else (*at, "marginals", form, row, number)
            _check_attribute(query, table, name, here, findings)


def _check_attribute(query: QuerySpec, table: TableSpec, name: str, here: Path, findings: Findings) -> None:
    about, column = ("tables", query.table, "columns", name), table.columns.get(name)
    if column is None:
        says = f"is no column of table {query.table!r}: {shown(name)!r}"
        findings.add("DPR-S504", here, says, did_you_mean(name, table.columns), about)
    elif not column.has_keys:
        hint = "declare its public values: `keys: [...]`, `{reference: ...}` or `{from: ..., to: ...}`"
        findings.add("DPR-S505", here, f"is a column without keys: {shown(name)!r}", hint, about)
    elif name.lower() == TOTAL:
        says = f"is {shown(name)!r}, which names the table without columns"
        findings.add("DPR-S652", here, says, "rename the column", about)


def _check_rows(query: QuerySpec, table: TableSpec, at: Path, findings: Findings) -> None:
    """A unit has a known number of rows at most."""
    if table.unit_id is not None and table.bounds is None:
        of_table = ("tables", query.table)
        says = "counts rows, and nothing bounds how many rows one unit may have"
        hint = "write `bounds: {max_rows: 100}` in the table"
        findings.add("DPR-S554", (*at, "marginals"), says, hint, (*of_table, "unit_id"), (*of_table, "bounds"))


def _check_zeros(spec: ReleaseSpec, query: QuerySpec, table: TableSpec, at: Path, findings: Findings) -> None:
    """What a reference lists as impossible is of attributes of the workload alone, and of their types."""
    if query.except_ is None or query.marginals is None:
        return
    here = (*at, "except")
    if query.levels is not None:
        hint = "leave `except` out, or take a column of the hierarchy into `marginals` in the place of `levels`"
        findings.add("DPR-S653", here, "stands beside `levels`", hint, (*at, "levels"))
        return
    reference, at_name, attributes = query.except_.reference, (*here, "reference"), query.marginals.attributes
    if reference not in spec.references:
        check_reference(spec, reference, attributes[0] if attributes else "", None, at_name, findings)
        return
    for name in spec.references[reference].columns:
        column = table.columns.get(name)
        if name not in attributes:
            # Ignored it would make more combinations impossible than the file says.
            says = f"has a column that is none of the workload's: {shown(name)!r}"
            hint = "declare only columns of `marginals` for this reference, or take the column into `marginals`"
            findings.add("DPR-S666", at_name, says, hint, ("references", reference, "columns", name))
            return
        if column is not None:
            check_reference(spec, reference, name, column.type, at_name, findings)


def _check_measure(spec: ReleaseSpec, query: QuerySpec, at: Path, findings: Findings) -> None:
    """One count of rows, and a margin at most as its target."""
    here, hint = (*at, "measures"), "leave it out, or write one: `measures: {persons: {count: rows}}`"
    if len(query.measures) != 1:
        says = f"has {len(query.measures)} measures, and the tables of a workload have one"
        findings.add("DPR-S654", here, says, hint)
        return
    label, measure = next(iter(query.measures.items()))
    if not COLUMN_NAME.fullmatch(label):
        findings.add("DPR-S502", (*here, label), "is no name", NAME_RULE, key=True)
    if measure.counted != "rows":
        findings.add("DPR-S654", (*here, label), "is no count of rows, which alone a workload has", hint, key=True)
    elif measure.where is not None:
        findings.add("DPR-S654", (*here, label, "where"), "chooses rows", "write `where` in the query")
    check_published_names(query, all_key_columns(query, spec.hierarchies), at, findings)
    known = [label, *({} if query.series is None else query.series.named([label]))]
    for name, target in query.target.items():
        at_target = (*at, "target", name)
        if name not in known:
            about = (*here, name)
            findings.add(
                "DPR-S539", at_target, "is no measure of this query", did_you_mean(name, known), about, key=True
            )
        elif target.relative is not None:
            says = "is a part of `expect`, which a workload has none of"
            findings.add("DPR-S540", (*at_target, "relative"), says, "write `{margin: ...}`, in rows")


def _too_many(name: str, query: QuerySpec, hierarchies: Hierarchies, findings: Findings) -> bool:
    """Whether a workload publishes more tables than anybody reads; told without making them."""
    assert query.marginals is not None  # noqa: S101 - asked for by the caller
    tables = _counted(query, hierarchies)
    if tables > MOST_TABLES:
        says = f"makes {tables} tables, more than {MOST_TABLES:,}" if tables < 10**30 else "makes far too many tables"
        hint = "take columns out, or fewer `ways`"
        findings.add("DPR-S659", ("queries", name, "marginals"), says, hint, ("queries", name, "levels"))
    return tables > MOST_TABLES


def _counted(query: QuerySpec, hierarchies: Hierarchies) -> int:
    """How many tables a workload publishes, at all levels; counted without making them."""
    return 0 if query.marginals is None else query.marginals.number * max(1, len(levels_of(query, hierarchies)))


def check_workload_cells(
    name: str, query: QuerySpec, hierarchies: Hierarchies, keys: Mapping[str, int], findings: Findings
) -> None:
    """At most a hundred million cells in one table, and two hundred million in all.

    Args:
        name: The name of the query.
        query: With marginals, few enough to be made.
        hierarchies: The hierarchies of the spec.
        keys: How many keys each of its columns has, as far as it is known.
        findings: Where problems go.
    """
    at, every = ("queries", name, "marginals"), 0
    for table in published_sets(name, query, hierarchies):
        cells = prod(keys[column] for column in table.keys)
        every += cells
        if cells > _MOST_CELLS:
            many = f"{cells} cells, more than a hundred million" if cells < 10**30 else "far too many cells"
            says = f"makes {many} in {shown(table.name, 110)}"
            findings.add("DPR-S528", at, says, "take a column out, or fewer keys; or list `sets` without that table")
            return
    if every > _MOST_IN_ALL:
        says = f"makes {every} cells in all its tables, more than two hundred million"
        findings.add("DPR-S528", at, says, "take a column out, or fewer keys, or fewer tables")
