"""Objects of a store as files: found by name or by pattern, read by range, and known by their versions.

An object is replaced as a whole, and every write gives it another ETag and, where the bucket keeps versions, another
version. So what a store says of an object tells whether it is still the one that was hashed; Arrow's file systems
read no version but the newest, so that an object that was replaced since is refused, and never read for another one.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa
from pyarrow import fs

from dprelease.catalog.source import Source
from dprelease.engines.files.in_turn import THREADS
from dprelease.engines.files.places.folders import MAGIC, MOST
from dprelease.engines.files.places.stores import OpenedStore, opened_store, reached
from dprelease.errors import Unavailable

__all__ = ["LOG", "FilePath", "ObjectLook", "StoredObject", "in_lake", "objects_below", "stored_objects", "threads_for"]

LOG = "_delta_log"
_BUFFER = 1 << 20
_AT_ONCE = 8
_FOLDER_FIRST = "name the folder that they are in before the first `*`"
_FORMATS = ("csv", "parquet")
_VERSIONS = ("versionid", "version-id", "generation")


FilePath = Any
"""A ``Path``, or a :class:`StoredObject`, which opens as one does."""


@dataclass(frozen=True)
class ObjectLook:
    """What a store says of an object: a write changes the ETag, and a version names one state of it for ever."""

    version: str
    etag: str
    size: int
    written: str


@dataclass(frozen=True, order=True)
class StoredObject:
    """An object, read as a file is.

    Attributes:
        name: Bucket and key.
        written: The source as the spec has it, which alone is shown.
    """

    name: str
    written: str
    filesystem: Any = field(compare=False, repr=False)

    @property
    def parts(self) -> tuple[str, ...]:
        """The folders of the key, and the last name in it."""
        return tuple(self.name.split("/")[1:])

    def look(self) -> ObjectLook:
        """What the store says of it now.

        Raises:
            Unavailable: If it cannot be reached, or the store says nothing by which a replaced object is known.
        """
        with self._native() as file:
            size = file.size()
            said = {name.lower(): value.decode("utf-8", "replace") for name, value in (file.metadata() or {}).items()}
        version = next((said[name] for name in _VERSIONS if said.get(name, "null") != "null"), "")
        look = ObjectLook(version, said.get("etag", ""), size, said.get("last-modified", ""))
        if not (look.version or look.etag):
            raise Unavailable(
                f"the store of {self.written!r} says neither a version nor an ETag of its objects",
                detail="nobody could tell whether an object was replaced while it was read",
                hint="copy the objects to a folder of this machine, or to a store that says one of them",
                code="DPR-E144",
            )
        return look

    def open(self, mode: str = "rb", buffering: int = -1) -> Any:
        """Its bytes, as a file of Python's."""
        stream = _Stream(self.written, self._native())
        return stream if buffering == 0 else io.BufferedReader(stream, _BUFFER)

    def for_arrow(self) -> Any:
        """Its bytes, as a file of Arrow's."""
        return pa.PythonFile(self.open(buffering=0), mode="r")

    def read_bytes(self) -> bytes:
        """All of them."""
        with self.open() as file:
            data: bytes = file.read()
        return data

    def _native(self) -> Any:
        return reached(self.written, lambda: self.filesystem.open_input_file(self.name))


class _Stream(io.RawIOBase):
    """Arrow's file with errors of our own."""

    def __init__(self, written: str, native: Any) -> None:
        self._written, self._native = written, native

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return int(reached(self._written, lambda: self._native.readinto(buffer)))

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._native.seek(offset, whence))

    def tell(self) -> int:
        return int(self._native.tell())

    def close(self) -> None:
        self._native.close()
        super().close()


def threads_for(paths: Sequence[FilePath]) -> int:
    """How many files are read at once: of a store more, for most of the time it is waited for."""
    most = _AT_ONCE if any(isinstance(path, StoredObject) for path in paths) else THREADS
    return max(1, min(most, len(paths)))


