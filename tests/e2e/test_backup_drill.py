"""A copy of a ledger while releases go on, put back a release later: spend is only added, and nothing is drawn again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.project import SPEC, command, environment, forked, small_project
from tests.repo.documents import ROOT

BACKUP = ROOT / "deploy" / "backup"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


def script(name: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as an operator would, with `dprelease` of this environment on the path."""
    commands = folder.parent / "commands"
    commands.mkdir(exist_ok=True)
    (commands / "dprelease").write_text(f'#!/bin/sh\nexec {shutil.which("python3", path=_path())} -m dprelease "$@"\n')
    (commands / "dprelease").chmod(0o755)
    variables = {**environment(), "PATH": f"{commands}:{_path()}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [str(BACKUP / name), *words], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


def _path() -> str:
    import sys

    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def numbers(folder: Path, period: str) -> str:
    return (folder / "releases" / "survey" / period / "tables" / "population.csv").read_text()


def test_the_drill_charges_what_the_copy_lacks_and_publishes_the_next_period(tmp_path: Path) -> None:
    project, copies = tmp_path / "project", tmp_path / "copies"
    small_project(project, SPEC.replace("period: 2024", "period: 2021"), rows=30)
    command(project, "run", "spec.yaml", "--direct")
    copied = script("backup-sqlite", str(project), str(copies), folder=project)
    assert copied.returncode == 0, copied.stderr
    (copy,) = copies.iterdir()
    assert {"ledger.db", "policy.yaml", "dprelease.yaml", "state-key", "SHA256SUMS"} <= {p.name for p in copy.iterdir()}
    assert (copy / "ledger.db").stat().st_mode & 0o077 == 0
    command(project, "run", "spec.yaml", "--direct", "--period", "2022")
    before = numbers(project, "2022")

    drilled = script("restore-drill", str(project), str(copy), folder=project)
    assert drilled.returncode == 0, drilled.stdout + drilled.stderr
    assert "the ledger is sound" in drilled.stdout
    assert numbers(project, "2022") == before
    again = forked(project, "run", "spec.yaml", "--direct", "--period", "2022")
    assert again.code != 0, "it was released, and is not drawn a second time"
    assert numbers(project, "2022") == before
    command(project, "run", "spec.yaml", "--direct", "--period", "2023")
    assert numbers(project, "2023")
    command(project, "ledger", "check")


def test_a_copy_that_was_changed_is_not_put_back(tmp_path: Path) -> None:
    project, copies = tmp_path / "project", tmp_path / "copies"
    small_project(project, rows=30)
    command(project, "run", "spec.yaml", "--direct")
    assert script("backup-sqlite", str(project), str(copies), folder=project).returncode == 0
    (copy,) = copies.iterdir()
    with (copy / "ledger.db").open("ab") as file:
        file.write(b"x")
    ledger = (project / "state" / "ledger.db").read_bytes()
    assert script("restore-drill", str(project), str(copy), folder=project).returncode != 0
    assert (project / "state" / "ledger.db").read_bytes() == ledger
