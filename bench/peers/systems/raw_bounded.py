"""W4 in DuckDB without privacy, of bounded users: what the work counts, so that its ratios compare like with like."""

from __future__ import annotations

import duckdb

from bench.peers.answering import Asked, Phases, answer_with
from bench.peers.works import bounded_rows, raw_sql


def answer(asked: Asked, phases: Phases) -> None:
    """One statement a query."""
    with phases("start"):
        connection = duckdb.connect()
    with phases("query"):
        for query in asked.work.queries:
            sql = raw_sql(query, str(asked.file), bounded_rows(str(asked.file)))
            connection.sql(sql).write_csv(str(asked.answers(query)))


if __name__ == "__main__":
    answer_with(answer)
