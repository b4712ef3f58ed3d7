"""What was kept of the runs, and the least that each act took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["ACTS", "AXES", "RESULTS", "Axis", "Growth", "Line", "read_growth"]

RESULTS = Path(__file__).parent / "results.json"
Axis = Literal["rows", "cells"]
AXES: tuple[Axis, ...] = ("rows", "cells")
ACTS = ("run", "publish", "verify")


@dataclass(frozen=True)
class Line:
    """One act of one work, as it grows.

    Attributes:
        axis: What grows.
        work: The name of the work.
        act: The command.
        cpu: By size, the least processor seconds of the rounds.
        peak: By size, the largest memory of them in MiB.
    """

    axis: Axis
    work: str
    act: str
    cpu: Mapping[int, float]
    peak: Mapping[int, float]


@dataclass(frozen=True)
class Growth:
    """All that was kept: what was said about all of it, and the lines in the order in which they were run."""

    told: Mapping[str, Any]
    lines: tuple[Line, ...]

    def of(self, axis: Axis) -> tuple[Line, ...]:
        """The lines of what grows."""
        return tuple(line for line in self.lines if line.axis == axis)


def read_growth(path: Path = RESULTS) -> Growth:
    """The file that the runs left."""
    told = json.loads(path.read_text(encoding="utf-8"))
    lines: dict[tuple[str, str, str], Line] = {}
    for each in told["runs"]:
        key = (each["axis"], each["work"], each["act"])
        line = lines.setdefault(key, Line(*key, {}, {}))
        cpu, peak, size = dict(line.cpu), dict(line.peak), each["size"]
        cpu[size] = min(cpu.get(size, each["cpu"]), each["cpu"])
        peak[size] = max(peak.get(size, each["peak"]), each["peak"])
        lines[key] = Line(*key, cpu, peak)
    return Growth(told, tuple(lines.values()))
