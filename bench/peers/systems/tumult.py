"""Tumult Analytics on Spark in this machine: pure noise for one query, and zero-concentrated privacy for twenty.

Shuffles have as many partitions as the machine has cores, for Spark's own 200 are meant for a cluster.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddOneRow,
    AddRowsWithID,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    PureDPBudget,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)

from bench.peers.answering import Asked, Phases, answer_with, write_answers
from bench.peers.works import CLIP, KEYS, MOST_GROUPS, QUANTILES, Query


def _spark(out: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    cores = str(os.cpu_count())
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.driver.memory", "8g")
    builder = builder.config("spark.sql.shuffle.partitions", cores).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.warehouse.dir", str(out.resolve() / "warehouse"))
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _asked(query: Query, bounded: bool) -> list[Any]:
    """The query, or one for each rank."""
    begun = QueryBuilder("rows")
    if bounded:
        column = query.by[0]
        begun = begun.enforce(MaxGroupsPerID(column, MOST_GROUPS)).enforce(MaxRowsPerGroupPerID(column, 1))
    keys = KeySet.from_dict({column: list(range(1, KEYS[column] + 1)) for column in query.by})
    groups = begun.groupby(keys)
    if query.kind == "count":
        return [groups.count(name="value")]
    if query.kind == "sum":
        return [groups.sum("income", *CLIP, name="value")]
    if query.kind == "mean":
        return [groups.average("income", *CLIP, name="value")]
    return [groups.quantile("income", at, *CLIP, name="value") for at in QUANTILES]


def answer(asked: Asked, phases: Phases) -> None:
    """One session, whose budget the queries divide evenly."""
    with phases("start"):
        spark = _spark(asked.out)
    bounded = asked.work.bounded
    zcdp = asked.noise == "gaussian"
    budget, whole = (RhoZCDPBudget, asked.rho) if zcdp else (PureDPBudget, asked.epsilon)
    with phases("query"):
        session = Session.from_dataframe(
            budget(whole),
            "rows",
            spark.read.parquet(str(asked.file)).select(*asked.work.columns),
            protected_change=AddRowsWithID("user_id") if bounded else AddOneRow(),
        )
    for query in asked.work.queries:
        with phases("query"):
            parts = _asked(query, bounded)
            part = budget(whole / len(asked.work.queries) / len(parts))
            noisy: dict[tuple[int, ...], list[float]] = {}
            for each in parts:
                for row in session.evaluate(each, part).collect():
                    noisy.setdefault(tuple(row[column] for column in query.by), []).append(row["value"])
        with phases("write"):
            write_answers(asked.answers(query), query, ((*cell, *noisy[cell]) for cell in sorted(noisy)))


if __name__ == "__main__":
    answer_with(answer)
