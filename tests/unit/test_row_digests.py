"""The sums of hashes that tell whether rows of a stretch of time are still the same, as the database adds them up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

import duckdb
import pytest

from dprelease.engines.row_digests import digest_query

KEY, DAY = "00" * 32, "2024-01-05"
MONTHS = [(date(2024, 1, 1), date(2024, 2, 1)), (date(2024, 2, 1), date(2024, 3, 1))]
Row = tuple[str | None, str | None, str]
Sums = dict[int, tuple[int, ...]]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as held:
        yield held


def sums(connection: duckdb.DuckDBPyConnection, rows: Sequence[Row], key: str = KEY) -> Sums:
    connection.execute("CREATE OR REPLACE TABLE t (a VARCHAR, b VARCHAR, day VARCHAR)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    found = connection.execute(digest_query("t", ["a", "b"], "day", MONTHS), [key]).fetchall()
    return {row[0]: tuple(map(int, row[1:])) for row in found}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("ab", "c", DAY)], [("a", "bc", DAY)]),
        ([("1", "1:x", DAY)], [("11:", "x", DAY)]),
        ([(None, "", DAY)], [("", None, DAY)]),
        ([(None, "x", DAY)], [("", "x", DAY)]),
        ([(None, "x", DAY)], [("-", "x", DAY)]),
        ([("a", "b", DAY), ("c", "d", DAY)], [("a", "d", DAY), ("c", "b", DAY)]),
        ([("a", "b", DAY)], [("a", "b", DAY), ("a", "b", DAY)]),
    ],
)
def test_other_rows_have_other_sums_wherever_one_text_ends(
    connection: duckdb.DuckDBPyConnection, one: list[Row], other: list[Row]
) -> None:
    assert sums(connection, one) != sums(connection, other)


def test_a_row_counts_in_the_month_of_its_day_alone(connection: duckdb.DuckDBPyConnection) -> None:
    days = ["2023-12-31", "2024-01-01", "2024-01-31", "2024-02-01", "2024-02-29", "2024-03-01"]
    found = sums(connection, [("a", "b", day) for day in days])
    assert {month: each[0] for month, each in found.items()} == {0: 2, 1: 2}


def test_a_hash_is_of_the_key_and_of_every_part_of_it(connection: duckdb.DuckDBPyConnection) -> None:
    """Without the key nobody may try rows out, and four parts of one hash are not the same part four times."""
    rows: list[Row] = [("a", "b", DAY), ("c", "d", DAY)]
    (found,), (other,) = sums(connection, rows).values(), sums(connection, rows, "11" * 32).values()
    assert found[0] == other[0] == 2
    assert not set(found[1:]) & set(other[1:])
    assert len(set(found[1:])) == 4
    assert sums(connection, rows[::-1]) == {0: found}
