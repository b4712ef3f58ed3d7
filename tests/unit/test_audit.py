"""The bounds of an audit against SciPy's, its statistics on laws that are known, and its command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from dprelease.audit import MISS
from dprelease.audit.bounds import epsilon_of_event, epsilon_of_mu, least_probability, most_probability, mu_of_event
from dprelease.audit.evidence import AttackedPart, Learner, evidence, linear_score, ratio_score
from dprelease.cli.app import app
from dprelease.errors import CheckFailed
from dprelease.noise import MECHANISMS
from tests.planned import SPEC

POLICY = "accounts:\n  people: {unit: person, neighboring: add_remove, composition: zcdp, lifetime: {epsilon: 9, delta: 1e-6}}\n"


@pytest.mark.parametrize(("hits", "runs"), [(0, 10), (1, 10), (10, 10), (480, 1_000), (3, 20_000), (149_000, 300_000)])
@pytest.mark.parametrize("miss", [0.025, 1e-9])
def test_the_ends_are_those_of_clopper_and_pearson(hits: int, runs: int, miss: float) -> None:
    low = stats.beta.ppf(miss, hits, runs - hits + 1) if hits else 0.0
    high = stats.beta.isf(miss, hits + 1, runs - hits) if hits < runs else 1.0
    assert least_probability(hits, runs, miss) == pytest.approx(low, rel=1e-7, abs=1e-12)
    assert most_probability(hits, runs, miss) == pytest.approx(high, rel=1e-7)


def test_an_event_proves_what_its_definition_says() -> None:
    assert epsilon_of_event(0.5, 0.25, 0.0) == pytest.approx(np.log(2))
    assert epsilon_of_event(0.5, 0.25, 0.25) == 0.0
    assert mu_of_event(stats.norm.cdf(0.7), stats.norm.cdf(-0.7)) == pytest.approx(1.4)
    for mu in (0.1, 1.0, 4.0):
        epsilon = epsilon_of_mu(mu, 1e-6)
        delta = stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        assert delta == pytest.approx(1e-6, rel=1e-6)


def test_noise_that_two_numbers_share_is_seen_by_what_is_learned_alone() -> None:
    """Both numbers have the noise of one; the claimed law says mu 0.2. All answers are fixed."""
    made = np.random.default_rng(1)
    noise = np.rint(made.normal(0, 10, size=(2, 4_000, 1))).astype(np.int64)
    sides = [np.hstack([noise[0], noise[0]]), np.hstack([noise[1] + 2, noise[1]])]
    part = AttackedPart(gaussian=True, scale=10.0, base=np.zeros(2, dtype=np.int64), change=np.array([2, 0]))
    learners: Mapping[str, Learner] = {"learned": linear_score, "law": lambda one, other: ratio_score([part])}
    best = dict.fromkeys(learners, 0.0)
    for each in evidence(sides[0], sides[1], learners, 1e-6, 1e-7):
        best[each.statistic] = max(best[each.statistic], each.epsilon(1e-6))
    assert best["learned"] > 4
    assert best["law"] < 1


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dprelease.yaml").write_text("ledger: sqlite:///ledger.db\npolicy: policy.yaml\n", encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "spec.yaml").write_text(SPEC, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_reads_no_data_charges_nothing_and_writes_what_it_found(project: Path) -> None:
    before = sorted(path.name for path in project.iterdir())
    done = CliRunner().invoke(app, ["audit", "spec.yaml", "--budget-seconds", "1", "--out", "audit.json", "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads((project / "audit.json").read_text(encoding="utf-8"))
    assert facts == json.loads(done.stdout)
    assert facts["breached"] is False
    assert facts["chance_of_a_false_breach"] == MISS
    assert [each["draw"] for each in facts["draws"]][-1].startswith("whole release")
    assert all(each["proved"] <= each["claimed"] for each in facts["draws"])
    assert sorted(path.name for path in project.iterdir()) == sorted([*before, "audit.json"])


@pytest.mark.usefixtures("project")
def test_a_breach_is_told_with_exit_code_7(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of a hundredth of the scale, in the function that measures a release."""
    real = MECHANISMS["discrete_gaussian"].draw
    monkeypatch.setattr(
        type(MECHANISMS["discrete_gaussian"]),
        "draw",
        lambda self, box, scale, sampler: real(box, scale / 128, sampler),
    )
    told = CliRunner().invoke(app, ["audit", "spec.yaml", "--budget-seconds", "1"])
    assert isinstance(told.exception, CheckFailed)
    assert (told.exception.code, told.exception.exit_code) == ("DPR-C140", 7)
    assert "BREACH" in told.stdout
