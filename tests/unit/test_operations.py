"""What an operator relies on: who may read and write the files, which process is ended, what is said of a failure."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dprelease.catalog.table import Source
from dprelease.cli import app
from dprelease.cli.commands.schedule import _pages
from dprelease.engines.files.places import folders as sources
from dprelease.errors import LedgerError, SpecError, Unavailable
from dprelease.flows.deploy.deploy import hanging
from dprelease.flows.server.child import claim
from dprelease.flows.server.settings import make_home, prepared
from dprelease.ledger import open_ledger
from dprelease.ledger.anchors.anchors import Anchor
from dprelease.ledger.model.anchor_lines import AnchorLine
from dprelease.ledger.stores.file_lock import break_lock, file_holders
from dprelease.signature import new_key_files, read_private
from tests.ledgers import charges, plan
from tests.project import SPEC, command, small_project


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def masked(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


# --- Files ---


def test_an_anchor_that_is_written_anew_is_still_its_owner_s_alone(tmp_path: Path) -> None:
    with masked(0o022):
        head = Anchor(tmp_path / "head.json")
        head.renew([AnchorLine(ledger="a", sequence=1, hash="b" * 64)])
        (tmp_path / "head.json.new").write_text("left by a process that was killed")
        head.renew([AnchorLine(ledger="a", sequence=2, hash="c" * 64)])
    assert [mode(path) for path in sorted(tmp_path.glob("head*"))] == [0o600] * 2


def test_a_home_and_what_is_above_it_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    with masked(0o022):
        make_home(tmp_path / "state" / "prefect")
        assert mode(tmp_path / "state") == mode(tmp_path / "state" / "prefect") == 0o700
        home = tmp_path / "old"
        home.mkdir(mode=0o755)
        (home / "prefect.db").touch(mode=0o644)
        (home / "prefect.db-wal").touch(mode=0o644)
        with prepared(home, {}):
            pass
    assert (mode(home), mode(home / "prefect.db"), mode(home / "prefect.db-wal")) == (0o700, 0o600, 0o600)
    with masked(0o022):
        claim(tmp_path / "third" / "home").release()
    assert mode(tmp_path / "third") == 0o700


@pytest.mark.parametrize("bits", [0o777, 0o666, 0o620, 0o602])
def test_a_ledger_that_others_can_write_is_refused_and_told_how_to_be_closed(tmp_path: Path, bits: int) -> None:
    made = plan()
    ledger = open_ledger("sqlite:///state/ledger.db", tmp_path)
    ledger.reserve(made, charges(made))
    path = tmp_path / "state" / "ledger.db"
    path.chmod(bits)
    again = open_ledger("sqlite:///state/ledger.db", tmp_path)
    with pytest.raises(
        LedgerError, match=rf"DPR-L181 .*others can write it \(mode {bits:04o}\)[\s\S]*chmod 600"
    ) as seen:
        again.reserve(made, charges(made))
    assert seen.value.exit_code == 4
    assert "yours alone" in again.check()[0]
    path.chmod(0o600)
    assert again.check() == ()


def test_a_ledger_in_a_folder_of_others_is_refused_unless_nobody_can_remove_it_there(tmp_path: Path) -> None:
    made = plan()
    ledger = open_ledger("sqlite:///state/ledger.db", tmp_path)
    ledger.reserve(made, charges(made))
    folder = tmp_path / "state"
    for bits, refused in ((0o777, True), (0o770, True), (0o755, False), (0o1777, False)):
        folder.chmod(bits)
        again = open_ledger("sqlite:///state/ledger.db", tmp_path)
        if refused:
            with pytest.raises(LedgerError, match=r"DPR-L181 .*others can replace it"):
                again.reservations()
        else:
            assert len(again.reservations()) == 1


# --- A signing key that root has mounted ---


@pytest.mark.parametrize(
    ("uid", "gid", "bits", "taken"),
    [
        (0, 2000, 0o440, True),  # Kubernetes: fsGroup, defaultMode 0440
        (0, 2000, 0o400 | 0o040, True),
        (0, 2000, 0o640, True),
        (0, 2000, 0o600, False),  # root's own
        (0, 2000, 0o660, False),  # the group can write it
        (0, 2000, 0o444, False),  # everybody can read it
        (0, 2001, 0o440, False),  # another group
        (7, 2000, 0o440, False),  # another user's
    ],
)
def test_a_key_of_root_for_the_group_of_this_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, gid: int, bits: int, *, taken: bool
) -> None:
    new_key_files(tmp_path / "office.key")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 1000)
    monkeypatch.setattr(os, "getgroups", lambda: [2000])
    real = (tmp_path / "office.key").stat()
    facts = [stat.S_IFREG | bits, *real[1:4], uid, gid, *real[6:]]
    monkeypatch.setattr("dprelease.signature.os.fstat", lambda _: os.stat_result(facts))
    if taken:
        assert read_private(tmp_path / "office.key")
    else:
        with pytest.raises(SpecError, match="DPR-K102"):
            read_private(tmp_path / "office.key")


# --- Locks ---

HOLD = """
import sys, time
from pathlib import Path
from dprelease.ledger.stores.file_lock import ReleaseLock
lock = ReleaseLock(Path(sys.argv[1]), "survey", "2024", "measuring")
lock.acquire()
print("held", flush=True)
time.sleep(120)
"""


@contextmanager
def holding(folder: Path) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def test_the_process_that_holds_a_lock_is_ended(tmp_path: Path) -> None:
    with holding(tmp_path) as child:
        (holder,) = file_holders(tmp_path)
        break_lock(tmp_path, holder)
        assert child.wait(timeout=30) != 0


@pytest.mark.slow
def test_a_process_that_has_got_the_number_of_a_dead_holder_is_left_alone(tmp_path: Path) -> None:
    with holding(tmp_path) as child:
        (holder,) = file_holders(tmp_path)
        child.kill()
        child.wait()
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    try:
        reused = holder.model_copy(update={"process": bystander.pid})
        break_lock(tmp_path, reused)  # nobody holds the lock any more
        assert bystander.poll() is None
        with holding(tmp_path) as other:
            with pytest.raises(LedgerError, match=r"DPR-L182 .*not held by process"):
                break_lock(tmp_path, reused)
            assert other.poll() is None
        assert bystander.poll() is None
        assert reused.host == socket.gethostname()
    finally:
        bystander.kill()
        bystander.wait()


# --- What is said ---

SCHEDULE = 'schedule: {cron: "0 6 5 1 *", timezone: America/New_York, period: year, last: 2024}\n'


def test_due_says_that_a_spec_is_invalid_and_not_only_that_it_is_late(tmp_path: Path) -> None:
    small_project(tmp_path, SPEC.replace("period: 2024,", "period: 2023,") + SCHEDULE, rows=3)
    assert json.loads(command(tmp_path, "due", "--json", code=7).split("DPR-C110")[0])["schedules"][0]["invalid"] == []
    wrong = (tmp_path / "spec.yaml").read_text().replace("by: [region]", "by: [regoin]")
    (tmp_path / "spec.yaml").write_text(wrong)
    told = command(tmp_path, "due", code=2)
    assert "the spec is invalid (DPR-S504): nothing is released" in told
    assert "did you mean" in told
    assert "1 late" in told
    facts = json.loads(command(tmp_path, "due", "--json", code=2).split("\nspec.yaml")[0])
    assert facts["schedules"][0]["invalid"] == ["DPR-S504"]


def test_a_process_without_memory_says_so_and_has_an_exit_code_of_the_list(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def hungry() -> None:
        rows = "canary-" + "1234"
        raise MemoryError(rows)

    monkeypatch.setattr(app, "app", hungry)
    with pytest.raises(SystemExit) as stop:
        app.run_app()
    told = capsys.readouterr().err
    assert stop.value.code == 5
    assert told.startswith("DPR-E001")
    assert "canary" not in told
    assert "Traceback" not in told


def test_a_pattern_that_leads_through_a_whole_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST", 20)
    for at in range(30):
        (tmp_path / "disk" / f"d{at}").mkdir(parents=True)
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "a.csv").touch()

    def found(file: str) -> int:
        return len(sources.files(Source(file=file, format="csv"), tmp_path, {"TOP": str(tmp_path)}))

    assert found("data/**/*.csv") == 1
    for pattern in ("**/*.csv", "/**/*.csv", "${env:TOP}/**/*.csv"):
        with pytest.raises(Unavailable, match=r"DPR-E106 .*`\*\*` leads through more than 20") as seen:
            found(pattern)
        assert str(tmp_path) not in str(seen.value)


def test_the_pages_need_the_address_of_the_api_on_any_other_port_or_host() -> None:
    assert _pages("http://127.0.0.1:4200/api") == _pages("") == ""
    assert "PREFECT_SERVER_UI_API_URL=http://127.0.0.1:4300/api prefect server start" in _pages(
        "http://127.0.0.1:4300/api"
    )
    assert "=https://prefect.example/api " in _pages("https://user:secret@prefect.example/api")
    assert "secret" not in _pages("https://user:secret@prefect.example/api")


def test_runs_that_were_killed_are_named_with_what_removes_them() -> None:
    now = datetime(2026, 11, 22, 12, tzinfo=UTC)
    ago = [now - timedelta(minutes=minutes) for minutes in (20, 11, 9, 60)]
    runs = [("a", "Pending", ago[0]), ("b", "Running", ago[1]), ("c", "Running", ago[2]), ("d", "Completed", ago[3])]
    head, *lines = hanging("survey", runs, now)
    assert head.startswith("survey: 2 run(s) are begun in Prefect for more than 10 minutes")
    assert [line.split(";")[0] for line in lines] == [
        "  Pending since 2026-11-22T11:40:00Z",
        "  Running since 2026-11-22T11:49:00Z",
    ]
    assert lines[0].endswith("prefect flow-run delete a")
    assert list(hanging("survey", runs[2:], now)) == []
