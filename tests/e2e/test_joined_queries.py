"""Counts of several queries, each with its own rows, behind one draw: from a spec to a bundle, drawn once for ever."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ledgers import SQLiteLedger
from tests.project import check_published_again, command, one_table

POLICY = """accounts:
  people: {unit: person, neighboring: add_remove, composition: basic, lifetime: {epsilon: 400, delta: 1e-8}}
ceilings: {epsilon: 200, delta: 1e-8}
approvals: {required: 0}
"""
SPEC = """dprelease: 1
release: {name: joined, period: 2024, title: Joined, curator: Example Office}
privacy:
  unit: {entity: person}
  budget: {epsilon: 200, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv, null_values: [""]}
    columns:
      sex: {type: text, keys: [f, m]}
      age: {type: integer, range: [0, 99]}
      income: {type: integer, range: [0, 100000]}
queries:
  adults: {table: people, by: [sex], where: "age >= 18", measures: {n: {count: rows}}}
  old: {table: people, by: [sex], where: "age >= 65", measures: {n: {count: rows}, paid: {count: income}}}
  poor: {table: people, by: [sex], where: "income < 1000", measures: {n: {count: rows}, adults: {count: rows, where: "age >= 18"}}}
  again: {table: people, by: [sex], measures: {n: {count: rows, where: "age >= 65"}}}
  odd: {table: people, by: [], where: "age < 18 or income > 90000", measures: {n: {count: rows}}}
"""
Row = tuple[str, int | None, int | None]


def people() -> list[Row]:
    """Some have no sex, no age or no income."""
    return [
        (
            "fm"[k % 2] if k % 17 else "",
            None if k % 13 == 0 else k * 7 % 100,
            None if k % 11 == 0 else k * k % 100_000,
        )
        for k in range(3000)
    ]


WANTED: dict[tuple[str, str], Callable[[int | None, int | None], bool]] = {
    ("adults", "n"): lambda age, _: age is not None and age >= 18,
    ("old", "n"): lambda age, _: age is not None and age >= 65,
    ("old", "paid"): lambda age, income: age is not None and age >= 65 and income is not None,
    ("poor", "n"): lambda _, income: income is not None and income < 1000,
    ("poor", "adults"): lambda age, income: income is not None and income < 1000 and age is not None and age >= 18,
    ("again", "n"): lambda age, _: age is not None and age >= 65,
    ("odd", "n"): lambda age, income: (age is not None and age < 18) or (income is not None and income > 90000),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a project in which the spec was released, with noise of a ten-thousandth."""
    made = one_table(tmp_path_factory.mktemp("joined"), SPEC, "sex,age,income", people(), POLICY)
    assert "2 steps drawn, 0 reused" in command(made, "run", "spec.yaml", "--direct")
    return made


def bundle(folder: Path) -> Path:
    return folder / "releases" / "joined" / "2024"


def test_every_query_counts_its_own_rows(folder: Path) -> None:
    """The noise is far below one half, so that every number is the truth."""
    for (query, measure), counts in WANTED.items():
        with (bundle(folder) / "tables" / f"{query}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            of = row.get("sex")
            truth = sum(counts(age, income) for sex, age, income in people() if of is None or sex == of)
            assert int(row[measure]) == truth, (query, measure, of)


def test_equal_counts_of_different_queries_are_one_number_of_one_draw(folder: Path) -> None:
    plan: dict[str, Any] = json.loads((bundle(folder) / "plan.json").read_text(encoding="utf-8"))
    joint, alone = sorted(plan["steps"], key=lambda step: -len(step["joined"]))
    assert joint["mechanism"] == "count_knorm"
    assert joint["aggregate"].get("where") is None
    assert len(joint["joined"]) == 4  # five counts, of which two queries ask for one
    assert {answer["query"] for answer in joint["answers"]} == {"adults", "old", "poor", "again"}
    assert {answer["query"] for answer in alone["answers"]} == {"odd"}


def test_it_is_drawn_once_verified_and_published_again_byte_by_byte(folder: Path) -> None:
    check_published_again(folder, bundle(folder))
    assert len(SQLiteLedger(folder / "state" / "ledger.db").tally().taken) == 1
