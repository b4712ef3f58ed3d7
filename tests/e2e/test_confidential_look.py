"""`dprelease look`, as somebody types it on a terminal: counts on the screen, and nowhere else."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.project import CANARY, command, on_terminal, small_project

MARKS = ("Zebulon-7731", "31-02-1999", "Quagga-district")
MANY = 13_577  # rows of one district: a count that nothing else has
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "look-at-the-data.md"
LOOK = ("look", "spec.yaml", "--i-can-see-the-data")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Rows with marks of their own in every kind of odd value."""
    folder = tmp_path / "project"
    small_project(folder, rows=400)
    with (folder / "people-1.csv").open("a") as file:
        file.write(f"{MARKS[2]},1,{MARKS[0]}\n{MARKS[1]},{MARKS[0]},5,7,{MARKS[0]}\n")
        file.write(f"{MARKS[2]},2,5\n" * MANY)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_counts_are_on_the_screen_and_in_no_file(project: Path) -> None:
    before = contents(project)
    code, screen = on_terminal(project, *LOOK)
    assert code == 0
    assert screen.count("CONFIDENTIAL: counts of the data themselves") == 2
    assert f"{MANY + 1 + 100:,}" in screen  # with the hundred rows of the small project that no list has
    assert not any(mark in screen for mark in (*MARKS, str(CANARY)))
    after = contents(project)
    assert {name: after[name] for name in before} == before
    new = {name: data for name, data in after.items() if name not in before}
    assert all(name.startswith(("state/", "state-anchor/", "state-key/")) for name in new), sorted(new)
    told = [f"{mark}" for mark in (*MARKS, CANARY, MANY, f"{MANY + 101:,}", MANY + 101)]
    assert not [(name, mark) for name, data in new.items() for mark in told if mark.encode() in data]


def test_what_the_data_hold_is_no_exit_code(project: Path) -> None:
    """Marks or none, the command has done what it was asked for."""
    odd, screen = on_terminal(project, *LOOK)
    assert "\n! " in screen
    (project / "people-1.csv").write_text("district,sex,income\n06-01,1,5\n")
    even, screen = on_terminal(project, *LOOK)
    assert "nothing is beyond what is expected" in screen
    assert (odd, even) == (0, 0)


def test_nothing_is_shown_or_recorded_without_a_terminal(project: Path) -> None:
    before = contents(project)
    assert "DPR-S022" in command(project, *LOOK, code=2)
    assert "DPR-S020" in command(project, "look", "spec.yaml", code=2)
    assert contents(project) == before


def test_a_release_of_data_that_were_looked_at_says_so(project: Path) -> None:
    on_terminal(project, *LOOK)
    on_terminal(project, *LOOK)
    command(project, "utility", "spec.yaml", "--i-can-see-the-data", "--repeat", "1", "--out", "figures.txt")
    entries = json.loads(command(project, "ledger", "log", "--json"))["entries"]
    assert [entry["kind"] for entry in entries].count("source") == 2  # one for each command
    assert not {"open", "reserve", "measure"} & {entry["kind"] for entry in entries}
    said = command(project, "run", "spec.yaml", "--direct")
    assert "`dprelease look`" in said
    assert "`dprelease utility`" in said
    bundle = project / "releases" / "survey" / "2024"
    seen, tuned = json.loads((bundle / "accounting.json").read_text())["tuned_on_the_data"]
    assert seen["command"] == "dprelease look"
    assert "command" not in tuned  # as it was written before there was another
    page = re.sub(r"\s+", " ", (bundle / "accounting.html").read_text())
    assert "These very data were seen before they were released" in page
    assert "The plan was tuned while looking at these very data" in page
    assert "FAIL" not in command(project, "verify", str(bundle))
    assert "sound" in command(project, "ledger", "check")
    code, screen = on_terminal(project, *LOOK)
    assert code == 4
    assert "DPR-L170" in screen
    assert "CONFIDENTIAL" not in screen


def test_a_look_alone_is_told_as_a_look(project: Path) -> None:
    on_terminal(project, *LOOK)
    said = command(project, "run", "spec.yaml", "--direct")
    assert "these very data were seen before (`dprelease look`, " in said
    assert "tuned" not in said


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    command(tmp_path, "init", "new")
    page = HOW_TO.read_text(encoding="utf-8")
    (example,) = re.findall(r"<!-- expect.yaml -->\n```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "new" / "expect.yaml").write_text(example, encoding="utf-8")
    lines = [line for block in re.findall(r"^```console\n(.*?)^```", page, re.M | re.S) for line in block.splitlines()]
    assert len(lines) == 2
    for line in lines:
        code, screen = on_terminal(tmp_path / "new", *shlex.split(line)[1:])
        assert code == 0, screen
        assert "decides nothing" in screen
