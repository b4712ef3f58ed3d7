"""The bounds of an audit against SciPy's, its statistics on laws that are known, and its command."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from dprelease.audit import MISS
from dprelease.audit.audit import OF_CANARIES, TINY
from dprelease.audit.bounds import (
    epsilon_of_event,
    epsilon_of_guesses,
    epsilon_of_mu,
    least_probability,
    most_probability,
    mu_of_event,
)
from dprelease.audit.canaries import guess_canaries
from dprelease.audit.choices import part_of_the_claim
from dprelease.audit.evidence import AttackedPart, Learner, evidence, linear_score, listed_score, ratio_score
from dprelease.audit.pairs import AuditData
from dprelease.audit.search import NeighbourPair, Searched, at_the_threshold, groups_of
from dprelease.cli.app import app
from dprelease.errors import CheckFailed
from dprelease.noise import MECHANISMS, ExactHistogram, ExactKeys
from dprelease.noise.truth import true_keys
from dprelease.starter.extremes import ExtremeUnits
from tests.faults.planting import processor_clock
from tests.faults.specs import plan_under_attack
from tests.planned import SPEC, plan_of

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


def test_what_is_learned_is_counted_on_other_runs() -> None:
    """No two answers are alike: whoever counted where he learned would tell the two sides apart without fail."""
    answers = np.arange(800, dtype=np.int64).reshape(2, 400, 1)
    found = evidence(answers[0], answers[1], {"how often": listed_score}, 0.0, 1e-6)
    assert found
    assert all(each.epsilon(0.0) == 0 for each in found)


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


@pytest.mark.parametrize(
    ("right", "guesses", "canaries", "delta"), [(1100, 1400, 1400, 0.0), (90, 100, 400, 1e-12), (30, 30, 90, 1e-10)]
)
def test_right_guesses_prove_what_the_theorem_says(right: int, guesses: int, canaries: int, delta: float) -> None:
    """By SciPy's binomial law: at what is proved so many are rightly guessed seldom enough, and a little above it not."""
    proved = epsilon_of_guesses(right, guesses, canaries, delta, 1e-6)
    most = np.log(right / (guesses - right)) if right < guesses else 20.0

    def chance(epsilon: float) -> float:
        law = stats.binom(guesses, 1 / (1 + np.exp(-epsilon)))
        windows = [(law.cdf(right - 1) - law.cdf(right - i - 1)) / i for i in range(1, right + 1)]
        return float(law.sf(right - 1) + 2 * canaries * delta * max(windows))

    assert 0 < proved < most
    assert chance(proved) <= 1e-6 < chance(proved + most / 390)


def test_the_page_of_audits_tells_how_many_guesses_prove_what() -> None:
    """By SciPy's binomial tail of as many right ones as a claim of 1 has on average; windows of delta are below 1.

    What the bound proves is rounded down, by less than a hundredth of the guesses.
    """
    page = " ".join((Path(__file__).resolve().parents[2] / "docs/audits.md").read_text(encoding="utf-8").split())
    told = re.search(r"about ([\d,]+) guesses prove a tenth and ([\d,]+) a half", page)
    sure = re.search(r"(\d+) right guesses of (\d+) prove 1 and more", page)
    assert told is not None
    assert sure is not None
    assert sure[1] == sure[2]

    def first(epsilon: float, right: float) -> int:
        """The fewest guesses of which so large a part is right seldom enough."""
        guesses = np.arange(1, 2000)
        tail = stats.binom.sf((right * guesses).astype(int) - 1, guesses, 1 / (1 + np.exp(-epsilon)))
        return int(guesses[tail + 2 * guesses * float(TINY) <= MISS * OF_CANARIES][0])

    for text, epsilon in zip(told.groups(), (0.1, 0.5), strict=True):
        fewest = first(epsilon, np.e / (1 + np.e))
        assert fewest <= int(text.replace(",", "")) <= 1.01 * fewest
    assert int(sure[1]) == first(1.0, 1.0)


def test_guesses_by_coins_prove_nothing_and_deltas_take_their_part() -> None:
    assert epsilon_of_guesses(700, 1400, 1400, 0.0, 0.05) == 0
    assert epsilon_of_guesses(1100, 1400, 1400, 1e-3, 1e-6) == 0
    few, many = (epsilon_of_guesses(900, 1000, canaries, 1e-9, 1e-6) for canaries in (1000, 40_000))
    assert few > many > 0


