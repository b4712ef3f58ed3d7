"""Which files are these? A keyed hash of each, and a cheap second look that tells whether one was written to.

A fingerprint is keyed BLAKE3 (O'Connor, Aumasson, Neves and Wilcox-O'Hearn, *BLAKE3: one function, fast everywhere*,
2020, sections 2.3 and 2.4: a pseudo-random function of the bytes, several times as fast as BLAKE2b), file by file;
under a key of ``EARLIER_KEY_BYTES`` it is BLAKE2b (RFC 7693). Without the key nobody can try guesses of the content
against it, or recognise a file in it. Names and order of the files do not count. Two equal files of one table are
refused, unless they have no row: a copy that was left in a folder counts each row twice. Where the paths say what the
rows are (partitions), equal files under two values are two; and one more hash is that of all values with the files
below them, so that a file that moves to another value is found, and none is recognised less.

What is promised: a file that looks as before (same inode, size and times) is taken to have the same bytes. Every write
through the file system moves the time of change (``ctime``), which no program can set, and a time of change that is
younger than ``TICK`` is not trusted yet: another write could fall into the same tick of its clock, so such a file is
hashed again. What is not promised: writes past the file system (to the raw disk, or on a file server that hands out
stale attributes) and writes through shared memory before the system puts them on record. Those are found only when the
file is hashed again, in the next process.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from blake3 import blake3

from dprelease.canonical import dumps
from dprelease.catalog.source import Source
from dprelease.catalog.table import Table
from dprelease.engines.base import scrubbed
from dprelease.engines.files.formats import FILE_FORMATS
from dprelease.engines.files.in_turn import in_turn
from dprelease.engines.files.places.found import DataFile
from dprelease.engines.files.places.objects import ObjectLook, StoredObject, threads_for
from dprelease.engines.files.places.partitions import partition_columns
from dprelease.errors import BrokenPromiseError, EngineError, TableMismatch, Unavailable

__all__ = [
    "EARLIER_KEY_BYTES",
    "KEY_BYTES",
    "TICK",
    "FindFiles",
    "Hashed",
    "Look",
    "Watch",
    "fingerprint_of",
    "hashed",
    "is_key",
    "no_rows",
    "present",
]

# The length of a key tells how a file is hashed under it, so that what a ledger remembers under one stays comparable.
KEY_BYTES, EARLIER_KEY_BYTES = 64, 32
TICK = 2 * 10**9  # nanoseconds; the coarsest clock of a file system in use (FAT)

FindFiles = Callable[[Table], Sequence[DataFile]]
"""Finds the files of a table; raises as ``files.places.found.data_files``."""
_BLOCK = 2 << 20  # bytes that are read at a time
_SMALL = 1 << 20  # bytes; a longer file has a row, or a header that no engine takes
_CONTEXT = "dprelease 2026-11-29 fingerprint of a file"  # says what the key is derived for, as BLAKE3 asks for it
# 16 bytes: personalisation strings of BLAKE2b.
_FILE, _EMPTY, _PATHS = b"dprelease-file-1", b"dprelease-none-1", b"dprelease-path-1"


@dataclass(frozen=True)
class Look:
    """What the file system says of a file; any write moves ``changed``, a replacement has another ``inode``."""

    device: int
    inode: int
    size: int
    written: int
    changed: int


@dataclass(frozen=True)
class Hashed:
    """A file as it was when it was hashed.

    Attributes:
        look: Before its first byte was read, and after its last one.
        settled: Whether a later write must show in the look.
        digest: 64 hexadecimal digits.
    """

    look: Look | ObjectLook
    settled: bool
    digest: str


def present(table: Table, find: FindFiles) -> None:
    """Check that every file of a table is there and may be read; reads no byte of any.

    Args:
        table: The declaration.
        find: Finds its files.

    Raises:
        Unavailable: If a variable is not set, no file matches, or one may not be read.
    """
    found = scrubbed(f"table {table.name!r}, looking for its files", lambda: find(table))
    for each in found:
        if isinstance(each.path, Path) and not os.access(each.path, os.R_OK):
            raise Unavailable(
                f"table {table.name!r}: a file of {table.files.file!r} may not be read by this user",
                hint="let this user read it, then run the same command again",
                code="DPR-E103",
            )


def is_key(secret: bytes) -> bool:
    """Whether some bytes have a length that keys have."""
    return len(secret) in (KEY_BYTES, EARLIER_KEY_BYTES)


def hashed(path: Path | StoredObject, source: Source, key: bytes, account: str, known: Hashed | None) -> Hashed:
    """A file with its fingerprint; ``known`` itself where the file still looks as it did then, and did not then move.

    Args:
        path: The file.
        source: How it is declared.
        key: Secret bytes, as many as :func:`is_key` takes.
        account: Of the table; it counts where the file has no row.
        known: The file as it was hashed before, if it was.

    Raises:
        OSError: If it cannot be read.
        Unavailable: If it was written to while it was read: the fingerprint would be that of no state of it.
        BrokenPromiseError: If the key has another length.
    """
    if not is_key(key):
        raise BrokenPromiseError(f"a key of sources has {KEY_BYTES} bytes, or {EARLIER_KEY_BYTES}")
    if isinstance(path, StoredObject):
        return _hashed_object(path, source, key, account, known)
    with path.open("rb", buffering=0) as file:  # opened, not only looked up: a file server then looks again itself
        now = time.time_ns()
        before = _look(file.fileno())
        if known is not None and known.settled and known.look == before:
            return known
        digest = _digest(file, source, key, account)
        if _look(file.fileno()) != before:
            raise _written_meanwhile(source)
    # Every write from `now` on gets a time of change of at least now, give or take the clock's tick.
    return Hashed(before, now - before.changed > TICK, digest)


def _hashed_object(path: StoredObject, source: Source, key: bytes, account: str, known: Hashed | None) -> Hashed:
    """The same of an object of a store: another content has another ETag, however young it is."""
    before = path.look()
    if known is not None and known.look == before:
        return known
    with path.open() as file:
        digest = _digest(file, source, key, account)
    if path.look() != before:
        raise _written_meanwhile(source)
    return Hashed(before, True, digest)


def _written_meanwhile(source: Source) -> Unavailable:
    return Unavailable(
        f"a file of {source.file!r} was written to while it was read",
        hint="wait until whatever writes it has ended, then run the same command again",
        code="DPR-E104",
    )


def _look_at(path: Path | StoredObject) -> Look | ObjectLook:
    if isinstance(path, StoredObject):
        return path.look()
    with path.open("rb", buffering=0) as file:
        return _look(file.fileno())


def _look(file: int) -> Look:
    facts = os.fstat(file)
    return Look(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def fingerprint_of(data: BinaryIO, key: bytes) -> str:
    """What the fingerprint of a file with these bytes is, under any account, where it has a row.

    A file without one has another fingerprint for each account, and this one for none.
    """
    return _digest(data, Source(file="any.csv", format="csv"), key, "")


def _digest(file: BinaryIO, source: Source, key: bytes, account: str) -> str:
    rest = _blocks(file)
    first = next(rest, b"")
    if len(first) <= _SMALL and no_rows(source, first):
        # Length first, so that no account and content read like another account and content.
        name = account.encode()
        empty = len(name).to_bytes(8, "big") + name + first
        return hashlib.blake2b(empty, key=key, digest_size=32, person=_EMPTY).hexdigest()
    if len(key) == EARLIER_KEY_BYTES:
        sum_: Any = hashlib.blake2b(key=key, digest_size=32, person=_FILE)
    else:
        sum_ = blake3(key=blake3(key, derive_key_context=_CONTEXT).digest())
    for block in chain([first], rest):
        sum_.update(block)  # lets other threads run meanwhile
    return str(sum_.hexdigest())


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """A file in blocks, the last of which may be shorter; a read that gives less than was asked for is gone on with."""
    while block := file.read(_BLOCK):
        while len(block) < _BLOCK and (more := file.read(_BLOCK - len(block))):
            block += more
        yield block


def no_rows(source: Source, data: bytes) -> bool:
    r"""Whether a whole file surely has no row, as the reader of its format sees it; when in doubt, it has one.

    >>> csv = Source(file="t.csv", format="csv")
    >>> no_rows(csv, b"a,b\n\r\n"), no_rows(csv, b"a,b\n,\n")
    (True, False)
    """
    return FILE_FORMATS[source.file_format].no_rows(source, data)


class Watch:
    """What one engine has hashed, and whether what it loaded since is still what was hashed.

    An engine reads a table once and answers from memory, so that the files alone do not say what it answers from:
    they may have been written to, loaded, and put back. Let R be what they looked like when they were last compared.
    While the table is not loaded, R follows the files; once it is loaded, R stands, and a table whose files then look
    different is refused for as long as the engine lives, whatever they hold by now.

    So a fingerprint that is given out is that of the rows in memory, wherever they were loaded: R was taken before
    the loading began, and the files look like R now. Nothing was written to them in between.

    Not safe for threads, but for :meth:`known`: the engine holds its own lock, so that no table is half loaded.

    Args:
        find: Finds the files of a table, as they are now.
    """

    def __init__(self, find: FindFiles) -> None:
        self._find = find
        self._seen: dict[tuple[str, bytes], dict[DataFile, Hashed]] = {}
        self._moved: set[str] = set()

    def __repr__(self) -> str:
        return "<Watch>"  # the key is inside

    def known(self, table: Table, key: bytes) -> tuple[str, ...] | None:
        """The fingerprint, if every file looks as it did; None where something must be hashed or refused.

        Raises:
            Unavailable: As in :meth:`fingerprint`.
        """
        identity = table.fingerprint()
        seen = self._seen.get((identity, key))
        if seen is None or identity in self._moved or not all(each.settled for each in seen.values()):
            return None
        looks = {file: each.look for file, each in seen.items()}
        return _sorted(table, key, seen) if self._looks(table) == looks else None

    def fingerprint(self, table: Table, key: bytes, *, loaded: bool) -> tuple[str, ...]:
        """The fingerprint of every file of a table, sorted; a file that looks as it did is not hashed again.

        Args:
            table: The table.
            key: Secret bytes, as many as :func:`is_key` takes.
            loaded: Whether the engine answers from rows of it that it has in memory.

        Raises:
            Unavailable: If a file is gone, cannot be read, or is written to meanwhile.
            TableMismatch: If two of the files have the same rows, byte for byte.
            EngineError: If the files were written to after they were loaded, or perhaps before.
        """
        identity = table.fingerprint()
        old = self._seen.get((identity, key), {})
        new = scrubbed(f"table {table.name!r}, fingerprinting its files", lambda: self._hashed(table, key, old))
        if loaded and _facts(new) != _facts(old):
            self._moved.add(identity)
        if identity in self._moved:
            raise EngineError(
                f"table {table.name!r}: its files were written to after they were read",
                detail="what was read last gets no answer, for it may belong to no state of the files",
                hint="run the same command again: it compares the files with what was read first, and resumes",
                code="DPR-E105",
            )
        self._seen[identity, key] = new
        return _sorted(table, key, new)

    def _hashed(self, table: Table, key: bytes, old: Mapping[DataFile, Hashed]) -> dict[DataFile, Hashed]:
        found = self._find(table)

        def one(file: DataFile) -> Hashed:
            return hashed(file.path, table.files, key, table.account, old.get(file))

        new = dict(zip(found, in_turn(one, found, threads_for([each.path for each in found])), strict=True))
        _require_different(table, new)
        return new

    def _looks(self, table: Table) -> dict[DataFile, Look | ObjectLook]:
        def looks() -> dict[DataFile, Look | ObjectLook]:
            found = self._find(table)
            at_once = in_turn(lambda each: _look_at(each.path), found, threads_for([each.path for each in found]))
            return dict(zip(found, at_once, strict=True))

        return scrubbed(f"table {table.name!r}, looking at its files", looks)


def _require_different(table: Table, hashes: Mapping[DataFile, Hashed]) -> None:
    if table.files.has_log:  # it names each of its files on purpose
        return
    first: dict[tuple[str, Any], int] = {}
    for at, (file, each) in enumerate(hashes.items(), start=1):
        before = first.setdefault((each.digest, file.values), at)
        if before != at and not (each.look.size <= _SMALL and no_rows(table.files, file.path.read_bytes())):
            raise TableMismatch(
                f"table {table.name!r}: files {before} and {at} of {len(hashes)} of {table.files.file!r}, sorted by "
                "name, are equal, byte for byte",
                detail="where one is a copy of the other, every row of it would count twice; a charge that was made "
                "for it stays",
                hint="take the copy away and run the same command again: it goes on with what was begun; if the rows "
                "of both are meant, put them into one file",
                code="DPR-E311",
            )


def _sorted(table: Table, key: bytes, seen: Mapping[DataFile, Hashed]) -> tuple[str, ...]:
    digests = sorted(each.digest for each in seen.values())
    if not partition_columns(table):
        return tuple(digests)
    return tuple(sorted({*digests, _paths_digest(table, key, seen)}))


def _paths_digest(table: Table, key: bytes, seen: Mapping[DataFile, Hashed]) -> str:
    """The hash of what the paths of all files say; there is one even of no file, of every account its own."""
    names = [column.name for column in partition_columns(table)]
    said = sorted(
        [each.digest, *("null" if value is None else value.hex() for value in file.values)]
        for file, each in seen.items()
    )
    text = dumps([table.account, names, said])
    return hashlib.blake2b(text.encode(), key=key, digest_size=32, person=_PATHS).hexdigest()


def _facts(seen: Mapping[DataFile, Hashed]) -> dict[DataFile, tuple[Look | ObjectLook, str]]:
    return {file: (each.look, each.digest) for file, each in seen.items()}
