"""Parts of a source that several threads go through: each by one, in their order, and no longer than they are wanted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.catalog.table import Column, Source, Table
from dprelease.engines.files import parquet
from dprelease.engines.files.in_turn import each_by_a_thread
from dprelease.engines.files.parquet import parquet_blocks, parquet_runs


def test_the_first_error_in_the_order_of_the_parts_is_raised_whichever_came_first() -> None:
    later_failed = threading.Event()

    def part(number: int) -> Iterator[int]:
        yield number
        if number == 1:
            assert later_failed.wait(10)
        if number == 2:
            later_failed.set()
        if number:
            raise ValueError(f"part {number}")

    found = each_by_a_thread(list, map(part, range(3)), 3)
    assert next(found) == [0]
    with pytest.raises(ValueError, match="part 1"):
        next(found)


def test_whoever_stops_asking_stops_every_part_at_its_next_item() -> None:
    """As an error in the part that is waited for does: no thread goes on through the rest of a source."""
    begun, left = threading.Event(), threading.Event()

    def endless() -> Iterator[int]:
        while True:
            begun.set()
            yield 1
            left.wait(0.001)

    found = each_by_a_thread(sum, [[1], endless(), endless()], 2)
    assert next(found) == 1
    assert begun.wait(10)
    found.close()  # type: ignore[attr-defined]  # a generator, which waits here for its threads
    assert not [each for each in threading.enumerate() if each.name.startswith("dprelease-parts")]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), min_size=1, max_size=6), threads=st.integers(1, 4)
)
def test_runs_of_row_groups_are_all_rows_once_and_about_as_long(
    sizes: list[tuple[int, int]], threads: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    paths, expected = [], list[int]()
    for number, (rows, group) in enumerate(sizes):
        paths.append(folder / f"t-{number}.parquet")
        numbers = range(len(expected), len(expected) + rows)
        expected += numbers
        pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), paths[-1], row_group_size=group)
    source = Source(file="t-*.parquet", format="parquet")
    table = Table(name="t", account="a", source=source, columns=(Column(name="n", type="integer"),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_FEW", 1)
        runs = parquet_runs(paths, threads)
    assert not runs or {at for run in runs for at, _ in run} == {*range(len(paths))}  # whatever its footer says
    longest_group = max((min(group, rows) for rows, group in sizes), default=0)
    assert bool(runs) == bool(expected and longest_group * threads <= len(expected))
    found = [
        [
            number
            for at, piece in run
            for (block,) in parquet_blocks(table, paths[at], ["n"], [], piece)
            for number in block.to_pylist()
        ]
        for run in runs
    ]
    assert [number for run in found for number in run] == (expected if runs else [])
    share = len(expected) / (2 * threads)
    assert all(len(run) <= 2 * share + longest_group for run in found)


@settings(max_examples=40, deadline=None)
@given(said=st.lists(st.lists(st.integers(-50, 500), min_size=3, max_size=3), min_size=4, max_size=4))
def test_every_row_is_read_once_whatever_footers_say_of_their_numbers(
    said: list[list[int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Numbers of rows that are too large, too small, or none: a file whose footer denies its rows is read as well."""
    folder = tmp_path_factory.mktemp("said")
    paths = [folder / f"t-{number}.parquet" for number in range(4)]
    for number, path in enumerate(paths):
        pq.write_table(pa.table({"n": range(30 * number, 30 * number + 30)}), path, row_group_size=10)
    source = Source(file="t-*.parquet", format="parquet")
    table = Table(name="t", account="a", source=source, columns=(Column(name="n", type="integer"),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_FEW", 1)
        patch.setattr(parquet, "_rows_of_groups", lambda path: said[paths.index(path)])
        pieces = [each for run in parquet_runs(paths, 2) for each in run]
    found = [
        row
        for at, piece in pieces
        for (block,) in parquet_blocks(table, paths[at], ["n"], [], piece)
        for row in block.to_pylist()
    ]
    assert sorted(found) == (list(range(120)) if pieces else [])


def test_few_rows_have_no_runs(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(1000)}), tmp_path / "t.parquet", row_group_size=10)
    assert parquet_runs([tmp_path / "t.parquet"], 2) == []
