"""Connections to PostgreSQL that read one state: made safely, refused where rows could be missing from it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dprelease.engines.databases.base import gone, told
from dprelease.engines.databases.server import ServerSession, failed, loopback, no_driver, unreadable
from dprelease.errors import DpReleaseError, EngineError, Unavailable

try:
    import psycopg
    from adbc_driver_postgresql import dbapi
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError:
    raise no_driver("psycopg or adbc-driver-postgresql is", "PostgreSQL need both", "postgres", "DPR-X111") from None

__all__ = ["Leader", "libpq_parts", "postgres_refused", "sql"]

_OLDEST = 140000
_CONNECTING = "connecting to PostgreSQL"
_DEFAULTS = {
    "connect_timeout": "10",
    "tcp_user_timeout": "60000",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "application_name": "dprelease",
}
# Whatever role, database and server are set to: one meaning of every text, and every row or an error.
_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "row_security": "off",
    "TimeZone": "'UTC'",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "'postgres'",
    "extra_float_digits": "1",
    "bytea_output": "'hex'",
    "standard_conforming_strings": "on",
    "client_encoding": "'UTF8'",
    "client_min_messages": "error",
    "statement_timeout": "0",
    "lock_timeout": "'10s'",
    "idle_in_transaction_session_timeout": "0",
    "jit": "off",
}
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SOON = re.compile("starting up|shutting down|not yet accepting|not accepting|recovery|too many|remaining connection")

# SQLSTATEs, www.postgresql.org/docs/current/errcodes-appendix.html, by their beginning.
_GONE = ("08", "25P02", "25P03", "40", "53300", "55P03", "57")
_FULL = ("53", "58")


def postgres_refused(doing: str, error: Exception) -> DpReleaseError:
    """The error for one of a driver, by its class and its SQLSTATE alone."""
    state = getattr(error, "sqlstate", None) or ""
    name = f"{type(error).__name__} {state}".strip()
    # Arrow tells of a stream that broke off as of a file; its words are looked at, and not shown.
    if not state and "PGRES_FATAL_ERROR" in str(error):
        return EngineError(
            f"{doing}: the server broke it off ({name}); which error it was, the driver does not say",
            detail="its disk or a limit of the role may be full, or somebody has stopped it; nothing was drawn",
            hint="the log of the server says which; then run the same command again",
            code="DPR-E129",
        )
    if state.startswith(_GONE) or (not state and ("Operational" in name or isinstance(error, OSError))):
        return gone(doing, name)
    if state == "42501":
        return EngineError(
            f"{doing}: the role of the database has no right to all that is read, or a row security policy is in its "
            f"way ({name})",
            hint="ask the owner of the database for SELECT on the columns that the spec names, of whole tables",
            code="DPR-E335",
        )
    return failed(doing, name, full=state.startswith(_FULL), what="table, query")


def libpq_parts(url: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A URL as libpq reads it, with the strictest TLS where a network is in between.

    Raises:
        EngineError: It is no such URL or names several servers (DPR-E123), or asks for less than verified TLS
            (DPR-E124).
    """
    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(url).items()}
        several = any("," in parts.get(part, "") for part in ("host", "hostaddr", "port"))
    except psycopg.Error:  # its words quote the URL
        parts, several = {}, False
    if not parts or several:
        raise EngineError(
            "`source.database` names several servers" if several else "`source.database` is no URL that libpq reads",
            hint="name one server, such as postgresql://db.example.org/office: one state of the rows is in one place",
            code="DPR-E123",
        )
    if not _is_local(parts, environment):
        wanted = parts.setdefault("sslmode", environment.get("PGSSLMODE") or "verify-full")
        parts["gssencmode"] = "disable"
        if wanted != "verify-full":
            raise EngineError(
                "`source.database` asks for a connection over a network without verified TLS",
                detail=f"sslmode is {wanted}: rows could be read or changed on their way, and so could the password",
                hint="leave `sslmode` out or write verify-full, with the root certificate in `sslrootcert` or "
                "~/.postgresql/root.crt; sockets and loopback need none",
                code="DPR-E124",
            )
    return {**_DEFAULTS, **parts}


