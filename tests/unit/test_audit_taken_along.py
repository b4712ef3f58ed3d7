"""A release takes the audit of its plan along: a page of its bundle, made again from the ledger, and of no other plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dprelease.cli.app import app
from dprelease.errors import CheckFailed, EngineError
from tests.planned import SPEC

POLICY = "accounts:\n  people: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 9, delta: 1e-6}}\n"
BUNDLE = Path("releases/survey/2024")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dprelease.yaml").write_text(
        "ledger: sqlite:///state/ledger.db\npolicy: policy.yaml\n", encoding="utf-8"
    )
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "spec.yaml").write_text(SPEC.replace("people.csv", "data/people.csv"), encoding="utf-8")
    (tmp_path / "data").mkdir()
    rows = "".join(f"0{1 + at % 2},{1 + at % 2},{at * 100}\n" for at in range(50))
    (tmp_path / "data" / "people.csv").write_text(f"region,sex,income\n{rows}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def audit_of(plan: str, **changed: Any) -> dict[str, Any]:
    draw = {"draw": "population.rows", "mechanism": "discrete_gaussian", "delta": 1e-9, "reached": 1.0, "runs": 800_000}
    draws = [{**draw, "claimed": 0.48, "proved": 0.36, "seconds": 1.0, "breaches": []}]
    draws.append({**draws[0], "draw": "whole release", "mechanism": "", "claimed": 1.0, "proved": 0.5, "runs": 4000})
    facts = {"release": "survey", "period": "2024", "plan": plan, "draws": draws, "units_tried": 40, "tests": 52}
    return {**facts, "seconds": 20.0, "chance_of_a_false_breach": 1e-6, "breached": False, **changed}


def fingerprint() -> str:
    planned = typed("plan", "spec.yaml", "--out", "plan.json", "--json")
    assert planned.exit_code == 0, planned.output
    return str(json.loads(Path("plan.json").read_text(encoding="utf-8"))["plan_fingerprint"])


@pytest.mark.usefixtures("project")
def test_the_bundle_has_a_page_of_the_audit_and_is_made_again_with_it() -> None:
    Path("audit.json").write_text(json.dumps(audit_of(fingerprint())), encoding="utf-8")
    done = typed("run", "spec.yaml", "--direct", "--audit", "audit.json")
    assert done.exit_code == 0, done.output
    page = (BUNDLE / "audit.md").read_text(encoding="utf-8")
    assert "attacked its plan 804,000 times, in 2 ways" in page
    assert "ε = 0.3600 of 0.4800 (population.rows)" in page
    assert "| whole release |  | 4,000 | 1e-09 | 1.0000 | 0.5000 |" in page
    assert "audit.md" in (BUNDLE / "index.html").read_text(encoding="utf-8")
    assert "audit" not in json.loads((BUNDLE / "accounting.json").read_bytes())["environment"]
    before = {path: path.read_bytes() for path in sorted(BUNDLE.rglob("*")) if path.is_file()}
    Path("audit.json").unlink()
    assert typed("publish", "survey").exit_code == 0
    assert {path: path.read_bytes() for path in sorted(BUNDLE.rglob("*")) if path.is_file()} == before
    checked = typed("verify", str(BUNDLE))
    assert checked.exit_code == 0, checked.output
    (BUNDLE / "audit.md").write_text(page.replace("0.3600", "0.1600"), encoding="utf-8")
    assert isinstance(typed("verify", str(BUNDLE)).exception, CheckFailed)


@pytest.mark.usefixtures("project")
def test_what_is_no_audit_of_the_plan_is_refused_before_anything_is_charged() -> None:
    mark = fingerprint()
    wrong: list[tuple[str, str]] = [
        ("no JSON", "DPR-E147"),
        ("[]", "DPR-E147"),
        (json.dumps(audit_of("0" * 64)), "DPR-E147"),
        (json.dumps(audit_of(mark, draws=[])), "DPR-E147"),
        (json.dumps(audit_of(mark)).replace("0.36", "NaN"), "DPR-E147"),
        (json.dumps(audit_of(mark, breached=True)), "DPR-E148"),
    ]
    for text, code in wrong:
        Path("audit.json").write_text(text, encoding="utf-8")
        told = typed("run", "spec.yaml", "--direct", "--audit", "audit.json")
        assert isinstance(told.exception, EngineError), text
        assert told.exception.code == code
    assert isinstance(typed("run", "spec.yaml", "--direct", "--audit", "missing.json").exception, EngineError)
    assert not BUNDLE.exists()
    assert "0 entries" in typed("ledger", "log").output or "survey" not in typed("ledger", "log").output
