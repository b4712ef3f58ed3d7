"""From the levels of a hierarchy to its tree: which key lies in which, by references, maps and bands alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from dprelease.catalog.reference import ReferenceTable
from dprelease.catalog.table import Binned, Column, Derivation, Hierarchy, Key, Mapped, Table
from dprelease.spec.fields.columns import label_text
from dprelease.spec.fields.document import ReleaseSpec
from dprelease.spec.text.findings import Findings
from dprelease.spec.text.names import shown
from dprelease.spec.text.nodes import Path

__all__ = ["hierarchies_of"]

Nodes = tuple[Key | None, ...]
_CODE = "DPR-S608"


def hierarchies_of(
    spec: ReleaseSpec, tables: Mapping[str, Table], found: Mapping[str, ReferenceTable], findings: Findings
) -> dict[str, Hierarchy]:
    """The hierarchies that queries use, by name, each with one tree for every table that it is used on.

    Args:
        spec: Loaded without a problem, so that each level is looked up or computed from one below it.
        tables: The tables of the same spec, with every key spelled out.
        found: The references that were read.
        findings: Where a key without a parent, with two of them, or that nothing lies in, is told.
    """
    used: dict[tuple[str, str], str] = {}
    for name, query in spec.queries.items():
        if query.levels is not None and query.levels in spec.hierarchies:
            used.setdefault((query.levels, query.table), name)
    trees: dict[str, Hierarchy] = {}
    first: dict[str, str] = {}
    for (hierarchy, table), name in used.items():
        tree = _tree(spec, hierarchy, tables[table], found, findings)
        if tree is None:
            continue
        known, before = trees.setdefault(hierarchy, tree), first.setdefault(hierarchy, table)
        if tree != known or _keys(tree, tables[table]) != _keys(known, tables[before]):
            says = f"means other nodes in table {shown(table)!r} than in table {shown(before)!r}"
            hint = "declare the same keys in both tables, or write a hierarchy of its own for each"
            findings.add(_CODE, ("queries", name, "levels"), says, hint)
    return trees


def _keys(tree: Hierarchy, table: Table) -> list[tuple[Key, ...] | None]:
    return [table.column(level).keys for level in tree.levels]


def _tree(
    spec: ReleaseSpec, name: str, table: Table, found: Mapping[str, ReferenceTable], findings: Findings
) -> Hierarchy | None:
    """The tree of one table; None, and a problem, where it is none, or where the keys themselves are wrong."""
    levels = spec.hierarchies[name]
    at, columns = ("hierarchies", name), [table.column(level) for level in levels]
    if any(not column.keys for column in columns) or not _are_sound(columns, table, found):
        return None  # told where the reference is read
    nodes: list[Nodes] = [columns[-1].keys or ()]
    for depth in range(len(columns) - 2, -1, -1):
        nodes.insert(0, _looked_up(columns[depth], depth, columns, nodes, table, found))
    parents: list[tuple[int, ...]] = []
    for depth in range(len(columns) - 2, -1, -1):  # from below, so that the first problem is the cause of others
        lent_by = columns[depth].reference
        where = f" in {shown(spec.references[lent_by].file)}" if lent_by is not None else ""
        pair = (columns[depth], columns[depth + 1])
        known = _parents(pair, nodes[depth], nodes[depth + 1], where, (*at, depth), findings)
        if known is None:
            return None
        parents.insert(0, known)
    return Hierarchy(name=name, levels=levels, parents=tuple(parents))


def _are_sound(columns: list[Column], table: Table, found: Mapping[str, ReferenceTable]) -> bool:
    """Whether the references that levels are looked up in were read, and give a key one line."""
    levels = {column.name for column in columns}
    joins = [join for join in table.joins if levels & set(join.add)]
    return all(join.reference in found and found[join.reference].is_unique(join.on) for join in joins)


def _looked_up(
    column: Column,
    depth: int,
    columns: list[Column],
    nodes: list[Nodes],
    table: Table,
    found: Mapping[str, ReferenceTable],
) -> Nodes:
    """The key of one level for every key of the lowest level; None where it has none.

    Args:
        column: The column of the level.
        depth: Its place among the levels.
        columns: The columns of all levels.
        nodes: The same for the levels below it: the first is that of ``depth + 1``.
        table: Has the joins.
        found: The references that were read.
    """
    of = {each.name: nodes[at - depth - 1] for at, each in enumerate(columns) if at > depth}
    how = column.derivation
    if isinstance(how, Mapped):
        pairs = dict(how.pairs)
        return tuple(None if key is None else pairs.get(key, how.otherwise) for key in of[how.of])
    if isinstance(how, Binned):
        lower = next(each for each in columns[depth + 1 :] if isinstance(each.derivation, Binned))
        inside = _bands(how, lower.derivation)
        return tuple(None if key is None else inside.get(key) for key in of[lower.name])
    join = next(join for join in table.joins if column.name in join.add)
    public = found[join.reference]
    values = dict(zip(public.columns[join.on], public.columns[column.name], strict=True))
    return tuple(None if key is None else values.get(key) for key in of[join.on])


def _bands(coarse: Binned, fine: Derivation | None) -> dict[Key | None, Key]:
    """Each finer band with the one that holds it: the edges of coarser bands are all among those of finer ones."""
    if not isinstance(fine, Binned):
        return {}
    found: dict[Key | None, Key] = {}
    labels = coarse.labels
    for label, start in zip(fine.labels, fine.edges[:-1], strict=True):
        place = bisect_right(coarse.edges, start) - 1
        if 0 <= place < len(coarse.edges) - 1:
            found[label] = labels[place]
    return found


def _parents(
    pair: tuple[Column, Column], upper: Nodes, lower: Nodes, where: str, at: Path, findings: Findings
) -> tuple[int, ...] | None:
    """Of every key of a level the position of its parent; None, and a problem, where it has none or two of them.

    Args:
        pair: The columns of the level above, and of the level.
        upper: The key above for every key of the lowest level.
        lower: The same for the level; every one is a key of it.
        where: The file that says so, for messages.
        at: The path of the level above.
        findings: Where the first problem goes.
    """
    above, below = pair
    places: dict[Key | None, int] = {key: place for place, key in enumerate(above.keys or ())}
    parents: dict[Key | None, Key | None] = {}
    for parent, child in zip(upper, lower, strict=True):
        if parent is None or parent not in places:
            other = "" if parent is None else f": {_text(parent)} is none of its keys"
            says = f"does not nest: {shown(below.name)} {_text(child)} lies in no {shown(above.name)}{where}{other}"
            findings.add(_CODE, at, says, f"give it one, or take it out of the keys of {shown(below.name)}")
            return None
        if parents.setdefault(child, parent) != parent:
            named = f"{shown(below.name)} {_text(child)}"
            says = f"does not nest: {named} lies in {_text(parents[child])} and in {_text(parent)}{where}"
            hint = f"give every {shown(below.name)} one {shown(above.name)}, by codes that do not repeat"
            findings.add(_CODE, at, says, hint)
            return None
    used = set(parents.values())
    empty = next((key for key in places if key not in used), None)
    if empty is not None:
        says = f"does not nest: no {shown(below.name)} lies in {shown(above.name)} {_text(empty)}{where}"
        findings.add(_CODE, at, says, "take it out of the keys, or add what lies in it")
        return None
    return tuple(places[parents[key]] for key in below.keys or ())


def _text(key: Key | None) -> str:
    return repr(shown("" if key is None else label_text(key)))
