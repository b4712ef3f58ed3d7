"""The rules of columns that are computed from others of their row: bands, maps and expressions."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.catalog.expressions.expression import ExpressionError, parse
from dprelease.catalog.table import ColumnType
from dprelease.spec.checks.columns import FINEST, NUMBERS, edges_are_sound
from dprelease.spec.expressions import read_expression, types_of
from dprelease.spec.fields.columns import named_key
from dprelease.spec.fields.document import ColumnSpec, TableSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import did_you_mean, shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_computed_column"]

# What only one way of computing a column gives a meaning.
_PARTS = {"edges": "bin", "to": "map", "otherwise": "map"}
_KEYABLE = ("text", "integer", "boolean", "date")


Types = Mapping[str, ColumnType]


def check_computed_column(name: str, table: TableSpec, above: Types, at: Path, findings: Findings) -> None:
    """One column: that it is computed in one way at most, from columns above it, to values of its type.

    Args:
        name: The name of the column.
        table: Its table.
        above: The types of the columns that are declared above it.
        at: The path of the column.
        findings: Where problems go.
    """
    column = table.columns[name]
    ways = [way for way in ("bin", "map", "sql") if getattr(column, way) is not None]
    if len(ways) > 1:
        findings.add("DPR-S557", (*at, ways[1]), f"stands beside `{ways[0]}`", "keep one of the two")
        return
    for part, way in _PARTS.items():
        if getattr(column, part) is not None and way not in ways:
            hint = f"write `{way}: COLUMN` beside it, or leave it out"
            findings.add("DPR-S557", (*at, part), f"belongs to `{way}`, and there is none", hint, (*at, way))
    if ways in (["bin"], ["map"]):
        if column.keys is not None:
            hint = (
                "leave it out: the keys are the bands"
                if ways == ["bin"]
                else "leave it out: the keys are those in `to`"
            )
            findings.add("DPR-S557", (*at, "keys"), f"stands beside `{ways[0]}`, which gives the keys", hint)
        elif ways == ["bin"]:
            _check_bands(name, column, table, above, at, findings)
        else:
            _check_map(name, column, table, above, at, findings)
    elif column.sql is not None:
        _check_sql(name, column, table, above, at, findings)


def _source(
    name: str, of: str, way: str, table: TableSpec, above: Types, at: Path, findings: Findings
) -> ColumnType | None:
    """The type of the column that another one is computed from; None, and a problem, where it cannot be used."""
    about = (*at[:-1], of)
    if of in above:
        return above[of]
    if of in table.columns:
        says = "means itself" if of == name else f"means {shown(of)!r}, which is declared further down"
        hint = "name a column that is declared above this one" if of == name else f"move this column below {shown(of)}"
        findings.add("DPR-S558", (*at, way), says, hint, about)
    else:
        says, hint = f"means no declared column: {shown(of)!r}", did_you_mean(of, above)
        findings.add("DPR-S558", (*at, way), says, hint, about)
    return None


def _check_bands(name: str, column: ColumnSpec, table: TableSpec, above: Types, at: Path, findings: Findings) -> None:
    assert column.bin is not None  # noqa: S101 - asked for by the caller
    if column.type != "text":
        hint = "leave it out: the keys of bands are text such as [0,18)"
        findings.add("DPR-S557", (*at, "type"), f"is {column.type}, and bands are text", hint)
    kind = _source(name, column.bin, "bin", table, above, at, findings)
    if kind is not None and kind not in NUMBERS:
        says = f"needs a number, and {shown(column.bin)!r} is {kind}"
        findings.add(
            "DPR-S558", (*at, "bin"), says, "write `map`, or take an integer or decimal column", (*at[:-1], column.bin)
        )
    if column.edges is None:
        findings.add("DPR-S559", (*at, "bin"), "has no `edges`", "write `edges: [0, 18, 65]`, rising", (*at, "edges"))
    elif not edges_are_sound(column):
        hint = "write two or more numbers, each larger than the one before: [0, 18, 65]"
        findings.add("DPR-S559", (*at, "edges"), "does not rise", hint)
    elif any(max(abs(edge.numerator), edge.denominator) > FINEST for edge in column.edges):
        findings.add("DPR-S559", (*at, "edges"), "is finer or larger than 2^53", "round the edges")


def _check_map(name: str, column: ColumnSpec, table: TableSpec, above: Types, at: Path, findings: Findings) -> None:
    assert column.map is not None  # noqa: S101 - asked for by the caller
    about = (*at[:-1], column.map)
    if column.type not in _KEYABLE:
        hint = "write `type: text`, integer, boolean or date"
        findings.add("DPR-S557", (*at, "type"), f"is {column.type}, which no key can be", hint)
    if not column.to:
        hint = "write `to: {A: farming, B: industry}`"
        says = "has no `to`" if column.to is None else "has an empty `to`"
        findings.add("DPR-S560", (*at, "map"), says, hint, (*at, "to"))
    kind = _source(name, column.map, "map", table, above, at, findings)
    if kind is None:
        return
    if kind not in _KEYABLE:
        says = f"needs a column of few values, and {shown(column.map)!r} is {kind}"
        findings.add("DPR-S558", (*at, "map"), says, "write `bin` with `edges`, or an `sql` expression", about)
        return
    seen: dict[object, str] = {}
    for label in column.to or {}:
        value = named_key(label, kind)
        if value is None:
            says = f"is no value of {shown(column.map)!r}, which is {kind}"
            findings.add("DPR-S560", (*at, "to", label), says, "write a value as it is read", about, key=True)
        elif value in seen:
            says = f"is the same value as {shown(seen[value])!r}"
            findings.add("DPR-S560", (*at, "to", label), says, "keep one of the two", about, key=True)
        else:
            seen[value] = label


def _check_sql(name: str, column: ColumnSpec, table: TableSpec, above: Types, at: Path, findings: Findings) -> None:
    assert column.sql is not None  # noqa: S101 - asked for by the caller
    here = (*at, "sql")
    later = _further_down(column.sql, table, above)
    if later:
        itself = name in later
        says = "means itself" if itself else f"means {shown(later[0])!r}, which is declared further down"
        hint = "name columns that are declared above it" if itself else f"move this column below {shown(later[0])}"
        findings.add("DPR-S558", here, says, hint, at[:-1])
        return
    found = read_expression(column.sql, above, here, findings, at[:-1], kind=column.type)
    if found is None or found.type == column.type:
        return
    says = f"is {found.type}, and the column is {column.type}"
    findings.add("DPR-S562", here, says, f"write `type: {found.type}`, or another expression", at[:-1])


def _further_down(sql: str, table: TableSpec, above: Types) -> list[str]:
    """The columns that an expression means and that are not above it; none where it cannot be read at all."""
    try:
        found = parse(sql, types_of(table.columns))
    except ExpressionError:
        return []
    return sorted(found.columns - set(above))
