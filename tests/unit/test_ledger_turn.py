"""Writers stand in line; a line that cannot be kept, or does not move, stops nobody."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from dprelease.ledger.stores.file_lock import turn
from dprelease.ledger.stores.sqlite import SQLiteStore


def free(folder: Path) -> bool:
    with turn(folder, 0.01) as mine:
        return mine


def test_one_at_a_time_and_the_next_one_comes_at_once(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def write(who: int) -> None:
        for _ in range(20):
            with turn(tmp_path, 60) as mine:
                assert mine
                inside.append(who)
                most.append(len(inside))
                inside.remove(who)

    writers = [threading.Thread(target=write, args=(who,)) for who in range(8)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert most == [1] * 160
    assert list(tmp_path.iterdir()) == []


def test_they_come_in_the_order_in_which_they_stand(tmp_path: Path) -> None:
    came: list[int] = []

    def write(who: int) -> None:
        with turn(tmp_path, 60):
            came.append(who)

    with turn(tmp_path, 60):
        writers = [threading.Thread(target=write, args=(who,)) for who in range(6)]
        for each in writers:
            each.start()
            time.sleep(0.1)
        assert came == []
    for each in writers:
        each.join()
    assert came == [0, 1, 2, 3, 4, 5]


def test_patience_ends_and_a_turn_that_comes_too_late_is_given_away(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with turn(tmp_path, 60) as first:
        began = time.monotonic()
        with turn(tmp_path, 0.2) as second:
            assert (first, second) == (True, False)
            assert time.monotonic() - began >= 0.2
    late = time.monotonic() + 10
    while not free(tmp_path) and time.monotonic() < late:
        time.sleep(0.01)
    assert free(tmp_path)
    while threading.active_count() > 1 and time.monotonic() < late:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/fd")) == before


def _child_in_its_turn(folder: Path) -> int:
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        with turn(folder, 60):
            os.write(tell, b"!")
            time.sleep(60)
        os._exit(0)
    assert os.read(told, 1) == b"!"
    os.close(told)
    os.close(tell)
    return child


def test_one_that_is_killed_in_its_turn_stops_nobody(tmp_path: Path) -> None:
    child = _child_in_its_turn(tmp_path)
    assert not free(tmp_path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with turn(tmp_path, 10) as mine:
        assert mine


def test_a_child_that_was_forked_in_a_turn_holds_nothing(tmp_path: Path) -> None:
    with turn(tmp_path, 60):
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
    assert free(tmp_path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_store_writes_where_folders_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    assert not free(tmp_path)
    with SQLiteStore(tmp_path / "ledger.db").writing(make=True) as rows:
        assert rows is not None
    assert not free(tmp_path / "nowhere")


def test_a_store_writes_in_its_turn_and_reads_out_of_turn(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "ledger.db")
    with store.writing(make=True):
        assert not free(tmp_path)
        with store.reading() as rows:
            assert rows is not None
    with store.reading():
        assert free(tmp_path)
    with pytest.raises(RuntimeError), store.writing():
        raise RuntimeError
    assert free(tmp_path)
