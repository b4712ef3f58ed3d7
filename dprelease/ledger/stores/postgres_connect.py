"""Connections to one PostgreSQL database: made safely, used by one thread at a time, never held across a draw."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakSet

from dprelease.errors import BrokenPromiseError, Corrupt, DpReleaseError, LedgerError, Locked, MissingExtra
from dprelease.ledger.model.entry import RESTORE
from dprelease.ledger.model.process import forgotten_by_children
from dprelease.ledger.stores import postgres_url

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    raise MissingExtra(
        "psycopg is not installed: a ledger on PostgreSQL needs it",
        hint='pip install "dprelease[postgres]"',
        code="DPR-X102",
    ) from None

__all__ = ["CREATE", "Address", "Session", "postgres_error", "unusable"]

_WAIT, _STOPPED = "60s", "300s"
CREATE = "the owner of the database runs `dprelease ledger create --role NAME`, NAME being the role that runs releases"

# A host that has vanished is noticed within a minute, on either side; a process that stops in the middle, within five.
# Parameters of a URL come before the defaults.
_SIGNS_OF_LIFE = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
_DEFAULTS = {"connect_timeout": "10", "tcp_user_timeout": "60000", **_SIGNS_OF_LIFE}
_SETTINGS = {
    "search_path": "dprelease, pg_temp",
    "client_encoding": "UTF8",
    "synchronous_commit": "on",
    "statement_timeout": _WAIT,
    "lock_timeout": _WAIT,
    "idle_in_transaction_session_timeout": _STOPPED,
    "idle_session_timeout": "0",
    "tcp_user_timeout": _WAIT,
    **{f"tcp_{name}": seconds for name, seconds in _SIGNS_OF_LIFE.items()},
}
_FACTS = """
    SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(), pg_backend_pid(),
        current_setting('fsync'), current_setting('full_page_writes'), current_setting('server_encoding'),
        has_function_privilege('pg_control_system()', 'EXECUTE')"""
_OLDEST = 140000

# SQLSTATEs, www.postgresql.org/docs/current/errcodes-appendix.html, by their beginning.
_BUSY = ("40001", "40P01", "55P03", "57014")
_GONE = ("08", "25P03", "53300", "57P")
_REFUSED = {"42501": "the role has no right to that", "25006": "it is read-only", "28": "it refuses the role"}
_FAILING = ("53", "58")
_DAMAGED = ("XX001", "XX002")
_ALTERED = ("3F000", "42P01", "42703", "42883")
_BROKEN = ("23", "P0001")

# Words of a server that is about to answer, or has too many to answer to.
_SOON = re.compile("starting up|shutting down|not yet accepting|not accepting|recovery|too many|remaining connection")


@lru_cache(256)  # the statements are few, and are said over and over
def _numbered(sql: str) -> str:
    """``?`` outside of quotes as PostgreSQL's ``$1``, ``$2`` and so on."""
    parts = re.split(r"('[^']*'|\?)", sql)
    count = 0
    for place, part in enumerate(parts):
        if part == "?":
            count += 1
            parts[place] = f"${count}"
    return "".join(parts)


def unusable(place: str, why: str, hint: str = "see `ledger:` in dprelease.yaml") -> LedgerError:
    """The error for a database that cannot hold a ledger, or not for this role."""
    return LedgerError(f"the ledger {place} cannot be used: {why}", hint=hint, code="DPR-L140")


def _lost(place: str, why: str) -> Locked:
    return Locked(
        f"the ledger {place} cannot be reached now: {why}",
        detail="what was under way is recorded wholly or not at all, and the ledger knows which",
        hint="run the same again once the server answers",
        code="DPR-L202",
    )


def postgres_error(error: psycopg.Error, place: str) -> DpReleaseError:
    """The error of ours for one of PostgreSQL's; the ledger holds no exact value, so its words may be kept."""
    state = error.sqlstate or ""
    name = f"{type(error).__name__}{state and ' ' + state}"
    if state.startswith(_BUSY):
        return Locked(
            f"the ledger {place} is busy with another process ({name})",
            hint="try again; nothing was written",
            code="DPR-L201",
        )
    if state.startswith(_GONE) or (not state and isinstance(error, psycopg.OperationalError)):
        return _lost(place, f"the connection is gone ({name})")
    if state.startswith(_DAMAGED):
        return Corrupt(f"the ledger {place} is damaged ({name})", hint=RESTORE)
    if state in _ALTERED:
        return Corrupt(
            f"the ledger {place} has disappeared, or its tables were changed ({name})", hint=RESTORE, code="DPR-L305"
        )
    for beginning, why in _REFUSED.items():
        if state.startswith(beginning):
            return unusable(place, f"{why} ({name})", CREATE)
    if state.startswith(_FAILING):
        return unusable(place, f"its disk or memory is full or failing ({name})")
    if state.startswith(_BROKEN):
        return BrokenPromiseError(
            f"the ledger refused a write: {error.diag.message_primary or name}",
            hint="nothing was written; please report this",
            code="DPR-L905",
        )
    return LedgerError(f"the ledger {place} failed: {name}", hint="run `dprelease ledger check`", code="DPR-L142")


