"""The installed command where a policy demands approvals: keys, signatures, refusals, a run, a revoked key."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease.cli.app import app
from dprelease.errors import DpReleaseError, PlanError
from dprelease.plan.document import FrozenPlan
from dprelease.plan.document.approval import Signed, stands
from dprelease.release.approval import add_approval, open_frozen
from dprelease.signature import new_key_files, read_private
from tests.project import POLICY, SPEC, command, environment, small_project

PEOPLE = {"alice": "data-owner", "bob": "data-owner", "carol": "privacy-officer"}
SMALL = SPEC[: SPEC.index("  income:\n    table:")]  # one query: quick to plan
ASKED = "{data-owner: 1, privacy-officer: 1}"
AT = "2024-03-07T05:06:07Z"


def write_policy(folder: Path, required: str = ASKED, people: tuple[str, ...] = tuple(PEOPLE), extra: str = "") -> None:
    lines = [f"approvals:\n  required: {required}\n{extra}  approvers:"]
    for name in people:
        text = (folder / f"{name}.key.pub").read_text(encoding="utf-8").split()[0]
        lines.append(f'    {name}: {{role: {PEOPLE[name]}, key: "{text}"}}')
    (folder / "policy.yaml").write_text(POLICY.replace("approvals: {required: 0}", "\n".join(lines)), encoding="utf-8")


@pytest.fixture(scope="module")
def frozen_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with three approvers, of whom an owner and an officer must sign, and a frozen plan in it."""
    folder = tmp_path_factory.mktemp("approval")
    small_project(folder, SMALL, rows=300)
    for name in PEOPLE:
        new_key_files(folder / f"{name}.key", name)
    write_policy(folder)
    typed(folder, "plan", "spec.yaml", "--out", "plan.json")
    return folder


@pytest.fixture
def project(frozen_project: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(frozen_project, tmp_path, dirs_exist_ok=True))


def typed(folder: Path, *words: str, code: int = 0) -> str:
    """As ``command``, in this process: what the command line says, and its error."""
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, words)
    error = result.exception
    if isinstance(error, DpReleaseError):
        assert error.exit_code == code
        return result.output + str(error)
    assert result.exit_code == code, result.output
    return result.output


def approvals(folder: Path) -> list[str]:
    return [each["name"] for each in json.loads((folder / "plan.json").read_text(encoding="utf-8"))["approvals"]]


def test_keys_are_made_and_shown_and_the_line_is_one_of_a_policy(tmp_path: Path) -> None:
    small_project(tmp_path)
    made = command(tmp_path, "keys", "new", "alice.key", "--name", "alice")

    line = next(line for line in made.splitlines() if line.strip().startswith("alice:"))
    (tmp_path / "policy.yaml").write_text(
        POLICY.replace("approvals: {required: 0}", f"approvals:\n  required: 1\n  approvers:\n  {line}"),
        encoding="utf-8",
    )
    assert "valid" in command(tmp_path, "validate", "spec.yaml")
    assert stat.S_IMODE((tmp_path / "alice.key").stat().st_mode) == 0o600
    assert "PRIVATE" not in made
    shown = json.loads(command(tmp_path, "keys", "show", "alice.key", "--json"))
    assert shown == json.loads(command(tmp_path, "keys", "show", "alice.key.pub", "--json"))
    assert shown["fingerprint"] in made
    assert "DPR-K104" in command(tmp_path, "keys", "new", "alice.key", code=2)
    assert "--name" in command(tmp_path, "keys", "new", "bob.key", "--name", "b o", code=2)


def test_a_plan_is_frozen_approved_by_two_and_run(project: Path) -> None:
    refused = typed(project, "run", "spec.yaml", "--direct", code=3)
    assert "DPR-K120" in refused
    for words in ("--out plan.json`", "`dprelease approve plan.json --key KEYFILE`", "`dprelease run plan.json`"):
        assert words in refused
    assert "rehearsed" in typed(project, "run", "spec.yaml", "--direct", "--synthetic")

    typed(project, "plan", "spec.yaml", "--out", "plan.json")
    before = json.loads((project / "plan.json").read_text(encoding="utf-8"))
    assert "DPR-K121" in typed(project, "run", "plan.json", "--direct", code=3)
    told = command(project, "approve", "plan.json", "--key", "alice.key", "--yes")
    for words in ("survey/2024", "one person", "epsilon 0.9999", "account    people", before["plan_fingerprint"]):
        assert words in told
    assert "1 more as privacy-officer" in told
    assert "1 more as privacy-officer" in typed(project, "run", "plan.json", "--direct", code=3)
    told = typed(project, "approve", "plan.json", "--key", "carol.key", "--name", "carol", "--yes")
    assert "nothing is missing: `dprelease run plan.json`" in told
    after = json.loads((project / "plan.json").read_text(encoding="utf-8"))
    assert {**after, "approvals": []} == before
    assert approvals(project) == ["alice", "carol"]

    assert "published" in command(project, "run", "plan.json", "--direct")
    bundle = project / "releases" / "survey" / "2024"
    page = (bundle / "accounting.html").read_text(encoding="utf-8")
    assert "Approved by alice (data-owner)" in page
    assert "Approved by carol (privacy-officer)" in page
    told = json.loads((bundle / "accounting.json").read_text(encoding="utf-8"))["approvals"]
    for each in (Signed.model_validate(one) for one in told):  # a stranger needs the bundle alone to check them
        assert stands(each, "survey", "2024", before["plan_fingerprint"], each.heads) == each
    assert [each["name"] for each in told] == ["alice", "carol"]
    # What is reserved is not asked about again, by plan or by spec, whoever has left the policy since.
    write_policy(project, people=("bob", "carol"))
    assert "nothing drawn" in typed(project, "run", "plan.json", "--direct")
    assert "nothing drawn" in typed(project, "run", "spec.yaml", "--direct")


