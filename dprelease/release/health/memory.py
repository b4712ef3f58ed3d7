"""Is there memory for a release? What this process may still take, of the machine and of its container.

It is asked before a release is charged. A release that is charged and then ends for want of memory has lost nothing:
its draws are kept, and a machine with more memory goes on with it. But whoever has none could never publish it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dprelease.errors import PlanError
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.memory import Memory, memory_of

__all__ = ["memory_lacking", "memory_left", "require_memory"]

_MB = 10**6


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


def memory_lacking(plan: ReleasePlan, left: int | None) -> str:
    """What of a release takes more memory than there is, in words; empty: nothing, or nothing is known.

    Args:
        plan: Whose draws and tables are told by public numbers alone; rows are not, and come on top.
        left: Bytes, as of :func:`memory_left`.
    """
    needed: Memory = memory_of(plan)
    if left is None or not needed.is_large or max(needed.draw, needed.publish) * _MB <= left:
        return ""
    what = "publish it" if needed.publish >= needed.draw else "draw its largest answers"
    most = max(needed.draw, needed.publish)
    return f"it takes about {most / 1000:.1f} GB to {what}, and this process may take {left / _MB / 1000:.1f} GB"


def require_memory(plan: ReleasePlan, left: int | None) -> None:
    """Refuse a release, before it is charged, whose draws or tables take more memory than there is.

    Raises:
        PlanError: Says how much it takes and how much there is (DPR-P342).
    """
    if says := memory_lacking(plan, left):
        raise PlanError(
            f"{plan.release.name}/{plan.release.period}: {says}",
            detail="nothing was charged, and no row was read",
            hint="run it on a machine, or in a container, with more memory; or publish fewer tables, keys or levels, "
            "or fewer formats (`publish: {formats: [csv]}`); `dprelease plan` says what is taken",
            code="DPR-P342",
        )
