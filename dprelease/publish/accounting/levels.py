"""Levels: how the loss is divided among them, and what it means for an attribute that changes within one of them.

*Allocation.* Levels are declared: those of a workload; and the first key columns of tables that are nested in one
another, for one is recoded from the other, or is joined from a public reference by it. A table by state and sex is on
the level of states where another one is by county, and states are made of counties. All other tables are on no level.
The share of a level is the sum of the shares of its queries, and a query has a share within its level; all of them are
exact rationals.

*Within a level.* Let m be a column that is a public recoding of another one, a, of the same rows: its interval, or the
area that holds an area. Two data sets differ in what the rows of one unit have in a, **and every row has the same m in
both.** Then only draws count that read a other than through m. Proof: such data sets agree in every column but a, if m
is taken as one more column that is given. A draw that reads neither a, nor anything that is computed from a without
passing through m, is answered from columns in which they agree; so its exact numbers are equal, and the rest is the
proof of ``semantics`` for one attribute. To ask which draws those are, :func:`reads_within` asks ``semantics.reads`` of
the same tables with m declared as a column of the source.

Where a row counts only if a column b has a key (``complete``), and m is recoded from b or from what is recoded from b,
this says nothing of b beyond m if each of these maps lists just the keys of what it maps, to keys, and has no
``otherwise``, and no column on the way gives nulls a key or is clamped. Proof: then a row has a key in one of these
columns if and only if it has one in the next. Into the coarser one: its key is listed, and leads to a key. Back: a key
of the coarser one is no null, so that it comes from a listed value, which is a key of the finer one. So b has a key
just where m has one, and the same rows count if m stands in the place of b.

``tests/laws/test_level_semantics.py`` changes such columns of small tables in every way that keeps m and compares the
answers of the engine.

In the 2020 Census, a person who moves between blocks of one county touches the tables of tracts, block groups and
blocks, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Binned, Catalog, Column, Mapped, Table
from dprelease.errors import UnsupportedEvent
from dprelease.plan.document import ReleasePlan
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.budget import Loss
from dprelease.privacy.event import Composed, Event, some_of
from dprelease.privacy.group import in_one_cell, of_event
from dprelease.publish.accounting.guarantee import allocation
from dprelease.publish.accounting.semantics import Attribute, attributes, reads, semantics, ways_of_an_exchange
from dprelease.words import marked

__all__ = ["NONE", "Allocated", "AttributeChange", "Level", "attribute_changes", "levels", "reads_within", "recodings"]

Ways = Sequence[tuple[tuple[Event, ...], int]]

NONE = marked("no level")
_MOST_DRAWS = 200  # of different draws: from here on the quicker accountant alone


@dataclass(frozen=True)
class Allocated:
    """One query: what part of its level and of the release it got, and what its draws alone cost.

    Attributes:
        query: Its name.
        within: Its share of its level.
        share: Its share of the release.
        rho: The rho of all draws that it needs, where they do not reveal.
        reveals: What these draws have of delta by themselves.
    """

    query: str
    within: Fraction
    share: Fraction
    rho: Fraction
    reveals: Fraction


@dataclass(frozen=True)
class Level:
    """The queries of one level, in plan order, and their share of the release; ``NONE``: those that are on none."""

    name: str
    share: Fraction
    queries: tuple[Allocated, ...]


def levels(plan: ReleasePlan) -> tuple[Level, ...]:
    """The levels of a plan, in the order of their first query; the shares add up to one."""
    rows = allocation(plan)
    by = _declared_levels(plan)
    total: dict[str, Fraction] = {}
    for row in rows:
        name = _level_of(row, by)
        total[name] = total.get(name, Fraction(0)) + Fraction(row["share"])
    return tuple(
        Level(
            name=name,
            share=share,
            queries=tuple(
                Allocated(
                    query=row["query"],
                    within=Fraction(row["share"]) / share if share else Fraction(0),
                    share=Fraction(row["share"]),
                    rho=Fraction(row["rho"]),
                    reveals=Fraction(row["reveals"]),
                )
                for row in rows
                if _level_of(row, by) == name
            ),
        )
        for name, share in total.items()
    )


def _level_of(row: Mapping[str, Any], by: Mapping[str, str]) -> str:
    """Of a workload's draw the level that it says."""
    return str(row["level"]) if row["level"] != "all" else by.get(row["query"], NONE)


def _declared_levels(plan: ReleasePlan) -> dict[str, str]:
    """The first key column of every query, where another query of the table has one that it is nested with."""
    first = {query.name: (query.table, query.by[0]) for query in plan.queries if query.by and query.workload is None}
    used = set(first.values())
    nested = set()
    for name, column in used:
        table = plan.catalog.tables[name]
        wider = {(name, each) for each in _made_of(table, column)} & used
        nested |= {*wider, (name, column)} if wider else set()
    return {query: place[1] for query, place in first.items() if place in nested}


def _made_of(table: Table, name: str) -> Iterator[str]:
    """Every column that another one is recoded from or joined by, directly or through others."""
    column = table.column(name)
    found = [column.derivation.of] if isinstance(column.derivation, Binned | Mapped) else []
    found += [join.on for join in table.joins if name in join.add]
    for each in found:
        yield each
        yield from _made_of(table, each)