@pytest.mark.slow
def test_a_revoked_key_no_longer_counts(project: Path) -> None:
    for name in ("alice", "carol"):
        typed(project, "approve", "plan.json", "--key", f"{name}.key", "--yes")
    write_policy(project, people=("bob", "carol"))

    refused = typed(project, "run", "plan.json", "--direct", code=3)
    assert "DPR-K121" in refused
    assert "alice" in refused
    assert not list(project.rglob("*.db"))  # refused before anything is reserved, and so before a ledger is made
    typed(project, "approve", "plan.json", "--key", "bob.key", "--yes")
    assert "published" in typed(project, "run", "plan.json", "--direct")


def test_who_may_not_sign_and_what_cannot_be_signed(project: Path) -> None:
    frozen = (project / "plan.json").read_bytes()
    typed(project, "keys", "new", "eve.key")

    def refused(key: str, *words: str, plan: str = "plan.json", code: int = 3) -> str:
        return typed(project, "approve", plan, "--key", key, *words, code=code)

    assert "DPR-K110" in refused("alice.key", "--yes", plan="spec.yaml")
    assert "DPR-K111" in refused("eve.key", "--yes")
    assert "DPR-K112" in refused("alice.key", "--name", "bob", "--yes")
    assert "DPR-K115" in refused("alice.key")
    assert "DPR-K115" in refused("alice.key", "--json")
    (project / "alice.key").chmod(0o644)
    assert "DPR-K102" in refused("alice.key", "--yes", code=2)
    (project / "alice.key").chmod(0o600)
    assert (project / "plan.json").read_bytes() == frozen
    facts = json.loads(typed(project, "approve", "plan.json", "--key", "alice.key", "--yes", "--json"))
    assert facts["missing"] == ["1 more as privacy-officer"]
    assert "DPR-K114" in refused("alice.key", "--yes")
    write_policy(project, "{data-owner: 1}")
    assert "DPR-K113" in refused("carol.key", "--yes")


def test_a_plan_that_was_edited_or_is_stale_is_neither_signed_nor_run(project: Path) -> None:
    for name in ("alice", "carol"):
        typed(project, "approve", "plan.json", "--key", f"{name}.key", "--yes")
    whole = (project / "plan.json").read_text(encoding="utf-8")

    (project / "plan.json").write_text(whole.replace("Example Office", "Another Office"), encoding="utf-8")
    assert "DPR-P302" in typed(project, "run", "plan.json", "--direct", code=3)
    assert "DPR-P302" in typed(project, "approve", "plan.json", "--key", "bob.key", "--yes", code=3)
    (project / "plan.json").write_text(whole.replace('"sequence":0', '"sequence":1'), encoding="utf-8")
    assert "DPR-K122" in typed(project, "run", "plan.json", "--direct", code=3)
    (project / "plan.json").write_text(whole, encoding="utf-8")
    (project / "spec.yaml").write_text(SMALL.replace("epsilon: 1,", "epsilon: 2,"), encoding="utf-8")
    assert "DPR-P300" in typed(project, "run", "plan.json", "--direct", code=3)
    assert "DPR-P300" in typed(project, "approve", "plan.json", "--key", "bob.key", "--yes", code=3)


@pytest.mark.slow
def test_an_approval_of_one_period_is_none_of_the_next(project: Path) -> None:
    (project / "next.yaml").write_text(SMALL.replace("period: 2024", "period: 2025"), encoding="utf-8")
    typed(project, "plan", "next.yaml", "--out", "next.json")
    for name in ("alice", "carol"):
        typed(project, "approve", "plan.json", "--key", f"{name}.key", "--yes")
    first, second = (json.loads((project / f"{name}.json").read_text()) for name in ("plan", "next"))
    (project / "next.json").write_text(json.dumps({**second, "approvals": first["approvals"]}))

    assert "DPR-K122" in typed(project, "run", "next.json", "--direct", code=3)
    assert "DPR-K122" in typed(project, "approve", "next.json", "--key", "bob.key", "--yes", code=3)


