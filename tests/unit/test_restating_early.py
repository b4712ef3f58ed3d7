"""``run --restate``: what cannot be replaced is told at once, with no row looked at and nothing written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dprelease.engines import DuckDBEngine
from dprelease.errors import LedgerError
from dprelease.ledger import Ledger, open_ledger
from dprelease.release import direct
from dprelease.release.project import Project
from dprelease.release.run import Request, open_run
from tests.project import small_project


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose survey of 2024 was released."""
    spec = small_project(tmp_path_factory.mktemp("released") / "project", rows=60)
    direct.run_directly(Request(target=str(spec)))
    return spec.parent


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("a source was looked at")


def refused(spec: Path, monkeypatch: pytest.MonkeyPatch) -> LedgerError:
    before = entries(spec)
    for name in ("describe", "check"):
        monkeypatch.setattr(DuckDBEngine, name, never)
    with pytest.raises(LedgerError) as caught:
        open_run(Request(target=str(spec), restate="a wrong list"), "test")
    assert entries(spec) == before
    return caught.value


def ledger_of(spec: Path) -> Ledger:
    return open_ledger(Project.find(spec).settings.ledger, spec.parent)


def entries(spec: Path) -> int:
    return len(list(ledger_of(spec).entries()))


def test_nothing_was_ever_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = small_project(tmp_path, rows=60)
    error = refused(spec, monkeypatch)
    assert error.code == "DPR-L125"
    assert error.summary == "survey/2024 was never released: there is nothing that could be replaced"
    assert error.detail == "nothing of survey was ever released"
    assert "run it without `--restate`" in error.hint


def moved(released: Path, tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """The same project and ledger, with another spec; a ledger may not be moved, so that the spec is."""
    text = (released / "spec.yaml").read_text()
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    spec = released / f"{tmp_path.name}.yaml"
    spec.write_text(text)
    return spec


def test_another_period_was_released(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused(moved(released, tmp_path, ("period: 2024", "period: 2025")), monkeypatch)
    assert error.code == "DPR-L125"
    assert error.detail == "of survey there is: 2024"


def test_the_very_same_plan_and_data_are_refused_before_a_row_is_looked_at(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(moved(released, tmp_path), monkeypatch).code == "DPR-L114"


def test_a_release_that_is_open_is_finished_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = small_project(tmp_path, rows=60)
    with open_run(Request(target=str(spec)), "test"):
        pass
    spec.write_text(spec.read_text().replace("epsilon: 1,", "epsilon: 1/2,"))
    error = refused(spec, monkeypatch)
    assert error.code == "DPR-L110"
    assert "is open with plan" in error.summary


def test_a_changed_spec_replaces_what_was_released(tmp_path: Path, released: Path) -> None:
    spec = moved(released, tmp_path, ("budget: {epsilon: 1,", "budget: {epsilon: 1/2,"))
    with open_run(Request(target=str(spec), restate="too dear"), "test") as run:
        assert run.reservation.restates is not None
        assert run.reservation.reason == "too dear"


def test_a_rehearsal_of_a_restatement_needs_no_release(tmp_path: Path) -> None:
    spec = small_project(tmp_path, rows=60)
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    with open_run(Request(target=str(spec), restate="to try it", synthetic=True), "test") as run:
        assert run.reservation.restates is None
