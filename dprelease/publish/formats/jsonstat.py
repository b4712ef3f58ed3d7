"""JSON-stat 2.0: one dataset per table, with the numbers of every measure along one metric dimension.

The metrics of a measure m are m, m_se, m_margin, m_lower and m_upper, and m_unadjusted where m was moved after it was
estimated, as the columns of the CSV file; a list of the most frequent keys has its ranks alone. ``value`` is a
list where the table has every combination of its keys, in row-major order, and else an object from position to number.
``status`` names, by position, the values that are not ``ok``. What is not published is null.

No reader of JSON-stat takes a table of millions of rows. In the place of such a one stands a collection without
datasets that says so and links to the file that has the table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.formats import FORMATS
from dprelease.publish.accounting.glossary import SAMPLED, described
from dprelease.publish.base import NOTICE, Content
from dprelease.publish.columns import P_VALUE, SAMPLING_ERROR, TOTAL_MARGIN, UNADJUSTED, UNADJUSTED_ERROR
from dprelease.publish.figure_words import notes_on_numbers
from dprelease.publish.formats.cube import UNROUNDED, Cube, Dimension, as_cube, numbered, numbers_of, parts_of

__all__ = ["MOST_ROWS", "dataset", "jsonstat_files"]

MOST_ROWS = 1_000_000  # of a table; it has five numbers for each row and measure
_METRIC, _PERIOD = "metric", "period"
_WORDS = {
    "": "", "_se": ": standard error", "_margin": ": margin", "_lower": ": lower end", "_upper": ": upper end",
    SAMPLING_ERROR: ": standard error of the sampling", TOTAL_MARGIN: ": margin of noise and sampling",
    P_VALUE: ": probability, at most, that noise alone is as far from 0",
    UNADJUSTED: ": the estimate before it was adjusted",
    UNADJUSTED_ERROR: ": standard error of the estimate before it was adjusted",
}  # fmt: skip
_STATUS_WORDS_BEFORE = (
    "A value without a status is ok; unreliable: its margin is large beside it; blank: nothing is published."
)
_STATUS_WORDS = (
    "A value without a status is ok; caution: its interval is wide beside it; unreliable: it is very wide; blank: "
    "nothing is published. A count below 0 is as the noise left it, for sums of your own; its interval is what can be."
)
Number = float | int | None
Parts = list[tuple[PublishedMeasure, list[str]]]  # measures, with the endings of the numbers that each has


def jsonstat_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``tables/<name>.json`` for every query and derived table.

    Args:
        content: The release.
        files: Made so far; a table that is too large is said to be in one of them.
    """
    found = {}
    for table in content.tables:
        made = dataset(content, table) if table.cells <= MOST_ROWS else _elsewhere(content, table, files)
        text = json.dumps(made, separators=(",", ":"), allow_nan=False)
        found[f"tables/{table.name}.json"] = f"{text}\n".encode()
    return found


def _elsewhere(content: Content, table: PublishedTable, files: Mapping[str, bytes]) -> dict[str, Any]:
    """What stands in the place of a table that is too large: the file that has it, with its media type."""
    links = [
        {"href": f"{table.name}{FORMATS[name].ending}", "type": FORMATS[name].media_type}
        for name in ("csv", "parquet")  # with a row for each cell
        if FORMATS[name].path(table.name) in files
    ]
    title = table.title or table.name
    return {
        "version": "2.0",
        "class": "collection",
        "label": f"{NOTICE}: {title}" if content.facts.rehearsal else title,
        "updated": content.facts.reserved_at,
        "note": [
            *([NOTICE] if content.facts.rehearsal else []),
            f"This table has {table.cells:,} rows, and is not published as JSON-stat, which is for tables of up to "
            f"{MOST_ROWS:,}. The files that are linked here have all of it.",
        ],
        "link": {"item": [], "alternate": links},
    }


def dataset(content: Content, table: PublishedTable) -> dict[str, Any]:
    """A table as a JSON-stat dataset; dimensions of its keys, the period, and the metrics."""
    cube, release = as_cube(table), content.plan.release
    names = numbered([*(each.name for each in cube.dimensions), _PERIOD, _METRIC])
    codes = [_appearing(each) for each in cube.dimensions]
    parts = _parts(content, table, cube)
    metrics = [f"{measure.name}{ending}" for measure, endings in parts for ending in endings]
    made: dict[str, Any] = {
        name: _dimension(each, order) for name, each, order in zip(names, cube.dimensions, codes, strict=False)
    }
    made[names[-2]] = {"label": "period", "category": {"index": [release.period]}}
    made[names[-1]] = {"label": "metric", "category": {"index": metrics, **_of_metrics(content, table, parts)}}
    title = table.title or table.name
    return {
        "version": "2.0",
        "class": "dataset",
        "label": f"{NOTICE}: {title}" if content.facts.rehearsal else title,
        **({"source": release.curator} if release.curator else {}),
        "updated": content.facts.reserved_at,
        "note": _notes(content, table),
        "id": names,
        "size": [*map(len, codes), 1, len(metrics)],
        "role": {"time": [names[-2]], "metric": [names[-1]]},
        "dimension": made,
        **_values(cube, codes, parts),
        "extension": {
            "dprelease": {
                "release": release.name,
                "plan_fingerprint": content.facts.plan_fingerprint,
                "confidence": str(table.confidence),
                "rehearsal": content.facts.rehearsal,
            }
        },
    }


