"""SmartNoise SQL over exact answers that DuckDB made first (``pre_aggregated``), a row for every public key among them.

Its own readers of Pandas and of databases publish only the groups that have rows, and are slower. An average is two
columns, each of which costs a query's epsilon, so that they are given half. It has no quantiles.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
from snsql import Privacy, from_df

from bench.peers.answering import Asked, Phases, answer_with, write_answers
from bench.peers.works import CLIP, KEYS, MOST_GROUPS, Query

_INCOME = f"least(greatest(income, {CLIP[0]}), {CLIP[1]})"
_CALLS = {"count": "COUNT(*)", "sum": "SUM(income)", "mean": "AVG(income)"}
_TOTALS = {
    "count": {"count_star": "count(*)"},
    "sum": {"sum_income": f"sum({_INCOME})"},
    "mean": {"sum_income": f"sum({_INCOME})", "count_income": "count(*)"},
}


def _described(bounded: bool) -> dict[str, Any]:
    """What SmartNoise is told of the table: its columns, and how many rows a person has once they are bounded."""
    integer = {"type": "int"}
    told: dict[str, Any] = {"censor_dims": False, "clamp_counts": False, **dict.fromkeys(KEYS, integer)}
    told["income"] = {"type": "int", "lower": CLIP[0], "upper": CLIP[1]}
    if bounded:
        told |= {"user_id": {"private_id": True, **integer}, "max_ids": MOST_GROUPS, "sample_max_ids": False}
    else:
        told["row_privacy"] = True
    return {"": {"bench": {"rows": told}}}


def _table(asked: Asked) -> str:
    """Rows that are bounded as described: SmartNoise bounds only what its own readers read."""
    if not asked.work.bounded:
        return f"read_parquet('{asked.file}')"
    lots = f"(SELECT *, random() AS lot FROM (SELECT DISTINCT user_id, county FROM read_parquet('{asked.file}')))"
    turn = "row_number() OVER (PARTITION BY user_id ORDER BY lot) AS turn"
    return f"(SELECT * FROM (SELECT *, {turn} FROM {lots}) WHERE turn <= {MOST_GROUPS})"


def _exact(connection: duckdb.DuckDBPyConnection, asked: Asked, query: Query) -> pd.DataFrame:
    """The exact totals of every public cell, in the columns that SmartNoise's own subquery would have."""
    totals, by = _TOTALS[query.kind], ", ".join(query.by)
    spans = " CROSS JOIN ".join(f"(SELECT unnest(range(1, {KEYS[column] + 1})) AS {column})" for column in query.by)
    rows = ", ".join(f"CAST({total} AS BIGINT) AS {name}" for name, total in totals.items())
    shown = ", ".join(f"coalesce({name}, 0) AS {name}" for name in totals)
    sql = (
        f"SELECT {by}, {shown} FROM {spans} LEFT JOIN (SELECT {by}, {rows} FROM {_table(asked)} GROUP BY {by}) "
        f"USING ({by}) ORDER BY {by}"
    )
    found: pd.DataFrame = connection.sql(sql).df()
    return found


def answer(asked: Asked, phases: Phases) -> None:
    """One statement of each query, run by SmartNoise over what DuckDB found."""
    with phases("start"):
        connection, told = duckdb.connect(), _described(asked.work.bounded)
        nothing = pd.DataFrame(
            {name: [0] for name in told[""]["bench"]["rows"] if name in {*KEYS, "income", "user_id"}}
        )
        readers = [
            from_df(nothing, privacy=Privacy(epsilon=asked.each / columns, delta=asked.delta), metadata=told)
            for columns in (1, 2)
        ]
    for query in (each for each in asked.work.queries if each.kind in _CALLS):
        with phases("query"):
            by = ", ".join(query.by)
            sql = f"SELECT {by}, {_CALLS[query.kind]} AS value FROM bench.rows GROUP BY {by}"
            exact = _exact(connection, asked, query)
            noisy = readers[len(_TOTALS[query.kind]) - 1].execute(sql, pre_aggregated=exact)
        with phases("write"):
            write_answers(asked.answers(query), query, noisy[1:])


if __name__ == "__main__":
    answer_with(answer)
