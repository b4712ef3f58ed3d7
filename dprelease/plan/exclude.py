"""Key combinations that a query leaves out: the lines of a reference as positions in the cross product of its keys."""

from __future__ import annotations

from math import prod

from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Key, Table
from dprelease.spec.document import QuerySpec
from dprelease.spec.findings import Findings
from dprelease.spec.keys import key_text
from dprelease.spec.names import shown
from dprelease.spec.nodes import Path

__all__ = ["left_out"]


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
    here = (*at, "except", "reference")
    columns = [table.column(name) for name in query.by]
    places: list[dict[Key, int]] = [{key: at for at, key in enumerate(column.keys or ())} for column in columns]
    strides = [prod(column.cells for column in columns[number + 1 :]) for number in range(len(columns))]
    found: set[int] = set()
    for line in zip(*(public.columns[name] for name in query.by), strict=True):
        if any(key not in known for key, known in zip(line, places, strict=True)):
            told = ", ".join(f"{name} {key_text(key)!r}" for name, key in zip(query.by, line, strict=True))
            hint = "take the line out of the file, or declare its keys"
            findings.add("DPR-S606", here, f"has a line that is no cell: {shown(told, 120)}", hint)
            return ()
        found.add(sum(known[key] * stride for key, known, stride in zip(line, places, strides, strict=True)))
    if found and len(found) == prod(column.cells for column in columns):
        findings.add("DPR-S607", here, "leaves out every cell", "leave some, or leave the query out")
    return tuple(sorted(found))
