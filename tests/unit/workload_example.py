"""Made-up workloads as the pages get them: many tables of counts, at one level or at several."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np

from dprelease.catalog.table import Catalog, Column, Source, Table
from dprelease.estimate import PublishedMeasure, PublishedTable, full_product
from dprelease.estimate.keys import Coded
from dprelease.measures.count import Count
from dprelease.plan.document import Goal, PlannedQuery, ReleasePlan, Workload
from dprelease.publish import published_tables
from dprelease.publish.base import Content
from tests.unit import publish_example

# The columns of Adult, and how many keys each has in published work on marginals.
ADULT = {
    "age": 85, "workclass": 9, "fnlwgt": 100, "education": 16, "education_num": 16, "marital_status": 7,
    "occupation": 15, "relationship": 6, "race": 5, "sex": 2, "capital_gain": 100, "capital_loss": 100,
    "hours_per_week": 99, "native_country": 42,
}  # fmt: skip
SEX = {"1": "Male", "2": "Female"}


def column(name: str, keys: int) -> Column:
    labels = SEX if name == "sex" else {}
    return Column(name=name, type="text", keys=tuple(str(at) for at in range(1, keys + 1)), labels=labels)


def workload(
    name: str, attributes: tuple[str, ...], ways: tuple[int, ...], levels: tuple[str, ...] = (), title: str = ""
) -> Workload:
    """All tables of so many of the attributes."""
    sets = tuple(axes for way in ways for axes in combinations(range(len(attributes)), way))
    parts = [[*levels[at : at + 1], *(attributes[i] for i in axes)] for at in range(len(levels) or 1) for axes in sets]
    return Workload(
        name=name,
        title=title or name,
        measure="count",
        table="persons",
        attributes=attributes,
        hierarchy="geography" if levels else None,
        levels=levels,
        sets=sets,
        tables=tuple("__".join([name, *each] if each[len(levels[:1]) :] else [name, *each, "total"]) for each in parts),
        takes=(),
        strategy="residuals",
        goal=Goal(share=Fraction(1)),
    )


def content(*workloads: Workload, sizes: dict[str, int], ordinary: bool = True) -> Content:
    """A release of the workloads, and of the example's two tables where they are asked for."""
    made = publish_example.plan()
    columns = tuple(column(name, keys) for name, keys in sizes.items())
    known = publish_example.table() if ordinary else None
    persons = Table(
        name="persons",
        account="acs",
        source=Source(file="data/persons-*.csv", format="csv"),
        columns=(*(known.columns if known else ()), *(each for each in columns if not _has(known, each.name))),
    )
    first = _ordinary(made) if ordinary else ()
    queries = tuple(query for each in workloads for query in _queries(each))
    plan = made.model_copy(
        update={
            "catalog": Catalog(tables={"persons": persons}),
            "queries": (*(made.queries if ordinary else ()), *queries),
            "workloads": workloads,
        }
    )
    tables = tuple(published(persons, query) for query in queries)
    return Content(plan, (*first, *tables), publish_example.facts(plan))


def _has(known: Table | None, name: str) -> bool:
    return known is not None and name in {each.name for each in known.columns}


def _ordinary(plan: ReleasePlan) -> tuple[PublishedTable, ...]:
    return published_tables(plan, publish_example.measurements())


def _queries(of: Workload) -> list[PlannedQuery]:
    return [
        PlannedQuery(
            name=name,
            title=of.title,
            table="persons",
            by=of.columns(*of.place(name)),
            measures={"count": Count(count="rows")},
            inputs={},
            workload=of.name,
        )
        for name in of.tables
    ]


def published(table: Table, query: PlannedQuery) -> PublishedTable:
    """A table of counts that are no whole numbers, as reconciled ones are; all of a table have one margin."""
    columns = tuple(table.column(name) for name in query.by)
    rows = full_product(columns)
    value = np.arange(len(rows), dtype=np.float64) % 977 * np.float64(1.37) - 20
    margin = np.broadcast_to(np.float64(58.8), len(rows))
    measure = PublishedMeasure(
        name="count",
        measure=query.measures["count"],
        value=value,
        standard_error=np.broadcast_to(np.float64(30.0), len(rows)),
        margin=margin,
        lower=np.maximum(value - margin, 0),
        upper=np.maximum(value + margin, 0),
        status=Coded.repeated(("ok",), 1, len(rows)),
        places=None,
        integer=False,
    )
    return PublishedTable(
        name=query.name,
        title=query.title,
        key_columns=columns,
        keys=rows.columns,
        measures=(measure,),
        confidence=Fraction(95, 100),
        cells=len(rows),
    )
