"""Rows of a table as HTML, made without a template: a release can have hundreds of thousands of them.

Keys and labels go through ``html_text.inert``; everything else is made here, of digits and signs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from itertools import repeat
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from dprelease.catalog.table import Column, Key
from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.estimate.intervals import leans, was_cut
from dprelease.estimate.keys import coded
from dprelease.measures.text import decimal
from dprelease.publish.base import key_as_text
from dprelease.publish.figure_words import Signs
from dprelease.publish.html_text import inert, isolated
from dprelease.publish.numbers import with_margin, zeros_dropped
from dprelease.words import number_written, phrase

__all__ = ["Cells", "between", "key_cell", "number_cells", "rows"]

Cells = Sequence[Sequence[str]]  # by column

Floats = npt.NDArray[np.float64]
_CONTEXT = Context(prec=400)
_DIGITS = 3  # of a margin, as in ``numbers.with_margin``
_WHOLE = 2.0**53  # up to here every whole double is that whole number
_MISSING = ("no_estimate", "withheld", "not_applicable")
_HEAD = '<th scope="row"'


@dataclass(frozen=True)
class _Words:
    """What stands in or beside the cells of plans from before there were signs, in the language that is spoken."""

    blank: str
    withheld: str
    nothing: str
    flag: str

    @classmethod
    def spoken(cls) -> _Words:
        return cls(
            blank=f'<td class="num">{phrase("no estimate")}</td>',
            withheld=f'<td class="num u"><span class="flag">{phrase("withheld: unreliable")}</span></td>',
            nothing=f'<td class="num">{phrase("none")}</td>',
            flag=f' <span class="flag">{phrase("unreliable")}</span>',
        )


def rows(
    table: PublishedTable,
    first: int,
    last: int,
    signs: Signs | None = None,
    made: Mapping[str, Cells] = MappingProxyType({}),
) -> Markup:
    """The rows ``first`` to ``last`` (from 0, ``last`` not among them), one line each: header cells, then numbers.

    A number is ``<b>value</b> ± margin``, with the interval in brackets where it was cut or is longer on one side, and
    a word where it is unreliable; numbers are rounded as ``numbers.with_margin`` says. One that was moved after it was
    estimated never has a ±, but a cell beside it with the estimate and, in brackets, the interval, which is about that.

    With ``signs`` a number outside of what is possible is shown as the nearest possible one, with the other end of its
    interval: ``0 (at most 37)``. The interval of a number that was moved then holds it, and stands beside it.

    ``made`` has the cells of measures, by name, which were made of these very rows already.
    """
    parts: list[Sequence[str]] = [
        _keys(column, keys[first:last]) for column, keys in zip(table.key_columns, table.keys, strict=True)
    ]
    if not table.measures and parts:  # a list: its last column is what the others lead to
        parts[-1] = [f"<td{cell[len(_HEAD) : -len('</th>')]}</td>" for cell in parts[-1]]
    if not parts:
        parts.append([f"{_HEAD}>{phrase('everything')}</th>"] * (last - first))
    for measure in table.measures:
        parts += made.get(measure.name) or number_cells(measure, first, last, signs)
    lines = ["".join(("<tr>", *cells, "</tr>\n")) for cells in zip(*parts, strict=True)]
    return Markup("".join(lines))  # noqa: S704 - its only texts are inert or digits


def number_cells(measure: PublishedMeasure, first: int, last: int, signs: Signs | None = None) -> Cells:
    """The cells of one measure in these rows: one column, or two where its numbers were moved; as :func:`rows`."""
    if signs is not None and measure.held:
        held = _held_numbers(measure, signs, first, last)
        return [list(held)] if measure.unadjusted is None else list(zip(*held, strict=True)) or [[], []]
    if measure.unadjusted is None:
        return [list(_numbers(measure, first, last))]
    return list(zip(*_adjusted(measure, measure.unadjusted, first, last), strict=True)) or [[], []]


def key_cell(column: Column, key: Key) -> str:
    """A key as a header cell: its label, and the code beside it where the two differ."""
    code = key_as_text(key)
    label = column.labels.get(code, code)
    beside = f' <bdi class="code">{inert(code)}</bdi>' if label != code else ""
    return f"{_HEAD}>{isolated(label)}{beside}</th>"


def _keys(column: Column, keys: Sequence[Key]) -> list[str]:
    part = coded(keys)
    codes = part.codes.tolist()
    cells = {code: key_cell(column, part.keys[code]) for code in set(codes)}
    return [cells[code] for code in codes]


def _numbers(measure: PublishedMeasure, first: int, last: int) -> Iterator[str]:
    part = slice(first, last)
    floats = [each[part] for each in (measure.value, measure.margin, measure.lower, measure.upper)]
    shorter = leans(*floats) if measure.tested else was_cut(*floats)
    columns = [*(each.tolist() for each in floats), shorter.tolist(), measure.status[part]]
    margins: dict[float, tuple[int, str]] = {}  # place and text: most cells of a measure share their margin
    words = _Words.spoken()
    for value, margin, lower, upper, cut, status, sampled in zip(*columns, _sampled(measure, part), strict=True):
        if math.isnan(value):
            yield words.withheld if status == "unreliable" else words.blank
            continue
        number, beside = _told(value, margin, measure.places, margins)
        text = f'<td class="num"><b>{number}</b> ± {beside}' if beside else f'<td class="num"><b>{number}</b>'
        if cut:
            text += f' <span class="cut">({between(lower, upper, margin, measure.places)})</span>'
        text += sampled
        yield _greyed(f"{text}{words.flag}</td>") if status == "unreliable" else f"{text}</td>"


def _sampled(measure: PublishedMeasure, part: slice) -> Iterator[str]:
    """What stands beside each number of the margin of noise and sampling together; nothing where none is known."""
    if measure.total_margin is None:
        yield from repeat("", len(measure.value[part]))
        return
    for total in measure.total_margin[part].tolist():
        beside = with_margin(0.0, total, measure.places)[1] if math.isfinite(total) else ""
        yield f' <span class="cut">({phrase("± {margin} with sampling", margin=beside)})</span>' if beside else ""


def _told(value: float, margin: float, places: int | None, margins: dict[float, tuple[int, str]]) -> tuple[str, str]:
    """What ``numbers.with_margin`` gives; several times faster, as most cells of a measure share their margin."""
    if not (0 < margin < math.inf and abs(value) < _WHOLE):
        return with_margin(value, margin, places)
    if margin not in margins:
        margins[margin] = _place(margin, -12 if places is None else -places), with_margin(0.0, margin, places)[1]
    place, beside = margins[margin]
    hidden = value and 2 * abs(value) <= 10.0**place  # it would read as 0
    return with_margin(value, margin, places)[0] if hidden else _rounded(value, place), beside


def _adjusted(measure: PublishedMeasure, before: Floats, first: int, last: int) -> Iterator[tuple[str, str]]:
    """Two cells for each number: it, and the estimate that it was, with the interval of that."""
    part = slice(first, last)
    floats = [each[part].tolist() for each in (measure.value, before, measure.margin, measure.lower, measure.upper)]
    words = _Words.spoken()
    told_beside = zip(measure.status[part], _sampled(measure, part), strict=True)
    for value, estimate, margin, lower, upper, (status, sampled) in zip(*floats, told_beside, strict=True):
        if math.isnan(value):
            yield (words.withheld if status == "unreliable" else words.blank), words.nothing
            continue
        number, _ = with_margin(value, margin, measure.places)
        cell = f'<td class="num"><b>{number}</b>{sampled}{words.flag if status == "unreliable" else ""}</td>'
        cell = _greyed(cell) if status == "unreliable" else cell
        if math.isnan(estimate):
            yield cell, words.nothing
            continue
        told, beside = with_margin(estimate, margin, None if margin > 0 else measure.places)
        ends = f" ({between(lower, upper, margin, None)})" if beside and math.isfinite(lower) else ""
        yield cell, f'<td class="num"><span class="before">{told}{ends}</span></td>'


def _held_numbers(measure: PublishedMeasure, signs: Signs, first: int, last: int) -> Iterator[Any]:
    """A cell for each number; of one that was moved two, the second with the estimate before."""
    part = slice(first, last)
    names = ("value", "margin", "lower", "upper", "estimate")
    floats = [getattr(measure, name)[part] for name in names]
    shorter = leans(*floats[:4]) if measure.tested or measure.base is not None else was_cut(*floats[:4])
    gone_or_never = np.where(measure.impossible[part], 2, signs.gone[part]).tolist()  # 2: there is no such number
    columns = [*(each.tolist() for each in floats), shorter.tolist(), measure.lows[part].tolist(), gone_or_never]
    marks = {state: f' <span class="flag">{inert(sign)}</span>' for state, sign in signs.of.items()}
    rounded = measure.base is not None
    moved, margins = measure.unadjusted is not None, dict[float, tuple[int, str]]()
    for value, margin, lower, upper, before, cut, zero, gone, status, sampled in zip(
        *columns, measure.status[part], _sampled(measure, part), strict=True
    ):
        if math.isnan(value):
            state = "unreliable" if status == "unreliable" else _MISSING[gone]
            cell = f'<td class="num">{marks[state][1:]}</td>'
            yield (cell, cell) if moved else cell
            continue
        flags = marks.get(status, "") + (marks["low"] if zero else "")
        if moved:
            told = with_margin(before, margin, None if margin > 0 else measure.places)[0]
            ends = between(lower, upper, margin, measure.places) if math.isfinite(lower) else ""
            if ends and value == lower == 0 < upper:
                ends = phrase("at most {end}", end=_end(upper, margin, measure.places, ROUND_CEILING))
            ends = f" ({ends})" if ends else ""
            number = with_margin(value, margin, measure.places)[0]
            cell = f'<td class="num"><b>{number}</b>{ends}{flags}</td>'
            yield (
                (_greyed(cell) if status == "unreliable" else cell),
                f'<td class="num"><span class="before">{told}</span></td>',
            )
        else:
            said = _held(value, margin, lower, upper, measure.places, margins, cut=cut, rounded=rounded)
            cell = f'<td class="num">{said}{sampled if " ± " in said else ""}{flags}</td>'
            yield _greyed(cell) if status == "unreliable" else cell


def _greyed(cell: str) -> str:
    """The cell of a number that is unreliable: it is less conspicuous, and has its sign."""
    return cell.replace('class="num"', 'class="num u"', 1)


def _held(
    value: float,
    margin: float,
    lower: float,
    upper: float,
    places: int | None,
    margins: dict[float, tuple[int, str]],
    *,
    cut: bool,
    rounded: bool = False,
) -> str:
    """A number with what is known of it, and never outside of that.

    >>> print(_held(-38.0, 37.0, 0.0, 37.0, 0, {}, cut=True), _held(1.02, 0.11, 0.89, 1.0, None, {}, cut=True))
    <b>0</b> (at most 37) <b>1</b> (at least 0.89)
    >>> print(_held(30.0, 10.0, 30.0, 40.0, 0, {}, cut=True, rounded=True))
    <b>30</b> ± 10 <span class="cut">(30 to 40)</span>
    """
    least = value < lower or (value == lower and (lower == 0 or not rounded))  # an end that was rounded is no limit
    most = value > upper or (value == upper and not rounded)
    if lower < upper and (least or most):
        near = zeros_dropped(with_margin(lower if least else upper, margin, places)[0])
        if places is not None and upper - lower <= 10.0 ** (-6 - places):
            return f"<b>{near}</b>"  # the files have one number as both ends
        if least:
            beyond = phrase("at most {end}", end=_end(upper, margin, places, ROUND_CEILING))
        else:
            beyond = phrase("at least {end}", end=_end(lower, margin, places, ROUND_FLOOR))
        return f"<b>{near}</b> ({beyond})"
    number, beside = _told(value, margin, places, margins)
    text = f"<b>{number}</b> ± {beside}" if beside else f"<b>{number}</b>"
    return f'{text} <span class="cut">({between(lower, upper, margin, places)})</span>' if cut else text


def _rounded(value: float, place: int) -> str:
    """What ``numbers.with_margin`` makes of a value below 2^53 with its last digit at this place; several times faster.

    Both round half to even: it the shortest decimal text of the value, this the value itself. A half-way point between
    the two would be a shorter text. So they differ only where that text is a half-way point, or ends before the place.

    >>> _rounded(1234.5, 1), _rounded(-0.04, -1), _rounded(0.15, -1), _rounded(-0.25, -1)
    ('1,230', '0.0', '0.2', '−0.2')
    """
    if place >= 0:
        return number_written(f"{int(round(value, -place)):,}".replace("-", "−"))
    text = repr(value)
    after = len(text) - text.find(".") - 1
    if "e" in text or after <= -place or (after == 1 - place and text[-1] == "5"):
        return decimal(Decimal(text).quantize(Decimal(1).scaleb(place), ROUND_HALF_EVEN, context=_CONTEXT))
    text = f"{value:,.{-place}f}"
    return number_written(text.replace("-", "−" if text.strip("-0.") else ""))


def between(lower: float, upper: float, margin: float, places: int | None) -> str:
    """Both ends of an interval at the place of the margin's third digit, rounded outward, without zeros at the end.

    >>> between(0.0, 11.7, 8.3, None), between(0.0, 1234.0, 1000.0, 0)
    ('0 to 11.7', '0 to 1,240')
    """
    ends = _end(lower, margin, places, ROUND_FLOOR), _end(upper, margin, places, ROUND_CEILING)
    return phrase("{lower} to {upper}", lower=ends[0], upper=ends[1])


def _end(number: float, margin: float, places: int | None, to: str) -> str:
    """An end of an interval at the place of the margin's third digit, without zeros at the end.

    One that is a millionth of a step or less beside the grid is on it, as in the files: it was moved outward by what
    doubles lose, and 61,999.99999999575 is no 61,990.

    >>> _end(61999.99999999575, 3100.0, 0, ROUND_FLOOR), _end(61999.9, 3100.0, 0, ROUND_FLOOR)
    ('62,000', '61,990')
    """
    if places is not None and abs(round(number, places) - number) <= 10.0 ** (-6 - places):
        number = round(number, places)
    unit = Decimal(1).scaleb(_place(margin, -places if places is not None else -12))
    return decimal(_CONTEXT.normalize(Decimal(repr(number)).quantize(unit, to, context=_CONTEXT)))


def _place(margin: float, finest: int) -> int:
    """The power of ten of the margin's third digit, or ``finest`` where that is larger."""
    return max(finest, Decimal(repr(margin)).adjusted() - _DIGITS + 1) if margin else finest
