"""Made-up people and visits, a release of them, and what its numbers truly are: for ``coverage``."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SPEC", "truths", "write"]

Floats = npt.NDArray[np.float64]

SPEC = """
dprelease: 1
release: {name: coverage, period: 2024, title: Coverage}
privacy: {unit: {entity: person}, budget: {epsilon: EPSILON, delta: 1e-9}, noise: NOISE}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      region: {type: integer, keys: {from: 1, to: 5}}
      band: {type: integer, keys: {from: 1, to: 4}}
      age: {type: integer, range: [0, 99]}
      pay: {type: decimal, range: [-50, 200], step: 0.01}
      hours: {type: integer, range: [0, 60]}
  visits:
    account: visits
    unit_id: person
    source: {file: visits.csv}
    bounds: {max_rows: 12}
    columns:
      person: {type: text}
      shop: {type: integer, keys: {from: 1, to: 12}}
      spent: {type: integer, range: [0, 50]}
queries:
  people:
    table: people
    by: [region, band]
    expect: {n: 100}
    measures:
      n: {count: rows}
      young: {count: rows, where: "age < 30"}
      earners: {count: pay}
      hours: {sum: hours}
      pay: {sum: pay}
      mean_pay: {mean: pay}
      variance: {variance: hours}
      spread: {stddev: hours}
      share: {ratio: [young, n]}
      per_head: {ratio: [hours, n]}
  shops:
    table: visits
    by: [shop]
    bounds: {max_groups: 4, max_rows_per_group: 3}
    measures:
      visits: {count: rows}
      units: {count: units}
      spent: {sum: spent, clip_per: row}
      each: {sum: spent, clip: [0, 80], clip_per: unit_cell}
      amounts: {count_distinct: spent}
  ages:
    table: people
    by: [region]
    measures: {known: {count: age}, age: {quantiles: age, at: [0.25, 0.5, 0.75], from: ranks}}
derive:
  old: {sql: "select region, band, n - young as old from people"}
  hours: {sql: "select region, sum(hours) as hours, sum(n) as n from people group by region"}
  each: {sql: "select region, band, hours / n as hours_each from people"}
"""

_SIZES = (0, 1, 3, 12, 40, 90, 250)
Person = tuple[int, int, int | None, int | None, int]  # region, band, age, pay in cents, hours
Visit = tuple[str, int, int | None]  # person, shop, spent


def people() -> list[Person]:
    """Cells of 0 to 250 rows; some values are missing, some lie beyond the range."""
    chance = random.Random(7)
    rows: list[Person] = []
    for at, (region, band) in enumerate(product(range(1, 6), range(1, 5))):
        for _ in range(_SIZES[at % len(_SIZES)]):
            age = None if chance.random() < 0.05 else chance.randint(0, 104)
            pay = None if chance.random() < 0.1 else round(chance.gauss(6000, 8000))
            rows.append((region, band, age, pay, chance.randint(0, 70)))
    return rows


def visits() -> list[Visit]:
    """Persons within all bounds, so that none of their rows is left out: at most three rows in each of four shops."""
    chance = random.Random(8)
    rows: list[Visit] = []
    for person in range(200):
        for shop in chance.sample(range(1, 12), chance.randint(1, 4)):  # nobody is in the last shop
            for _ in range(chance.randint(1, 3)):
                rows.append((f"p{person}", shop, None if chance.random() < 0.1 else chance.randint(0, 55)))
    return rows


def write(folder: Path) -> None:
    """The tables as CSV files; a null is an empty field."""
    heads: list[tuple[str, tuple[str, ...], Sequence[tuple[Any, ...]]]] = [
        ("people.csv", ("region", "band", "age", "pay", "hours"), [(*p[:3], _decimal(p[3]), p[4]) for p in people()]),
        ("visits.csv", ("person", "shop", "spent"), visits()),
    ]
    for name, head, rows in heads:
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([head, *(["" if part is None else part for part in row] for row in rows)])


def _decimal(cents: int | None) -> str | None:
    return None if cents is None else f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def _held(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def _per_cell(rows: Sequence[Person]) -> dict[str, tuple[float, float]]:
    """What each measure of one cell of people truly is, as the least and the largest number that it can be read as."""
    nothing = (np.nan, np.nan)
    pay = [_held(row[3], -5000, 20000) for row in rows if row[3] is not None]
    hours = [_held(row[4], 0, 60) for row in rows]
    young = sum(1 for row in rows if row[2] is not None and row[2] < 30)
    count = len(rows)
    spread = float(Fraction(count * sum(h * h for h in hours) - sum(hours) ** 2, max(1, count) ** 2))
    one = {
        "n": count,
        "young": young,
        "earners": len(pay),
        "hours": sum(hours),
        "pay": float(Fraction(sum(pay), 100)),
        "old": count - young,
    }
    known = {name: (float(value), float(value)) for name, value in one.items()}
    some = {"variance": spread, "spread": spread**0.5, "share": young / max(1, count)}
    some |= {"per_head": sum(hours) / max(1, count), "hours_each": sum(hours) / max(1, count)}
    known |= {name: (value, value) if count else nothing for name, value in some.items()}
    mean = float(Fraction(sum(pay), 100 * max(1, len(pay))))
    return {**known, "mean_pay": (mean, mean) if pay else nothing}


def _shop(rows: Sequence[Visit]) -> dict[str, tuple[float, float]]:
    spent = [_held(row[2], 0, 50) for row in rows if row[2] is not None]
    of_unit: dict[str, int] = {}
    for person, _, amount in rows:
        if amount is not None:
            of_unit[person] = of_unit.get(person, 0) + _held(amount, 0, 50)
    found = {
        "visits": len(rows),
        "units": len({row[0] for row in rows}),
        "spent": sum(spent),
        "each": sum(min(80, total) for total in of_unit.values()),
        "amounts": len(set(spent)),
    }
    return {name: (float(value), float(value)) for name, value in found.items()}


def _ages(rows: Sequence[Person]) -> dict[str, tuple[float, float]]:
    """Of a quantile every number that is one and that the values span."""
    ages = sorted(_held(row[2], 0, 99) for row in rows if row[2] is not None)
    found = {"known": (float(len(ages)), float(len(ages)))}
    for percent in (25, 50, 75):
        least = max(0, -(-percent * len(ages) // 100) - 1)
        most = min(len(ages) - 1, percent * len(ages) // 100)
        found[f"age_q{percent}"] = (float(ages[least]), float(ages[most]))
    return found


def truths() -> dict[tuple[str, str], Floats]:
    """By table and measure: shape ``(2, cells)``, what the number truly is; NaN where it is not defined."""
    every = list(product(range(1, 6), range(1, 5)))
    cells = [[row for row in people() if row[:2] == cell] for cell in every]
    regions = [[row for row in people() if row[0] == region] for region in range(1, 6)]
    shops = [[row for row in visits() if row[1] == shop] for shop in range(1, 13)]
    found = {
        "people": [_per_cell(rows) for rows in cells],
        "shops": [_shop(rows) for rows in shops],
        "ages": [_ages(rows) for rows in regions],
        "old": [_per_cell(rows) for rows in cells],
        "hours": [_per_cell(rows) for rows in regions],
        "each": [_per_cell(rows) for rows in cells],
    }
    return {
        (table, name): np.array([row[name] for row in rows], dtype=np.float64).T
        for table, rows in found.items()
        for name in rows[0]
    }
