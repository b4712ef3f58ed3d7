"""One release, one state of its data: sources are fingerprinted before the first read, and compared at every one.

The ledger keeps the fingerprints, a file elsewhere the key: who has one without the other can neither test a guess of
the data nor recognise a file. They are never published.

What this guards is the meaning of a release and the proof of its loss. Every draw is calibrated for one unit's rows in
one state of the files. A pass over files that are written to meanwhile may see a mixture that is no state of them: a
longer row moves the place where old bytes end and new ones begin, and with it the rows of other units. So a task
compares before it reads, and again after it has read and **before any noise is drawn**; a pass that fails gives no
answer. After the draw nothing is compared. Whether files were written to is an act of administration, not a value, and
is the only thing that such a refusal can tell.

Answers from two states, each whole, are covered by the charge: composition holds step by step when two histories of
the data that differ by one unit are compared. They need not fit together, so it takes a reason that the report shows.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from dprelease.catalog.table import Catalog, Table
from dprelease.engines import Engine
from dprelease.engines.files.fingerprint import EARLIER_KEY_BYTES, KEY_BYTES, is_key
from dprelease.errors import BrokenPromiseError, LedgerError
from dprelease.failpoints import hit
from dprelease.ledger import Ledger
from dprelease.ledger.model.reservation import SourcesRead
from dprelease.plan.document import ReleasePlan
from dprelease.regular import sync_folder

__all__ = ["Pinned", "RunSources", "SourceKey", "confidential_tables", "fingerprints", "source_key", "tables_read"]

Identity = tuple[str, str, str]

_ID = b"dprelease source key\0"
_WAYS_OUT = (
    "`--accept-changed-data REASON`, which the report will show, or `--give-up`, which ends it with what it cost"
)


@dataclass(frozen=True)
class SourceKey:
    """What fingerprints are made with. Where it comes from is no part of a plan, an entry, a log or a bundle.

    Attributes:
        secret: 64 bytes; 32 where an earlier version made it.
        id: 16 hexadecimal digits that name the key and tell nothing about it.
        place: Its file, as the user is told; empty where it has none.
    """

    secret: bytes = field(repr=False)
    place: str = ""

    @property
    def id(self) -> str:
        """A name of the key: 64 bits of a one-way function of 256 random ones."""
        return hashlib.sha256(_ID + self.secret).hexdigest()[:16]

    @classmethod
    def thrown_away(cls) -> Self:
        """A key for one process, kept nowhere: a rehearsal's."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def of(cls, path: Path, apart: Iterable[Path] = ()) -> Self:
        """The key in a file, which is made on first use: whole or not at all, durable before it is used.

        Args:
            path: The file.
            apart: Folders that it must not be in, nor below: the ledger's, the releases'.

        Raises:
            LedgerError: If it lies in one of those, others can read or replace it, it is no key, or it cannot be made.
        """
        for folder in apart:
            if path.resolve().is_relative_to(folder.resolve()):
                raise LedgerError(
                    f"the key of source fingerprints {path} lies in {folder}",
                    detail="a copy of that folder would hold both, and guesses of the data could be tested with it",
                    hint="move it to a folder of its own and name that: `source_key:` in dprelease.yaml",
                    code="DPR-L154",
                )
        try:
            secret = _read(path)
            if secret is None:
                _make(path)
                secret = _read(path)
        except OSError as error:
            raise _unusable(path, error.strerror or type(error).__name__) from error
        if secret is None:
            raise _unusable(path, "it vanished as soon as it was made")
        return cls(secret, str(path))


def _unusable(path: Path, why: str, hint: str = "") -> LedgerError:
    return LedgerError(
        f"the key of source fingerprints {path} cannot be used: {why}",
        hint=hint or "it must be a file of yours that nobody else can read; see `source_key:` in dprelease.yaml",
        code="DPR-L152",
    )


