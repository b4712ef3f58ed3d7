"""SDMX-CSV 2.0: one file per table, one line for each cell and measure.

Columns and codes follow the SDMX cross-domain concepts: OBS_STATUS is of the code list CL_OBS_STATUS (A normal, U low
reliability, O missing, Q missing because it was suppressed), CONF_STATUS of CL_CONF_STATUS (F free, N not for
publication). A number that is withheld is withheld after the noise, because it tells little; that is no statement on
confidentiality, but N is the code that keeps others from filling it in.

The code list has one code for low reliability: U stands for ``caution`` and ``unreliable`` alike, and the ends of the
interval tell them apart.

A number that was moved after it was estimated has the estimate in EST_UNADJUSTED; the error is about that one, and so
is the interval, which in plans with rules for figures holds the number as well. Beside such a number no margin stands.
One of a weighted sample has its sampling error in SAMPLING_ERROR, and the margin of noise and sampling in TOTAL_MARGIN.
A table with percentages has UNIT_MEASURE, which is PT beside them and empty beside its other numbers.

Codes are text and stay as declared: ``06`` is ``06`` in the file. A reader that guesses types loses that.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

import numpy as np
import numpy.typing as npt

from dprelease.estimate import Coded, PublishedMeasure, PublishedTable, coded
from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import NOTICE, Content
from dprelease.publish.columns import P_VALUE, SAMPLING_ERROR, TOTAL_MARGIN, UNADJUSTED
from dprelease.publish.csv_text import Texts, constant_texts, key_width, number_texts, side_by_side, word_texts
from dprelease.publish.figure_words import suppressed
from dprelease.publish.formats.cube import PARTS, Dimension, as_cube, numbered, parts_of
from dprelease.publish.packed import Files, pack
from dprelease.spec.fields.workloads import TOTAL_KEY

__all__ = ["is_sdmx_period", "sdmx_blocks", "sdmx_files"]

_STRUCTURE = ("STRUCTURE", "STRUCTURE_ID", "ACTION")
_ATTRIBUTES = ("OBS_STATUS", "CONF_STATUS", "STD_ERR", "MARGIN", "CI_LOWER", "CI_UPPER", "CONFIDENCE")
_BESIDE = {
    SAMPLING_ERROR: "SAMPLING_ERROR",
    TOTAL_MARGIN: "TOTAL_MARGIN",
    P_VALUE: "P_VALUE",
    UNADJUSTED: "EST_UNADJUSTED",
}
_RESERVED = (*_STRUCTURE, "MEASURE", "TIME_PERIOD", "PERIOD", "OBS_VALUE", *_ATTRIBUTES, "COMMENT_DSET")
_PERIOD = re.compile(r"\d{4}(-Q[1-4]|-(0[1-9]|1[0-2])|-W(0[1-9]|[1-4]\d|5[0-3]))?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def sdmx_files(content: Content, _: Mapping[str, bytes]) -> Files:
    """``tables/<name>.sdmx.csv`` for every query and derived table."""
    return Files({f"tables/{table.name}.sdmx.csv": pack(sdmx_blocks(content, table)) for table in content.tables})


def sdmx_blocks(content: Content, table: PublishedTable) -> Iterator[bytes]:
    """The bytes of one table, some thousand rows at a time; lines end with CRLF."""
    cube, plan = as_cube(table), content.plan
    period = "TIME_PERIOD" if is_sdmx_period(plan.release.period) else "PERIOD"
    notice = (NOTICE,) if content.facts.rehearsal else ()
    comment = ("COMMENT_DSET",) if notice else ()
    beside = [ending for ending in _BESIDE if any(ending in parts_of(each) for each in cube.measures)]
    percentages = any(each.unit for each in cube.measures)
    before = [*(_BESIDE[ending] for ending in beside), *(("UNIT_MEASURE",) if percentages else ())]
    names = numbered([_identifier(dimension.name) for dimension in cube.dimensions], taken=(*_RESERVED, *before))
    first = constant_texts(_line(["dataflow", _dataflow(plan, table.name), "I"]))
    confidence = constant_texts(repr(float(table.confidence)))
    last = [constant_texts(_line([each])) for each in notice]
    keys = [word_texts(_coded(each)) for each in cube.dimensions]
    gone = suppressed(plan, table)
    measures = []
    for measure in cube.measures:
        named = constant_texts(_line([measure.name, plan.release.period]))
        more = [_beside(measure, ending) for ending in beside]
        more += [constant_texts(_line(["PT" if measure.unit else ""]))] if percentages else []
        measures.append([first, *keys, named, *_observed(measure, gone), confidence, *more, *last])
    head = [*_STRUCTURE, *names, "MEASURE", period, "OBS_VALUE", *_ATTRIBUTES, *before, *comment]
    yield f"{_line(head)}\r\n".encode()
    yield from side_by_side(measures, cube.rows, key_width([each.codes for each in cube.dimensions]))


def _coded(dimension: Dimension) -> Coded[str]:
    """The keys of a dimension as fields; that of totals is ``_T``, as in SDMX's own code lists, unless a key is."""
    total = TOTAL_KEY if "_T" in (dimension.declared or ()) else "_T"
    return dimension.codes.mapped(lambda key: _field(total if key == TOTAL_KEY else key))


