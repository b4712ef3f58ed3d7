"""What the loss of a release means for a row, a unit, a group of units, and one attribute of one unit.

All figures are about the very draws of the plan, read at one delta. Each is a theorem about pairs of data sets:

*A unit.* Two data sets that are one step of the plan's relation apart: the certified loss.

*Another unit, or a row of one.* Two data sets that differ in the rows of one unit, and in nothing else: the unit is
exchanged for another one, or has one row more, fewer, or another one. Under ``replace_one`` that is one step. Under
``add_remove`` it is two: the unit is taken out, and put in again with its other rows; and it is what one step of
``replace_one`` would be, whose reach is known by itself and is often less (``plan.explain.exchanges``). Both are
theorems, so the smaller figure holds. (How far a single row can move an answer is less where a unit may have many, but
a bound on rows lets one row push out another: nothing smaller is claimed.)

*A group of k units.* k steps: every draw with the sensitivity of k units (``privacy.group.of_event``). Where a unit
changes one cell of a draw, k units cost no more than one cell that takes all their changes (``group.in_one_cell``).

*An attribute of a unit.* The two data sets differ in the values that the rows of one unit have in one column of one
table. That is a change of the rows of one unit, hence one or two steps as above; and **only draws that depend on the
column count.** Proof: let S be the steps whose aggregate reads the column (:func:`reads`). The engine computes the
exact numbers of every other step from columns in which the two data sets agree, so they are equal, and whatever its
mechanism does has the same law on both, also given all earlier answers. In the likelihood ratio of all answers those
factors are 1 on every path. What is left is the composition of the draws in S, whose parameters are fixed; so any
accountant's bound for these alone holds. (Which cells a draw over selected keys has follows from an earlier answer and
not from the data.) The proof needs that :func:`reads` leaves out no column on which an answer depends:
``tests/laws/test_attribute_semantics.py`` changes every column of small tables in every way and compares the answers of
the engine.

The bound for some draws is never above that for all of them, for leaving draws out is post-processing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.expressions.expression import ExpressionError, parse
from dprelease.catalog.table import Catalog, Column, Computed, Mapped, Table
from dprelease.errors import UnsupportedEvent
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.exchanges import exchanged
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.reveals import total_reveal
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Composed, Event, some_of
from dprelease.privacy.group import in_one_cell, of_event
from dprelease.privacy.unit import Neighboring

__all__ = ["Attribute", "Meaning", "attributes", "reads", "semantics", "ways_of_an_exchange"]

Attribute = tuple[str, str]  # a table, and a column of its source

GROUPS = (2, 4, 8)
_MOST_TWICE = 64  # steps that are read in both ways of an exchange


@dataclass(frozen=True)
class Meaning:
    """One row of the table: which change of the data is hidden, and how well.

    Attributes:
        kind: What may differ between two data sets.
        size: For a group: how many units.
        attribute: For an attribute: its table and column.
        steps: How many steps of the plan's relation lead from one to the other.
        draws: How many steps of the plan depend on it.
        loss: Rounded up; None: nothing is proved.
    """

    kind: Literal["unit", "other_unit", "row", "group", "attribute"]
    steps: int
    draws: int
    loss: Loss | None
    size: int = 1
    attribute: Attribute | None = None


def steps_of_a_change(relation: Neighboring) -> int:
    """How many steps it takes to give one unit other rows; proof above."""
    return 1 if relation is Neighboring.REPLACE_ONE else 2


def semantics(plan: ReleasePlan) -> tuple[Meaning, ...]:
    """The whole table of a plan: the unit, its rows, groups, then every attribute that could be read.

    Pure, and the same for equal plans; the losses are upper bounds at the certified delta, or at the delta that is
    given with them.
    """
    return plan.once(_semantics)


def _semantics(plan: ReleasePlan) -> tuple[Meaning, ...]:
    certified, every = plan.loss[plan.certified], len(plan.steps)
    change = steps_of_a_change(plan.neighboring)
    found = [Meaning("unit", 1, every, certified)]
    ways, whole = ways_of_an_exchange(plan), plan.event
    given_others = certified if change == 1 else _exchange(ways, range(every), certified)
    if change > 1:
        found.append(Meaning("other_unit", change, every, given_others))
    if any(table.unit_id is not None for table in plan.catalog.tables.values()):
        found.append(Meaning("row", change, every, given_others))
    found += [Meaning("group", k, every, _loss(whole, k, certified), size=k) for k in GROUPS]
    found += _by_attribute(plan, change, certified, given_others, ways)
    return tuple(found)


def _by_attribute(
    plan: ReleasePlan,
    change: int,
    certified: Loss,
    whole: Loss | None,
    ways: Sequence[tuple[tuple[Event, ...], int]],
) -> Iterator[Meaning]:
    known = [reads(step.read, step.parts, plan.catalog) for step in plan.steps]
    for attribute in attributes(plan.catalog):
        at = tuple(number for number, read in enumerate(known) if attribute in read)
        if not at:
            loss: Loss | None = Loss(epsilon=Fraction(0), delta=Fraction(0))
        elif len(at) == len(known):
            loss = whole
        else:
            own = _exchange(ways, at, certified)
            alike = [each for each in (own, whole) if each is not None]
            loss = min(alike, key=lambda each: (each.delta, each.epsilon), default=None)
        yield Meaning("attribute", change, len(at), loss, attribute=attribute)


def group_at(plan: ReleasePlan, units: int, delta: Fraction) -> Fraction | None:
    """The smallest epsilon that is proved for so many units at this delta; None where none is."""
    try:
        return _smallest(_grown(plan.event, units), delta)
    except UnsupportedEvent:
        return None


def ways_of_an_exchange(plan: ReleasePlan) -> tuple[tuple[tuple[Event, ...], int], ...]:
    """What each step costs where the rows of one unit are others, in every way that is proved: the steps, and how many.

    Under ``replace_one`` that is one step; under ``add_remove`` two of them, or one with the reach of a replaced unit.
    """
    if plan.neighboring is Neighboring.REPLACE_ONE:
        return ((plan.events, 1),)
    return (exchanged(plan), 1), (plan.events, 2)


def _exchange(ways: Iterable[tuple[tuple[Event, ...], int]], at: Sequence[int], certified: Loss) -> Loss | None:
    """The smallest bound for some of the steps; of many steps the first that there is, seldom the larger one."""
    found: list[Loss] = []
    for events, steps in ways:
        if found and len(at) > _MOST_TWICE:
            break
        told = _loss(Composed(events=some_of(events, at)), steps, certified)
        found += [] if told is None else [told]
    return min(found, key=lambda each: (each.delta, each.epsilon), default=None)


def attributes(catalog: Catalog) -> tuple[Attribute, ...]:
    """Every column that is read from a source, the time of its rows included; ids of units say who, not what."""
    found = []
    for name, table in catalog.tables.items():
        own = [column.name for column in table.columns if column.in_source]
        if table.time is not None and table.time.column not in own:
            own.append(table.time.column)
        found += [(name, column) for column in own if column != table.unit_id]
    return tuple(found)


def reads(grouping: Grouping, quantities: Iterable[Quantity], catalog: Catalog) -> frozenset[Attribute]:
    """Every column of a source on which the exact numbers of some quantities of a grouping can depend.

    These are, over what public joins, private joins and derivations need in turn: the key columns; those that must
    have a key for a row to count (``complete``), but for one that has a key whatever the row holds; those of which some
    combinations are impossible (``zeros``), for whether a row counts goes by all of them; what ``where`` of
    the query and of the quantities looks at; the quantities' own columns; the id of the unit and the time of the rows.
    Where rows of a unit are left out beyond a number (``bounds``, ``max_rows_per_group``, and always in a table that
    is privately joined), which ones are left out goes by all that is known of them: then every column of the source.

    Args:
        grouping: Whose rows and cells.
        quantities: What is totalled; of a selection of keys and of a ranking the quantity of its step.
        catalog: Where its tables are declared.
    """
    table = catalog.tables[grouping.table]
    wanted = set(grouping.by) | {name for name in grouping.complete if not _always_keyed(table.column(name))}
    wanted |= set(catalog.zeros[grouping.zeros].columns) if grouping.zeros is not None else set()
    for text in (grouping.where, *(each.where for each in quantities)):
        wanted |= _looked_at(text, table)
    wanted |= {each.column for each in quantities if each.column is not None}
    if grouping.max_rows_per_group is not None:
        wanted |= {column.name for column in table.columns if column.in_source or column.lent_by is not None}
    return frozenset(_sources(table, wanted, catalog, truncated=table.bounds is not None))


def _always_keyed(column: Column) -> bool:
    """Whether every row has one of the column's keys: a null has one, and a computed value is never another one.

    A condition is true or false, and a recoding with ``otherwise`` gives one of its own keys; what is null takes the
    key for nulls.
    """
    keys, made = set(column.keys or ()), column.derivation
    if column.null is None or column.null not in keys:
        return False
    if isinstance(made, Computed):
        return column.type == "boolean" and {True, False} <= keys
    if isinstance(made, Mapped):
        return made.otherwise in keys and {key for _, key in made.pairs} <= keys
    return False


def _looked_at(text: str | None, table: Table) -> frozenset[str]:
    if text is None:
        return frozenset()
    types = {column.name: column.type for column in table.columns}
    try:
        return parse(text, types).columns
    except ExpressionError:  # of a plan that no run would take: then it may look at everything
        return frozenset(types)


def _sources(table: Table, wanted: Iterable[str], catalog: Catalog, *, truncated: bool) -> Iterator[Attribute]:
    """The columns of sources behind some columns of a table, and those that decide which rows there are at all."""
    needed, lent = _behind(table, wanted), set[str]()
    if truncated:
        needed |= {column.name for column in table.columns if column.in_source}
    declared = {column.name: column for column in table.columns}
    for name in needed:
        if declared[name].in_source:
            yield table.name, name
        elif (lender := declared[name].lent_by) is not None:
            lent.add(lender)
    deciding = (table.unit_id, None if table.time is None else table.time.column)
    yield from ((table.name, name) for name in deciding if name is not None)
    for join in table.private_joins:
        # How many rows a join makes of one goes by the ids and times alone; what it lends, by the whole row.
        other, added = catalog.tables[join.table], join.add if join.table in lent else ()
        yield from _sources(other, added, catalog, truncated=bool(added))


def _behind(table: Table, wanted: Iterable[str]) -> set[str]:
    """The columns themselves, and all of the same table that they are computed from or joined on."""
    declared = {column.name: column for column in table.columns}
    found: set[str] = set()
    left = [name for name in wanted if name in declared]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _parents(table, declared[name])
    return found


def _parents(table: Table, column: Column) -> Iterator[str]:
    if isinstance(column.derivation, Computed):
        yield from _looked_at(column.derivation.sql, table)
    elif column.derivation is not None:
        yield column.derivation.of
    yield from (join.on for join in table.joins if column.name in join.add)


@lru_cache(maxsize=256)  # a page and its JSON ask for the same figures
def _loss(event: Composed, steps: int, at: Loss) -> Loss | None:
    """The smallest bound for so many steps of the relation, at the certified delta or else at a larger one.

    Draws with deltas of their own have more of it for several units, so that the certified delta may not be enough.
    """
    try:
        grown = _grown(event, steps)
    except UnsupportedEvent:
        return None
    for delta in _deltas(grown, steps, at.delta):
        if delta < 1 and (epsilon := _smallest(grown, delta)) is not None:
            return Loss(epsilon=epsilon, delta=delta)
    return None


def _deltas(grown: Composed, steps: int, delta: Fraction) -> Iterator[Fraction]:
    yield from dict.fromkeys((delta, steps * delta))
    yield delta + 2 * total_reveal(grown)


def _smallest(event: Composed, delta: Fraction) -> Fraction | None:
    """The smallest bound of the accountants that are quick enough; the later ones take their time."""
    found: list[Fraction] = []
    different = len(set(event.events))
    for accountant in sorted(ACCOUNTANTS.values(), key=lambda each: -each.most_draws):
        if not accountant.most_draws or (found and different > accountant.most_draws):
            continue
        try:
            found.append(accountant.epsilon(event, delta))
        except UnsupportedEvent:
            continue
    return min(found, default=None)


def _grown(event: Composed, steps: int) -> Composed:
    """The event for so many steps; equal draws are grown once."""
    grown = {each: in_one_cell(of_event(each, steps)) for each in Counter(event.events)}
    return Composed(events=tuple(grown[each] for each in event.events))