def _read(path: Path) -> bytes | None:
    """The key in a file; None where there is no file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would wait for its writer
    except FileNotFoundError:
        return None
    try:
        _check(path, os.fstat(file), path.parent.stat())
        secret = os.read(file, KEY_BYTES + 1)
    finally:
        os.close(file)
    if not is_key(secret):
        why = f"a key has {KEY_BYTES} bytes, or {EARLIER_KEY_BYTES} if an earlier version made it"
        raise _unusable(path, why, "put back the file that was there; never write one")
    return secret


def _check(path: Path, facts: os.stat_result, folder: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise _unusable(path, "it is no file")
    if facts.st_uid != os.geteuid():
        raise _unusable(path, f"it belongs to user {facts.st_uid}, and this process is user {os.geteuid()}")
    if facts.st_mode & 0o077:
        raise _unusable(path, f"others can reach it (mode {stat.S_IMODE(facts.st_mode):04o})", f"chmod 600 {path}")
    if folder.st_mode & 0o022:
        why = f"others can replace it (mode {stat.S_IMODE(folder.st_mode):04o} of its folder)"
        raise _unusable(path, why, f"chmod 700 {path.parent}")


def _make(path: Path) -> None:
    """Write a new key; a file that is there by now is left as it is."""
    folder = path.parent
    for each in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)
    file, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=folder)  # 0600
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(os.urandom(KEY_BYTES))
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileExistsError):  # another process was faster: its key is the key
            os.link(name, path)
    finally:
        os.unlink(name)
    sync_folder(folder)


def tables_read(catalog: Catalog, table: str) -> tuple[str, ...]:
    """The confidential tables that a pass over ``table`` reads: itself and those that it joins."""
    return (table, *dict.fromkeys(join.table for join in catalog.tables[table].private_joins if join.table != table))


def confidential_tables(plan: ReleasePlan) -> dict[str, Table]:
    """The tables that the passes of a plan read, by name, in the order of the catalog."""
    used = {name for each in plan.measured for name in tables_read(plan.catalog, each.aggregate.table)}
    return {name: table for name, table in plan.catalog.tables.items() if name in used}


def fingerprints(engine: Engine, tables: Mapping[str, Table], key: SourceKey) -> dict[str, tuple[str, ...]]:
    """The keyed hashes of the files of each table as they are now; raises as ``Engine.fingerprint``."""
    return {name: engine.fingerprint(table, key.secret) for name, table in tables.items()}


def source_key(path: Path, releases: Path, ledger: Ledger) -> SourceKey:
    """The key in a file, which lies neither among releases nor beside their ledger; see :meth:`SourceKey.of`."""
    apart = [releases, *([ledger.folder] if ledger.folder else [])]
    return SourceKey.of(path, apart)


@dataclass(frozen=True)
class Pinned:
    """The state of the data that a run answers from; shared by the threads that measure."""

    engine: Engine = field(repr=False)
    tables: Mapping[str, Table] = field(repr=False)
    key: SourceKey = field(repr=False)
    files: Mapping[str, tuple[str, ...]] = field(repr=False)
    release: str = ""

    def check(self, names: Iterable[str]) -> None:
        """Compare the sources of these tables with what was recorded; hashes only where something was written.

        Raises:
            LedgerError: If one has changed; names the table.
            Unavailable: If one cannot be read now.
            EngineError: If one was written to after its rows were read.
        """
        now = fingerprints(self.engine, {name: self.tables[name] for name in names}, self.key)
        changed = [name for name, files in now.items() if files != self.files[name]]
        if changed:
            raise _changed(self.release, changed)

    @contextmanager
    def reading(self, names: Iterable[str]) -> Iterator[None]:
        """Around a read: compare before it, and after it, before anything is drawn from what was read.

        Raises:
            LedgerError: As in :meth:`check`, and so are ``Unavailable`` and ``EngineError``.
        """
        listed = tuple(names)
        self.check(listed)
        yield
        self.check(listed)


class RunSources:
    """The sources of one run, from its reservation to its first read.

    Attributes:
        begun: Whether a byte of the data may have been read. As long as it is False, and the ledger has no record of
            the release's sources, nothing can have been drawn, and whatever stops the run has not depended on the data.
    """

    def __init__(self) -> None:
        self.begun = False

    def look(
        self, ledger: Ledger, tables: Mapping[str, Table], engine: Engine, key: SourceKey, accept: str = ""
    ) -> None:
        """Before a release is charged: the key is the ledger's, and no other account has paid for a file.

        The files are hashed under the key, and the hashes compared with the ledger's: that reads them, and nothing
        comes of it but a refusal that whoever runs the command sees. Nothing is aggregated, drawn or kept, and what
        the plan costs is charged before any answer depends on a row. A refusal tells that two files have the same
        bytes: an act of administration, which is told today as it was when it came after the charge. ``begun`` stays
        False: a failure between the charge and :meth:`pin` depends on nothing that was hashed here.

        Args:
            ledger: What remembers.
            tables: The confidential tables that the plan reads.
            engine: What will read them; it hashes no file twice that was not written to.
            key: For the hashes.
            accept: Why another key is accepted; empty: it is not.

        Raises:
            LedgerError: The key is another (``DPR-L151``), or another account has paid for a file (``DPR-L153``).
            Unavailable: If a file is missing, cannot be read, or is written to.
        """
        for table in tables.values():
            engine.present(table)
        accounts = {name: table.account for name, table in tables.items()}
        ledger.require_readable(None, accounts, key.id, accepted=bool(accept))  # before an hour of hashing
        hashes = fingerprints(engine, tables, key)
        ledger.require_readable(hashes, accounts, key.id, accepted=bool(accept))

    def pin(
        self,
        ledger: Ledger,
        identity: Identity,
        tables: Mapping[str, Table],
        engine: Engine,
        key: SourceKey,
        accept: str = "",
        rows: Callable[[], Mapping[str, str]] = dict,
    ) -> Pinned:
        """Fingerprint every table before it is read, and record it, or hold it against the record.

        Args:
            ledger: What remembers; the reservation must be open.
            identity: (release, period, plan fingerprint).
            tables: The confidential tables that the plan reads, with their sources as the engine shall read them.
            engine: What will read them.
            key: For the hashes.
            accept: Why changed data are accepted; empty: they are not. Recorded only if they have changed.
            rows: Makes a keyed hash of the rows of the release's own period for each table of a series; asked once.

        Raises:
            Unavailable: If a file is missing; ``begun`` is then False, unless it vanished meanwhile.
            LedgerError: If the data are not those that the release was first read from (``DPR-L150``), the key is
                another (``DPR-L151``), or the ledger refuses a source that belongs to another account.
        """
        for table in tables.values():
            engine.present(table)
        recorded = ledger.sourced(*identity)
        release = f"{identity[0]}/{identity[1]}"
        if recorded is not None and recorded.key != key.id and not accept:
            raise _another_key(release, recorded.key, key)  # before an hour of hashing
        self.begun = True
        hashes = fingerprints(engine, tables, key)
        hit("source.read")
        if recorded is None:
            self._first(ledger, identity, hashes, key, accept, rows())
        elif differing := _differing(recorded, hashes):  # with another key, all of them
            if not accept:
                raise _changed(release, differing)
            ledger.source(*identity, hashes, key.id, accepted=accept)
        # Another process may have recorded its own at the same moment: what stands in the ledger counts.
        recorded = ledger.sourced(*identity)
        if recorded is None:
            raise BrokenPromiseError(f"the sources of {release} were recorded and are not in the ledger")
        if recorded.key != key.id:
            raise _another_key(release, recorded.key, key)
        if differing := _differing(recorded, hashes):
            raise _changed(release, differing)
        return Pinned(engine, dict(tables), key, hashes, release)

    def _first(
        self,
        ledger: Ledger,
        identity: Identity,
        hashes: Mapping[str, tuple[str, ...]],
        key: SourceKey,
        accept: str,
        rows: Mapping[str, str],
    ) -> None:
        """Record what is read for the first time; with a reason where the ledger knows another key."""
        try:
            ledger.source(*identity, hashes, key.id, rows=rows)
        except LedgerError as error:
            if not accept or error.code != "DPR-L151":
                raise
            ledger.source(*identity, hashes, key.id, accepted=accept, rows=rows)


def _differing(recorded: SourcesRead, hashes: Mapping[str, tuple[str, ...]]) -> list[str]:
    names = sorted({*recorded.tables, *hashes})
    return [name for name in names if tuple(recorded.tables.get(name, ("none",))) != hashes.get(name)]


def _changed(release: str, tables: Iterable[str]) -> LedgerError:
    names = [repr(name) for name in tables]
    return LedgerError(
        f"table{'s' * (len(names) > 1)} {', '.join(names)}: files or rows are not those that {release} was first read "
        "from",
        detail="the answers of a release come from one state of its data; what is measured stays as it is",
        hint=f"put them back as they were; or {_WAYS_OUT}",
        code="DPR-L150",
    )


def _another_key(release: str, recorded: str, key: SourceKey) -> LedgerError:
    return LedgerError(
        f"the key of source fingerprints is not the one that {release} was first read with",
        detail=f"recorded: key {recorded}; found: key {key.id} {key.place}".rstrip()
        + "; without the first nobody can tell whether the data are the same",
        hint=f"put the key's file back from a backup; or {_WAYS_OUT}",
        code="DPR-L151",
    )
