"""The part of ``docs/benchmarks.md`` about growth: the same results, the same text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.growth.results import AXES, Axis, Growth, Line
from dprelease.words import in_a_row

__all__ = ["FIGURE", "growth_parts"]

FIGURE = "benchmarks-growth.svg"
_DASH = "–"
_TITLES = {"rows": "Rows", "cells": "Cells"}
_HEAD = """\
How a release grows with its rows and its cells. Every act is the command itself in a process from scratch; CPU seconds
and the most memory are of it and all that it starts. `python -m bench.growth` measures it again.

![CPU seconds and memory of a release by its rows and by its cells, on logarithmic scales]({figure})

- **Rows**: `run --direct` of the works above, from Parquet files.
- **Cells**: `run --direct`, `publish` from the ledger onto the same bundle, and `verify`. *Table* is one count of
  {counted:,} rows by keys that have so many cells together, in CSV and Parquet. *Census* has the reconciled tables of
  four levels, from the nation to tracts, five of them at each level, with a row for about each cell, in CSV, Parquet
  and pages (`bench/census.py`); it has {census} cells."""


def growth_parts(growth: Growth) -> Iterator[str]:
    """The parts of the page, one after the other."""
    yield "## Growth"
    made = sorted({each["made"] for each in growth.told["runs"] if each["work"] == "census"})
    yield _HEAD.format(figure=FIGURE, counted=growth.told["counted"], census=in_a_row([f"{each:,}" for each in made]))
    for axis in AXES:
        yield f"### {_TITLES[axis]}"
        yield "\n".join(_table(growth.of(axis), axis))
    yield _machine(growth.told)


def _table(lines: tuple[Line, ...], axis: Axis) -> Iterator[str]:
    sizes = sorted({size for line in lines for size in line.cpu})
    named = [f"{size:,} {axis}" for size in sizes]
    yield f"| work | command | {' | '.join(f'{each}, CPU s | peak MiB' for each in named)} |"
    yield "|---|---" + "|--:" * (2 * len(sizes)) + "|"
    for line in lines:
        found = [text for size in sizes for text in (_told(line.cpu, size, ".2f"), _told(line.peak, size, ",.0f"))]
        yield f"| {line.work} | `{line.act}` | {' | '.join(found)} |"


def _told(numbers: Mapping[int, float], size: int, form: str) -> str:
    return format(numbers[size], form) if size in numbers else _DASH


def _machine(told: Mapping[str, object]) -> str:
    machine, versions, rounds = told["machine"], told["versions"], told["rounds"]
    assert isinstance(machine, dict)
    assert isinstance(versions, dict)
    packages = ", ".join(f"{name} {number}" for name, number in versions.items())
    busy = machine["load"] > machine["cores"] / 4
    warned = " **Other work kept the cores busy.**" if busy else ""
    often = "one round" if rounds == 1 else f"the least seconds and the most memory of {rounds} rounds"
    return (
        f"{told['day']}, {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}, Python {machine['python']}, {often}, load {machine['load']:g} before the first. "
        f"{packages}.{warned}"
    )
