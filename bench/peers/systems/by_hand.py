"""Exact answers from DuckDB, and noise from OpenDP's own mechanisms.

It is what a careful programmer writes without a library that knows queries. Bounds, keys, sensitivities and the
division of the budget are the programmer's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import opendp.prelude as dp

from bench.peers.answering import Asked, Phases, answer_with, write_answers
from bench.peers.works import CLIP, GRID, KEYS, MOST_GROUPS, QUANTILES, Query, bounded_rows

dp.enable_features("contrib")

Rows = list[tuple[int, ...]]
_MIDDLE = sum(CLIP) // 2  # a mean is this and the mean of what is left, which is half as sensitive
_INCOME = f"least(greatest(income, {CLIP[0]}), {CLIP[1]})"
_NUMBERS = {"count": ["count(*)"], "sum": [f"sum({_INCOME})"], "mean": [f"sum({_INCOME} - {_MIDDLE})", "count(*)"]}


def _keys(by: Sequence[str]) -> str:
    spans = [f"(SELECT unnest(range(1, {KEYS[column] + 1})) AS {column})" for column in by]
    return f"(SELECT * FROM {' CROSS JOIN '.join(spans)})"


def _table(asked: Asked) -> str:
    """Rows of which every unit has as many as the sensitivities below say, and no more."""
    if not asked.work.bounded:
        return f"read_parquet('{asked.file}')"
    return bounded_rows(str(asked.file))


def _totals(connection: duckdb.DuckDBPyConnection, asked: Asked, query: Query) -> Rows:
    """A row for each cell: its keys, then its exact totals."""
    totals = [f"CAST({total} AS BIGINT) AS total{at}" for at, total in enumerate(_NUMBERS[query.kind])]
    names = [f"coalesce(total{at}, 0)" for at in range(len(totals))]
    by = ", ".join(query.by)
    rows = f"(SELECT {by}, {', '.join(totals)} FROM {_table(asked)} GROUP BY {by})"
    sql = f"SELECT {by}, {', '.join(names)} FROM {_keys(query.by)} LEFT JOIN {rows} USING ({by}) ORDER BY {by}"
    found: Rows = connection.sql(sql).fetchall()
    return found


def _added(asked: Asked, largest: int, parts: int) -> Callable[[list[int]], list[int]]:
    """What adds noise to totals of which one row moves one, by ``largest``; a query of several has as many parts.

    A unit that is in many cells moves as many.
    """
    moved = MOST_GROUPS if asked.work.bounded else 1
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if asked.noise == "gaussian":
        rho = asked.rho / len(asked.work.queries) / parts
        scale = largest * math.sqrt(moved / (2 * rho))
        return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale)  # type: ignore[no-any-return]
    return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), largest * moved * parts / asked.each)  # type: ignore[no-any-return]


def _numbers(asked: Asked, query: Query, exact: Rows) -> list[list[Any]]:
    keys, parts = len(query.by), len(_NUMBERS[query.kind])
    largest = {"count": [1], "sum": [CLIP[1]], "mean": [CLIP[1] - _MIDDLE, 1]}[query.kind]
    noisy = [_added(asked, most, parts)([row[keys + at] for row in exact]) for at, most in enumerate(largest)]
    values = noisy[0] if parts == 1 else [_MIDDLE + total / max(1, count) for total, count in zip(*noisy, strict=True)]
    return [[*row[:keys], value] for row, value in zip(exact, values, strict=True)]


def _candidates(connection: duckdb.DuckDBPyConnection, asked: Asked, query: Query) -> dict[tuple[int, ...], list[int]]:
    """For each cell how many incomes are at each multiple of the grid, or above it and below the next one."""
    by, bins = ", ".join(query.by), (CLIP[1] - CLIP[0]) // GRID + 1
    sql = f"SELECT {by}, ({_INCOME} - {CLIP[0]}) // {GRID} AS bin, count(*) FROM {_table(asked)} GROUP BY ALL"
    found = {row: [0] * bins for row in connection.sql(f"SELECT * FROM {_keys(query.by)} ORDER BY ALL").fetchall()}
    for *cell, at, count in connection.sql(sql).fetchall():
        if tuple(cell) in found:
            found[tuple(cell)][at] = count
    return found


def _quantiles(asked: Asked, cells: dict[tuple[int, ...], list[int]]) -> list[list[Any]]:
    """The candidate with the least noisy score, for each cell and rank.

    A score is how far (1 - a) times what is below a candidate is from a times the rest of its cell, at rank a.
    In quarters of a row the score is whole, and one row moves all scores of a cell by at most three of them, some up
    and some down.
    """
    parts = len(QUANTILES)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=False)
    gaussian = asked.noise == "gaussian"
    measure = dp.zero_concentrated_divergence() if gaussian else dp.max_divergence()
    part = (asked.rho / len(asked.work.queries) if gaussian else asked.each) / parts
    draw = dp.binary_search_chain(lambda scale: dp.m.make_noisy_max(*space, measure, scale, negate=True), 3, part)
    rows = []
    for cell, counts in cells.items():
        total, below, seen = sum(counts), [], 0
        for count in counts:
            below.append(seen)
            seen += count
        ranks = [round(4 * at) for at in QUANTILES]
        chosen = [draw([abs((4 - rank) * b - rank * (total - b)) for b in below]) for rank in ranks]
        rows.append([*cell, *(CLIP[0] + GRID * at for at in chosen)])
    return rows


def answer(asked: Asked, phases: Phases) -> None:
    """One statement and one call of a mechanism per query."""
    with phases("start"):
        connection = duckdb.connect()
    for query in asked.work.queries:
        with phases("query"):
            if query.kind == "quantiles":
                rows = _quantiles(asked, _candidates(connection, asked, query))
            else:
                rows = _numbers(asked, query, _totals(connection, asked, query))
        with phases("write"):
            write_answers(asked.answers(query), query, rows)


if __name__ == "__main__":
    answer_with(answer)
