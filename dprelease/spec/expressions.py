"""Expressions of a spec, ``where`` and ``sql``: read against the columns of their table, with located problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dprelease.catalog.expressions.expression import Expression, ExpressionError, parse
from dprelease.catalog.table import ColumnType
from dprelease.spec.fields.columns import ColumnSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import shown
from dprelease.spec.text.nodes import Path

__all__ = ["check_where", "computed", "read_expression", "types_of"]


@dataclass(frozen=True)
class _Types(Mapping[str, ColumnType]):
    """A view, for a table of a thousand columns has a thousand queries, few of which ask for a type."""

    columns: Mapping[str, ColumnSpec]

    def __getitem__(self, name: str) -> ColumnType:
        return self.columns[name].type

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def types_of(columns: Mapping[str, ColumnSpec]) -> Mapping[str, ColumnType]:
    """The types of a table's declared columns, by name."""
    return _Types(columns)


def computed(text: str, types: Mapping[str, ColumnType], kind: ColumnType) -> Expression:
    """The expression of a computed column: a number under the other type of numbers is cast to the declared one.

    Args:
        text: As written.
        types: The columns that it may use.
        kind: The declared type of the column; if that is not the other type of numbers, nothing is cast.

    Raises:
        ExpressionError: If it cannot be used, or not with the cast around it: that counts towards its limits.
    """
    found = parse(text, types)
    if {found.type, kind} == {"decimal", "integer"}:
        return parse(f"CAST({found.text} AS {kind})", types)
    return found


def read_expression(
    text: str,
    types: Mapping[str, ColumnType],
    at: Path,
    findings: Findings,
    *about: Path,
    kind: ColumnType | None = None,
) -> Expression | None:
    """An expression, or one problem and None.

    Args:
        text: As written.
        types: The columns that it may use.
        at: Its path.
        findings: Where a problem goes.
        about: What else it depends on: the columns of the table.
        kind: For a computed column its declared type, see :func:`computed`; None: whatever the expression has.
    """
    try:
        return parse(text, types) if kind is None else computed(text, types, kind)
    except ExpressionError as error:
        hint = error.hint or "write columns, constants, comparisons, AND, OR, NOT, + - * / and CASE WHEN"
        findings.add("DPR-S561", at, f"cannot be used: {shown(error.summary, 200)}", shown(hint, 200), *about)
        return None


def check_where(text: str | None, types: Mapping[str, ColumnType], at: Path, findings: Findings, *about: Path) -> None:
    """A filter is an expression that is true or false.

    Args:
        text: As written; None: there is none.
        types: All columns of the table.
        at: The path of the filter.
        findings: Where a problem goes.
        about: What else it depends on.
    """
    if text is None:
        return
    found = read_expression(text, types, at, findings, *about)
    if found is not None and found.type != "boolean":
        says = f"is {found.type}, and a filter is true or false"
        findings.add("DPR-S562", at, says, "compare it with something, such as `age >= 18`", *about)
