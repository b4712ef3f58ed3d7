"""From a file of true answers to a published estimate: randomized at the source, released, accounted for, verified."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.project import SETTINGS, command

POLICY = """accounts:
  exams: {unit: student, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 4, delta: 1e-8}}
ceilings: {epsilon: 2, delta: 1e-8}
approvals: {required: 0}
"""
SPEC = """dprelease: 1
release: {name: exams, period: 2024, title: Cheating in exams}
privacy:
  unit: {entity: student}
  budget: {epsilon: 1, delta: 1e-9}
tables:
  students:
    account: exams
    source: {file: collected.csv}
    columns:
      year: {type: integer, keys: [1, 2]}
      cheated: {type: text, keys: ["no", "yes"], collect: {randomized_response: {weights: [3, 1]}}}
queries:
  cheating:
    table: students
    by: [year]
    measures:
      answers: {count: rows}
      cheated: {randomized: cheated, key: "yes"}
      share: {randomized: cheated, key: "yes", show: share}
"""
pytestmark = pytest.mark.slow
SIZE = 8000  # a year; 1,600 cheat


def test_from_answers_at_the_source_to_a_verified_estimate(tmp_path: Path) -> None:
    for name, text in {"dprelease.yaml": SETTINGS, "policy.yaml": POLICY, "spec.yaml": SPEC}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    true = [("year", "cheated"), *((year, "yes" if n % 5 == 0 else "no") for n in range(SIZE) for year in (1, 2))]
    with (tmp_path / "true.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(true)

    told = command(tmp_path, "respond", "spec.yaml", "true.csv", "--out", "collected.csv", "--json")
    assert json.loads(told) == {"table": "students", "out": "collected.csv", "randomized": {"cheated": 2 * SIZE}}
    again = command(tmp_path, "respond", "spec.yaml", "true.csv", "--out", "collected.csv", code=5)
    assert "DPR-E136" in again
    with (tmp_path / "collected.csv").open(encoding="utf-8", newline="") as file:
        kept = sum(row["cheated"] == was for row, (_, was) in zip(csv.DictReader(file), true[1:], strict=True))
    assert abs(kept / (2 * SIZE) - 0.75) < 6 * (0.75 * 0.25 / (2 * SIZE)) ** 0.5

    command(tmp_path, "run", "spec.yaml", "--direct")
    bundle = tmp_path / "releases/exams/2024"
    page = " ".join((bundle / "index.html").read_text(encoding="utf-8").split())
    assert "Where respondents answered by chance" in page
    assert "the margin covers that chance, too" in page
    with (bundle / "tables/cheating.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        error = float(row["cheated_se"])
        assert 77 < error < 90  # of the coins alone 77.5
        assert abs(float(row["cheated"]) - SIZE / 5) < 6 * error
        assert abs(float(row["share"]) - 0.2) < 6 * float(row["share_se"])
        assert float(row["cheated_lower"]) <= float(row["cheated"]) <= float(row["cheated_upper"])

    local = json.loads((bundle / "accounting.json").read_text(encoding="utf-8"))["randomized_response"]
    assert local["towards_collector"] == {"epsilon": "1.0986123", "delta": "0"}
    assert float(local["both"]["epsilon"]) > 1.0986123 + 1
    page = (bundle / "accounting.html").read_text(encoding="utf-8")
    assert "what one student answers to cheated of students, from its collector" in page
    checked = command(tmp_path, "verify", "releases/exams/2024")
    assert "1.09861 towards the collector, from the probabilities of all answers" in checked

    text = (bundle / "accounting.json").read_text(encoding="utf-8")
    (bundle / "accounting.json").write_text(text.replace('"1.0986123"', '"0.5"'), encoding="utf-8")
    command(tmp_path, "verify", "releases/exams/2024", code=7)
