"""Prefixes and ranges of many keys: near the least error, planned in seconds, and as the documents say."""

from __future__ import annotations

import math
from pathlib import Path
from time import process_time

import numpy as np
import pytest

from dprelease.catalog.factor import Factor, factor_sensitivity
from dprelease.catalog.mirrored import Mirror
from dprelease.errors import BrokenPromiseError
from dprelease.estimate.mirrored import least_eigenvalue
from dprelease.estimate.ranges import Which, rows_of_a_line, variances_of
from dprelease.plan.design.mirrored import least_mean_variance
from dprelease.plan.design.ranges import optimal_gaussian, prefix_gram, range_gram
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.lower.ranges import mirrored_factor
from dprelease.plan.verify.factor import _written
from dprelease.plan.verify.lines.mirrored_line import worst_mirrored
from dprelease.plan.verify.whole_plan import has_room, verify
from dprelease.privacy.unit import Neighboring
from tests.planned import plan_of

ROOT = Path(__file__).parents[2]
OF = {"prefixes": prefix_gram, "all": range_gram}
SPEC = """
dprelease: 1
release: {{name: ages, period: 2024, title: Ages}}
privacy:
  unit: {{entity: person}}
  neighboring: {relation}
  budget: {{epsilon: 1, delta: 1e-9}}
tables:
  people:
    account: people
    source: {{file: people.csv}}
    columns: {{age: {{type: integer, keys: {{from: 1, to: {keys}}}}}}}
queries:
  ages:
    table: people
    by: [age]
    ranges: {{of: age, which: {which}}}
    measures: {{persons: {{count: rows}}}}
"""


def planned(keys: int, which: Which, relation: str = "add_remove") -> tuple[ReleasePlan, Step]:
    made = plan_of(SPEC.format(keys=keys, which=which, relation=relation))
    return made, made.steps[0]


def root(keys: int) -> Factor:
    return Factor(shape=(keys,), axis=0, kind="root", grain=2**14)


def l2_squared(factor: Factor) -> float:
    """For one row a unit that is there or not."""
    return float(factor_sensitivity(factor, 1, Neighboring.ADD_REMOVE).l2_squared)


def error(factor: Factor, which: Which) -> float:
    """The total squared error at mu = 1, one row a unit."""
    return l2_squared(factor) * float(variances_of(factor, factor.length, which).sum())


@pytest.mark.parametrize("which", ["prefixes", "all"])
@pytest.mark.parametrize("keys", [2, 17, 130])
def test_the_verifier_finds_the_worst_sum_of_a_mirrored_line(keys: int, which: Which) -> None:
    """Beside the covariance of all sums, from the inverse of the whole matrix."""
    factor = mirrored_factor((keys,), 0, which)
    written = _written(factor, keys)
    assert written is not None
    assert (written == factor.matrix).all()
    prefixes = np.tri(keys)
    sums = np.vstack([prefixes, *(prefixes[at:] - prefixes[at - 1] for at in range(1, keys))])
    solved = (prefixes if which == "prefixes" else sums) @ np.linalg.inv(factor.matrix.astype(np.float64))
    assert worst_mirrored(factor, written, which) == pytest.approx(float((solved**2).sum(axis=1).max()), rel=1e-9)


@pytest.mark.parametrize("which", ["prefixes", "all"])
@pytest.mark.parametrize("keys", [2, 3, 5, 17, 48, 129, 1000, pytest.param(4096, marks=pytest.mark.slow)])
def test_a_mirrored_line_is_within_a_hundredth_of_the_best_gaussian_noise_at_every_size(
    keys: int, which: Which
) -> None:
    """Against a bound that is told in n log n steps, and which is itself held against the one by duality below."""
    factor = mirrored_factor((keys,), 0, which)
    assert factor.mirror is not None
    least = rows_of_a_line(keys, which) * least_mean_variance(keys, factor.mirror)
    assert least <= error(factor, which) <= least * 1.007**2
    assert error(root(keys), which) > error(factor, which)


