"""A right spec of two workloads that uses every form, for tests that make one thing in it wrong."""

from __future__ import annotations

__all__ = ["GEO", "WORKLOADS"]

WORKLOADS = """\
dprelease: 1
release: {name: census, period: 2030}
privacy:
  unit: {entity: person}
  budget: {epsilon: 2, delta: 1e-9}
references:
  geo: {file: reference/geo.csv, columns: {region: text, state: text, puma: text}}
tables:
  persons:
    account: census
    source: {file: data/persons.csv}
    join: [{reference: geo, on: puma, add: [state, region]}]
    columns:
      puma: {type: text, keys: {reference: geo}}
      state: {type: text, keys: {reference: geo}}
      region: {type: text, keys: {reference: geo}}
      sex: {type: integer, keys: [1, 2]}
      race: {type: integer, keys: {from: 1, to: 9}, null: 9}
      age: {type: integer, range: [0, 99]}
      band: {bin: age, edges: [0, 18, 35, 50, 65, 100]}
      adult: {bin: age, edges: [0, 18, 100]}
      note: {type: text}
  visits:
    account: web
    source: {file: data/visits.csv}
    unit_id: who
    bounds: {max_rows: 10}
    columns:
      page: {type: text, keys: [a, b, c]}
      topic: {map: page, to: {a: news, b: news}, otherwise: rest}
      device: {type: text, keys: [phone, desk]}
hierarchies:
  geography: [region, state, puma]
  ages: [adult, band]
  topics: [topic, page]
queries:
  income:
    table: persons
    by: [state, sex]
    measures: {persons: {count: rows}}
  crosstabs:
    title: Tables of the whole country
    table: persons
    where: "age >= 15"
    marginals: {of: [race, sex, band], ways: [0, 1, 3]}
    share: 2
  redistricting:
    table: persons
    levels: geography
    marginals: {sets: [[race, sex], [sex], []]}
    measures: {persons: {count: rows}}
    shares:
      levels: {region: 1/7, state: 2/7, puma: 4/7}
      tables: {total: [null, 1/4, 1/4], "sex*race": [1/3, 1/4, 1/4], sex: [2/3, 1/2, 1/2]}
    target: {persons: {margin: 500}}
  use:
    table: visits
    levels: topics
    marginals: {of: [device], ways: [1]}
  by_age:
    table: persons
    levels: ages
    marginals: {of: [sex], ways: [0, 1]}
    shares: {tables: {total: 1/3, sex: 2/3}}
    budget: {epsilon: 1/2}
postprocess: [consistent, nonnegative, integer]
invariants: []
"""
GEO = b"region,state,puma\nS,06,0601\nN,36,3601\nS,06,0602\nS,48,4801\nN,36,3602\n"
