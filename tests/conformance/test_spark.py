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


def test_spark_gives_the_answers_of_one_machine_and_writes_no_key_and_no_value(tmp_path: Path) -> None:
    """One session for all of it, in a process of its own, with every log of Spark switched on."""
    told = subprocess.run(
        [sys.executable, str(HERE / "spark_worker.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent), "TMPDIR": str(tmp_path / "temporary")},
        capture_output=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr.decode()[-3000:]
    assert told.stdout.decode().split() == ["equal", "equal", "equal", "refused", "failed", "stopped"]
    marks = (
        b"MARKER-7391",
        b"\x4d\x41\x52\x4b\x45\x52\x2d\x37",
        bytes(range(7, 39)),
        bytes(range(7, 39)).hex().encode(),
    )
    assert not any(mark in told.stderr for mark in marks)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and "data" not in path.parts]
    logs = [path for path in written if path.suffix == ".log" or "events" in path.parts]
    assert sum(path.stat().st_size for path in logs) > 100_000  # there was something to look through
    assert [path.name for path in written for mark in marks if mark in path.read_bytes()] == []
    assert not list((tmp_path / "temporary").glob("dprelease-spark-*"))
