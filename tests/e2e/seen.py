"""What anybody can see of a run, and where markers that stand in its data are found again."""

from __future__ import annotations

import csv
import hashlib
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.cli import main

__all__ = ["NUMBER", "WORD", "Seen", "canaries", "marks", "run", "seen", "shape", "with_test_key"]

WORD, NUMBER = "CANARYqz7", 918_273_645


@dataclass(frozen=True)
class Seen:
    """What anybody can see of a run: its exit code, its words, and the shape of every file that it left."""

    code: int
    out: str
    err: str
    shape: tuple[object, ...]


def seen(folder: Path) -> Seen:
    """Run the command in this process, as ``dprelease run spec.yaml --direct`` in the folder."""
    out, err = StringIO(), StringIO()
    code = _ended(folder, out, err)
    words = [text.getvalue().replace(str(folder), "FOLDER") for text in (out, err)]
    return Seen(code, words[0], words[1], shape(folder))


def run(folder: Path, *more: str) -> tuple[int, str]:
    """That or another command in this process, and all that it said."""
    said = StringIO()
    return _ended(folder, said, said, *more), said.getvalue()


def _ended(folder: Path, out: StringIO, err: StringIO, *words: str) -> int:
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        # Another library's opinion of the price: seconds, and no matter of rows. The installed command asks it.
        patch.setattr("dprelease.release.run.heard", lambda plan, ask: None)
        patch.setattr(sys, "argv", ["dprelease", *(words or ("run", "spec.yaml", "--direct"))])
        with pytest.raises(SystemExit) as stop:
            main()
    return int(stop.value.code or 0)


def with_test_key(patch: pytest.MonkeyPatch) -> None:
    """Entropy that is the same in every run, one step after the other, and one state of the source code.

    Somebody may write to the tree while tests run, and a bundle says whether somebody has.
    """
    stream = hashlib.shake_256(b"a fixed test key").digest(1 << 22)
    at = [0]

    def taken(size: int) -> bytes:
        begin = at[0]
        at[0] += size
        return stream[begin : begin + size]

    patch.setattr("os.urandom", taken)
    patch.setattr("dprelease.release.environment._source", lambda: ("f" * 40, "clean"))
    patch.setattr("dprelease.release.direct._WORKERS", 1)


def shape(folder: Path) -> tuple[object, ...]:
    """Names of all files; of tables the columns, the keys in order and the number of rows; of Parquet the schema."""
    found: list[object] = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or name.startswith(("visits", "office.", "lake", "state")):
            continue
        found.append(name)
        if path.suffix == ".csv" and "tables" in path.parts:
            with path.open(encoding="utf-8", newline="") as file:
                head, *lines = csv.reader(file)
            keys = sum(1 for column in head if f"{column}_status" not in head and "_" not in column)
            ranked = path.stem == "largest"
            found += [head, len(lines), [] if ranked else [line[:keys] for line in lines]]
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            found += [str(table.schema.remove_metadata()), table.num_rows]
    state = sorted(path.name for path in (folder / "state").rglob("*") if not path.name.endswith(("-wal", "-shm")))
    return (*found, *state)


def marks() -> list[bytes]:
    """A canary as a text, and as a number of either kind and byte order."""
    shapes = [WORD.encode(), WORD.lower().encode(), str(NUMBER).encode(), f"{NUMBER:,}".encode()]
    shapes += [NUMBER.to_bytes(8, order) for order in ("little", "big")]
    shapes += [pa.array([float(NUMBER)]).buffers()[1].to_pybytes()[:8]]
    return shapes


def canaries(folder: Path, own: Sequence[str] = ("visits.",)) -> list[str]:
    """Files that hold a canary, but those of the data, whose names begin so."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(tuple(own))]
    files = [path for path in files if "_delta_log" not in path.parts]  # of the data: it holds statistics of rows
    return [path.name for path in files if any(mark in path.read_bytes() for mark in marks())]
