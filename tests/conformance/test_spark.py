"""The Spark engine on Spark: the answers of one machine, no key and no value in what Spark writes, and nothing lost."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dprelease.engines.spark.session import LEAST_JAVA, java_version
from tests.project import SPEC, command, environment, small_project

HERE = Path(__file__).parent
RECORDS = HERE.parents[2] / "shared" / "data" / "nist_acs_national2019.csv"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="PySpark is not installed"),
    pytest.mark.skipif((java_version() or 0) < LEAST_JAVA, reason="there is no Java for Spark"),
]


MARKS = {
    "a row": (b"MARKER-7391",),
    "the key": (bytes(range(7, 39)), bytes(range(7, 39)).hex().encode()),
    "a credential": (b"MARKERACCESSKEY", b"MARKER-secret-access-key"),  # of tests.object_store
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
@pytest.mark.skipif(importlib.util.find_spec("deltalake") is None, reason="the extra `delta` is not installed")
def test_spark_reads_stores_lakes_and_earlier_periods_as_one_machine_and_writes_no_credential(tmp_path: Path) -> None:
    said, found = asked(tmp_path, "sources")
    assert said == ["equal", "equal", "equal", "stopped"]
    assert {place: marks for place, marks in found.items() if marks} == {}


@pytest.mark.nightly
@pytest.mark.skipif(importlib.util.find_spec("deltalake") is None, reason="the extra `delta` is not installed")
def test_tables_of_a_hive_metastore_are_read_as_spark_reads_them_or_refused(tmp_path: Path) -> None:
    """Made and mostly written by Spark, in a metastore on Derby; its own SQL counts what we count."""
    told = subprocess.run(
        [sys.executable, str(HERE / "spark_metastore_worker.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    read = ["plain", "buckets", "outer", "parted", "hive"]
    refused = dict.fromkeys(("view", "csv", "orc", "text", "globbed"), "DPR-E158")
    refused |= {"outside": "DPR-E159", "dropped": "DPR-E159", "nothing": "DPR-E157"}
    said = dict(line.partition(" ")[::2] for line in told.stdout.splitlines())
    assert said == {
        **dict.fromkeys(read, "equal"),
        **refused,
        "lake": "equal DPR-E135",
        "elsewhere": "DPR-E154",
        "stopped": "",
    }


@pytest.mark.nightly
def test_what_is_planted_in_the_logs_and_on_the_disks_of_spark_is_found(tmp_path: Path) -> None:
    """The power of the test above: each place where something could be has something that it finds."""
    said, found = asked(tmp_path, "planted")
    assert said == ["equal", "equal", "failed", "stopped"]
    assert found["events"] >= {"the key", "a credential"}
    assert "a row" in found["java.log"]
    assert found["copies"] >= {"a row", "a credential", "what is kept"}


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


@pytest.mark.nightly
def test_what_an_executor_kept_is_made_again_from_the_same_files_or_not_at_all(tmp_path: Path) -> None:
    """An executor is killed; files of the shuffle and of what was kept are gone; then a file was written to as well."""
    (tmp_path / "temporary").mkdir()
    told = subprocess.run(
        [sys.executable, str(HERE / "spark_lost_worker.py"), str(tmp_path)],
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


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["--direct", "prefect"])
def test_a_run_that_is_killed_while_spark_works_goes_on_with_the_answers_that_it_had(how: str, tmp_path: Path) -> None:
    """``SIGKILL`` after the first answers are committed and before the second ones are drawn: of a flow as well.

    Java ends with the process that asks, and nothing goes on that nobody waits for.
    """
    words = ["run", "spec.yaml", *["--direct"] * (how == "--direct")]
    text = SPEC.replace("    account: people\n", "    account: people\n    engine: spark\n")
    small_project(tmp_path / "office", text, rows=600)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "killer").mkdir()
    (tmp_path / "killer" / "sitecustomize.py").write_text(KILLER)
    spark = {"DPRELEASE_SPARK_MASTER": "local[2]", "TMPDIR": str(temporary)}
    killed = _run(
        tmp_path / "office", words, {**environment(spark), "PYTHONPATH": f"{tmp_path / 'killer'}:{HERE.parents[1]}"}
    )
    assert killed.returncode == -9
    before = _answers(tmp_path / "office")
    assert 0 < len(before) < 5
    (left,) = temporary.glob("dprelease-spark-*")  # of the process that is gone
    until = time.monotonic() + 300
    while _alive(left.name) and time.monotonic() < until:
        time.sleep(1)
    assert not _alive(left.name)
    resumed = _run(tmp_path / "office", words, environment(spark))
    assert resumed.returncode == 0, resumed.stderr
    assert f"{len(before)} reused" in resumed.stdout + resumed.stderr
    after = _answers(tmp_path / "office")
    assert after.items() >= before.items()
    assert not list(temporary.glob("dprelease-spark-*"))
    assert "sound" in command(tmp_path / "office", "ledger", "check")


def _run(folder: Path, words: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The command, for as long as it takes."""
    asked = [sys.executable, "-m", "dprelease", *words]
    return subprocess.run(asked, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def _alive(folder: str) -> bool:
    """Whether a Java runs that was told this folder."""
    lines = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            lines.append((process / "cmdline").read_bytes())
    return any(folder.encode() in line for line in lines)


def _answers(folder: Path) -> dict[str, str]:
    """The digest of every committed answer, by its step; each step has one."""
    entries = json.loads(command(folder, "ledger", "log", "--json"))["entries"]
    measured = [each["body"] for each in entries if each["kind"] == "measure"]
    found = {each["step"]: each["digest"] for each in measured}
    assert len(found) == len(measured)
    return found


KINDS = ("spark", "embedded", "duckdb")


@pytest.mark.nightly
@pytest.mark.shared
@pytest.mark.skipif(not RECORDS.exists(), reason="the survey file is not beside the checkout")
@pytest.mark.parametrize(("areas", "least"), [(3, 300_000), (None, 2_800_000)])
def test_the_redistricting_example_on_spark_is_that_of_one_machine(
    areas: int | None, least: int, tmp_path: Path
) -> None:
    """First three areas, then all of them. The clock stands still, and entropy is the same in all three runs.

    ``embedded`` has the spec of ``spark``, read by the embedded engine: all files are equal. ``duckdb`` has the spec as
    it is in the repository: its plan says nothing of an engine, and all numbers are equal.
    """
    assert population(tmp_path, areas) >= least
    bundles = {kind: _released(kind, tmp_path) for kind in KINDS}
    files = {kind: _files(bundle) for kind, bundle in bundles.items()}
    assert files["spark"] == files["embedded"]
    assert len(files["spark"]) > 80
    numbers = {name for name in files["spark"] if name.endswith(".csv")}
    assert len(numbers) > 40
    assert {name: files["duckdb"][name] for name in numbers} == {name: files["spark"][name] for name in numbers}
    plans = {kind: json.loads(each["plan.json"]) for kind, each in files.items()}
    assert plans["spark"]["catalog"]["tables"]["persons"].pop("engine") == "spark"
    for plan in plans.values():
        plan.pop("spec_fingerprint")
    assert plans["spark"] == plans["duckdb"]


def population(folder: Path, areas: int | None) -> int:
    """Write the records of some areas, each repeated by its weight; returns the number of people."""
    records: Any = pd.read_csv(RECORDS, dtype={"PUMA": str}, na_values="N")
    if areas is not None:
        records = records[records["PUMA"].isin(sorted(records["PUMA"].unique())[:areas])]
    people = records.loc[records.index.repeat(records["PWGTP"])].reset_index(drop=True)
    people.to_parquet(folder / "population.parquet", index=False, row_group_size=1 << 17)
    return len(people)


def _released(kind: str, folder: Path) -> Path:
    office = folder / "office"  # one place for all: a ledger notes it
    ended = subprocess.run(
        [sys.executable, str(HERE / "spark_release_worker.py"), kind, str(office), str(folder)],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-2000:]
    return office.rename(folder / kind) / "releases" / "redistricting" / "2019"


def _files(bundle: Path) -> dict[str, bytes]:
    return {str(path.relative_to(bundle)): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
