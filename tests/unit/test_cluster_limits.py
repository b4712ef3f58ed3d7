"""What a plan that Spark measures says of its driver and its tasks, and which answers are too large for one driver."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from dprelease.engines.spark import engine as spark
from dprelease.errors import PlanError, Unsupported
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain import cluster
from dprelease.plan.explain.cluster import cluster_texts, engine_questions, largest_answer, readings, require_in_pieces
from dprelease.release.planning import require_computable
from tests.pieces import KINDS, in_one, planned

from .series_example import series_plan

ACCOUNT = "    account: census\n"


def on_spark(kind: str) -> ReleasePlan:
    return planned(KINDS[kind].replace(ACCOUNT, f"{ACCOUNT}    engine: spark\n"))


def test_a_plan_says_what_the_driver_a_task_and_the_shuffle_hold() -> None:
    plan = on_spark("units")
    persons = plan.catalog.tables["persons"]
    largest = max(
        prod(
            len(within.nodes) if within and name == within.column else persons.column(name).cells
            for name in grouping.by
        )
        for grouping, _, within in engine_questions(plan)
    )
    assert largest_answer(plan) == (largest, "persons")
    driver, rows = cluster_texts(plan)
    assert f"holds {largest} numbers" in driver
    assert len(plan.batches(whole=True)) > 1  # tables of a workload, which count the same rows
    assert "persons is read in 1 pass; each shuffles 24 bytes and 2 texts of a row" in rows
    (_, without) = cluster_texts(on_spark("tables"))
    assert "not rows" in without
    assert cluster_texts(planned(KINDS["units"])) == ()


def test_a_series_reads_earlier_periods_again_and_hashes_all_rows_once() -> None:
    time = "    time: {column: day, type: date}\n"
    plan = series_plan((time, f"{time}    engine: spark\n"))
    (step,) = plan.steps
    assert step.series is not None
    assert len(readings(plan, "visits")) == 1 + len(step.series.read)


def test_an_answer_that_is_too_large_is_refused_unless_it_comes_in_pieces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Beforehand, by the plan, and again by the engine: by both the same."""
    cut = on_spark("tables")
    most, _ = largest_answer(cut)
    (tmp_path / "geo.csv").write_bytes(b"region,state,puma\nS,06,0601\nN,36,3601\nS,06,0602\nS,48,4801\nN,36,3602\n")
    engine = spark.SparkEngine(tmp_path, {})
    for limit, plan, fits in ((most, cut, True), (most, in_one(cut), False), (most - 1, cut, False)):
        monkeypatch.setattr(cluster, "MOST_CELLS", limit)
        monkeypatch.setattr(spark, "MOST_CELLS", limit)
        if fits:
            require_in_pieces(plan)
            require_computable(plan, engine, tmp_path)
            continue
        with pytest.raises(PlanError, match="DPR-P347"):
            require_in_pieces(plan)
        with pytest.raises(Unsupported, match="DPR-E156"):
            require_computable(plan, engine, tmp_path)
    engine.close()
    require_in_pieces(planned(KINDS["tables"]))  # one machine hands nothing over
