"""The mistakes of a first day, one after the other: what is typed, and the code and the words that answer it.

Files, specs and commands as somebody tried them who had read the README and nothing else, each by `validate` and then
`plan`. What was right stays right, nothing is a traceback, and nothing that is wrong is silent. What only the data can
show is in ``test_silent_mistakes``: it is ``look`` that may tell it.
"""

from __future__ import annotations

import gzip
import shutil
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease.cli.app import app
from dprelease.errors import DpReleaseError
from tests.project import POLICY, SETTINGS, command

SPEC = """dprelease: 1
release: {name: pay, period: 2024, title: Pay}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: text, keys: [F, M], labels: {F: Women, M: Men}}
      area: {type: integer, keys: [1, 2, 3]}
      age: {type: integer, range: [0, 99]}
      pay: {type: decimal, range: [0, 20000]}
queries:
  q: {table: people, by: [sex], measures: {n: {count: rows}, pay: {mean: pay, clip: [0, 9000]}}}
"""
CSV = "sex,area,age,pay\nF,1,40,1000.5\nM,2,50,2000\n"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)  # how a workbook of Excel 97 begins


def answer(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code of a command, and all that it says; an error that is none of ours is a failure of the test."""
    ended = CliRunner().invoke(app, [*words])
    error = ended.exception
    if isinstance(error, DpReleaseError):
        return error.exit_code, f"{ended.output}{error}"
    assert error is None or isinstance(error, SystemExit), repr(error)
    return ended.exit_code, ended.output


def first_answer(folder: Path) -> tuple[int, str]:
    """What `validate` says, and where it finds nothing `plan`."""
    code, said = answer(folder, "validate", "spec.yaml")
    if code:
        return code, said
    later, planned = answer(folder, "plan", "spec.yaml")
    return later, said + planned


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"dprelease.yaml": SETTINGS, "policy.yaml": POLICY, "people.csv": CSV, "spec.yaml": SPEC}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


Spec = tuple[
    str, str, str, str
]  # what stands in the spec, what is written in its place, the code, and words of the answer
SPECS: dict[str, Spec] = {
    "as it should be": ("", "", "", "valid"),
    "epsilon with a comma": ("epsilon: 1,", 'epsilon: "1,0",', "S204", "1"),
    "epsilon in words": ("epsilon: 1,", "epsilon: one,", "S204", "number"),
    "clip reversed": ("clip: [0, 9000]", "clip: [9000, 0]", "S512", "clip"),
    "clip of one number": ("clip: [0, 9000]", "clip: 4000", "S210", "[low, high]"),
    "a key twice": ("keys: [F, M]", "keys: [F, M, F]", "S525", "F"),
    "a label of no key": ("M: Men", "X: Men", "S526", "X"),
    "a share of nothing": ("by: [sex]", "share: 0, by: [sex]", "S205", "leave the query out"),
    "a query twice": (
        "queries:\n",
        "queries:\n  q: {table: people, measures: {n: {count: rows}}}\n",
        "S109",
        "keep one",
    ),
    "an unknown table": ("q: {table: people", "q: {table: poeple", "S503", "people"),
    "an unknown column": ("by: [sex]", "by: [sexx]", "S504", "sex"),
    "by without brackets": ("by: [sex]", "by: sex", "S203", "[sex]"),
    "by a column without keys": ("by: [sex]", "by: [pay]", "S505", "keys"),
    "private keys without delta": ("keys: [F, M], labels: {F: Women, M: Men}}", "}", "S572", "delta"),
    "six billion cells": ("keys: [1, 2, 3]}", "keys: {from: 1, to: 900000}}", "S528", "cells"),
    "an unknown account": ("account: people", "account: pepole", "S410", "people"),
    "above the ceiling": ("epsilon: 1,", "epsilon: 3,", "L101", "2"),
    "a field misspelt": ("queries:", "querys:", "S200", "queries"),
    "a type of another language: int": ("area: {type: integer", "area: {type: int", "S202", "integer"),
    "a type of another language: float": ("pay: {type: decimal", "pay: {type: float", "S202", "decimal"),
    "a name in capitals": ("name: pay", "name: Pay", "S211", "regional-monitor"),
    "no range": ("{type: decimal, range: [0, 20000]}", "{type: decimal}", "S508", "range"),
    "a condition of another language": ("by: [sex]", 'where: "age > 18 && area = 1", by: [sex]', "S561", "write AND"),
    "a text without quotes": ("by: [sex]", 'where: "sex = F", by: [sex]', "S561", "'F'"),
    "a unit that is a word": ("unit: {entity: person}", "unit: person", "S203", "entity"),
    "a tab": ("  budget:", "\tbudget:", "S104", "spaces"),
    "an empty file": (SPEC, "", "S113", "dprelease: 1"),
    "a workbook of Excel 97": ("file: people.csv", "file: people.xls", "S216", "xlsx"),
    "a median": ("n: {count: rows}", "n: {median: pay}", "S214", "{quantiles: COLUMN, at: [0.5]}"),
    "an average": ("n: {count: rows}", "n: {avg: pay}", "S214", "mean"),
    "a star": ("{count: rows}", "{count: *}", "S103", "{count: rows}"),
    "rounding": ("by: [sex]", "round: 5, by: [sex]", "", "valid"),
    "a negative epsilon": ("epsilon: 1,", "epsilon: -1,", "S205", "epsilon"),
    "a delta above one": ("delta: 1e-9", "delta: 2", "S207", "delta"),
    "a database in words of another tool": ("{file: people.csv}", "{sql: select, url: x}", "S2", "database"),
    "no delta": (", delta: 1e-9", "", "W124", "delta"),
    "no period": (", period: 2024", "", "W123", "period"),
    "a clip beyond the range": ("clip: [0, 9000]", "clip: [-100, 40000]", "W126", "range"),
    "two keys with one label": ("M: Men", "M: Women", "W125", "Women"),
    "a month that is none": ("period: 2024,", "period: 2024-13,", "S917", "there is no such month"),
    "a day that is none": ("period: 2024,", "period: 2024-02-30,", "S917", "there is no such day"),
    "a bare template": ("title: Pay", "title: {{ period }}", "S111", "quotes"),
    "a secret": ("{file: people.csv}", '{database: "postgresql://me:pw@host/db", table: t}', "S238", "env"),
}
ALSO = {  # further changes
    "private keys without delta": ((", delta: 1e-9", ""), ("by: [sex]", "by: [sex], keys: private")),
    "six billion cells": (
        ("age: {type: integer, range: [0, 99]}", "age: {type: integer, keys: {from: 1, to: 900000}}"),
        ("by: [sex]", "by: [area, age]"),
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_is_answered(folder: Path, name: str) -> None:
    old, new, code, words = SPECS[name]
    assert old in SPEC
    wrong = SPEC.replace(old, new, 1)
    for more in ALSO.get(name, ()):
        wrong = wrong.replace(*more)
    (folder / "spec.yaml").write_text(wrong, encoding="utf-8")
    ended, said = first_answer(folder)
    assert f"DPR-{code}" in said if code else "DPR-" not in said
    assert words in said
    assert ended == (0 if code[:1] in ("", "W") else 4 if code[0] == "L" else 2)


def workbook(*cells: str) -> bytes:
    """A file that is a workbook by its name and its first bytes, and holds no sheet."""
    with zipfile.ZipFile(made := BytesIO(), "w") as file:
        file.writestr("[Content_Types].xml", "<Types/>")
    return made.getvalue()


File = tuple[str, bytes | None, str, str]  # the name, the content, the code and words of what `validate` answers
HIDDEN = "other names are not shown"
FILES: dict[str, File] = {
    "as it should be": ("people.csv", CSV.encode(), "", "valid"),
    "a byte order mark": ("people.csv", b"\xef\xbb\xbf" + CSV.encode(), "", "valid"),
    "lines of Windows": ("people.csv", CSV.replace("\n", "\r\n").encode(), "", "valid"),
    "a further column": ("people.csv", CSV.replace("\n", ",x\n").encode(), "", "valid"),
    "compressed": ("people.csv.gz", gzip.compress(CSV.encode()), "", "valid"),
    "semicolons": ("people.csv", CSV.replace(",", ";").encode(), "E301", "delimiter"),
    "tabs": ("people.csv", CSV.replace(",", "\t").encode(), "E301", "delimiter"),
    "sixteen bits a letter": ("people.csv", CSV.encode("utf-16"), "E30", "UTF-"),
    "capitals": ("people.csv", CSV.replace("sex,area,age,pay", "SEX,AREA,AGE,PAY").encode(), "E301", "letters' case"),
    "spaces": (
        "people.csv",
        CSV.replace("sex,area,age,pay", " sex , area , age , pay ").encode(),
        "E301",
        "blanks count",
    ),
    "no header": ("people.csv", b"F,1,40,1000\nM,2,50,2000\n", "E301", HIDDEN),
    "a column twice": ("people.csv", CSV.replace("area", "sex").encode(), "E30", "sex"),
    "nothing in it": ("people.csv", b"", "E303", "header"),
    "compressed under another name": ("people.csv", gzip.compress(CSV.encode()), "E301", ".csv.gz"),
    "a workbook under another name": ("people.csv", workbook(), "E301", ".xlsx"),
    "an old workbook under another name": ("people.csv", OLE, "E301", "save it as CSV"),
    "no workbook under the name of one": ("people.xlsx", CSV.encode(), "E303", ""),
    "no Parquet under the name of one": ("people.parquet", CSV.encode(), "E303", "name it by what it is"),
    "not there": ("gone.csv", None, "", "not compared"),
    "a folder": ("data.csv/", None, "", "no file matches"),
    "a folder without an ending": ("data", None, "S216", "csv"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_answered(folder: Path, name: str) -> None:
    file, content, code, words = FILES[name]
    if content is not None:
        (folder / file).write_bytes(content)
    elif file.endswith("/"):
        (folder / file).mkdir()
    (folder / "spec.yaml").write_text(SPEC.replace("people.csv", file.rstrip("/")), encoding="utf-8")
    ended, said = answer(folder, "validate", "spec.yaml")
    assert f"DPR-{code}" in said if code else "DPR-" not in said
    assert words in said
    assert "1000" not in said
    assert ended == (0 if not code else 2 if code[0] == "S" else 5)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with a frozen plan and a published release."""
    made = tmp_path_factory.mktemp("released")
    for name, text in {"dprelease.yaml": SETTINGS, "policy.yaml": POLICY, "people.csv": CSV, "spec.yaml": SPEC}.items():
        (made / name).write_text(text, encoding="utf-8")
    command(made, "plan", "spec.yaml", "--out", "plan.json")
    command(made, "run", "spec.yaml", "--direct")
    return made


def _other_spec(folder: Path) -> None:
    (folder / "spec.yaml").write_text(SPEC.replace("epsilon: 1,", "epsilon: 0.5,"), encoding="utf-8")


def _without(*names: str) -> Callable[[Path], None]:
    def take_away(folder: Path) -> None:
        for name in names:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return take_away


def _nothing(_: Path) -> None:
    pass


Typed = tuple[
    Callable[[Path], None], str, int, str
]  # what happened before, what is typed, exit code, words of the answer
COMMANDS: dict[str, Typed] = {
    "once more": (_nothing, "run spec.yaml --direct", 0, "exists: nothing drawn, nothing spent"),
    "the bundle is gone": (_without("releases"), "run spec.yaml --direct", 0, "nothing drawn"),
    "the ledger is gone": (_without("state"), "run spec.yaml --direct", 4, "DPR-L3"),
    "the policy is gone": (_without("policy.yaml"), "plan spec.yaml", 2, "`policy:` of dprelease.yaml names it"),
    "the settings are gone": (_without("dprelease.yaml"), "plan spec.yaml", 2, "dprelease init"),
    "the data are gone": (_without("people.csv"), "validate spec.yaml", 0, "no file matches"),
    "another spec": (_other_spec, "run spec.yaml --direct", 4, "DPR-L"),
    "a plan of another spec": (_other_spec, "run plan.json --direct", 4, "DPR-L110"),
    "another plan over a reviewed one": (_other_spec, "plan spec.yaml --out plan.json", 3, "--replace"),
    "a plan over a spec": (_nothing, "plan spec.yaml --out policy.yaml", 3, "DPR-P306"),
    "a plan in no folder": (_nothing, "plan spec.yaml --out gone/plan.json", 3, "DPR-P307"),
    "a closed release is given up": (_nothing, "run spec.yaml --direct --give-up x", 4, "DPR-L130"),
    "corrected, and no other data": (_nothing, "run spec.yaml --direct --restate x", 4, "DPR-L114"),
    "a folder": (_nothing, "run . --direct", 2, "give a file in it: spec.yaml"),
    "no such spec": (_nothing, "plan gone.yaml", 2, "DPR-S001"),
    "a period that is none": (_nothing, "plan spec.yaml --period 2024-13", 2, "DPR-S917"),
    "another period of a plan": (_nothing, "run plan.json --direct --period 2025", 3, "DPR-P304"),
    "a dry run": (_nothing, "run spec.yaml --direct --dry-run", 2, "--synthetic"),
    "a wrong option": (_nothing, "plan spec.yaml --horizn 3", 2, "--horizon"),
    "a wrong command": (_nothing, "verfy pay/2024", 2, "verify"),
    "verified by its name": (_nothing, "verify pay/2024", 0, "These files agree with one another"),
    "verified by its folder": (_nothing, "verify releases/pay/2024", 0, "These files agree with one another"),
    "verified: the project": (_nothing, "verify .", 7, "`dprelease verify releases/pay/2024`"),
    "verified: no release": (_nothing, "verify pay/2023", 7, "DPR-C121"),
    "verified: nothing": (_nothing, "verify", 2, "NAME/PERIOD"),
    "published again": (_nothing, "publish pay/2024", 0, "nothing drawn, nothing spent"),
    "published: no release": (_nothing, "publish pay/2023", 4, "the ledger has: pay/2024"),
    "compared with itself": (_nothing, "diff pay/2024 pay/2024", 0, ""),
    "another project": (_nothing, "ledger status --project gone", 2, "DPR-S918"),
    "an error explained": (_nothing, "explain DPR-S413", 0, "selecting"),
    "no error explained": (_nothing, "explain DPR-S9999", 2, ""),
    "a project over a project": (_nothing, "init .", 2, "DPR-S"),
    "a file in no folder": (_nothing, "metrics --textfile gone/m.prom", 2, "name a file in a folder that is there"),
    "no schedule": (_nothing, "due", 0, "no spec of this project has a schedule"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_answered(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before, typed, code, words = COMMANDS[name]
    place = released
    if before is not _nothing or "publish" in typed:
        # The ledger knows its place, so that the copy takes it.
        kept = tmp_path / "kept"
        shutil.copytree(released, kept)
    monkeypatch.chdir(place)
    try:
        before(place)
        ended, said = answer(place, *typed.split())
    finally:
        if before is not _nothing or "publish" in typed:
            shutil.rmtree(place)
            shutil.copytree(kept, place)
    assert words in " ".join(said.replace("│", " ").split())
    assert ended == code
