"""The queries in Polars without any privacy, all of them given at once so that it may share what they read."""

from __future__ import annotations

import polars as pl

from bench.peers.answering import Asked, Phases, answer_with
from bench.peers.works import CLIP, QUANTILES, Query


def _numbers(query: Query) -> list[pl.Expr]:
    clipped = pl.col("income").clip(*CLIP)
    if query.kind == "quantiles":
        return [
            clipped.quantile(at, interpolation="equiprobable").alias(column)
            for at, column in zip(QUANTILES, query.columns, strict=True)
        ]
    return [{"count": pl.len(), "sum": clipped.sum(), "mean": clipped.mean()}[query.kind].alias("value")]


def answer(asked: Asked, phases: Phases) -> None:
    """One plan of all queries."""
    with phases("query"):
        rows = pl.scan_parquet(asked.file)
        tables = pl.collect_all(
            [rows.group_by(query.by).agg(_numbers(query)).sort(query.by) for query in asked.work.queries]
        )
    with phases("write"):
        for query, table in zip(asked.work.queries, tables, strict=True):
            table.write_csv(asked.answers(query))


if __name__ == "__main__":
    answer_with(answer)
