"""A release in German, with pages in English beside them and labels in Arabic and Turkish among the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from dprelease.catalog.boundaries import Geography
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.publish import Facts, render
from dprelease.publish.base import ComparedWith, Content
from dprelease.publish.comparing.columns import compared_tables
from dprelease.publish.comparing.earlier import taken_from
from dprelease.publish.measured import inputs_of, queries_as_tables
from tests.planned import plan_of
from tests.unit.publish_example import facts

__all__ = ["FILES", "SPEC", "YEARLY", "bundle", "measured", "plan", "yearly"]

FILES = {"places": "region,name_de,name_en\nN,Norden,North\nS,Süden,South\n".encode()}
SPEC = """
dprelease: 1
release:
  name: bevoelkerung
  period: 2024-03
  title: {de: "Bevölkerung und Einkommen {{ period }}", en: "Population and income {{ period }}"}
  curator: Statistisches Amt Beispiel
  languages: [de, en]
  abstract:
    de: Wie viele Menschen in den Regionen leben, und was sie verdienen.
    en: How many people live in the regions, and what they earn.
  next: 2024-05-05
privacy:
  unit: {entity: person}
  unit_title: {de: Person, en: person}
  budget: {epsilon: 2, delta: 1e-9}
references:
  places: {file: reference/places.csv, columns: {region: text, name_de: text, name_en: text}}
tables:
  people:
    account: acs
    title: {de: Menschen, en: People}
    description: {de: Alle Gemeldeten am Stichtag., en: Everybody registered on the day.}
    source: {file: people.csv}
    columns:
      region:
        type: text
        title: {de: Region, en: Region of residence}
        keys: {reference: places}
        labels: {reference: places, column: {de: name_de, en: name_en}}
      tongue:
        type: text
        title: {de: Muttersprache, en: Mother tongue}
        description: {de: Nach eigener Angabe, en: As told by themselves}
        keys: [deu, ara, tur]
        labels: {deu: {de: Deutsch, en: German}, ara: {ar: العربية}, tur: {tr: Türkçe}}
      income: {type: decimal, range: [0, 100000], step: 1, title: {de: Einkommen, en: Income}, measured_in: EUR}
queries:
  all:
    title: {de: Alle Menschen, en: Everybody}
    table: people
    measures: {persons: {count: rows}}
    names: {persons: {title: {de: Menschen, en: People}}}
  income:
    title: {de: Einkommen nach Region}
    description: {de: Ein Satz der Redaktion., en: A sentence of the editors.}
    table: people
    by: [region, tongue]
    where: "income > 0"
    condition: {de: das Einkommen über 0 liegt, en: the income is above 0}
    expect: {persons: 12000}
    measures:
      persons: {count: rows}
      rich: {count: rows, where: "income > 50000"}
      average: {mean: income, clip: [0, 80000]}
      middle: {quantiles: income, at: [0.5]}
      share: {ratio: [rich, persons]}
    names:
      persons: {title: {de: Menschen, en: People}}
      rich: {title: {de: Gutverdienende, en: High earners}, condition: {de: es über 50.000 liegt, en: "it is above 50,000"}}
      average: {title: {de: Mittleres Einkommen, en: Mean income}, measured_in: EUR}
      middle_q50: {title: {de: Median, en: Median}}
      share: {title: {de: Anteil der Gutverdienenden, en: Share of high earners}}
  crosstabs:
    title: {de: Kreuztabellen, en: Cross-tabulations}
    table: people
    marginals: {of: [region, tongue], ways: [1, 2]}
publish: {formats: [csv, json, xlsx, html]}
"""


@cache
def plan(text: str = SPEC) -> ReleasePlan:
    """It, or another one with the same reference, planned."""
    return plan_of(text, FILES)


def measured(of: ReleasePlan) -> dict[str, Measurement]:
    """Made-up answers of every step."""
    chance = np.random.default_rng(3)
    return {
        step.id: Measurement(step.id, np.asarray(chance.integers(6_000, 24_000, step.numbers or 2), dtype=np.int64))
        for step in of.steps
    }


@cache
def bundle(text: str = SPEC) -> Mapping[str, bytes]:
    """Its files."""
    made = plan(text)
    files = render(made, measured(made), facts(made)).files
    return {path: bytes(files[path]) for path in files}


YEARLY = """
dprelease: 1
release:
  name: yearly
  period: {period}
  title: {{de: Menschen und Einkommen, en: People and income}}
  languages: [de, fr, en]
  abstract: {{de: Ein Absatz der Redaktion., en: A paragraph of the editors.}}
  intended_use: planning
  keywords: [income]
  spatial: Somewhere
  licence: https://example.org/licence
