"""A drawing as an SVG file: no script, no network, a text alternative, readable in light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from html import escape

from dprelease.attacks.base import Drawing
from dprelease.publish.numbers import round_step

__all__ = ["svg_of"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 420, 70, 620, 50, 330
_COLOURS = (
    "#1b6ca8",
    "#b3541e",
    "#2d7d46",
    "#7a3e9d",
    "#555555",
)  # each at least 3 to 1 on white and, but for the last two, on the dark paper
_STYLE = (
    "text{font:13px sans-serif;fill:#222}.title{font-weight:bold}.paper{fill:#fff}.grid{stroke:#ddd}.axis{stroke:#666}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.paper{fill:#16181c}.grid{stroke:#444}.axis{stroke:#aaa}}"
)


class _Axis:
    """Numbers to places between two ends of a drawing."""

    def __init__(self, numbers: Iterable[float], first: float, last: float, *, powers: bool) -> None:
        self._powers, self._first, self._last = powers, first, last
        values = [self._scaled(each) for each in numbers]
        low, high = min(values), max(values)
        if high == low:
            low, high = low - 1, high + 1
        step = 1.0 if powers else round_step(high - low)
        self._low, self._high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
        count = round((self._high - self._low) / step)
        self._places = max(0, math.ceil(-math.log10(step) - 1e-9)) + (step < 1 and step * 4 % 1 == 0 and step < 0.5)
        self._ticks = [self._low + k * step for k in range(count + 1)]

    def _scaled(self, number: float) -> float:
        return math.log10(number) if self._powers else number

    def place(self, number: float) -> float:
        """Where a number is."""
        part = (self._scaled(number) - self._low) / (self._high - self._low)
        return self._first + part * (self._last - self._first)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places and texts of round numbers."""
        if self._powers:
            return [(self.place(10**each), f"{10**each:,.10g}") for each in self._ticks]
        return [(self.place(each), f"{each:,.{self._places}f}") for each in self._ticks]


def svg_of(drawing: Drawing) -> str:
    """The drawing as the text of an SVG file; the same drawing gives the same text.

    Raises:
        ValueError: It has no points, or one at or below zero on an axis of powers.
    """
    points = [point for series in drawing.series for point in series.points]
    across = _Axis((x for x, _ in points), _LEFT, _RIGHT, powers=drawing.powers_across)
    up = _Axis((y for _, y in points), _BOTTOM, _TOP, powers=drawing.powers_up)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(drawing.title)}</title><desc>{escape(drawing.says)}</desc><style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" class="paper"/>',
        f'<text x="{_LEFT}" y="20" class="title">{escape(drawing.title)}</text>',
        f'<text x="{_LEFT}" y="{_TOP - 10}">{escape(drawing.up)}</text>',
    ]
    for y, text in up.ticks:
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    lines.append(f'<line class="axis" x1="{_LEFT}" x2="{_RIGHT}" y1="{_BOTTOM}" y2="{_BOTTOM}"/>')
    for x, text in across.ticks:
        lines.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{_BOTTOM}" y2="{_BOTTOM + 5}"/>')
        lines.append(f'<text x="{x:.1f}" y="{_BOTTOM + 20}" text-anchor="middle">{text}</text>')
    lines.append(f'<text x="{_RIGHT}" y="{_BOTTOM + 42}" text-anchor="end">{escape(drawing.across)}</text>')
    for at, series in enumerate(drawing.series):
        lines += _series(series.points, series.kind == "line", _COLOURS[at % len(_COLOURS)], across.place, up.place)
        x = _LEFT + at * (_RIGHT - _LEFT) / max(3, len(drawing.series))
        lines.append(f'<rect x="{x:.1f}" y="{_HEIGHT - 26}" width="12" height="12" fill="{_COLOURS[at]}"/>')
        lines.append(f'<text x="{x + 18:.1f}" y="{_HEIGHT - 16}">{escape(series.label)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _series(
    points: tuple[tuple[float, float], ...],
    joined: bool,
    colour: str,
    across: Callable[[float], float],
    up: Callable[[float], float],
) -> list[str]:
    placed = [(across(x), up(y)) for x, y in points]
    if joined:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in placed]
