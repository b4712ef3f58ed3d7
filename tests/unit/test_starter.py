"""A project to start from: whole, repeatable, and never on top of somebody's files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from dprelease.errors import SpecError
from dprelease.starter import FILES, create_project
from dprelease.starter.population import DISTRICTS, main, population, write_population


def test_a_population_of_a_size_is_always_the_same() -> None:
    assert population(500) == population(500)


def test_a_population_has_one_line_per_person_a_header_and_the_malformed_ones() -> None:
    lines = population(1000).splitlines()

    assert lines[0] == "district,age,sex,employed,income"
    assert len(lines) == 1 + 1000 + 5


def test_some_lines_are_malformed_and_most_are_not() -> None:
    fields = [len(line.split(",")) for line in population(2000).splitlines() if '"' not in line]

    assert fields.count(5) > 1900
    assert {3, 8} <= set(fields)


def test_every_district_is_lived_in_and_keeps_its_zero() -> None:
    found = {line.split(",")[0] for line in population(5000).splitlines()}

    assert set(DISTRICTS) <= found
    assert all(code.startswith("0") for code in DISTRICTS)


def test_the_reference_lists_exactly_the_districts(tmp_path: Path) -> None:
    create_project(tmp_path / "p")
    with (tmp_path / "p/reference/districts.csv").open(encoding="utf-8", newline="") as file:
        listed = [row["district"] for row in csv.DictReader(file)]

    assert listed == list(DISTRICTS)


def test_incomes_are_skewed_sometimes_missing_and_sometimes_dirty() -> None:
    texts = [line.split(",")[4] for line in population(8000).splitlines()[1:] if line.count(",") == 4]
    numbers = sorted(float(text) for text in texts if text.endswith(".00"))

    assert sum(numbers) / len(numbers) > numbers[len(numbers) // 2]
    assert "" in texts
    assert "n/a" in texts


def test_district_parts_add_up() -> None:
    assert sum(DISTRICTS.values()) == 1000


def test_the_same_file_is_not_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "data" / "people.csv"
    write_population(path, 50)
    before = path.stat()

    write_population(path, 50)

    assert (before.st_ino, before.st_mtime_ns) == (path.stat().st_ino, path.stat().st_mtime_ns)


def test_another_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("old")

    write_population(path, 50)

    assert path.read_text(encoding="utf-8") == population(50)
    assert [each.name for each in tmp_path.iterdir()] == ["people.csv"]


def test_a_failed_write_leaves_the_old_file_and_no_half_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.csv"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(SpecError, match="No space left"):
        write_population(path, 50)

    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["people.csv"]


@pytest.mark.parametrize("people", [0, -3])
def test_a_population_of_nobody_is_refused(people: int) -> None:
    with pytest.raises(SpecError, match="DPR-S903"):
        population(people)


def test_the_command_writes_a_file_and_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "a.csv"), "10"]) == 0
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == population(10)

    assert main([str(tmp_path), "10"]) == 2
    assert "DPR-S904" in capsys.readouterr().err


@pytest.mark.parametrize("made_before", [True, False])
def test_a_new_project_holds_every_file(tmp_path: Path, made_before: bool) -> None:
    folder = tmp_path / "a" / "b"
    if made_before:
        folder.mkdir(parents=True)

    written = create_project(folder)

    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {*FILES, "data/people.csv"}
    assert sorted(written) == sorted(folder / name for name in found)


def test_a_folder_with_anything_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(SpecError, match="not empty") as caught:
        create_project(tmp_path)

    assert caught.value.exit_code == 2
    assert "dprelease init" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SpecError, match="is a file"):
        create_project(tmp_path / "file")
