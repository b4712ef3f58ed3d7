"""Small made-up projects with workloads of marginals: their specs, their data, and the true counts."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

from tests.project import SETTINGS

__all__ = ["GEO", "POLICY", "areas", "crosstabs", "ordinary", "published", "small_workloads", "spec_of", "truth_of"]

GEO = "region,state,puma\nS,06,0601\nN,36,3601\nS,06,0602\nS,48,4801\nN,36,3602\n"
POLICY = """accounts:
  census: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 40, delta: 1e-6}}
ceilings: {epsilon: 20, delta: 1e-6}
approvals: {required: 0}
"""
_HEAD = """dprelease: 1
release: {name: census, period: 2030, title: A small census, curator: Example Office}
privacy:
  unit: {entity: person}
  neighboring: RELATION
  budget: BUDGET
references:
  geo: {file: geo.csv, columns: {region: text, state: text, puma: text}}
tables:
  persons:
    account: census
    source: {file: persons.csv, null_values: ["", N]}UNIT
    join: [{reference: geo, on: puma, add: [state, region]}]
    columns:
      puma: {type: text, keys: {reference: geo}}
      state: {type: text, keys: {reference: geo}}
      region: {type: text, keys: {reference: geo}}
      sex: {type: integer, keys: [1, 2]}
      race: {type: integer, keys: {from: 1, to: 3}, null: 3}
      age: {type: integer, range: [0, 99]}
      band: {bin: age, edges: [0, 18, 65, 100]}
hierarchies:
  geography: [region, state, puma]
queries:
"""
_TAIL = """postprocess: POST
publish: {formats: [csv, parquet, html]}
"""
_UNIT = "\n    unit_id: who\n    bounds: {max_rows: 2, truncate: sample}"


def crosstabs(more: str = "", ways: str = "[0, 1, 2]", name: str = "crosstabs") -> str:
    """A workload without levels; ``more``: further lines, such as ``budget: {epsilon: 1}``."""
    found = f"  {name}:\n    table: persons\n    marginals: {{of: [sex, race, band], ways: {ways}}}\n"
    return found + "".join(f"    {line}\n" for line in more.splitlines())


def areas(more: str = "") -> str:
    """A workload with levels."""
    found = "  areas:\n    table: persons\n    levels: geography\n    marginals: {sets: [[], [sex], [race, sex]]}\n"
    return found + "".join(f"    {line}\n" for line in more.splitlines())


def ordinary() -> str:
    """A query that is no workload."""
    return "  population: {table: persons, by: [state, sex], measures: {persons: {count: rows}}}\n"


def spec_of(
    *queries: str,
    relation: str = "add_remove",
    budget: str = "{epsilon: 2, delta: 1e-9}",
    post: str = "[consistent]",
    units: bool = False,
) -> str:
    """The text of a spec of these queries."""
    head = _HEAD.replace("RELATION", relation).replace("BUDGET", budget).replace("UNIT", _UNIT if units else "")
    return head + "".join(queries) + _TAIL.replace("POST", post)


def small_workloads(folder: Path, spec: str, rows: int = 3000) -> Path:
    """Write a project of the spec; every eleventh row lacks a sex, every seventh a race. Returns the spec's path."""
    folder.mkdir(parents=True, exist_ok=True)
    policy = POLICY.replace("add_remove", "replace_one") if "neighboring: replace_one" in spec else POLICY
    for name, text in {"dprelease.yaml": SETTINGS, "policy.yaml": policy, "geo.csv": GEO, "spec.yaml": spec}.items():
        (folder / name).write_text(text, encoding="utf-8")
    with (folder / "persons.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["who", "puma", "sex", "race", "age"])
        lines.writerows(_row(k) for k in range(rows))
    return folder / "spec.yaml"


def _row(k: int) -> tuple[int | str, ...]:
    puma = ("0601", "3601", "0602", "4801", "3602", "9999")[k * k % 6 if k % 3 else k % 5]
    return k // 2, puma, "N" if k % 11 == 0 else 1 + k % 2, "" if k % 7 == 0 else 1 + k * 5 % 4, k * 13 % 100


def truth_of(folder: Path, keys: tuple[str, ...], attributes: tuple[str, ...]) -> Counter[tuple[str, ...]]:
    """The true count by these columns, of the rows with a key in every attribute and in the lowest level."""
    above = {row["puma"]: row for row in csv.DictReader(GEO.splitlines())}
    found: Counter[tuple[str, ...]] = Counter()
    with (folder / "persons.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            race = row["race"] or "3"
            band = "[0,18)" if int(row["age"]) < 18 else "[18,65)" if int(row["age"]) < 65 else "[65,100)"
            known = {**row, **above.get(row["puma"], {"puma": ""}), "race": race if race in "123" else "", "band": band}
            known["sex"] = row["sex"].replace("N", "")
            if all(known[name] for name in attributes):
                found[tuple(known[name] for name in keys)] += 1
    return found


def published(bundle: Path) -> dict[str, list[dict[str, str]]]:
    """Every table of a bundle as its CSV file has it."""
    found = {}
    for path in sorted((bundle / "tables").glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            found[path.stem] = list(csv.DictReader(file))
    return found
