"""What keeps ``make test`` short and steady; ``tests/README.md`` says what each command runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

__all__ = ["FAST", "LONGEST", "covering", "few", "longest_first", "steady_examples", "thin_out"]

FAST = 15
"""The most examples of a property in ``make test``."""
LONGEST = ("test_the_clock_releases_every_period_once_whatever_is_killed",)
"""What waits for two minutes, while other workers have work: were it begun last, they would wait for it."""


def few(examples: int, fast: int = FAST) -> int:
    """So many examples of a property in ``make test-all`` and ``make nightly``, and in ``make test`` no more than fast."""
    return min(examples, fast) if settings().max_examples == FAST else examples


def steady_examples() -> None:
    """Let the examples of a property depend on the property alone.

    Hypothesis takes one number in twenty from the source of whatever modules of ours happen to be loaded. Those are
    others in every worker, and others after every change of the package, so that even derandomized examples would vary.
    """
    providers._get_local_constants = lambda: providers._local_constants


def longest_first(items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest; all others keep their order."""
    items.sort(key=lambda item: item.name not in LONGEST)


def thin_out(items: Iterable[pytest.Item]) -> None:
    """Mark most cases of every test that is marked ``thin`` as slow.

    With ``thin(first=n)`` the first n of them stay in ``make test``, with ``thin(every=n)`` the first one and every
    n-th after it, otherwise as many as it takes that every value of every parameter stays there.
    """
    grids: dict[str, list[pytest.Function]] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if isinstance(item, pytest.Function) and "thin" in marks and not marks & {"slow", "nightly"}:
            grids.setdefault(item.nodeid.split("[")[0], []).append(item)
    for grid in grids.values():
        (mark,) = grid[0].iter_markers("thin")
        kept = chosen(mark, grid)
        for at, item in enumerate(grid):
            if at not in kept:
                item.add_marker("slow")


def chosen(mark: pytest.Mark, grid: Sequence[pytest.Function]) -> Collection[int]:
    """The places of the cases that stay in ``make test``."""
    if mark.kwargs:
        ((rule, number),) = mark.kwargs.items()
        return {"first": range(number), "every": range(0, len(grid), number)}[rule]
    return covering([[(name, repr(value)) for name, value in item.callspec.params.items()] for item in grid])


def covering(cases: Sequence[Sequence[Hashable]]) -> set[int]:
    """Cases that together have every value of all of them, no value much more often than another.

    >>> sorted(covering([("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3)]))
    [0, 2, 4]
    """
    places: dict[Hashable, list[int]] = {}
    for at, case in enumerate(cases):
        for value in case:
            places.setdefault(value, []).append(at)
    kept, uses = set[int](), Counter[Hashable]()
    for value, having in places.items():
        if not uses[value]:
            chosen = min(having, key=lambda at: sum(uses[each] for each in cases[at]))
            kept.add(chosen)
            uses.update(cases[chosen])
    return kept
