"""Which files a source names: those that are there, or an error that says which folder's rights are missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.table import Source
from dprelease.engines.files.places.folders import files
from dprelease.errors import TableMismatch, Unavailable

PATTERNS = ["*/rows.csv", "*/*.csv", "**/*.csv", "**", "[ab]/?ows.csv", "*/deep/*.csv"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name in ("a", "b"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "rows.csv").write_text("id\n1\n")
        (tmp_path / name / "deep" / "rows.csv").write_text("id\n1\n")
    yield tmp_path
    for path in (tmp_path / "a", tmp_path / "b"):
        path.chmod(0o700)


def named(pattern: str, folder: Path, **variables: str) -> list[str]:
    found = files(Source(file=pattern, format="csv"), folder, variables)
    return [path.relative_to(folder).as_posix() for path in found]


def refused(pattern: str, folder: Path, **variables: str) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        named(pattern, folder, **variables)
    assert caught.value.code == "DPR-E106"
    assert repr(pattern) in caught.value.summary
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert str(folder) not in str(caught.value)
    return caught.value


def test_patterns_find_what_is_there(folder: Path) -> None:
    assert named("a/rows.csv", folder) == ["a/rows.csv"]
    assert named("*/rows.csv", folder) == ["a/rows.csv", "b/rows.csv"]
    assert named("**/*.csv", folder) == ["a/deep/rows.csv", "a/rows.csv", "b/deep/rows.csv", "b/rows.csv"]
    assert named("${env:WHERE}/?/deep/*.csv", folder, WHERE=str(folder)) == ["a/deep/rows.csv", "b/deep/rows.csv"]
    for pattern in ("c/rows.csv", "c/*.csv", "*/none.csv", "rows.csv", "a/rows.csv/x*"):
        with pytest.raises(Unavailable, match="DPR-E102"):
            named(pattern, folder)


@pytest.mark.parametrize("what", ["link", "folder", "pipe", "device"])
def test_what_matches_and_is_no_file_is_not_passed_over(what: str, tmp_path: Path) -> None:
    """A release of the rest would say nothing of it: a disk that is not mounted, a folder that Spark wrote."""
    (tmp_path / "a.csv").touch()
    made = tmp_path / "b.csv"
    if what == "folder":
        made.mkdir()
    elif what == "pipe":
        os.mkfifo(made)
    else:
        made.symlink_to("/nowhere/b.csv" if what == "link" else "/dev/zero")
    with pytest.raises(TableMismatch, match="DPR-E128") as caught:
        files(Source(file="*.csv", format="csv"), tmp_path, {})
    assert "number 2 of 2" in str(caught.value)
    made.rmdir() if what == "folder" else made.unlink()
    assert named("*.csv", tmp_path) == ["a.csv"]


def test_a_name_that_no_system_takes_is_told_without_its_value(folder: Path) -> None:
    error = refused("${env:WHERE}/rows.csv", folder, WHERE="n" * 300)
    assert "n" * 300 not in str(error)
    assert error.hint


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_folder_that_may_not_be_listed_is_not_passed_over(
    pattern: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``glob`` would release what is left: here every look at the folder b is denied, as the system would."""

    def denying(real: Any) -> Any:
        def look(path: Any, *rest: Any, **more: Any) -> Any:
            if f"{os.fspath(path)}/".startswith(f"{folder / 'b'}/"):
                raise PermissionError(13, "a word of the system", str(path))
            return real(path, *rest, **more)

        return look

    monkeypatch.setattr(os, "scandir", denying(os.scandir))
    monkeypatch.setattr(os, "stat", denying(os.stat))
    error = refused(pattern, folder)
    assert "Permission denied" in error.summary
    assert "a word of the system" not in str(error)
    assert named("a/*.csv", folder) == ["a/rows.csv"]


@pytest.mark.skipif(os.geteuid() == 0, reason="rights do not hold for the superuser")
@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100])
@pytest.mark.parametrize("pattern", [*PATTERNS, "b/rows.csv"])
def test_rights_as_the_system_has_them(mode: int, pattern: str, folder: Path) -> None:
    (folder / "b").chmod(mode)
    enough = mode & 0o100 and pattern in ("*/rows.csv", "b/rows.csv", "*/deep/*.csv")
    if enough:
        assert "b/" in "".join(named(pattern, folder))
    else:
        assert "Permission denied" in refused(pattern, folder).summary
