"""What a page says of one table: its words, charts, warnings and parts, before any of its rows is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.explain.figures import coarser_query
from dprelease.publish.accounting.clips import clip_lines
from dprelease.publish.accounting.glossary import described
from dprelease.publish.base import Content
from dprelease.publish.comparing.words import compared_words
from dprelease.publish.figure_words import (
    PAGE_MOVED,
    PAGE_MOVED_HELD,
    Signs,
    rounded_words,
    signs_of,
    warning_above,
)
from dprelease.publish.numbers import at_most
from dprelease.publish.site.chart import Chart, charts_of
from dprelease.publish.site.crossed import with_across
from dprelease.publish.site.linked_files import Download, downloads
from dprelease.publish.site.localised import described_by_author, source_described
from dprelease.publish.site.maps import MOST_MAPS, AreaMap, map_of
from dprelease.publish.site.notes import about_rows, not_in_the_margins
from dprelease.publish.site.paging import Page
from dprelease.publish.site.parts import PaperPart, PartRows, paper_parts, part_rows
from dprelease.publish.site.workloads import Crosstabs
from dprelease.words import phrase

__all__ = ["INDEX", "Section", "section_of", "title_on_pages"]

INDEX = "index.html"


@dataclass(frozen=True)
class Section:
    """One table on a page.

    Attributes:
        table: The table.
        title: Its title.
        measures: Names, and what the numbers are.
        about: Which rows there are.
        beside: What no margin covers.
        below: In words, the limit below which a noisy number makes a row blank.
        unreliable: How many numbers are marked or withheld.
        blank: How many numbers have no estimate.
        moved: Whether its numbers were moved after they were estimated.
        charts: The charts of its measures.
        map: The map of one of them, where its key has boundaries.
        downloads: Its files.
        pages: Where the table is.
        crosstabs: The workload that it is of.
        signs: What stands beside numbers that are not plain; None: words, as in plans from before there were signs.
        caution: How many numbers are marked to be used with care.
        warning: What is said above a table most of whose numbers are unreliable; empty: nothing.
        legend: The signs that occur in the rows that are shown, with their words.
        first: The first row that is shown, from 0.
        shown: How many rows are.
        parts: Its measures, as many side by side as a sheet of paper holds.
        blocks: These rows with the measures of each part; none of a section that is no part of a page yet.
        across: The table with a column across, where the author asks for that; it is shown where all of it is.
        column_across: What readers see in the place of that column's name.
        coarser: Title and place of a table that has the same by fewer keys; empty: there is none to offer.
    """

    table: PublishedTable
    title: str
    measures: tuple[tuple[str, str], ...]
    about: tuple[str, ...]
    beside: tuple[str, ...]
    below: str
    unreliable: int
    blank: int
    moved: bool
    charts: tuple[Chart, ...]
    map: AreaMap | None
    downloads: tuple[Download, ...]
    pages: tuple[Page, ...]
    crosstabs: Crosstabs | None
    signs: Signs | None = None
    caution: int = 0
    warning: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    first: int = 0
    shown: int = 0
    parts: tuple[PaperPart, ...] = ()
    blocks: tuple[PartRows, ...] = ()
    across: PublishedTable | None = None
    column_across: str = ""
    coarser: tuple[str, str] = ("", "")

    @property
    def held(self) -> int:
        """How many of its rows there are on pages."""
        return self.pages[-1].last if self.pages else self.table.cells

    @property
    def grid(self) -> PublishedTable:
        """The table as its rows are shown."""
        return self.table if self.across is None or self.shown < self.table.cells else self.across

    def of_rows(self, first: int, last: int) -> Section:
        """The same with these of its rows, from 0 and ``last`` not among them."""
        told = () if self.signs is None else self.signs.legend(self.table, first, last)
        if self.across is not None and (first, last) == (0, self.table.cells):
            signs = self.signs and replace(self.signs, gone=self.signs.gone[: self.across.cells])  # all False
            made = part_rows(self.across, paper_parts(self.across, signs), 0, self.across.cells, signs)
        else:
            made = part_rows(self.table, self.parts, first, last, self.signs)
        return replace(self, first=first, shown=last - first, blocks=made, legend=told)


def section_of(
    content: Content,
    table: PublishedTable,
    query: PlannedQuery | None,
    files: Mapping[str, bytes],
    pages: tuple[Page, ...],
    crosstabs: Crosstabs | None,
    others: Mapping[str, tuple[str, str]],
) -> Section:
    """What is said of a table, without its rows; ``others`` has title and place of every table, by its name."""
    limit = query.suppress_below if query is not None else None
    moved = any(each.unadjusted is not None for each in table.measures)  # then all of them were
    figures, signs = content.plan.publish.figures, signs_of(content.plan, table)
    column = "" if table.derived else content.plan.publish.across.get(table.name, "")
    coarser = _coarser(content.plan, query, others)
    return Section(
        table=table,
        title=title_on_pages(table, crosstabs),
        measures=tuple((each.shown, _meaning(content.plan, query, table, each)) for each in table.measures),
        about=(
            *described_by_author(content.plan, table.name if crosstabs is None else crosstabs.workload.name),
            *(() if query is None else source_described(content.plan, query.table)),
            *about_rows(content.plan, query),
            *([phrase(PAGE_MOVED if figures is None else PAGE_MOVED_HELD)] if moved else []),
            *compared_words(content.plan, query, content.facts, table),
            *rounded_words(table),
        ),
        beside=(
            *(not_in_the_margins(content.plan, query) if table.measures else ()),
            *(() if query is None else clip_lines(content.plan, query, content.measurements, _shown(table))),
        ),
        below=phrase("the noisy {measure} was below {limit}", measure=limit[0], limit=at_most(limit[1]))
        if limit
        else "",
        unreliable=sum(each.status.count("unreliable") for each in table.measures),
        blank=_blank(table),
        moved=moved,
        charts=charts_of(table),
        map=map_of(table, content.plan.geography) if _is_mapped(content, table) else None,
        downloads=downloads(table.name, files),
        pages=pages,
        crosstabs=crosstabs,
        signs=signs,
        caution=sum(each.status.count("caution") for each in table.measures),
        warning=warning_above(table, coarser[0]),
        coarser=coarser,
        parts=paper_parts(table, signs),
        across=with_across(table, column) if column else None,
        column_across=next((each.shown for each in table.key_columns if each.name == column), ""),
    )


def _blank(table: PublishedTable) -> int:
    """How many numbers have no estimate, but for those of rows that were suppressed, and of columns that compare."""
    own = [each for each in table.measures if each.compared is None]
    return sum(each.status.count("blank") for each in own) - table.suppressed * len(own)


def _is_mapped(content: Content, table: PublishedTable) -> bool:
    """Whether a table is one of the first whose one key has boundaries."""
    columns = {each.column for each in content.plan.geography}
    if not _are_of(columns, table):
        return False
    return table.name in islice((each.name for each in content.tables if _are_of(columns, each)), MOST_MAPS)


def _are_of(columns: set[str], table: PublishedTable) -> bool:
    """Whether a table has keys, and all of them are of these columns."""
    names = _key_names(table)
    return bool(names) and columns.issuperset(names)


def _key_names(table: PublishedTable) -> list[str]:
    return [column.name for column in table.key_columns]


def _coarser(plan: ReleasePlan, query: PlannedQuery | None, others: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Title and place, from the folder of the bundle, of a table that has the same by fewer keys."""
    other = None if query is None else coarser_query(plan, query)
    if other is None:
        return "", ""
    title, href = others[other.name]
    return title, f"{INDEX}{href}" if href.startswith("#") else href


def title_on_pages(table: PublishedTable, crosstabs: Crosstabs | None) -> str:
    """A title of its own, where it has one."""
    if crosstabs is not None and table.title in ("", table.name, crosstabs.title):
        return crosstabs.heading(table.name)
    return table.title or table.name


def _shown(table: PublishedTable) -> dict[str, str]:
    """By the names of its numbers what readers see in their place."""
    return {each.name: each.shown for each in table.measures}


def _meaning(plan: ReleasePlan, query: PlannedQuery | None, table: PublishedTable, measure: PublishedMeasure) -> str:
    if measure.compared is not None:
        return measure.compared.described(_shown(table), {each.name: each.shown for each in table.key_columns})
    if query is None or (measure.measure is None and query.workload is None):
        if measure.unadjusted is None:
            return phrase("made of published numbers; its margin covers their noise, by simulation")
        return phrase("made of published numbers; its interval covers their noise, by simulation")
    return described(measure.measure or query.measures[measure.name], plan.catalog.tables[query.table], str(plan.unit))