def _is_local(parts: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether a connection surely does not leave this machine."""
    host, address = (parts.get(part) or environment.get(f"PG{part.upper()}", "") for part in ("host", "hostaddr"))
    if address:
        return loopback(address)
    if host:
        return host.startswith(("/", "@")) or loopback(host)
    return not (parts.get("service") or environment.get("PGSERVICE"))  # a service file could say any host


class Leader(ServerSession):
    """A connection with one state of the database, which others may read with it.

    Args:
        url: With a password, perhaps: never shown.

    Attributes:
        connection: The driver's connection, in a read-only transaction.
        system: What tells the server's data from those of others; empty where the role may not ask.
        database: The number of the database.
        version: The major version of the server.
    """

    def __init__(self, url: str) -> None:
        self._parts = libpq_parts(url)
        super().__init__(_CONNECTING, self._connected, postgres_refused)

    def _connected(self) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(**self._parts, autocommit=True)  # type: ignore[arg-type]
        except psycopg.Error as error:
            said, name = str(error), type(error).__name__
        raise _unreached(said, name)  # what it said may hold names and addresses

    def _greet(self) -> None:
        for name, value in _SETTINGS.items():
            self.connection.execute(f"SET {name} = {value}")
        version, encoding, superuser, backend, readable = self.ask(
            "SELECT current_setting('server_version_num')::int4, current_setting('server_encoding'), "
            "current_setting('is_superuser'), pg_backend_pid(), "
            "has_function_privilege('pg_control_system()', 'EXECUTE')"
        )[0]
        if backend != self.connection.info.backend_pid:
            raise unreadable(
                "a connection pooler stands before it", "name the server itself and its own port", "DPR-E336"
            )
        if version < _OLDEST:
            why = f"its server is of version {version // 10000}, and 14 is the oldest that will do"
            raise unreadable(why, "export the rows to a file", "DPR-E339")
        if encoding != "UTF8":
            why = f"its encoding is {encoding}, not UTF8: some value of it could not be read"
            raise unreadable(why, "export the rows to a file, with its `encoding` declared", "DPR-E337")
        if superuser == "on":
            hint = "name a role that may read the tables of the spec and nothing else"
            raise unreadable("the role is a superuser, whom no right and no policy stops", hint, "DPR-E334")
        self.version = version // 10000
        self.connection.execute(_BEGIN)
        self._state, self._snapshot, self.database = self.ask(
            "SELECT pg_export_snapshot(), pg_current_snapshot()::text, oid FROM pg_database "
            "WHERE datname = current_database()"
        )[0]
        self.system = str(self.ask("SELECT system_identifier FROM pg_control_system()")[0][0]) if readable else ""

    def ask(self, query: Any, values: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
        """The rows of one statement; of several in one text, a server refuses all."""
        cursor = self.connection.execute(query, values, binary=True)
        return cursor.fetchall() if cursor.description else []

    def reader(self) -> Any:
        """A further connection that hands over Arrow arrays, in the same state."""
        return told(_CONNECTING, self._follower, _unfollowed)

    def refused(self, doing: str, error: Exception) -> DpReleaseError:
        """The error for one of a driver; where a stream broke off, this connection tells whether the server is gone.

        A server that is stopped or that ends its connections may say so in the stream before it closes it, or not.
        """
        instead = postgres_refused(doing, error)
        if instead.code == "DPR-E129":
            with suppress(psycopg.Error):
                self.ask("SELECT 1")
                return instead
            return gone(doing, type(error).__name__)
        return instead

    def _follower(self) -> Any:
        connection = dbapi.connect(make_conninfo(**self._parts), autocommit=True)
        try:
            with connection.cursor() as cursor:
                for name, value in _SETTINGS.items():
                    cursor.execute(f"SET {name} = {value}")
                cursor.execute(_BEGIN)
                cursor.execute(f"SET TRANSACTION SNAPSHOT '{self._state}'")
                cursor.execute("SELECT pg_current_snapshot()::text")
                if cursor.fetchall() != [(self._snapshot,)]:
                    raise unreadable("its connections do not see one state", "name the server itself", "DPR-E336")
        except BaseException:
            connection.close()
            raise
        return connection


def _unfollowed(doing: str, error: Exception) -> DpReleaseError:
    """The error where no further connection sees the state: with the one that has it, it is gone."""
    if getattr(error, "sqlstate", None) in ("22023", "42704"):
        return gone(doing, "the state that is read has ended with its connection")
    return postgres_refused(doing, error)


def _unreached(said: str, name: str) -> DpReleaseError:
    """What to say where no connection came about; the words of libpq are looked at, and never shown."""
    if ("FATAL" in said and not _SOON.search(said)) or "no password supplied" in said:
        return EngineError(
            f"the database refuses the role ({name})",
            detail="a wrong password or none, no such role or database, or no line for it in pg_hba.conf",
            hint="check the variable, the service file or the password file that the connection is made with; `psql` "
            "with the same says which it is",
            code="DPR-E125",
        )
    if "certificate" in said or "SSL" in said:
        return EngineError(
            f"no verified TLS with the database ({name})",
            hint="put its root certificate into ~/.postgresql/root.crt or name it in `sslrootcert`, and name the "
            "server as its certificate does",
            code="DPR-E124",
        )
    found: Unavailable = gone(_CONNECTING, name)
    return found