@pytest.mark.slow
def test_an_approval_is_worth_one_charge(project: Path) -> None:
    """Both plans are approved on top of the same entries; when one has been charged, the other is stale."""
    (project / "next.yaml").write_text(SMALL.replace("period: 2024", "period: 2025"), encoding="utf-8")
    typed(project, "plan", "next.yaml", "--out", "next.json")
    for name in ("plan", "next"):
        for key in ("alice", "carol"):
            typed(project, "approve", f"{name}.json", "--key", f"{key}.key", "--yes")

    assert "published" in typed(project, "run", "plan.json", "--direct")
    refused = typed(project, "run", "next.json", "--direct", code=3)
    assert "people" in refused
    assert "people" in typed(project, "approve", "next.json", "--key", "bob.key", "--yes", code=3)


@pytest.mark.slow
def test_releases_below_a_figure_need_no_approval(project: Path) -> None:
    write_policy(project, extra="  above: {epsilon: 1, delta: 1e-9}\n")
    dear = SMALL.replace("epsilon: 1,", "epsilon: 1.01,").replace("period: 2024", "period: 2025")
    (project / "dear.yaml").write_text(dear, encoding="utf-8")

    assert "published" in typed(project, "run", "spec.yaml", "--direct")
    assert "DPR-K120" in typed(project, "run", "dear.yaml", "--direct", code=3)


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), pytest.param("n\n", 3, marks=pytest.mark.nightly), ("\n", 3)])
def test_on_a_terminal_it_asks(project: Path, answer: str, code: int) -> None:
    """Who only types Enter signs nothing; at night who says no."""
    outer, inner = pty.openpty()
    try:
        os.write(outer, answer.encode())
        done = subprocess.run(
            [sys.executable, "-m", "dprelease", "approve", "plan.json", "--key", "alice.key"],
            cwd=project,
            env=environment(),
            stdin=inner,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(outer)
        os.close(inner)

    assert done.returncode == code, done.stderr
    assert "Sign this plan?" in done.stdout
    assert approvals(project) == (["alice"] if code == 0 else [])


def test_approvers_at_once_each_leave_their_approval(project: Path) -> None:
    (project / "plan.json").chmod(0o664)
    target, frozen, _ = open_frozen(project / "plan.json")
    keys = [read_private(project / f"{name}.key") for name in PEOPLE]

    def one(number: int) -> None:
        add_approval(project / "plan.json", frozen, target.project.policy, keys[number], AT)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(keys))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(approvals(project)) == sorted(PEOPLE)
    assert stat.S_IMODE((project / "plan.json").stat().st_mode) == 0o664
    assert not list(project.glob(".plan.json*"))


def test_what_was_shown_is_what_is_signed(project: Path) -> None:
    target, shown, _ = open_frozen(project / "plan.json")
    key = read_private(project / "alice.key")
    (project / "spec.yaml").write_text(SMALL.replace("epsilon: 1,", "epsilon: 2,"), encoding="utf-8")
    typed(project, "plan", "spec.yaml", "--out", "plan.json", "--replace")

    with pytest.raises(PlanError) as caught:
        add_approval(project / "plan.json", shown, target.project.policy, key, AT)

    assert caught.value.code == "DPR-K116"
    assert approvals(project) == []


def test_a_folder_that_cannot_be_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, frozen, _ = open_frozen(project / "plan.json")
    whole = (project / "plan.json").read_bytes()
    key = read_private(project / "alice.key")

    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PlanError) as caught:
        add_approval(project / "plan.json", frozen, target.project.policy, key, AT)

    assert caught.value.code == "DPR-K117"
    assert (project / "plan.json").read_bytes() == whole
    assert not list(project.glob(".plan.json*"))
    assert FrozenPlan.from_canonical(whole).approvals == ()


@pytest.mark.slow
def test_corrected_data_need_approvals_of_their_own(project: Path) -> None:
    """What is signed is the plan as the spec asks for it; the first publication has moved the heads that it is on."""
    for name in ("alice", "carol"):
        typed(project, "approve", "plan.json", "--key", f"{name}.key", "--yes")
    typed(project, "run", "plan.json", "--direct")
    data = project / "people-1.csv"
    data.write_text(data.read_text() + "06-01,1,7\n")
    assert "DPR-L400" in typed(project, "run", "plan.json", "--direct", "--restate", "a row was missing", code=3)
    typed(project, "plan", "spec.yaml", "--out", "again.json")
    for name in ("alice", "carol"):
        typed(project, "approve", "again.json", "--key", f"{name}.key", "--yes")
    typed(project, "run", "again.json", "--direct", "--restate", "a row was missing")
    assert "exists" in typed(project, "run", "again.json", "--direct")
    bundle = project / "releases" / "survey" / "2024"
    assert len(json.loads((bundle / "facts.json").read_text())["approvals"]) == 2
    assert "FAIL" not in typed(project, "verify", str(bundle))
