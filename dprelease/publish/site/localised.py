"""A release as pages in one language show it: titles, labels and units in that language, names where there are none."""

from __future__ import annotations

from dataclasses import replace

from dprelease.catalog.names import Foreign, Names
from dprelease.catalog.table import Column, Table
from dprelease.estimate import RANK, PublishedMeasure, PublishedTable
from dprelease.measures import Measure
from dprelease.plan.document import Account, PlannedQuery, ReleasePlan
from dprelease.publish.base import Content
from dprelease.spec.fields.workloads import TOTAL_KEY
from dprelease.words import DEFAULT, phrase, spoken

__all__ = [
    "accountable",
    "columns_described",
    "described_by_author",
    "in_spoken_language",
    "languages_of",
    "plan_in_spoken_language",
    "source_described",
    "titled",
]


def languages_of(plan: ReleasePlan) -> tuple[str, ...]:
    """The languages of the pages, the first one first."""
    return (DEFAULT,) if plan.catalog.names is None else plan.catalog.names.languages


def in_spoken_language(content: Content) -> Content:
    """The release with everything that the author says of names, in the language that is spoken.

    What is measured and how stays as it is; only what people read of names, keys, units and conditions is another.
    """
    names = content.plan.catalog.names
    if names is None:
        return content
    plan = _plan(content.plan, names)
    return replace(content, plan=plan, tables=tuple(_table(plan, names, table) for table in content.tables))


def accountable(content: Content) -> Content:
    """The release as its accounting speaks of it: with title and unit in the language that is spoken, else as planned.

    Losses are worked out of this plan, so that nothing that they follow from may change: conditions and columns keep
    the words of the specification, and accounts of the unit that is renamed are renamed with it.
    """
    names, plan = content.plan.catalog.names, content.plan
    if names is None:
        return content
    tag, before = spoken().tag, str(plan.unit)
    entity = names.said("unit", "title", language=tag) or plan.unit.entity
    unit = plan.unit.model_copy(update={"entity": entity})

    def renamed(account: Account) -> Account:
        nests = {str(unit) if name == before else name: most for name, most in account.nests.items()}
        return account.model_copy(
            update={"unit": str(unit) if account.unit == before else account.unit, "nests": nests}
        )

    title = names.said("release", "title", language=tag) or plan.release.title
    release = plan.release.model_copy(update={"title": title})
    told = {
        name: tuple(
            each.model_copy(update={"unit": str(unit) if each.unit == before else each.unit})
            for each in getattr(content.facts, name)
        )
        for name in ("accounts", "windows")
    }
    named = {"unit": unit, "release": release, "accounts": tuple(map(renamed, plan.accounts))}
    return replace(content, plan=plan.model_copy(update=named), facts=content.facts.model_copy(update=told))


def plan_in_spoken_language(plan: ReleasePlan) -> ReleasePlan:
    """The plan with everything that the author says of names, in the language that is spoken."""
    return plan if plan.catalog.names is None else _plan(plan, plan.catalog.names)


def titled(content: Content) -> Content:
    """The release as files for programs have it: by its names, with titles beside them in the first language."""
    names = content.plan.catalog.names
    if names is None:
        return content
    of = {query.name: query for query in content.plan.queries}

    def with_titles(table: PublishedTable) -> PublishedTable:
        query = None if table.derived else of.get(table.name)
        at = table.name if query is None else query.workload or query.name
        columns = {name: (held.name, name) for held in _tables_of(content.plan, query) for name in held.named}
        keys = (
            each.model_copy(update={"title": _first(names, "tables", columns[each.name][0], "columns", each.name)})
            if each.name in columns
            else each
            for each in table.key_columns
        )
        measures = (replace(each, title=_first(names, "queries", at, "measures", each.name)) for each in table.measures)
        return replace(table, key_columns=tuple(keys), measures=tuple(measures))

    return replace(content, tables=tuple(map(with_titles, content.tables)))


def _first(names: Names, *path: str) -> str:
    """A title in the first language, or else in any."""
    return str(names.said(*path, "title", language=names.languages[0]))


def described_by_author(plan: ReleasePlan, query: str) -> tuple[str, ...]:
    """The author's words on a table, in the language that is spoken; none where there are none."""
    names = plan.catalog.names
    told = "" if names is None else names.said("queries", query, "description", language=spoken().tag)
    return (told,) if told else ()


def source_described(plan: ReleasePlan, table: str) -> tuple[str, ...]:
    """The author's words on a table that was read, as a line; none where there are none."""
    names, tag = plan.catalog.names, spoken().tag
    if names is None:
        return ()
    title, told = (names.said("tables", table, what, language=tag) for what in ("title", "description"))
    if not title:
        return (phrase("From the data: {description}", description=told),) if told else ()
    if not told:
        return (phrase("From the data “{title}”.", title=title),)
    return (phrase("From the data “{title}”: {description}", title=title, description=told),)


