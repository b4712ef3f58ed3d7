"""Which source a release was made with: the commit of a checkout, and whether its code is as committed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dprelease.release import environment as room


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dprelease" / "release").mkdir(parents=True)
    monkeypatch.setattr(room, "__file__", str(tmp_path / "dprelease" / "release" / "environment.py"))
    monkeypatch.setattr(room, "_recorded", lambda installed: "")
    return tmp_path


def told() -> tuple[str, str]:
    versions = room.environment()
    return versions["commit"], versions["tree"]


def test_a_folder_without_a_commit_tells_none(checkout: Path) -> None:
    assert told() == ("not known", "not known")
    git(checkout, "init", "--quiet")
    assert told() == ("not known", "not known")


def test_a_checkout_tells_its_commit_and_whether_its_code_is_that(checkout: Path) -> None:
    (checkout / "dprelease" / "a.py").write_text("a = 1\n")
    (checkout / "notes").write_text("one\n")
    git(checkout, "init", "--quiet")
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "--message", "one")
    commit = git(checkout, "rev-parse", "HEAD").strip()
    assert told() == (commit, "clean")
    (checkout / "notes").write_text("two\n")
    assert told() == (commit, "clean")
    (checkout / "dprelease" / "new.py").write_text("")
    assert told() == (commit, "modified")
    (checkout / "dprelease" / "new.py").unlink()
    (checkout / "dprelease" / "a.py").write_text("a = 2\n")
    assert told() == (commit, "modified")


def test_what_an_installer_wrote_down_counts(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_recorded", lambda installed: "abc")
    assert told() == ("abc", "clean")
