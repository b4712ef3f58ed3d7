"""Machines of a Spark cluster are lost, and the process that asks is killed: one answer for each step, and nothing lost."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dprelease.engines.spark.session import LEAST_JAVA, java_version
from tests.project import SPEC, command, environment, installed, small_project

HERE = Path(__file__).parent
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="PySpark is not installed"),
    pytest.mark.skipif((java_version() or 0) < LEAST_JAVA, reason="there is no Java for Spark"),
]
# Ends the process at the second batch of answers, between the exact numbers and the noise.
KILLER = """
import os, signal, sys

seen = []

def hook(event, arguments):
    if event == "dprelease.point" and arguments[0] == "draw.aggregated":
        seen.append(event)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
"""


def test_what_an_executor_kept_is_made_again_from_the_same_files_or_not_at_all(tmp_path: Path) -> None:
    """An executor is killed; files of the shuffle and of what was kept are gone; then a file was written to as well."""
    (tmp_path / "temporary").mkdir()
    told = subprocess.run(
        [sys.executable, str(HERE / "spark_kills_worker.py"), str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": str(HERE.parent.parent),
            "TMPDIR": str(tmp_path / "temporary"),
            "SPARK_HOME": str(_own_home(tmp_path)),
            "SPARK_CONF_DIR": str(tmp_path / "conf"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr[-3000:]
    assert told.stdout.split("\n")[:-1] == ["equal", "equal", "lost", "equal", "DPR-E105", "equal"]
    assert not list((tmp_path / "temporary").glob("dprelease-spark-*"))


def _own_home(folder: Path) -> Path:
    """Spark's own installation, but for where executors of a cluster in one machine work and what they share."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    home = folder / "spark"
    home.mkdir()
    for each in Path(str(spec.origin)).parent.iterdir():
        (home / each.name).symlink_to(each)
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(
        "spark.authenticate.secret a-word-for-this-test\nspark.executor.memory 512m\n"
    )
    return home


def test_a_run_that_is_killed_while_spark_works_goes_on_with_the_answers_that_it_had(tmp_path: Path) -> None:
    """``SIGKILL`` after the first answers are committed and before the second ones are drawn."""
    text = SPEC.replace("    account: people\n", "    account: people\n    engine: spark\n")
    small_project(tmp_path / "office", text, rows=600)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "killer").mkdir()
    (tmp_path / "killer" / "sitecustomize.py").write_text(KILLER)
    spark = {"DPRELEASE_SPARK_MASTER": "local[2]", "TMPDIR": str(temporary)}
    killed = subprocess.run(
        [sys.executable, "-m", "dprelease", "run", "spec.yaml", "--direct"],
        cwd=tmp_path / "office",
        env={**environment(spark), "PYTHONPATH": f"{tmp_path / 'killer'}:{HERE.parents[1]}"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -9
    before = _answers(tmp_path / "office")
    assert 0 < len(before) < 5
    assert len(list(temporary.glob("dprelease-spark-*"))) == 1  # of the process that is gone
    said = installed(tmp_path / "office", "run", "spec.yaml", "--direct", variables=spark)
    assert f"{len(before)} reused" in said
    after = _answers(tmp_path / "office")
    assert after.items() >= before.items()
    assert not list(temporary.glob("dprelease-spark-*"))
    assert "sound" in command(tmp_path / "office", "ledger", "check")


def _answers(folder: Path) -> dict[str, str]:
    """The digest of every committed answer, by its step; each step has one."""
    entries = json.loads(command(folder, "ledger", "log", "--json"))["entries"]
    measured = [each["body"] for each in entries if each["kind"] == "measure"]
    found = {each["step"]: each["digest"] for each in measured}
    assert len(found) == len(measured)
    return found
