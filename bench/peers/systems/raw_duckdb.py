"""The queries in DuckDB without any privacy, one by one: what everything else is compared with."""

from __future__ import annotations

import duckdb

from bench.peers.answering import Asked, Phases, answer_with
from bench.peers.works import raw_sql


def answer(asked: Asked, phases: Phases) -> None:
    """Each query reads the file and writes its own."""
    with phases("start"):
        connection = duckdb.connect()
    with phases("query"):
        for query in asked.work.queries:
            connection.sql(raw_sql(query, str(asked.file))).write_csv(str(asked.answers(query)))


if __name__ == "__main__":
    answer_with(answer)