def columns_described(plan: ReleasePlan) -> tuple[tuple[str, str, str], ...]:
    """Every table and column of which the author says more than its name: its name, its title, its description."""
    names, tag = plan.catalog.names, spoken().tag
    if names is None:
        return ()
    places: dict[str, tuple[str, ...]] = {}
    for table in plan.catalog.tables.values():
        places[table.name] = ("tables", table.name)
        for column in table.columns:
            places[f"{table.name}.{column.name}"] = ("tables", table.name, "columns", column.name)
    told = (
        (name, *(names.said(*path, what, language=tag) for what in ("title", "description")))
        for name, path in places.items()
    )
    return tuple((name, title, description) for name, title, description in told if title or description)


def _plan(plan: ReleasePlan, names: Names) -> ReleasePlan:
    tag = spoken().tag

    def title(kind: str, name: str, before: str) -> str:
        return names.said(kind, name, "title", language=tag) or before

    tables = {name: _described(table, names) for name, table in plan.catalog.tables.items()}
    unit = names.said("unit", "title", language=tag)
    changes = {
        "release": plan.release.model_copy(
            update={"title": names.said("release", "title", language=tag) or plan.release.title}
        ),
        "catalog": plan.catalog.model_copy(update={"tables": tables}),
        "queries": tuple(_query(query, names) for query in plan.queries),
        "workloads": tuple(
            each.model_copy(update={"title": title("queries", each.name, each.title)}) for each in plan.workloads
        ),
        "derive": tuple(
            each.model_copy(update={"title": title("queries", each.name, each.title)}) for each in plan.derive
        ),
        "unit": plan.unit.model_copy(update={"entity": unit}) if unit else plan.unit,
    }
    return plan.model_copy(update=changes)


def _described(table: Table, names: Names) -> Table:
    return table.model_copy(update={"columns": tuple(_column(table.name, each, names) for each in table.columns)})


def _column(table: str, column: Column, names: Names) -> Column:
    tag, at = spoken().tag, ("tables", table, "columns", column.name)
    labels = {key: names.said(*at, "labels", key, language=tag) or label for key, label in column.labels.items()}
    changes = {
        "title": names.said(*at, "title", language=tag),
        "labels": labels,
        "measured_in": names.said(*at, "measured_in", language=tag) or column.measured_in,
    }
    return column.model_copy(update=changes)


def _query(query: PlannedQuery, names: Names) -> PlannedQuery:
    tag, at = spoken().tag, ("queries", query.workload or query.name)
    changes = {
        "title": "" if query.workload else names.said(*at, "title", language=tag) or query.title,
        "where": names.said(*at, "condition", language=tag) or query.where,
        "measures": {name: _measure(each, name, at, names) for name, each in query.measures.items()},
    }
    return query.model_copy(update=changes)


def _measure(measure: Measure, name: str, at: tuple[str, ...], names: Names) -> Measure:
    tag = spoken().tag
    told: dict[str, object] = {}
    if condition := names.said(*at, "measures", name, "condition", language=tag):
        told["where"] = condition
    measure = measure.of_titles(lambda each: names.said(*at, "measures", each, "title", language=tag) or each)
    return measure.model_copy(update=told) if told else measure


def _table(plan: ReleasePlan, names: Names, table: PublishedTable) -> PublishedTable:
    query = None if table.derived else plan.query(table.name)
    workload = None if query is None else query.workload
    title = names.said("queries", table.name, "title", language=spoken().tag) or table.title
    columns = _columns_of(plan, query)
    return replace(
        table,
        title="" if workload else title,
        key_columns=tuple(_key_column(each, columns) for each in table.key_columns),
        measures=tuple(_published(each, workload or table.name, query, names) for each in table.measures),
    )


def _columns_of(plan: ReleasePlan, query: PlannedQuery | None) -> dict[str, Column]:
    """The columns that keys of a table can be of: of its own, or of a derived one those of all tables."""
    return {column.name: column for table in _tables_of(plan, query) for column in table.columns}


def _tables_of(plan: ReleasePlan, query: PlannedQuery | None) -> tuple[Table, ...]:
    """The table of a query; of a derived table all of them, the first one last, so that its columns count."""
    return tuple(plan.catalog.tables.values())[::-1] if query is None else (plan.catalog.tables[query.table],)


def _key_column(column: Column, columns: dict[str, Column]) -> Column:
    if column.name == RANK:
        return column.model_copy(update={"title": phrase("rank")})
    known = columns.get(column.name)
    if known is None:
        return column
    total = {TOTAL_KEY: phrase("Total")} if TOTAL_KEY in column.labels and TOTAL_KEY not in known.labels else {}
    return column.model_copy(update={"title": known.title, "labels": {**column.labels, **known.labels, **total}})


def _published(measure: PublishedMeasure, at: str, query: PlannedQuery | None, names: Names) -> PublishedMeasure:
    tag, path = spoken().tag, ("queries", at, "measures", measure.name)
    title, unit = (names.said(*path, what, language=tag) for what in ("title", "measured_in"))
    told = query.measures.get(measure.name) if query is not None else None
    if unit:
        whole = f"{title or measure.name} ({unit})"
        title = Foreign(whole, title.tag) if isinstance(title, Foreign) else whole
    return replace(measure, title=title, measure=measure.measure if told is None else told)
