"""What of the flow needs no Prefect: settings, the errors that Prefect may see, and the home's databases."""

from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dprelease.errors import BrokenPromiseError, TableMismatch, Unavailable
from dprelease.flows.run_context import RunContext, StepFailed
from dprelease.flows.server.child import claim, copy, provide
from dprelease.flows.server.settings import FOLDER, api_in_use, prepared, without_prefect


def work() -> RunContext:
    request: Any = SimpleNamespace(target="/specs/demo.yaml", synthetic=False)
    return RunContext(request)


def test_importing_the_flows_does_not_import_prefect() -> None:
    code = "import sys, dprelease.flows; print('prefect' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


def test_only_how_to_reach_a_server_survives_and_only_if_one_is_named() -> None:
    given = {"PATH": "/bin", "PREFECT_HOME": "/h", "prefect_tasks_refresh_cache": "1", "PREFECT_API_KEY": "k"}
    assert without_prefect(given) == {"PATH": "/bin"}
    named = {**given, "PREFECT_API_URL": "http://prefect.example.org/api"}
    assert set(without_prefect(named)) == {"PATH", "PREFECT_API_KEY", "PREFECT_API_URL"}


def test_an_empty_url_names_no_server() -> None:
    assert api_in_use({"PREFECT_API_URL": " "}) == ""


def test_environment_and_folder_are_put_back_even_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_PROFILE", "somebody")
    before = dict(os.environ)
    inside: dict[str, str] = {}

    def use() -> None:
        with prepared(tmp_path / "home", {"PREFECT_API_URL": "http://127.0.0.1:1/api"}):
            inside.update(os.environ, folder=str(Path.cwd()))
            raise KeyError

    with pytest.raises(KeyError):
        use()
    assert inside["folder"] == str(FOLDER)
    assert "PREFECT_PROFILE" not in inside
    assert inside["PREFECT_HOME"] == str(tmp_path / "home")
    assert inside["PREFECT_API_URL"] == "http://127.0.0.1:1/api"
    assert dict(os.environ) == before
    assert Path.cwd() == tmp_path


def test_no_settings_file_of_prefect_lies_where_it_is_used() -> None:
    assert not [name for name in (".env", "prefect.toml", "pyproject.toml") if (FOLDER / name).exists()]


def test_prefect_sees_class_code_and_step_only() -> None:
    def do() -> None:
        raise TableMismatch("column income is text", code="DPR-E303")

    with pytest.raises(StepFailed) as seen:
        work().attempt("measure 1: persons", do)
    assert str(seen.value) == "measure 1: persons: TableMismatch DPR-E303"
    assert seen.value.__cause__ is None
    assert seen.value.__context__ is None
    assert not seen.value.retryable
    assert str(pickle.loads(pickle.dumps(seen.value))) == str(seen.value)


def test_our_own_error_comes_back_as_itself_without_what_caused_it() -> None:
    held, error = work(), TableMismatch("column income is text")

    def do() -> None:
        raise error from ValueError("row 7: 1234")

    with pytest.raises(StepFailed):
        held.attempt("measure", do)
    assert held.failure() is error
    assert error.__cause__ is None
    assert error.__traceback__ is None


def test_any_other_error_comes_back_as_a_broken_promise_without_its_text() -> None:
    held, none = work(), dict[str, int]()
    with pytest.raises(StepFailed):
        held.attempt("measure", lambda: none["row 7: 1234"])
    failure = held.failure()
    assert isinstance(failure, BrokenPromiseError)
    assert "KeyError in measure" in str(failure)
    assert "1234" not in str(failure)


def test_an_error_that_a_retry_made_good_is_forgotten() -> None:
    def busy() -> None:
        raise Unavailable("busy")

    held = work()
    with pytest.raises(StepFailed) as seen:
        held.attempt("measure", busy)
    assert seen.value.retryable
    held.attempt("measure", lambda: None)
    assert held.failure() is None


def test_open_work_does_not_leave_its_process() -> None:
    with pytest.raises(TypeError, match="does not leave"):
        pickle.dumps(work())


def database(path: Path, revision: str) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table alembic_version (version_num text)")
        made.execute("insert into alembic_version values (?)", (revision,))
        made.commit()
    return path


def revision(path: Path) -> str:
    with closing(sqlite3.connect(path)) as opened:
        return str(opened.execute("select version_num from alembic_version").fetchone()[0])


def test_a_home_has_one_holder_and_the_others_get_private_databases(tmp_path: Path) -> None:
    first, second = claim(tmp_path), claim(tmp_path)
    assert first.path == tmp_path / "prefect.db"
    assert second.path.parent.parent == tmp_path
    assert second.path != first.path
    second.release()
    assert not second.path.parent.exists()
    first.release()
    third = claim(tmp_path)
    assert third.path == first.path
    third.release()


def test_what_a_killed_run_left_is_removed_after_an_hour(tmp_path: Path) -> None:
    old, new = tmp_path / "run-old", tmp_path / "run-new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (0, 0))
    claim(tmp_path).release()
    assert not old.exists()
    assert new.exists()


def test_a_database_of_the_right_revision_is_kept(tmp_path: Path) -> None:
    empty, mine = database(tmp_path / "empty-1.db", "r1"), database(tmp_path / "prefect.db", "r1")
    before = mine.read_bytes()
    provide(mine, empty)
    assert mine.read_bytes() == before


def test_a_database_of_another_revision_or_none_is_put_aside(tmp_path: Path) -> None:
    empty, mine = database(tmp_path / "empty-2.db", "r2"), database(tmp_path / "prefect.db", "r1")
    provide(mine, empty)
    assert revision(mine) == "r2"
    assert revision(tmp_path / "prefect-before-2.db") == "r1"
    mine.write_bytes(b"not a database, but of the length that one has at least" * 20)
    provide(mine, empty)
    assert revision(mine) == "r2"


def test_a_copy_is_whole(tmp_path: Path) -> None:
    copy(database(tmp_path / "a.db", "r1"), tmp_path / "b.db")
    assert revision(tmp_path / "b.db") == "r1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "b.db"]
