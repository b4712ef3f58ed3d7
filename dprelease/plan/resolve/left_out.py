"""The cells that a query leaves out because its reference says that they cannot be: structural zeros."""

from __future__ import annotations

from math import prod

from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import (
    Key,
    Table,
    Zeros,
)
from dprelease.spec.fields.columns import label_text
from dprelease.spec.fields.document import QuerySpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import shown
from dprelease.spec.text.nodes import Path

__all__ = ["left_out", "zeros_of"]

_MOST_ZEROS = 4_000
_MOST_NUMBERS = 2 * 10**7  # combinations x cells of their columns
_MOST_WORK = 2 * 10**10  # combinations squared x these cells x tables


def left_out(query: QuerySpec, table: Table, public: ReferenceTable, at: Path, findings: Findings) -> tuple[int, ...]:
    """The positions of the cells that a query leaves out, rising and each once.

    Cells are row-major over the keys of ``by``: the last column runs fastest. A line says more than its cell where
    the reference has other columns; these are ignored.

    Args:
        query: With public keys.
        table: Its table, with every key spelled out.
        public: The reference whose lines are the combinations.
        at: The path of the query.
        findings: Where a line that is no cell is told, and that no cell is left.
    """
    return _excluded_positions(query.by, table, public, at, findings)


def zeros_of(query: QuerySpec, table: Table, public: ReferenceTable, at: Path, findings: Findings) -> Zeros | None:
    """The structural zeros of a workload; None where the file has no line, or something is wrong.

    Args:
        query: With marginals, over columns that the reference has all of its columns among.
        table: Its table, with every key spelled out.
        public: The reference whose lines are the combinations.
        at: The path of the query.
        findings: Where a line that is no combination is told, that none is left, and that there are too many.
    """
    assert query.marginals is not None  # noqa: S101 - asked for by the caller
    assert query.except_ is not None  # noqa: S101 - as before
    columns = tuple(name for name in query.marginals.attributes if name in public.columns)
    cells = _excluded_positions(columns, table, public, at, findings)
    if not cells:
        return None
    tables = sum(set(columns) <= set(each) for each in query.marginals.tables)
    every = table.cells(columns)
    work = len(cells) ** 2 * every * tables
    if len(cells) > _MOST_ZEROS or len(cells) * every > _MOST_NUMBERS or work > _MOST_WORK:
        says = f"lists {len(cells)} of {every} combinations, in {tables} tables: too many to be worked out"
        hint = "put keys together that are impossible in the same way, or leave `except` out: it costs accuracy alone"
        findings.add("DPR-S667", (*at, "except", "reference"), says, hint, (*at, "marginals"))
        return None
    return Zeros(reference=query.except_.reference, columns=columns, cells=cells)


def _excluded_positions(
    by: tuple[str, ...], table: Table, public: ReferenceTable, at: Path, findings: Findings
) -> tuple[int, ...]:
    here = (*at, "except", "reference")
    columns = [table.column(name) for name in by]
    places: list[dict[Key, int]] = [{key: at for at, key in enumerate(column.keys or ())} for column in columns]
    strides = [prod(column.cells for column in columns[number + 1 :]) for number in range(len(columns))]
    found: set[int] = set()
    for line in zip(*(public.columns[name] for name in by), strict=True):
        if any(key not in known for key, known in zip(line, places, strict=True)):
            told = ", ".join(f"{name} {label_text(key)!r}" for name, key in zip(by, line, strict=True))
            hint = "take the line out of the file, or declare its keys"
            findings.add("DPR-S606", here, f"has a line that is no cell: {shown(told, 120)}", hint)
            return ()
        found.add(sum(known[key] * stride for key, known, stride in zip(line, places, strides, strict=True)))
    if found and len(found) == prod(column.cells for column in columns):
        findings.add("DPR-S607", here, "leaves out every cell", "leave some, or leave the query out")
    return tuple(sorted(found))
