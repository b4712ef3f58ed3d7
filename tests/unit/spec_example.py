"""A right spec that uses every part, for tests that make one thing in it wrong."""

from __future__ import annotations

__all__ = ["PLACES", "SPEC", "swapped"]

SPEC = """\
dprelease: 1
release:
  name: regional-monitor
  period: 2024-03
  title: "A monitor: population"
privacy:
  unit: {entity: person}
  neighboring: add_remove
  budget: {epsilon: 1/2, delta: 1e-9}
  at_most: {epsilon: 3, delta: 1e-8}
references:
  places: {file: reference/places.csv, columns: {district: text, region: text, coast: boolean}}
tables:
  people:
    account: demo
    source: {file: "${env:DATA}/people-*.csv", null_values: ["", N, 99]}
    unit_id: none
    join: [{reference: places, on: district, add: [region]}]
    columns:
      district: {type: text, keys: {reference: places}}
      region: {type: text, keys: {reference: places, column: region}, labels: {01: Coast}}
      sex: {type: integer, keys: [1, 2], labels: {1: Male, 2: Female}, null: 2}
      code: {type: text, keys: [06, no, true, 1.10], null: no}
      adult: {type: boolean, keys: [true, false], labels: {true: Adult}}
      born: {type: date, keys: {from: 2024-02-27, to: 2024-03-01}}
      race: {type: integer, keys: {from: 1, to: 9}}
      seen: {type: timestamp}
      income: {type: decimal, range: [-10000, 500000], step: 0.5, outside: null, measured_in: EUR}
queries:
  population:
    title: People
    table: people
    by: [region, sex]
    measures: {persons: {count: rows}, known: {count: income}}
    expect: {persons: 12000}
  income:
    table: people
    by: [code]
    measures:
      total: {sum: income, clip: [0, 200000.5], clip_per: row}
      average: {mean: income}
    share: 0.5
publish:
  formats: [csv, html]
  confidence: 0.9
  unreliable: {relative_error_above: 0.5, show: blank}
"""
PLACES = b"district,region,coast\n0101,01,true\n0102,01,true\n0201,02,false\n"


def swapped(old: str, new: str, text: str = SPEC) -> str:
    """The spec with one thing changed, which must be in it exactly once."""
    assert text.count(old) == 1, f"{text.count(old)} times: {old}"
    return text.replace(old, new)