@dataclass(frozen=True)
class AttributeChange:
    """What changes of one unit, and what it costs.

    Attributes:
        attribute: The table and column that changes.
        within: The recoding of it that stays as it is; None: none does.
        draws: How many steps of the plan depend on it.
        loss: Rounded up; None: nothing is proved.
    """

    attribute: Attribute
    within: str | None
    draws: int
    loss: Loss | None


def attribute_changes(plan: ReleasePlan) -> tuple[AttributeChange, ...]:
    """Every attribute that some draw depends on, then every attribute within each of its recodings.

    Where the author asks for one accountant, it alone speaks; else the smallest bound that is known holds. A change
    within a recoding is a change of the attribute, so that what holds for the attribute holds for it too.
    """
    ways = ways_of_an_exchange(plan)
    found = list(_by_attribute(plan, ways))
    whole = {change.attribute: change.loss for change in found}
    for attribute, level in recodings(plan.catalog):
        at = [
            number
            for number, step in enumerate(plan.steps)
            if attribute in reads_within(step.read, step.parts, plan.catalog, (attribute[0], level))
        ]
        if at:
            known = [each for each in (_loss(plan, at, ways), whole.get(attribute)) if each is not None]
            loss = min(known, key=lambda each: (each.delta, each.epsilon), default=None)
            found.append(AttributeChange(attribute, level, len(at), loss))
    return tuple(found)


def _by_attribute(plan: ReleasePlan, ways: Ways) -> Iterator[AttributeChange]:
    if plan.accounting == "auto":
        for each in semantics(plan):
            if each.kind == "attribute" and each.attribute is not None and each.draws:
                yield AttributeChange(each.attribute, None, each.draws, each.loss)
        return
    read = [reads(step.read, step.parts, plan.catalog) for step in plan.steps]
    for attribute in attributes(plan.catalog):
        at = [number for number, names in enumerate(read) if attribute in names]
        if at:
            yield AttributeChange(attribute, None, len(at), _loss(plan, at, ways))


def recodings(catalog: Catalog) -> tuple[tuple[Attribute, str], ...]:
    """Every column of a source with each column that is recoded from it, directly or through others."""
    return tuple(
        ((table.name, source), column.name)
        for table in catalog.tables.values()
        for column in table.columns
        if isinstance(column.derivation, Binned | Mapped)
        for source in _source_of(table, column)
    )


def _source_of(table: Table, column: Column) -> Iterator[str]:
    """The column of the source that a chain of recodings begins with; none where it is lent or computed."""
    while isinstance(column.derivation, Binned | Mapped):
        column = table.column(column.derivation.of)
    if column.in_source and column.name != table.unit_id:
        yield column.name


def reads_within(
    grouping: Grouping, quantities: Sequence[Quantity], catalog: Catalog, level: Attribute
) -> frozenset[Attribute]:
    """What ``semantics.reads`` finds if a recoded column (table, name) is taken as given; proof above."""
    table = catalog.tables[level[0]]
    if grouping.table == table.name:
        complete = {level[1] if _keyed_alike(table, name, level[1]) else name for name in grouping.complete}
        grouping = grouping.model_copy(update={"complete": tuple(sorted(complete))})
    columns = tuple(
        column.model_copy(update={"derivation": None}) if column.name == level[1] else column
        for column in table.columns
    )
    given = table.model_copy(update={"columns": columns})
    return reads(grouping, quantities, catalog.model_copy(update={"tables": {**catalog.tables, level[0]: given}}))


def _keyed_alike(table: Table, name: str, level: str) -> bool:
    """Whether a column has a key in just those rows in which a recoding of it has one; proof above."""
    column = table.column(level)
    while column.name != name:
        made = column.derivation
        if not isinstance(made, Mapped) or made.otherwise is not None or column.null is not None:
            return False
        listed, keys = {value for value, _ in made.pairs}, {key for _, key in made.pairs}
        finer = table.column(made.of)
        if finer.null is not None or finer.range is not None:
            return False
        if listed != set(finer.keys or ()) or not keys <= set(column.keys or ()):
            return False
        column = finer
    return True


def _loss(plan: ReleasePlan, at: Sequence[int], ways: Ways) -> Loss | None:
    """The bound for some steps of the plan at the certified delta; None where nothing is proved at it."""
    delta = plan.loss[plan.certified].delta
    found = []
    for events, steps in ways:
        try:
            grown = Composed(events=tuple(in_one_cell(of_event(each, steps)) for each in some_of(events, at)))
        except UnsupportedEvent:
            continue
        for name in _speaking(plan, grown):
            with suppress(UnsupportedEvent):
                found.append(ACCOUNTANTS[name].epsilon(grown, delta))
    return Loss(epsilon=min(found), delta=delta) if found else None


def _speaking(plan: ReleasePlan, event: Composed) -> tuple[str, ...]:
    if plan.accounting != "auto":
        return (plan.certified,)
    return ("zcdp", "pld") if len(set(event.events)) <= _MOST_DRAWS else ("zcdp",)
