"""The commands of the ledger, as a user types them; here in one process, for each of them is many times."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dprelease.cli.app import app
from dprelease.errors import DpReleaseError
from dprelease.plan.document import FrozenPlan
from dprelease.release.planning import open_target, plan_release
from tests.ledgers import SQLiteLedger
from tests.project import SPEC, command, small_project

PLD = """  fixed: {unit: person, neighboring: add_remove, composition: pld, lifetime: {epsilon: 12, delta: 1e-9}}
"""


def typed(folder: Path, *words: str, code: int = 0) -> str:
    """`dprelease ledger ...` in a folder: its output and errors as one text."""
    result = CliRunner().invoke(app, ["ledger", *words, "--project", str(folder)])
    error = result.exception
    if isinstance(error, DpReleaseError):
        assert error.exit_code == code, f"{error}"
        return result.output + str(error)
    assert result.exit_code == code, f"exit {result.exit_code}, not {code}:\n{result.output}\n{error!r}"
    return result.output


def told(folder: Path, *words: str) -> Any:
    return json.loads(typed(folder, *words, "--json"))


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one finished release."""
    folder = tmp_path_factory.mktemp("project")
    small_project(folder)
    command(folder, "run", "spec.yaml", "--direct")
    return folder


def frozen(spec: Path, path: Path) -> str:
    """The spec's plan, frozen; its account has no series yet."""
    target = open_target(spec)
    made = plan_release(target)
    whole = FrozenPlan(plan=made, plan_fingerprint=made.fingerprint(), spec_file="spec.yaml", heads={})
    path.write_text(whole.canonical())
    return str(path)


def copied(released: Path, folder: Path) -> Path:
    """The project elsewhere, its ledger told that it was moved."""
    shutil.copytree(released, folder / "p")
    typed(folder / "p", "recover", "--why", "moved", "--yes")
    return folder / "p"


def test_status_log_check_and_export(released: Path, tmp_path: Path) -> None:
    found = told(released, "status")["accounts"][0]
    assert (found["name"], found["releases"], found["reserved"]) == ("people", 1, "0")
    assert found["fits"] >= 1
    words = typed(released, "status")
    assert "lifetime: spent epsilon" in words
    assert "had it been fixed in advance (grants nothing)" in words
    assert f"{found['fits']} more release(s) like the last one fit" in words
    kinds = [each["kind"] for each in told(released, "log", "--release", "survey/2024")["entries"]]
    assert kinds == ["reserve", "source", *["measure"] * 4, "close"]
    assert len(told(released, "log", "--last", "2")["entries"]) == 2
    assert [each["kind"] for each in told(released, "log", "--kind", "open", "--account", "people")["entries"]] == [
        "open"
    ]
    assert "there are: open" in typed(released, "log", "--kind", "nonsense", code=2)
    assert "sound" in typed(released, "check")
    out = tmp_path / "ledger.json"
    typed(released, "export", "--account", "people", "--out", str(out))
    assert json.loads(out.read_text()) == json.loads(typed(released, "export"))
    assert "it has: people" in typed(released, "export", "--account", "nobody", code=4)


def test_a_moved_ledger_is_recovered_after_being_asked(released: Path, tmp_path: Path) -> None:
    shutil.copytree(released, tmp_path / "p")
    complaint = typed(tmp_path / "p", "check", code=7)
    assert "is a copy" in complaint
    assert "recover" in complaint
    words = typed(tmp_path / "p", "recover", "--why", "new disk", code=4)
    assert "is a copy" in words
    assert "only" not in words.splitlines()[0]
    assert "nobody can be asked" in words
    assert "a reason is missing" in typed(tmp_path / "p", "recover", "--yes", code=4)
    typed(tmp_path / "p", "recover", "--why", "new disk", "--yes")
    assert "nothing is wrong" in typed(tmp_path / "p", "recover", "--why", "again")
    assert "sound" in typed(tmp_path / "p", "check")


