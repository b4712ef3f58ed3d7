"""The store of a ledger in a PostgreSQL database: for several hosts, any number of processes and threads.

A writer first waits for an advisory lock and only then begins its transaction. The other way round it would read from a
snapshot taken before it waited, and fail on what the one before it had written. Nothing rests on that lock but that
nobody fails in vain: transactions are serializable, and the chain has room for one next entry.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psycopg
from psycopg.pq import TransactionStatus

from dprelease.errors import BrokenPromiseError, Corrupt, LedgerError, Locked
from dprelease.ledger.model.entry import RESTORE
from dprelease.ledger.model.store import Holder
from dprelease.ledger.stores.postgres_connect import CREATE, Address, Session, postgres_error, unusable
from dprelease.ledger.stores.postgres_lock import AdvisoryLock, end, key, session_holders
from dprelease.ledger.stores.postgres_schema import APPLICATION, VERSION, findings, grants, statements

__all__ = ["PostgresStore", "create_postgres_ledger"]

_WRITERS, _MAKERS = key("writers"), key("makers")
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = f"BEGIN; SELECT pg_advisory_lock({_WRITERS}); COMMIT; BEGIN ISOLATION LEVEL SERIALIZABLE"
_WRITTEN = f"COMMIT; SELECT pg_advisory_unlock({_WRITERS})"


def _disconnect(idle: list[Session], process: int) -> None:
    if os.getpid() == process:  # a forked child must not touch its parent's connections
        while idle:
            idle.pop().close()


class PostgresStore:
    """A `Store` in the schema `dprelease` of a database; `create` makes it, with other rights than it is used with.

    A connection serves one thread at a time, and goes back when its transaction ended well, so that none is open across
    a draw. It is dropped when a call failed and in a forked child; after a restart of the server the next transaction
    connects anew.

    Args:
        url: ``postgresql://user@host:port/database``.

    Raises:
        LedgerError: If the URL cannot be read.
    """

    def __init__(self, url: str) -> None:
        self._address = Address(url)
        self._idle: list[Session] = []
        self._inherited: list[list[Session]] = []
        self._process = os.getpid()
        self._known = ""
        self._place = ""
        self._server = ""
        weakref.finalize(self, _disconnect, self._idle, self._process)

    @property
    def place(self) -> str:
        """``postgresql:host:port/database#`` and what the server's data is called; asks the server once."""
        if not self._place:
            with self.reading():
                pass
        return self._place or self._address.place

    @property
    def server(self) -> str:
        """The database, its table of entries and the timeline of its log; empty where the server does not tell them.

        One of them is another after a restore, or a failover to a standby.
        """
        return self._server

    @property
    def folder(self) -> Path | None:
        """None: it is in no folder of this host."""
        return None

    @contextmanager
    def reading(self) -> Iterator[Session | None]:
        """One snapshot; None where there is no ledger yet."""
        with self._transaction(_READ, "COMMIT") as rows:
            yield rows

    @contextmanager
    def writing(self, *, make: bool = False) -> Iterator[Session | None]:
        """One transaction, alone among all writers; durable when the context ends, rolled back by an error.

        Args:
            make: Raise where there is no ledger, for tables are made by their owner; otherwise None is handed out.

        Raises:
            Locked: Others wrote for a minute, or the server is gone. Nothing was written, unless it went away during
                the commit; saying the same again is safe, for the ledger's keys know what was recorded.
        """
        with self._transaction(_WRITE, _WRITTEN) as rows:
            if rows is None and make:
                raise LedgerError(
                    f"there is no ledger yet at {self._address.place}",
                    hint=CREATE,
                    code="DPR-L144",
                )
            yield rows

    def lock(self, release: str, period: str, doing: str, clock: Callable[[], datetime]) -> AdvisoryLock:
        """The lock of a release; not taken yet."""
        return AdvisoryLock(self._address, release, period, doing, clock)

    def holders(self) -> tuple[Holder, ...]:
        """The locks that are held now."""
        with self._session() as session:
            return session_holders(session)

    def break_lock(self, holder: Holder) -> None:
        """End the session that holds a lock; nothing where it is gone already.

        Raises:
            LedgerError: If the server does not let this role do so.
        """
        with self._session() as session:
            end(session, holder, self._address.place)

    def findings(self) -> list[str]:
        """What of tables, rules and rights is not as dprelease makes it."""
        with self.reading() as rows:
            return findings(rows.ask) if rows is not None else []

    def after_close(self) -> None:
        """Nothing: the server folds in its log itself."""

    def disconnect(self) -> None:
        """Close idle connections; the store stays usable."""
        _disconnect(self._idle, self._process)

    @contextmanager
    def _transaction(self, begin: str, commit: str) -> Iterator[Session | None]:
        with self._session(begin) as session:
            if not session.there:
                yield None
                return
            yield session
            self._commit(session, commit)
            session.fresh = False

    @contextmanager
    def _session(self, begin: str = "") -> Iterator[Session]:
        """A connection for one call, in a transaction if there is a ledger and ``begin`` begins one."""
        session = None
        try:
            session = self._take(begin)
            yield session
        except psycopg.Error as error:
            if session is not None:
                session.close()
            raise postgres_error(error, self._address.place) from error
        except BaseException:
            if session is not None:
                session.close()
            raise
        self._idle.append(session)

    def _take(self, begin: str) -> Session:
        if self._process != os.getpid():
            self._inherited.append(self._idle)
            self._idle, self._process = [], os.getpid()
            weakref.finalize(self, _disconnect, self._idle, self._process)
        while True:
            try:
                session, used = self._idle.pop(), True
            except IndexError:
                session, used = self._address.connect(), False
            try:
                if begin and not session.there:
                    session.there = self._look(session)
                if begin and session.there:
                    session.run(begin)
                return session
            except BaseException as error:
                dead = isinstance(error, psycopg.OperationalError) and not session.alive
                session.close()
                # The server was restarted since: nothing has been asked of it yet, so a new connection may be.
                if not (used and dead):
                    raise

    def _look(self, session: Session) -> bool:
        ledger = look(session, self._address.place)
        if ledger is None and self._known:
            raise Corrupt(f"the ledger {self._address.place} has disappeared", hint=RESTORE, code="DPR-L305")
        name = f"{session.cluster}/{ledger}"
        if self._known and name != self._known:
            raise Corrupt(f"another ledger is now at {self._address.place}", hint=RESTORE, code="DPR-L305")
        self._known = name if ledger is not None else ""
        self._server = _incarnation(session) if ledger is not None else ""
        if session.cluster or ledger:
            self._place = f"{self._address.place}#{session.cluster or ledger}"
        return ledger is not None

    def _commit(self, session: Session, commit: str) -> None:
        # A COMMIT after a failed statement rolls back and says so without an error.
        if session.connection.info.transaction_status is not TransactionStatus.INTRANS:
            raise BrokenPromiseError("a ledger transaction ended or failed before its end", code="DPR-L906")
        session.warnings.clear()
        if session.run(commit) != "COMMIT":
            raise BrokenPromiseError("a ledger transaction was not committed", code="DPR-L906")
        if session.warnings:  # a wait for a synchronous standby was cut short
            raise Locked(
                f"the ledger {self._address.place} did not confirm a commit: {session.warnings[0]}",
                hint="run the same again; it is recorded once",
                code="DPR-L202",
            )


