"""A workbook for people: a cover, a table of contents, notes, and one sheet for each table.

It follows the rules of the UK Government Analysis Function for accessible spreadsheets: every table is marked up and
has a name that says what it is, there are no merged cells, no blank rows or columns, no frozen panes and no meaning in
colour alone, and shorthand in square brackets is explained.

Keys are text as declared, so ``06`` stays ``06`` and ``=1+1`` is no formula; signs that a cell cannot hold are written
out, and the CSV file has the keys exactly. Beside a number stand its margin and its interval; its standard error is in
the CSV file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from dprelease.catalog.table import Column, Key
from dprelease.estimate import FigureRules, PublishedMeasure, PublishedTable
from dprelease.formats import FORMATS
from dprelease.plan.document import PlannedQuery
from dprelease.plan.explain.facts import unprotected
from dprelease.publish.accounting.glossary import (
    SAMPLED,
    dictionary,
    not_protected,
    post_processing,
    what_is_hidden,
)
from dprelease.publish.accounting.guide import how_read
from dprelease.publish.base import NOTICE, Content, key_as_text
from dprelease.publish.columns import P_VALUE, SAMPLING_ERROR, TOTAL_MARGIN, UNADJUSTED
from dprelease.publish.figure_words import (
    MOVED,
    MOVED_HELD,
    judged_words,
    notes_on_numbers,
    state_words,
    suppressed,
)
from dprelease.publish.formats.cube import numbers_of, parts_of
from dprelease.publish.formats.signed_cells import legend_lines, missing_signs, signed_statuses
from dprelease.publish.formats.workbook import Cell, Field, Sheet, headers, markup_names, sheet_names
from dprelease.publish.html_text import utc
from dprelease.publish.numbers import at_most, percent, so_many

__all__ = ["WORKBOOK", "cover", "notes", "sheets_of", "xlsx_files"]

WORKBOOK = "tables/workbook.xlsx"
COVER, CONTENTS, NOTES = "Cover", "Contents", "Notes"
NO_ESTIMATE, UNRELIABLE, WITHHELD = "[x]", "[u]", "[w]"  # of plans from before they had signs of their own
_EXPLAINED = (
    f"{NO_ESTIMATE} no estimate, {UNRELIABLE} unreliable and {WITHHELD} withheld are explained in sheet {NOTES}."
)
Columns = list[tuple[str, Sequence[Cell], int | None]]
SHEET_COLUMNS = 16_384
MOST_ROWS = 1_000_000  # of a table in the workbook; a sheet has 1,048,576
MOST_CELLS = 8_000_000  # of a workbook, which takes programs minutes to open beyond
_MOST_NAMED = 40  # tables that the cover names as left out
_MORE = {SAMPLING_ERROR: "sampling error", TOTAL_MARGIN: "total margin", P_VALUE: "p-value"}
_MORE |= {UNADJUSTED: "before adjusting"}
_EXACT = 10**15  # a spreadsheet holds 15 digits of a number


def xlsx_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``tables/workbook.xlsx``, with every query and derived table.

    Args:
        content: The release.
        files: Made so far; a table that the workbook cannot hold is said to be in one of them.
    """
    from dprelease.publish.formats.workbook import workbook_bytes

    release = content.plan.release
    made = workbook_bytes(
        sheets_of(content, files),
        title=f"{release.title or release.name}, {release.period}",
        author=release.curator,
        created=content.facts.reserved_at,
    )
    return {WORKBOOK: made}


def sheets_of(content: Content, files: Mapping[str, bytes]) -> list[Sheet]:
    """The sheets as values, in order; the cover names the tables for which there is no room."""
    tables = _held(content.tables)
    asked = [table.name for table in tables]
    names = sheet_names(asked, taken=(COVER, CONTENTS, NOTES))
    marked = markup_names(asked)
    queries = {query.name: query for query in content.plan.queries}
    made = [
        _table(content, table, None if table.derived else queries.get(table.name), files, name, mark)
        for table, name, mark in zip(tables, names, marked, strict=True)
    ]
    notice = [NOTICE] if content.facts.rehearsal else []
    told = notes(content)
    return [
        Sheet(name=COVER, title=_title(content), lines=[*notice, *cover(content), *_left_out(content, files)]),
        Sheet(
            name=CONTENTS,
            title="Contents",
            lines=[*notice, "This sheet has one table. It leads to the sheet of every table of this workbook."],
            table="contents",
            fields=_contents(content, tables, files, names),
        ),
        Sheet(
            name=NOTES,
            title="Notes",
            lines=[*notice, f"This sheet has one table with {len(told)} notes."],
            table="notes",
            fields=[Field("about", [about for about, _ in told]), Field("note", [note for _, note in told])],
            back=CONTENTS,
        ),
        *made,
    ]


def _title(content: Content) -> str:
    release = content.plan.release
    return f"{release.title or release.name}, period {release.period}"


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
    lines = [
        f"Not in this workbook, because it is too large for one: {table.title or table.name} "
        f"({so_many(table.cells, 'row')}); "
        + (f"all of it is in {path}." if (path := _file(table, files)) else "publish it as csv as well to have it.")
        for table in gone[:_MOST_NAMED]
    ]
    more = len(gone) - len(lines)
    return [*lines, f"Nor are {more:,} more tables, each of which has files of its own."] if more else lines


