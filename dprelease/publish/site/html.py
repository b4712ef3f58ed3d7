"""The pages that a person reads: ``index.html``, which lists the files, and one for each table that it cannot hold.

``site.paging`` says which tables those are, ``site.workloads`` how one finds a table of a workload. The pages need no
script and no network. What search engines for data sets look for stands in them as data (``catalogue.linked``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dprelease.estimate import PublishedTable
from dprelease.plan.document import ReleasePlan
from dprelease.publish.accounting.glossary import compared, other_delta, said_everywhere, what_is_hidden
from dprelease.publish.accounting.guarantee import chances_told
from dprelease.publish.accounting.report import accounting_page
from dprelease.publish.accounting.threat_model import apart
from dprelease.publish.base import AccountFacts, Content
from dprelease.publish.catalogue.entry import told_of
from dprelease.publish.catalogue.linked import as_script, dataset_of, table_dataset, whole_dataset
from dprelease.publish.figure_words import (
    judged_words,
)
from dprelease.publish.html_text import render_page, table_script
from dprelease.publish.numbers import at_most, odds_factor, percent
from dprelease.publish.site.front import key_figures, series_of, tables_on_front, written_day
from dprelease.publish.site.linked_files import downloads, offered, others
from dprelease.publish.site.localised import accountable, columns_described, in_spoken_language, languages_of
from dprelease.publish.site.notes import reading_of
from dprelease.publish.site.paging import Paged, paged
from dprelease.publish.site.sections import INDEX, Section, section_of, title_on_pages
from dprelease.publish.site.workloads import crosstabs_of, workload_pages
from dprelease.words import LANGUAGES, in_a_row, phrase, speaking, spoken

__all__ = ["html_files", "site_files"]

ACCOUNTING = "accounting.html"
_MOST_GROUPS = 30
_MOST_PAGES = 30  # that a page of a table links to, beside its neighbours
_RUN = 50  # tables under one heading of the contents, where their keys give too many headings


def html_files(content: Content, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """``index.html`` and ``pages/``, which link to the files made so far, and ``accounting.html``.

    The pages of the first language stand in the bundle itself, those of each other one in a folder that is named after
    it. The sentences of ``accounting.json`` are in English, those of ``accounting.html`` in the language of its folder.
    """
    found: dict[str, bytes] = {}
    for at, tag in enumerate(languages_of(content.plan)):
        with speaking(tag):
            root = "../" if at else ""
            pages = site_files(in_spoken_language(content), files, root=root)
            pages[ACCOUNTING] = accounting_page(
                accountable(content), root, _others(content.plan, root, ACCOUNTING), columns_described(content.plan)
            )
        found.update({f"{tag}/{path}" if at else path: page for path, page in pages.items()})
    return found


def site_files(content: Content, files: Mapping[str, bytes], *, root: str = "") -> dict[str, bytes]:
    """``index.html`` and ``pages/`` in the language that is spoken.

    Args:
        content: The release.
        files: Made so far. The pages link to those among them that they know, with their sizes; so this comes last.
        root: From the folder of these pages to that of the bundle.
    """
    plan = content.plan
    queries = {query.name: query for query in plan.queries}
    of = {name: query.workload for name, query in queries.items() if query.workload is not None}
    places = paged(content.tables, of.keys(), sharing=plan.publish.layout > 2)
    shown = {name: {each.name: each.shown for each in table.columns} for name, table in plan.catalog.tables.items()}
    made_of = crosstabs_of(plan.workloads, content.tables, places, shown)
    several = {each.workload.name: each for each in made_of}
    in_workload = {table.name: several[of[table.name]] if table.name in of else None for table in content.tables}
    titled = {
        table.name: (title_on_pages(table, in_workload[table.name]), _href(table, place))
        for table, place in zip(content.tables, places, strict=True)
    }
    shared = _shared(content, root)
    on_front = tables_on_front(several.values())
    found: dict[str, bytes] = {}
    sections, entries, several_on, fronts, single = [], [], dict[str, list[Section]](), dict[str, list[Section]](), []
    for table, place in zip(content.tables, places, strict=True):
        query = None if table.derived else queries[table.name]
        workload = in_workload[table.name]
        whole = section_of(content, table, query, files, place.pages, workload, titled)
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
            linked = as_script(table_dataset(content, [table], whole.title, files, shared["root"]))
            found.update(_own_pages(plan, whole, {**shared, "linked": linked}))
    found.update(_shared_pages(plan, several_on, shared))
    for each in several.values():
        found.update(workload_pages(each, {**shared, "others": _others(plan, shared["root"], INDEX)}))
    told = told_of(plan, content.facts)
    made = render_page(
        "index.html.j2",
        **{name: each for name, each in shared.items() if name not in ("root", "home", "linked")},
        linked=as_script(whole_dataset(content, files, root)),
        catalogued=told,
        issued=written_day(told.issued),
        started=written_day(told.start),
        ended=written_day(told.end),
        offered=offered(files, f"{spoken().tag}/" if root else ""),
        **_guarantee(content),
        **reading_of(content),
        sections=sections,
        groups=_groups(entries),
        crosstabs=tuple(several.values()),
        fronts=fronts,
        figures=key_figures(single, plan.publish.key_figures),
        adding=[each for each in several.values() if each.adds],
        above_zero=all("nonnegative" in each.workload.post for each in several.values()),
        ordinary=bool(entries),
        listed=len(entries) > len(sections),
        pages_shared=bool(several_on),
        files=others(files, signed=bool(content.facts.signer), folder=f"{spoken().tag}/" if root else ""),
        abstract=_abstract(plan),
        series=series_of(plan, content.facts),
        others=_others(plan, root, INDEX),
        root=root,
        home="",
    )
    return {INDEX: made, **found}


def _abstract(plan: ReleasePlan) -> str:
    """The author's paragraph, in the language that is spoken; empty where there is none."""
    names = plan.catalog.names
    return "" if names is None else names.said("release", "abstract", language=spoken().tag)