_INCARNATION = """
    SELECT (SELECT oid FROM pg_database WHERE datname = current_database()), 'dprelease.entries'::regclass::oid,
        substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"""


def _incarnation(session: Session) -> str:
    """What the server's data are called: a restored dump has other tables, a promoted standby another timeline.

    Numbers of objects and timelines: www.postgresql.org/docs/current/datatype-oid.html and
    continuous-archiving.html#BACKUP-TIMELINES. A disk that is put back under the server has the same ones.
    """
    try:
        return "/".join(map(str, session.ask(_INCARNATION)[0]))
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported):
        return ""


def look(session: Session, place: str) -> str | None:
    """The random name that a ledger was given when it was made; None where there is none.

    Raises:
        Corrupt: What is there is no ledger of dprelease.
        LedgerError: It is from another version, or not for this role.
    """
    sql = "SELECT to_regclass('dprelease.meta') IS NOT NULL, to_regclass('dprelease.entries') IS NOT NULL"
    meta, entries = session.ask(sql)[0]
    if not meta and not entries:
        return None
    sql = "SELECT version, application, ledger FROM meta ORDER BY version DESC LIMIT 1"
    rows = session.ask(sql) if meta else []
    if not rows or rows[0][1] != APPLICATION:
        raise Corrupt(
            f"the schema `dprelease` of {place} is not a ledger of dprelease",
            hint="point `ledger:` in dprelease.yaml at another database",
            code="DPR-L301",
        )
    version, _, name = rows[0]
    if version != VERSION:
        newer = version > VERSION
        raise LedgerError(
            f"the ledger {place} is from {'a newer' if newer else 'an older'} dprelease: schema {version}, "
            f"and this one reads {VERSION}",
            hint="pip install --upgrade dprelease" if newer else CREATE,
            code="DPR-L141",
        )
    return str(name)


