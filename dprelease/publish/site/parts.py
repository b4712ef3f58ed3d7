"""A wide table as several beside which the keys stand again, so that no column is lost on paper.

How wide a number is follows from the largest and smallest that its column has: these are written as the page writes
them. The rows of a block have the same order in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from markupsafe import Markup

from dprelease.catalog.table import Column
from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.estimate.keys import coded
from dprelease.publish.figure_words import Signs
from dprelease.publish.site.cells import Cells, number_cells, rows

__all__ = ["PaperPart", "PartRows", "paper_parts", "part_rows"]

# Signs that fit beside one another on an upright sheet of A4, in the size of print and in the small one of `.wide`.
_UPRIGHT, _SMALL = 84, 112
_AT_ONCE = 1 << 20  # cells that are looked at together
_GAP = 3  # around a number
_MOST_KEY = 30  # of a key before it is broken over lines
_LINE = re.compile(r'<span class="cut">')  # begins a line of its own
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class PaperPart:
    """Measures that stand side by side, and whether any part of the table needs small print on paper.

    ``cells`` has, of a table of one row, the cells of each measure by name, for its width was told by them.
    """

    measures: tuple[PublishedMeasure, ...]
    wide: bool
    cells: Mapping[str, Cells] = field(default_factory=dict)


@dataclass(frozen=True)
class PartRows:
    """Rows of a table with the measures of a part: their names, the rows as HTML, and the part's ``wide``."""

    names: tuple[str, ...]
    rows: Markup
    wide: bool


def paper_parts(table: PublishedTable, signs: Signs | None = None) -> tuple[PaperPart, ...]:
    """The measures of a table in their order, as many in a part as a sheet of paper holds, and at least one."""
    if not table.measures:
        return (PaperPart((), wide=False),)
    keys = sum(map(_key_width, table.key_columns)) or _MOST_KEY
    cells = {each.name: number_cells(each, 0, 1, signs) for each in table.measures} if table.cells == 1 else {}
    widths = {each.name: _width(each, signs, cells.get(each.name)) for each in table.measures}
    runs = list(_runs(table.measures, widths, _SMALL - keys))
    wide = any(keys + sum(widths[each.name] for each in run) > _UPRIGHT for run in runs)
    return tuple(PaperPart(run, wide, cells) for run in runs)


def part_rows(
    table: PublishedTable, parts: Sequence[PaperPart], first: int, last: int, signs: Signs | None = None
) -> tuple[PartRows, ...]:
    """The rows ``first`` to ``last`` (from 0, ``last`` not among them), once for each part."""
    return tuple(
        PartRows(
            tuple(each.shown for each in part.measures),
            rows(
                table if part.measures == table.measures else replace(table, measures=part.measures),
                first,
                last,
                signs,
                part.cells if (first, last) == (0, 1) else {},
            ),
            part.wide,
        )
        for part in parts
    )


def _runs(
    measures: Sequence[PublishedMeasure], widths: dict[str, int], room: int
) -> Iterator[tuple[PublishedMeasure, ...]]:
    """Measures in their order, in as few runs as fit and of about equal number."""
    total = sum(widths.values())
    target = -(
        -total // max(1, -(-total // max(room, 1)))
    )  # shared evenly, so that the last one is not a single column
    run: list[PublishedMeasure] = []
    used = 0
    for each in measures:
        width = widths[each.name]
        if run and (used + width > room or used >= target):
            yield tuple(run)
            run, used = [], 0
        run.append(each)
        used += width
    yield tuple(run)


def _key_width(column: Column) -> int:
    labels = [f"{label} {key}" for key, label in column.labels.items()]
    longest = max(map(len, (column.shown, *labels, *map(str, column.keys or ()))), default=0)
    return min(longest, _MOST_KEY) + _GAP


def _width(measure: PublishedMeasure, signs: Signs | None, only: Cells | None) -> int:
    """Signs of the widest line of a measure's cells, both of one that was moved."""
    columns = 1 if measure.unadjusted is None else 2
    head = max(map(len, measure.shown.split()), default=0)
    lines = [len(measure.shown) // 2, head]
    widest = (number_cells(measure, at, at + 1, signs) for at in sorted(_extremes(measure))) if only is None else [only]
    for cells in widest:
        for (cell,) in cells:
            lines += [len(_TAG.sub("", line).strip()) for line in _LINE.split(cell)]
    return columns * (max(lines) + _GAP)


def _extremes(measure: PublishedMeasure) -> set[int]:
    """Rows with the numbers that take the most room: the largest, and those with the finest and the largest margins."""
    found = set()
    for numbers, sized in (
        (measure.value, True),
        (measure.margin, False),
        (measure.lower, True),
        (measure.upper, False),
    ):
        ends: dict[bool, tuple[float, int]] = {}  # the largest and the least that is known, and its first row
        for first in range(0, len(numbers), _AT_ONCE):
            each = numbers[first : first + _AT_ONCE]
            each = np.abs(each) if sized else each
            known = np.isfinite(each)
            for sign in (1.0, -1.0) if known.any() else ():
                at = int(np.argmax(np.where(known, sign * each, -np.inf)))
                ends[sign > 0] = max(ends.get(sign > 0, (-np.inf, 0)), (sign * float(each[at]), -(first + at)))
        found |= {-row for _, row in ends.values()}
    states, seen = coded(measure.status), dict[int, int]()
    for first in range(0, len(states), _AT_ONCE):
        codes = states.part(first, min(first + _AT_ONCE, len(states)))
        for code in np.unique(codes).tolist():
            seen.setdefault(code, first + int(np.argmax(codes == code)))
    return found | set(seen.values())