def is_sdmx_period(period: str) -> bool:
    """Whether SDMX knows the period: a year, quarter, month, week or day.

    >>> [text for text in ("2024", "2024-Q1", "2024-13", "2024-W09", "2024-02-30", "spring") if is_sdmx_period(text)]
    ['2024', '2024-Q1', '2024-W09']
    """
    if _DAY.fullmatch(period):
        try:
            return bool(date.fromisoformat(period))
        except ValueError:
            return False
    return _PERIOD.fullmatch(period) is not None


def _identifier(name: str) -> str:
    """A name as an SDMX identifier: capitals, digits and underscores, a letter first.

    >>> _identifier("2nd region"), _identifier("größe")
    ('X_2ND_REGION', 'GR_SSE')
    """
    made = re.sub(r"[^A-Z0-9_]+", "_", name.upper()) or "X"
    return made if made[0].isalpha() else f"X_{made.lstrip('_')}"


def _dataflow(plan: ReleasePlan, name: str) -> str:
    agency = _identifier(plan.release.curator) if plan.release.curator else "DPRELEASE"
    return f"{agency}:{_identifier(f'{plan.release.name}_{name}')}(1.0)"


def _observed(measure: PublishedMeasure, gone: npt.NDArray[np.bool_]) -> list[Texts]:
    """The columns from OBS_VALUE up to CI_UPPER of one measure."""
    places = measure.places
    return [
        _finite(measure.value, places),
        word_texts(_statuses(measure, gone)),
        _finite(measure.standard_error, None),
        # About a number that was moved no margin can be promised.
        constant_texts("") if measure.held and measure.unadjusted is not None else _finite(measure.margin, places),
        *(_finite(numbers, places) for numbers in (measure.lower, measure.upper)),
    ]


def _beside(measure: PublishedMeasure, ending: str) -> Texts:
    """Such numbers of a measure; empty where it has none, as that has no estimate before it that was not moved."""
    return _finite(getattr(measure, PARTS[ending]), None) if ending in parts_of(measure) else constant_texts("")


def _finite(numbers: npt.NDArray[np.float64], places: int | None) -> Texts:
    """Numbers as the CSV file has them; empty where nothing is published."""
    return number_texts(
        numbers if np.isfinite(numbers).all() else np.where(np.isfinite(numbers), numbers, np.nan), places
    )


def _statuses(measure: PublishedMeasure, gone: npt.NDArray[np.bool_]) -> Coded[str]:
    """OBS_STATUS and CONF_STATUS."""
    status = coded(measure.status)
    missing, weak = np.isnan(measure.value), status.where("unreliable")
    codes = np.where(missing, np.where(gone | weak, 2, 3), weak | status.where("caution"))
    codes = np.where(status.where("not_distinguishable"), 4, codes)
    return Coded(("A,F", "U,F", "Q,N", "O,F", "N,F"), codes.astype(np.uint8))


def _field(text: str) -> str:
    return _line([text])


def _line(fields: Sequence[str]) -> str:
    """Fields of a line, in quotes where they must be; an empty one that is not alone on its line stays empty."""
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\r\n").writerow([*fields, "x"])
    return sink.getvalue().removesuffix(",x\r\n")
