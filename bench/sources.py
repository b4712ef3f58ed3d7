"""Seconds per GB to fingerprint a source, beside SHA-256 of the same file and ``cat`` to nowhere.

Usage: ``python bench/sources.py [MEGABYTES] [FOLDER]`` (at most 500 MB, made up and removed again). The file is in the
system's cache, so that reading costs all three about the same. The last line is a second look at a file that was not
written to.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dprelease.catalog.table import Column, Source, Table
from dprelease.engines.files import fingerprint
from dprelease.engines.files.fingerprint import KEY_BYTES, Watch, hashed
from dprelease.engines.files.reader import FileReader

_MOST = 500
_TURNS = 3
_SOURCE = Source(file="made-up.csv", format="csv")


def seconds(act: Callable[[], object]) -> float:
    """The fastest of a few turns: the machine is shared."""
    taken = []
    for _ in range(_TURNS):
        started = time.perf_counter()
        act()
        taken.append(time.perf_counter() - started)
    return min(taken)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cat(path: Path) -> None:
    with path.open("rb") as file:
        subprocess.run(["cat"], stdin=file, stdout=subprocess.DEVNULL, check=True)


def main(size: int, folder: Path) -> None:
    path, key = folder / _SOURCE.file, os.urandom(KEY_BYTES)
    with path.open("wb") as file:
        file.write(b"id,pay\n")
        for _ in range(size):
            file.write(os.urandom(10**6 // 2).hex().encode())
    size_gb = path.stat().st_size / 1e9
    cat(path)
    for label, act in (
        ("fingerprint (keyed BLAKE3)", lambda: hashed(path, _SOURCE, key, "", None)),
        ("SHA-256", lambda: sha256(path)),
        ("cat > /dev/null", lambda: cat(path)),
    ):
        taken = seconds(act)
        print(f"{label:28} {taken / size_gb:8.3f} s/GB {size_gb / taken:8.2f} GB/s")
    fingerprint.TICK = -(10**9)  # as if the file were older than two seconds
    watch = Watch(FileReader(folder, {}).files)
    table = Table(name="t", account="a", source=_SOURCE, columns=(Column(name="id", type="text"),))
    watch.fingerprint(table, key, loaded=False)
    print(f"{'second look':28} {seconds(lambda: watch.known(table, key)) * 1e6:8.0f} microseconds")


if __name__ == "__main__":
    megabytes = min(int(sys.argv[1]) if len(sys.argv) > 1 else _MOST, _MOST)
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
        main(megabytes, Path(name))
