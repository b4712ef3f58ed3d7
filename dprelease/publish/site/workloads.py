"""How a reader finds one of the many tables of a workload: a tree, a page for each of its columns, and neighbours.

The tables of a workload are its sets of columns at every level. The tree orders them by the number of columns, with one
line for each set and one place in it for each level. It stands on the index, as long as all trees have at most 500
tables together, else on ``pages/<workload>.html``. Every column has a page of the tables with it, so that a table is
found by any of its columns; and every table leads to the published sets next to its own, and to its set at the other
levels. So a table with k columns is at most k + 1 links away from the index, however many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dprelease.estimate import PublishedTable
from dprelease.plan.document.workload import Workload
from dprelease.publish.html_text import render_page
from dprelease.publish.numbers import so_many
from dprelease.publish.site.paging import Paged, page_path
from dprelease.words import amount, in_a_row, marked, phrase

__all__ = ["Crosstabs", "crosstabs_of", "workload_pages"]

MOST_LISTED = 500  # tables in the trees of the index
_OPEN, _OPEN_WITH_ONE = 24, 200  # lines of a branch that is shown without being asked for
_TOTAL = marked("total")
_MOST_NAMES = 12

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Link:
    """Where something is, from the folder of the bundle, and how many rows (or tables) it has."""

    href: str
    words: str
    size: int


@dataclass(frozen=True)
class Branch:
    """The sets with so many columns, each with its tables: one for each level; ``shown``: without being asked for."""

    anchor: str
    heading: str
    lines: tuple[tuple[str, tuple[Link, ...]], ...]
    shown: bool


@dataclass(frozen=True)
class Related:
    """What the page of one table leads to.

    Attributes:
        words: Its set of columns.
        level: The column of its level; empty without levels.
        levels: Its set at every level, top first; none without levels.
        fewer: The largest published sets that are part of its own, at its level.
        more: The smallest ones that its own is part of.
        columns: The page of each of its columns.
    """

    words: str
    level: str
    levels: tuple[Link, ...]
    fewer: tuple[Link, ...]
    more: tuple[Link, ...]
    columns: tuple[Link, ...]


@dataclass(frozen=True, eq=False)
class Crosstabs:
    """A workload and where its tables are.

    Attributes:
        workload: It.
        tables: Its published tables, by name.
        paths: The first page of each.
        listed: Whether its tree stands on the index.
        shown: What a reader sees of a column, by its name.
    """

    workload: Workload
    tables: Mapping[str, PublishedTable]
    paths: Mapping[str, str]
    listed: bool
    shown: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What a reader sees."""
        return self.workload.title or self.workload.name

    @property
    def home(self) -> str:
        """Where its tree is."""
        return f"index.html#workload-{self.workload.name}" if self.listed else page_path(self.workload.name)

    @property
    def adds(self) -> bool:
        """Whether sums of its tables are what its smaller tables say."""
        return "consistent" in self.workload.post

    @property
    def about(self) -> tuple[str, ...]:
        """What a reader must know of all of its tables."""
        levels, attributes = map(self._shown, (self.workload.levels, self.workload.attributes))
        counted = {"tables": so_many(len(self.workload.tables), "table"), "columns": _row(attributes)}
        if levels:
            counted |= {"levels": amount(len(levels)), "names": _row(levels)}
            found = [phrase("{tables} of counts, made of {columns}, at {levels} levels: {names}.", **counted)]
        else:
            found = [phrase("{tables} of counts, made of {columns}.", **counted)]
        if self.adds and levels:
            found.append(
                phrase(
                    "They add up to one another: sums of a table are what its smaller tables say, and every place is "
                    "the sum of the places in it."
                )
            )
        elif self.adds:
            found.append(phrase("They add up to one another: sums of a table are what its smaller tables say."))
        return tuple(found)

    def branches(self, attribute: int | None = None) -> tuple[Branch, ...]:
        """The tree, or that of the sets with one attribute."""
        kept = [axes for axes in self.workload.sets if attribute is None or attribute in axes]
        return tuple(
            self._branch(ways, [axes for axes in kept if len(axes) == ways], attribute)
            for ways in sorted(set(map(len, kept)))
        )

    @cached_property
    def columns(self) -> tuple[Link, ...]:
        """The page of every attribute, with the number of its tables."""
        counts = Counter(at for axes in self.workload.sets for at in axes)
        levels = max(1, len(self.workload.levels))
        return tuple(
            Link(self.column_path(at), name, counts[at] * levels)
            for at, name in enumerate(self._shown(self.workload.attributes))
        )

    def related(self, table: str) -> Related:
        """What the page of a table leads to."""
        level, axes = self.workload.place(table)
        return Related(
            words=self.words(axes),
            level=self.levels[level] if self.levels else "",
            levels=tuple(self._link(at, axes, column) for at, column in enumerate(self.levels)),
            fewer=tuple(self._link(level, each) for each in self._fewer[axes]),
            more=tuple(self._link(level, each) for each in self._more[axes]),
            columns=tuple(self.columns[at] for at in axes),
        )

    def heading(self, table: str) -> str:
        """The title of a table's page: that of the workload, and which table it is."""
        level, axes = self.workload.place(table)
        words = {"title": self.title, "columns": self.words(axes)}
        if self.workload.levels:
            return phrase("{title}: {columns}, at level {level}", **words, level=self.levels[level])
        return phrase("{title}: {columns}", **words)

    def words(self, axes: Axes) -> str:
        """A set as a reader sees it."""
        return " × ".join(self._shown([self.workload.attributes[at] for at in axes])) or phrase(_TOTAL)

    @property
    def levels(self) -> tuple[str, ...]:
        """What a reader sees of its levels."""
        return self._shown(self.workload.levels)

    def _shown(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.shown.get(each, each) for each in columns)

    def column_path(self, attribute: int) -> str:
        """The page of the tables with an attribute."""
        names = self.workload.attributes
        twice = len({name.lower() for name in names}) < len(names)  # one file, where capitals do not count
        # Neither is a name of a table, which has no dot, nor of a table's second page, which has no letter after it.
        return page_path(f"{self.workload.name}.{f'{attribute + 1}.' if twice else ''}{names[attribute]}")

    @cached_property
    def _names(self) -> dict[tuple[int, Axes], str]:
        """The name of every table, by its level and its set."""
        sets = self.workload.sets
        return {(at // len(sets), sets[at % len(sets)]): name for at, name in enumerate(self.workload.tables)}

    @cached_property
    def _more(self) -> dict[Axes, tuple[Axes, ...]]:
        return next_larger(self.workload.sets)

    @cached_property
    def _fewer(self) -> dict[Axes, tuple[Axes, ...]]:
        found: dict[Axes, list[Axes]] = {axes: [] for axes in self.workload.sets}
        for axes, larger in self._more.items():
            for each in larger:
                found[each].append(axes)
        return {axes: tuple(smaller) for axes, smaller in found.items()}

    def _link(self, level: int, axes: Axes, words: str = "") -> Link:
        name = self._names[level, axes]
        return Link(self.paths[name], words or self.words(axes), self.tables[name].cells)

    def _branch(self, ways: int, sets: Sequence[Axes], attribute: int | None) -> Branch:
        heading = so_many(ways, "column") if ways else phrase(_TOTAL).capitalize()
        levels = range(max(1, len(self.workload.levels)))
        lines = tuple((self.words(axes), tuple(self._link(level, axes) for level in levels)) for axes in sets)
        most = _OPEN if attribute is None else _OPEN_WITH_ONE
        return Branch(f"{self.workload.name}.{ways}", heading, lines, len(lines) <= most)


def crosstabs_of(
    workloads: Sequence[Workload],
    tables: Sequence[PublishedTable],
    places: Sequence[Paged],
    shown: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[Crosstabs, ...]:
    """Every workload with its tables, in the order of the plan; ``shown``: by table the titles of columns."""
    named = {table.name: table for table in tables}
    paths = {table.name: place.pages[0].path for table, place in zip(tables, places, strict=True) if place.pages}
    listed = sum(len(each.tables) for each in workloads) <= MOST_LISTED
    return tuple(Crosstabs(each, named, paths, listed, (shown or {}).get(each.table, {})) for each in workloads)


def workload_pages(found: Crosstabs, shared: Mapping[str, Any]) -> dict[str, bytes]:
    """The page of each column of a workload, and the one of its tree, where that is not on the index."""

    def made(heading: str, attribute: int | None = None, current: str = "") -> bytes:
        branches = found.branches(attribute)
        words = {"heading": heading, "branches": branches, "current": current}
        return render_page("workload.html.j2", **shared, workload=found, **words)

    pages = {
        found.column_path(at): made(phrase("Tables with {column}", column=column), at, column)
        for at, column in enumerate(link.words for link in found.columns)
    }
    return pages if found.listed else {**pages, found.home: made(found.title)}


def next_larger(sets: Sequence[Axes]) -> dict[Axes, tuple[Axes, ...]]:
    """For every set the smallest other ones that hold it: those that hold it and no smaller one that does.

    >>> next_larger([(), (0,), (1,), (0, 1), (0, 1, 2)])[(0,)]
    ((0, 1),)
    >>> next_larger([(), (0, 1), (0, 1, 2), (2,)])[()]
    ((2,), (0, 1))
    """
    bits = {axes: sum(1 << at for at in axes) for axes in sets}
    rising = sorted(sets, key=len)
    holding: dict[int, list[Axes]] = {}
    for axes in rising:
        for at in axes:
            holding.setdefault(at, []).append(axes)
    found = {}
    for axes in sets:
        own, kept = bits[axes], list[Axes]()
        for each in min((holding[at] for at in axes), key=len, default=rising):
            other = bits[each]
            if other != own and other & own == own and not any(bits[less] & other == bits[less] for less in kept):
                kept.append(each)
        found[axes] = tuple(kept)
    return found


def _row(names: Sequence[str]) -> str:
    """Names in a row; only the first ones of many."""
    if len(names) > _MOST_NAMES:
        first = ", ".join(names[:_MOST_NAMES])
        return phrase("{names} and {more} more columns", names=first, more=amount(len(names) - _MOST_NAMES))
    return in_a_row(names) or phrase("no column")
