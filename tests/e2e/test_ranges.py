"""Prefixes and ranges from a spec to a bundle that verifies, and worked out again from its files alone."""

from __future__ import annotations

import csv
import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from tests.project import command, one_table

SPEC = """dprelease: 1
release: {name: ages, period: 2024, title: Ages, curator: Example Office}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: text, keys: [f, m], labels: {f: Women, m: Men}}
      age: {type: integer, keys: {from: 0, to: 39}}
      day: {type: date, keys: {from: 2024-01-01, to: 2024-06-30}}
queries:
  distribution:
    title: People up to each age
    table: people
    by: [sex, age]
    ranges: {of: age, which: prefixes}
    measures: {persons: {count: rows}}
  between:
    table: people
    by: [age, sex]
    where: "age < 30"
    ranges: {of: age, which: all}
    measures: {persons: {count: rows}}
  days:
    table: people
    by: [day]
    ranges: {of: day, which: prefixes}
    measures: {persons: {count: rows}}
  plain: {table: people, by: [sex, age], measures: {persons: {count: rows}}}
derive:
  minors: {sql: "select sex, persons from distribution where age_to = 17"}
"""
ROWS = 4000
Floats = npt.NDArray[np.float64]


def people() -> list[tuple[str, int, str]]:
    """Some have no sex, and some are too old for a key."""
    days = [f"2024-{month:02}-{day:02}" for month in range(1, 7) for day in range(1, 29)]
    return [("fmf"[k % 3] if k % 50 else "", k * k % 43, days[k * 7 % len(days)]) for k in range(ROWS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a project in which the spec was released."""
    made = one_table(tmp_path_factory.mktemp("ranges"), SPEC, "sex,age,day", people())
    assert "4 steps drawn, 0 reused" in command(made, "run", "spec.yaml", "--direct")
    return made


def bundle(folder: Path) -> Path:
    return folder / "releases" / "ages" / "2024"


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (bundle(folder) / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def recipe(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bundle(folder) / "measurements" / "recipe.json").read_text(encoding="utf-8"))
    return found


def test_a_release_verifies_and_is_published_again_byte_by_byte(folder: Path) -> None:
    before = {path: path.read_bytes() for path in bundle(folder).rglob("*") if path.is_file()}
    command(folder, "publish", "ages/2024")
    assert before == {path: path.read_bytes() for path in bundle(folder).rglob("*") if path.is_file()}
    told = command(folder, "verify", str(bundle(folder)))
    assert "FAIL" not in told
    assert "sound" in command(folder, "ledger", "check")


def test_every_sum_is_there_once_in_public_order(folder: Path) -> None:
    found = [(row["sex"], int(row["age_to"])) for row in table(folder, "tables/distribution.csv")]
    assert found == [(sex, age) for sex in "fm" for age in range(40)]
    pairs = [(row["sex"], int(row["age_from"]), int(row["age_to"])) for row in table(folder, "tables/between.csv")]
    assert pairs == [(sex, one, two) for sex in "fm" for one in range(40) for two in range(one, 40)]
    assert len(table(folder, "tables/days.csv")) == 182


def matrix_of(how: dict[str, Any]) -> Floats:
    """F from the words of the recipe alone."""
    n = how["n"]
    if how["kind"] == "matrix":
        return np.array(how["matrix"], dtype=np.float64)
    assert how["kind"] == "mirrored_prefixes"
    line, times = how["line"], how["times"]

    def mirrored(i: int, j: int) -> int:
        m = line[i + j + 1] if i + j + 1 <= n else -line[2 * n - i - j]
        return int(times[j] * (line[abs(i - j)] + m))

    return np.array([[mirrored(i, j) for j in range(n)] for i in range(n)], dtype=np.float64)


@pytest.mark.parametrize(("name", "others"), [("distribution", ["sex"]), ("between", ["sex"]), ("days", [])])
def test_a_stranger_works_out_every_number_from_the_measurements(folder: Path, name: str, others: list[str]) -> None:
    made = recipe(folder)
    (how,) = (each for each in made["ranges"] if each["query"] == name)
    (step,) = (each for each in made["steps"] if each["step"] == how["step"])
    matrix = matrix_of(how)
    lines: dict[tuple[str, ...], list[tuple[str, float]]] = {}
    for row in table(folder, f"measurements/{Path(step['file']).name}"):
        lines.setdefault(tuple(row[each] for each in others), []).append(
            (row[how["of"]], float(row[step["columns"][-1]]))
        )
    rows = {
        tuple(row.values())[: len(others) + 1 + (how["which"] == "all")]: row
        for row in table(folder, f"tables/{name}.csv")
    }
    seen = 0
    for others_keys, line in lines.items():
        counts = np.linalg.solve(matrix, np.array([value for _, value in line]))
        inverse = np.linalg.inv(matrix)
        for last, (end, _) in enumerate(line):
            starts = range(last + 1) if how["which"] == "all" else [0]
            for first in starts:
                key = (*others_keys, line[first][0], end) if how["which"] == "all" else (*others_keys, end)
                row = rows[key]
                assert float(row["persons"]) == pytest.approx(counts[first : last + 1].sum(), rel=1e-6, abs=1e-3)
                error = np.sqrt((inverse[first : last + 1].sum(axis=0) ** 2).sum() * float(step["variance"]))
                assert float(row["persons_se"]) == pytest.approx(float(error), rel=1e-5)
                seen += 1
    assert seen == len(rows)


@pytest.mark.slow
def test_numbers_are_as_near_the_truth_as_they_say(folder: Path) -> None:
    """The errors of one line hang together: with F they become independent numbers, whose squares have a chi-square."""
    made, squares, numbers = recipe(folder), 0.0, 0
    for name, truth in (("distribution", np.zeros((2, 40))), ("days", np.zeros((1, 182)))):
        for sex, age, day in people():
            if name == "days":
                truth[0, (date.fromisoformat(day) - date(2024, 1, 1)).days] += 1
            elif sex and age < 40:
                truth["fm".index(sex), age] += 1
        (how,) = (each for each in made["ranges"] if each["query"] == name)
        (step,) = (each for each in made["steps"] if each["step"] == how["step"])
        shown = np.array([float(row["persons"]) for row in table(folder, f"tables/{name}.csv")]).reshape(truth.shape)
        errors = np.diff(shown, axis=1, prepend=0) - truth
        noise = (errors @ matrix_of(how).T) / np.sqrt(float(step["variance"]))
        squares, numbers = squares + float((noise**2).sum()), numbers + noise.size
    assert numbers == 262
    law = stats.chi2(numbers)
    assert law.ppf(5e-11) < squares < law.isf(5e-11)


@pytest.mark.slow
def test_a_derived_table_has_the_error_of_the_sum_that_it_is(folder: Path) -> None:
    sums = {(row["sex"], row["age_to"]): row for row in table(folder, "tables/distribution.csv")}
    for row in table(folder, "tables/minors.csv"):
        known = sums[row["sex"], "17"]
        assert float(row["persons"]) == pytest.approx(float(known["persons"]))
        assert float(row["persons_se"]) == pytest.approx(float(known["persons_se"]), rel=0.12)  # of 1,000 replicates


@pytest.mark.slow
def test_a_bundle_with_another_matrix_is_told(folder: Path, tmp_path: Path) -> None:
    text = (bundle(folder) / "plan.json").read_text(encoding="utf-8")
    plan = json.loads(text)
    (step,) = (each for each in plan["steps"] if each["id"] == "distribution.prefixes")
    step["factor"]["rows"][0][0] += 1
    frozen = tmp_path / "bundle"
    frozen.mkdir()
    for path in bundle(folder).rglob("*"):
        if path.is_file():
            target = frozen / path.relative_to(bundle(folder))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    (frozen / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    told = command(folder, "verify", str(frozen), code=7)
    assert "distribution.prefixes claims another sensitivity than its matrix has" in told


@pytest.mark.slow
def test_the_pages_say_how_it_was_done(folder: Path) -> None:
    page = (bundle(folder) / "accounting.html").read_text(encoding="utf-8")
    assert page.count("a near-optimal matrix") >= 3
    assert "Sums along a column (distribution, between, days)" in page
    index = (bundle(folder) / "index.html").read_text(encoding="utf-8")
    assert "Rows are added up along age, up to and with each key." in index


@pytest.mark.slow
def test_it_is_compared_rehearsed_and_held_against_the_truth(folder: Path) -> None:
    (folder / "later.yaml").write_text(SPEC.replace("2024, title", "2025, title"), encoding="utf-8")
    command(folder, "run", "later.yaml", "--direct")
    told = command(folder, "diff", "ages/2024", "ages/2025")
    assert "none moved by more than noise explains" in told
    other = SPEC.replace("ranges: {of: age, which: prefixes}", "ranges: {of: age, which: all}")
    (folder / "other.yaml").write_text(other, encoding="utf-8")
    assert "ranges of distribution" in command(folder, "diff", "spec.yaml", "other.yaml", code=7)
    assert "3 times" in command(folder, "utility", "spec.yaml", "--synthetic", "--repeat", "3")
    command(folder, "run", "spec.yaml", "--synthetic", "--direct")