def _parts(content: Content, table: PublishedTable, cube: Cube) -> Parts:
    """What there is of each measure; the rank of a key has no error, and in the first layout an empty one."""
    ranks = not table.measures and content.plan.publish.layout > 1
    return [(measure, [""] if ranks else parts_of(measure)) for measure in cube.measures]


def _appearing(dimension: Dimension) -> list[str]:
    """The codes that the table has: in declared order, else as they come."""
    there = dict.fromkeys(dimension.codes)
    return list(there) if dimension.declared is None else [code for code in dimension.declared if code in there]


def _dimension(dimension: Dimension, codes: Sequence[str]) -> dict[str, Any]:
    """A dimension; where one of its codes has a label, every one has: readers leave out codes without (pyjstat)."""
    some = any(code in dimension.labels for code in codes)
    labels = {code: dimension.labels.get(code, code) for code in codes} if some else {}
    category: dict[str, Any] = {"index": list(codes), **({"label": labels} if labels else {})}
    return {"label": dimension.title or dimension.name, "category": category}


def _of_metrics(content: Content, table: PublishedTable, parts: Parts) -> dict[str, Any]:
    """Labels and units of the metrics."""
    labels, units = {}, {}
    for measure, endings in parts:
        words = _meaning(content, table, measure)
        for ending in endings:
            metric = f"{measure.name}{ending}"
            labels[metric] = words + _WORDS[ending]
            unit: dict[str, Any] = {"label": measure.unit, "symbol": "%", "position": "end"} if measure.unit else {}
            if measure.places is not None and ending not in UNROUNDED:
                unit["decimals"] = measure.places
            if unit:
                units[metric] = unit
    return {"label": labels, **({"unit": units} if units else {})}


def _meaning(content: Content, table: PublishedTable, measure: PublishedMeasure) -> str:
    plan = content.plan
    query = None if table.derived else plan.query(table.name)
    if measure.compared is not None:
        return f"{measure.name}: {measure.compared.described()}"
    if measure.measure is None or query is None:
        return measure.shown
    return f"{measure.shown}: {described(measure.measure, plan.catalog.tables[query.table], str(plan.unit))}"


def _notes(content: Content, table: PublishedTable) -> list[str]:
    share = f"{float(table.confidence) * 100:.4g}"
    notice = [NOTICE] if content.facts.rehearsal else []
    if not table.measures and content.plan.publish.layout > 1:
        return [*notice, "Ranks as noise allows to tell: neighbouring ones may be swapped."]
    sampled = [each.name for each in table.measures if each.sampling_error is not None]
    return [
        *notice,
        *([f"{', '.join(sampled)}: {SAMPLED}"] if sampled else []),
        *notes_on_numbers(table),
        "Estimates: random noise was added to every number before it was published. "
        f"The number without noise lies between the lower and the upper end in at least {share} % of cases.",
        _STATUS_WORDS if content.plan.publish.figures is not None else _STATUS_WORDS_BEFORE,
    ]


def _values(cube: Cube, codes: Sequence[Sequence[str]], parts: Parts) -> dict[str, Any]:
    """``value`` and ``status``."""
    columns = [numbers_of(measure, ending) for measure, endings in parts for ending in endings]
    rows: list[tuple[Number, ...]] = list(zip(*columns, strict=True))
    places, metrics = _places(cube, codes), len(columns)
    starts = [at - len(endings) for at, (_, endings) in zip(accumulate(len(e) for _, e in parts), parts, strict=True)]
    status = {
        str(place * metrics + start): measure.status[row]
        for row, place in enumerate(places)
        for start, (measure, _) in zip(starts, parts, strict=True)
        if measure.status[row] != "ok"
    }
    if places == list(range(math.prod(map(len, codes)))):
        value: Any = [number for row in rows for number in row]
    else:
        value = {
            str(place * metrics + at): number
            for place, row in zip(places, rows, strict=True)
            for at, number in enumerate(row)
        }
    return {"value": value, **({"status": status} if status else {})}


def _places(cube: Cube, codes: Sequence[Sequence[str]]) -> list[int]:
    """Where each row is in the row-major product of the codes."""
    places = [0] * cube.rows
    for dimension, order in zip(cube.dimensions, codes, strict=True):
        index = {code: at for at, code in enumerate(order)}
        places = [place * len(order) + index[code] for place, code in zip(places, dimension.codes, strict=True)]
    return places
