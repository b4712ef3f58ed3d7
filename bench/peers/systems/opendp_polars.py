"""OpenDP's Context with Polars: one compositor, whose budget the queries divide evenly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import opendp.prelude as dp
import polars as pl

from bench.peers.answering import Asked, Phases, answer_with
from bench.peers.works import CLIP, GRID, MOST_GROUPS, QUANTILES, Query, cells

dp.enable_features("contrib")

_MOST_ROWS = 100_000_000  # a public bound on the file, which sums need so that they cannot overflow
_CANDIDATES = [float(value) for value in range(CLIP[0], CLIP[1] + 1, GRID)]


def _numbers(query: Query) -> list[Any]:
    income = pl.col("income").dp
    if query.kind == "quantiles":
        return [
            income.quantile(at, _CANDIDATES).alias(column) for at, column in zip(QUANTILES, query.columns, strict=True)
        ]
    return [{"count": dp.polars.dp_len(signed=True), "sum": income.sum(CLIP), "mean": income.mean(CLIP)}[query.kind]]


def _keys(query: Query, folder: Path) -> pl.LazyFrame:
    """The public keys as a file: a frame in memory would be copied at every step of OpenDP's search for a scale."""
    path = folder / f"{query.name}.keys.parquet"
    pl.DataFrame(list(cells(query)), schema=dict.fromkeys(query.by, pl.Int64), orient="row").write_parquet(path)
    return pl.scan_parquet(path)


def answer(asked: Asked, phases: Phases) -> None:
    """Every query is collected once, with its keys, which the keys' order sorts."""
    zcdp = asked.noise == "gaussian"
    loss = dp.loss_of(rho=asked.rho) if zcdp else dp.loss_of(epsilon=asked.epsilon)
    one_row, user = dp.unit_of(contributions=1), dp.unit_of(contributions=1, identifier=pl.col("user_id"))
    with phases("query"):
        context = dp.Context.compositor(
            data=pl.scan_parquet(asked.file),
            privacy_unit=user if asked.work.bounded else one_row,
            privacy_loss=loss,
            split_evenly_over=len(asked.work.queries),
            margins=[dp.polars.Margin(max_length=_MOST_ROWS)],
        )
    for query in asked.work.queries:
        with phases("query"):
            rows = context.query()
            if asked.work.bounded:
                rows = rows.truncate_per_group(1, by=list(query.by))
                # Its sample of groups (keep="sample", the default) is refused by version 0.16.0 itself.
                rows = rows.truncate_num_groups(MOST_GROUPS, by=list(query.by), keep="first")
            noisy = (
                rows.group_by(*query.by).agg(*_numbers(query)).with_keys(_keys(query, asked.out)).release().collect()
            )
        with phases("write"):
            noisy.columns = [*query.by, *query.columns]
            noisy.sort(query.by).write_csv(asked.answers(query))


if __name__ == "__main__":
    answer_with(answer)
