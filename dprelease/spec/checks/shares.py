"""The rules of the shares of a workload: a part for every level and table, which together are exactly 1."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.spec.fields.document import MarginalsSpec, QuerySpec
from dprelease.spec.fields.queries import levels_of
from dprelease.spec.fields.workloads import TOTAL, Hierarchies, set_of
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_shares"]

_CODE = "DPR-S658"


def check_shares(query: QuerySpec, hierarchies: Hierarchies, at: Path, findings: Findings) -> None:
    """Every level and table that is named is there, and the parts add up; of a workload whose tables can be listed."""
    shares, marginals = query.shares, query.marginals
    if shares is None or marginals is None:
        return
    here, about = (*at, "shares"), ((*at, "levels"), ("hierarchies", query.levels or ""), (*at, "marginals"))
    if not shares.levels and not shares.tables:
        hint = "leave it out, or write `levels` or `tables` in it"
        findings.add(_CODE, here, "divides nothing", hint)
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
        findings.add(_CODE, here, "divides levels, and the query has none", hint, *about)
        return
    for name in given:
        if name not in levels:
            says = f"means no level of this query: {shown(name)!r}"
            findings.add(_CODE, (*here, name), says, did_you_mean(name, levels), *about, key=True)
    missing = [name for name in levels if name not in given]
    if missing:
        says = f"leaves out {shown(missing[0])!r}"
        findings.add(_CODE, here, says, "give every level its part", *about, *((*here, name) for name in missing))
    elif len(given) == len(levels) and sum(given.values()) != 1:
        says = f"adds up to {_figure(sum(given.values()))}, not to 1"
        findings.add(_CODE, here, says, "write exact fractions, such as 1/7, 2/7 and 4/7", *about)


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
            findings.add(_CODE, at, says, did_you_mean(label, named), *about, key=True)
        elif table in seen:
            says, right = f"is the same table as {shown(seen[table])!r}", False
            findings.add(_CODE, at, says, "keep one of the two", *about, key=True)
        if len(parts) not in (1, depth):
            says, right = f"has {len(parts)} parts, and there {'are' if depth > 1 else 'is'} {depth} to give", False
            hint = f"write one for each level: {', '.join(levels)}; or one for all" if levels else "write one number"
            findings.add(_CODE, at, says, hint, *about)
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
            findings.add(_CODE, here, f"adds up to {_figure(total)}{level}, not to 1", hint, *about)


def _figure(number: Fraction | int) -> str:
    """A sum with its value, where digits do not tell.

    >>> _figure(Fraction(3, 4)), _figure(Fraction(0))
    ('3/4 (0.75)', '0')
    """
    exact = Fraction(number)
    return str(exact) if exact.denominator == 1 else f"{shown(str(exact))} ({float(exact):.9g})"
