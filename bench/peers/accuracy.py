"""How far the answers of a run are from the truth, which DuckDB gives without privacy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow.csv as pv

from bench.peers.works import KEYS, MOST_GROUPS, Query, Work, raw_sql

__all__ = ["Truth", "errors", "truth_of"]

Numbers = npt.NDArray[np.float64]  # one row a cell, one column a number
_EMPTY = {"count": 0.0, "sum": 0.0, "mean": np.nan, "quantiles": np.nan}


@dataclass(frozen=True)
class Truth:
    """The exact numbers of every query of a work, cell by cell, and what a sample of each user's groups keeps of them.

    Attributes:
        exact: By query; NaN where a cell without rows has no such number.
        kept: The expected counts after users are bounded to a sample of their groups; empty where no unit is bounded.
    """

    exact: dict[str, Numbers]
    kept: dict[str, Numbers]


def _placed(query: Query, columns: dict[str, npt.NDArray[np.float64]], empty: float) -> Numbers:
    sizes = [KEYS[column] for column in query.by]
    found = np.full((int(np.prod(sizes)), len(query.columns)), empty)
    at = np.ravel_multi_index([columns[column].astype(np.int64) - 1 for column in query.by], sizes)
    found[at] = np.stack([columns[column].astype(np.float64) for column in query.columns], axis=1)
    return found


def truth_of(work: Work, data: Path) -> Truth:
    """From the file itself; it is made up, so that nobody is told of."""
    connection, file = duckdb.connect(), str(data / f"{work.table}.parquet")
    exact = {
        query.name: _placed(query, connection.sql(raw_sql(query, file)).fetchnumpy(), _EMPTY[query.kind])
        for query in work.queries
    }
    kept = {}
    if work.bounded:
        pairs = f"(SELECT DISTINCT user_id, county FROM read_parquet('{file}'))"
        chance = f"least(1, {MOST_GROUPS} / count(*) OVER (PARTITION BY user_id))"
        sql = f"SELECT county, sum(chance) AS value FROM (SELECT county, {chance} AS chance FROM {pairs}) GROUP BY 1"
        for query in work.queries:
            kept[query.name] = _placed(query, connection.sql(sql).fetchnumpy(), 0.0)
    return Truth(exact, kept)


def _answers(query: Query, out: Path) -> Numbers | None:
    """Of the one file that is named after the query; None where there is none. NaN: a cell that was not published."""
    paths = [path for path in out.rglob(f"{query.name}.csv") if path.parent.name != "measurements"]
    if not paths:
        return None
    (path,) = paths
    table = pv.read_csv(path)
    return _placed(query, {name: table[name].to_numpy() for name in table.column_names}, np.nan)


def _compared(pairs: list[tuple[Numbers, Numbers]]) -> Iterator[tuple[str, float]]:
    exact, noisy = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
    both = ~np.isnan(exact) & ~np.isnan(noisy)
    apart, nonzero = noisy[both] - exact[both], exact[both] != 0
    yield "cells", int((~np.isnan(exact)).sum())
    yield "missing", int((~np.isnan(exact) & np.isnan(noisy)).sum())
    yield "rmse", float(np.sqrt(np.mean(apart**2)))
    yield "relative", float(np.median(np.abs(apart[nonzero] / exact[both][nonzero])))


def errors(work: Work, out: Path, truth: Truth) -> dict[str, dict[str, float]]:
    """The errors of a run's files of answers, by kind of number.

    Returns:
        For each kind how many ``cells`` there are and how many are ``missing``, ``rmse``, the root of the mean squared
        error, and ``relative``, the median of the absolute relative error over cells whose true number is not zero. The
        kind ``kept`` compares the counts of bounded users with what a sample of their groups keeps.
    """
    found: dict[str, dict[str, float]] = {}
    answered = {query: noisy for query in work.queries if (noisy := _answers(query, out)) is not None}
    for kind in dict.fromkeys(query.kind for query in work.queries):
        pairs = [(truth.exact[query.name], noisy) for query, noisy in answered.items() if query.kind == kind]
        if pairs:
            found[kind] = dict(_compared(pairs))
    if truth.kept:
        found["kept"] = dict(_compared([(truth.kept[query.name], noisy) for query, noisy in answered.items()]))
    return found
