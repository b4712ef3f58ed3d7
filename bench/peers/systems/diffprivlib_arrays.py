"""diffprivlib over NumPy arrays: its geometric mechanism on every total, and its own quantiles of every group.

It has no tables and no groups, so that both are made here. Its tools for sums and means take the size of a group for
public, which the other systems do not; its mechanisms, given the sensitivity of one row more or less, do not either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.parquet as pq
from diffprivlib import tools
from diffprivlib.mechanisms import Geometric

from bench.peers.answering import Asked, Phases, answer_with, write_answers
from bench.peers.works import CLIP, KEYS, QUANTILES, Query, cells

Arrays = dict[str, Any]


def _noisy(epsilon: float, sensitivity: int, exact: Any) -> list[int]:
    draw = Geometric(epsilon=epsilon, sensitivity=sensitivity).randomise
    return [draw(int(value)) for value in exact]


def _numbers(query: Query, columns: Arrays, epsilon: float) -> list[tuple[Any, ...]]:
    sizes = [KEYS[column] for column in query.by]
    at = np.ravel_multi_index([columns[column] - 1 for column in query.by], sizes)
    number = int(np.prod(sizes))
    if query.kind == "quantiles":
        income = columns["income"]
        groups = np.split(income[np.argsort(at, kind="stable")], np.cumsum(np.bincount(at, minlength=number))[:-1])
        return [tuple(tools.quantile(group, list(QUANTILES), epsilon=epsilon, bounds=CLIP)) for group in groups]
    counted = np.bincount(at, minlength=number)
    if query.kind == "count":
        return [(value,) for value in _noisy(epsilon, 1, counted)]
    # A float64 holds these totals exactly: whole numbers below 2^53.
    summed = np.bincount(at, weights=columns["income"], minlength=number)
    if query.kind == "sum":
        return [(value,) for value in _noisy(epsilon, CLIP[1], summed)]
    # A mean is the middle and the mean of what is left, which is half as sensitive.
    middle = sum(CLIP) // 2
    left = _noisy(epsilon / 2, CLIP[1] - middle, summed - middle * counted)
    pairs = zip(left, _noisy(epsilon / 2, 1, counted), strict=True)
    return [(middle + total / max(1, count),) for total, count in pairs]


def answer(asked: Asked, phases: Phases) -> None:
    """One read of the columns that are needed, then query by query."""
    with phases("query"):
        table = pq.read_table(asked.file, columns=asked.work.columns)
        columns = {name: table[name].to_numpy() for name in table.column_names}
        if "income" in columns:
            columns["income"] = columns["income"].clip(*CLIP)
    for query in asked.work.queries:
        with phases("query"):
            numbers = _numbers(query, columns, asked.each)
        with phases("write"):
            rows = ((*cell, *values) for cell, values in zip(cells(query), numbers, strict=True))
            write_answers(asked.answers(query), query, rows)


if __name__ == "__main__":
    answer_with(answer)