class Address:
    """Which database, as whom: a URL that is never shown.

    Args:
        url: ``postgresql://user@host:port/database?sslmode=verify-full``, as libpq reads it; what it leaves out comes
            from libpq's environment variables and password file.

    Raises:
        LedgerError: If it cannot be read, or names several servers.
    """

    def __init__(self, url: str) -> None:
        try:
            parameters = {key: str(value) for key, value in conninfo_to_dict(url).items()}
        except psycopg.Error:  # its words quote the URL
            parameters = {}
        if not parameters or not postgres_url.SCHEME.takes(url):
            raise LedgerError(
                "`ledger:` is no URL of a PostgreSQL database",
                hint="write postgresql://user@host:5432/database, and the password in ~/.pgpass",
                code="DPR-L143",
            )
        if any("," in parameters.get(part, "") for part in ("host", "hostaddr", "port")):
            raise LedgerError(
                "`ledger:` names several servers, and a ledger is in one place",
                hint="name the one server, or one name that always leads to the server that takes writes",
                code="DPR-L143",
            )
        self._parts = {**_DEFAULTS, **parameters}
        self.place = _place(parameters.get("host", ""), parameters.get("port", "5432"), parameters.get("dbname", ""))

    def __repr__(self) -> str:
        return f"Address({self.place})"

    def connect(self, application: str = "dprelease") -> Session:
        """A new connection on which commits are durable, to a server that can be trusted with them.

        Raises:
            Locked: The server cannot be reached now.
            LedgerError: It refuses the role, or is none that a ledger may rest on.
        """
        parts = {**self._parts, "application_name": application}
        try:
            connection = psycopg.connect(**parts, autocommit=True, cursor_factory=psycopg.RawCursor)  # type: ignore[arg-type]
        except psycopg.Error as error:
            raise self._unreached(error) from None
        session = Session(connection)
        try:
            self._greet(session)
        except psycopg.Error as error:
            session.close()
            raise postgres_error(error, self.place) from error
        except BaseException:
            session.close()
            raise
        return session

    def _unreached(self, error: psycopg.Error) -> DpReleaseError:
        lines = str(error).splitlines()  # one for each address that was tried
        said = next((line for line in lines if "FATAL" in line), lines[0] if lines else type(error).__name__).strip()
        for secret in ("password", "sslpassword"):
            if self._parts.get(secret):
                said = said.replace(self._parts[secret], "***")
        if "FATAL" in said and not _SOON.search(said):
            return unusable(self.place, said)
        return _lost(self.place, said)

    def _greet(self, session: Session) -> None:
        session.run("; ".join(f"SET {name} = {_value(value)}" for name, value in _SETTINGS.items()))
        version, standby, backend, fsync, pages, encoding, readable = session.ask(_FACTS)[0]
        info = session.connection.info
        wrong = {
            f"its server is of version {version // 10000}, and 14 is the oldest that will do": version < _OLDEST,
            "it is a standby, which may be behind": standby,
            "a connection pooler stands before it, and its locks are of a session": backend != info.backend_pid,
            "`fsync` is off: what it calls committed may be lost": fsync != "on",
            "`full_page_writes` is off: a crash may damage it": pages != "on",
            f"its encoding is {encoding}, not UTF8": encoding != "UTF8",
        }
        for why, so in wrong.items():
            if so:
                raise unusable(self.place, why)
        self.place = _place(info.host, str(info.port), info.dbname)
        if readable:
            session.cluster = str(session.ask("SELECT system_identifier FROM pg_control_system()")[0][0])


def _place(host: str, port: str, database: str) -> str:
    return f"postgresql:{host if host.startswith('/') else host.lower()}:{port}/{database}"


def _value(text: str) -> str:
    # A list of names is no string.
    return text if "," in text else f"'{text}'"


class Session:
    """One connection; of its transaction it is the `Rows`.

    Attributes:
        connection: The driver's connection.
        fresh: Whether no transaction has ended well on it yet.
        there: Whether a ledger was seen on it.
        cluster: The system identifier of the server's data, where the role may read it.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.fresh = True
        self.there = False
        self.cluster = ""
        self.warnings: list[str] = []
        self._process = os.getpid()
        connection.add_notice_handler(self._notice)
        _OPEN.add(self)

    @property
    def alive(self) -> bool:
        """Whether the server still answered the last time."""
        return not self.connection.closed

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one portable statement, ``?`` for each value; the rows that it returns."""
        cursor = self.connection.execute(_numbered(sql), tuple(values))
        return cursor.fetchall() if cursor.description else []

    def forget_secret(self, reservation: int) -> None:
        """Remove the key of an ended reservation: by a function, for a role that may only add deletes nothing."""
        self.ask(f"SELECT forget({int(reservation)})")

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement in PostgreSQL's own SQL."""
        cursor = self.connection.execute(sql)
        return cursor.fetchall() if cursor.description else []

    def run(self, sql: str) -> str:
        """Run several statements in one message; the tag of the first, such as ``COMMIT`` or ``ROLLBACK``."""
        return self.connection.execute(sql).statusmessage or ""

    def close(self) -> None:
        """Close it, which rolls back and frees its locks; in a forked child it stays the parent's."""
        _OPEN.discard(self)
        if os.getpid() == self._process:
            self.connection.close()

    def free(self, lock: int) -> None:
        """Free an advisory lock and close it: a server frees what a closed connection held only a moment later."""
        if os.getpid() == self._process:
            with contextlib.suppress(psycopg.Error):  # it may have ended, which has freed the lock
                self.ask(f"SELECT pg_advisory_unlock({int(lock)})")
        self.close()

    def forget(self) -> None:
        """In a forked child: let go of the socket without a word, so that the connection ends with the parent."""
        _OPEN.discard(self)
        with contextlib.suppress(OSError, psycopg.Error):
            os.close(self.connection.fileno())

    def _notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            self.warnings.append(str(diagnostic.message_primary))


# A forked child shares the sockets, and would keep sessions and their locks alive after its parent is gone.
_OPEN: WeakSet[Session] = WeakSet()
forgotten_by_children(_OPEN)
