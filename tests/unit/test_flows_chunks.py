"""How batches become tasks: every step once, in order, of one table, few tasks, and no thread out of work early."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dprelease.flows.run_context import LARGEST, chunks


def batch(table: str, *queries: str) -> Any:
    steps = tuple(SimpleNamespace(answers=(SimpleNamespace(query=query),)) for query in queries)
    return SimpleNamespace(table=table, steps=steps, piece=None)


def test_a_thousand_queries_by_different_columns_are_few_tasks_that_become_smaller() -> None:
    sizes = [chunk.size for chunk in chunks([batch("persons", f"q{k}") for k in range(1000)], threads=4)]
    assert len(sizes) == 37
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == LARGEST


@given(st.integers(1, 1200), st.integers(2, 8))
def test_threads_of_one_speed_end_within_five_steps_of_each_other(queries: int, threads: int) -> None:
    cut = chunks([batch("persons", f"q{k}") for k in range(queries)], threads)
    ends = [0] * threads
    for chunk in cut:  # whoever is free takes the next one
        ends[ends.index(min(ends))] += chunk.size
    assert max(ends) - min(ends) <= 5


def test_few_batches_keep_every_thread_busy() -> None:
    assert len(chunks([batch("persons", f"q{k}") for k in range(6)], threads=4)) >= 4
    assert len(chunks([batch("persons", "a", "b"), batch("persons", "c")], threads=4)) == 2
    assert len(chunks([batch("persons", *"abcdefgh")], threads=4)) == 1
    assert chunks([], threads=4) == ()


def test_a_label_names_the_table_and_some_queries_and_is_of_one_chunk_only() -> None:
    cut = chunks([batch("persons", f"q{k}", f"q{k}") for k in range(60)], threads=1)
    assert cut[0].label == "persons: q0, q1, q2, ..."
    same = chunks([batch("persons", *["wide"] * 50), batch("persons", *["wide"] * 50)], threads=2)
    assert [chunk.label for chunk in same] == ["persons: wide #1", "persons: wide #2"]
    (long,) = chunks([batch("persons", "x" * 90)], threads=1)
    assert long.label == "persons: " + "x" * 40 + "..."


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 120)), max_size=80),
    st.integers(1, 8),
)
def test_nothing_is_lost_or_moved(sizes: list[tuple[str, int]], threads: int) -> None:
    batches = [batch(table, *[f"{table}{k}"] * size) for k, (table, size) in enumerate(sizes)]
    cut = chunks(batches, threads)
    assert [each for chunk in cut for each in chunk.batches] == batches
    assert len(cut) >= min(threads, len(batches))
    assert len({chunk.label for chunk in cut}) == len(cut)
    for chunk in cut:
        assert len({each.table for each in chunk.batches}) == 1
        assert chunk.size <= LARGEST or len(chunk.batches) == 1
