"""`dprelease utility`, as a user runs it: what it shows, what it refuses, and what must never come out of it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import stat
from pathlib import Path

import pytest

from tests.project import CANARY, command, on_terminal, small_project

WATERMARK = "CONFIDENTIAL: compares with the truth - not a release"
MANY = 13_577  # rows of one cell: a true number of the tables
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "tune-a-plan.md"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One person with an income that nobody else has, and one cell with a size that no other has."""
    folder = tmp_path / "project"
    small_project(folder, rows=404)
    with (folder / "people-1.csv").open("a") as file:
        file.write("07-01,2,30000\n" * (MANY - 50))  # the 50 of it that are there already: every fourth of 404, even
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kept(folder: Path) -> dict[str, bytes]:
    """Without locks, and without what SQLite shares among those who read."""
    return {name: data for name, data in files(folder).items() if "lock" not in name and not name.endswith("-shm")}


def tells(text: str, number: int) -> bool:
    return re.search(rf"(?<![\d.,]){number}(?!\d)|{number:,}", text) is not None


def test_only_errors_come_out_and_only_the_look_is_recorded(project: Path) -> None:
    before = files(project)
    said = compared(project, "--repeat", "3")
    machine = compared(project, "--repeat", "3", "--json")
    after = files(project)
    assert {name: after[name] for name in before} == before
    new = sorted(name for name in after.keys() - before.keys() if "lock" not in name)
    assert all(name.startswith(("state/", "state-anchor/", "state-key/")) for name in new), new
    assert not any(str(CANARY).encode() in after[name] or str(MANY).encode() in after[name] for name in new)
    kinds = [line["kind"] for line in json.loads(command(project, "ledger", "log", "--json"))["entries"]]
    assert kinds.count("source") == 1  # two looks at the same files, for the same plan
    assert not {"open", "reserve", "measure"} & set(kinds)
    command(project, "ledger", "check")
    for text in (said, machine):
        assert not tells(text, CANARY)
        assert not tells(text, MANY)
    assert all(line.startswith("CONFIDENTIAL") for line in said.splitlines())
    assert said.splitlines()[0] == said.splitlines()[-1] == WATERMARK
    found = json.loads(machine)
    assert {each["notice"] for each in found["errors"]} == {found["notice"]} == {WATERMARK}
    large = [each for each in found["errors"] if (each["table"], each["size"]) == ("population", "1,000+")]
    assert [each["compared"] for each in large] == [3]  # the cell was seen, and is in the figures alone


def compared(project: Path, *more: str) -> str:
    """What a comparison with the truth writes for whoever may see it, to a place outside of the project."""
    place = project.parent / "figures"
    command(project, "utility", "spec.yaml", "--i-can-see-the-data", *more, "--out", str(place))
    text = place.read_text(encoding="utf-8")
    place.unlink()
    return text


@pytest.mark.slow
def test_a_file_is_new_its_owners_and_not_among_the_releases(project: Path) -> None:
    asked = ("utility", "spec.yaml", "--synthetic", "--repeat", "1", "--out")
    command(project, *asked, "figures.txt")
    written = project / "figures.txt"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert written.read_text().startswith(WATERMARK)
    assert "DPR-W190" in command(project, *asked, "figures.txt", code=6)
    assert "DPR-S021" in command(project, *asked, "releases/figures.txt", code=2)
    assert not (project / "releases").exists()


def test_figures_of_the_data_go_to_a_terminal_or_a_file_that_is_named(project: Path) -> None:
    before = files(project)
    for more in ((), ("--json",)):
        said = command(project, "utility", "spec.yaml", "--i-can-see-the-data", "--repeat", "1", *more, code=2)
        assert "DPR-S022" in said
        assert "--out FILE" in said
    assert files(project) == before
    code, screen = on_terminal(project, "utility", "spec.yaml", "--i-can-see-the-data", "--repeat", "1")
    assert code == 0
    assert WATERMARK in screen


