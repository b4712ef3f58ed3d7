"""One holder per release; the kernel frees the lock of a dead one."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dprelease.errors import LedgerError, Locked, Retryable
from dprelease.ledger import ReleaseLock

WORKER = Path(__file__).parent.parent / "conformance" / "ledger_worker.py"


def lock(folder: Path, period: str = "2024") -> ReleaseLock:
    return ReleaseLock(folder, "survey", period, "measuring", lambda: datetime(2024, 3, 7, 5, 6, 7, tzinfo=UTC))


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(WORKER), "hold", "sqlite:///ledger.db", str(folder), "survey", "2024"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == ["held", process.pid]
        try:
            yield process
        finally:
            process.kill()


def test_a_loser_is_told_who_holds_it_since_when_and_doing_what(tmp_path: Path) -> None:
    with lock(tmp_path), pytest.raises(Locked) as error, lock(tmp_path):
        pass
    told = str(error.value)
    for part in ("DPR-L200", "survey 2024", f"process {os.getpid()}", os.uname().nodename, "2024-03-07T05:06:07Z"):
        assert part in told
    assert "doing: measuring" in told
    assert isinstance(error.value, Retryable)


def test_another_process_is_named_too(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process, pytest.raises(Locked, match=f"process {process.pid} "), lock(tmp_path):
        pass


def test_a_holder_that_was_killed_blocks_nobody(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with lock(tmp_path):
            pass


def test_a_thread_of_the_same_process_is_refused(tmp_path: Path) -> None:
    def try_it() -> bool:
        try:
            with lock(tmp_path):
                return True
        except Locked:
            return False

    with ThreadPoolExecutor(1) as pool:
        with lock(tmp_path):
            assert not pool.submit(try_it).result()
        assert pool.submit(try_it).result()


def test_other_periods_are_free_and_a_lock_can_be_taken_again(tmp_path: Path) -> None:
    one = lock(tmp_path)
    with one, lock(tmp_path, "2025"):
        pass
    one.acquire()
    one.release()
    one.release()
    with one:
        pass


def test_a_lock_of_fork_and_child_ends_with_its_holder(tmp_path: Path) -> None:
    """A forked child that outlives the run must not keep the release locked."""
    reader, writer = os.pipe()
    with lock(tmp_path):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        os.close(reader)
        with pytest.raises(Locked), lock(tmp_path):
            pass
    with lock(tmp_path):
        pass
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0


def test_a_holder_that_dies_frees_the_lock_though_its_forked_child_lives(tmp_path: Path) -> None:
    """What a killed process does is close its file, without a word; the child must not hold the same one."""
    told, tell = os.pipe()
    reader, writer = os.pipe()
    held = lock(tmp_path)
    held.acquire()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.write(tell, b"forked")
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    assert os.read(told, 6) == b"forked"  # its fork hook has run
    held.forget()
    with lock(tmp_path):
        pass
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    os.close(told)
    os.close(tell)


def test_no_started_program_inherits_it(tmp_path: Path) -> None:
    with lock(tmp_path) as held:
        assert held._file is not None
        assert not os.get_inheritable(held._file)


def test_no_text_of_the_period_reaches_the_path_and_only_the_owner_may_read(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with ReleaseLock(folder, "survey", "../../etc/passwd", "measuring") as held:
        assert held.path.parent == folder
        assert "passwd" not in held.path.name
        assert stat.S_IMODE(held.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_file_left_behind_locks_nothing_and_may_hold_anything(tmp_path: Path) -> None:
    path = lock(tmp_path).path
    path.write_bytes(b"{half")
    with lock(tmp_path):
        path.write_bytes(b"{half")
        with pytest.raises(Locked, match="has not said yet"), lock(tmp_path):
            pass


def test_a_place_that_cannot_hold_a_lock_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="DPR-L140"), lock(tmp_path / "file" / "state"):
        pass
    path = lock(tmp_path).path
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match="DPR-L140"), lock(tmp_path):
        pass
