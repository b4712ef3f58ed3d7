"""Files, read whole and written whole.

A file that is read is a regular one, opened without waiting, and no longer than a limit. What stands in its place may
be a pipe that nobody writes to, a device without an end, or more than memory holds: each is told at once, before a byte
of it is taken. A file that is written takes the place of what is there in one step.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "LARGEST_MANIFEST",
    "LARGEST_PLAN",
    "NotRegular",
    "TooLarge",
    "is_utf8",
    "read_regular",
    "regular_blocks",
    "replace_file",
    "sync_folder",
]

LARGEST_MANIFEST = 64 << 20  # bytes: some hundred thousand files
LARGEST_PLAN = 256 << 20  # bytes: a plan spells out a hundred million cells by the keys of their columns in 15 MB

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class NotRegular(OSError):
    """A folder, a pipe, a device or the like; ``strerror`` says so in words."""


class TooLarge(OSError):
    """A file that is longer than it may be; ``strerror`` says so in words."""


def read_regular(path: Path, most: int, *, links: bool = True) -> bytes:
    """The bytes of a file; arguments and errors as of :func:`regular_blocks`."""
    blocks = [*regular_blocks(path, most, links=links, at_once=0)]
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def regular_blocks(path: Path, most: int, *, links: bool = True, at_once: int = 1 << 20) -> Iterator[bytes]:
    """The bytes of a file, some at a time; nothing is sure of them before the last has come.

    Args:
        path: The path of the file.
        most: How many bytes it may have.
        links: Whether the last part of the path may be a symbolic link.
        at_once: How many bytes come together, at most; 0: all of them, unless it grows meanwhile.

    Raises:
        NotRegular: If it is no regular file.
        TooLarge: If it has more bytes, by its size or once it is read.
        OSError: If it cannot be read.
    """
    try:
        handle = os.open(path, _OPEN if links else _OPEN | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise NotRegular(errno.EINVAL, "it is no file") from None
        raise
    with os.fdopen(handle, "rb", buffering=0) as file:  # judged and read through one handle: nobody swaps it in between
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise NotRegular(errno.EINVAL, "it is no file")
        if found.st_size > most:
            raise TooLarge(errno.EFBIG, f"it has more than {most} bytes")
        left, size = most + 1, at_once or max(1 << 20, found.st_size + 1)
        while block := file.read(min(size, left)):
            left -= len(block)
            yield block
    if not left:  # it grew meanwhile, or has no size that could be told
        raise TooLarge(errno.EFBIG, f"it has more than {most} bytes")


def replace_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Put a file in the place of what is there, in one step: a reader sees the old one or the new one.

    Args:
        path: The path of the file; its folder exists.
        data: What it holds then.
        mode: Who may read it.

    Raises:
        OSError: It cannot be written; nothing is left behind.
    """
    handle, temporary = tempfile.mkstemp(prefix=".dprelease-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names of the files in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_utf8(path: Path) -> bool:
    """Whether the whole name of a file, from the root on, is text that a UTF-8 file can hold.

    >>> is_utf8(Path("/srv/Büro")), is_utf8(Path("/srv/B" + chr(0xDCFC) + "ro"))
    (True, False)
    """
    return not any("\ud800" <= sign <= "\udfff" for sign in str(path.absolute()))
