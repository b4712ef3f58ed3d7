"""A release in the manner of the Census, measured by Spark: the bundle of one machine, byte for byte."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dprelease.engines.spark.session import LEAST_JAVA, java_version

HERE = Path(__file__).parent
RECORDS = HERE.parents[2] / "shared" / "data" / "nist_acs_national2019.csv"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.shared,
    pytest.mark.skipif(not RECORDS.exists(), reason="the survey file is not beside the checkout"),
    pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="PySpark is not installed"),
    pytest.mark.skipif((java_version() or 0) < LEAST_JAVA, reason="there is no Java for Spark"),
]
KINDS = ("spark", "embedded", "duckdb")


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
