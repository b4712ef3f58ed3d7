"""One small project with every kind of table that a notebook can open: what the tests of the Python API release."""

from __future__ import annotations

from pathlib import Path

from tests.project import SETTINGS

__all__ = ["SPEC", "write_project"]

POLICY = """accounts:
  people: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 9, delta: 1e-6, selecting: 1e-7}}
ceilings: {epsilon: 4, delta: 1e-6}
approvals: {required: 0}
"""
SPEC = """dprelease: 1
release: {name: everything, period: 2024, title: "All <b>kinds</b> & more", curator: Example Office}
privacy:
  unit: {entity: person}
  budget: {epsilon: 4, delta: 1e-7}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      area: {type: text, keys: ["010", "007", "12"], labels: {"010": North, "007": "<i>South</i>", "12": North}}
      sex: {type: integer, keys: [2, 1], labels: {1: Men, 2: Women}}
      member: {type: boolean, keys: [true, false]}
      day: {type: date, keys: [2024-03-01, 2024-01-31]}
      age: {type: integer, keys: {from: 0, to: 11}}
      job: {type: text}
      marital_status: {type: text, keys: [single, married]}
      income: {type: decimal, range: [0, 100], step: 0.01}
queries:
  areas: {title: "Areas & days", table: people, by: [area, day, member], measures: {persons: {count: rows}}}
  incomes:
    table: people
    by: [area]
    measures:
      persons: {count: income}
      total: {sum: income}
      average: {mean: income}
      middle: {quantiles: income, at: [0.5]}
  few: {table: people, by: [sex, area], measures: {n: {count: rows}}, suppress: {measure: n, below: 60}}
  marital: {table: people, by: [sex], measures: {marital_status: {count: marital_status}}}
  jobs: {table: people, by: [job], keys: private, measures: {workers: {count: rows}}}
  first: {table: people, top_k: area, k: 2}
  upto: {table: people, by: [sex, age], ranges: {of: age, which: prefixes}, measures: {n: {count: rows}}}
  cross: {table: people, marginals: {of: [sex, member], ways: [0, 1, 2]}}
  all: {table: people, measures: {everybody: {count: rows}}}
derive:
  rates: {sql: "select sex, n / 100 as share from upto where age_to = 9"}
postprocess: [consistent, nonnegative, integer]
publish: {formats: [FORMATS], confidence: 0.9, unreliable: {relative_error_above: 0.2, show: blank}}
"""


def write_project(folder: Path, formats: str = "csv, parquet, html") -> Path:
    """Write the project with 600 people; returns the path of its spec."""
    folder.mkdir(parents=True, exist_ok=True)
    head = "area,sex,member,day,age,job,marital_status,income"
    rows = [
        f"{('010', '007', '12')[k % 3 if k % 10 else 0]},{1 + k % 2},{('true', 'false')[k % 5 == 0]},"
        f"{('2024-01-31', '2024-03-01')[k % 4 == 0]},{k % 10},{('=clerk', '007')[k % 2]},{('single', 'married')[k % 2]},"
        f"{k % 100}.25"
        for k in range(600)
    ]
    for name, text in {
        "dprelease.yaml": SETTINGS,
        "policy.yaml": POLICY,
        "spec.yaml": SPEC.replace("FORMATS", formats),
        "people.csv": "\n".join([head, *rows]) + "\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "spec.yaml"