def create_postgres_ledger(url: str, role: str | None = None) -> None:
    """Make a ledger in a database, and let a role use it; each is done once, so saying it again is safe.

    Args:
        url: The URL of the role that is to own the tables. It needs CREATE on the database, and runs nothing later.
        role: Who may run releases: it may look and add. Left out, only the owner can use the ledger, and the owner
            could also drop it.

    Raises:
        LedgerError: If this role may not, if the other is not there, or if it could change what is written.
    """
    address = Address(url)
    session = address.connect("dprelease ledger create")
    try:
        session.run("BEGIN ISOLATION LEVEL READ COMMITTED")  # each statement sees what the one before us has made
        session.ask(f"SELECT pg_advisory_xact_lock({_MAKERS})")
        if look(session, address.place) is None:
            for statement in statements():
                session.run(statement)
        if role is not None:
            _let_use(session, role, address.place)
        if session.run("COMMIT") != "COMMIT":
            raise BrokenPromiseError("the ledger was not made", code="DPR-L906")
    except psycopg.errors.InsufficientPrivilege:
        raise unusable(
            address.place,
            "this role may not make or share a ledger there",
            "connect as the database's owner, or let it: GRANT CREATE ON DATABASE ... TO ...",
        ) from None
    except psycopg.Error as error:
        raise postgres_error(error, address.place) from error
    finally:
        session.close()


def _let_use(session: Session, role: str, place: str) -> None:
    rows = session.execute(
        """SELECT quote_ident(r.rolname), r.rolsuper OR pg_has_role(r.oid, n.nspowner, 'MEMBER')
            OR pg_has_role(r.oid, 'pg_write_all_data', 'MEMBER')
        FROM pg_roles AS r, pg_namespace AS n WHERE r.rolname = ? AND n.nspname = 'dprelease'""",
        (role,),
    )
    if not rows:
        raise unusable(place, f"its server knows no role {role}", f"make one: CREATE ROLE {role} LOGIN")
    name, mighty = rows[0]
    if mighty:
        raise unusable(
            place,
            f"role {role} could change what is written",
            "name a role that neither owns the ledger nor is a superuser nor is a member of such a role",
        )
    session.warnings.clear()
    for statement in grants(name):
        session.run(statement)
    if session.warnings:  # a GRANT of what one does not have is no error
        raise psycopg.errors.InsufficientPrivilege
