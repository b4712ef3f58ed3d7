"""What a release is going to ask of each table, told by its plan, so that no more of it is read or kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dprelease.catalog.aggregate import Grouping, Quantity
from dprelease.catalog.table import Catalog, Table
from dprelease.engines.declared import Loading, loading
from dprelease.engines.duck.combinations import passes_of
from dprelease.engines.duck.pipeline import PassQuery

__all__ = ["ExpectedQuestions"]


class ExpectedQuestions:
    """Questions by the fingerprint of their table; none that was not told.

    Attributes:
        loadings: What of a table's columns all questions together look at.
    """

    def __init__(self) -> None:
        self.loadings: dict[str, Loading] = {}
        self._passes: dict[str, set[Any]] = {}
        self._questions: dict[str, list[PassQuery]] = {}

    def add(self, catalog: Catalog, asked: Iterable[tuple[Grouping, Sequence[Quantity]]]) -> tuple[Table, ...]:
        """More questions; the tables that they are about."""
        tables = {}
        for grouping, quantities in asked:
            question = PassQuery(catalog, grouping, tuple(quantities), {}, b"")
            place = question.table.fingerprint()
            tables[place] = question.table
            self._questions.setdefault(place, []).append(question)
            self._passes.setdefault(place, set()).update(passes_of(question))
            for name, needed in loading(catalog, grouping, quantities).items():
                lent = catalog.tables[name].fingerprint()
                self.loadings[lent] = self.loadings.get(lent, Loading(frozenset())) | needed
        return tuple(tables.values())

    def questions(self, table: Table) -> Sequence[PassQuery]:
        """All that are about a table."""
        return self._questions.get(table.fingerprint(), ())

    def once(self, table: Table) -> bool:
        """Whether one pass alone is made over the rows of a table."""
        return len(self._passes.get(table.fingerprint(), ())) == 1
