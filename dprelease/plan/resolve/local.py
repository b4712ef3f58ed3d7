"""What units lose to whoever collected their randomized answers: one question after the other, of all tables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dprelease.catalog.table import Catalog, Table
from dprelease.privacy.randomized import LocalLoss, LocalQuestion, RandomizedResponse

__all__ = ["local_loss"]


def local_loss(catalog: Catalog) -> LocalLoss | None:
    """The loss towards the collector; None: no answers were randomized.

    Every question counts, whether or not the release uses it, for the collector has its answers; and one person may be
    in every table.
    """
    found = tuple(each for table in catalog.tables.values() for each in _questions(table))
    return LocalLoss(questions=found, epsilon=sum((each.epsilon for each in found), Fraction(0))) if found else None


def _questions(table: Table) -> Iterator[LocalQuestion]:
    """The questions of one table: columns of whole answers, and bits by their question."""
    columns: dict[str, list[str]] = {}
    laws: dict[str, RandomizedResponse] = {}
    for column in table.columns:
        law = column.collected
        if law is not None:
            name = column.name if law.unary is None else law.unary.question
            columns.setdefault(name, []).append(column.name)
            laws[name] = law
    for name, law in laws.items():
        yield LocalQuestion(
            table=table.name,
            question=name,
            columns=tuple(columns[name]),
            weights=law.weights,
            choices=law.choices if law.unary is None else len(columns[name]),
            answers=law.answers,
            epsilon=law.answers * law.epsilon,
        )
