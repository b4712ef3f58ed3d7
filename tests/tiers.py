"""What keeps ``make test`` short and steady; ``tests/README.md`` says what each command runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

__all__ = ["FAST", "covering", "few", "steady_examples", "thin_out"]

FAST = 20
"""The most examples of a property in ``make test``."""


def few(examples: int) -> int:
    """So many examples in ``make test-all`` and ``make nightly``, and at most FAST of them in ``make test``."""
    return min(examples, FAST) if settings().max_examples == FAST else examples


def steady_examples() -> None:
    """Let the examples of a property depend on the property alone.

    Hypothesis takes one number in twenty from the source of whatever modules of ours happen to be loaded. Those are
    others in every worker, and others after every change of the package, so that even derandomized examples would vary.
    """
    providers._get_local_constants = lambda: providers._local_constants


def thin_out(items: Iterable[pytest.Item]) -> None:
    """Mark as slow all but a few cases of every test that is marked ``thin``: each value of each parameter stays."""
    grids: dict[str, list[pytest.Function]] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if isinstance(item, pytest.Function) and "thin" in marks and not marks & {"slow", "nightly"}:
            grids.setdefault(item.nodeid.split("[")[0], []).append(item)
    for grid in grids.values():
        kept = covering([{(name, repr(value)) for name, value in item.callspec.params.items()} for item in grid])
        for at, item in enumerate(grid):
            if at not in kept:
                item.add_marker("slow")


def covering(cases: Sequence[AbstractSet[Hashable]]) -> set[int]:
    """Cases that together have every value of all of them: first those in which most values are new.

    >>> sorted(covering([{"a", 1}, {"a", 2}, {"b", 1}, {"b", 2}, {"b", 3}]))
    [0, 3, 4]
    """
    kept, seen = set[int](), set[Hashable]()
    for wanted in range(max(map(len, cases), default=0), 0, -1):
        for at, case in enumerate(cases):
            if len(case - seen) >= wanted:
                kept.add(at)
                seen |= case
    return kept
