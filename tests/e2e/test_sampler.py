"""Which sampler draws a release is chosen when it is reserved, recorded, shown on its report, and used when resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dprelease.noise import SAMPLERS, sampler
from dprelease.release.direct import run_directly
from dprelease.release.environment import environment
from dprelease.release.run import Request, open_run
from tests.project import command, installed, small_project


def without_opendp(folder: Path) -> Path:
    """Commands in this folder find no OpenDP: what has its name there, and comes first, is none."""
    hidden = folder / "opendp.py"
    hidden.write_text("raise ImportError('not installed')\n", encoding="utf-8")
    return hidden


@pytest.mark.slow
def test_the_starting_project_is_released_without_opendp(tmp_path: Path) -> None:
    command(tmp_path, "init", "new")
    project = tmp_path / "new"
    without_opendp(project)
    command(project, "plan", "quickstart.yaml")
    assert "published" in installed(project, "run", "quickstart.yaml", "--direct")  # in a process from scratch
    command(project, "verify", "releases/quickstart/2024")
    made = json.loads((project / "releases" / "quickstart" / "2024" / "accounting.json").read_text(encoding="utf-8"))
    assert SAMPLERS["native"] in json.dumps(made)


def test_a_sampler_that_is_not_installed_stops_a_release_before_it_is_charged(tmp_path: Path) -> None:
    spec = str(small_project(tmp_path))
    hidden = without_opendp(tmp_path)
    said = command(tmp_path, "run", "spec.yaml", "--direct", "--sampler", "opendp", code=9)
    assert "DPR-X105" in said
    assert 'pip install "dprelease[opendp]"' in said
    assert not (tmp_path / "state" / "ledger.db").exists()
    pytest.importorskip("opendp", reason="the opendp extra is not installed")
    with open_run(Request(target=spec, sampler="opendp"), "a run that stops before anything is drawn"):
        pass
    assert "DPR-X105" in command(tmp_path, "run", "spec.yaml", "--direct", code=9)
    hidden.unlink()
    assert "published" in command(tmp_path, "run", "spec.yaml", "--direct")


@pytest.mark.slow
def test_a_resumed_release_keeps_its_sampler_and_the_report_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment()["sampler"] == SAMPLERS["native"]
    spec = str(small_project(tmp_path))
    with open_run(Request(target=spec, sampler="opendp"), "a run that stops before anything is drawn"):
        pass

    def none(*_: Any) -> None:
        raise AssertionError("drawn by the sampler that was not recorded")

    monkeypatch.setattr(sampler, "add_native", none)
    run_directly(Request(target=spec))
    page = (tmp_path / "releases" / "survey" / "2024" / "accounting.html").read_text(encoding="utf-8")
    assert [name for name, told in SAMPLERS.items() if told in page] == ["opendp"]


@pytest.mark.slow
def test_an_unknown_sampler_is_refused(tmp_path: Path) -> None:
    small_project(tmp_path)
    said = command(tmp_path, "run", "spec.yaml", "--direct", "--sampler", "numpy", code=2)
    assert "native or opendp" in said
    assert "--due" in command(tmp_path, "run", "spec.yaml", "--direct", "--due", "--sampler", "opendp", code=2)
    pytest.importorskip("opendp", reason="the opendp extra is not installed")
    assert command(tmp_path, "run", "spec.yaml", "--direct", "--synthetic", "--sampler", "opendp")
