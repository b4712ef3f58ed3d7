"""Processes of their own on a PostgreSQL store: ``postgres_worker.py MODE URL ARGUMENT...``.

It imports once and forks as often as it is told. What a process prints, one JSON line at a time, is what it believes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

from dprelease.errors import Locked
from dprelease.ledger.model.process import utc_now
from dprelease.ledger.stores.postgres import PostgresStore
from tests.conformance.postgres_rows import append, keep, reserve


def say(*what: object) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")  # one write, so that lines of several processes never mix


def together(count: int, work: Callable[[int], None]) -> None:
    """Do it in so many forked processes, and wait for them."""
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            failed = True
            try:
                work(number)
                failed = False
            except BaseException as error:
                say("failed", repr(error))
            finally:
                os._exit(int(failed))
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def grant(url: str, processes: str, rounds: str, cap: str) -> None:
    """Reserve up to a cap that only the rows know."""

    def work(number: int) -> None:
        store = PostgresStore(url)
        for turn in range(int(rounds)):
            with store.writing() as rows:
                assert rows is not None
                count = rows.execute("SELECT count(*) FROM reservations")[0][0]
                granted = count < int(cap)
                if granted:
                    reserve(rows, f"r{number}", f"{turn}")
                    keep(rows, f"{number} {turn}".encode())
                else:
                    append(rows, "refuse", release=f"r{number}", period=turn)
            say("granted" if granted else "refused", number, turn)

    together(int(processes), work)


def write(url: str, processes: str) -> None:
    """Add for ever, each entry once, through whatever happens to the server."""

    def work(number: int) -> None:
        store = PostgresStore(url)
        for turn in range(10**6):
            while True:
                try:
                    with store.writing() as rows:
                        assert rows is not None
                        if not rows.execute("SELECT 1 FROM reservations WHERE release = ?", (f"r{number}-{turn}",)):
                            reserve(rows, f"r{number}-{turn}", "2024")
                            keep(rows, f"{number} {turn}".encode())
                    break
                except Locked as error:
                    say("lost", error.code)
                    time.sleep(0.05)
            say("written", number, turn)

    together(int(processes), work)


def stall(url: str) -> None:
    """Write and never commit."""
    with PostgresStore(url).writing() as rows:
        assert rows is not None
        reserve(rows, "never", "2024")
        say("inside")
        sys.stdin.read()


def hold(url: str, release: str, period: str) -> None:
    """Hold the lock of a release; a forked child lives on when this process is killed."""
    lock = PostgresStore(url).lock(release, period, "measuring", utc_now)
    lock.acquire()
    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(0)
    say("held", os.getpid(), child)
    sys.stdin.read()


def fork(url: str) -> None:
    """Use one store before and after a fork, on both sides."""
    store = PostgresStore(url)

    def count() -> None:
        with store.reading() as rows:
            assert rows is not None
            say(os.getpid(), rows.fresh, rows.execute("SELECT pg_backend_pid()")[0][0])

    count()
    together(1, lambda _: count())
    count()
    store.disconnect()


MODES: dict[str, Callable[..., None]] = {"grant": grant, "write": write, "stall": stall, "hold": hold, "fork": fork}

if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    MODES[mode](*rest)
