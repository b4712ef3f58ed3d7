"""Keyed hashes of files, made once more: BLAKE3 from its paper, and BLAKE2b from ``hashlib`` under an earlier key."""

from __future__ import annotations

import hashlib
import io
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from dprelease.engines.files import fingerprint
from tests.unit.test_fingerprint import CSV, KEY, OTHER, of

EARLIER = bytes(range(32))
INITIAL = struct.pack(
    "<8I",
    *(0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A),
    *(0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19),
)
START, END, PARENT, ROOT, KEYED, CONTEXT, MATERIAL = (1 << at for at in range(7))  # flags, table 3 of the paper
PERMUTED = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)  # table 2
STEPS = (
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
)
WORD = 2**32 - 1


def _compressed(chained: bytes, block: bytes, counter: int, flags: int) -> bytes:
    """The compression function, section 2.2: 7 rounds over 16 words, of which 32 bytes are kept."""
    words = [*struct.unpack("<16I", block.ljust(64, b"\0"))]
    begun = struct.unpack("<8I", chained)
    state = [*begun, *struct.unpack("<4I", INITIAL[:16]), counter & WORD, counter >> 32, len(block), flags]

    def turned(at: int, by: int, bits: int) -> None:
        mixed = state[at] ^ state[by]
        state[at] = (mixed >> bits | mixed << 32 - bits) & WORD

    for _ in range(7):
        for number, (a, b, c, d) in enumerate(STEPS):
            for word, right_of_d, right_of_b in ((words[2 * number], 16, 12), (words[2 * number + 1], 8, 7)):
                state[a] = state[a] + state[b] + word & WORD
                turned(d, a, right_of_d)
                state[c] = state[c] + state[d] & WORD
                turned(b, c, right_of_b)
        words = [words[at] for at in PERMUTED]
    return struct.pack("<8I", *(state[at] ^ state[at + 8] for at in range(8)))


def by_hand(data: bytes, key: bytes, mode: int, first: int = 0, root: int = ROOT) -> bytes:
    """BLAKE3 of some bytes, sections 2.1 to 2.5: a binary tree of chunks of 1,024 bytes, whose left side is full."""
    if len(data) > 1024:
        left = 1024
        while 2 * left < len(data):
            left *= 2
        sides = by_hand(data[:left], key, mode, first, 0), by_hand(data[left:], key, mode, first + left // 1024, 0)
        return _compressed(key, b"".join(sides), 0, mode | PARENT | root)
    blocks = [data[at : at + 64] for at in range(0, len(data), 64)] or [b""]
    chained = key
    for at, block in enumerate(blocks):
        last = END | root if at == len(blocks) - 1 else 0
        chained = _compressed(chained, block, first, mode | (0 if at else START) | last)
    return chained


def expected(data: bytes, key: bytes) -> str:
    """The fingerprint of a file that has a row, under a key of 64 bytes."""
    context = by_hand(b"dprelease 2026-11-29 fingerprint of a file", INITIAL, CONTEXT)
    return by_hand(data, by_hand(key, context, MATERIAL), KEYED).hex()


def test_what_is_made_by_hand_is_what_the_authors_of_blake3_publish() -> None:
    """Of their ``test_vectors.json`` the empty input, without a key and under theirs."""
    theirs = b"whats the Elvish word for friend"
    assert by_hand(b"", INITIAL, 0).hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert by_hand(b"", theirs, KEYED).hex() == "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26"


def test_a_fingerprint_is_keyed_blake3_under_a_key_that_is_derived_for_it(tmp_path: Path) -> None:
    """Over trees that are full and that are not, and files that end at the end of a chunk."""
    for size in (12, 1023, 1024, 1025, 3 * 1024, 8 * 1024 + 1, 21_000):
        data = b"sex\n" + b"1\n" * 4 + os.urandom(size - 12)
        (tmp_path / "a.csv").write_bytes(data)
        assert of(tmp_path) == (expected(data, KEY),)
        assert of(tmp_path, key=OTHER) == (expected(data, OTHER),) != of(tmp_path)


SIZES = (0, 1, 1 << 20, (1 << 21) - 21, (1 << 21) - 20, (1 << 21) - 19, 3 * (1 << 21) - 20, 11 << 20)


def in_one_go(key: bytes) -> Callable[[bytes], str]:
    """The fingerprint of a file that is handed to the library as a whole."""
    if key == EARLIER:
        return lambda data: hashlib.blake2b(data, key=key, digest_size=32, person=b"dprelease-file-1").hexdigest()
    derived = blake3(key, derive_key_context="dprelease 2026-11-29 fingerprint of a file").digest()
    return lambda data: blake3(data, key=derived).hexdigest()


@pytest.mark.parametrize("key", [KEY, EARLIER])
def test_it_is_that_of_the_whole_file_however_it_is_read(key: bytes, tmp_path: Path) -> None:
    """Under a key of 32 bytes, which earlier versions made, it is what it was."""
    whole = in_one_go(key)
    for size in SIZES:
        data = b"sex\n" + b"1\n" * 8 + os.urandom(size)
        (tmp_path / "a.csv").write_bytes(data)
        assert of(tmp_path, key=key) == (whole(data),)
        assert of(tmp_path, key=key[::-1]) != (whole(data),)
        assert fingerprint.fingerprint_of(io.BytesIO(data), key) == whole(data)
        assert fingerprint._digest(Dripping(data), CSV, key, "people") == whole(data)  # type: ignore[arg-type]


class Dripping(io.RawIOBase):
    """A file that gives as few bytes as it likes."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(memoryview(buffer)[:700_001])


def test_a_long_file_that_gives_its_header_alone_at_first_has_rows() -> None:
    """Its fingerprint is the same under every account, however few bytes a first read returns."""

    class HeaderFirst(Dripping):
        def readinto(self, buffer: Any) -> int:
            return self._data.readinto(memoryview(buffer)[: 4 if self._data.tell() == 0 else None])

    data = b"sex\n1\n2\n"
    found = {fingerprint._digest(HeaderFirst(data), CSV, KEY, name) for name in ("people", "church")}  # type: ignore[arg-type]
    assert found == {expected(data, KEY)}
