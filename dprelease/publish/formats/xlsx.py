"""A workbook for people: a cover, a table of contents, notes, and one sheet for each table.

It follows the rules of the UK Government Analysis Function for accessible spreadsheets: every table is marked up and
has a name that says what it is, there are no merged cells, no blank rows or columns, no frozen panes and no meaning in
colour alone, and shorthand in square brackets is explained.

Keys are as declared, so that the text ``06`` stays ``06`` and ``=1+1`` is no formula; signs that a cell cannot hold
are written out, and the CSV file has the keys exactly. Beside a number stand its margin and its interval; its standard
error is in the CSV file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from dprelease.catalog.table import Column, Key
from dprelease.estimate import FigureRules, PublishedMeasure, PublishedTable
from dprelease.formats import FORMATS
from dprelease.plan.document import PlannedQuery
from dprelease.publish.base import NOTICE, Content, key_as_text, with_period
from dprelease.publish.columns import P_VALUE, SAMPLING_ERROR, TOTAL_MARGIN, UNADJUSTED
from dprelease.publish.figure_words import notes_on_numbers, suppressed
from dprelease.publish.formats.cube import numbers_of, parts_of
from dprelease.publish.formats.signed_cells import legend_lines, missing_signs, signed_statuses
from dprelease.publish.formats.workbook import Cell, Field, Sheet, headers, markup_names, sheet_names
from dprelease.publish.formats.workbook_words import CONTENTS, COVER, NOTES, cover, notes
from dprelease.publish.numbers import percent, so_many
from dprelease.publish.site.localised import in_spoken_language, languages_of
from dprelease.words import amount, marked, phrase, speaking

__all__ = ["WORKBOOK", "sheets_of", "xlsx_files"]

WORKBOOK = "tables/workbook.xlsx"
NO_ESTIMATE, UNRELIABLE, WITHHELD = "[x]", "[u]", "[w]"  # of plans from before they had signs of their own
_EXPLAINED = marked("[x] no estimate, [u] unreliable and [w] withheld are explained in sheet {notes}.")
Columns = list[tuple[str, Sequence[Cell], int | Literal["code"] | None]]
SHEET_COLUMNS = 16_384
MOST_ROWS = 1_000_000  # of a table in the workbook; a sheet has 1,048,576
MOST_CELLS = 8_000_000  # of a workbook, which takes programs minutes to open beyond
_MOST_NAMED = 40  # tables that the cover names as left out
_PARTS = {
    "_margin": marked("{name}: margin"),
    "_lower": marked("{name}: lower"),
    "_upper": marked("{name}: upper"),
}
_MORE = {
    SAMPLING_ERROR: marked("{name}: sampling error"),
    TOTAL_MARGIN: marked("{name}: total margin"),
    P_VALUE: marked("{name}: p-value"),
    UNADJUSTED: marked("{name}: before adjusting"),
}
_EXACT = 10**15  # a spreadsheet holds 15 digits of a number


def xlsx_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``tables/workbook.xlsx``, with every query and derived table, in the first language; one for each other language.

    Args:
        content: The release.
        files: Made so far; a table that the workbook cannot hold is said to be in one of them.
    """
    found = {}
    for at, tag in enumerate(languages_of(content.plan)):
        with speaking(tag):
            found[f"{tag}/{WORKBOOK}" if at else WORKBOOK] = _workbook(in_spoken_language(content), files)
    return found


def _workbook(content: Content, files: Mapping[str, bytes]) -> bytes:
    from dprelease.publish.formats.workbook import workbook_bytes

    release = content.plan.release
    return workbook_bytes(
        sheets_of(content, files),
        title=with_period(release.title or release.name, release.period),
        author=release.curator,
        created=content.facts.reserved_at,
    )


def sheets_of(content: Content, files: Mapping[str, bytes]) -> list[Sheet]:
    """The sheets as values, in order; the cover names the tables for which there is no room."""
    tables = _held(content.tables)
    asked = [table.name for table in tables]
    of_its_own = [phrase(each) for each in (COVER, CONTENTS, NOTES)]
    names = sheet_names(asked, taken=of_its_own)
    marks = markup_names(asked)
    queries = {query.name: query for query in content.plan.queries}
    made = [
        _table(content, table, None if table.derived else queries.get(table.name), files, name, mark)
        for table, name, mark in zip(tables, names, marks, strict=True)
    ]
    return [*_first_sheets(content, files, tables, names), *made]


def _first_sheets(
    content: Content, files: Mapping[str, bytes], tables: Sequence[PublishedTable], names: Sequence[str]
) -> Iterator[Sheet]:
    """The cover, the contents and the notes."""
    notice = [phrase(NOTICE)] if content.facts.rehearsal else []
    told = notes(content)
    yield Sheet(name=phrase(COVER), title=_title(content), lines=[*notice, *cover(content), *_left_out(content, files)])
    yield Sheet(
        name=phrase(CONTENTS),
        title=phrase(CONTENTS),
        lines=[
            *notice,
            phrase("This sheet has one table. It leads to the sheet of every table of this workbook."),
        ],
        table="contents",
        fields=_contents(content, files, tables, names, len(told)),
    )
    yield Sheet(
        name=phrase(NOTES),
        title=phrase(NOTES),
        lines=[*notice, phrase("This sheet has one table with {count} notes.", count=amount(len(told)))],
        table="notes",
        fields=[
            Field(phrase("about"), [about for about, _ in told]),
            Field(phrase("note"), [note for _, note in told]),
        ],
        back=phrase(CONTENTS),
    )