def test_data_may_be_seen_only_where_somebody_says_so(project: Path) -> None:
    said = command(project, "utility", "spec.yaml", code=2)
    assert "DPR-S020" in said
    assert "--i-can-see-the-data" in said


def test_data_that_an_account_has_paid_for_are_refused(project: Path) -> None:
    command(project, "run", "spec.yaml", "--direct")
    before = kept(project)
    looked = ("utility", "spec.yaml", "--i-can-see-the-data", "--repeat", "1", "--out", "figures.txt")
    assert "DPR-L170" in command(project, *looked, code=4)
    (project / "people-2.csv").write_text("district,sex,income\n06-01,1,5\n")  # a new file beside it changes nothing
    said = command(project, *looked, code=4)
    assert "'people' has paid for" in said
    (project / "people-2.csv").unlink()
    command(project, "utility", "spec.yaml", "--synthetic", "--repeat", "1")
    assert kept(project) == before
    (key,) = project.rglob("source.key")
    key.rename(project / "elsewhere")
    assert "DPR-L171" in command(project, *looked, code=4)
    assert not key.exists()  # no new one is made


@pytest.mark.slow
def test_other_data_of_a_project_that_has_released_can_be_compared(project: Path) -> None:
    command(project, "run", "spec.yaml", "--direct")
    (project / "people-1.csv").write_text("district,sex,income\n" + "06-01,1,5\n" * 30)
    assert "population" in compared(project, "--repeat", "1")


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    command(tmp_path, "init", "new")
    shown = re.findall(r"^```console\n(.*?)^```", HOW_TO.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in shown for line in block.splitlines()]
    assert len(lines) == 2
    for line in lines:
        assert WATERMARK in command(tmp_path / "new", *shlex.split(line)[1:])
    assert "within margin" in (tmp_path / "new" / "figures.txt").read_text()


@pytest.mark.slow
def test_a_release_of_data_that_its_plan_was_tuned_on_says_so(project: Path) -> None:
    compared(project, "--repeat", "1")
    said = command(project, "run", "spec.yaml", "--direct")
    assert "the plan was tuned while looking at these very data" in said
    bundle = project / "releases" / "survey" / "2024"
    (told,) = json.loads((bundle / "accounting.json").read_text())["tuned_on_the_data"]
    assert told["tables"] == ["people"]
    assert "tuned while looking at these very data" in (bundle / "accounting.html").read_text()
    command(project, "verify", str(bundle))
    before = files(bundle)
    assert "tuned while looking" in command(project, "run", "spec.yaml", "--direct")  # it exists, and says so again
    command(project, "publish", "survey/2024")
    assert files(bundle) == before
    assert "sound" in command(project, "ledger", "check")
    assert "tuned" not in command(project, "ledger", "status")


@pytest.mark.slow
def test_a_release_of_other_data_was_not_tuned_on_them(project: Path) -> None:
    """Copies that differ by a byte are not recognised, as the page says."""
    compared(project, "--repeat", "1")
    data = project / "people-1.csv"
    data.write_bytes(data.read_bytes() + b"\n")
    assert "tuned" not in command(project, "run", "spec.yaml", "--direct")
    bundle = project / "releases" / "survey" / "2024"
    assert json.loads((bundle / "accounting.json").read_text())["tuned_on_the_data"] == []
    assert "looks" not in json.loads((bundle / "facts.json").read_text())


@pytest.mark.slow
def test_a_look_begins_no_ledger_where_releases_have_lost_theirs(project: Path) -> None:
    command(project, "run", "spec.yaml", "--direct")
    for name in ("state", "state-anchor"):
        shutil.rmtree(project / name, ignore_errors=True)
    said = command(project, "utility", "spec.yaml", "--i-can-see-the-data", "--repeat", "1", "--out", "f.txt", code=4)
    assert "DPR-L307" in said or "DPR-L305" in said
