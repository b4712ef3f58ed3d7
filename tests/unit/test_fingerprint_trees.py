"""Keyed hashes of files, made once more from ``hashlib`` alone: in a tree, and in one go under an earlier key."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

from dprelease.engines.files import fingerprint
from tests.unit.test_fingerprint import CSV, KEY, OTHER, of

EARLIER = bytes(range(32))


def in_a_tree(data: bytes, key: bytes) -> str:
    """BLAKE2b in tree mode, written once more: a leaf for every 2 MiB, and one hash of their hashes."""
    shape: dict[str, Any] = {
        "key": key,
        "person": b"dprelease-file-2",
        "fanout": 0,
        "depth": 2,
        "leaf_size": 2 * 1024 * 1024,
    }
    leaves = [data[at : at + 2097152] for at in range(0, len(data), 2097152)]
    hashes = b"".join(
        hashlib.blake2b(
            leaf, node_offset=at, last_node=at == len(leaves) - 1, digest_size=32, inner_size=32, **shape
        ).digest()
        for at, leaf in enumerate(leaves)
    )
    return hashlib.blake2b(hashes, node_depth=1, last_node=True, digest_size=32, inner_size=32, **shape).hexdigest()


SIZES = (0, 1, 1 << 20, (1 << 21) - 21, (1 << 21) - 20, (1 << 21) - 19, 3 * (1 << 21) - 20, 11 << 20)


def test_a_fingerprint_is_keyed_blake2b_in_tree_mode_under_a_name_of_its_own(tmp_path: Path) -> None:
    """Over several blocks, and with a file that ends at the end of one."""
    for size in SIZES:
        data = b"sex\n" + b"1\n" * 8 + os.urandom(size)
        (tmp_path / "a.csv").write_bytes(data)
        assert of(tmp_path) == (in_a_tree(data, KEY),)
        assert of(tmp_path, key=OTHER) != of(tmp_path)
        assert hashlib.blake2b(data, key=KEY, digest_size=32, person=b"dprelease-file-2").hexdigest() not in of(
            tmp_path
        )


def test_under_an_earlier_key_it_is_that_of_the_file_in_one_go(tmp_path: Path) -> None:
    for size in SIZES:
        data = b"sex\n" + b"1\n" * 8 + os.urandom(size)
        (tmp_path / "a.csv").write_bytes(data)
        expected = hashlib.blake2b(data, key=EARLIER, digest_size=32, person=b"dprelease-file-1").hexdigest()
        assert of(tmp_path, key=EARLIER) == (expected,)
        assert of(tmp_path, key=EARLIER[::-1]) != (expected,)
        assert fingerprint.fingerprint_of(io.BytesIO(data), EARLIER) == expected


class Dripping(io.RawIOBase):
    """A file that gives as few bytes as it likes."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(memoryview(buffer)[:700_001])


def test_neither_threads_nor_short_reads_count_and_the_order_of_blocks_does() -> None:
    one, two, rest = (bytes([at]) * (1 << 21) for at in b"123")
    data = b"sex\n" + one[4:] + two + rest[:99]
    found = {
        fingerprint._digest(file, CSV, KEY, "people", threads)  # type: ignore[arg-type]  # raw files are read alike
        for threads in (1, 2, 4)
        for file in (io.BytesIO(data), Dripping(data))
    }
    assert found == {in_a_tree(data, KEY)}
    swapped = b"sex\n" + one[4:] + rest + two[:99]
    again = b"sex\n" + one[4:] + one + two + rest[:99]
    others = {fingerprint.fingerprint_of(io.BytesIO(each), KEY) for each in (swapped, again, data[:-1], data + b"3")}
    assert len(others | found) == 5
