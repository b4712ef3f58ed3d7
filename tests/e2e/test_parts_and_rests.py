"""Shares of which the part and the rest are drawn: from a spec to a bundle, verified and published again."""

from __future__ import annotations

import csv
import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_joined_queries import POLICY
from tests.project import check_published_again, command, one_table

SPEC = """dprelease: 1
release: {name: shares, period: 2024, title: Shares, curator: Example Office}
privacy: {unit: {entity: person}, budget: {epsilon: 2, delta: 1e-9}}
tables:
  people:
    account: people
    source: {file: people.csv, null_values: [""]}
    columns:
      sex: {type: text, keys: [f, m]}
      age: {type: integer, range: [0, 99]}
      income: {type: integer, range: [0, 100000]}
queries:
  poverty:
    table: people
    by: [sex]
    measures:
      paid: {count: income}
      poor: {count: rows, where: "income < 20000 and age >= 18"}
      rate: {ratio: [poor, paid], show: percent}
"""


def people() -> list[tuple[str, int | None, int | None]]:
    chance = random.Random(3)
    return [
        (
            chance.choice(["f", "m", ""]),
            chance.choice([None, *range(5, 95)]),
            chance.choice([None, *range(0, 90000, 997)]),
        )
        for _ in range(900)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a project with such a release."""
    made = one_table(tmp_path_factory.mktemp("shares"), SPEC, "sex,age,income", people(), POLICY)
    command(made, "run", "spec.yaml", "--direct")
    return made


def bundle(folder: Path) -> Path:
    return folder / "releases" / "shares" / "2024"


def test_the_part_and_the_rest_are_drawn_and_the_whole_is_their_sum(folder: Path) -> None:
    plan: dict[str, Any] = json.loads((bundle(folder) / "plan.json").read_text(encoding="utf-8"))
    (step,) = plan["steps"]
    kinds = [step["aggregate"]["quantity"]["kind"], *(each["kind"] for each in step["joined"])]
    assert sorted(kinds) == ["rest", "rows"]
    assert step["mechanism"] == "discrete_laplace"
    assert 0.49 < Fraction(step["scale"]) < 0.5001
    with (bundle(folder) / "tables" / "poverty.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["sex"]: row for row in csv.DictReader(file)}
    for sex, row in rows.items():
        paid = sum(income is not None for own, _, income in people() if own == sex)
        poor = sum(
            income is not None and age is not None and income < 20000 and age >= 18
            for own, age, income in people()
            if own == sex
        )
        assert abs(float(row["paid"]) - paid) < 40
        assert abs(float(row["poor"]) - poor) < 30
        assert abs(float(row["rate"]) - 100 * poor / paid) < 15
        assert float(row["rate"]) == pytest.approx(100 * float(row["poor"]) / float(row["paid"]))


def test_it_verifies_and_is_published_again_byte_by_byte(folder: Path) -> None:
    check_published_again(folder, bundle(folder))


def test_the_report_says_what_was_drawn(folder: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in bundle(folder).rglob("*.html")]
    assert any("rows with a value of income, but for those where" in text for text in texts)
    assert any("The sum of two noisy numbers, of the part of a share and of the rest of its whole" in t for t in texts)
