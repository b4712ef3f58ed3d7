"""A real PostgreSQL server for tests: made by `initdb`, started on first use, gone afterwards; no network.

Name it in a test module, or once in the root conftest: ``pytest_plugins = ("tests.postgres",)``.
Each worker process of pytest has its own server; each test that asks for ``postgres`` has a fresh database.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

__all__ = [
    "OWNER",
    "RUNNER",
    "SUPERUSER",
    "Database",
    "Server",
    "postgres",
    "postgres_server",
    "programs",
    "start_server",
]

SUPERUSER, OWNER, RUNNER = "postgres", "ledger_owner", "ledger_runner"
_UNPRIVILEGED = ("postgres", "nobody")


def programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`: from the PATH, or where `pg_config` says."""
    for name in ("initdb", "pg_ctl"):
        if shutil.which(name) is None:
            break
    else:
        return Path(str(shutil.which("initdb"))).resolve().parent
    config = shutil.which("pg_config")
    if config is None:
        return None
    folder = Path(subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True).stdout.strip())
    return folder if (folder / "initdb").exists() and (folder / "pg_ctl").exists() else None


def _user() -> str | None:
    """Whom the server runs as: PostgreSQL refuses to run as root. None: as this user."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in _UNPRIVILEGED if name in known), None)


@dataclass
class Server:
    """One cluster in a folder of its own, reached by a socket in that folder.

    Attributes:
        folder: Holds the data, the log and the socket.
        programs: Where `initdb` and `pg_ctl` are.
        user: Whom it runs as; None: this user.
    """

    folder: Path
    programs: Path
    user: str | None
    databases: int = field(default=0)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs; what it says goes to a file, so that no daemon holds a pipe of ours."""
        as_user: dict[str, Any] = {}
        if self.user is not None:
            as_user = {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}
        with open(self.folder / "said", "ab") as said:
            done = subprocess.run(
                [str(self.programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self.folder,
                check=False,
                timeout=60,
                **as_user,
            )
        if done.returncode:
            log = self.folder / "log"
            words = [file.read_text(errors="replace") for file in (self.folder / "said", log) if file.exists()]
            raise RuntimeError(f"{program} failed: {''.join(words)[-3000:]}")

    def make(self) -> None:
        """Make the cluster; what `initdb` writes need not survive a crash."""
        self.run(
            *("initdb", "-D", "data", "-U", SUPERUSER, "-A", "trust", "-E", "UTF8"),
            *("--no-locale", "-N", "--no-instructions"),
        )

    @property
    def keeps_statements(self) -> bool:
        """Whether it can keep the text of every statement (``pg_stat_statements``)."""
        said = subprocess.run(
            [str(self.programs / "pg_config"), "--sharedir"], capture_output=True, text=True, check=False
        )
        return (Path(said.stdout.strip() or "/nowhere") / "extension" / "pg_stat_statements.control").exists()

    def start(self, *settings: str) -> None:
        """Start it and wait until it answers; ``settings`` are ``name=value``."""
        wanted = ["listen_addresses=", f"unix_socket_directories={self.folder}", "max_connections=120"]
        if self.keeps_statements:
            wanted.append("shared_preload_libraries=pg_stat_statements")
        options = " ".join(f"-c {each}" for each in (*wanted, *settings))
        self.run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")

    def stop(self, how: str = "immediate") -> None:
        """Stop it; ``immediate`` is a crash: nothing is flushed and the next start recovers from the log."""
        self.run("pg_ctl", "-D", "data", "-w", "-m", how, "stop")

    def restart(self, how: str = "immediate", *settings: str) -> None:
        """Crash or stop it, and start it again."""
        self.stop(how)
        self.start(*settings)

    def url(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        """Where to connect as whom."""
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}"

    def execute(self, sql: str, database: str = "postgres", user: str = SUPERUSER) -> list[tuple[Any, ...]]:
        """Run one statement outside of any transaction."""
        import psycopg

        with psycopg.connect(self.url(database, user), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> Database:
        """An empty database that `OWNER` owns and `RUNNER` may connect to."""
        self.databases += 1
        name = f"test_{self.databases}"
        self.execute(f"CREATE DATABASE {name} OWNER {OWNER}")
        return Database(self, name)

    def remove(self) -> None:
        """Stop it and delete every file of it."""
        if not self.folder.exists():
            return
        try:
            if (self.folder / "data" / "postmaster.pid").exists():
                self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Database:
    """One database of the server.

    Attributes:
        server: Its server.
        name: Its name.
    """

    server: Server
    name: str

    @property
    def owner(self) -> str:
        """URL for the role that owns the tables; neither superuser nor able to make roles."""
        return self.server.url(self.name, OWNER)

    @property
    def runner(self) -> str:
        """URL for the role that runs releases; what it may do is up to `dprelease ledger create --role`."""
        return self.server.url(self.name, RUNNER)

    @property
    def superuser(self) -> str:
        """URL for the superuser."""
        return self.server.url(self.name, SUPERUSER)

    def execute(self, sql: str, user: str = SUPERUSER) -> list[tuple[Any, ...]]:
        """Run one statement outside of any transaction."""
        return self.server.execute(sql, self.name, user)


def start_server() -> Server:
    """Make and start a cluster; the caller removes it.

    Raises:
        RuntimeError: The reason why there can be none.
    """
    found = programs()
    if found is None:
        raise RuntimeError("there is no PostgreSQL server on this machine: no initdb on the PATH or by pg_config")
    user = _user()
    if os.geteuid() == 0 and user is None:
        raise RuntimeError(f"the server must not run as root, and none of {_UNPRIVILEGED} exists")
    # Not below pytest's own folder: the server's user could not enter that, and a socket's path must be short.
    server = Server(Path(tempfile.mkdtemp(prefix="dpr-pg-")), found, user)
    atexit.register(server.remove)
    try:
        if user is not None:
            shutil.chown(server.folder, user)
        server.make()
        server.start()
        for role in (OWNER, RUNNER):
            server.execute(f"CREATE ROLE {role} LOGIN")
    except BaseException:
        server.remove()
        raise
    return server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """The server of this worker process."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: dprelease[postgres]")
    if programs() is None or (os.geteuid() == 0 and _user() is None):
        pytest.skip("no PostgreSQL server programs that an unprivileged user here could run")
    server = start_server()
    try:
        yield server
    finally:
        server.remove()
        atexit.unregister(server.remove)


@pytest.fixture
def postgres(postgres_server: Server) -> Iterator[Database]:
    """A database of its own for one test; nothing is in it yet."""
    database = postgres_server.new_database()
    yield database
    # Not left to the end: after a crash the server syncs every file that it has.
    postgres_server.execute(f"DROP DATABASE IF EXISTS {database.name} WITH (FORCE)")
