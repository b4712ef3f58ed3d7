"""The page that a person reads: ``index.html``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dprelease.catalog.table import Column, Key
from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.plan.document import PlannedQuery
from dprelease.publish.accounting.words import described, relation, what_is_hidden
from dprelease.publish.base import NOTICE, Content, key_text
from dprelease.publish.numbers import at_most, odds_factor, percent, shown, surest_guess
from dprelease.publish.site.chart import Chart, chart
from dprelease.publish.site.pages import page, utc

__all__ = ["index_page"]

# Rows shown of each table; the next smaller number is tried while the page is too large to open quickly.
ROWS = (500, 200, 50, 10, 0)
LARGEST_PAGE = 2_000_000


@dataclass(frozen=True)
class Words:
    """A key as shown: its label, and the code beside it where the two differ."""

    label: str
    code: str


@dataclass(frozen=True)
class Cell:
    """A number as shown."""

    value: str
    margin: str
    status: str


@dataclass(frozen=True)
class Row:
    """One cell of a query: its keys and its numbers."""

    keys: tuple[Words, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Section:
    """One query on the page."""

    name: str
    title: str
    key_names: tuple[str, ...]
    measures: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    note: str
    total: int
    suppressed: int
    below: str
    derived: bool
    unreliable: int
    blank: int
    charts: tuple[Chart, ...]
    downloads: tuple[tuple[str, str, str], ...]


def index_page(content: Content, files: Mapping[str, bytes]) -> bytes:
    """The page; at most 500 rows of a table, fewer where it would grow over 2 MB.

    Args:
        content: The release.
        files: The table files that it links to, for their sizes.
    """
    made = b""
    for rows in ROWS:
        sections = tuple(_section(content, table, files, rows) for table in content.tables)
        made = page("index.html.j2", **_context(content, sections))
        if len(made) <= LARGEST_PAGE:
            break
    return made


def _context(content: Content, sections: tuple[Section, ...]) -> dict[str, Any]:
    plan, facts = content.plan, content.facts
    certified = plan.loss[plan.certified]
    return {
        "release": plan.release,
        "title": plan.release.title or plan.release.name,
        "facts": facts,
        "charged": utc(facts.reserved_at),
        "notice": NOTICE if facts.rehearsal else "",
        "sections": sections,
        "unit": str(plan.unit),
        "relation": relation(plan),
        "hidden": what_is_hidden(plan),
        "confidence": percent(plan.publish.confidence),
        "outside": percent(1 - plan.publish.confidence),
        "above": percent(plan.publish.unreliable_above) if plan.publish.unreliable_above is not None else "",
        "withheld": plan.publish.unreliable_show == "blank",
        "epsilon": at_most(certified.epsilon),
        "delta": at_most(certified.delta) if certified.delta else "",
        "factor": odds_factor(certified.epsilon),
        "guess": surest_guess(certified.epsilon, certified.delta),
        "example": _example(sections),
        "marginless": any(row for section in sections for row in section.rows if _bare(row)),
        "shared": any(len(step.answers) > 1 for step in plan.steps),
        "accounts": [(each.name, at_most(each.after.epsilon), _cap(each.cap.epsilon)) for each in facts.accounts],
    }


def _cap(epsilon: Any) -> str:
    return at_most(epsilon) if epsilon is not None else ""


def _section(content: Content, table: PublishedTable, files: Mapping[str, bytes], rows: int) -> Section:
    statuses = [status for measure in table.measures for status in measure.status]
    query = next((each for each in content.plan.queries if each.name == table.name and not table.derived), None)
    drawn = tuple(chart(table, measure) for measure in table.measures) if rows else ()
    limit = query.suppress_below if query is not None else None
    return Section(
        name=table.name,
        title=table.title or table.name,
        key_names=tuple(column.name for column in table.key_columns),
        measures=tuple((each.name, _meaning(content, query, each)) for each in table.measures),
        rows=tuple(_row(table, at) for at in range(min(rows, table.cells))),
        note=_note(content, query),
        total=table.cells,
        suppressed=table.suppressed,
        below=f"the noisy {limit[0]} was below {at_most(limit[1])}" if limit is not None else "",
        derived=bool(table.derived),
        unreliable=statuses.count("unreliable"),
        blank=statuses.count("blank") - table.suppressed * len(table.measures),
        charts=tuple(each for each in drawn if each is not None),
        downloads=tuple(_downloads(table.name, files)),
    )


def _meaning(content: Content, query: PlannedQuery | None, measure: PublishedMeasure) -> str:
    if query is None or measure.measure is None:
        return "made of published numbers; its margin covers their noise, by simulation"
    return described(measure.measure, content.plan.catalog.tables[query.table], str(content.plan.unit))


def _note(content: Content, query: PlannedQuery | None) -> str:
    """What a reader must know of the rows of a table."""
    if query is None:
        return "Derived: made of other tables of this publication, after the noise."
    if query.ranking is not None:
        return "The keys that occur most often, as noise allows to tell: neighbouring ranks may be swapped."
    if query.private:
        return "Which rows appear was decided by noise: rare keys are missing, and a common one may be by chance."
    return f"Only rows where {query.where}." if query.where is not None else ""


def _downloads(name: str, files: Mapping[str, bytes]) -> list[tuple[str, str, str]]:
    found = []
    for ending, label in (("csv", "CSV"), ("parquet", "Parquet")):
        path = f"tables/{name}.{ending}"
        if path in files:
            found.append((path, label, _size(len(files[path]))))
    return found


def _size(size: int) -> str:
    return f"{size} bytes" if size < 1000 else f"{size / 1000:,.1f} kB" if size < 1e6 else f"{size / 1e6:,.1f} MB"


def _row(table: PublishedTable, at: int) -> Row:
    keys = tuple(_words(column, keys[at]) for column, keys in zip(table.key_columns, table.keys, strict=True))
    return Row(keys=keys, cells=tuple(_cell(measure, at) for measure in table.measures))


def _words(column: Column, key: Key) -> Words:
    code = key_text(key)
    label = column.labels.get(code, code)
    return Words(label=label, code=code if label != code else "")


def _cell(measure: PublishedMeasure, at: int) -> Cell:
    value, margin = shown(float(measure.value[at]), float(measure.margin[at]), measure.places)
    return Cell(value=value, margin=margin, status=measure.status[at])


def _bare(row: Row) -> bool:
    return any(cell.value and not cell.margin for cell in row.cells)


def _example(sections: tuple[Section, ...]) -> tuple[str, str, str] | None:
    """The first number with a margin: what it says, for the paragraph that explains margins."""
    for section in sections:
        for row in section.rows:
            for (name, _), cell in zip(section.measures, row.cells, strict=True):
                if cell.margin and cell.status == "ok":
                    return name, cell.value, cell.margin
    return None
