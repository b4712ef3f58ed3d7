"""Which measures may share steps: those over the same cells, and the counts of several queries over the same cells.

Where every row is a unit and keys are public, nothing is bounded after a query's condition: a row counts for a number
where it passes the query's condition and the measure's. So counts of several queries can be made of draws over all rows
of their cells, each with both conditions as its own: K-norm draws of many of them, and the centred counts of the
correlated Gaussian, for which the total that all share must have every counted row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, TypeVar

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.expressions.exclusive import are_exclusive, cases_at_most
from dprelease.catalog.expressions.expression import ExpressionError, parse
from dprelease.catalog.expressions.tree import Node
from dprelease.catalog.table import Catalog, Table
from dprelease.measures import Measure
from dprelease.plan.lower.alternatives import Asked, Group, Place
from dprelease.plan.resolve.grouping import both

__all__ = ["Asking", "drawn_with", "grouped", "in_one", "is_joinable", "needed_by"]

_C = TypeVar("_C", Quantity, Measure)
_MOST_CASES = 1 << 12  # of the conditions of counts that are drawn together: a verifier goes through all of them
_MOST_APART = 100  # such counts
_Key = tuple[str, Grouping]  # of a group: its domain and its grouping


class Asking(NamedTuple):
    """One measure of one query, before its forms are placed; see :class:`~dprelease.plan.lower.alternatives.Asked`."""

    query: int
    name: str
    label: str
    measure: Measure
    expected: int | None


def over_all_rows(counted: _C, grouping: Grouping, table: Table) -> _C:
    """The same number over all rows of the cells: with the grouping's condition and its own.

    Raises:
        ExpressionError: If that would be too long to write.
    """
    if grouping.where is None:
        return counted
    where = both(grouping.where, counted.where, table)
    return _with(counted, where) if isinstance(counted, Quantity) else counted.model_copy(update={"where": where})


@lru_cache(maxsize=1 << 14)  # each form of a count asks for the same ones
def _with(counted: Quantity, where: str | None) -> Quantity:
    return counted.model_copy(update={"where": where})


def in_one(
    groupings: Sequence[Grouping], counted: Sequence[Quantity], catalog: Catalog
) -> tuple[Grouping, list[Quantity]]:
    """The cells of one draw, and what it counts in them; with the condition of each query if they look at other rows.

    Args:
        groupings: Of each number, with the same keys of the same table.
        counted: The numbers.
        catalog: Where the table is declared.
    """
    if len(set(groupings)) == 1:
        return groupings[0], list(counted)
    table = catalog.tables[groupings[0].table]
    moved = [over_all_rows(each, grouping, table) for grouping, each in zip(groupings, counted, strict=True)]
    return groupings[0].model_copy(update={"where": None}), moved


def is_joinable(counted: Quantity, grouping: Grouping, catalog: Catalog) -> bool:
    """Whether it is a count that a K-norm draw can hide with others of its cells: one of 1 a row."""
    plain = catalog.tables[grouping.table].unit_id is None and not grouping.private
    plain = plain and not grouping.complete  # what is reconciled has draws of its own
    return plain and counted.kind in ("rows", "nonnull") and counted.weight is None


def needed_by(
    taken: Sequence[tuple[Place, ...]], group: Group, quantities: Sequence[Quantity], catalog: Catalog
) -> tuple[tuple[Place, ...], int]:
    """What the measures of a group need in the forms that they take, each once, and how many of that are joinable."""
    needed = tuple(dict.fromkeys(chain.from_iterable(taken)))
    return needed, sum(is_joinable(quantities[each], group.grouping, catalog) for _, each in needed)


def grouped(
    wanted: Mapping[_Key, Sequence[Asking]], catalog: Catalog
) -> tuple[tuple[Quantity, ...], tuple[Group, ...]]:
    """Every form of every measure, and the groups of those over the same cells; equal quantities become one.

    Behind the groups of the queries come groups without a measure, for totals that several of them share.

    Args:
        wanted: The measures of each domain and grouping.
        catalog: Their tables.
    """
    cells = {key: _cells(key, asked, catalog) for key, asked in wanted.items()}
    counts: dict[_Key, dict[Quantity, None]] = {}
    sharing: dict[_Key, int] = {}
    for key, asked in wanted.items():
        if found := _counts(key[1], asked, catalog, moved=cells[key] != key):
            counts.setdefault(cells[key], {}).update(dict.fromkeys(found))
            sharing[cells[key]] = sharing.get(cells[key], 0) + 1
    several = [key for key, number in sharing.items() if number > 1]
    at = {key: number for number, key in enumerate(dict.fromkeys((*wanted, *several)))}
    places: dict[Quantity, int] = {}
    groups = []
    for key, own in at.items():
        of = cells.get(key, key)
        whole = at[of] if sharing.get(of, 0) > 1 else own
        members = tuple(
            Asked(*each[:4], _forms(each.measure, key[1], (own, whole), catalog, places), each.expected)
            for each in wanted.get(key, ())
        )
        groups.append(Group(*key, members, of, len(counts.get(of, ()))))
    groups = [_parted(each, catalog.tables[each.grouping.table], places) for each in groups]
    known = tuple(places)
    return known, tuple(_with_apart(each, catalog.tables[each.grouping.table], known) for each in groups)


def _with_apart(group: Group, table: Table, quantities: Sequence[Quantity]) -> Group:
    """The same, where it is known which counts exclude one another: each is put to the first set that it fits into.

    The conditions of a set are so few that a verifier can go through every case of them.
    """
    if group.grouping.private or group.grouping.complete:  # what is reconciled has draws of its own
        return group
    single = [asked.forms[0][0] for asked in group.members if len(asked.forms[0]) == 1]
    sets: list[list[tuple[Place, Node]]] = []
    for place in dict.fromkeys(single):
        counted = quantities[place[1]]
        if counted.kind not in ("rows", "nonnull") or counted.where is None or counted.per != "row":
            continue
        condition = parse(counted.where, table.types).root
        for found in sets:
            alike = quantities[found[0][0][1]].weight == counted.weight
            columns = {quantities[at].column for (_, at), _ in found} | {counted.column}
            cases = cases_at_most((condition, *(other for _, other in found))) * 2 ** len(columns)
            few = cases <= _MOST_CASES and len(found) < _MOST_APART
            if alike and few and all(are_exclusive(other, condition) for _, other in found):
                found.append((place, condition))
                break
        else:
            sets.append([(place, condition)])
    return replace(group, apart=tuple(tuple(place for place, _ in found) for found in sets if len(found) > 1))


def _parted(group: Group, table: Table, places: dict[Quantity, int]) -> Group:
    """The same, where wholes of shares know the rest and the part that they can be the sum of.

    A whole is the whole of one part, the first that there is; and a count is the part of one whole, or it would be
    drawn twice.
    """
    if group.grouping.private or group.grouping.complete:  # what is reconciled has draws of its own
        return group
    found: dict[Place, tuple[Place, Place]] = {}
    taken = set[Place]()
    own = {(asked.query, asked.label): asked.forms[0] for asked in group.members}
    for asked in group.members:
        parts = asked.measure.parts_of_whole(table)
        if parts is None:
            continue
        (above,), (below,) = (own[asked.query, label] for label in asked.measure.others)
        if below in found or {above, below} & taken or above in found:
            continue
        found[below] = ((above[0], places.setdefault(parts[1], len(places))), above)
        taken |= {above, below}
    if not found:
        return group
    members = (
        replace(each, parted=found.get(each.forms[0][0]) if len(each.forms[0]) == 1 else None) for each in group.members
    )
    return replace(group, members=tuple(members))


def drawn_with(groups: Sequence[Group]) -> tuple[Mapping[Place, Place], Mapping[Place, Place]]:
    """For the rest of a whole the part it is drawn with; and for counts of disjoint rows the first of their set."""
    parts = dict(each.parted for group in groups for each in group.members if each.parted is not None)
    return parts, {place: each[0] for group in groups for each in group.apart for place in each}


def _cells(key: _Key, asked: Sequence[Asking], catalog: Catalog) -> _Key:
    """What groups have in common whose counts can be drawn together: domain and cells, whatever rows are looked at.

    The rows are then said by each count; where that is too long to write, a group has its cells for itself.
    """
    domain, grouping = key
    table = catalog.tables[grouping.table]
    if table.unit_id is not None or grouping.private or grouping.where is None or grouping.complete:
        return key
    try:
        for each in {each for one in asked for form in one.measure.alternatives(table) for each in form}:
            over_all_rows(each, grouping, table)
    except ExpressionError:
        return key
    return domain, grouping.model_copy(update={"where": None})


def _counts(grouping: Grouping, asked: Sequence[Asking], catalog: Catalog, *, moved: bool) -> list[Quantity]:
    """The counts of a group that can be centred; over all rows of the cells where these are looked at."""
    table = catalog.tables[grouping.table]
    found = [each.measure.quantities(table)[0] for each in asked if each.measure.other_form == "centred"]
    return [over_all_rows(each, grouping, table) for each in found] if moved else found


def _forms(
    measure: Measure, grouping: Grouping, groups: tuple[int, int], catalog: Catalog, places: dict[Quantity, int]
) -> tuple[tuple[Place, ...], ...]:
    """The forms of a measure, each quantity with its group: its own, or that of all rows for a count with a total."""
    table, (own, whole) = catalog.tables[grouping.table], groups
    forms = [(own, form) for form in measure.alternatives(table)]
    if own != whole and measure.other_form == "centred":
        forms = [forms[0], (whole, over_all_rows(measure, grouping, table).alternatives(table)[-1])]
    return tuple(tuple((group, places.setdefault(quantity, len(places))) for quantity in form) for group, form in forms)
