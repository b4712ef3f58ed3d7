"""What moves between two plans: which queries come and go, and how much more noise every other one has.

All queries of a plan share its budget, so that one more of them, or one less, can move the noise of all others. Nothing
is measured here: both plans say how accurate every number will be, and what is told is where they say otherwise.
Queries are told apart by their names. A query that is called otherwise goes, and another one comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.catalog.aggregate import left_out_of
from dprelease.plan.document import PlannedQuery, ReleasePlan, Workload
from dprelease.plan.explain.differences import (
    Difference,
    field_differences,
    keys_text,
    release_differences,
    union,
    unlike,
)
from dprelease.plan.explain.noise_changes import Number, Side, draw_differences, draws_of, number_of, share_of

__all__ = ["Block", "Comes", "Moved", "moved"]

# Fields with words of their own here, or that name steps: those may be called otherwise and be the same.
_OF_A_QUERY = frozenset(
    ("name", "title", "table", "where", "by", "measures", "inputs", "selection", "ranking", "excluding", "workload")
)
_OF_A_WORKLOAD = frozenset(("name", "table", "measure", "tables", "sets", "takes", "strategy", "post"))
Shares = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Comes:
    """A query, or a workload, that one of the plans alone has.

    Attributes:
        name: Its name.
        tables: That it publishes.
        workload: Whether it is a workload.
        added: Whether it is the second plan that has it.
    """

    name: str
    tables: tuple[str, ...]
    workload: bool
    added: bool

    @property
    def difference(self) -> Difference:
        """The same in one line."""
        what, said = ("workload", f"{len(self.tables)} tables") if self.workload else ("query", "published")
        return Difference(f"{what} {self.name}", "" if self.added else said, said if self.added else "")


@dataclass(frozen=True)
class Block:
    """A query, or a workload, that both plans have.

    Attributes:
        name: Its name.
        tables: The tables of it that both publish.
        workload: Whether it is a workload.
        asked: What is asked and promised of it otherwise, but for its noise.
        numbers: Its numbers that both have, moved or not.
        shares: The shares of the release's budget before and after; a draw that it shares with others counts in full.
    """

    name: str
    tables: tuple[str, ...]
    workload: bool
    asked: tuple[Difference, ...]
    numbers: tuple[Number, ...]
    shares: Shares

    @property
    def other_noise(self) -> tuple[Number, ...]:
        """The numbers whose noise moved."""
        return tuple(each for each in self.numbers if each.moved)

    @property
    def moved(self) -> bool:
        """Whether anything of it did, but for its share of a budget."""
        return bool(self.asked or self.other_noise)

    @property
    def times(self) -> tuple[Fraction, Fraction] | None:
        """The least and the largest times of its numbers; None where it cannot be said of any."""
        known = [each.times for each in self.numbers if each.times is not None]
        return (min(known), max(known)) if known else None


@dataclass(frozen=True)
class Moved:
    """What differs between two plans.

    Attributes:
        facts: The facts of the release as a whole.
        parts: Every query and workload of either plan: in the order of the first, then what the second alone has.
    """

    facts: tuple[Difference, ...]
    parts: tuple[Block | Comes, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What both plans have."""
        return tuple(part for part in self.parts if isinstance(part, Block))

    @property
    def comes(self) -> tuple[Comes, ...]:
        """What one of them alone has."""
        return tuple(part for part in self.parts if isinstance(part, Comes))

    @property
    def unmoved(self) -> tuple[str, ...]:
        """Queries and workloads of which nothing moved."""
        return tuple(block.name for block in self.blocks if not block.moved)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """All that is asked and promised otherwise, but for the noise of single numbers."""
        found = list(self.facts)
        for part in self.parts:
            found += part.asked if isinstance(part, Block) else [part.difference]
        return tuple(found)


def moved(first: ReleasePlan, second: ReleasePlan) -> Moved:
    """What differs between two plans, always in the same order.

    Args:
        first: The plan before.
        second: The plan after; it may be one of another release.
    """
    one, two = Side(first), Side(second)
    return Moved(
        facts=tuple(release_differences(first, second)),
        parts=tuple(_part(one, two, name) for name in union(one.parts.keys(), two.parts.keys())),
    )


def _part(one: Side, two: Side, name: str) -> Block | Comes:
    before, after = one.parts.get(name), two.parts.get(name)
    if before is None or after is None:
        only = one.parts[name] if after is None else two.parts[name]
        tables = only.tables if isinstance(only, Workload) else (name,)
        return Comes(name, tables, isinstance(only, Workload), before is None)
    if isinstance(before, Workload) and isinstance(after, Workload):
        return _workload(one, before, two, after)
    if isinstance(before, PlannedQuery) and isinstance(after, PlannedQuery):
        return _query(one, before, two, after)
    form = Difference(f"form of {name}", _form(before), _form(after))
    return Block(name, (), True, (form,), (), (Fraction(0), Fraction(0)))


def _form(part: PlannedQuery | Workload) -> str:
    return f"{len(part.tables)} tables" if isinstance(part, Workload) else "a table"


