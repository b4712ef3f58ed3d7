"""Memory that nothing uses any more: when it is looked for, and how it is given back to the machine.

What Arrow and the C library free stays with the process, for they may want it again; after a large step that is several
hundred megabytes, in pieces that the next step's columns do not fit in.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

__all__ = ["COLLECTED_AFTER", "give_back"]

COLLECTED_AFTER = (1_000_000, 50, 50)
"""When circles of unused values are looked for (``gc.set_threshold``).

Plans, and the classes of what is imported, are a million small values that live to the end: looking among them takes a
tenth of the time, and finds a few hundred. What is large, arrays and tables, is freed without it.
"""


def give_back() -> None:
    """Give back what is free: of Arrow, where it is loaded, and of the C library, where it can (glibc alone)."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    if (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Any:
    """What gives back every whole page of the C library's that is free; None where there is nothing of the kind."""
    import ctypes

    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
