"""Bytes of a declared encoding to UTF-8, a line at a time: no line changes how another one is read.

Every encoding of ``catalog.dialect.ENCODINGS`` has line ends, delimiters and quotes where ASCII has them. Bytes that
mean nothing in an encoding become characters that nothing else becomes, so that no two ids of units become one.
"""

from __future__ import annotations

import codecs
from functools import cache

from dprelease.catalog.dialect import MULTIBYTE

__all__ = ["in_utf8"]

_UNUSED = 0xF700  # plus a byte: a character of private use that none of these encodings has
_MARKED = "dprelease.marked"


def in_utf8(block: bytes, encoding: str) -> bytes:
    r"""Whole lines, or a part of one, as UTF-8; what should be UTF-8 stays as it is, whether it is or not.

    >>> in_utf8(b"Z\xfcrich", "latin-1").decode(), ascii(in_utf8(b"\x81", "windows-1252").decode())
    ('Zürich', "'\\uf781'")
    """
    if encoding == "utf-8" or block.isascii():
        return block
    if encoding in MULTIBYTE:
        lines = block.split(b"\n")
        return b"\n".join(line if line.isascii() else line.decode(encoding, _MARKED).encode() for line in lines)
    return codecs.charmap_decode(block, "strict", _table(encoding))[0].encode()


@cache
def _table(encoding: str) -> str:
    """The characters of all 256 bytes."""
    return "".join(bytes([byte]).decode(encoding, _MARKED) for byte in range(256))


def _marked(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(_UNUSED + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_MARKED, _marked)
