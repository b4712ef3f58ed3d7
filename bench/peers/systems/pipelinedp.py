"""PipelineDP on its local backend, which was faster here than its Spark backend; a budget that its accountant divides.

Where every row is a person, it is told that contributions are bounded already, which spares it the sampling.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pipeline_dp
import pyarrow.parquet as pq

from bench.peers.answering import Asked, Phases, answer_with, write_answers
from bench.peers.works import CLIP, MOST_GROUPS, QUANTILES, Query, cells

_METRICS = {
    "count": [pipeline_dp.Metrics.COUNT],
    "sum": [pipeline_dp.Metrics.SUM],
    "mean": [pipeline_dp.Metrics.MEAN],
    "quantiles": [pipeline_dp.Metrics.PERCENTILE(round(100 * at)) for at in QUANTILES],
}


def _parameters(query: Query, bounded: bool) -> pipeline_dp.AggregateParams:
    clip = {} if query.kind == "count" else {"min_value": CLIP[0], "max_value": CLIP[1]}
    return pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        metrics=_METRICS[query.kind],
        max_partitions_contributed=MOST_GROUPS if bounded else 1,
        max_contributions_per_partition=1,
        contribution_bounds_already_enforced=not bounded,
        **clip,
    )


def _values(query: Query, found: Any) -> list[float]:
    named = found._asdict()
    if query.kind == "quantiles":
        return [named[f"percentile_{round(100 * at)}"] for at in QUANTILES]
    return [named[query.kind]]


def answer(asked: Asked, phases: Phases) -> None:
    """All aggregations are asked for before the budget is divided; results are lazy, and are taken one by one."""
    bounded = asked.work.bounded
    with phases("query"):
        table = pq.read_table(asked.file, columns=asked.work.columns)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        at = {name: place for place, name in enumerate(table.column_names)}
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=asked.epsilon, total_delta=asked.delta)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        results = {}
        for query in asked.work.queries:
            extractors = pipeline_dp.DataExtractors(
                privacy_id_extractor=itemgetter(at["user_id"]) if bounded else None,
                partition_extractor=itemgetter(*(at[column] for column in query.by)),
                value_extractor=itemgetter(at["income"]) if "income" in at else lambda row: 0,
            )
            keys = [cell if len(cell) > 1 else cell[0] for cell in cells(query)]
            results[query] = engine.aggregate(rows, _parameters(query, bounded), extractors, keys)
        accountant.compute_budgets()
    for query, result in results.items():
        with phases("query"):
            noisy = {key: _values(query, found) for key, found in result}
        with phases("write"):
            numbers = ((*cell, *noisy[cell if len(cell) > 1 else cell[0]]) for cell in cells(query))
            write_answers(asked.answers(query), query, numbers)


if __name__ == "__main__":
    answer_with(answer)
