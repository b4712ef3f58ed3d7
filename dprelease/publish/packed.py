"""The files of a bundle until it is written: small ones as bytes, large ones compressed in parts.

A CSV file of ten million rows is over a gigabyte. Its hash must be known before the manifest is made, and its bytes
are wanted once more when it is written; it is made once, hashed on the way, and kept packed in between: in memory, or
where a bundle is about to be written in a nameless file beside it (``kept_beside``).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprelease.canonical import sha256
from dprelease.errors import PublishError

__all__ = [
    "Data",
    "Files",
    "HashedFile",
    "Packed",
    "blocks_of",
    "digest_in",
    "digest_of",
    "kept",
    "kept_beside",
    "only_hashed",
    "pack",
    "pack_whole",
    "size_in",
    "whole_of",
]

_SMALL = 32_000_000  # bytes of a file that stays as it is
_SMALL_BESIDE = 4_000_000  # the same where others need not be in memory
_PART = 4_000_000  # bytes that are compressed together, at least


@dataclass(frozen=True, eq=False)
class Packed:
    """A large file.

    Attributes:
        size: In bytes.
        sha256: The sha256 of its bytes, hexadecimal.
        parts: One after the other, each with its size, compressed by Zstandard: as bytes, or where they lie in
            ``beside`` (from where on, and how many bytes).
        beside: A file that holds them; None: they are here.
    """

    size: int
    sha256: str
    parts: tuple[tuple[int, bytes | tuple[int, int]], ...]
    beside: _Beside | None = None

    def __len__(self) -> int:
        return self.size

    def blocks(self) -> Iterator[bytes]:
        """Its bytes, some at a time."""
        codec = _codec()
        for size, part in self.parts:
            held = self.beside.part(*part) if isinstance(part, tuple) and self.beside is not None else part
            yield codec.decompress(held, decompressed_size=size, asbytes=True)


class _Beside:
    """A file without a name, for parts that need not be in memory; nobody else can open it, and it ends with us."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None

    def put(self, part: bytes) -> tuple[int, int]:
        """Keep a part; returns where it is.

        Raises:
            PublishError: There is no room for it, or no file can be made there (DPR-W204).
        """
        try:
            if self._file is None:
                there = next(each for each in (self._folder, *self._folder.absolute().parents) if each.is_dir())
                self._file = tempfile.TemporaryFile(dir=there, buffering=0)  # noqa: SIM115 - closed by ``close``
            first, left = self._file.tell(), memoryview(part)
            while left:  # a file without a buffer may take a part of it at a time
                left = left[self._file.write(left) or 0 :]
        except OSError as error:
            raise PublishError(
                f"the files of the bundle cannot be kept until it is written: {error.strerror or type(error).__name__}",
                hint="free some space on the disk of the releases, then `dprelease publish` again: it costs nothing",
                code="DPR-W204",
            ) from None
        return first, len(part)

    def part(self, first: int, length: int) -> bytes:
        """What was put there."""
        return os.pread(self._file.fileno(), length, first)

    def close(self) -> None:
        """Let go of the file, and with it of all that is in it."""
        if self._file is not None:
            self._file.close()


class HashedFile(Packed):
    """A file that lies elsewhere and is known to have this size and hash; its bytes are not here.

    Raises:
        LookupError: Where they are asked for.
    """

    def blocks(self) -> Iterator[bytes]:
        """None."""
        raise LookupError("a file that is only known by its hash has no bytes here")


Data = bytes | Packed


def whole_of(data: Data) -> bytes:
    """The bytes of a file, all at once."""
    return b"".join(data.blocks()) if isinstance(data, Packed) else data


_hashing: ContextVar[bool] = ContextVar("large files are hashed and not kept", default=False)
_beside: ContextVar[_Beside | None] = ContextVar("where large files are kept", default=None)


@contextmanager
def only_hashed() -> Iterator[None]:
    """Within it large files are hashed and not kept (``HashedFile``): for whoever compares them and writes none."""
    token = _hashing.set(True)
    try:
        yield
    finally:
        _hashing.reset(token)


