"""Medians and spreads of kept results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers.table import COMPARED, SYSTEMS

__all__ = ["Results", "Summary", "read_results"]


@dataclass(frozen=True)
class Summary:
    """What one system took for one work, over its runs.

    Attributes:
        runs: How often it ran.
        wall: The median of its seconds from start to end.
        spread: The least and the largest of them.
        cpu: The median of its processor seconds.
        inside: The median of its seconds for queries and files.
        inside_cpu: The median of its processor seconds in these; None where they are not known.
        peak: The largest of its memory, MiB.
        ratios: For ``wall``, ``cpu``, ``inside`` and ``inside_cpu`` the median over rounds of the seconds to those of
            what the work is compared with (``table.COMPARED``) in the same round; nothing where that did not run.
        errors: Medians over runs, by kind of number.
    """

    runs: int
    wall: float
    spread: tuple[float, float]
    cpu: float
    inside: float
    inside_cpu: float | None
    peak: float
    ratios: Mapping[str, float]
    errors: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Results:
    """One file of results: what was said about all of it, the summaries, and why some are missing."""

    told: Mapping[str, Any]
    summaries: Mapping[tuple[str, str], Summary]
    reasons: Mapping[tuple[str, str], str]

    @property
    def rows(self) -> int:
        """How many rows a file had."""
        return int(self.told["rows"])


def _summary(runs: Sequence[Mapping[str, Any]], raw: Mapping[int, Mapping[str, Any]]) -> Summary:
    walls = [each["wall"] for each in runs]
    paired = {
        name: [each[name] / raw[each["round"]][name] for each in runs if each["round"] in raw and _known(each, name)]
        for name in ("wall", "cpu", "inside", "inside_cpu")
    }
    inside_cpu = [each["inside_cpu"] for each in runs if _known(each, "inside_cpu")]
    return Summary(
        runs=len(runs),
        wall=median(walls),
        spread=(min(walls), max(walls)),
        cpu=median(each["cpu"] for each in runs),
        inside=median(each["inside"] for each in runs),
        inside_cpu=median(inside_cpu) if inside_cpu else None,
        peak=max(each["peak"] for each in runs),
        ratios={name: median(found) for name, found in paired.items() if found},
        errors={
            kind: {name: median(each["errors"][kind][name] for each in runs) for name in told}
            for kind, told in runs[0]["errors"].items()
        },
    )


def _known(run: Mapping[str, Any], name: str) -> bool:
    """Whether a run tells this number; the processor seconds of a process that only asks another one tell nothing."""
    return name in run and not (name == "inside_cpu" and SYSTEMS[run["system"]].elsewhere)


def read_results(path: Path) -> Results:
    """A file that a run left."""
    told = json.loads(path.read_text(encoding="utf-8"))
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in told["runs"]:
        grouped.setdefault((each["work"], each["system"]), []).append(each)
    raw = {work: {each["round"]: each for each in grouped.get((work, name), [])} for work, name in COMPARED.items()}
    reasons = {(each["work"], each["system"]): each["reason"] for each in told["stopped"]}
    for system in SYSTEMS.values():
        reasons |= {(work, system.name): reason for work, reason in system.cannot.items()}
    return Results(told, {key: _summary(runs, raw[key[0]]) for key, runs in grouped.items()}, reasons)
