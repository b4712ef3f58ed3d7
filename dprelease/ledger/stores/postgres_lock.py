"""One process at a time per release, over all hosts: a lock of the server that ends with its holder's session."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import psycopg

from dprelease.canonical import dumps
from dprelease.errors import LedgerError, Locked
from dprelease.ledger.model.process import utc_now
from dprelease.ledger.model.store import Holder, Lock
from dprelease.ledger.stores.postgres_connect import Address, Session, postgres_error

__all__ = ["AdvisoryLock", "end", "key", "session_holders"]

_TRIES = 3
_END_MILLISECONDS = 5000

# What a holder says stands in its last statement, which the server shows to the same role; its name for the session,
# of 63 bytes, is shown to every role.
_MARK = "dprelease-lock"
_SAID = re.compile(r"/\* dprelease-lock (\{.*\}) \*/")
_HELD = """
    SELECT (l.classid::bigint << 32) | l.objid::bigint, a.pid, a.query, a.application_name
    FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND a.datname = current_database()
    AND l.database = a.datid AND a.application_name LIKE 'dprelease-lock %' ORDER BY a.backend_start, a.pid"""


def key(*names: str) -> int:
    """The number of an advisory lock: 64 bits of a hash, so that two names meet with probability 2^-64."""
    digest = hashlib.sha256(dumps(["dprelease", *names]).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


class AdvisoryLock(Lock):
    """An advisory lock of a session of its own.

    So it ends with that session however its holder dies; where the holder's host vanishes, within a minute.

    Args:
        address: The database's address.
        release: Name of the release.
        period: Its period.
        doing: As of `Lock`.
        clock: As of `Lock`.
    """

    def __init__(
        self, address: Address, release: str, period: str, doing: str, clock: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__(release, period, doing, clock)
        self._address = address
        self._key = key("release", release, period)
        self._session: Session | None = None

    def acquire(self) -> None:
        """Take the lock."""
        words = self._description()
        session = self._address.connect(_short(words))
        try:
            for _ in range(_TRIES):
                if session.ask(_statement(self._key, words))[0][0]:
                    self._session = session
                    return
                who = next((each for number, each in _held(session) if number == self._key), None)
                if who is not None:
                    break
            raise self._locked(who)
        except psycopg.Error as error:
            raise postgres_error(error, self._address.place) from error
        finally:
            if self._session is not session:
                session.close()

    def release(self) -> None:
        """Free it; again does nothing."""
        session, self._session = self._session, None
        if session is not None:
            session.free(self._key)

    def _locked(self, who: Holder | None) -> Locked:
        said = "another session, which has not said what it does"
        if who is not None:
            said = f"process {who.process} on {who.host} since {who.since}, doing: {who.doing}"
        return Locked(
            f"{self._release} {self._period} is held by {said}",
            hint="wait for it or end that process; the lock ends with the process, however it ends",
        )


def _statement(number: int, words: dict[str, Any]) -> str:
    # Six ASCII characters for each other one, and no end of a comment: a name of a release is only ever text here.
    text = json.dumps(words, separators=(",", ":")).replace("/", "\\u002f").replace("$", "\\u0024")
    return f"/* {_MARK} {text} */ SELECT pg_try_advisory_lock({number})"


def _short(words: dict[str, Any]) -> str:
    text = f"{_MARK} {words['since']} {words['process']} {words['doing'].replace(' ', '_')} {words['host']}"
    return text.encode("ascii", "replace").decode()[:63]


def _holder(query: str, application: str) -> Holder | None:
    said = _SAID.match(query or "")
    if said:
        try:
            return Holder(**json.loads(said[1]), alive=True)
        except ValueError:  # cut off, or not ours
            pass
    parts = application.split(" ", 4)
    if len(parts) < 5 or not parts[2].isdigit():
        return None
    _, since, process, doing, host = parts
    return Holder(release="", period="", host=host, process=int(process), since=since, doing=doing, alive=True)


def _held(session: Session) -> Iterator[tuple[int, Holder]]:
    for number, _, query, application in session.ask(_HELD):
        holder = _holder(query, application)
        if holder is not None:
            yield number, holder


def session_holders(session: Session) -> tuple[Holder, ...]:
    """Every release lock that is held in the database; one whose holder runs as another role lacks its release."""
    return tuple(holder for _, holder in _held(session))


def end(session: Session, holder: Holder, place: str) -> None:
    """End the session that holds a lock; does nothing where it is gone.

    Raises:
        LedgerError: If the server does not let this role end it, or it does not end.
    """
    for _, backend, query, application in session.ask(_HELD):
        if _holder(query, application) != holder:
            continue
        try:
            # The session is named by its process number and by when it began: numbers are used again.
            ended = session.ask(
                f"SELECT pg_terminate_backend(a.pid, {_END_MILLISECONDS}) FROM pg_stat_activity AS a "  # noqa: S608 - a number of ours
                f"WHERE a.pid = {int(backend)} AND a.application_name LIKE '{_MARK} %'"
            )
        except psycopg.errors.InsufficientPrivilege:
            ended = [(False,)]
        if ended and not ended[0][0]:
            raise LedgerError(
                f"process {holder.process} on {holder.host} holds the lock and could not be ended from here",
                detail=f"the ledger is {place}",
                hint=f"end that process, or as the role that runs it: SELECT pg_terminate_backend({int(backend)})",
                code="DPR-L203",
            )
