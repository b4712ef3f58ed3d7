"""The Spark engine on Spark: the answers of one machine, and no key and no value in anything that Spark writes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dprelease.engines.spark.session import LEAST_JAVA, java_version

HERE = Path(__file__).parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="PySpark is not installed"),
    pytest.mark.skipif((java_version() or 0) < LEAST_JAVA, reason="there is no Java for Spark"),
]


MARKS = {
    "a row": (b"MARKER-7391",),
    "the key": (bytes(range(7, 39)), bytes(range(7, 39)).hex().encode()),
    "what is kept": (b"\x8c\x04kept\x94",),  # as Python stores the name of a part of totals
}


def asked(folder: Path, *words: str) -> tuple[list[str], dict[str, set[str]]]:
    """What the process said, and which marks are in the places that it wrote to."""
    told = subprocess.run(
        [sys.executable, str(HERE / "spark_worker.py"), str(folder), *words],
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent), "TMPDIR": str(folder / "temporary")},
        capture_output=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr.decode()[-3000:]
    written = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "data" not in path.parts}
    logs = [path for path in written if path.suffix == ".log" or "events" in path.parts]
    assert sum(path.stat().st_size for path in logs) > 100_000  # there was something to look through
    places = {"error": [told.stderr]}
    for path, content in written.items():
        places.setdefault(path.relative_to(folder).parts[0], []).append(content)
    assert not list((folder / "temporary").glob("dprelease-spark-*"))
    found = {
        place: {name for name, marks in MARKS.items() for each in contents if any(mark in each for mark in marks)}
        for place, contents in places.items()
    }
    return told.stdout.decode().split(), found


def test_spark_gives_the_answers_of_one_machine_and_writes_no_key_and_no_value(tmp_path: Path) -> None:
    """One session for all of it, in a process of its own, with every log of Spark switched on."""
    said, found = asked(tmp_path)
    assert said == ["equal", "equal", "equal", "equal", "refused", "failed", "stopped"]
    assert {place: marks for place, marks in found.items() if marks} == {}
    assert {"error", "events", "java.log", "copies"} <= found.keys()


@pytest.mark.nightly
def test_what_is_planted_in_the_logs_and_on_the_disks_of_spark_is_found(tmp_path: Path) -> None:
    """The power of the test above: each place where something could be has something that it finds."""
    said, found = asked(tmp_path, "planted")
    assert said == ["equal", "equal", "failed", "stopped"]
    assert "the key" in found["events"]
    assert "a row" in found["java.log"]
    assert found["copies"] >= {"a row", "what is kept"}
