"""A project whose account is parallel by month: months released one after the other, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.project import POLICY, SPEC, command, small_project

MONTHLY = (
    SPEC.replace("period: 2024", "period: 2024-01")
    .replace("{entity: person}", "{entity: person, per: month}")
    .replace("    columns:\n      district", "    time: {column: seen, type: date}\n    columns:\n      district")
)
PARALLEL = POLICY.replace(
    "unit: person,", "unit: person-month, parallel: month, time: {column: seen, type: date},"
).replace("lifetime: {epsilon: 4,", "lifetime: {epsilon: 3/2,")
NOT_PROMISED = "a person with rows in 12 months loses up to 12 times that"


@pytest.mark.slow
def test_every_month_has_a_cap_and_every_page_says_what_is_not_promised(tmp_path: Path) -> None:
    assert MONTHLY.count("seen") == PARALLEL.count("seen") == 1
    small_project(tmp_path, MONTHLY, rows=1)
    (tmp_path / "policy.yaml").write_text(PARALLEL)
    rows = [f"06-01,1,1000,2024-0{1 + k % 3}-15" for k in range(300)]
    (tmp_path / "people-1.csv").write_text("\n".join(["district,sex,income,seen", *rows]) + "\n")

    horizon = command(tmp_path, "plan", "spec.yaml", "--horizon", "12")
    assert "all 12 fit" in horizon
    assert "fit into each month, of epsilon 1.5 at delta 1e-8" in horizon
    for month in ("2024-01", "2024-02"):
        assert f"people, {month} (zcdp)" in command(tmp_path, "run", "spec.yaml", "--direct", "--period", month)
    status = command(tmp_path, "ledger", "status")
    assert "lifetime of each month (2024-01 lost most): spent epsilon 1.01" in status
    assert status.count("  month 2024-0") == 2
    bundle = tmp_path / "releases" / "survey" / "2024-02"
    for name in ("index.html", "accounting.html", "accounting.json", "registry.yaml"):
        text = " ".join((bundle / name).read_text(encoding="utf-8").split())
        assert NOT_PROMISED in text, name
    told = json.loads((bundle / "accounting.json").read_text())
    assert [(each["name"], each["window"]) for each in told["accounts"]] == [("people", "2024-02")]
    assert "people, 2024-01" in (tmp_path / "releases" / "index.html").read_text()
    assert "loss re-derived" in command(tmp_path, "verify", "releases/survey/2024-02")

    (tmp_path / "spec.yaml").write_text(
        MONTHLY.replace("name: survey", "name: again").replace("epsilon: 1,", "epsilon: 3/2,")
    )
    refused = command(tmp_path, "run", "spec.yaml", "--direct", "--period", "2024-02", code=4)
    assert "account people, month 2024-02" in refused
    assert "every other month has a cap of its own" in refused
    assert "is sound" in command(tmp_path, "ledger", "check")


def test_a_unit_of_all_time_is_refused_with_what_to_write(tmp_path: Path) -> None:
    small_project(tmp_path, MONTHLY.replace(", per: month", ""), rows=1)
    (tmp_path / "policy.yaml").write_text(PARALLEL)
    refused = command(tmp_path, "plan", "spec.yaml", code=2)
    assert "DPR-S417" in refused
    assert "pays every time" in refused
    assert "write `unit: {entity: person, per: month}`" in refused
