"""Tables of earlier periods that SQL reads: made of an earlier bundle's plan and measurements, by the same estimates.

The noise of two releases is independent, so that each of them has draws of its own in every replicate. A table of the
release's own period is the table itself, with its own replicates; one of a period that was not published is blank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dprelease.catalog.table import ColumnType
from dprelease.errors import PlanError
from dprelease.estimate import PublishedTable
from dprelease.plan.document import Derived, PlannedQuery, ReleasePlan
from dprelease.publish.base import keys_of_query, measure_names, sql_names
from dprelease.publish.comparing.earlier import EarlierRelease, needed_tables
from dprelease.publish.derive.run import replicated
from dprelease.publish.derive.sql import Derivation, check_derive
from dprelease.publish.derive.terms import Columns
from dprelease.publish.measured import Inputs, queries_as_tables

if TYPE_CHECKING:
    from dprelease.publish.derive.run import Chance

__all__ = ["EarlierTables", "Read", "before_moving", "check_earlier", "read_all", "read_one"]

_Named = tuple[str, tuple[tuple[str, ColumnType], ...], tuple[str, ...]]  # a table, its keys, its numbers


@dataclass(frozen=True)
class Read:
    """A derived table whose SQL was read.

    Attributes:
        derived: As it is in the plan.
        found: What its SQL asks for.
    """

    derived: Derived
    found: Derivation

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries whose tables it reads, of any period, in the order of its SQL."""
        named = self.derived.earlier
        return tuple(dict.fromkeys(named[name].query if name in named else name for name in self.found.tables))


def read_all(plan: ReleasePlan) -> list[Read]:
    """Every derived table of a plan, its SQL read.

    Raises:
        PlanError: SQL that is not allowed (DPR-P15.), or an earlier table that cannot be read (DPR-P341).
    """
    return [read_one(plan, each) for each in plan.derive]


def read_one(plan: ReleasePlan, derived: Derived) -> Read:
    """A derived table, its SQL read; texts and columns that were read before are not read again.

    Raises:
        PlanError: As :func:`read_all` says.
    """
    named = _columns_of(plan, derived).items()
    columns = tuple((name, tuple(each.keys.items()), tuple(each.numbers)) for name, each in named)
    return Read(derived, _derivation(derived.sql, columns))


@lru_cache(maxsize=256)
def _derivation(sql: str, tables: tuple[_Named, ...]) -> Derivation:
    return check_derive(sql, {name: Columns(keys=dict(keys), numbers=numbers) for name, keys, numbers in tables})


def _columns_of(plan: ReleasePlan, derived: Derived) -> dict[str, Columns]:
    """What the SQL of a derived table can name: every query with its keys and its measures, and its earlier tables.

    Raises:
        PlanError: An earlier table is none of a query that SQL can take from another period (DPR-P341).
    """
    queries = {query.name: query for query in plan.queries}
    found = {
        name: Columns(
            keys={column.name: column.type for column in keys_of_query(plan, query)}, numbers=sql_names(plan, query)
        )
        for name, query in queries.items()
    }
    for alias, asked in derived.earlier.items():
        at = f"`earlier.{alias}` of derived table {derived.name!r}"
        query = queries.get(asked.query)
        why = "is no published table" if query is None else _without_earlier(query)
        if query is None or why:
            known = ", ".join(sorted(name for name, each in queries.items() if not _without_earlier(each)))
            raise PlanError(
                f"{at} reads {asked.query!r}, which {why}",
                detail="an earlier table is made of the measurements in its bundle, as this plan makes its own",
                hint=f"the tables are: {known or 'none'}",
                code="DPR-P341",
            )
        if alias in queries:
            raise PlanError(f"{at} has the name of a query", hint="rename it", code="DPR-P341")
        found[alias] = replace(found[asked.query], numbers=measure_names(plan, query))
    return found


def _without_earlier(query: PlannedQuery) -> str:
    """Why a query's table of another period cannot be read; empty: it can."""
    if query.series is not None:
        return "shares its noise with other periods: name `sums` in its `series`"
    if query.private or query.ranking is not None:
        return "has keys that noise selects anew in every period"
    return ""


def check_earlier(plan: ReleasePlan, read: Read) -> None:
    """Refuse earlier tables that are not read, or of whose numbers noise chooses the clip anew in every period.

    Raises:
        PlanError: DPR-P340, DPR-P341.
    """
    for alias, asked in read.derived.earlier.items():
        at = f"`earlier.{alias}` of derived table {read.derived.name!r}"
        if alias not in read.found.tables:
            says = f"{at} is not read by its SQL"
            raise PlanError(says, hint=f"leave it out, or `join {alias}` in `sql`", code="DPR-P340")
        query = next(each for each in plan.queries if each.name == asked.query)
        used = {name for each in read.found.outputs for table, name in each.uses if table == alias}
        quantities = {name: query.measures[name].quantities(plan.catalog.tables[query.table]) for name in sorted(used)}
        for name, parts in quantities.items():
            if any(each.chosen is not None for each in parts):
                raise PlanError(
                    f"{at} gives the SQL {name!r}, whose clip noise chooses anew in every period",
                    hint="write the clip as two numbers, such as the ones that an earlier release has chosen",
                    code="DPR-P341",
                )


