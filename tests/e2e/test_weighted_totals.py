"""Totals of a weighted table: near the clipped and weighted truth, adding up, and a half of a sensitivity refused."""

from __future__ import annotations

import csv
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.plan.verify.whole_plan import verify
from tests.planned import half_sensitivity, plan_of
from tests.project import command, small_project

AREAS = "abcdefghijklmnop"
SPEC = """dprelease: 1
release: {{name: weighted, period: 2024, title: Weighted totals}}
privacy: {{unit: {{entity: person}}, budget: {{epsilon: 1, delta: 1e-9}}}}
tables:
  people:
    account: people
    source: {{file: people-w.csv}}
    weight: {{column: w, clip: 8, step: {step}}}
    columns:
      area: {{type: text, keys: [{areas}]}}
      sex: {{type: integer, keys: [1, 2]}}
      w: {{type: decimal, range: [0, 100]}}
      pay: {{type: integer, range: [0, 1000]}}
queries:
  q:
    table: people
    by: [area, sex]
    totals: all
    measures: {{n: {{count: rows}}, s: {{sum: pay}}, m: {{mean: pay}}}}
publish: {{formats: [csv], round: 10}}
"""


def spec(step: str) -> str:
    return SPEC.format(step=step, areas=", ".join(AREAS))


def rows() -> list[tuple[str, int, Fraction, int]]:
    """Four thousand rows with weights from 0.5 to 10, some of them above the clip."""
    return [(AREAS[k * 7 % 16], 1 + k % 2, Fraction(1 + k * 13 % 20, 2), k * 37 % 1001) for k in range(4000)]


@pytest.mark.parametrize("step", ["1", "0.5"])
def test_totals_are_near_the_weighted_truth_and_no_cell_is_counted_twice(step: str, tmp_path: Path) -> None:
    small_project(tmp_path, spec(step), rows=1)
    lines = ["area,sex,w,pay", *(f"{area},{sex},{float(weight)},{pay}" for area, sex, weight, pay in rows())]
    (tmp_path / "people-w.csv").write_text("\n".join(lines) + "\n")
    truth: Counter[tuple[str, str]] = Counter()
    for area, sex, weight, _ in rows():
        grid = Fraction(step)
        counted = min(((weight / grid + Fraction(1, 2)) // 1) * grid, Fraction(8))
        for key in product((area, "_total"), (str(sex), "_total")):
            truth[key] += counted  # type: ignore[assignment]  # a whole number of steps
    command(tmp_path, "run", "spec.yaml", "--direct")
    bundle = tmp_path / "releases" / "weighted" / "2024"
    with (bundle / "tables" / "q.csv").open() as file:
        found = {(row["area"], row["sex"]): row for row in csv.DictReader(file)}
    assert len(found) == 17 * 3
    for key, row in found.items():
        assert abs(float(row["n"]) - float(truth[key])) <= 7 * float(row["n_se"]) + 10
        assert float(row["n"]) % 10 == float(row["n_lower"]) % 10 == float(row["n_upper"]) % 10 == 0
    assert float(found["_total", "_total"]["n_se"]) < 4 * float(found["a", "1"]["n_se"]), "it is drawn, not added up"
    assert "FAIL" not in command(tmp_path, "verify", str(bundle))


def test_half_of_a_weight_in_the_sensitivity_of_a_total_is_refused() -> None:
    plan = plan_of(spec("1").replace("people-w.csv", "people.csv"))
    verify(plan)
    drawn = [step for step in plan.steps if step.aggregate.by == ()]
    assert drawn
    for step in drawn:
        other = half_sensitivity(step)
        with pytest.raises(BrokenPromiseError):
            verify(plan.model_copy(update={"steps": tuple(other if each is step else each for each in plan.steps)}))
