"""A release in German, with pages in English beside them and labels in Arabic and Turkish among the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.publish import render
from tests.planned import plan_of
from tests.unit.publish_example import facts

__all__ = ["FILES", "SPEC", "bundle", "measured", "plan"]

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
