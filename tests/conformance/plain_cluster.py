"""A cluster in this process: what the Spark engine asks of Spark, with everything sent as bytes, and no Java.

It stands in for ``SparkContext`` where the laws of engines are tried with many examples. That Spark itself does the same
is tried in ``test_spark.py``, on fewer.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

__all__ = ["PlainCluster"]


class PlainCluster:
    """A context of so many cores.

    Args:
        cores: How many parts are wanted.
        again: Whether every task is done twice, and its second outcome is taken, as when a machine is lost.
    """

    def __init__(self, cores: int = 3, *, again: bool = False) -> None:
        self.defaultParallelism = cores
        self.again = again
        self.jobs = 0  # how often rows were read
        self.read: list[list[int]] = []  # the parts that were read of what is kept
        self.at_once = 0  # the most of these jobs that ran beside one another
        self._running = 0

    def parallelize(self, items: Sequence[Any], parts: int) -> _Parts:
        """One part for each item, as the engine asks for it; one without any where there is none."""
        assert parts == max(1, len(items))
        self.jobs += 1
        return _Parts([[_sent(item)] for item in items] or [[]], self.again)

    def runJob(  # noqa: N802 - Spark's name
        self, parts: _Parts, action: Callable[[Iterable[Any]], Iterator[Any]], places: Sequence[int]
    ) -> list[Any]:
        """What some of the parts come to."""
        self.read.append(list(places))
        self._running += 1
        self.at_once = max(self.at_once, self._running)
        try:
            return _Parts([parts.items(place) for place in places], self.again).mapPartitions(action).collect()
        finally:
            self._running -= 1


class _Parts:
    def __init__(self, parts: list[list[Any]], again: bool) -> None:
        self._parts, self._again = parts, again

    def mapPartitions(self, action: Callable[[Iterable[Any]], Iterator[Any]]) -> _Parts:  # noqa: N802 - Spark's name
        return self.mapPartitionsWithIndex(lambda _, items: _sent(action)(items))

    def mapPartitionsWithIndex(self, action: Callable[[int, Iterable[Any]], Iterator[Any]]) -> _Parts:  # noqa: N802 - Spark's name
        done = []
        for at, items in enumerate(self._parts):
            for _ in range(1 + self._again):
                outcome = [_sent(each) for each in action(at, iter(items))]
            done.append(outcome)
        return _Parts(done, self._again)

    def partitionBy(self, parts: int, place: Callable[[Any], int]) -> _Parts:  # noqa: N802 - Spark's name
        shuffled: list[list[Any]] = [[] for _ in range(parts)]
        for items in reversed(self._parts):  # in which order they arrive says nothing
            for key, value in items:
                shuffled[place(key) % parts].append((key, value))
        return _Parts(shuffled, self._again)

    def unpersist(self) -> None:
        self._parts.clear()

    def items(self, place: int) -> list[Any]:
        return self._parts[place]

    def collect(self) -> list[Any]:
        return [item for items in self._parts for item in items]


def _sent(item: Any) -> Any:
    """What arrives of something that is sent to another process."""
    return pickle.loads(pickle.dumps(item))
