"""The figure of the page: how many times the CPU seconds of DuckDB without privacy each system takes, as an SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from bench.peers.summary import Results
from bench.peers.table import COMPARED, OURS, SYSTEMS
from bench.peers.works import WORKS

__all__ = ["STYLE", "figure", "text_at"]

_WIDTH, _LEFT, _RIGHT = 760, 240, 748
_LINE, _HEAD, _FOOT = 18, 34, 30
STYLE = (
    "text{font:12px sans-serif;fill:#333}.head{font-weight:bold}.grid{stroke:#ddd}.ours{fill:#0b5cad;font-weight:bold}"
    "circle,rect{fill:#777;stroke:#777}.mine{fill:#0b5cad;stroke:#0b5cad}.open{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}.ours{fill:#7ab8ff}"
    "circle,rect{fill:#aaa;stroke:#aaa}.mine{fill:#7ab8ff;stroke:#7ab8ff}.open{fill:#111}}"
)


def text_at(x: float, y: float, words: str, style: str = "", end: bool = False) -> str:
    """Words whose line begins, or with ``end`` ends, at a place; ``style`` is a class."""
    anchor = ' text-anchor="end"' if end else ""
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}{anchor}>{escape(words)}</text>'


def _mark(x: float, y: float, mine: bool, first: bool) -> str:
    style = f'class="{"mine" if mine else ""}{"" if first else " open"}"'
    if first:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {style}/>'
    return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" stroke-width="1.5" {style}/>'


def _panel(work: str, top: float, shown: Sequence[Results], least: float, most: float) -> Iterator[str]:
    """One work: a line for each system that did it, from the quickest to the slowest."""

    def x(ratio: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * math.log10(ratio / least) / math.log10(most / least)

    ratios = {
        name: [_ratio(results, work, name) for results in shown]
        for name in SYSTEMS
        if name != COMPARED[work] and any(_ratio(results, work, name) for results in shown)
    }
    order = sorted(ratios, key=lambda name: min(each for each in ratios[name] if each))
    yield text_at(8, top + 14, f"{work}: {WORKS[work].title}", "head")
    bottom = top + _HEAD + _LINE * len(order) - 8
    for power in range(math.ceil(math.log10(most)) + 1):
        if 10**power <= most:
            at = x(10**power)
            yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top + 20:.1f}" y2="{bottom:.1f}"/>'
            yield text_at(at, top + 14, f"{10**power:,}\u00d7", end=power > 0)
    for place, name in enumerate(order):
        y = top + _HEAD + _LINE * place
        yield text_at(_LEFT - 10, y + 4, SYSTEMS[name].title, "ours" if name == OURS else "", end=True)
        for at, found in enumerate(ratios[name]):
            if found:
                yield _mark(x(found), y, name == OURS, at == 0)


def _lines(work: str, shown: Sequence[Results]) -> int:
    return sum(name != COMPARED[work] and any(_ratio(each, work, name) for each in shown) for name in SYSTEMS)


def _ratio(results: Results, work: str, name: str) -> float | None:
    """How many times the processor seconds of what a work is compared with: other work on the machine shows less."""
    found = results.summaries.get((work, name))
    return found.ratios.get("cpu") if found else None


def figure(shown: Sequence[Results]) -> str:
    """One panel a work; a dot is the fewer rows, a square the more."""
    ratios = [
        each
        for results in shown
        for work, name in results.summaries
        if (each := _ratio(results, work, name)) is not None
    ]
    least, most = min([1.0, *ratios]), 10 ** math.ceil(math.log10(max([10.0, *ratios])))
    top, parts = 6.0, []
    for work in WORKS:
        parts += list(_panel(work, top, shown, least, most))
        top += _HEAD + _LINE * _lines(work, shown) + 10
    signs = [f"{sign}: {results.rows:,} rows" for sign, results in zip(("dot", "square"), shown, strict=False)]
    parts.append(
        text_at(8, top + 14, f"CPU seconds of the whole process beside DuckDB without privacy; {'; '.join(signs)}.")
    )
    says = "CPU time of every system as a multiple of the same queries in DuckDB; the numbers are in the tables."
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top + _FOOT:.0f}" role="img">'
    return "\n".join([head, f"<title>{says}</title>", f"<style>{STYLE}</style>", *parts, "</svg>", ""])
