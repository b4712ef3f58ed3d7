"""Blocks of a source worked on by several threads at once, and handed on in their order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["in_turn"]

Item = TypeVar("Item")
Result = TypeVar("Result")
_THREADS = min(4, os.cpu_count() or 1)


def in_turn(action: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """What an action makes of every item, in order; a few are on the way at a time, so that memory stays small.

    Arrow and NumPy do the work of the project's actions, and both let other threads run meanwhile.

    >>> list(in_turn(str, range(3)))
    ['0', '1', '2']
    """
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="dprelease-load") as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(action, item))
            if len(waiting) > _THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