def _title(content: Content) -> str:
    release = content.plan.release
    if release.title.endswith(release.period):
        return release.title
    return phrase("{title}, period {period}", title=release.title or release.name, period=release.period)


def _held(tables: Sequence[PublishedTable]) -> list[PublishedTable]:
    """The tables that the workbook has, in order: each for which there is room beside those before it."""
    found, room = [], MOST_CELLS
    for table in tables:
        numbers = sum(5 + sum(ending in _MORE for ending in parts_of(each)) for each in table.measures)
        size = table.cells * (2 * len(table.key_columns) + numbers)
        if table.cells <= MOST_ROWS and size <= room:
            found.append(table)
            room -= size
    return found


def _left_out(content: Content, files: Mapping[str, bytes]) -> list[str]:
    """A line for each table that is too large, with the file that has it."""
    held = {table.name for table in _held(content.tables)}
    gone = [table for table in content.tables if table.name not in held]
    lines = [_too_large(table, _titled(content, table), _file(table, files)) for table in gone[:_MOST_NAMED]]
    more = len(gone) - len(lines)
    if not more:
        return lines
    return [*lines, phrase("Nor are {count} more tables, each of which has files of its own.", count=amount(more))]


def _too_large(table: PublishedTable, title: str, path: str) -> str:
    said = {"table": title, "rows": so_many(table.cells, "row")}
    if path:
        return phrase(
            "Not in this workbook, because it is too large for one: {table} ({rows}); all of it is in {path}.",
            path=path,
            **said,
        )
    return phrase(
        "Not in this workbook, because it is too large for one: {table} ({rows}); publish it as csv as well to have "
        "it.",
        **said,
    )


def _titled(content: Content, table: PublishedTable) -> str:
    """Its title; of a table of a workload that has names, that of the workload with the table's columns."""
    if table.title or table.derived:
        return table.title or table.name
    query = content.plan.query(table.name)
    if query is None or query.workload is None:
        return table.name
    workload = content.plan.workload(query.workload)
    columns = " × ".join(column.shown for column in table.key_columns) or phrase("Total")
    return phrase("{title}: {columns}", title=workload.title or workload.name, columns=columns)


def _contents(
    content: Content, files: Mapping[str, bytes], tables: Sequence[PublishedTable], names: Sequence[str], told: int
) -> list[Field]:
    """Notes and tables, and the file that has each in full."""
    first, none = phrase(NOTES), phrase("no file")
    return [
        Field(phrase("sheet"), [first, *names], links=[first, *names]),
        Field(phrase("title"), [first, *(_titled(content, table) for table in tables)]),
        Field(phrase("rows"), [told, *(table.cells for table in tables)], decimals=0),
        Field(phrase("file with all digits"), [none, *(_file(table, files) or none for table in tables)]),
    ]


def _file(table: PublishedTable, files: Mapping[str, bytes]) -> str:
    """The path of a file that has all of a table; empty where none was made."""
    holding = sorted(FORMATS.values(), key=lambda each: not each.any_size)
    paths = (each.path(table.name) for each in holding if each.all_digits)
    return next((path for path in paths if path in files), "")


def _table(
    content: Content,
    table: PublishedTable,
    query: PlannedQuery | None,
    files: Mapping[str, bytes],
    name: str,
    mark: str,
) -> Sheet:
    fields = _fields(content, table)
    made = [Field(each.header, each.cells or [NO_ESTIMATE], each.decimals) for each in fields[:SHEET_COLUMNS]]
    lines = [
        phrase(NOTICE) if content.facts.rehearsal else "",
        phrase(
            "This sheet has one table with {rows}, of period {period}.",
            rows=so_many(table.cells, "row"),
            period=content.plan.release.period,
        ),
        phrase(
            "Estimates with random noise: margin, lower and upper end hold at {confidence} % confidence.",
            confidence=percent(table.confidence),
        )
        if table.measures
        else "",
        *notes_on_numbers(table),
        _about(query),
        _too_wide(table, files, len(fields)) if len(fields) > SHEET_COLUMNS else "",
        phrase("There is no row to publish: the one below only says so.") if not table.cells else "",
        *(legend_lines(content, table) or [phrase(_EXPLAINED, notes=phrase(NOTES))]),
    ]
    return Sheet(
        name=name,
        title=_titled(content, table),
        lines=[line for line in lines if line],
        table=mark,
        fields=made or [Field(phrase("everything"), [NO_ESTIMATE])],
        back=phrase(CONTENTS),
    )


