"""A connection to MySQL or MariaDB that reads one state: made safely, refused where rows could be missing from it."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Any

from dprelease.engines.databases.base import gone
from dprelease.engines.databases.server import WAIT, ServerSession, ServerUrl, failed, loopback, no_driver, unreadable
from dprelease.errors import DpReleaseError, EngineError

try:
    import pymysql
    from pymysql.cursors import SSCursor
except ImportError:
    raise no_driver("pymysql is", "MySQL and MariaDB need it", "mysql", "DPR-X112") from None

__all__ = ["MySQLSession", "mysql_parts", "mysql_refused"]

_CONNECTING = "connecting to MySQL"
_PORT = 3306
_OPTIONS = {"unix_socket", "ssl_ca", "option_file"}
_OLDEST = {"MySQL": (8, 0), "MariaDB": (10, 5)}
# Whatever server and user are set to: one meaning of every text, and a state that lasts while it is read slowly.
_SETTINGS = (
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION lock_wait_timeout = 10",
    "SET SESSION net_write_timeout = 3600",
    "SET SESSION wait_timeout = 86400",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"

# Numbers of errors: dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html and client-error-reference.html.
_REFUSED = {1044, 1045, 1049, 1227, 1251, 1396, 1698, 1862, 1873, 3118, 3159, 4151}
_CLOSED = {1142, 1143, 1370}
_GONE = {
    1040,
    1053,
    1129,
    1152,
    1158,
    1159,
    1160,
    1161,
    1203,
    1205,
    1213,
    1226,
    1317,
    1927,
    2006,
    2013,
    2014,
    2055,
    3169,
    4031,
}
_NOBODY = {2002, 2003, 2005}
_FULL = {3, 126, 1021, 1030, 1037, 1038, 1041, 1114, 1135}
_ALTERED = {1412, 1637}


def mysql_refused(doing: str, error: Exception) -> DpReleaseError:
    """The error for one of a driver, by its class and its number alone."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    name = f"{type(error).__name__} {number or ''}".strip()
    if isinstance(error, ssl.SSLError) or isinstance(getattr(error, "original_exception", None), ssl.SSLError):
        number = 2026
    if number in (2026, 3159):
        hint = "name the root certificate of the server in `ssl_ca` of the URL, and the server as its certificate does"
        return EngineError(f"no verified TLS with the database ({name})", hint=hint, code="DPR-E124")
    if number in _ALTERED:
        return gone(doing, "a table was altered after the state that is read had begun")
    if number in _GONE | _NOBODY or (not number and isinstance(error, OSError | pymysql.err.InterfaceError)):
        return gone(doing, name)
    if number in _REFUSED:
        return EngineError(
            f"the database refuses the user ({name})",
            detail="a wrong password or none, no such user or database, or none for this host",
            hint="check the variable or the option file that the connection is made with; `mysql` with the same says "
            "which it is",
            code="DPR-E125",
        )
    return failed(doing, name, closed=number in _CLOSED, full=number in _FULL)


def mysql_parts(url: str) -> dict[str, Any]:
    """A URL as the driver reads it, with verified TLS where a network is in between.

    Raises:
        EngineError: It is no such URL, or names an option that is not known (DPR-E123).
    """
    parts = ServerUrl.of(url, _PORT)
    if parts is None or parts.options.keys() - _OPTIONS:
        raise EngineError(
            "`source.database` is no URL of MySQL",
            hint="write one such as mysql://db.example.org/office; behind a ? may stand "
            f"{', '.join(f'{name}=PATH' for name in sorted(_OPTIONS))}, joined by &",
            code="DPR-E123",
        )
    host, options, place = parts.host, parts.options, parts.options.get("unix_socket", "")
    found: dict[str, Any] = {"database": parts.database, **parts.login}
    if place:
        found["unix_socket"] = place
    elif host or not options.get("option_file"):
        found |= {"host": host or "localhost", "port": parts.port}
    if options.get("option_file"):
        found |= {"read_default_file": options["option_file"], "read_default_group": "client"}
    if not place and not loopback(host):  # an option file could say any host
        found["ssl"] = _verified(options.get("ssl_ca"))
    return found


