"""What the language knows and this version does not do yet: one closed table, so that nothing is ignored in silence."""

from __future__ import annotations

from typing import Any

from dprelease.errors import Problem
from dprelease.spec.yaml import Numeral, Positions

__all__ = ["set_aside"]

_FILTER = "filter the source file, or declare a column for it"
LATER: dict[tuple[str, ...], str] = {
    ("hierarchies",): "write one query for each level",
    ("postprocess",): "leave it out: estimates are published as measured",
    ("invariants",): "leave it out: everything published is protected",
    ("derive",): "compute it from the published tables",
    ("schedule",): "run each period by hand: one spec for each `period`",
    ("tables", "*", "time"): _FILTER,
    ("tables", "*", "bounds"): "make every row one unit before it is read",
    ("tables", "*", "source", "database"): "export the table to CSV or Parquet",
    ("tables", "*", "source", "table"): "export the table to CSV or Parquet",
    ("tables", "*", "columns", "*", "sql"): "compute the column before the data are read",
    ("tables", "*", "columns", "*", "bin"): "compute the band before the data are read",
    ("tables", "*", "columns", "*", "edges"): "compute the band before the data are read",
    ("tables", "*", "join", "*", "table"): "join the tables before they are read; every row must stay one unit",
    ("tables", "*", "join", "*", "max_matches"): "join the tables before they are read; every row must stay one unit",
    ("queries", "*", "where"): _FILTER,
    ("queries", "*", "totals"): "write a further query with fewer columns in `by`",
    ("queries", "*", "except"): "publish every combination of keys",
    ("queries", "*", "target"): "write `share`, and look at the margins that `dprelease plan` shows",
    ("queries", "*", "budget"): "write `share`",
    ("queries", "*", "keys"): "declare public `keys` for every column of `by`",
    ("queries", "*", "min_units"): "declare public `keys` for every column of `by`",
    ("queries", "*", "bounds"): "make every row one unit before it is read",
    ("queries", "*", "top_k"): "count by the column, and sort the published table",
    ("queries", "*", "k"): "count by the column, and sort the published table",
    ("queries", "*", "marginals"): "write one query for each table",
    ("queries", "*", "levels"): "write one query for each level",
    ("queries", "*", "shares"): "write `share` in each query",
    ("queries", "*", "measures", "*", "where"): _FILTER,
    **{
        ("queries", "*", "measures", "*", kind): "there are count, sum and mean"
        for kind in ("quantiles", "variance", "stddev", "ratio", "count_distinct", "min", "max", "at")
    },
}
_VALUES: dict[tuple[str, ...], tuple[frozenset[str], str]] = {
    ("privacy", "accounting"): (frozenset({"pld"}), "write `accounting: rdp`, the tightest there is"),
    ("publish", "formats", "*"): (frozenset({"xlsx", "json", "sdmx"}), "there are csv, parquet and html"),
}


def set_aside(data: Any, positions: Positions) -> list[Problem]:
    """Report every field and value that is not there yet, and take it out of the data so that it is reported once."""
    problems: list[Problem] = []
    _walk(data, (), (), positions, problems)
    return problems


def _walk(
    value: Any, path: tuple[str | int, ...], shape: tuple[str, ...], positions: Positions, problems: list[Problem]
) -> None:
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    for key, item in items:
        at = (*path, key)
        found = _lookup(shape, str(key))
        if found is None:
            continue
        if found in LATER and isinstance(value, dict):
            where = positions.where(*at, key=True)
            problems.append(Problem("DPR-S100", f"{key!r} is not available yet", LATER[found], where))
            del value[key]
        elif found == ("tables", "*", "unit_id"):
            if item != "none":
                hint = "every row must be one unit: aggregate to one row per unit, and leave `unit_id` out"
                problems.append(Problem("DPR-S100", "'unit_id' is not available yet", hint, positions.where(*at, key=True)))
            del value[key]
        elif found in _VALUES and isinstance(item, str | Numeral) and str(item) in _VALUES[found][0]:
            hint = _VALUES[found][1]
            problems.append(Problem("DPR-S101", f"{item!s} is not available yet", hint, positions.where(*at)))
            value[key] = "csv" if isinstance(value, list) else "auto"
        else:
            _walk(item, at, found, positions, problems)


def _lookup(shape: tuple[str, ...], key: str) -> tuple[str, ...] | None:
    """The known shape below this one that the key fits, a name or a star."""
    named, starred = (*shape, key), (*shape, "*")
    known = {*LATER, *_VALUES, ("tables", "*", "unit_id")}
    for candidate in (named, starred):
        if any(each[: len(candidate)] == candidate for each in known):
            return candidate
    return None
