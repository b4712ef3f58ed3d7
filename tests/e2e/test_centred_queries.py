"""Counts of several queries about one total: from a spec to a bundle, verified and published again."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_joined_queries import POLICY, SPEC, WANTED, people
from tests.project import SETTINGS, check_published_again, command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a project in which the joined queries were released with little Gaussian noise."""
    made = tmp_path_factory.mktemp("centred")
    lines = ["sex,age,income", *(",".join("" if each is None else str(each) for each in row) for row in people())]
    spec = SPEC.replace("budget: {epsilon: 200, delta: 1e-9}", "budget: {epsilon: 20, delta: 1e-9}\n  noise: gaussian")
    policy = POLICY.replace("composition: basic", "composition: zcdp")
    for name, text in {
        "dprelease.yaml": SETTINGS,
        "policy.yaml": policy,
        "spec.yaml": spec,
        "people.csv": "\n".join(lines) + "\n",
    }.items():
        (made / name).write_text(text, encoding="utf-8")
    command(made, "run", "spec.yaml", "--direct")
    return made


def bundle(folder: Path) -> Path:
    return folder / "releases" / "joined" / "2024"


def test_every_query_counts_its_own_rows_about_a_total_of_all(folder: Path) -> None:
    plan: dict[str, Any] = json.loads((bundle(folder) / "plan.json").read_text(encoding="utf-8"))
    kinds = [step["aggregate"]["quantity"]["kind"] for step in plan["steps"]]
    assert sorted(kinds) == ["balance"] * 5 + ["rows"] * 2  # one of them is the only count of its cells
    assert all(step["aggregate"].get("where") is None for step in plan["steps"] if len(step["answers"]) > 1)
    for (query, measure), counts in WANTED.items():
        with (bundle(folder) / "tables" / f"{query}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            of = row.get("sex")
            truth = sum(counts(age, income) for sex, age, income in people() if of is None or sex == of)
            assert abs(float(row[measure]) - truth) <= 9 * float(row[f"{measure}_se"]) < 9, (query, measure, of)


def test_it_verifies_and_is_published_again_byte_by_byte(folder: Path) -> None:
    check_published_again(folder, bundle(folder))


def test_the_report_says_what_was_drawn(folder: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in bundle(folder).rglob("*.html")]
    assert any("less all others" in text for text in texts)
    assert any("Half the sum of two noisy numbers, of all rows and of those that count" in text for text in texts)
