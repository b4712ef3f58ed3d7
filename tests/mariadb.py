"""A real server of MariaDB for tests, made and gone with them; or a site's own of MySQL or MariaDB.

A site that wants to know whether its server is read rightly names one where databases and users may be made:

    DPRELEASE_SITE_MYSQL=mysql://root:...@127.0.0.1/mysql python -m pytest -q tests/conformance/test_database_mysql.py

Otherwise the programs of MariaDB are used where this machine has them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Office", "missing", "mysql_office", "started"]

SITE = "DPRELEASE_SITE_MYSQL"
_DATABASE, _READER, _PASSWORD = "dprelease_tests", "dprelease_reader", "opensesame-5521"
_LOGGED = ("--general-log=1", "--slow-query-log=1", "--long-query-time=0", "--log-output=FILE")


@dataclass
class Office:
    """A database that tests fill, and a user who may read what it is granted.

    Attributes:
        administrator: Parts of a connection that may do everything.
        at: What stands behind the user and before the database in a URL, and the options behind it.
        folder: Where the server of these tests keeps its files; None: a site's own.
        process: The server's process.
    """

    administrator: dict[str, Any]
    at: tuple[str, str]
    folder: Path | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For the user who reads."""
        return self.url_of(_READER, _PASSWORD)

    def url_of(self, user: str, password: str = "", database: str = _DATABASE) -> str:
        """For another one."""
        return f"mysql://{user}:{password}@{self.at[0]}/{database}{self.at[1]}"

    def execute(self, *statements: str, rows: list[tuple[Any, ...]] | None = None) -> list[Any]:
        """Statements of the administrator; the last one with many rows of values, where there are some."""
        import pymysql

        with pymysql.connect(**self.administrator, charset="utf8mb4", autocommit=True) as connection:
            cursor = connection.cursor()
            cursor.execute("SET SESSION sql_mode = '', time_zone = '+00:00'")
            for at, each in enumerate(statements):
                if rows is not None and at == len(statements) - 1:
                    cursor.executemany(each, rows)
                else:
                    cursor.execute(each)
            return list(cursor.fetchall())

    def grant(self, table: str, columns: str = "") -> None:
        """Let the user who reads see a table."""
        self.execute(f"GRANT SELECT {columns} ON {_DATABASE}.`{table}` TO {_READER}")


def _made(folder: Path) -> Office:
    user = next(name for name in ("mysql", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()})
    if os.geteuid() == 0:
        shutil.chown(folder, user)
    as_user = [f"--user={user}"] if os.geteuid() == 0 else []
    made = [
        "mariadb-install-db",
        "--no-defaults",
        f"--datadir={folder / 'data'}",
        "--auth-root-authentication-method=normal",
    ]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    own = os.environ | {"TMPDIR": str(folder)}  # the user who runs the server may not write beside it
    subprocess.run([*made, "--skip-test-db", *as_user], check=True, timeout=120, env=own, **quiet)  # type: ignore[call-overload]
    socket = folder / "s"
    server = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
    words = [server, "--no-defaults", f"--datadir={folder / 'data'}", f"--socket={socket}", "--skip-networking"]
    logs = [*_LOGGED, f"--general-log-file={folder / 'general'}", f"--slow-query-log-file={folder / 'slow'}"]
    small = ["--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0", f"--log-error={folder / 'errors'}"]
    more = [*logs, *small, f"--tmpdir={folder}", "--performance-schema=ON"]
    process = subprocess.Popen([*words, *more, *as_user], **quiet)  # type: ignore[call-overload]
    until = time.monotonic() + 60
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise RuntimeError("the server of MariaDB did not start")
        time.sleep(0.05)
    return Office({"unix_socket": str(socket), "user": "root"}, ("", f"?unix_socket={socket}"), folder, process)


def _of_site(url: str) -> Office:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    place = {"host": parts.hostname, "port": parts.port or 3306, "user": unquote(parts.username or "root")}
    at = f"{parts.hostname}:{parts.port or 3306}"
    return Office(place | {"password": unquote(parts.password or "")}, (at, f"?{parts.query}" if parts.query else ""))


def missing() -> str | None:
    """Why there can be no server; None: there can."""
    if os.environ.get(SITE) is not None:
        return None
    there = shutil.which("mariadb-install-db") and (shutil.which("mariadbd") or Path("/usr/sbin/mariadbd").exists())
    return None if there else f"no server of MariaDB on this machine, and {SITE} names none"


@contextmanager
def started() -> Iterator[Office]:
    """A server with an empty database, which is gone afterwards; of a site's own server that database alone."""
    site = os.environ.get(SITE)
    folder = Path(tempfile.mkdtemp(prefix="dpr-my-"))
    office = _of_site(site) if site is not None else _made(folder)
    try:
        office.execute(
            f"DROP DATABASE IF EXISTS {_DATABASE}",
            f"CREATE DATABASE {_DATABASE} CHARACTER SET utf8mb4",
            f"DROP USER IF EXISTS {_READER}",
            f"CREATE USER {_READER} IDENTIFIED BY '{_PASSWORD}'",
        )
        office.administrator["database"] = _DATABASE
        yield office
        if site is not None:
            office.execute(f"DROP DATABASE {_DATABASE}", f"DROP USER {_READER}")
    finally:
        if office.process is not None:
            office.process.terminate()
            office.process.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mysql_office() -> Iterator[Office]:
    """The server of this worker process."""
    pytest.importorskip("pymysql", reason="pymysql is not installed: dprelease[mysql]")
    if (why := missing()) is not None:
        pytest.skip(why)
    with started() as office:
        yield office
