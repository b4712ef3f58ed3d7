"""The figure of growth: seconds and memory by size, each axis by powers of ten, as an SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from bench.growth.results import AXES, Axis, Growth, Line
from bench.peers.figure import STYLE, text_at

__all__ = ["growth_figure"]

_WIDTH, _PANEL, _HEIGHT = 760, 372, 250
_LEFT, _TOP, _BOTTOM, _LABELS = 44, 26, 34, 92
_HUES = ("#0b5cad", "#c2410c", "#15803d", "#7c3aed", "#b45309", "#0e7490")
_NUMBERS = {"cpu": "CPU seconds", "peak": "MiB at the most"}
_HUED = "".join(f".hue{at}{{fill:{hue};stroke:{hue}}}" for at, hue in enumerate(_HUES))
_MORE = f"{_HUED}polyline{{stroke-width:1.6}}polyline.line{{fill:none}}text.end{{font-size:11px;stroke:none}}"


def _marks(values: Sequence[float]) -> range:
    """The powers of ten around the values."""
    return range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)


def _panel(lines: Sequence[Line], axis: Axis, number: str, left: float, top: float) -> Iterator[str]:
    numbers: list[Mapping[int, float]] = [getattr(line, number) for line in lines]
    across = _marks([size for each in numbers for size in each])
    up = _marks([value for each in numbers for value in each.values()])
    right, bottom = left + _PANEL - _LABELS, top + _HEIGHT - _BOTTOM

    def x(size: float) -> float:
        return left + _LEFT + (right - left - _LEFT) * (math.log10(size) - across[0]) / max(1, across[-1] - across[0])

    def y(value: float) -> float:
        return bottom - (bottom - top - _TOP) * (math.log10(value) - up[0]) / max(1, up[-1] - up[0])

    yield text_at(left + 8, top + 14, f"{_NUMBERS[number]} by {axis}", "head")
    for power in across:
        at = x(10.0**power)
        yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{y(10.0 ** up[-1]):.1f}" y2="{bottom:.1f}"/>'
        yield text_at(at + 12, bottom + 16, f"{10**power:,}", end=True)
    for power in up:
        at = y(10.0**power)
        yield f'<line class="grid" x1="{left + _LEFT:.1f}" x2="{right:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield text_at(left + _LEFT - 4, at + 4, f"{10.0**power:,.10g}", end=True)
    ends = _apart([y(each[max(each)]) for each in numbers])
    for at, (line, each) in enumerate(zip(lines, numbers, strict=True)):
        hue = f"hue{at % len(_HUES)}"
        points = " ".join(f"{x(size):.1f},{y(each[size]):.1f}" for size in sorted(each))
        yield f'<polyline class="line {hue}" points="{points}"/>'
        yield from (
            f'<circle cx="{x(size):.1f}" cy="{y(each[size]):.1f}" r="3" class="{hue}"/>' for size in sorted(each)
        )
        named = line.work if axis == "rows" else f"{line.work}, {line.act}"
        yield text_at(right + 8, ends[at] + 4, named, f"end {hue}")


def _apart(places: Sequence[float]) -> list[float]:
    """The places of labels, moved down until none stands on another one."""
    found, lowest = list(places), -math.inf
    for at in sorted(range(len(places)), key=places.__getitem__):
        found[at] = lowest = max(places[at], lowest + 12)
    return found


def growth_figure(growth: Growth) -> str:
    """Four panels: seconds above memory, rows beside cells."""
    parts: list[str] = []
    axes: list[Axis] = [axis for axis in AXES if growth.of(axis)]
    for row, number in enumerate(_NUMBERS):
        for column, axis in enumerate(axes):
            parts += _panel(growth.of(axis), axis, number, column * (_WIDTH - _PANEL), row * _HEIGHT)
    says = "CPU seconds and memory of a release by its rows and by its cells; the numbers are in the tables."
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {2 * _HEIGHT}" role="img">'
    return "\n".join([head, f"<title>{says}</title>", f"<style>{STYLE}{_MORE}</style>", *parts, "</svg>", ""])
