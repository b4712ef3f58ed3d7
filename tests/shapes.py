"""A small project whose spec has every shape of table: what has to be planned, measured, published and compared alike."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.project import POLICY, small_project

__all__ = ["shapes_project"]

SPEC = """dprelease: 1
release: {name: shapes, period: 2024, title: "Every shape: small", curator: Example Office}
privacy:
  unit: {entity: person}
  budget: {epsilon: 2, delta: 1e-8}
references:
  places: {file: places.csv, columns: {district: text, region: text}}
tables:
  people:
    account: people
    source: {file: "people-*.csv", null_values: ["", N]}
    columns:
      district: {type: text, keys: {reference: places}}
      sex: {type: integer, keys: [1, 2], labels: {1: Male, 2: Female}}
      income: {type: decimal, range: [0, 200000], step: 1}
      age: {type: integer, keys: {from: 1, to: 6}}
      job: {type: text}
queries:
  income:
    table: people
    by: [district]
    measures:
      persons: {count: rows}
      total: {sum: income}
      average: {mean: income, clip: [0, 100000]}
      spread: {stddev: income, clip: [0, 100000]}
      middle: {quantiles: income, at: [0.5], clip: [0, 100000]}
  jobs:
    table: people
    by: [job]
    keys: private
    measures: {persons: {count: rows}, average: {mean: income, clip: [0, 100000]}}
    suppress: {measure: persons, below: 5}
  commonest: {table: people, top_k: district, k: 2}
  up_to: {table: people, by: [sex, age], ranges: {of: age, which: prefixes}, measures: {persons: {count: rows}}}
  crossed: {table: people, marginals: {of: [district, sex], ways: [1, 2]}}
postprocess: [consistent, nonnegative, integer]
derive:
  shares: {sql: "SELECT district, average / 1000 AS thousands FROM income"}
"""


def shapes_project(folder: Path, formats: Iterable[str], rows: int = 400) -> Path:
    """Write the project, with these formats; returns the path of the spec."""
    spec = small_project(folder, f"{SPEC}publish: {{formats: [{', '.join(formats)}]}}\n", rows=0)
    lines = ["district,sex,income,age,job"]
    lines += [
        f"{('06-01', '06-02', '07-01')[k % 3]},{1 + k % 2},{'N' if k % 11 == 0 else 1000 * (k % 90)},{1 + k % 6},"
        f"{('smith', '=1+1')[k % 2]}"
        for k in range(rows)
    ]
    policy = POLICY.replace("delta: 1e-8}}", "delta: 1e-7, selecting: 5e-8}}").replace(
        "delta: 1e-8}\n", "delta: 1e-7}\n"
    )
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    (folder / "people-1.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return spec