def _others(plan: ReleasePlan, root: str, path: str) -> tuple[tuple[str, str, str], ...]:
    """The same page in every other language: its tag, its name, and where it is.

    Args:
        plan: The plan.
        root: From the page to the folder of the bundle.
        path: Of the page, from the folder of its language; it is one that every language has.
    """
    tags = languages_of(plan)
    return tuple(
        (tag, LANGUAGES[tag].name, f"{root}{f'{tag}/' if at else ''}{path}")
        for at, tag in enumerate(tags)
        if tag != spoken().tag
    )


def _own_pages(plan: ReleasePlan, whole: Section, shared: Mapping[str, Any]) -> dict[str, bytes]:
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
            others=_others(plan, shared["root"], whole.pages[0].path),
        )
    return found


def _shared_pages(
    plan: ReleasePlan, pages: Mapping[str, Sequence[Section]], shared: Mapping[str, Any]
) -> dict[str, bytes]:
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
            others=_others(plan, shared["root"], INDEX),
        )
        for at, path in enumerate(pages, start=1)
    }


def _shared(content: Content, root: str) -> dict[str, Any]:
    """What every page in ``pages/`` says, and the index, which says otherwise where it is."""
    publish = content.plan.publish
    above = publish.unreliable_above
    return {
        **said_everywhere(content),
        "above": percent(above) if above is not None else "",
        "withheld": publish.unreliable_show == "blank",
        "held": publish.figures is not None,
        "judged": judged_words(publish),
        "root": f"../{root}",
        "home": "../",
        "linked": as_script(dataset_of(content, f"../{root}")),
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
    most = (
        ""
        if cap.epsilon is None
        else phrase("ε = {epsilon} at δ = {delta}", epsilon=at_most(cap.epsilon), delta=at_most(cap.delta))
    )
    return {"name": facts.label, "after": at_most(after.epsilon), "delta": at_most(after.delta), "cap": most}


def _href(table: PublishedTable, place: Paged) -> str:
    """Where a table is, from the index."""
    anchor = f"#table-{table.name}"
    return anchor if place.rows is not None else place.pages[0].path + (anchor if place.shared else "")


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
        names = [column.shown for column in table.key_columns]
        keys = phrase("By {columns}", columns=in_a_row(names)) if names else phrase("One number each")
        found.setdefault(phrase("Derived tables") if table.derived else keys, []).append(entry)
    if len(found) > _MOST_GROUPS:
        entries = [entry for _, entry in tables]
        starts = range(0, len(entries), _RUN)
        runs = (entries[start : start + _RUN] for start in starts)
        found = {
            phrase("Tables {first} to {last}", first=at + 1, last=at + len(run)): list(run)
            for at, run in zip(starts, runs, strict=True)
        }
    return [
        {"name": f"group-{at}", "heading": words, "entries": each} for at, (words, each) in enumerate(found.items(), 1)
    ]
