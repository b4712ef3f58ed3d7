"""Commands that are nearly right: what is wrong, where, and what to type next; nothing is written and nothing guessed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli.app import app
from dprelease.errors import DpReleaseError, SpecError
from tests.project import small_project


def refused(*words: str | Path) -> DpReleaseError:
    """How a command is refused."""
    error = CliRunner().invoke(app, [str(word) for word in words]).exception
    assert isinstance(error, DpReleaseError), repr(error)
    return error


def codes(*words: str | Path) -> list[str]:
    """The codes of the problems that a command finds."""
    error = refused(*words)
    assert isinstance(error, SpecError)
    str(error).encode()  # can be written anywhere
    return [each.code for each in error.problems]


# -- the folder of a project


@pytest.mark.parametrize(
    "words",
    [
        *("ledger status", "ledger log", "ledger check", "ledger export", "ledger unlock x", "ledger open people"),
        *("ledger recover", "publish x/2024", "metrics", "due", "doctor", "new people.csv --yes"),
    ],
)
@pytest.mark.parametrize(("folder", "says"), [("gone", "no folder that is there"), ("sub", "has no dprelease.yaml")])
def test_a_project_that_is_named_is_not_looked_for_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, folder: str, says: str
) -> None:
    small_project(tmp_path)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    error = refused(*words.split(), "--project", folder)
    assert isinstance(error, SpecError)
    assert [(each.code, each.hint) for each in error.problems] == [
        ("DPR-S918", f"name the folder of dprelease.yaml: `--project {tmp_path}`")
    ]
    assert says in error.problems[0].summary
    assert sorted(tmp_path.rglob("*")) == before


def test_a_project_is_looked_for_upward_where_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_project(tmp_path)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    for words in (["ledger", "status"], ["ledger", "status", "--project", ".."], ["due"]):
        assert CliRunner().invoke(app, words).exception is None, words
    with pytest.raises(SpecError, match="DPR-S918"):
        dp.spend("gone")


# -- a folder that holds bundles


def test_a_folder_of_bundles_is_no_bundle_and_names_those_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundles = [tmp_path / "releases" / "visits" / f"2024-0{month}" for month in range(1, 8)]
    for folder in (*bundles, tmp_path / "releases" / "visits" / ".2024-01.superseded"):
        folder.mkdir(parents=True)
        (folder / "manifest.json").touch()
    monkeypatch.chdir(tmp_path)
    for given, shown in (
        (".", "releases/visits/"),
        ("releases", "releases/visits/"),
        (str(tmp_path), str(bundles[0].parent)),
    ):
        error = refused("verify", given)
        assert (error.code, error.exit_code) == ("DPR-C121", 7)
        assert f"{shown.rstrip('/')}/2024-01" in error.detail
        assert "and 2 more" in error.detail
        assert "superseded" not in str(error)
        assert f"`dprelease verify {shown.rstrip('/')}/2024-07`" in error.hint
    (tmp_path / "data").mkdir()
    assert "no folder in it has one" in refused("verify", "data").detail


def test_a_bundle_without_its_manifest_fails_its_checks(tmp_path: Path) -> None:
    """What is left of a bundle is not passed over as some other folder."""
    (tmp_path / "tables").mkdir()
    error = refused("verify", tmp_path)
    assert (error.code, error.exit_code) == ("DPR-C000", 7)
    assert "do not rely" in error.hint


# -- options that say nothing without another one


def test_nothing_is_replaced_where_nothing_is_written(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["plan", str(small_project(tmp_path)), "--replace"])
    assert found.exit_code == 2
    assert "--out" in found.output


# -- places and outputs that are not what they usually are


def test_a_project_whose_folder_has_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """The ledger and the plans, which are UTF-8, could not name it."""
    old = Path(os.fsdecode(os.fsencode(tmp_path) + b"/B\xfcro"))
    assert codes("init", old) == ["DPR-S922"]
    assert not old.exists()
    small_project(old, rows=3)
    for words in (["validate"], ["plan"], ["run", "--direct"]):
        assert codes(words[0], old / "spec.yaml", *words[1:]) == ["DPR-S922"]
    assert codes("ledger", "status", "--project", old) == ["DPR-S922"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("buffered", [True, False])
def test_an_output_that_is_full_or_closed_is_no_traceback(tmp_path: Path, buffered: bool) -> None:
    small_project(tmp_path, rows=3)

    def typed(words: str) -> tuple[int, str]:
        line = f"exec '{sys.executable}' -m dprelease {words}"
        variables = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False, env=variables
        )
        return done.returncode, done.stderr

    for words in ("schema >/dev/full", "--version >/dev/full"):
        code, said = typed(words)
        assert (code, "DPR-S921" in said, "Traceback" in said, "Exception" in said) == (2, True, False, False), said
    assert typed("ledger status <&- >&-") == (0, "")
    assert typed("validate gone.yaml 2>/dev/full")[0] == 2  # the code is all that is left
