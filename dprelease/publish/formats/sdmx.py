"""SDMX-CSV 2.0: one file per table, one line for each cell and measure.

Columns and codes follow the SDMX cross-domain concepts: OBS_STATUS is of the code list CL_OBS_STATUS (A normal, U low
reliability, O missing, Q missing because it was suppressed), CONF_STATUS of CL_CONF_STATUS (F free, N not for
publication). A number that is withheld is withheld after the noise, because it tells little; that is no statement on
confidentiality, but N is the code that keeps others from filling it in.

Codes are text and stay as declared: ``06`` is ``06`` in the file. A reader that guesses types loses that.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from dprelease.estimate import PublishedMeasure, PublishedTable, Status
from dprelease.plan.document import ReleasePlan
from dprelease.publish.base import NOTICE, Content
from dprelease.publish.formats.cube import Cube, as_cube, finite, numbered, suppressed

__all__ = ["is_sdmx_period", "sdmx_files", "sdmx_text"]

_STRUCTURE = ("STRUCTURE", "STRUCTURE_ID", "ACTION")
_ATTRIBUTES = ("OBS_STATUS", "CONF_STATUS", "STD_ERR", "MARGIN", "CI_LOWER", "CI_UPPER", "CONFIDENCE")
_RESERVED = (*_STRUCTURE, "MEASURE", "TIME_PERIOD", "PERIOD", "OBS_VALUE", *_ATTRIBUTES, "COMMENT_DSET")
_PERIOD = re.compile(r"\d{4}(-Q[1-4]|-(0[1-9]|1[0-2])|-W(0[1-9]|[1-4]\d|5[0-3]))?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def sdmx_files(content: Content, _: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``tables/<name>.sdmx.csv`` for every query and derived table."""
    return {f"tables/{table.name}.sdmx.csv": sdmx_text(content, table).encode() for table in content.tables}


def sdmx_text(content: Content, table: PublishedTable) -> str:
    """The text of one table; lines end with CRLF."""
    cube, plan = as_cube(table), content.plan
    period = "TIME_PERIOD" if is_sdmx_period(plan.release.period) else "PERIOD"
    names = numbered([_identifier(dimension.name) for dimension in cube.dimensions], taken=_RESERVED)
    notice = (NOTICE,) if content.facts.rehearsal else ()
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\r\n")
    comment = ("COMMENT_DSET",) if notice else ()
    writer.writerow([*_STRUCTURE, *names, "MEASURE", period, "OBS_VALUE", *_ATTRIBUTES, *comment])
    first = ("dataflow", _dataflow(plan, table.name), "I")
    confidence = repr(float(table.confidence))
    last = (confidence, *notice)
    for keys, name, numbers in _observations(cube, suppressed(plan, table)):
        writer.writerow([*first, *keys, name, plan.release.period, *numbers, *last])
    return sink.getvalue()


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


def _observations(cube: Cube, gone: Sequence[bool]) -> Iterator[tuple[tuple[str, ...], str, tuple[str, ...]]]:
    """For each row and measure: the keys, the measure's name, and the columns from OBS_VALUE up to CI_UPPER."""
    told = [(measure.name, list(_measured(measure, gone))) for measure in cube.measures]
    keys = list(zip(*(each.codes for each in cube.dimensions), strict=True)) if cube.dimensions else [()] * cube.rows
    for row, key in enumerate(keys):
        for name, observations in told:
            yield key, name, observations[row]


def _measured(measure: PublishedMeasure, gone: Sequence[bool]) -> Iterator[tuple[str, ...]]:
    numbers = (measure.value, measure.standard_error, measure.margin, measure.lower, measure.upper)
    columns = zip(*(each.tolist() for each in numbers), measure.status, gone, strict=True)
    for value, error, margin, lower, upper, status, suppressed_row in columns:
        yield (
            finite(value, measure.places),
            *_statuses(status, math.isnan(value), suppressed_row),
            finite(error, None),
            *(finite(number, measure.places) for number in (margin, lower, upper)),
        )


def _statuses(status: Status, missing: bool, gone: bool) -> tuple[str, str]:
    """OBS_STATUS and CONF_STATUS."""
    if missing:
        return ("Q", "N") if gone or status == "unreliable" else ("O", "F")
    return ("U", "F") if status == "unreliable" else ("A", "F")
