"""First hours: from a file of rows to a verified bundle by ``dprelease new`` and the commands that it says to type next."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.spec.load import load
from tests.project import command, environment
from tests.workbook_files import workbook

CANARY = "7654321"  # the income of one person, and in the name of a place that no list has
ROWS = 400
HEAD = {
    "--period": "2024",
    "--budget": "1,1e-9",
    "--name": "first-hour",
    "--title": "Incomes: a first table",
    "--curator": "Example Office",
    "--contact": "",
    "--account": "people",
    "--cap": "4,1e-8",
}
PLAIN = {
    "--encoding": "utf-8",
    "--unit": "person",
    "--id": "none",
    "--by": "state,age",
    "--type state": "text",
    "--keys state": "@us-states-postal",
    "--type age": "integer",
    "--keys age": "bands 0,18,65,120",
    "--numbers": "income",
    "--type income": "decimal",
    "--range income": "0,500000",
    "--clip income": "0,60000",
    "--decimal": "point",
} | HEAD
EUROPEAN = {
    "--encoding": "latin-1",
    "--unit": "person",
    "--id": "Personen-Nr",
    "--max-rows": "2",
    "--by": "Größe des Orts",
    "--type Größe des Orts": "text",
    "--keys Größe des Orts": "groß,klein",
    "--numbers": "Einkommen (Euro)",
    "--type Einkommen (Euro)": "decimal",
    "--range Einkommen (Euro)": "0,500000",
    "--clip Einkommen (Euro)": "0,60000",
    "--time": "Tag",
    "--type Tag": "date",
    "--decimal": "comma",
    "--date-format": "%d.%m.%Y",
} | HEAD
STATA = {name: said for name, said in PLAIN.items() if name not in ("--encoding", "--decimal")}


def words(answers: Mapping[str, str]) -> list[str]:
    """Answers as options of the command line."""
    found = []
    for option, said in answers.items():
        name, _, column = option.partition(" ")
        found += [name, f"{column}={said}" if column else said]
    return found


def plain_file(folder: Path) -> Path:
    rows = [f"{('CA', 'TX')[k % 2]},{k % 90},{100 * (k % 500)}.5" for k in range(ROWS)]
    path = folder / "people.csv"
    path.write_text("\n".join(["state,age,income", *rows, f"Canary{CANARY},40,{CANARY}"]) + "\n", encoding="utf-8")
    return path


def european_file(folder: Path) -> Path:
    rows = [
        f"p{k // 2};{('groß', 'klein')[k % 2]};{100 * (k % 500)},50;{1 + k % 28}.03.2024;Bemerkung {CANARY}"
        for k in range(ROWS)
    ]
    lines = ["Personen-Nr;Größe des Orts;Einkommen (Euro);Tag;Anmerkung der Stadt", *rows]
    path = folder / "einkommen.csv"
    path.write_bytes("".join(f"{line}\r\n" for line in lines).encode("latin-1"))
    return path


def written_text(folder: Path, *, without: Path) -> str:
    """Everything in a folder but the data."""
    files = [path for path in folder.rglob("*") if path.is_file() and path != without]
    assert files
    return "\n".join(path.read_bytes().decode("latin-1") for path in files)


def first_hour(folder: Path, data: Path, answers: Mapping[str, str], *, place: Sequence[str] = ()) -> str:
    """`new`, then what it says: validate and plan are in it. Returns what it printed."""
    said = command(folder, "new", *(place or [data.name]), *words(answers))
    assert "0 question(s) asked" in said
    assert "dprelease run first-hour.yaml" in said
    assert CANARY not in said
    assert CANARY not in written_text(folder, without=data)
    assert "valid. first-hour/2024" in command(folder, "validate", "first-hour.yaml")
    command(folder, "run", "first-hour.yaml", "--direct")
    assert "FAIL" not in command(folder, "verify", "first-hour/2024")
    return said


def test_from_a_plain_csv_to_a_verified_bundle(tmp_path: Path) -> None:
    said = first_hour(tmp_path, plain_file(tmp_path), PLAIN)
    repeated = shlex.split(said.splitlines()[-1])
    assert repeated == ["dprelease", "new", "people.csv", *words(PLAIN)]
    before = (tmp_path / "first-hour.yaml").read_bytes()
    command(tmp_path, *repeated[1:-2])  # the policy is there now, and no cap is asked
    assert (tmp_path / "first-hour.yaml").read_bytes() == before


def test_from_a_csv_with_semicolons_in_latin_1(tmp_path: Path) -> None:
    """The names cannot stand in a spec: those that were chosen are spelled plainly, of the others none is written."""
    said = first_hour(tmp_path, european_file(tmp_path), EUROPEAN)
    spec = (tmp_path / "first-hour.yaml").read_text(encoding="utf-8")
    assert "bounds: {max_rows: 2}" in spec
    assert "clip_per: row" in spec
    assert 'delimiter: ";"' in spec
    assert 'header: ["Personen_Nr", "Grosse_des_Orts", "Einkommen_Euro", "Tag", "column_5"]' in spec
    assert "Anmerkung" not in spec + said
    table = (tmp_path / "releases/first-hour/2024/tables/first.csv").read_text(encoding="utf-8")
    totals = [float(line.split(",")[1]) for line in table.splitlines()[1:]]
    assert sum(totals) == pytest.approx(ROWS, abs=150)  # each of 200 people in both kinds of places


def test_from_a_stata_file(tmp_path: Path) -> None:
    pytest.importorskip("pyreadstat")
    from tests.statistical_files import write_statistical

    path = tmp_path / "people.dta"
    columns: dict[str, list[object]] = {
        "state": [*(("CA", "TX")[k % 2] for k in range(ROWS)), f"Canary{CANARY}"],
        "age": [*(k % 90 for k in range(ROWS)), 40],
        "income": [*(float(100 * (k % 500)) for k in range(ROWS)), float(CANARY)],
    }
    write_statistical(path, columns)
    said = first_hour(tmp_path, path, STATA).replace(str(tmp_path), "")
    assert str(ROWS + 1) not in said  # the parser counts the rows, and nothing of that is told


def test_from_an_excel_sheet(tmp_path: Path) -> None:
    rows = [[("CA", "TX")[k % 2], k % 90, 100 * (k % 500) + 0.5] for k in range(ROWS)]
    path = tmp_path / "people.xlsx"
    path.write_bytes(workbook([["state", "age", "income"], *rows, [f"Canary{CANARY}", 40, float(CANARY)]]))
    said = first_hour(tmp_path, path, STATA).replace(str(tmp_path), "")
    assert str(ROWS + 1) not in said


@pytest.mark.parametrize("first", [["CA", 41, 100.5], ["state", "", "income"], [CANARY, CANARY, "income"]])
def test_a_first_line_of_a_sheet_that_may_be_a_row_is_refused_unseen(tmp_path: Path, first: list[object]) -> None:
    path = tmp_path / "people.xlsx"
    path.write_bytes(workbook([first, ["TX", 42, float(CANARY)]]))
    said = command(tmp_path, "new", path.name, *words(STATA), code=2)
    assert "DPR-S906" in said
    assert CANARY not in said


def test_from_a_parquet_file_whose_footer_declares_types(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    rows = {"state": ["CA", "TX"] * 200, "age": [k % 90 for k in range(ROWS)], "income": [float(CANARY)] * ROWS}
    pq.write_table(pa.table(rows), path)
    proposed = {name: said for name, said in STATA.items() if not name.startswith("--type")}
    said = command(tmp_path, "new", "people.parquet", "--yes", *words(proposed))
    assert "--type income=decimal" in said
    assert CANARY not in said + written_text(tmp_path, without=path)


def test_where_nobody_can_be_asked_every_missing_option_is_named(tmp_path: Path) -> None:
    plain_file(tmp_path)
    given = {name: said for name, said in PLAIN.items() if name not in ("--budget", "--keys state", "--cap")}
    said = command(tmp_path, "new", "people.csv", *words(given), code=2)
    assert re.findall(r"(--\S+(?: state)?) is missing", said) == ["--keys state", "--budget", "--cap"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv"]


def test_proposals_are_taken_only_when_that_is_said(tmp_path: Path) -> None:
    plain_file(tmp_path)
    proposed = {"--encoding", "--unit", "--type state", "--type age", "--clip income", "--type income"}
    proposed |= {"--decimal", "--name", "--title", "--curator", "--contact", "--account"}
    given = {name: said for name, said in PLAIN.items() if name not in proposed}
    said = command(tmp_path, "new", "people.csv", *words(given), code=2)
    assert set(re.findall(r"(--\S+(?: state)?) is missing", said)) >= {"--encoding", "--unit", "--type state"}
    command(tmp_path, "new", "people.csv", "--yes", *words(given))
    assert "range: [0, 500000]" in (tmp_path / "people.yaml").read_text(encoding="utf-8")
    assert "--id is missing" in command(tmp_path, "new", "people.csv", "--yes", "--by", "none", code=2)


@pytest.mark.parametrize("line", [f"41,{CANARY},Bern", f"Bern,{CANARY}", f"a,,{CANARY}x", f"x{CANARY},x{CANARY}"])
def test_a_first_line_that_may_be_a_row_is_refused_unseen(tmp_path: Path, line: str) -> None:
    (tmp_path / "people.csv").write_text(f"{line}\n{line}\n", encoding="utf-8")
    said = command(tmp_path, "new", "people.csv", *words(PLAIN), code=2)
    assert "DPR-S906" in said
    assert CANARY not in said
    assert "--header" in said


def test_names_of_ones_own_where_no_line_has_them(tmp_path: Path) -> None:
    data = plain_file(tmp_path)
    data.write_text(data.read_text(encoding="utf-8").split("\n", 1)[1], encoding="utf-8")
    command(tmp_path, "new", "people.csv", "--header", "state,age,income", "--delimiter", "comma", *words(PLAIN))
    assert 'header: ["state", "age", "income"]' in (tmp_path / "first-hour.yaml").read_text(encoding="utf-8")
    assert CANARY not in written_text(tmp_path, without=data)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("people.xls", "save it as an Excel workbook (.xlsx) or the sheet as CSV in UTF-8"),
        ("s3://bucket/people.csv", "read-your-files"),
        ("people.txt", "export it as one of these"),
        ("gone.csv", "there is no such file"),
    ],
)
def test_what_cannot_be_a_source_is_told_with_what_to_type(tmp_path: Path, name: str, says: str) -> None:
    if name.startswith("people"):
        (tmp_path / name).write_bytes(b"PK\x03\x04")
    said = command(tmp_path, "new", name, code=2)
    assert "DPR-S907" in said
    assert says in said


@pytest.mark.parametrize(
    ("option", "said", "says"),
    [
        ("--keys state", "@us-stats", "did you mean `us-states`"),
        ("--keys age", "bands 0,18,18", "rising limits"),
        ("--keys age", "007", "no whole number"),
        ("--range income", "500000,0", "least and the greatest"),
        ("--by", "state,region", "'region' is neither the name of a column"),
        ("--budget", "1", "epsilon and delta"),
        ("--budget", "0,1e-9", "above 0"),
        ("--type age", "float", "integer"),
        ("--keys region", "1,2", "do not raise"),
        ("--contact", "a\nb", "one line"),
    ],
)
def test_a_wrong_answer_is_told_with_its_option(tmp_path: Path, option: str, said: str, says: str) -> None:
    plain_file(tmp_path)
    told = command(tmp_path, "new", "people.csv", *words(PLAIN | {option: said}), code=2)
    assert "DPR-S908" in told
    assert option in told
    assert says in told
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_nothing_is_overwritten_unasked_and_no_policy_ever(tmp_path: Path) -> None:
    plain_file(tmp_path)
    command(tmp_path, "new", "people.csv", *words(PLAIN))
    policy = (tmp_path / "policy.yaml").read_bytes()
    other = {name: said for name, said in (PLAIN | {"--title": "Another"}).items() if name != "--cap"}
    assert "DPR-S910" in command(tmp_path, "new", "people.csv", *words(other), code=2)
    assert "a first table" in (tmp_path / "first-hour.yaml").read_text(encoding="utf-8")
    command(tmp_path, "new", "people.csv", "--replace", *words(other))
    assert "Another" in (tmp_path / "first-hour.yaml").read_text(encoding="utf-8")
    elsewhere = command(tmp_path, "new", "people.csv", *words(other | {"--account": "mine"}), code=2)
    assert "there is: people" in elsewhere
    assert (tmp_path / "policy.yaml").read_bytes() == policy


def test_no_name_that_nobody_chose_is_told_to_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(f"state,secret_day_{CANARY},canary{CANARY}_id\n", encoding="utf-8")
    for more in ((), ("--by", "state"), ("--by", "region"), ("--id", "person"), ("--yes", "--by", "state")):
        assert CANARY not in command(tmp_path, "new", "people.csv", *more, code=2)


def test_words_that_mean_something_in_yaml_stay_words(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("no,y,on,null\nNO,1,-1,x\n", encoding="utf-8")
    said = {"--by": "no,y,on,null", "--type no": "text", "--keys no": "no,1e5,06, #x,true", "--type y": "boolean"}
    said |= {"--keys y": "true,false", "--numbers": "none", "--encoding": "utf-8", "--unit": "null", "--id": "none"}
    said |= {"--type on": "integer", "--keys on": "-1,0,7", "--type null": "date", "--date-format": "%Y-%m-%d"}
    said |= {"--keys null": "2024-03-07,2024-03-08", "--time": "none"}
    command(tmp_path, "new", "people.csv", *words(HEAD | said | {"--title": 'yes: {no} "so" # é'}))
    plan = json.loads(command(tmp_path, "plan", "first-hour.yaml", "--json"))
    assert plan["release"] == "first-hour"
    read = load((tmp_path / "first-hour.yaml").read_text(encoding="utf-8"), "first-hour.yaml").spec
    assert read.release.title == 'yes: {no} "so" # é'
    assert read.tables["people"].columns["no"].keys == ("no", "1e5", "06", "#x", "true")
    assert read.tables["people"].columns["y"].keys == (True, False)
    assert read.tables["people"].columns["on"].keys == (-1, 0, 7)
    assert read.tables["people"].columns["null"].keys == ("2024-03-07", "2024-03-08")


def test_the_command_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    plain_file(tmp_path)
    page = (Path(__file__).parents[2] / "docs/how-to/start-from-your-file.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^dprelease (new people.csv --.+)$", page, re.MULTILINE)
    with_postal = line.replace("@us-states ", "@us-states-postal ")
    command(tmp_path, *shlex.split(with_postal))
    command(tmp_path, "run", "people.yaml", "--direct")
    assert "FAIL" not in command(tmp_path, "verify", "people/2024")


def on_terminal(folder: Path, arguments: Sequence[str], answers: Sequence[str]) -> tuple[int, str]:
    """The command on a pseudo-terminal: an answer whenever it waits behind a colon. Returns its code and its screen."""
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "dprelease", *arguments],
        cwd=folder, env=environment(), stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
    )  # fmt: skip
    os.close(theirs)
    left, screen, since, ends = list(answers), "", "", time.monotonic() + 120
    while time.monotonic() < ends:
        if select.select([mine], [], [], 0.5)[0]:
            try:
                more = os.read(mine, 65536).decode()
            except OSError:  # the other side has ended
                break
            screen, since = screen + more, since + more
        if left and re.search(r"\n   [^\n]*: $", since):
            os.write(mine, (left.pop(0) + "\n").encode())
            since = ""
    os.close(mine)
    code = process.wait(timeout=30)
    assert left == []
    return code, screen.replace("\r\n", "\n")


def test_a_person_who_ends_the_questions_has_written_nothing(tmp_path: Path) -> None:
    data = plain_file(tmp_path)
    code, screen = on_terminal(tmp_path, ["new", "people.csv"], ["", "person", "none", "\x04"])
    assert (code, "interrupted; nothing was written" in screen) == (130, True), screen
    assert "measured" not in screen
    assert list(tmp_path.iterdir()) == [data]


def test_a_person_on_a_terminal_answers_the_questions(tmp_path: Path) -> None:
    """A wrong answer is asked again; columns are named by number; what is proposed takes one key."""
    data = plain_file(tmp_path)
    typed = ["", "", "none", "1,age", "", "@us-states-postal", "", "bands 0,18,65,120", "income", ""]
    typed += ["0;500000", "0,500000", "0,60000", "", "2024", "1,1e-9", "", "Incomes: a first table", "Example Office"]
    typed += ["", "", "4,1e-8"]
    code, screen = on_terminal(tmp_path, ["new", "people.csv"], typed)
    assert code == 0, screen
    assert "  1  state" in screen
    assert "the least and the greatest value are wanted" in screen
    assert CANARY not in screen
    assert f"{len(typed) - 1} question(s) asked" in screen
    assert len(typed) - 1 == 21
    assert CANARY not in written_text(tmp_path, without=data)
    repeated = shlex.split(screen.split("the same is:\n")[1])
    asked = (tmp_path / "people.yaml").read_bytes()
    for made in ("people.yaml", "policy.yaml", "dprelease.yaml"):
        (tmp_path / made).unlink()
    command(tmp_path, *repeated[1:])
    assert (tmp_path / "people.yaml").read_bytes() == asked