def stored_objects(
    source: Source, address: str, environment: Mapping[str, str]
) -> tuple[tuple[StoredObject, ...], str | None]:
    """The objects of an address, sorted; a key that exists is taken as it is, else it is a pattern.

    Args:
        source: As it is declared.
        address: Its address, with the values of its variables.
        environment: What holds the credentials.

    Returns:
        The objects, and the folder below which a pattern looks; None where one key was named.

    Raises:
        Unavailable: If there is none, or the store cannot be reached.
        TableMismatch: If it is no address.
    """
    store = opened_store(source.file, address, environment)
    if source.format not in _FORMATS:
        raise Unavailable(
            f"files of {source.file!r} can be read from a folder of this machine only",
            detail=f"from a store {' and '.join(_FORMATS)} are read, not {source.format}",
            hint="copy them to a folder, or save them as Parquet in the store",
            code="DPR-E145",
        )
    whole = f"{store.bucket}/{store.pattern}"
    base = _fixed(store.pattern)
    found = reached(source.file, lambda: store.filesystem.get_file_info(whole))
    if found.type is fs.FileType.File or base is None:
        names, base = ([whole] if found.type is fs.FileType.File else []), None
    else:
        names = _matching(source, store, base)
    if not names:
        _require_bucket(source, store)
        raise Unavailable(
            f"no object matches {source.file!r}",
            hint="put the object there, or correct the address in `source.file`",
            code="DPR-E102",
        )
    return tuple(StoredObject(name, source.file, store.filesystem) for name in sorted(names)), base


def in_lake(objects: Sequence[StoredObject]) -> bool:
    """Whether a folder that leads to one of them is a Delta table's."""
    named = {tuple(each.name.split("/")[:-1]) for each in objects}
    folders = {"/".join(parts[:depth]) for parts in named for depth in range(1, len(parts) + 1)}
    filesystem, written = objects[0].filesystem, objects[0].written
    logs = [f"{folder}/{LOG}" for folder in sorted(folders) if "=" not in folder.rpartition("/")[2]]
    looked = reached(written, lambda: filesystem.get_file_info(logs))
    return any(each.type is not fs.FileType.NotFound for each in looked)


def _fixed(pattern: str) -> str | None:
    """The folder below which a pattern looks; None where there is no pattern."""
    parts = pattern.split("/")
    magic = next((at for at, part in enumerate(parts) if MAGIC.search(part)), None)
    return None if magic is None else "/".join(parts[:magic])


def _matching(source: Source, store: OpenedStore, base: str) -> list[str]:
    names = objects_below(store, f"{store.bucket}/{base}".rstrip("/"), source.file, _FOLDER_FIRST)
    pattern = store.pattern.split("/")
    return [name for name in names if _fits(name.split("/")[1:], pattern)]


def objects_below(store: OpenedStore, folder: str, written: str, hint: str) -> list[str]:
    """The names of all objects below a folder of a store.

    Args:
        store: The store.
        folder: Its bucket, and where in it.
        written: The source as the spec has it.
        hint: What to do where there are too many.

    Raises:
        Unavailable: If there are more than `MOST` objects and folders, or the store cannot be reached.
    """
    selector = fs.FileSelector(folder, recursive=True, allow_not_found=True)
    listed = reached(written, lambda: store.filesystem.get_file_info(selector))
    if len(listed) > MOST:
        raise Unavailable(
            f"the objects of {written!r} cannot be looked for: there are more than {MOST:,} below its folder",
            hint=hint,
            code="DPR-E106",
        )
    return [each.path for each in listed if each.type is fs.FileType.File]


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a key is one of a pattern, as names of files are: ``*`` stays in its folder, ``**`` leads through all.

    >>> [_fits(key.split("/"), ["a", "**", "*.csv"]) for key in ("a/b.csv", "a/b/c.csv", "a/.b.csv", "b/a.csv")]
    [True, True, False, False]
    """
    if not pattern:
        return not parts
    if pattern[0] == "**":
        inside = bool(parts) and not parts[0].startswith(".") and _fits(parts[1:], pattern)
        return _fits(parts, pattern[1:]) or inside
    hidden = bool(parts) and parts[0].startswith(".") and not pattern[0].startswith(".")
    return bool(parts) and not hidden and fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _require_bucket(source: Source, store: OpenedStore) -> None:
    """Tell a bucket that is not there from one without such an object."""
    selector = fs.FileSelector(store.bucket, recursive=False)
    reached(source.file, lambda: store.filesystem.get_file_info(selector))