def rows_of_table(page: str, columns: int) -> list[list[str]]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = [[each.strip() for each in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return [row for row in found if len(row) == columns and row[0][:1].isdigit()]


SAID = [
    pytest.param(int(keys), "all" if told == "all ranges" else "prefixes", *map(float, figures), id=f"{keys}-{told}")
    for keys, told, *figures in rows_of_table("proofs/prefix-draws.md", 5)
]


@pytest.mark.thin
@pytest.mark.parametrize(("keys", "which", "before", "now", "bound"), SAID)
def test_the_proof_says_how_much_a_mirrored_line_errs(
    keys: int, which: Which, before: float, now: float, bound: float
) -> None:
    factor = mirrored_factor((keys,), 0, which)
    assert factor.mirror is not None
    assert least_eigenvalue(factor) > 2800
    least = least_mean_variance(keys, factor.mirror) * rows_of_a_line(keys, which)
    assert bound == pytest.approx((least / rows_of_a_line(keys, which)) ** 0.5, abs=6e-4)
    assert now == pytest.approx((error(factor, which) / least) ** 0.5, abs=6e-5)
    assert now <= 1.005
    if keys <= 1000:
        assert before == pytest.approx((error(root(keys), which) / least) ** 0.5, abs=6e-5)
        pair = (factor, root(keys))
        ours, theirs = (l2_squared(each) * float(variances_of(each, keys, which).max()) for each in pair)
        assert 1 < (ours / theirs) ** 0.5 < 1.023  # of the largest error, which a target limits


@pytest.mark.parametrize(
    ("keys", "which", "kind"),
    [
        (30, "prefixes", "matrix"),
        (30, "all", "matrix"),
        (130, "prefixes", "mirrored_prefixes"),
    ],
)
def test_a_target_is_met_by_the_draw_whose_worst_sum_errs_least(keys: int, which: Which, kind: str) -> None:
    """With a rho of 1.3 to 4.6 % less than by the draw whose sums err least in the mean, as a share has it."""
    text, target = SPEC.format(keys=keys, which=which, relation="add_remove"), "    target: {persons: {margin: 100}}\n"
    aimed, usual, both = (plan_of(text + more) for more in (target, "", target + "    share: 1\n"))
    assert [each.steps[0].factor.kind for each in (aimed, usual, both) if each.steps[0].factor] == ["root", kind, kind]
    assert aimed.outputs[0].margin == "100"
    assert verify(aimed) == aimed.loss[aimed.certified]
    assert usual.steps[0].factor is not None
    worst = l2_squared(usual.steps[0].factor) * float(variances_of(usual.steps[0].factor, keys, which).max())
    by_root = l2_squared(root(keys)) * float(variances_of(root(keys), keys, which).max())
    told = {each.name: float(each.noise) for each in aimed.considered}
    assert 1.013 < worst / by_root < 1.047
    assert told["ages: near-optimal matrix"] == pytest.approx((worst / by_root) ** 0.5, abs=1e-3)


@pytest.mark.parametrize(("which", "at"), [("prefixes", 0), ("all", 1)])
def test_the_page_says_how_much_512_keys_err(which: Which, at: int) -> None:
    rows = [row for row in rows_of_table("measures/ranges.md", 5) if row[0].startswith("512 keys")]
    factor = mirrored_factor((512,), 0, which)
    counts = float(variances_of(None, 512, which).mean()) ** 0.5
    told = [counts, *((error(each, which) / rows_of_a_line(512, which)) ** 0.5 for each in (root(512), factor))]
    assert [float(rows[at][column]) for column in (1, 3, 4)] == pytest.approx(told, rel=2e-3)


@pytest.mark.parametrize(("which", "kind"), [("prefixes", "mirrored_prefixes"), ("all", "mirrored_ranges")])
@pytest.mark.parametrize("keys", [2, 3, 5, 17, 48])
def test_the_bound_for_many_keys_is_below_what_duality_gives_and_by_little(
    keys: int, which: Which, kind: Mirror
) -> None:
    """The sum of the squared diagonal of the root of W'W, by dense matrices, is below the dual at its own weights."""
    bound = rows_of_a_line(keys, which) * least_mean_variance(keys, kind)
    values, vectors = np.linalg.eigh(OF[which](keys))
    diagonal = np.diag((vectors * np.sqrt(values)) @ vectors.T)
    assert bound == pytest.approx(float((diagonal**2).sum()), rel=1e-9)
    sides = diagonal / np.sqrt((diagonal**2).sum())
    dual = float(np.sqrt(np.linalg.eigvalsh(OF[which](keys) * np.outer(sides, sides))).sum()) ** 2
    best = optimal_gaussian(OF[which](keys), tolerance=2e-3)
    assert bound <= dual * (1 + 1e-9)
    assert dual <= best.error * (1 + 1e-9)
    assert bound >= best.error * 0.99**2


@pytest.mark.parametrize("which", ["prefixes", "all"])
@pytest.mark.parametrize("keys", [129, 300])
def test_many_keys_are_drawn_by_a_mirrored_line_and_verify(keys: int, which: Which) -> None:
    made, step = planned(keys, which)
    assert step.factor == mirrored_factor((keys,), 0, which)
    assert verify(ReleasePlan.from_canonical(made.canonical())) == made.loss[made.certified]
    output = made.outputs[0].model_copy(update={"standard_error": "1"})
    with pytest.raises(BrokenPromiseError, match="does not verify"):
        verify(made.model_copy(update={"outputs": (output,)}))


@pytest.mark.parametrize("which", ["prefixes", "all"])
def test_a_line_without_an_inverse_is_refused(which: Which) -> None:
    """The transform of a box is below 0 at some frequencies, and near 0 at others."""
    made, step = planned(200, which)
    assert step.factor is not None
    flat = step.factor.model_copy(update={"line": (2, *[2] * 100, *[0] * 100), "times": (1,) * 200})
    sensitivity = factor_sensitivity(flat, 1, Neighboring.ADD_REMOVE)
    lie = step.model_copy(update={"factor": flat, "sensitivity": sensitivity, "scale": step.scale})
    with pytest.raises(BrokenPromiseError, match="no inverse for certain"):
        verify(made.model_copy(update={"steps": (lie,)}))


@pytest.mark.slow
@pytest.mark.parametrize("which", ["prefixes", "all"])
def test_the_largest_query_is_planned_and_verified_in_seconds(which: Which) -> None:
    """In 1.5 seconds of a processor where it is alone; more than twice that is left for one that is not."""
    begun = process_time()
    made, step = planned(4096, which, "replace_one")
    assert verify(made) == made.loss[made.certified]
    assert process_time() - begun < 4
    assert has_room(step)
    assert len(made.canonical()) < 100_000
    worst = float(variances_of(step.factor, 4096, which).max())
    assert float(made.outputs[0].standard_error or 0) == pytest.approx((worst * step.law.variance) ** 0.5, rel=1e-5)


@pytest.mark.parametrize("which", ["prefixes", "all"])
def test_a_plan_that_drew_many_keys_by_a_root_goes_on_and_verifies(
    which: Which, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As plans were before lines were mirrored."""
    room = "dprelease.plan.lower.ranges"
    monkeypatch.setattr(f"{room}.mirrored_factor", lambda shape, axis, which: root(shape[axis]))
    monkeypatch.setattr(f"{room}.least_eigenvalue", lambda factor: math.inf)
    made, step = planned(211, which)
    assert step.factor == root(211)
    assert verify(ReleasePlan.from_canonical(made.canonical())) == made.loss[made.certified]
