"""The memory of this process: what it may still take, when unused values are looked for, and how it is given back.

What Arrow and the C library free stays with the process, for they may want it again; after a large step that is several
hundred megabytes, in pieces that the next step's columns do not fit in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["COLLECTED_AFTER", "give_back", "keep_freed", "memory_left"]

COLLECTED_AFTER = (1_000_000, 50, 50)
"""When circles of unused values are looked for (``gc.set_threshold``).

Plans, and the classes of what is imported, are a million small values that live to the end: looking among them takes a
tenth of the time, and finds a few hundred. What is large, arrays and tables, is freed without it.
"""

_TRIM, _MAPPED = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h
_KEPT, _LARGE = 1 << 26, 1 << 25  # bytes; glibc takes no more than the second for what is mapped by itself


def keep_freed() -> None:
    """Keep what is freed for what is asked for next, up to 64 MB (glibc alone), until :func:`give_back`.

    Arrays of a block of rows are a megabyte each. As it begins, glibc gives each of them back to the system, and the
    system fills the next one with zeros again, page by page: several threads spend half their time on it.
    """
    if (mallopt := _of_c_library("mallopt")) is not None:
        mallopt(_MAPPED, _LARGE)
        mallopt(_TRIM, _KEPT)


def give_back() -> None:
    """Give back what is free: of Arrow, where it is loaded, and of the C library, where it can (glibc alone)."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    if (trim := _of_c_library("malloc_trim")) is not None:
        trim(0)


@cache
def _of_c_library(name: str) -> Any:
    """A function of the C library; None where it has none of this name, and on other systems than Linux."""
    import ctypes

    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


def memory_left(root: Path = Path("/")) -> int | None:
    """Bytes that this process may take beside what is in use: the least of machine and containers.

    Of the machine it is what Linux calls available, with free swap; of each control group around the process (of
    containers, services and batch jobs) its limit less what it uses and could not drop at once.

    Args:
        root: Where ``proc`` and ``sys`` are.

    Returns:
        None where nothing can be told, as on other systems than Linux.
    """
    return min((*_of_machine(root), *_of_groups(root)), default=None)


def _of_machine(root: Path) -> Iterator[int]:
    told = _numbers(root / "proc/meminfo")
    if "MemAvailable" in told:
        yield 1024 * (told["MemAvailable"] + told.get("SwapFree", 0))


def _of_groups(root: Path) -> Iterator[int]:
    """What is left to each control group that this process is in, whichever of the two layouts the machine has."""
    groups = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, kinds, path = (*line.split(":", 2), "", "")[:3]
        if not kinds:
            yield from _left(groups, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _left(groups / "memory", path, *names)


def _left(top: Path, path: str, limit: str, used: str, dropped: str) -> Iterator[int]:
    """Of a group and all above it; a container sees its own group as the top, whatever path it is told."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for depth in range(len(parts), -1, -1):
        folder = top.joinpath(*parts[:depth])
        with suppress(ValueError):  # no such file; or "max", which is no limit
            most, taken = int(_text(folder / limit)), int(_text(folder / used))
            yield max(0, most - taken + _numbers(folder / "memory.stat").get(dropped, 0))


def _numbers(path: Path) -> dict[str, int]:
    """The numbers of a file of lines such as ``name: 12 kB`` or ``name 12``."""
    found = {}
    for line in _text(path).splitlines():
        name, *rest = line.replace(":", " ").split()
        with suppress(ValueError, IndexError):
            found[name] = int(rest[0])
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
