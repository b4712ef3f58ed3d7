"""Looks for a text and for numbers in everything that processes left: files, databases, what an API tells."""

from __future__ import annotations

import base64
import json
import pickle
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["found_in", "renderings", "rows_of", "where"]

_DIGITS = 9  # so many of a number are enough: a rounded one is a leak too


def renderings(*secrets: str | int) -> dict[str, bytes]:
    """What each secret may look like, by a name.

    Args:
        secrets: Words of ASCII letters and digits, and positive numbers of at least 13 digits that floats hold exactly.
    """
    found: dict[str, bytes] = {}
    for secret in secrets:
        for name, form in _texts(secret) if isinstance(secret, str) else _numbers(secret):
            found[f"{secret} as {name}"] = form
    return found


def _texts(secret: str) -> Iterator[tuple[str, bytes]]:
    yield "text", secret.encode()
    yield "small letters", secret.lower().encode()
    yield "capitals", secret.upper().encode()
    yield "UTF-16", secret.encode("utf-16-le")
    yield "hex", secret.encode().hex().encode()
    yield from _base64("text", secret.encode())


def _numbers(secret: int) -> Iterator[tuple[str, bytes]]:
    assert 10**12 <= secret < 2**53
    digits, size = str(secret), (secret.bit_length() + 7) // 8
    rounded = f"{secret:.{_DIGITS - 1}e}".partition("e")[0]
    yield "digits", digits[:_DIGITS].encode()
    yield "rounded digits", rounded.replace(".", "").encode()
    yield "a float's digits", f"{digits[0]}.{digits[1:_DIGITS]}".encode()
    yield "a float's rounded digits", rounded.encode()
    for mark in ",_' ":
        grouped = f"{secret:,}".replace(",", mark)
        yield f"digits grouped by {mark!r}", grouped[: _DIGITS + 3].encode()
    yield "hex", f"{secret:x}".encode()
    yield "capital hex", f"{secret:X}".encode()
    for order in ("<", ">"):
        # Of a whole number the bytes that are not zero: they are in every longer form, in SQLite's and in a pickle.
        whole = secret.to_bytes(size, "little" if order == "<" else "big")
        yield f"integer {order}", whole
        yield from _base64(f"integer {order}", whole)
        real = struct.pack(f"{order}d", float(secret))
        yield f"float {order}", real
        yield from _base64(f"float {order}", real)
        yield f"hex of a float {order}", real.hex().encode()
    yield "float.hex", float(secret).hex().rstrip("0").split("p")[0].rstrip("0").encode()


def _base64(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """The characters that depend on these bytes alone, wherever in a longer text they begin."""
    for offset in range(3):
        coded = base64.b64encode(bytes(offset) + data).rstrip(b"=")
        first = -(-8 * offset // 6)
        last = 8 * (offset + len(data)) // 6
        yield f"base64 of {name}, {offset}", coded[first:last]


def found_in(data: bytes, forms: Mapping[str, bytes]) -> list[str]:
    """The names of the forms that occur."""
    return [name for name, form in forms.items() if form in data]


def rows_of(database: Path) -> Iterator[tuple[str, bytes]]:
    """Every cell of every table, with its table and column; a blob as it is, and all else as text too."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.text_factory = bytes
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            name = table.decode()
            cursor = connection.execute(f'SELECT * FROM "{name}"')
            columns = [each[0] for each in cursor.description]
            for row in cursor:
                for column, cell in zip(columns, row, strict=True):
                    yield f"{database.name}:{name}.{column}", _bytes(cell)


def _bytes(cell: object) -> bytes:
    if isinstance(cell, bytes):
        return cell
    return repr(cell).encode() + pickle.dumps(cell)


def where(
    forms: Mapping[str, bytes], folders: Iterable[Path], apart: Iterable[Path] = (), told: Mapping[str, Any] = {}
) -> list[str]:
    """Every place that holds one of the forms: files byte by byte, SQLite's also cell by cell, and names of files.

    Args:
        forms: See ``renderings``.
        folders: Searched whole.
        apart: Files and folders that are allowed to hold them: the data themselves.
        told: Further texts or JSON values, by a name.
    """
    hits: set[str] = set()
    skipped = tuple(apart)
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path in skipped or any(each in path.parents for each in skipped):
                continue
            name = str(path.relative_to(folder.parent))
            hits |= {f"the name {name}: {form}" for form in found_in(name.encode(), forms)}
            if path.is_file():
                hits |= {f"{name}: {form}" for form in _in_file(path, forms)}
    for name, value in told.items():
        text = value if isinstance(value, str) else json.dumps(value)
        hits |= {f"{name}: {form}" for form in found_in(text.encode(), forms)}
    return sorted(hits)


def _in_file(path: Path, forms: Mapping[str, bytes]) -> Iterator[str]:
    data = path.read_bytes()
    yield from found_in(data, forms)
    if data.startswith(b"SQLite format 3\0"):
        for cell, content in rows_of(path):
            yield from (f"{cell}: {form}" for form in found_in(content, forms))
