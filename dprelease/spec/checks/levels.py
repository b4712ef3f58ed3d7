"""The rules of hierarchies and of the shares of a workload.

Columns nest for every row, because each level is made from one below it. The shares are a part for every level and
table, which together are exactly 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.spec.fields.document import ColumnSpec, MarginalsSpec, QuerySpec, ReleaseSpec, TableSpec
from dprelease.spec.fields.published_sets import levels_of
from dprelease.spec.fields.workloads import TOTAL, Hierarchies, set_of
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import COLUMN_NAME, NAME_RULE, did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_hierarchies", "check_levels", "check_shares"]

_CODE = "DPR-S656"


def check_hierarchies(spec: ReleaseSpec, findings: Findings) -> None:
    """What a hierarchy says of itself: a name, and every column once."""
    for name, levels in spec.hierarchies.items():
        at = ("hierarchies", name)
        if not COLUMN_NAME.fullmatch(name):
            findings.add("DPR-S502", at, "is no name", NAME_RULE, key=True)
        for number, column in enumerate(levels):
            if column in levels[:number]:
                findings.add("DPR-S650", (*at, number), f"repeats {shown(column)!r}", "name every level once")


def check_levels(spec: ReleaseSpec, query: QuerySpec, table: TableSpec | None, at: Path, findings: Findings) -> bool:
    """The levels of one workload are columns of its table with keys, and each is made from one below it.

    A row then has the ancestors of its lowest key, whatever the data hold. A null or a number out of its range, given
    a key at one level by itself, would have others elsewhere.

    Args:
        spec: Has the hierarchies.
        query: With marginals.
        table: Its table; None where there is none of that name.
        at: The path of the query.
        findings: Where problems go.

    Returns:
        Whether the levels are what their author meant, so that what names them can be judged.
    """
    if query.levels is None or query.marginals is None:
        return True
    if query.levels not in spec.hierarchies:
        says = f"means no hierarchy: {shown(query.levels)!r}"
        hint = did_you_mean(query.levels, spec.hierarchies, "declare it: `hierarchies: {geography: [region, state]}`")
        findings.add("DPR-S655", (*at, "levels"), says, hint, ("hierarchies", query.levels))
        return False
    levels = spec.hierarchies[query.levels]
    for number, name in enumerate(levels):
        here = ("hierarchies", query.levels, number)
        if name in query.marginals.attributes:
            says = f"is a level of {shown(query.levels)!r} and a column of the tables: {shown(name)!r}"
            hint = "take it out of `marginals`: every table has the column of its level"
            findings.add("DPR-S657", (*at, "marginals"), says, hint, here)
        if table is not None:
            _check_level(query, table, levels, number, here, findings)
    known = table is None or all(name in table.columns for name in levels)
    return known and len(set(levels)) == len(levels)


def _check_level(
    query: QuerySpec, table: TableSpec, levels: tuple[str, ...], number: int, here: Path, findings: Findings
) -> None:
    name = levels[number]
    about, column = ("tables", query.table, "columns", name), table.columns.get(name)
    if column is None:
        says = f"is no column of table {query.table!r}: {shown(name)!r}"
        findings.add("DPR-S504", here, says, did_you_mean(name, table.columns), about)
        return
    if not column.has_keys:
        hint = "declare its public values: `keys: {reference: ...}` or `keys: [...]`"
        findings.add("DPR-S505", here, f"is a column without keys: {shown(name)!r}", hint, about)
    for field, what in (("null", "nulls a key"), ("range", "numbers outside its range a key")):
        if getattr(column, field) is not None:
            says = f"gives {what}, and is a level of {shown(query.levels or '')!r}"
            hint = "leave it out: a row without a key at the lowest level is in no table of the workload"
            findings.add(_CODE, (*about, field), says, hint, here, (*about[:3], name))
    below = levels[number + 1 :]
    if below and not _is_made(table, name, column, below):
        lowest = shown(levels[-1])
        says = f"is not made from {_either(below)}: {shown(name)!r}"
        hint = (
            f"write `join: [{{reference: NAME, on: {lowest}, add: [{shown(name)}]}}]` in the table, or make it"
            f" `{{map: {lowest}, to: ...}}`, or a `bin` whose edges are among those of the level below"
        )
        findings.add(_CODE, here, says, hint, about, ("tables", query.table, "join"), *_columns(query, below))


def _columns(query: QuerySpec, names: tuple[str, ...]) -> list[Path]:
    return [("tables", query.table, "columns", name) for name in names]


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(repr(shown(name)) for name in names)


def _is_made(table: TableSpec, name: str, column: ColumnSpec, below: tuple[str, ...]) -> bool:
    """Whether a level follows from one below it, row by row."""
    if column.map is not None:
        return column.map in below
    if column.bin is not None:
        finer = next((table.columns[each] for each in below if each in table.columns and table.columns[each].bin), None)
        same = finer is not None and finer.bin == column.bin
        return finer is not None and same and set(column.edges or ()) <= set(finer.edges or ())
    return any(join.reference is not None and name in join.add and join.on in below for join in table.join)


_OF_SHARES = "DPR-S658"


def check_shares(query: QuerySpec, hierarchies: Hierarchies, at: Path, findings: Findings) -> None:
    """Every level and table that is named is there, and the parts add up; of a workload whose tables can be listed."""
    shares, marginals = query.shares, query.marginals
    if shares is None or marginals is None:
        return
    here, about = (*at, "shares"), ((*at, "levels"), ("hierarchies", query.levels or ""), (*at, "marginals"))
    if not shares.levels and not shares.tables:
        hint = "leave it out, or write `levels` or `tables` in it"
        findings.add(_OF_SHARES, here, "divides nothing", hint)
    levels = levels_of(query, hierarchies)
    if shares.levels:
        _check_level_shares(shares.levels, levels, (*here, "levels"), about, findings)
    if shares.tables:
        _check_table_shares(shares.tables, marginals, levels, (*here, "tables"), about, findings)


def _check_level_shares(
    given: Mapping[str, Fraction], levels: tuple[str, ...], here: Path, about: tuple[Path, ...], findings: Findings
) -> None:
    if not levels:
        hint = "leave it out, or write `levels: HIERARCHY` in the query"
        findings.add(_OF_SHARES, here, "divides levels, and the query has none", hint, *about)
        return
    for name in given:
        if name not in levels:
            says = f"means no level of this query: {shown(name)!r}"
            findings.add(_OF_SHARES, (*here, name), says, did_you_mean(name, levels), *about, key=True)
    missing = [name for name in levels if name not in given]
    if missing:
        says = f"leaves out {shown(missing[0])!r}"
        findings.add(_OF_SHARES, here, says, "give every level its part", *about, *((*here, name) for name in missing))
    elif len(given) == len(levels) and sum(given.values()) != 1:
        says = f"adds up to {_figure(sum(given.values()))}, not to 1"
        findings.add(_OF_SHARES, here, says, "write exact fractions, such as 1/7, 2/7 and 4/7", *about)


def _check_table_shares(
    given: Mapping[str, tuple[Fraction | None, ...]],
    marginals: MarginalsSpec,
    levels: tuple[str, ...],
    here: Path,
    about: tuple[Path, ...],
    findings: Findings,
) -> None:
    """Each name is a table of the workload, each list as long as there are levels, each level adds up to 1."""
    sets, depth, right = set(marginals.tables), max(1, len(levels)), True
    named = ["*".join(columns) or TOTAL for columns in marginals.tables]
    seen: dict[tuple[str, ...], str] = {}
    for label, parts in given.items():
        at = (*here, label)
        columns = () if label == TOTAL else tuple(part.strip() for part in label.split("*"))
        known = set(columns) <= set(marginals.attributes)
        table = set_of(columns, marginals.attributes) if known else columns
        if table not in sets:
            says, right = f"means no table of this workload: {shown(label)!r}", False
            findings.add(_OF_SHARES, at, says, did_you_mean(label, named), *about, key=True)
        elif table in seen:
            says, right = f"is the same table as {shown(seen[table])!r}", False
            findings.add(_OF_SHARES, at, says, "keep one of the two", *about, key=True)
        if len(parts) not in (1, depth):
            says, right = f"has {len(parts)} parts, and there {'are' if depth > 1 else 'is'} {depth} to give", False
            hint = f"write one for each level: {', '.join(levels)}; or one for all" if levels else "write one number"
            findings.add(_OF_SHARES, at, says, hint, *about)
        seen.setdefault(table, label)
    if right:
        _check_sums(given, levels, here, about, findings)


def _check_sums(
    given: Mapping[str, tuple[Fraction | None, ...]],
    levels: tuple[str, ...],
    here: Path,
    about: tuple[Path, ...],
    findings: Findings,
) -> None:
    """The parts of the tables of each level; what is left out is not measured there."""
    alike = all(len(each) == 1 for each in given.values())
    for place in range(1 if alike else len(levels)):
        parts = [each[place if len(each) > 1 else 0] for each in given.values()]
        total = sum((part for part in parts if part is not None), Fraction(0))
        if total != 1:
            level = "" if alike else f" at level {shown(levels[place])!r}"
            hint = "write exact fractions, such as 1/3; what is left out, or null, is not measured"
            findings.add(_OF_SHARES, here, f"adds up to {_figure(total)}{level}, not to 1", hint, *about)


def _figure(number: Fraction | int) -> str:
    """A sum with its value, where digits do not tell.

    >>> _figure(Fraction(3, 4)), _figure(Fraction(0))
    ('3/4 (0.75)', '0')
    """
    exact = Fraction(number)
    return str(exact) if exact.denominator == 1 else f"{shown(str(exact))} ({float(exact):.9g})"
