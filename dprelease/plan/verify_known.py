"""Whether a condition can be true though a column is null, by what every step can give: not as the plan found it."""

from __future__ import annotations

from dprelease.catalog.expression import parse
from dprelease.catalog.expression_tree import Node
from dprelease.catalog.table import Table
from dprelease.plan.verify_reach import require

__all__ = ["check_claim", "outcomes"]

_ANY = frozenset(("true", "false", "null"))


def check_claim(name: str, where: str | None, column: str | None, table: Table) -> None:
    """Refuse a measure that says its condition implies a value where it does not.

    Args:
        name: The query's name and the measure's.
        where: The condition.
        column: The column that is said to have a value wherever the condition is true.
        table: The table of both.

    Raises:
        BrokenPromiseError: Saying of what.
    """
    columns = {each.name: each.type for each in table.columns}
    require(where is not None and column in columns, f"{name} is said to be a part of a whole, and is none")
    root = parse(where or "", columns).root
    require("true" not in outcomes(root, str(column)), f"{name} counts rows above that need not be counted below")


def outcomes(node: Node, null: str) -> frozenset[str]:
    """What a tree can give where one column is null and nothing is known of the others: true, false, null.

    Of what is no boolean, ``true`` stands for any value. The operands are taken for independent, so that nothing that
    can happen is left out.
    """
    if node.kind == "column":
        return frozenset(("null",)) if node.value == null else _ANY
    if node.kind == "literal":
        word = "null" if node.value is None else str(node.value).lower() if isinstance(node.value, bool) else "true"
        return frozenset((word,))
    parts = [outcomes(part, null) for part in node.parts]
    if node.kind in ("and", "or"):
        weak, strong = ("true", "false") if node.kind == "and" else ("false", "true")
        found = set()
        if any(strong in part for part in parts):
            found.add(strong)
        if all(weak in part for part in parts):
            found.add(weak)
        if any("null" in part for part in parts) and all({"null", weak} & part for part in parts):
            found.add("null")
        return frozenset(found)
    if node.kind == "not":
        return frozenset({"true": "false", "false": "true", "null": "null"}[each] for each in parts[0])
    if node.kind == "is_null":
        return frozenset("true" if each == "null" else "false" for each in parts[0])
    if node.kind in ("coalesce", "case"):
        return _ANY
    if node.kind == "nullif":
        parts = parts[:1]
    if any(part == {"null"} for part in parts):
        return frozenset(("null",))
    return _ANY