@dataclass(frozen=True, eq=False)
class EarlierTables:
    """The tables of earlier periods that SQL reads, as they were published, before any rounding.

    Attributes:
        plan: Of the later release.
        sides: By period the plan of that release, and what was measured for it.
        tables: By period its tables that are read.
    """

    plan: ReleasePlan
    sides: Mapping[str, tuple[ReleasePlan, Inputs]]
    tables: Mapping[str, Sequence[PublishedTable]]

    @classmethod
    def of(cls, plan: ReleasePlan, earlier: Mapping[str, EarlierRelease]) -> EarlierTables:
        """Those of a plan.

        Args:
            plan: Of the later release.
            earlier: By period, what it takes of earlier ones; a table of any other period is blank.
        """
        names = needed_tables(plan)
        sides = {period: (each.plan, each.inputs) for period, each in sorted(earlier.items()) if period in names}
        tables = {period: queries_as_tables(*side, names[period]) for period, side in sides.items()}
        return cls(plan, sides, tables)

    def before_moving(self) -> EarlierTables:
        """The same with estimates in the place of numbers that were moved."""
        return replace(self, tables={period: before_moving(each) for period, each in self.tables.items()})

    def largest(self) -> int:
        """How many rows the largest of them has."""
        return max((table.cells for tables in self.tables.values() for table in tables), default=0)

    def replicated(self, chances: Sequence[Chance], sizes: Sequence[int]) -> Iterator[EarlierTables]:
        """For each of ``sizes`` the tables with so many replicates, as ``run.replicated`` makes them.

        Args:
            chances: For each period, where its noise comes from: that of two releases is independent.
            sizes: How many at a time.
        """
        drawn = []
        for (period, (plan, inputs)), chance in zip(self.sides.items(), chances, strict=True):
            tables = self.tables[period]
            drawn.append(replicated(plan, tables, inputs, {table.name for table in tables}, chance, sizes))
        for each in zip(*drawn, strict=True) if drawn else ((),) * len(sizes):
            yield replace(self, tables=dict(zip(self.sides, each, strict=True)))

    def beside(self, derived: Derived, tables: Sequence[PublishedTable]) -> list[PublishedTable]:
        """All tables that the SQL of a derived one can read, under the names that it gives them.

        Args:
            derived: The derived table.
            tables: Those of the release itself, with as many replicates as these have.
        """
        found, known = list(tables), {table.name: table for table in tables}
        for alias, asked in derived.earlier.items():
            period = asked.period_in(self.plan.release.period)
            made = {table.name: table for table in self.tables.get(period or "", ())}
            if period == self.plan.release.period:
                table = known[asked.query]
            elif asked.query in made:
                table = made[asked.query]
            else:
                table = _blank(known[asked.query])
            found.append(replace(_in_order(self.plan, asked.query, table), name=alias))
        return found

    def queries_named(self, derived: Derived) -> dict[str, tuple[ReleasePlan, PlannedQuery]]:
        """By the name that the SQL of a derived table gives a table, its query, in the plan that it was measured by."""
        found = {query.name: (self.plan, query) for query in self.plan.queries}
        for alias, asked in derived.earlier.items():
            other = self.sides.get(asked.period_in(self.plan.release.period) or "", (self.plan,))[0]
            found[alias] = (other, next(query for query in other.queries if query.name == asked.query))
        return found


def before_moving(tables: Sequence[PublishedTable]) -> tuple[PublishedTable, ...]:
    """The tables with the estimates in the place of numbers that were moved."""
    return tuple(
        replace(
            table,
            measures=tuple(
                each if each.unadjusted is None else replace(each, value=each.unadjusted, places=None, integer=False)
                for each in table.measures
            ),
        )
        for table in tables
    )


def _in_order(plan: ReleasePlan, name: str, table: PublishedTable) -> PublishedTable:
    """A table with the measures of the plan's own query, in its order; one that it does not have is blank."""
    known = {each.name: each for each in table.measures}
    query = next(each for each in plan.queries if each.name == name)
    without = _blank(table).measures[0]
    return replace(
        table, measures=tuple(known.get(each, replace(without, name=each)) for each in measure_names(plan, query))
    )


def _blank(table: PublishedTable) -> PublishedTable:
    """The rows of a table without any number."""
    none = np.full_like(table.measures[0].value, np.nan)
    return replace(table, measures=tuple(replace(each, value=none, unadjusted=None) for each in table.measures))
