"""The commands of the ledger, as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.project import SPEC, command, small_project, start

PLD = """  fixed: {unit: person, neighboring: add_remove, composition: pld, lifetime: {epsilon: 6, delta: 1e-9}}
"""


def told(folder: Path, *words: str) -> Any:
    return json.loads(command(folder, "ledger", *words, "--json"))


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one finished release."""
    folder = tmp_path_factory.mktemp("project")
    small_project(folder)
    command(folder, "run", "spec.yaml", "--direct")
    return folder


def copied(released: Path, folder: Path) -> Path:
    """The project elsewhere, its ledger told that it was moved."""
    shutil.copytree(released, folder / "p")
    command(folder / "p", "ledger", "recover", "--why", "moved", "--yes")
    return folder / "p"


def test_status_log_check_and_export(released: Path, tmp_path: Path) -> None:
    found = told(released, "status")["accounts"][0]
    assert (found["name"], found["releases"], found["reserved"]) == ("people", 1, "0")
    assert found["fits"] >= 1
    words = command(released, "ledger", "status")
    assert "lifetime: spent epsilon" in words
    assert "had it been fixed in advance (grants nothing)" in words
    assert f"{found['fits']} more release(s) like the last one fit" in words
    kinds = [each["kind"] for each in told(released, "log", "--release", "survey/2024")["entries"]]
    assert kinds == ["reserve", "source", *["measure"] * 5, "close"]
    assert len(told(released, "log", "--last", "2")["entries"]) == 2
    assert [each["kind"] for each in told(released, "log", "--kind", "open", "--account", "people")["entries"]] == [
        "open"
    ]
    assert "there are: open" in command(released, "ledger", "log", "--kind", "nonsense", code=2)
    assert "sound" in command(released, "ledger", "check")
    out = tmp_path / "ledger.json"
    command(released, "ledger", "export", "--account", "people", "--out", str(out))
    assert json.loads(out.read_text()) == json.loads(command(released, "ledger", "export"))
    assert "it has: people" in command(released, "ledger", "export", "--account", "nobody", code=4)


def test_a_moved_ledger_is_recovered_after_being_asked(released: Path, tmp_path: Path) -> None:
    shutil.copytree(released, tmp_path / "p")
    complaint = command(tmp_path / "p", "ledger", "check", code=7)
    assert "is a copy" in complaint
    assert "recover" in complaint
    words = command(tmp_path / "p", "ledger", "recover", "--why", "new disk", code=4)
    assert "is a copy" in words
    assert "only" not in words.splitlines()[0]
    assert "nobody can be asked" in words
    assert "a reason is missing" in command(tmp_path / "p", "ledger", "recover", "--yes", code=4)
    command(tmp_path / "p", "ledger", "recover", "--why", "new disk", "--yes")
    assert "nothing is wrong" in command(tmp_path / "p", "ledger", "recover", "--why", "again")
    assert "sound" in command(tmp_path / "p", "ledger", "check")


def test_an_incident_is_shown_asked_recorded_and_told_beside_the_bundle(released: Path, tmp_path: Path) -> None:
    folder = copied(released, tmp_path)
    before = told(folder, "status")["accounts"][0]
    bundle = folder / "releases" / "survey" / "2024"
    bytes_before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    words = ("ledger", "incident", "--why", "half the noise", "--mechanism", "discrete_gaussian", "--factor", "2")
    assert "survey/2024, account people: epsilon" in command(folder, *words, "--dry-run")
    assert told(folder, "status")["accounts"][0] == before
    assert "nobody can be asked" in command(folder, *words, code=4)
    command(folder, *words, "--yes")
    after = told(folder, "status")
    assert float(after["accounts"][0]["spent"]) > 1.9 * float(before["spent"])
    assert after["incidents"][0]["why"] == "half the noise"
    assert {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()} == bytes_before
    assert "FAIL" not in command(folder, "verify", str(bundle))
    paths = sorted(bundle.parent.glob("2024.erratum-*"))
    assert [path.suffix for path in paths] == [".json", ".md"]
    text = paths[1].read_bytes()
    paths[1].unlink()
    again = command(folder, *words, "--yes")
    assert "not corrected for it before" in again
    assert paths[1].read_bytes() == text
    assert told(folder, "status") == after
    assert "sound" in command(folder, "ledger", "check")
    assert "nothing drawn" in command(folder, "run", "spec.yaml", "--direct")
    unprotected = ("ledger", "incident", "--why", "no noise", "--unprotected", "--yes")
    assert "no bound at all" in command(folder, *unprotected)
    assert "spent epsilon unbounded" in command(folder, "ledger", "status")


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
    assert "Invalid value" in command(released, "ledger", "incident", "--why", "x", *words, code=2)


def test_an_account_is_opened_with_the_terms_of_the_policy(tmp_path: Path) -> None:
    spec = small_project(tmp_path)
    assert "the policy has no account" in command(tmp_path, "ledger", "open", "nobody", "--why", "x", code=4)
    assert "is recorded in entry 2" in command(tmp_path, "ledger", "open", "people", "--why", "the year begins")
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy.read_text().replace("epsilon: 4", "epsilon: 5"))
    command(tmp_path, "ledger", "open", "people", "--why", "more is needed")
    (raised,) = told(tmp_path, "status")["accounts"][0]["raised"]
    assert (raised["why"], raised["from"]["epsilon"], raised["to"]["epsilon"]) == ("more is needed", "4", "5")
    assert "raised by entry" in command(tmp_path, "ledger", "status")
    policy.write_text(policy.read_text().replace("accounts:\n", f"accounts:\n{PLD}"))
    spec.write_text(SPEC.replace("account: people", "account: fixed"))
    command(tmp_path, "plan", "spec.yaml", "--out", "plan.json")
    assert "--releases N once" in command(
        tmp_path, "ledger", "open", "fixed", "--why", "x", "--series", "plan.json", code=2
    )
    words = ("ledger", "open", "fixed", "--why", "2025", "--series", "plan.json", "--releases", "12")
    assert "12 x plan.json" in command(tmp_path, *words)
    found = {each["name"]: each for each in told(tmp_path, "status")["accounts"]}["fixed"]
    assert 1 < float(found["spent"]) < 6


def test_a_lock_is_shown_and_ended_after_being_asked(tmp_path: Path) -> None:
    small_project(tmp_path)
    command(tmp_path, "ledger", "open", "people", "--why", "x")
    assert "nobody holds the lock" in command(tmp_path, "ledger", "unlock", "survey/2024", code=4)
    from dprelease.ledger import SQLiteLedger

    with SQLiteLedger(tmp_path / "state" / "ledger.db").lock("survey", "2024", "a test"):
        assert told(tmp_path, "status")["locks"][0]["doing"] == "a test"
        assert "a test" in command(tmp_path, "ledger", "status")
        assert "nobody can be asked" in command(tmp_path, "ledger", "unlock", "survey/2024", code=4)
    holder = start(tmp_path, "--version")
    holder.communicate(timeout=60)


def test_tables_are_made_by_hand_for_postgresql_alone(tmp_path: Path) -> None:
    small_project(tmp_path)
    assert "a file, which the first reservation makes" in command(tmp_path, "ledger", "create", code=4)