def _query(one: Side, before: PlannedQuery, two: Side, after: PlannedQuery) -> Block:
    name, (made, remade) = before.name, (draws_of(one, before), draws_of(two, after))
    both = [label for label in made if label in remade]
    asked = [*_asked(one, before, two, after)]
    for label in both:
        asked += draw_differences(f"{name}.{label}", made[label], remade[label])
    return Block(
        name=name,
        tables=(name,),
        workload=False,
        asked=tuple(asked),
        numbers=tuple(number_of(one, two, name, label, made[label], remade[label]) for label in both),
        shares=(share_of(made), share_of(remade)),
    )


def _asked(one: Side, before: PlannedQuery, two: Side, after: PlannedQuery) -> Iterator[Difference]:
    """What is asked of a query otherwise: its title, rows, keys and measures first."""
    name = before.name
    yield from unlike((f"title of {name}", before.title, after.title))
    yield from _rows(name, before, after)
    yield from unlike(
        (f"keys of {name}", ", ".join(before.by), ", ".join(after.by)),
        (f"measures of {name}", ", ".join(one.measures(before)), ", ".join(two.measures(after))),
    )
    for measure in sorted(before.measures.keys() & after.measures.keys()):
        told = [query.measures[measure] for query in (before, after)]
        if told[0] != told[1]:
            yield Difference(f"measure {measure} of {name}", told[0].canonical(), told[1].canonical())
    if before.by == after.by and before.ranges == after.ranges:  # other sums have other key columns
        yield from _keys(name, one, before, two, after)
    yield from _left_out(name, one, before, two, after)
    lists = [f"the first {each.ranking.k}" if each.ranking else "" for each in (before, after)]
    yield from unlike((f"list of {name}", lists[0], lists[1]))
    yield from field_differences(name, before, after, _OF_A_QUERY)


def _rows(name: str, before: PlannedQuery, after: PlannedQuery) -> Iterator[Difference]:
    yield from unlike(
        (f"table of {name}", before.table, after.table),
        (f"rows of {name}", before.where or "all", after.where or "all"),
    )


def _keys(name: str, one: Side, before: PlannedQuery, two: Side, after: PlannedQuery) -> Iterator[Difference]:
    """Columns of the same names whose public keys are others."""
    for column, other in zip(one.plan.keys(before), two.plan.keys(after), strict=True):
        if column.keys != other.keys:
            told = [each or "chosen by noise" for each in keys_text(column.keys, other.keys)]
            yield Difference(f"keys of {column.name} in {name}", told[0], told[1])


def _left_out(name: str, one: Side, before: PlannedQuery, two: Side, after: PlannedQuery) -> Iterator[Difference]:
    """Cells that are left out, as ``except`` asks for it."""
    found = [left_out_of(query, side.plan.catalog) for side, query in ((one, before), (two, after))]
    if found[0] != found[1]:
        counts = [f"{len(each)} cells" if each else "" for each in found]
        more = ", others" if counts[0] == counts[1] else ""
        yield Difference(f"left out of {name}", counts[0], counts[1] + more)


def _workload(one: Side, before: Workload, two: Side, after: Workload) -> Block:
    name, sides = before.name, ((one, before), (two, after))
    tables = tuple(table for table in before.tables if table in set(after.tables))
    queries = [{each.name: each for each in side.plan.queries if each.workload == name} for side, _ in sides]
    asked = [*_of_workload(before, after)]
    if tables:  # all tables of a workload count the same rows
        first, second = (found[tables[0]] for found in queries)
        asked += [*_rows(name, first, second), *field_differences(name, first, second, _OF_A_QUERY)]
        asked += dict.fromkeys(
            each
            for table in tables
            if queries[0][table].by == queries[1][table].by
            for each in _keys(name, one, queries[0][table], two, queries[1][table])
        )
    taken = [[side.steps[step] for step in dict.fromkeys(take.step for take in each.takes)] for side, each in sides]
    shares = [share_of({step.id: [(step, step.parts[0])] for step in steps}) for steps in taken]
    return Block(
        name=name,
        tables=tables,
        workload=True,
        asked=tuple(asked),
        numbers=tuple(number_of(one, two, table, before.measure) for table in tables),
        shares=(shares[0], shares[1]),
    )


def _of_workload(before: Workload, after: Workload) -> Iterator[Difference]:
    """What is asked of a workload otherwise; of its tables how many there are, and how many of them are new."""
    name = before.name
    if before.tables != after.tables:
        new, gone = (len(set(some) - set(others)) for some, others in _both_ways(before.tables, after.tables))
        told = [f"{new} of them new"] * bool(new) + [f"{gone} gone"] * bool(gone)
        more = ", ".join(told) or "in another order"
        yield Difference(f"tables of {name}", f"{len(before.tables)} tables", f"{len(after.tables)} tables, {more}")
    yield from unlike(
        (f"measure of {name}", before.measure, after.measure),
        (f"draws of {name}", _draws(before), _draws(after)),
        (f"postprocess of {name}", ", ".join(before.post), ", ".join(after.post)),
    )
    yield from field_differences(name, before, after, _OF_A_WORKLOAD)


def _both_ways(before: Sequence[str], after: Sequence[str]) -> tuple[tuple[Sequence[str], Sequence[str]], ...]:
    return ((after, before), (before, after))


def _draws(workload: Workload) -> str:
    return f"{workload.strategy}, {len({take.step for take in workload.takes})} draws"
