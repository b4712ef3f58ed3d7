"""Which columns must have a value where a condition is true: what makes the rows of one count rows of another.

>>> from dprelease.catalog.expressions.parse import read
>>> types = {"delay": "integer", "carrier": "text"}
>>> sorted(known_where(read("delay > 15 AND carrier IN ('AA', 'UA')", types)))
['carrier', 'delay']
>>> sorted(known_where(read("delay > 15 OR carrier = 'AA'", types)))
[]
"""

from __future__ import annotations

from dprelease.catalog.expressions.tree import Node, NodeKind, columns_of

__all__ = ["known_where"]

# A null operand decides nothing by itself in these, or decides something else than null.
_LENIENT: frozenset[NodeKind] = frozenset(("and", "or", "is_null", "coalesce", "case", "nullif", "not"))


def known_where(condition: Node) -> frozenset[str]:
    """Columns that are not null in any row where a condition is true; maybe not all of them.

    Proof, by the height of the tree. A step that is strict is null where an operand is (``expression.evaluate``), and
    null is not true: where it is true, every operand is not null. Likewise a boolean step that is false. ``a AND b`` is
    true where both are, and false where one of them is; ``a OR b`` the other way about; ``NOT a`` turns it round. ``a
    IS NULL`` is false where a is not null, and says nothing where it is true.
    """
    return _known(condition, True)


def _known(node: Node, outcome: bool) -> frozenset[str]:
    """Columns that are not null where a boolean tree has this outcome."""
    if node.kind in ("and", "or"):
        parts = [_known(part, outcome) for part in node.parts]
        every = (node.kind == "and") == outcome
        return frozenset.union(*parts) if every else frozenset.intersection(*parts)
    if node.kind == "not":
        return _known(node.parts[0], not outcome)
    if node.kind == "is_null":
        return frozenset() if outcome else _valued(node.parts[0])
    return _valued(node)


def _valued(node: Node) -> frozenset[str]:
    """Columns that are not null where a tree is not."""
    if node.kind == "column":
        return columns_of(node)
    if node.kind == "not":
        return _valued(node.parts[0])
    if node.kind in _LENIENT:
        return _valued(node.parts[0]) if node.kind == "nullif" else frozenset()
    return frozenset().union(*(_valued(part) for part in node.parts))