def _contents(
    content: Content, tables: Sequence[PublishedTable], files: Mapping[str, bytes], names: Sequence[str]
) -> list[Field]:
    """Notes and tables, and the file that has each in full."""
    return [
        Field("sheet", [NOTES, *names], links=[NOTES, *names]),
        Field("title", ["Notes", *(table.title or table.name for table in tables)]),
        Field("rows", [len(notes(content)), *(table.cells for table in tables)], decimals=0),
        Field("file with all digits", ["none", *(_file(table, files) or "none" for table in tables)]),
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
        NOTICE if content.facts.rehearsal else "",
        f"This sheet has one table with {so_many(table.cells, 'row')}, of period {content.plan.release.period}.",
        f"Estimates with random noise: margin, lower and upper end hold at {percent(table.confidence)} % confidence."
        if table.measures
        else "",
        *notes_on_numbers(table),
        _about(query),
        _too_wide(table, files, len(fields)) if len(fields) > SHEET_COLUMNS else "",
        "There is no row to publish: the one below only says so." if not table.cells else "",
        *(legend_lines(content, table) or [_EXPLAINED]),
    ]
    return Sheet(
        name=name,
        title=table.title or table.name,
        lines=[line for line in lines if line],
        table=mark,
        fields=made or [Field("everything", [NO_ESTIMATE])],
        back=CONTENTS,
    )


def _about(query: PlannedQuery | None) -> str:
    """What a reader must know of the rows."""
    if query is None:
        return "Derived: made of other tables of this publication, after the noise."
    if query.ranking is not None:
        return "The keys that occur most often, as noise allows to tell: neighbouring ranks may be swapped."
    if query.private:
        return "Which rows appear was decided by noise: rare keys are missing, and a common one may be by chance."
    return f"Only rows where {query.where}." if query.where is not None else ""


def _too_wide(table: PublishedTable, files: Mapping[str, bytes], columns: int) -> str:
    path = _file(table, files)
    where = f"all of it is in {path}" if path else "publish it as csv as well to have all of it"
    return f"The table is wider than a sheet: it shows {SHEET_COLUMNS:,} of {columns:,} columns; {where}."


def _fields(content: Content, table: PublishedTable) -> list[Field]:
    """Keys, words for them where there are any, then value, margin, lower, upper and status of each measure.

    What was moved after it was estimated has the estimate behind these.
    """
    fields: list[tuple[str, Sequence[Cell], int | None]] = []
    for column, keys in zip(table.key_columns, table.keys, strict=True):
        fields.append((column.shown, _keys(column, keys), 0))
        if any(label != code for code, label in column.labels.items()):
            fields.append((f"{column.shown}: label", [_label(column, key) for key in keys], None))
    gone = suppressed(content.plan, table).tolist()
    for measure in table.measures:
        fields += _measure(measure, gone, content.plan.publish.figures)
    if not table.key_columns:
        fields.insert(0, ("cell", ["everything"] * table.cells, None))
    named = headers([name for name, _, _ in fields])
    return [Field(name, cells, decimals) for name, (_, cells, decimals) in zip(named, fields, strict=True)]


def _keys(column: Column, keys: Sequence[Key]) -> list[Cell]:
    """Numbers as far as a spreadsheet can hold them, everything else as text; an empty key is said to be one."""
    if column.type == "integer":
        return [int(key) if abs(int(key)) < _EXACT else str(key) for key in keys]
    return [key_as_text(key) or "(empty)" for key in keys]


def _label(column: Column, key: Key) -> str:
    code = key_as_text(key)
    return column.labels.get(code) or code or "(empty)"


def _measure(measure: PublishedMeasure, gone: Sequence[bool], figures: FigureRules | None) -> Columns:
    name, decimals, shown = measure.shown, _decimals(measure), parts_of(measure)
    withheld = _withheld(measure, gone)
    if figures is None:
        signs = [WITHHELD if hidden else NO_ESTIMATE for hidden in withheld]
        words: Sequence[Cell] = _statuses(measure, withheld)
    else:
        signs, words = missing_signs(measure, gone, figures), signed_statuses(measure, gone, figures)
    parts = {"": name, "_margin": f"{name}: margin", "_lower": f"{name}: lower", "_upper": f"{name}: upper"}
    columns: Columns = [
        (header, _numbers(numbers_of(measure, ending), signs), decimals)
        for ending, header in parts.items()
        if ending in shown
    ]
    more: Columns = [
        (f"{name}: {words}", _numbers(numbers_of(measure, ending), signs), _finest(measure))
        for ending, words in _MORE.items()
        if ending in shown
    ]
    return [*columns, (f"{name}: status", words, None), *more]


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
    words = {"ok": "ok", "unreliable": f"unreliable {UNRELIABLE}", "blank": f"no estimate {NO_ESTIMATE}"}
    hidden = {"unreliable": f"withheld {WITHHELD} as unreliable {UNRELIABLE}"}
    return [
        hidden.get(status, f"withheld {WITHHELD}") if gone else words[status]
        for status, gone in zip(measure.status, withheld, strict=True)
    ]