def _verified(certificates: str | None) -> ssl.SSLContext:
    """TLS by which the server is known: its certificate is checked, and that it is of this host."""
    try:
        return ssl.create_default_context(cafile=certificates)
    except OSError as error:
        name = type(error).__name__
    hint = "name a file of certificates in `ssl_ca` of the URL, which this user may read"
    raise EngineError(f"no root certificate can be read for the database ({name})", hint=hint, code="DPR-E124")


class MySQLSession(ServerSession):
    """A connection with one state of the database.

    Args:
        url: With a password, perhaps: never shown.
        folder: What the paths in it are relative to.

    Attributes:
        connection: The driver's connection, in a read-only transaction.
        database: The name of the database.
        server: What tells the server from others.
    """

    def __init__(self, url: str, folder: Path) -> None:
        parts = mysql_parts(url)
        for name in ("unix_socket", "read_default_file"):
            if name in parts:
                parts[name] = str(folder / parts[name])
        self.database = str(parts["database"])
        self._reading: Any = None
        super().__init__(_CONNECTING, lambda: _connected(parts), mysql_refused)

    def _greet(self) -> None:
        for each in _SETTINGS:
            self.ask(each)
        ((said, number, server),) = self.ask("SELECT VERSION(), CONNECTION_ID(), CONCAT(@@hostname, ':', @@port)")
        if int(number) != self.connection.thread_id():
            raise unreadable(
                "a proxy or pooler stands before it", "name the server itself and its own port", "DPR-E336"
            )
        kind = "MariaDB" if "MariaDB" in said else "MySQL"
        version = tuple(int(each) for each in re.findall(r"\d+", said)[:2])
        if version < _OLDEST[kind]:
            oldest = ".".join(map(str, _OLDEST[kind]))
            why = f"its server is {kind} {'.'.join(map(str, version))}, and {oldest} is the oldest that will do"
            raise unreadable(why, "export the rows to a file", "DPR-E339")
        if any(_stops_nothing(grant) for (grant,) in self.ask("SHOW GRANTS")):
            hint = "name a user that may read the tables of the spec and nothing else"
            raise unreadable("the user may do everything, and nothing that is closed to it is closed", hint, "DPR-E334")
        known = self.ask("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'server_uid')")
        self.server = known[0][1] if known else server
        self.ask(_BEGIN)

    def ask(self, statement: str, values: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """All rows of one statement about names, as texts."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return [tuple("" if each is None else each.decode() for each in row) for row in cursor.fetchall()]

    def rows(self, statement: str, values: tuple[str, ...]) -> Any:
        """A cursor over the rows of one statement, which comes as they are asked for; every value as bytes."""
        cursor = self._reading = self.connection.cursor(SSCursor)
        cursor.execute(statement, values)
        return cursor

    def let_go(self, cursor: Any) -> None:
        """As of any session; the driver is kept from asking a lost connection again for the rest of the rows."""
        super().let_go(cursor)
        _forget(cursor)

    def close(self) -> None:
        """End the transaction with the connection, whether it is there still or not."""
        if self._reading is not None:
            _forget(self._reading)
        self.connection._force_close()


def _forget(cursor: Any) -> None:
    """Leave nothing that would be read when the cursor is collected, of which the driver prints what goes wrong."""
    cursor.connection = None
    if cursor._result is not None:
        cursor._result.unbuffered_active = False


def _stops_nothing(grant: str) -> bool:
    rights, _, rest = grant.upper().partition(" ON ")
    return rest.startswith("*.*") and ("ALL PRIVILEGES" in rights or "SUPER" in re.split(r",? ", rights))


def _connected(parts: dict[str, Any]) -> Any:
    return pymysql.connect(
        **parts,
        charset="utf8mb4",
        use_unicode=False,  # bytes, of which our own code makes texts
        conv={},
        autocommit=True,
        local_infile=False,
        connect_timeout=WAIT,
        read_timeout=None,
        program_name="dprelease",
    )
