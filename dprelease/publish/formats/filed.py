"""A table of a plan as its files have it: its keys and numbers, and what readers see of them. Pure; no data.

Of a query or made by SQL of published ones: both have the same files, and who reads files asks the same of both.
"""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.catalog.table import Column
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.publish.base import keys_of_query, number_names, table_names
from dprelease.publish.columns import REHEARSAL_COLUMN
from dprelease.publish.csv_text import escapes
from dprelease.publish.derive.earlier import read_one
from dprelease.publish.derive.tables import outline
from dprelease.words import spoken

__all__ = ["FiledTable", "filed_table", "has_table"]


@dataclass(frozen=True)
class FiledTable:
    """A published table without its rows.

    Attributes:
        plan: Of its release, in the language that is spoken where readers see it.
        name: Its name.
        title: What readers see of it.
        columns: Its key columns.
        numbers: The names of its numbers, in published order.
        made_of: The queries that it is made of: itself, or those that its SQL reads.
        sql: Of a derived table.
    """

    plan: ReleasePlan
    name: str
    title: str
    columns: tuple[Column, ...]
    numbers: tuple[str, ...]
    made_of: tuple[PlannedQuery, ...]
    sql: str = ""

    @property
    def query(self) -> PlannedQuery | None:
        """The query; None: it is derived."""
        return None if self.sql else self.made_of[0]

    @property
    def has_declared_rows(self) -> bool:
        """Whether the plan says what rows there are, and neither noise nor the ranks of a list do."""
        return not any(each.private or each.ranking is not None for each in self.made_of)

    @property
    def shared_since(self) -> str:
        """The first period whose noise a number of it shares with later ones; empty: none does."""
        return min((each.series.periods[0] for each in self.made_of if each.series is not None), default="")

    @property
    def stands_alone(self) -> bool:
        """Whether no number of it is made of another period, or shares its noise with one."""
        compared = self.query is not None and bool(self.query.compare)
        return not self.shared_since and not compared

    @property
    def marked(self) -> frozenset[str]:
        """Key columns whose texts are escaped in CSV."""
        return frozenset(each.name for each in self.columns if escapes(self.plan.publish, each))

    @property
    def words(self) -> frozenset[str]:
        """Columns that are neither keys nor numbers."""
        return frozenset((*(f"{each}_status" for each in self.numbers), REHEARSAL_COLUMN))

    def shown(self, number: str) -> str:
        """What readers see of a number, in the language that is spoken: its title, or its name."""
        names, query = self.plan.catalog.names, self.query
        at = self.name if query is None else query.workload or query.name

        def said(measure: str) -> str:
            found = "" if names is None else names.said("queries", at, "measures", measure, "title", language=tag)
            return found or measure

        tag = spoken().tag
        compared = None if query is None else query.compare.get(number)
        if compared is None or said(number) != number:
            return said(number)
        return compared.described({compared.measure: said(compared.measure)})


def has_table(plan: ReleasePlan, name: str) -> bool:
    """Whether a table of that name is published."""
    return name in table_names(plan)


def filed_table(plan: ReleasePlan, name: str) -> FiledTable:
    """A table of a plan.

    Args:
        plan: In the language that is spoken, where readers see the table.
        name: Of a query or of a derived table.

    Raises:
        StopIteration: If the plan has none of that name.
        PlanError: For SQL that is not allowed (DPR-P15.).
    """
    queries = {query.name: query for query in plan.queries}
    if (query := queries.get(name)) is not None:
        numbers = number_names(plan, query)
        return FiledTable(plan, name, query.title or name, keys_of_query(plan, query), numbers, (query,))
    derived = next(each for each in plan.derive if each.name == name)
    made = outline(plan, derived)
    made_of = tuple(queries[each] for each in read_one(plan, derived).queries)
    numbers = tuple(each.name for each in made.measures)
    return FiledTable(plan, name, made.title, made.key_columns, numbers, made_of, derived.sql)