def _about(query: PlannedQuery | None) -> str:
    """What a reader must know of the rows."""
    if query is None:
        return phrase("Derived: made of other tables of this publication, after the noise.")
    if query.ranking is not None:
        return phrase("The keys that occur most often, as noise allows to tell: neighbouring ranks may be swapped.")
    if query.private:
        return phrase(
            "Which rows appear was decided by noise: rare keys are missing, and a common one may be by chance."
        )
    return phrase("Only rows where {condition}.", condition=query.where) if query.where is not None else ""


def _too_wide(table: PublishedTable, files: Mapping[str, bytes], columns: int) -> str:
    path = _file(table, files)
    said = {"shown": amount(SHEET_COLUMNS), "columns": amount(columns)}
    if path:
        return phrase(
            "The table is wider than a sheet: it shows {shown} of {columns} columns; all of it is in {path}.",
            path=path,
            **said,
        )
    return phrase(
        "The table is wider than a sheet: it shows {shown} of {columns} columns; publish it as csv as well to have all "
        "of it.",
        **said,
    )


def _fields(content: Content, table: PublishedTable) -> list[Field]:
    """Keys, words for them where there are any, then value, margin, lower, upper and status of each measure.

    What was moved after it was estimated has the estimate behind these.
    """
    fields: Columns = []
    for column, keys in zip(table.key_columns, table.keys, strict=True):
        fields.append((column.shown, _keys(column, keys), "code"))
        if any(label != code for code, label in column.labels.items()):
            words = phrase("{name}: label", name=column.shown)
            fields.append((words, [_label(column, key) for key in keys], None))
    gone = suppressed(content.plan, table).tolist()
    for measure in table.measures:
        fields += _measure(measure, gone, content.plan.publish.figures)
    if not table.key_columns:
        fields.insert(0, (phrase("cell"), [phrase("everything")] * table.cells, None))
    named = headers([name for name, _, _ in fields])
    return [Field(name, cells, decimals) for name, (_, cells, decimals) in zip(named, fields, strict=True)]


def _keys(column: Column, keys: Sequence[Key]) -> list[Cell]:
    """Numbers as far as a spreadsheet can hold them, everything else as text; an empty key is said to be one."""
    if column.type == "integer":
        return [int(key) if abs(int(key)) < _EXACT else str(key) for key in keys]
    return [key_as_text(key) or phrase("(empty)") for key in keys]


def _label(column: Column, key: Key) -> str:
    code = key_as_text(key)
    return column.labels.get(code) or code or phrase("(empty)")


def _measure(measure: PublishedMeasure, gone: Sequence[bool], figures: FigureRules | None) -> Columns:
    name, decimals, shown = measure.shown, _decimals(measure), parts_of(measure)
    withheld = _withheld(measure, gone)
    if figures is None:
        signs = [WITHHELD if hidden else NO_ESTIMATE for hidden in withheld]
        words: Sequence[Cell] = _statuses(measure, withheld)
    else:
        signs, words = missing_signs(measure, gone, figures), signed_statuses(measure, gone, figures)
    parts = {"": name, **{ending: phrase(header, name=name) for ending, header in _PARTS.items()}}
    columns: Columns = [
        (header, _numbers(numbers_of(measure, ending), signs), decimals)
        for ending, header in parts.items()
        if ending in shown
    ]
    more: Columns = [
        (phrase(header, name=name), _numbers(numbers_of(measure, ending), signs), _finest(measure))
        for ending, header in _MORE.items()
        if ending in shown
    ]
    return [*columns, (phrase("{name}: status", name=name), words, None), *more]


def _withheld(measure: PublishedMeasure, gone: Sequence[bool]) -> list[bool]:
    """In which rows there is a number that is not shown."""
    missing = (math.isnan(value) for value in measure.value.tolist())
    return [
        none and (row or status == "unreliable")
        for none, row, status in zip(missing, gone, measure.status, strict=True)
    ]


def _numbers(numbers: Sequence[float | int | None], signs: Sequence[str]) -> list[Cell]:
    return [sign if number is None else number for number, sign in zip(numbers, signs, strict=True)]


def _statuses(measure: PublishedMeasure, withheld: Sequence[bool]) -> list[Cell]:
    words = {"ok": phrase("ok"), "unreliable": phrase("unreliable [u]"), "blank": phrase("no estimate [x]")}
    hidden, withheld_row = {"unreliable": phrase("withheld [w] as unreliable [u]")}, phrase("withheld [w]")
    return [
        hidden.get(status, withheld_row) if gone else words[status]
        for status, gone in zip(measure.status, withheld, strict=True)
    ]


def _decimals(measure: PublishedMeasure) -> int | None:
    """Decimals shown: so many that the smallest margin has three digits, and none that the grid does not have."""
    finest = _finest(measure)
    return finest if measure.places is None else measure.places if finest is None else min(measure.places, finest)


def _finest(measure: PublishedMeasure) -> int | None:
    """So many decimals that the smallest margin has three digits."""
    margins: list[float] = [margin for margin in measure.margin.tolist() if math.isfinite(margin) and margin > 0]
    return max(0, min(9, 2 - math.floor(math.log10(min(margins))))) if margins else None
