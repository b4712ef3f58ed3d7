"""The pages that a person reads: ``index.html``, which lists the files, and one for each table that it cannot hold.

``site.paging`` says which tables those are, ``site.workloads`` how one finds a table of a workload. The pages need no
script and no network. What search engines for data sets look for stands in them as data (``catalogue.linked``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dprelease.estimate import PublishedMeasure, PublishedTable
from dprelease.plan.document import PlannedQuery, ReleasePlan
from dprelease.plan.explain.figures import coarser_query
from dprelease.publish.accounting.glossary import compared, described, other_delta, said_everywhere, what_is_hidden
from dprelease.publish.accounting.guarantee import chances_told
from dprelease.publish.accounting.report import accounting_page
from dprelease.publish.accounting.threat_model import apart
from dprelease.publish.base import AccountFacts, Content
from dprelease.publish.catalogue.entry import told_of
from dprelease.publish.catalogue.linked import as_script, dataset_of, table_dataset, whole_dataset
from dprelease.publish.figure_words import (
    PAGE_MOVED,
    PAGE_MOVED_HELD,
    Signs,
    judged_words,
    rounded_words,
    signs_of,
    warning_above,
)
from dprelease.publish.html_text import render_page, table_script
from dprelease.publish.numbers import at_most, odds_factor, percent
from dprelease.publish.site.chart import Chart, charts_of
from dprelease.publish.site.crossed import with_across
from dprelease.publish.site.downloads import Download, downloads, others
from dprelease.publish.site.front import key_figures, tables_on_front
from dprelease.publish.site.maps import MOST_MAPS, AreaMap, map_of
from dprelease.publish.site.notes import about_rows, not_in_the_margins, reading_of
from dprelease.publish.site.paging import Page, Paged, paged
from dprelease.publish.site.parts import PaperPart, PartRows, paper_parts, part_rows
from dprelease.publish.site.workloads import Crosstabs, crosstabs_of, workload_pages

__all__ = ["html_files", "site_files"]

INDEX = "index.html"
_MOST_GROUPS = 30
_MOST_PAGES = 30  # that a page of a table links to, beside its neighbours
_RUN = 50  # tables under one heading of the contents, where their keys give too many headings


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
        column_across: That column.
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


def html_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``index.html`` and ``pages/``, which link to the files made so far, and ``accounting.html``."""
    return {"accounting.html": accounting_page(content), **site_files(content, files)}