privacy:
  unit: {{entity: person}}
  unit_title: {{de: Person, en: person, fr: personne}}
  budget: {{epsilon: 4, delta: 1e-9}}
tables:
  people:
    account: acs
    source: {{file: people.csv}}
    columns:
      area: {{type: integer, keys: {{from: 1, to: 6}}, title: {{de: Gebiet, en: Area, fr: Zone}}}}
      kind:
        type: integer
        keys: [1, 2]
        title: {{de: Art, en: Kind, fr: Genre}}
        labels: {{1: {{de: erste, en: first}}, 2: {{tr: ikinci}}}}
      income: {{type: decimal, range: [0, 100000], step: 1, title: {{de: Einkommen, en: Income, fr: Revenu}}}}
queries:
  people:
    table: people
    by: [area, kind]
    totals: [[area]]
    expect: {{n: 9000}}
    measures: {{n: {{count: rows}}}}
    compare:
      share: {{measure: n, share_of: [area], show: percent}}
      change: {{measure: n, change_from: previous}}
      growth: {{measure: n, change_from: previous, show: percent}}
      further: {{measure: n, change_from: 2020}}
      index: {{measure: n, index_to: 2023}}
      apart: {{measure: n, difference_from: {{kind: 1}}}}
    names:
      n: {{title: {{de: Menschen, en: People, fr: Habitants}}}}
      share: {{title: {{de: Anteil, en: Share, fr: Part}}}}
  crossed:
    table: people
    by: [area, kind]
    expect: {{n: 9000}}
    measures: {{n: {{count: rows}}, average: {{mean: income, clip: [0, 90000]}}}}
    names: {{n: {{title: {{de: Menschen, en: People}}}}}}
  clipped:
    table: people
    by: [area]
    expect: {{n: 20000}}
    measures:
      n: {{count: rows}}
      total: {{sum: income, clip: {{private: true, within: [0, 100000]}}}}
      average: {{mean: income, clip: {{private: true, within: [0, 100000]}}}}
    names: {{average: {{title: {{de: Mittleres Einkommen, en: Mean income}}}}}}
  unsure:
    table: people
    by: [area]
    measures: {{average: {{mean: income, clip: [0, 90000]}}}}
publish: {{across: {{crossed: kind}}, interactive: true, formats: [csv, dcat, html]}}
"""


def _told(of: ReleasePlan, step: str, less: int = 0) -> Measurement:
    """Made-up answers of one step: areas differ much in their mean income of one query, and little in that of another."""
    asked = of.step(step)
    size = asked.numbers or 2
    if asked.is_clip:
        assert asked.aggregate.quantity.chosen is not None
        return Measurement(step, np.array([asked.aggregate.quantity.chosen.candidates[40]], dtype=np.int64))
    if step.endswith("sum"):
        values = np.arange(size) * (40_000_000 if step.startswith("clipped") else 1)
    else:
        values = 20_000 - less + 700 * np.arange(size)
    return Measurement(step, np.asarray(values, dtype=np.int64))


@cache
def yearly() -> Content:
    """A release with columns that compare, two maps, a column across, a chosen clip, and a script: one of each."""
    before, made = (plan_of(YEARLY.format(period=period)) for period in (2023, 2024))
    shapes = {str(at): f"M{at} 0l1 0 0 1z" for at in range(1, 6)}  # the last area is on no map
    area = Geography(column="area", file="areas.geojson", sha256="ab" * 32, width=8, height=2, shapes=shapes)
    made = made.model_copy(update={"geography": (area,)})
    earlier = {step.id: _told(before, step.id, less=300) for step in before.steps}
    answers = {step.id: _told(made, step.id) for step in made.steps}
    inputs = inputs_of(made, answers)
    taken = taken_from(made, before, earlier, "2023", "0" * 64, 1)
    tables = compared_tables(made, queries_as_tables(made, inputs), inputs, {"2023": taken})
    beside = ComparedWith(
        period="2023", plan_fingerprint="1" * 64, manifest="ab" * 32, sequence=12, revision=1, restatement=2
    )
    told: Facts = facts(made, earlier=(beside,))
    return Content(made, tables, told, answers)
