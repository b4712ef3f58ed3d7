"""Where a project's signing key is, and what is refused in its place before anything is planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.errors import SpecError
from dprelease.release.project import Project
from dprelease.signature import new_key_files
from tests.project import SETTINGS, small_project


def project(folder: Path, line: str) -> Project:
    small_project(folder, rows=1)
    (folder / "dprelease.yaml").write_text(SETTINGS + line, encoding="utf-8")
    return Project.open(folder)


def refused(found: Project, **environment: str) -> str:
    with pytest.raises(SpecError) as caught:
        found.signing_key(environment)
    (problem,) = caught.value.problems
    assert problem.hint
    return problem.code


def test_without_one_releases_are_unsigned(tmp_path: Path) -> None:
    assert project(tmp_path, "").signing_key({}) is None


def test_it_is_relative_to_the_project(tmp_path: Path) -> None:
    found = project(tmp_path / "project", "signing_key: ../office.key\n")
    public = new_key_files(tmp_path / "office.key")
    key = found.signing_key({})
    assert key is not None
    assert key.public == public


def test_a_variable_may_name_it_or_a_part_of_its_path(tmp_path: Path) -> None:
    public = new_key_files(tmp_path / "office.key")
    for line, value in (("${env:KEY}", str(tmp_path / "office.key")), ("${env:KEY}/office.key", str(tmp_path))):
        key = project(tmp_path / "project", f"signing_key: {line}\n").signing_key({"KEY": value})
        assert key is not None
        assert key.public == public


def test_what_is_no_key_of_ours_is_refused(tmp_path: Path) -> None:
    found = project(tmp_path, "signing_key: ${env:KEY}\n")
    new_key_files(tmp_path / "office.key")
    (tmp_path / "open.key").write_bytes((tmp_path / "office.key").read_bytes())
    (tmp_path / "open.key").chmod(0o644)
    assert refused(found) == "DPR-K106"
    assert refused(found, KEY="") == "DPR-K106"
    assert refused(found, KEY="nowhere.key") == "DPR-K101"
    assert refused(found, KEY="open.key") == "DPR-K102"
    assert refused(found, KEY="office.key.pub") == "DPR-K102"


def test_a_key_among_the_releases_would_be_published(tmp_path: Path) -> None:
    (tmp_path / "releases").mkdir()
    new_key_files(tmp_path / "releases" / "office.key")
    assert refused(project(tmp_path, "signing_key: releases/office.key\n")) == "DPR-K107"
    assert refused(project(tmp_path, "signing_key: state/../releases/office.key\n")) == "DPR-K107"
