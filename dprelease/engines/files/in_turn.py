"""Blocks and files of a source worked on by several threads at once, and handed on in their order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Event
from typing import TypeVar

__all__ = ["THREADS", "each_by_a_thread", "in_turn", "parts_in_turn"]

Item = TypeVar("Item")
Result = TypeVar("Result")
THREADS = min(4, os.cpu_count() or 1)
_AHEAD = 2


def in_turn(action: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS) -> Iterator[Result]:
    """What an action makes of every item, in order; a few are on the way at a time, so that memory stays small.

    Arrow and NumPy do the work of the project's actions, and both let other threads run meanwhile.

    >>> list(in_turn(str, range(3)))
    ['0', '1', '2']
    """
    if threads == 1:
        yield from map(action, items)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="dprelease-load") as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(action, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def parts_in_turn(parts: Iterable[Iterator[Result]], threads: int = THREADS) -> Iterator[Result]:
    """The items of several iterators, one iterator after the other; the first items of the next few are made meanwhile.

    Of each iterator that waits for its turn no more than `_AHEAD` items are there, so that memory stays small.

    >>> list(parts_in_turn([iter("abc"), iter(""), iter("de")]))
    ['a', 'b', 'c', 'd', 'e']
    """

    def some(part: Iterator[Result]) -> list[Result]:
        return list(islice(part, _AHEAD))

    left = iter(parts)
    with ThreadPoolExecutor(threads, thread_name_prefix="dprelease-files") as pool:
        waiting = deque((part, pool.submit(some, part)) for part in islice(left, threads + 1))
        while waiting:
            part, future = waiting.popleft()
            waiting.extend((later, pool.submit(some, later)) for later in islice(left, 1))
            made = future.result()
            while len(made) == _AHEAD:
                future = pool.submit(some, part)
                yield from made
                made = future.result()
            yield from made


def each_by_a_thread(
    action: Callable[[Iterator[Item]], Result], parts: Iterable[Iterable[Item]], threads: int = THREADS
) -> Iterator[Result]:
    """What an action makes of all items of each part, in the order of the parts; a part is gone through by one thread.

    The first error in that order is raised, and whoever stops asking stops all parts at their next item.

    >>> list(each_by_a_thread(sum, [[1, 2], [3]]))
    [3, 3]
    """
    stopped = Event()

    def until_stopped(part: Iterable[Item]) -> Iterator[Item]:
        for item in part:
            if stopped.is_set():
                return
            yield item

    with ThreadPoolExecutor(threads, thread_name_prefix="dprelease-parts") as pool:
        try:
            yield from pool.map(lambda part: action(until_stopped(part)), parts)
        finally:
            stopped.set()