def test_an_incident_is_shown_asked_recorded_and_told_beside_the_bundle(released: Path, tmp_path: Path) -> None:
    folder = copied(released, tmp_path)
    before = told(folder, "status")["accounts"][0]
    bundle = folder / "releases" / "survey" / "2024"
    bytes_before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    words = ("incident", "--why", "half the noise", "--mechanism", "discrete_gaussian", "--factor", "2")
    assert "survey/2024, account people: epsilon" in typed(folder, *words, "--dry-run")
    assert told(folder, "status")["accounts"][0] == before
    assert "nobody can be asked" in typed(folder, *words, code=4)
    typed(folder, *words, "--yes")
    after = told(folder, "status")
    assert float(after["accounts"][0]["spent"]) > 1.9 * float(before["spent"])
    assert after["incidents"][0]["why"] == "half the noise"
    assert {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()} == bytes_before
    assert "FAIL" not in command(folder, "verify", str(bundle))
    paths = sorted(bundle.parent.glob("2024.erratum-*"))
    assert [path.suffix for path in paths] == [".json", ".md"]
    text = paths[1].read_bytes()
    paths[1].unlink()
    again = typed(folder, *words, "--yes")
    assert "not corrected for it before" in again
    assert paths[1].read_bytes() == text
    assert told(folder, "status") == after
    assert "sound" in typed(folder, "check")
    assert "nothing drawn" in command(folder, "run", "spec.yaml", "--direct")
    unprotected = ("incident", "--why", "no noise", "--unprotected", "--yes")
    assert "no bound at all" in typed(folder, *unprotected)
    assert "spent epsilon unbounded" in typed(folder, "status")


@pytest.mark.parametrize(
    "words",
    [
        ("--factor", "1"),
        ("--factor", "x"),
        ("--factor", "2", "--unprotected"),
        (),
        ("--factor", "2", "--version", "3"),
    ],
)
def test_an_incident_that_makes_no_sense_is_refused(released: Path, words: tuple[str, ...]) -> None:
    assert "Invalid value" in typed(released, "incident", "--why", "x", *words, code=2)


def test_an_account_is_opened_with_the_terms_of_the_policy(tmp_path: Path) -> None:
    spec = small_project(tmp_path)
    assert "the policy has no account" in typed(tmp_path, "open", "nobody", "--why", "x", code=4)
    assert "is recorded in entry 2" in typed(tmp_path, "open", "people", "--why", "the year begins")
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy.read_text().replace("epsilon: 4", "epsilon: 5"))
    typed(tmp_path, "open", "people", "--why", "more is needed")
    (raised,) = told(tmp_path, "status")["accounts"][0]["raised"]
    assert (raised["why"], raised["from"]["epsilon"], raised["to"]["epsilon"]) == ("more is needed", "4", "5")
    assert "raised by entry" in typed(tmp_path, "status")
    policy.write_text(policy.read_text().replace("accounts:\n", f"accounts:\n{PLD}"))
    spec.write_text(SPEC.replace("account: people", "account: fixed"))
    plan = frozen(spec, tmp_path / "plan.json")
    assert "--releases N once" in typed(tmp_path, "open", "fixed", "--why", "x", "--series", "plan.json", code=2)
    words = ("open", "fixed", "--why", "2025", "--series", plan, "--releases", "12")
    assert "12 x" in typed(tmp_path, *words)
    found = {each["name"]: each for each in told(tmp_path, "status")["accounts"]}["fixed"]
    assert 1 < float(found["spent"]) < 12


def test_a_lock_is_shown_and_ended_after_being_asked(tmp_path: Path) -> None:
    small_project(tmp_path)
    typed(tmp_path, "open", "people", "--why", "x")
    assert "nobody holds the lock" in typed(tmp_path, "unlock", "survey/2024", code=4)
    with SQLiteLedger(tmp_path / "state" / "ledger.db").lock("survey", "2024", "a test"):
        assert told(tmp_path, "status")["locks"][0]["doing"] == "a test"
        assert "a test" in typed(tmp_path, "status")
        assert "nobody can be asked" in typed(tmp_path, "unlock", "survey/2024", code=4)


def test_tables_are_made_by_hand_for_postgresql_alone(tmp_path: Path) -> None:
    small_project(tmp_path)
    assert "a file, which the first reservation makes" in typed(tmp_path, "create", code=4)
