"""A connection to SQL Server that reads one state: made safely, refused where rows could be missing from it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from dprelease.engines.databases.base import gone
from dprelease.engines.databases.server import WAIT, ServerSession, ServerUrl, failed, loopback, no_driver, unreadable
from dprelease.errors import DpReleaseError, EngineError

try:
    import pytds
except ImportError:
    raise no_driver("python-tds is", "SQL Server need it", "sqlserver", "DPR-X113") from None

__all__ = ["SQLServerSession", "sqlserver_parts", "sqlserver_refused"]

_CONNECTING, _PORT = "connecting to SQL Server", 1433
_OLDEST = 13  # 2016: the first in which a float is written with all its digits
_SETTINGS = (
    "SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_WARNINGS, ANSI_PADDING, CONCAT_NULL_YIELDS_NULL, ARITHABORT ON",
    "SET NUMERIC_ROUNDABORT, IMPLICIT_TRANSACTIONS OFF; SET ROWCOUNT 0; SET TEXTSIZE 2147483647",
    "SET DATEFORMAT ymd; SET LANGUAGE us_english; SET LOCK_TIMEOUT 10000",
)
_GREETED = """
SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(40)), CAST(SERVERPROPERTY('ServerName') AS nvarchar(256)),
    DB_NAME(), d.snapshot_isolation_state, COALESCE(IS_SRVROLEMEMBER('sysadmin'), 0),
    HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'VIEW DEFINITION'), HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'UNMASK')
FROM sys.databases AS d WHERE d.database_id = DB_ID()"""
_BEGIN = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION"

# Numbers of errors: learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors.
_REFUSED = {4060, 4064, 18452, 18456, 18486, 18487, 18488}
_CLOSED = {229, 230, 262, 297, 300, 916}
_GONE = {1204, 1205, 1222, 3960, 3961, 3966, 6005, 10928, 10929, 17142, 40197, 40501, 40613}
_FULL = {701, 802, 823, 824, 1101, 1105, 3958, 9002}


def sqlserver_refused(doing: str, error: Exception) -> DpReleaseError:
    """The error for one of a driver, by its class and its number alone."""
    number = getattr(error, "number", None) or getattr(error, "msg_no", None) or 0
    name = f"{type(error).__name__} {number or ''}".strip()
    if number in _REFUSED or (isinstance(error, pytds.LoginError) and not number):
        return EngineError(
            f"the database refuses the user ({name})",
            detail="a wrong password or none, no such user or database",
            hint="check the variable that the connection is made with; `sqlcmd` with the same says which it is",
            code="DPR-E125",
        )
    if number in _GONE or isinstance(error, OSError | pytds.ClosedConnectionError | pytds.tds_base.TimeoutError):
        return gone(doing, name)
    return failed(doing, name, closed=number in _CLOSED, full=number in _FULL)


def sqlserver_parts(url: str, folder: Path) -> dict[str, Any]:
    """A URL as the driver reads it, with verified TLS where a network is in between.

    Raises:
        EngineError: It is no such URL (DPR-E123), or there is no certificate to verify TLS by (DPR-E124).
    """
    parts = ServerUrl.of(url, _PORT)
    if parts is None or not parts.host or parts.options.keys() - {"ssl_ca"}:
        raise EngineError(
            "`source.database` is no URL of SQL Server",
            hint="write one such as sqlserver://db.example.org/office; behind a ? may stand ssl_ca=PATH",
            code="DPR-E123",
        )
    found: dict[str, Any] = {"dsn": parts.host, "port": parts.port, "database": parts.database, **parts.login}
    given = parts.options.get("ssl_ca")
    certificates = str(folder / given) if given else ssl.get_default_verify_paths().cafile
    if given or not loopback(parts.host):
        if not certificates or not Path(certificates).is_file():
            hint = "name a file of certificates in `ssl_ca` of the URL, which this user may read"
            raise EngineError("no root certificate can be read for the database", hint=hint, code="DPR-E124")
        found |= {"cafile": certificates, "validate_host": True}
    return found


class SQLServerSession(ServerSession):
    """A connection with one state of the database.

    Args:
        url: With a password, perhaps: never shown.
        folder: What the path of certificates is relative to.

    Attributes:
        connection: The driver's connection, in a transaction of its own.
        server: The name of the server.
        database: The name of the database.
        unmasked: Whether the user sees what masked columns hold.
    """

    def __init__(self, url: str, folder: Path) -> None:
        parts = sqlserver_parts(url, folder)
        super().__init__(_CONNECTING, lambda: _connected(parts), sqlserver_refused)

    def _greet(self) -> None:
        for each in _SETTINGS:
            self.ask(each)
        version, self.server, self.database, state, everything, sees, unmasked = self.ask(_GREETED)[0]
        if int(str(version).partition(".")[0]) < _OLDEST:
            raise unreadable("its server is older than SQL Server 2016", "export the rows to a file", "DPR-E339")
        if everything:
            hint = "name a user that may read the tables of the spec and nothing else"
            raise unreadable("the user is a sysadmin, whom no right stops", hint, "DPR-E334")
        if not sees:
            hint = "ask its owner for VIEW DEFINITION on the database, which shows no row"
            raise unreadable("the user cannot see whether a row security policy hides rows from it", hint, "DPR-E335")
        if state != 1:
            hint = "ask its owner for ALTER DATABASE ... SET ALLOW_SNAPSHOT_ISOLATION ON"
            raise unreadable("it keeps no states of its rows (snapshot isolation is off)", hint, "DPR-E130")
        self.unmasked = bool(unmasked)
        self.ask(_BEGIN)

    def ask(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of one statement; with values their places are ``%s``."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(statement, values)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        finally:
            cursor.close()

    def rows(self, statement: str) -> Any:
        """A cursor over the rows of one statement, which come as they are asked for."""
        cursor = self.connection.cursor()
        cursor.execute(statement)
        return cursor

    def close(self) -> None:
        """End the transaction with the connection, whether it is there still or not."""
        try:
            self.connection.close()
        except Exception:
            return


def _connected(parts: dict[str, Any]) -> Any:
    return pytds.connect(
        **parts, autocommit=True, login_timeout=WAIT, timeout=None, appname="dprelease", disable_connect_retry=True
    )