@contextmanager
def kept_beside(folder: Path) -> Iterator[None]:
    """Within it large files are kept in a file without a name, and not in memory; they are gone once it is left.

    Args:
        folder: The one that the bundle is written to, or will be: the file is on its disk. It is made once there is a
            large file.
    """
    beside = _Beside(folder)
    token = _beside.set(beside)
    try:
        yield
    finally:
        _beside.reset(token)
        beside.close()


def pack(blocks: Iterable[bytes]) -> Data:
    """A file by its bytes, which come some at a time: as bytes where it is small.

    Raises:
        PublishError: The disk of ``kept_beside`` has no room for it (DPR-W204).
    """
    digest, size = hashlib.sha256(), 0
    plain: list[bytes] = []
    held = 0  # bytes in ``plain``
    parts: list[tuple[int, bytes | tuple[int, int]]] = []
    beside, small = _beside.get(), _small()
    for block in blocks:
        digest.update(block)
        size += len(block)
        plain.append(block)
        held += len(block)
        if size > small and _hashing.get():
            plain = []
        elif size > small and held >= _PART:
            parts.append((held, _put(_compressed(plain), beside)))
            plain, held = [], 0
    if size > small and _hashing.get():
        return HashedFile(size, digest.hexdigest(), ())
    if not parts:
        return b"".join(plain)
    if held:
        parts.append((held, _put(_compressed(plain), beside)))
    return Packed(size, digest.hexdigest(), tuple(parts), beside)


def pack_whole(data: bytes) -> Data:
    """A file that was made as a whole; it stays so, but for a large one that need not be in memory."""
    if len(data) <= _small() or not (_hashing.get() or _beside.get()):
        return data
    return pack(data[first : first + _PART] for first in range(0, len(data), _PART))


def _small() -> int:
    """Up to how many bytes a file stays as it is."""
    return _SMALL if _beside.get() is None else _SMALL_BESIDE


def _put(part: bytes, beside: _Beside | None) -> bytes | tuple[int, int]:
    """A part as it is kept: itself, or where it is now in the file."""
    return part if beside is None else beside.put(part)


def _compressed(blocks: list[bytes]) -> bytes:
    found: bytes = _codec().compress(b"".join(blocks), asbytes=True)
    return found


def _codec() -> Any:
    import pyarrow as pa

    return pa.Codec("zstd", compression_level=1)


class Files(Mapping[str, bytes]):
    """Files by path. What is asked for is unpacked whole; ``size_of``, ``digest_of`` and ``blocks_of`` unpack less."""

    __slots__ = ("_held",)

    def __init__(self, held: Mapping[str, Data]) -> None:
        """A view of these files: what is added to them later is here as well."""
        self._held: Mapping[str, Data] = held._held if isinstance(held, Files) else held

    def sorted(self) -> Files:
        """The same files now, in the order of their paths."""
        return Files(dict(sorted(self._held.items())))

    def __getitem__(self, path: str) -> bytes:
        return whole_of(self._held[path])

    def __contains__(self, path: object) -> bool:
        return path in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def kept(files: Mapping[str, bytes]) -> Mapping[str, Data]:
    """The files as they are kept, large ones packed."""
    return files._held if isinstance(files, Files) else files


def size_in(files: Mapping[str, bytes], path: str) -> int:
    """The size of a file in bytes."""
    return len(kept(files)[path])


def digest_in(files: Mapping[str, bytes], path: str) -> str:
    """The SHA-256 of a file, hexadecimal."""
    return digest_of(kept(files)[path])


def digest_of(data: Data) -> str:
    """The SHA-256 of a file, hexadecimal."""
    return data.sha256 if isinstance(data, Packed) else sha256(data)


def blocks_of(files: Mapping[str, bytes], path: str) -> Iterator[bytes]:
    """The bytes of a file, some at a time."""
    found = kept(files)[path]
    return found.blocks() if isinstance(found, Packed) else iter((found,))
