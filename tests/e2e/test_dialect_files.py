"""A project whose CSV has semicolons, decimal commas and Latin-1: told before anything is charged, then declared."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.project import SPEC, command, small_project

DECLARED = """source: {file: "people-*.csv", null_values: ["", N], delimiter: ";", decimal: ",", thousands: ".", encoding: latin-1}"""


def european(folder: Path) -> None:
    """The rows of the small project as an office in Germany would save them; one district has an umlaut."""
    plain = (folder / "people-1.csv").read_text(encoding="utf-8").splitlines()
    lines = [plain[0].replace(",", ";")]
    for line in plain[1:]:
        district, sex, income = line.split(",")
        lines.append(
            f"{_local(district)};{sex};{income if income == 'N' else f'{int(income):,}'.replace(',', '.') + ',00'}"
        )
    (folder / "people-1.csv").write_bytes("".join(f"{line}\r\n" for line in lines).encode("latin-1"))
    places = (folder / "places.csv").read_text(encoding="utf-8")
    (folder / "places.csv").write_text(places.replace("07-01", "Zürich"), encoding="utf-8")


def table(project: Path, name: str) -> list[dict[str, str]]:
    with (project / f"releases/survey/2024/tables/{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _local(district: str) -> str:
    return "Zürich" if district == "07-01" else district


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("european")
    small_project(folder, SPEC.replace('source: {file: "people-*.csv", null_values: ["", N]}', DECLARED))
    european(folder)
    return folder


def test_another_form_is_told_by_validate_and_run_before_anything_is_charged(tmp_path: Path) -> None:
    small_project(tmp_path)
    european(tmp_path)
    for words in (("validate", "spec.yaml"), ("run", "spec.yaml", "--direct")):
        said = command(tmp_path, *words, code=5)
        assert "there is one field where 3 columns are declared: is the delimiter `;`?" in said
        assert 'write `delimiter: ";"` under `source`' in said
    assert json.loads(command(tmp_path, "ledger", "status", "--json"))["accounts"][0]["releases"] == 0


def test_rows_of_a_declared_form_are_all_there(project: Path) -> None:
    """Counts within their noise, a key beyond ASCII among them; where a comma were not read, incomes would be null."""
    assert "not compared" not in command(project, "validate", "spec.yaml")
    command(project, "run", "spec.yaml", "--direct")
    counts = {(row["district"], row["sex"]): float(row["persons"]) for row in table(project, "population")}
    assert set(counts) == {(district, sex) for district in ("06-01", "06-02", "Zürich") for sex in ("1", "2")}
    # 3,000 rows in turn over four districts, one of which is no key; an odd row is a man's, so each has one sex
    assert sum(counts.values()) == pytest.approx(2251, abs=200)
    assert counts["Zürich", "1"] == pytest.approx(750, abs=150)
    assert all(35_000 < float(row["average"]) < 55_000 for row in table(project, "income"))


def test_the_form_is_part_of_the_plan(project: Path) -> None:
    plan = json.loads(command(project, "plan", "spec.yaml", "--json"))
    command(project, "plan", "spec.yaml", "--out", "plan.json")
    frozen = (project / "plan.json").read_text(encoding="utf-8")
    assert '"encoding":"latin-1"' in frozen.replace(" ", "")
    assert plan["release"]


def test_the_header_of_a_file_that_is_away_is_not_compared(tmp_path: Path) -> None:
    small_project(tmp_path)
    (tmp_path / "people-1.csv").unlink()
    assert "table 'people' was not compared with its source: no file matches" in command(
        tmp_path, "validate", "spec.yaml"
    )
    assert json.loads(command(tmp_path, "validate", "spec.yaml", "--json"))["headers_compared"] == {"people": False}


def test_a_parquet_source_has_no_dialect(tmp_path: Path) -> None:
    small_project(tmp_path, SPEC.replace('"people-*.csv", null', '"people-*.parquet", delimiter: ";", null'))
    assert "DPR-S233" in command(tmp_path, "validate", "spec.yaml", code=2)
