"""The four works that every system is given: their queries, keys and clips, and the same in SQL without privacy.

Nothing but the standard library is imported, for every system reads this module in an environment of its own.

* ``W1``: counts of people by county, sex and race, 42,000 cells; every row is one person.
* ``W2``: the sum of their incomes, clipped, by 3,000 counties.
* ``W3``: a release of 20 queries about them: ten tables of counts, five of clipped sums, three of clipped means, and
  two of quartiles.
* ``W4``: counts of visits by 3,000 counties; a user, who may have any number of rows, is bounded to ten counties and
  one row in each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "CLIP",
    "EPSILON",
    "GRID",
    "KEYS",
    "MOST_GROUPS",
    "QUANTILES",
    "WORKS",
    "Query",
    "Work",
    "bounded_rows",
    "cells",
    "raw_sql",
]

EPSILON, DELTA = 1.0, 1e-6
KEYS = {"county": 3000, "state": 50, "sex": 2, "race": 7, "age": 18}  # each from 1 to this number
CLIP = (0, 200_000)
GRID = 1000  # what the candidates of a quantile are apart
QUANTILES = (0.25, 0.5, 0.75)
MOST_GROUPS = 10

Kind = Literal["count", "sum", "mean", "quantiles"]


@dataclass(frozen=True)
class Query:
    """One table: its name, what it tells of every cell, and the columns that make the cells."""

    name: str
    kind: Kind
    by: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its numbers in a file of answers."""
        return tuple(f"value_q{round(100 * at)}" for at in QUANTILES) if self.kind == "quantiles" else ("value",)


@dataclass(frozen=True)
class Work:
    """One work: its name and title, the file it is about, and its queries."""

    name: str
    title: str
    table: str
    queries: tuple[Query, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of the file that its queries need."""
        keys = {column for query in self.queries for column in query.by}
        values = {"income"} if {query.kind for query in self.queries} - {"count"} else set()
        return sorted(keys | values | ({"user_id"} if self.bounded else set()))

    @property
    def bounded(self) -> bool:
        """Whether a unit may have several rows."""
        return self.table == "visits"


def _release() -> Iterator[Query]:
    counted = ["state", "sex", "race", "age", "sex race", "state sex", "state race", "age sex", "state sex race"]
    counted.append("county")
    asked: list[tuple[Kind, int]] = [("count", 10), ("sum", 5), ("mean", 3), ("quantiles", 2)]
    for kind, tables in asked:
        for at, by in enumerate(counted[:tables]):
            yield Query(f"{kind}{at}", kind, tuple(by.split()))


WORKS = {
    each.name: each
    for each in (
        Work("W1", "42,000 counts", "people", (Query("count", "count", ("county", "sex", "race")),)),
        Work("W2", "3,000 clipped sums", "people", (Query("sum", "sum", ("county",)),)),
        Work("W3", "20 queries", "people", tuple(_release())),
        Work("W4", "3,000 counts, bounded users", "visits", (Query("visits", "count", ("county",)),)),
    )
}


def cells(query: Query) -> Iterator[tuple[int, ...]]:
    """The keys of every cell, in order."""
    return itertools.product(*(range(1, KEYS[column] + 1) for column in query.by))


def bounded_rows(file: str, rows: str = "") -> str:
    """SQL for a row in each of at most ten counties of a user, chosen by chance: what W4 counts, without privacy.

    Of a Parquet file, or of other ``rows``.
    """
    rows = rows or f"read_parquet('{file}')"
    once = f"(SELECT DISTINCT user_id, county FROM {rows})"
    lots = f"(SELECT *, random() AS lot FROM {once})"
    turn = "row_number() OVER (PARTITION BY user_id ORDER BY lot) AS turn"
    return f"(SELECT * FROM (SELECT *, {turn} FROM {lots}) WHERE turn <= {MOST_GROUPS})"


def raw_sql(query: Query, file: str, rows: str = "") -> str:
    """The query without privacy, of a Parquet file or of other ``rows``: cells that have any, and the same clip.

    DuckDB and Spark read it alike.
    """
    clipped = f"least(greatest(income, {CLIP[0]}), {CLIP[1]})"
    exact = {
        "count": "count(*) AS value",
        "sum": f"sum({clipped}) AS value",
        "mean": f"avg({clipped}) AS value",
        "quantiles": ", ".join(
            f"percentile_disc({at}) WITHIN GROUP (ORDER BY {clipped}) AS {column}"
            for at, column in zip(QUANTILES, query.columns, strict=False)
        ),
    }
    by, source = ", ".join(query.by), rows or f"read_parquet('{file}')"
    return f"SELECT {by}, {exact[query.kind]} FROM {source} GROUP BY {by} ORDER BY {by}"
