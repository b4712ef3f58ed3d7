"""Releases of made-up rows, from the spec to the bundle: without noise every number is what pandas works out from the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from dprelease.measures import MEASURES, PLANNED
from tests.faults.every_fault import FAULTS
from tests.faults.planting import planted
from tests.fuzz.carried import Fault, carried
from tests.fuzz.mutations import fuzzed
from tests.fuzz.released import released

EVERY = """
dprelease: 1
release: {name: every-measure, period: 2024}
privacy:
  unit: {entity: person}
  budget: {epsilon: 2, delta: 1e-6}
tables:
  people:
    account: people
    source: {file: people.csv, null_values: ["", n/a]}
    columns:
      region: {type: text, keys: [north, south, west]}
      sex: {type: integer, keys: [1, 2], null: 2}
      age: {type: integer, range: [0, 99]}
      pay: {type: decimal, range: [-10, 90], step: 0.5, outside: "null"}
      smokes: {type: text, keys: ["no", "yes"], collect: {randomized_response: {weights: [3, 1]}}}
      flu: {type: integer, keys: [0, 1], collect: {randomized_response: {epsilon: 1, unary: {question: ill, answer: flu}}}}
      well: {type: integer, keys: [0, 1], collect: {randomized_response: {epsilon: 1, unary: {question: ill, answer: none}}}}
      band: {bin: age, edges: [0, 18, 65, 100]}
      late: {sql: "age > 40 AND pay > 0", type: boolean, keys: [true, false]}
  visits:
    account: people
    source: {file: visits.csv}
    unit_id: who
    bounds: {max_rows: 6}
    columns:
      who: {type: text}
      place: {type: text, keys: [a, b, c, d]}
      term: {type: text}
      spent: {type: decimal, range: [0, 40], step: 0.1}
queries:
  cells:
    table: people
    by: [region, sex]
    totals: all
    measures:
      n: {count: rows}
      paid: {count: pay}
      total: {sum: pay, clip: [0, 50]}
      average: {mean: pay, clip: [-5, 60]}
      years: {sum: age, clip: [0, 50]}
      old: {count: rows, where: "age >= 65"}
      part: {ratio: [old, n], show: percent}
  spreads:
    table: people
    by: [band]
    measures:
      values: {count_distinct: pay}
      var: {variance: pay, clip: [0, 60]}
      sd: {stddev: age}
      ages: {quantiles: age, clip: [0, 99], at: [0.1, 0.5, 0.9], from: counts, below: [18], ratio_of: [0.9, 0.5], gini: true}
  ends: {table: people, by: [late], measures: {least: {min: age}, most: {max: age}, mid: {quantiles: pay, at: [0.3], from: ranks}}}
  answers: {table: people, by: [region], measures: {yes: {randomized: smokes, key: "yes", show: share}, flu: {randomized: flu, key: 1}}}
  ways: {table: people, marginals: {of: [region, sex, band], ways: [1, 2]}}
  list: {table: visits, top_k: place, k: 3}
  users: {table: visits, by: [place], measures: {users: {count: units}}}
  spent:
    table: visits
    by: [place]
    bounds: {max_groups: 2, max_rows_per_group: 3}
    measures:
      users: {count: units}
      each: {sum: spent, clip: [0, 30], clip_per: row}
      whole: {sum: spent, clip: [0, 50], clip_per: unit_cell}
      mean: {mean: spent, clip: [0, 50], clip_per: unit_cell}
  terms: {table: visits, by: [term], keys: private, bounds: {max_groups: 1, max_rows_per_group: 2}, measures: {n: {count: rows}}}
publish: {formats: [csv]}
"""
_BLOCK = 12


@pytest.mark.slow
def test_without_noise_every_kind_of_measure_is_what_pandas_says(tmp_path: Path) -> None:
    outcome, found = released(EVERY, 1, tmp_path)
    assert outcome == "released, verified, compared"
    kinds = {each.kind for each in (*MEASURES.values(), *PLANNED.values())} - {"min", "max", "quantiles"}
    assert kinds <= set(found), found
    assert found["list"] == 3
    assert not any(each.startswith("no ") for each in found), found


SEEN = ("units-counted-as-rows", "unit-sum-not-clipped", "integers-not-clipped", "factor-transposed")


@pytest.mark.nightly
@pytest.mark.parametrize("name", SEEN)
def test_pandas_sees_a_wrong_number(name: str, tmp_path: Path) -> None:
    (fault,) = [each for each in FAULTS if each.name == name]
    with planted(fault.plant), pytest.raises(Fault, match="is published, and it is"):
        released(EVERY, 1, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(25))
def test_releases_of_made_up_rows_are_what_pandas_says(block: int, tmp_path: Path) -> None:
    found = runs_of(range(1000 + block * 60, 1000 + (block + 1) * 60), _BLOCK, tmp_path)
    assert found["released, verified, compared"] > _BLOCK / 2, found


def runs_of(seeds: range, most: int, folder: Path) -> Counter[str]:
    """What came of releasing by the first so many of the specs that are planned."""
    return Counter(released(text, seed, folder / str(seed))[0] for seed, text in islice(able(seeds), most))


def able(seeds: range) -> Iterator[tuple[int, str]]:
    """The specs that are planned, verified and not refuted by the independent accountant."""
    for seed in seeds:
        if carried(text := fuzzed(seed), seed, opinion=True) == "planned and verified":
            yield seed, text
