"""The files of a bundle in memory: small ones as bytes, large ones compressed in parts.

A CSV file of ten million rows is over a gigabyte. Its hash must be known before the manifest is made, and its bytes
are wanted once more when it is written; it is made once, hashed on the way, and kept packed in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from dprelease.canonical import sha256

__all__ = [
    "Data",
    "Files",
    "HashedFile",
    "Packed",
    "blocks_of",
    "digest_in",
    "digest_of",
    "kept",
    "only_hashed",
    "pack",
    "size_in",
    "whole_of",
]

_SMALL = 32_000_000  # bytes of a file that stays as it is
_PART = 4_000_000  # bytes that are compressed together, at least


@dataclass(frozen=True, eq=False)
class Packed:
    """A large file.

    Attributes:
        size: In bytes.
        sha256: The sha256 of its bytes, hexadecimal.
        parts: One after the other, each with its size, compressed by Zstandard.
    """

    size: int
    sha256: str
    parts: tuple[tuple[int, bytes], ...]

    def __len__(self) -> int:
        return self.size

    def blocks(self) -> Iterator[bytes]:
        """Its bytes, some at a time."""
        codec = _codec()
        for size, part in self.parts:
            yield codec.decompress(part, decompressed_size=size, asbytes=True)


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


@contextmanager
def only_hashed() -> Iterator[None]:
    """Within it large files are hashed and not kept (``HashedFile``): for whoever compares them and writes none."""
    token = _hashing.set(True)
    try:
        yield
    finally:
        _hashing.reset(token)


def pack(blocks: Iterable[bytes]) -> Data:
    """A file by its bytes, which come some at a time: as bytes where it is small."""
    digest, size = hashlib.sha256(), 0
    plain: list[bytes] = []
    held = 0  # bytes in ``plain``
    parts: list[tuple[int, bytes]] = []
    for block in blocks:
        digest.update(block)
        size += len(block)
        plain.append(block)
        held += len(block)
        if size > _SMALL and _hashing.get():
            plain = []
        elif size > _SMALL and held >= _PART:
            parts.append((held, _compressed(plain)))
            plain, held = [], 0
    if size > _SMALL and _hashing.get():
        return HashedFile(size, digest.hexdigest(), ())
    if not parts:
        return b"".join(plain)
    if held:
        parts.append((held, _compressed(plain)))
    return Packed(size, digest.hexdigest(), tuple(parts))


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
