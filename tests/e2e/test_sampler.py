"""Which sampler draws a release is chosen when it is reserved, recorded, shown on its report, and used when resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dprelease.noise import SAMPLERS, sampler
from dprelease.release.direct import execute
from dprelease.release.environment import environment
from dprelease.release.run import Request, open_run
from tests.project import command, small_project

pytestmark = pytest.mark.slow


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
    execute(Request(target=spec))
    page = (tmp_path / "releases" / "survey" / "2024" / "accounting.html").read_text(encoding="utf-8")
    assert [name for name, told in SAMPLERS.items() if told in page] == ["opendp"]


def test_an_unknown_sampler_is_refused(tmp_path: Path) -> None:
    small_project(tmp_path)
    said = command(tmp_path, "run", "spec.yaml", "--direct", "--sampler", "numpy", code=2)
    assert "native or opendp" in said
    assert "--due" in command(tmp_path, "run", "spec.yaml", "--direct", "--due", "--sampler", "opendp", code=2)
    assert command(tmp_path, "run", "spec.yaml", "--direct", "--synthetic", "--sampler", "opendp")