def site_files(content: Content, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """``index.html`` and ``pages/``.

    Args:
        content: The release.
        files: Made so far. The pages link to those among them that they know, with their sizes; so this comes last.
    """
    plan = content.plan
    queries = {query.name: query for query in plan.queries}
    of = {name: query.workload for name, query in queries.items() if query.workload is not None}
    places = paged(content.tables, of.keys(), sharing=plan.publish.layout > 2)
    several = {each.workload.name: each for each in crosstabs_of(plan.workloads, content.tables, places)}
    hrefs = {table.name: _href(table, place) for table, place in zip(content.tables, places, strict=True)}
    shared = {**_shared(content), "linked": as_script(dataset_of(content, "../"))}
    on_front = tables_on_front(several.values())
    found: dict[str, bytes] = {}
    sections, entries, several_on, fronts, single = [], [], dict[str, list[Section]](), dict[str, list[Section]](), []
    for table, place in zip(content.tables, places, strict=True):
        query = None if table.derived else queries[table.name]
        workload = several[of[table.name]] if table.name in of else None
        whole = _section(content, table, query, files, place.pages, workload, hrefs)
        if place.rows is not None:
            sections.append(whole.of_rows(0, place.rows))
        entry = _entry(table, place, files)
        single.append((table, whole.title, entry["href"], whole.signs))
        if workload is None:
            entries.append((table, entry))
        elif table.name in on_front:
            fronts.setdefault(workload.workload.name, []).append(whole.of_rows(0, table.cells))
        if place.shared:
            several_on.setdefault(place.pages[0].path, []).append(whole.of_rows(0, table.cells))
        else:
            linked = as_script(table_dataset(content, [table], whole.title, files, "../"))
            found.update(_own_pages(whole, {**shared, "linked": linked}))
    found.update(_shared_pages(several_on, shared))
    for each in several.values():
        found.update(workload_pages(each, shared))
    made = render_page(
        "index.html.j2",
        **{**shared, "linked": as_script(whole_dataset(content, files)), "catalogued": told_of(plan, content.facts)},
        **_guarantee(content),
        **reading_of(content),
        sections=sections,
        groups=_groups(entries),
        crosstabs=tuple(several.values()),
        fronts=fronts,
        figures=key_figures(single),
        adding=[each for each in several.values() if each.adds],
        above_zero=all("nonnegative" in each.workload.post for each in several.values()),
        ordinary=bool(entries),
        listed=len(entries) > len(sections),
        pages_shared=bool(several_on),
        files=others(files, signed=bool(content.facts.signer)),
        root="",
    )
    return {INDEX: made, **found}


def _own_pages(whole: Section, shared: Mapping[str, Any]) -> dict[str, bytes]:
    listed = whole.pages[:: -(-len(whole.pages) // _MOST_PAGES) or 1]
    found = {}
    for at, here in enumerate(whole.pages):
        found[here.path] = render_page(
            "table.html.j2",
            **shared,
            section=whole.of_rows(here.first, here.last),
            here=here,
            before=whole.pages[at - 1] if at else None,
            after=whole.pages[at + 1] if at + 1 < len(whole.pages) else None,
            pages=listed,
            root="../",
        )
    return found


def _shared_pages(pages: Mapping[str, Sequence[Section]], shared: Mapping[str, Any]) -> dict[str, bytes]:
    """Pages that several small tables are on, by their paths."""
    paths = ["", *pages, ""]
    return {
        path: render_page(
            "shared.html.j2",
            **shared,
            sections=pages[path],
            number=at,
            before=paths[at - 1],
            after=paths[at + 1],
            pages=len(pages),
            root="../",
        )
        for at, path in enumerate(pages, start=1)
    }


def _shared(content: Content) -> dict[str, Any]:
    """What every page says."""
    publish = content.plan.publish
    above = publish.unreliable_above
    return {
        **said_everywhere(content),
        "above": percent(above) if above is not None else "",
        "withheld": publish.unreliable_show == "blank",
        "held": publish.figures is not None,
        "judged": judged_words(publish),
        "interactive": table_script() if publish.interactive else None,
    }


def _guarantee(content: Content) -> dict[str, Any]:
    """What was protected, what it cost, and who stands for it."""
    plan, facts = content.plan, content.facts
    certified = plan.loss[plan.certified]
    return {
        "hidden": what_is_hidden(plan),
        "epsilon": at_most(certified.epsilon),
        "delta": at_most(certified.delta),
        "factor": odds_factor(certified.epsilon),
        "chances": chances_told(plan),
        "compared": compared(plan, by="than"),
        "accounts": [_account(each) for each in facts.accounts],
        "other_delta": other_delta(certified, facts.accounts),
        "apart": apart(plan),
    }


def _account(facts: AccountFacts) -> dict[str, str]:
    """An account and its cap, each figure with its delta; a cap in rho has none, and is on the accounting page."""
    after, cap = facts.after, facts.cap
    most = "" if cap.epsilon is None else f"ε = {at_most(cap.epsilon)} at δ = {at_most(cap.delta)}"
    return {"name": facts.label, "after": at_most(after.epsilon), "delta": at_most(after.delta), "cap": most}


def _section(
    content: Content,
    table: PublishedTable,
    query: PlannedQuery | None,
    files: Mapping[str, bytes],
    pages: tuple[Page, ...],
    crosstabs: Crosstabs | None,
    hrefs: Mapping[str, str],
) -> Section:
    """What is said of a table, without its rows."""
    limit = query.suppress_below if query is not None else None
    moved = any(each.unadjusted is not None for each in table.measures)  # then all of them were
    figures, signs = content.plan.publish.figures, signs_of(content.plan, table)
    column = "" if table.derived else content.plan.publish.across.get(table.name, "")
    return Section(
        table=table,
        title=_title(table, crosstabs),
        measures=tuple((each.name, _meaning(content.plan, query, each)) for each in table.measures),
        about=(
            *about_rows(content.plan, query),
            *([PAGE_MOVED if figures is None else PAGE_MOVED_HELD] if moved else []),
            *rounded_words(table),
        ),
        beside=not_in_the_margins(content.plan, query) if table.measures else (),
        below=f"the noisy {limit[0]} was below {at_most(limit[1])}" if limit is not None else "",
        unreliable=sum(each.status.count("unreliable") for each in table.measures),
        blank=sum(each.status.count("blank") for each in table.measures) - table.suppressed * len(table.measures),
        moved=moved,
        charts=charts_of(table),
        map=map_of(table, content.plan.geography) if table.name in _mapped(content) else None,
        downloads=downloads(table.name, files),
        pages=pages,
        crosstabs=crosstabs,
        signs=signs,
        caution=sum(each.status.count("caution") for each in table.measures),
        warning=warning_above(content.plan, table, query),
        coarser=_coarser(content.plan, query, hrefs),
        parts=paper_parts(table, signs),
        across=with_across(table, column) if column else None,
        column_across=column,
    )


def _mapped(content: Content) -> list[str]:
    """The first tables whose one key has boundaries."""
    columns = {each.column for each in content.plan.geography}
    return [table.name for table in content.tables if {*_key_names(table)} <= columns and _key_names(table)][:MOST_MAPS]


def _key_names(table: PublishedTable) -> list[str]:
    return [column.name for column in table.key_columns]


def _coarser(plan: ReleasePlan, query: PlannedQuery | None, hrefs: Mapping[str, str]) -> tuple[str, str]:
    """Title and place, from the folder of the bundle, of a table that has the same by fewer keys."""
    other = None if query is None else coarser_query(plan, query)
    if other is None:
        return "", ""
    href = hrefs[other.name]
    return other.title or other.name, f"{INDEX}{href}" if href.startswith("#") else href


def _href(table: PublishedTable, place: Paged) -> str:
    """Where a table is, from the index."""
    anchor = f"#table-{table.name}"
    return anchor if place.rows is not None else place.pages[0].path + (anchor if place.shared else "")


def _title(table: PublishedTable, crosstabs: Crosstabs | None) -> str:
    """A title of its own, where it has one."""
    if crosstabs is not None and table.title in ("", table.name, crosstabs.title):
        return crosstabs.heading(table.name)
    return table.title or table.name


def _meaning(plan: ReleasePlan, query: PlannedQuery | None, measure: PublishedMeasure) -> str:
    if query is None or (measure.measure is None and query.workload is None):
        covers = "margin" if measure.unadjusted is None else "interval"
        return f"made of published numbers; its {covers} covers their noise, by simulation"
    return described(measure.measure or query.measures[measure.name], plan.catalog.tables[query.table], str(plan.unit))


def _entry(table: PublishedTable, place: Paged, files: Mapping[str, bytes]) -> dict[str, Any]:
    """A table in the list of the index: where it is, its size, and its files."""
    title = table.title or table.name
    return {
        "href": _href(table, place),
        "title": title,
        "cells": table.cells,
        "downloads": downloads(table.name, files),
    }


def _groups(tables: Sequence[tuple[PublishedTable, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The tables by their keys, in published order; in runs of 50 where that gives over 30 headings."""
    found: dict[str, list[dict[str, Any]]] = {}
    for table, entry in tables:
        names = [column.name for column in table.key_columns]
        keys = f"By {', '.join(names[:-1])}{' and ' if names[1:] else ''}{names[-1]}" if names else "One number each"
        found.setdefault("Derived tables" if table.derived else keys, []).append(entry)
    if len(found) > _MOST_GROUPS:
        entries = [entry for _, entry in tables]
        starts = range(0, len(entries), _RUN)
        runs = (entries[start : start + _RUN] for start in starts)
        found = {f"Tables {at + 1} to {at + len(run)}": list(run) for at, run in zip(starts, runs, strict=True)}
    return [
        {"name": f"group-{at}", "heading": words, "entries": each} for at, (words, each) in enumerate(found.items(), 1)
    ]