def _decimals(measure: PublishedMeasure) -> int | None:
    """Decimals shown: those of the grid, else so many that the smallest margin has three digits."""
    return measure.places if measure.places is not None else _finest(measure)


def _finest(measure: PublishedMeasure) -> int | None:
    """So many decimals that the smallest margin has three digits."""
    margins: list[float] = [margin for margin in measure.margin.tolist() if math.isfinite(margin) and margin > 0]
    return max(0, min(9, 2 - math.floor(math.log10(min(margins))))) if margins else None


def cover(content: Content) -> list[str]:
    """One line each: what this is, of when, by whom, what it cost, how to read it."""
    plan, facts = content.plan, content.facts
    release, loss = plan.release, plan.loss[plan.certified]
    share = percent(plan.publish.confidence)
    delta = f" at δ = {at_most(loss.delta)}" if loss.delta else ""
    use = [f"Made for: {release.intended_use}"] if release.intended_use else []
    return [
        "What this is: statistical tables. Every number is an estimate: random noise was added to it before it was "
        f"published, so that the tables describe the population and not any one {plan.unit} in it.",
        f"Period: {release.period}",
        f"Published by: {release.curator or 'not stated'}",
        f"Contact: {release.contact or 'not stated'}",
        *use,
        f"Privacy loss: ε = {at_most(loss.epsilon)}{delta} for each {plan.unit}; it limits how well anybody can tell "
        f"{what_is_hidden(plan)}.",
        *([unprotected(plan)] if plan.invariants else []),
        f"How to read a margin: the number without noise lies between the lower and the upper end beside it. A "
        f"statement made like this is right at least {share} % of the time. The margin covers the noise alone, not "
        "mistakes in the data, missing answers or sampling.",
        f"Charged: {utc(facts.reserved_at)}, ledger entry {facts.ledger_sequence}",
        f"Plan: {facts.plan_fingerprint}",
        "In this workbook: sheet Contents leads to every table, and sheet Notes says what each number is.",
    ]


def notes(content: Content) -> list[tuple[str, str]]:
    """What each note is about, and its words: shorthand, columns, measures, then how the numbers were made."""
    return [*_shorthand(content), *_columns(content), *_measures(content), *_made(content)]


def _shorthand(content: Content) -> Iterator[tuple[str, str]]:
    figures = content.plan.publish.figures
    if figures is not None:
        yield from ((figures.symbols[state], words) for state, words in state_words(content.plan.publish).items())
        yield from (("signs", words) for words in judged_words(content.plan.publish))
        return
    above = content.plan.publish.unreliable_above
    limit = (
        f"its margin is more than {percent(above)} % of it" if above is not None else "its margin is large beside it"
    )
    yield "[x]", "No estimate: the number, or its margin, cannot be made of the noisy measurements."
    yield "[u]", f"Unreliable: {limit}."
    yield (
        "[w]",
        "Withheld after the noise: the number is unreliable and this publication does not show such numbers, or a "
        "noisy number of its row was below a limit. No exact number was looked at for this.",
    )


def _columns(content: Content) -> Iterator[tuple[str, str]]:
    share = percent(content.plan.publish.confidence)
    yield "margin", f"Half the width of the {share} % interval about the number, before the interval is cut."
    yield (
        "lower, upper",
        "The number less and plus its margin, cut where numbers are not possible, such as a count below 0. It is never "
        "moved: a noisy number can lie outside.",
    )
    measures = [each for table in content.tables for each in table.measures]
    if any(each.tested for each in measures):
        yield (
            "means, ratios",
            f"Their {share} % intervals are all quotients that the noise does not rule out, often longer on one side; "
            "the margin is the distance of the farther end.",
        )
    if any(each.sampling_error is not None for each in measures):
        yield "sampling error, total margin", SAMPLED
    if any(each.unadjusted is not None for each in measures):
        words = MOVED if content.plan.publish.figures is None else MOVED_HELD
        yield "before adjusting", words[:1].upper() + words[1:]
    yield "status", "ok, or why the number needs care or is missing."
    yield "digits", "Numbers are shown rounded; the cells hold more digits, and the CSV file holds all of them."
    yield (
        "keys",
        "Keys are text, so that 06 is not 6. Tabs, line ends and hidden signs in a key are written out here; the CSV "
        "file has every key exactly as it is.",
    )


def _measures(content: Content) -> Iterator[tuple[str, str]]:
    """The dictionary of the queries, and what derived tables are made of."""
    for query, columns in dictionary(content.plan).items():
        for name, words in columns.items():
            yield f"{query}: {name}", f"{words[:1].upper()}{words[1:]}."
    for table in content.tables:
        if table.derived:
            yield table.name, f"Made of published numbers by SQL, after the noise: {table.derived}"


def _made(content: Content) -> Iterator[tuple[str, str]]:
    plan = content.plan
    for words in how_read(plan):
        yield "how the data was read", words
    for words in post_processing(plan):
        yield "after the noise", words
    for words in not_protected(plan):
        yield "not protected", words
