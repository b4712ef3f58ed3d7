"""Releases as the formats get them: plain, hostile, with choices, and with every kind of missing number."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from dprelease.catalog.table import Catalog, Column
from dprelease.noise import Measurement
from dprelease.plan.document import Publish, ReleasePlan
from dprelease.publish.base import Content
from dprelease.publish.derive.tables import derived_tables, seed_of
from dprelease.publish.measured import inputs_of, queries_as_tables
from tests.unit import choices_example, publish_example

# Formulas, markup, quotes, line ends, marks that reorder text, and what XML or a spreadsheet reads as something else.
HOSTILE = (
    "=1+1", "+1", "-1", "@x", "a\tb", "\t=1", "<script>alert(1)</script>", '"q",', "a\r\nb", "\u202eabc", "\u200fא",
    "06", "6", "<r><t>x</t></r>", "_x0041_", " edge ", "\uffff\ufffe", "a\x00b", "TRUE", "NA", "1e5",
)  # fmt: skip
LABELS = {"06": '=HYPERLINK("http://x.example","y")', "6": "<b>six</b>", "=1+1": "+two"}


def content(
    plan: ReleasePlan, measured: Mapping[str, Measurement], *, rehearsal: bool = False, derived: bool = False
) -> Content:
    """What a format gets of a plan and its measurements."""
    plan = ReleasePlan.from_canonical(plan.canonical())
    inputs = inputs_of(plan, measured)
    tables = queries_as_tables(plan, inputs)
    further = derived_tables(plan, tables, inputs, seed_of(measured)) if derived else ()
    facts = publish_example.facts(plan, rehearsal=rehearsal)
    return Content(plan, (*tables, *further), facts, measured)


def plain(*, rehearsal: bool = False, show: str = "flag", period: str = "2024-03") -> Content:
    """Counts, sums and means; some unreliable, some without an estimate."""
    publish = Publish.model_validate({"unreliable_above": Fraction(1, 2), "unreliable_show": show})
    release = publish_example.plan().release.model_copy(update={"period": period})
    made = publish_example.plan(publish=publish, release=release)
    return content(made, publish_example.measurements(), rehearsal=rehearsal)


def hostile(keys: tuple[str, ...] = HOSTILE) -> Content:
    """The plain release with hostile keys, labels and titles."""
    made, table = publish_example.plan(), publish_example.table()
    labels = {key: label for key, label in LABELS.items() if key in keys}
    region = Column(name="region", type="text", keys=keys, labels=labels)
    columns = tuple(region if column.name == "region" else column for column in table.columns)
    population = made.queries[0].model_copy(update={"title": "<r><t>=1+1</t></r>"})
    first = made.steps[0].model_copy(update={"cells": 2 * len(keys)})
    made = made.model_copy(
        update={
            "release": made.release.model_copy(update={"title": "=A1 & <T>", "curator": "@office\x01"}),
            "catalog": Catalog(
                tables={"persons": table.model_copy(update={"columns": columns})},
                references=made.catalog.references,
            ),
            "queries": (population, *made.queries[1:]),
            "steps": (first, *made.steps[1:]),
        }
    )
    counts = Measurement("population.rows", np.arange(2 * len(keys)) + 1000)
    return content(made, {**publish_example.measurements(), "population.rows": counts})


def chosen(*, rehearsal: bool = False, keys: tuple[tuple[str, ...], ...] = choices_example.KEYS) -> Content:
    """Quantiles, ratios, suppressed rows, private keys, a ranking, exclusions and derived tables."""
    made = choices_example.choices(choices_example.DERIVED)
    return content(made, choices_example.measured(keys), rehearsal=rehearsal, derived=True)


def whole() -> Content:
    """A table of one cell, without keys, beside one with many."""
    made = publish_example.plan()
    query = made.queries[0].model_copy(update={"by": ()})
    first = made.steps[0]
    step = first.model_copy(update={"aggregate": first.aggregate.model_copy(update={"by": ()}), "cells": 1})
    made = made.model_copy(update={"queries": (query, *made.queries[1:]), "steps": (step, *made.steps[1:])})
    counted = Measurement("population.rows", np.array([123_456]))
    return content(made, {**publish_example.measurements(), "population.rows": counted})