def test_a_true_law_is_seldom_above_its_claim() -> None:
    """Randomized response of epsilon 1, 2,000 canaries each time: of 300 times none is above it at 1e-6, and most near."""
    drawn = np.random.default_rng(3).binomial(2000, np.e / (1 + np.e), size=300)
    proved = np.array([epsilon_of_guesses(int(right), 2000, 2000, 0.0, 1e-6) for right in set(drawn.tolist())])
    assert proved.max() <= 1
    assert np.median(proved) > 0.7


MANY = (
    SPEC.partition("  income:\n    table")[0]
    .replace('["01", "02", "06"]', "{from: 1, to: 40}")
    .replace("text, keys: {from", "integer, keys: {from")
)


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["{epsilon: 20}", "{epsilon: 20, delta: 1e-6}"])
def test_canaries_in_a_table_are_guessed_and_never_better_than_is_claimed(budget: str) -> None:
    """Each is in cells of its own, so that a few releases that are read anew are some hundred tests."""
    plan = plan_of(MANY.replace("{epsilon: 1, delta: 1e-9}", budget))
    with processor_clock(), closing(AuditData(plan, {})) as data:
        ((table, steps),) = groups_of(data)
        delta = 0.0 if plan.budget.delta == 0 else 1e-14
        found = guess_canaries(data, steps, table, 6.0, delta, 1e-6)
    assert found is not None
    assert found.canaries > 24  # of several releases
    assert 0.3 < found.epsilon <= 20


def test_the_last_unit_of_a_pair_makes_a_key_reach_the_threshold() -> None:
    """One copy of it too few are on the first data set, under ids of their own; a unit has one row."""
    plan = plan_under_attack("keys")
    with closing(AuditData(plan, {})) as data:
        selection = next(each for each in data.steps if each.step.selecting is not None)
        step, unit = selection.step, {"people": [{"who": "last", "place": "a", "sex": "1", "income": "3"}]}
        found = Searched(best={step.id: NeighbourPair(([], [unit]), {}, {}, np.ones(1, dtype=np.int64), 1.0)})
        at_the_threshold(data, selection, found)
    pair = found.edges[step.id]
    boxes = [each[step.id][0] for each in (pair.first, pair.second)]
    assert all(isinstance(box, ExactKeys) for box in boxes)
    counts = [true_keys(box) for box in boxes if isinstance(box, ExactKeys)]
    assert step.selecting is not None
    assert counts == [{("a",): step.selecting.threshold - 1}, {("a",): step.selecting.threshold}]
    assert not found.broken


def test_rows_without_an_id_stand_in_one_cell_with_other_values() -> None:
    """Whoever takes them for one unit clips their sum: it shows where a small one and a large one are together."""
    plan = plan_under_attack("nobody_sums")
    units = ExtremeUnits(plan.catalog.tables, {}, [], "any")
    rows = [unit["people"][0] for unit in (units.unit("people") for _ in range(400))]
    alone = [row for row in rows if row["who"] == ""]
    meeting = [b for a, b in pairwise(alone) if (a["place"], a["sex"]) == (b["place"], b["sex"])]
    assert 60 < len(alone) < 140
    assert len(meeting) > len(alone) / 3
    assert len({row["income"] for row in meeting}) > 3


def test_how_far_a_pair_shows_a_quantile_is_what_its_law_says_of_every_grid_value() -> None:
    """By the scores as they are defined, over all 21 values: the best event of those with the largest ratios."""
    (step,) = plan_under_attack("quantile").steps
    assert step.choosing is not None

    def held(values: list[int]) -> ExactHistogram:
        counts = np.ones(len(values), dtype=np.int64)
        return ExactHistogram(1, np.zeros(len(values), dtype=np.int64), np.array(values, dtype=np.int64), counts)

    def law(values: list[int]) -> dict[int, float]:
        half = len(values) / 2
        scores = [max(sum(v < x for v in values) - half, sum(v > x for v in values) - half, 0) for x in range(21)]
        weights = np.exp(-np.array(scores) / float(step.scale))
        return dict(enumerate((weights / weights.sum()).tolist()))

    for one, other in (([19], [19, 20]), ([3, 15], [3, 15, 0]), ([], [20]), ([0, 0, 20], [0, 0, 20, 20])):
        best = 0.0
        for here, there in ((law(one), law(other)), (law(other), law(one))):
            order = sorted(here, key=lambda x: there[x] / here[x])
            for last in range(1, 22):
                above, below = (sum(each[x] for x in order[:last]) for each in (here, there))
                best = max(best, np.log(above / below) if above >= 0.005 else 0.0)
        claimed = float(step.choosing.rounds * step.choosing.spread / step.scale)
        assert part_of_the_claim(step, held(one), held(other)) == pytest.approx(min(1.0, best / claimed), rel=1e-6)
    assert part_of_the_claim(step, held([4, 5]), held([4, 5])) == 0
