"""What is worked out in a thread of its own while this one goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

__all__ = ["in_background"]

Result = TypeVar("Result")


def in_background(work: Callable[[], Result]) -> Future[Result]:
    """Begin it, and give what its result can be had from; whoever waits for none is not kept by it.

    >>> in_background(lambda: 6 * 7).result()
    42
    """
    future: Future[Result] = Future()

    def done() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised for whoever asks for the result
            future.set_exception(error)

    Thread(target=done, name="dprelease-background", daemon=True).start()
    return future
