"""What a plan says of several units: charged, told, derived again, and held against bundles of older versions."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.ledger.model.balance import terms_of
from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.explain.exchanges import exchanged
from dprelease.plan.explain.facts import plan_facts
from dprelease.plan.verify import groups as verify_groups
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy import group
from dprelease.privacy.budget import Budget
from dprelease.privacy.event import BoundedRange, Composed, KeySelection, KNorm, Repeated
from dprelease.privacy.filters import spent_on, within
from dprelease.privacy.unit import Neighboring
from dprelease.publish.accounting.guarantee import guarantee
from dprelease.publish.accounting.semantics import semantics
from dprelease.publish.bundle.checks.whole_bundle import as_written_before, untrue
from tests.planned import SPEC, VILLAGES, plan_of
from tests.unit.series_example import series_plan

F = Fraction
HOMES = Account(
    name="people",
    unit="household",
    neighboring=Neighboring.ADD_REMOVE,
    composition="zcdp",
    lifetime=Budget(epsilon=F(30), delta=F(1, 10**6)),
    selecting=F(5, 10**7),
    nests={"person": 5},
)


def villages(budget: str = "{epsilon: 2, delta: 1e-7}", account: Account | None = None) -> ReleasePlan:
    text = VILLAGES.replace("{epsilon: 2, delta: 1e-7}", budget)
    return plan_of(text, accounts=None if account is None else [account])


def chosen(plan: ReleasePlan) -> KeySelection:
    (found,) = [event for event in plan.events if isinstance(event, KeySelection)]
    return found


def shown(plan: ReleasePlan, units: int) -> float:
    """P(units + noise >= threshold) of the plan's one selection, by plain sums."""
    event, k = chosen(plan), np.arange(-400, 401)
    weight = np.exp(-((k / float(event.noise.scale)) ** 2) / 2)
    return float(weight[k >= event.threshold - units].sum() / weight.sum())


def test_an_account_of_households_is_charged_what_five_persons_may_show() -> None:
    made = villages("{epsilon: 2, delta: 1e-7}\n  noise: gaussian", HOMES)
    charged = made.cost_of(HOMES).events[0]
    assert isinstance(charged, KeySelection)
    assert (charged.units, charged.threshold, charged.keys) == (5, 21, 1)
    assert float(charged.delta) == pytest.approx(5.9163e-6, rel=1e-4) == shown(made, 5)
    (step,) = [step for step in made.steps if step.selecting is not None]
    assert charged.delta > 20 * 5 * step.selecting.delta  # type: ignore[union-attr]
    persons = made.event_of("people")
    assert persons == made.cost_of(made.accounts[0].model_copy(update={"unit": "person", "nests": {}}))
    assert persons.events[0] == step.event  # of one unit ledgers hold what they always held
    verify(made)
    # which is more than that account keeps for selections: it is refused there, where it was granted before
    assert not within(terms_of(HOMES), spent_on(terms_of(HOMES), made.cost_of(HOMES)), HOMES.lifetime)


@pytest.mark.thin(first=1)
@pytest.mark.parametrize(
    ("budget", "told", "true"),
    [
        ("{epsilon: 1, delta: 1e-8}", 8e-8, 7.6e-7),
        ("{epsilon: 2, delta: 1e-7}", 8e-7, 2.06e-4),
        ("{epsilon: 4, delta: 1e-7}", 8e-7, 0.029),
    ],
)
def test_groups_of_eight_are_told_a_delta_that_is_true(budget: str, told: float, true: float) -> None:
    made = villages(budget)
    (eight,) = [each for each in semantics(made) if each.size == 8]
    assert shown(made, 8) == pytest.approx(true, rel=2e-2)
    assert shown(made, 8) > 9 * told
    assert eight.loss is not None
    assert float(eight.loss.delta) > shown(made, 8)
    rows = {row["size"]: row for row in guarantee(made)["semantics"] if row["kind"] == "group"}
    assert float(rows[8]["loss"]["delta"]) > true


def test_a_selection_is_written_with_all_that_prices_a_group() -> None:
    made = villages()
    first = plan_facts(made)["steps"][0]
    assert KeySelection.model_validate(first["event"]) == chosen(made)
    assert first["selecting"]["threshold"] == first["event"]["threshold"] == 21
    assert as_written_before(plan_facts(made)["steps"], made)[0]["event"]["kind"] == "composed"


@pytest.mark.parametrize("part", ["group_delta", "_scaled"])
def test_verify_refuses_a_price_of_a_group_that_is_too_small(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the delta, or the noise of one unit."""
    made, real = villages(), getattr(group, part)
    wrong = (lambda *a: real(*a) / 2) if part == "group_delta" else (lambda one, k: one)
    monkeypatch.setattr(group, part, wrong)
    with pytest.raises(BrokenPromiseError, match=r"units alone hold|less of 2 units"):
        verify_groups.check_groups(made)


def test_the_second_derivation_is_the_same_figure() -> None:
    for made in (villages(), villages("{epsilon: 1, delta: 1e-8}")):
        (step,) = [step for step in made.steps if step.selecting is not None]
        for k in (1, 2, 5, 8):
            grown = group.of_event(chosen(made), k)
            assert isinstance(grown, KeySelection)
            assert verify_groups.shown_of(step, 1, k) == pytest.approx(shown(made, k) if k > 1 else shown(made, 1))
            assert verify_groups.shown_of(step, 1, k) <= float(grown.delta) * (1 + 1e-9)
    assert verify_groups.shown_of(step, 1, 10**6) == 1


# ---------------------------------------------------------------- how tight


def tight(scale: float, shift: int, delta: float) -> float:
    """The least epsilon of one discrete Gaussian cell that moves by so many steps: from its masses, by halving."""
    x = np.arange(-int(30 * scale) - shift, int(30 * scale) + shift + 1)
    p = np.exp(-((x / scale) ** 2) / 2)
    p /= p.sum()
    loss = (2 * shift * x + shift * shift) / (2 * scale**2)
    low, high = 0.0, 500.0
    for _ in range(60):
        middle = (low + high) / 2
        over = loss > middle
        found = float((p[over] * -np.expm1(middle - loss[over])).sum())
        low, high = (middle, high) if found > delta else (low, middle)
    return high


ONE_COUNT = """
dprelease: 1
release: {name: survey, period: 2024}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
  noise: gaussian
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: integer, keys: [1, 2, 3]}
queries:
  n: {table: people, by: [sex], measures: {n: {count: rows}}}
"""


def test_groups_and_exchanges_under_gaussian_noise_are_told_the_tight_figure() -> None:
    """Epsilon 1 at 1e-9: two persons 1.988 and an exchange 1.39, by sums over the lattice alone; before 2.17."""
    made = plan_of(ONE_COUNT)
    scale = float(made.steps[0].scale)
    rows = {(each.kind, each.size): each.loss for each in semantics(made)}
    for k in (2, 4, 8):
        loss = rows["group", k]
        assert loss is not None
        assert loss.delta == F(1, 10**9)
        assert float(loss.epsilon) == pytest.approx(tight(scale, k, 1e-9), rel=2e-6)
    # two cells by one each, in a rotated lattice: a little more than a continuous Gaussian with the root of two
    other = rows["other_unit", 1]
    assert other is not None
    by_hand = tight_of_two(scale, 1e-9)
    assert float(other.epsilon) == pytest.approx(by_hand, rel=2e-6)
    assert float(other.epsilon) < 0.75 * float(rows["group", 2].epsilon)  # type: ignore[union-attr]


@pytest.mark.parametrize("k", [2, 4, 8])
def test_dp_accounting_finds_the_same_figure_for_a_group(k: int) -> None:
    """Of one discrete Gaussian cell that moves by k: its own composed distribution, on a fine grid."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    made = plan_of(ONE_COUNT)
    theirs = pld.from_discrete_gaussian_mechanism(
        float(made.steps[0].scale), sensitivity=k, value_discretization_interval=1e-4, use_connect_dots=True
    ).get_epsilon_for_delta(1e-9)
    ours = next(each.loss for each in semantics(made) if each.size == k)
    assert ours is not None
    assert float(ours.epsilon) == pytest.approx(theirs, rel=1e-3)


def tight_of_two(scale: float, delta: float) -> float:
    """Of two cells that move by one each: the loss depends on the sum of two masses alone."""
    x = np.arange(-int(20 * scale), int(20 * scale) + 1)
    p = np.exp(-((x / scale) ** 2) / 2)
    p /= p.sum()
    both = np.convolve(p, p)
    total = np.arange(2 * x[0], 2 * x[-1] + 1)
    loss = (2 * total + 2) / (2 * scale**2)
    low, high = 0.0, 500.0
    for _ in range(60):
        middle = (low + high) / 2
        over = loss > middle
        found = float((both[over] * -np.expm1(middle - loss[over])).sum())
        low, high = (middle, high) if found > delta else (low, middle)
    return high


@pytest.mark.thin(every=2)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("table", ["people", "visits"])
def test_an_exchange_has_the_reach_that_a_plan_of_replaced_units_has(noise: str, table: str) -> None:
    """Step by step: the sensitivities of the same queries under ``replace_one``, with this plan's noise."""
    text = SPEC.replace("delta: 1e-9}", f"delta: 1e-9}}\n  noise: {noise}")
    if table == "visits":
        text = text.replace(
            "source: {file: people.csv}", "unit_id: id\n    bounds: {max_rows: 3}\n    source: {file: p.csv}"
        )
        text = text.replace("clip: [0, 200000]", "clip: [0, 200000], clip_per: row")
    made = plan_of(text)
    other = plan_of(text.replace("unit: {entity: person}", "unit: {entity: person}\n  neighboring: replace_one"))
    assert exchanged(other) == other.events
    reach = {(step.aggregate, step.joined): step for step in other.steps}
    compared = 0
    for step, event in zip(made.steps, exchanged(made), strict=True):
        twin = reach.get((step.aggregate, step.joined))
        if twin is None or isinstance(event, KNorm) != (twin.gauge is not None):
            continue
        compared += 1
        if isinstance(event, KNorm):
            assert event.gauge == twin.gauge
        else:
            assert event.sensitivity == twin.sensitivity  # type: ignore[union-attr]
            assert event.scale == step.scale  # type: ignore[union-attr]
    assert compared


RANGED = (
    "    by: [sex]\n    measures: {visits: {count: rows}}\n",
    "    by: [sex, hours]\n    ranges: {of: hours, which: prefixes}\n    measures: {visits: {count: rows}}\n",
)
CROSSED = (
    "    by: [sex]\n    measures: {visits: {count: rows}}\n",
    "    marginals: {sets: [[sex], [sex, hours]]}\n    measures: {visits: {count: rows}}\n",
)
KEYED = ("hours: {type: integer, range: [-5, 20]}", "hours: {type: integer, keys: {from: 0, to: 5}}")


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (("{visits: {count: rows}}", "{visits: {sum: hours, clip: [-5, 20]}}"),),
        (("{visits: {count: rows}}", "{wait: {mean: hours, clip: [0, 10]}}"),),
        (RANGED, KEYED),
        (CROSSED, KEYED),
    ],
)
def test_a_row_in_the_place_of_another_one_of_a_series_moves_all_draws_that_read_it(
    changes: tuple[tuple[str, str], ...],
) -> None:
    """The very sensitivities of a plan of replaced rows: each reading counts, and that of one period is no bound."""
    made = series_plan(*changes)
    other = series_plan(*changes, ("  budget:", "  neighboring: replace_one\n  budget:"))
    assert len(made.steps) == len(other.steps)

    for step, event, twin in zip(made.steps, exchanged(made), other.steps, strict=True):
        assert step.series is not None
        assert (step.aggregate, step.factor, step.residual) == (twin.aggregate, twin.factor, twin.residual)
        # A workload takes all its draws for contrasts, whose two changes can pull alike; those of counts cannot.
        pulls = 2 if CROSSED in changes and step.residual is None else 1
        assert pulls * event.sensitivity.l2_squared == twin.sensitivity.l2_squared  # type: ignore[union-attr]
        assert event.scale == step.scale  # type: ignore[union-attr]
        assert event.sensitivity.l2_squared >= 2 * step.sensitivity.l2_squared  # type: ignore[union-attr]
    rows = {each.kind: each.loss for each in semantics(made) if each.attribute is None}
    assert rows["other_unit"] is not None
    assert rows["unit"] is not None
    assert rows["unit"].epsilon < rows["other_unit"].epsilon


def test_a_unit_in_the_place_of_another_one_can_leave_the_part_for_the_rest() -> None:
    """One cell: the part falls by one and the rest grows by one, where the part alone moves by one."""
    made = plan_of(
        """
dprelease: 1
release: {name: a, period: 2024}
privacy: {unit: {entity: person}, budget: {epsilon: 1, delta: 1e-9}, noise: laplace}
tables:
  people:
    account: demo
    source: {file: people.csv}
    columns: {income: {type: decimal, range: [0, 500000]}}
queries:
  q:
    table: people
    by: []
    measures: {n: {count: rows}, poor: {count: rows, where: "income < 10000"}, share: {ratio: [poor, n]}}
    expect: {n: 100}
"""
    )
    (step,), (event,) = made.steps, exchanged(made)

    assert [each.kind for each in step.parts] == ["rest", "rows"]
    reach = event.sensitivity  # type: ignore[union-attr]
    assert (reach.l0, reach.l1, reach.l2_squared, reach.linf) == (2, 2, 2, 1)
    told = {each.kind: float(each.loss.epsilon) for each in semantics(made) if each.loss and each.attribute is None}
    assert told["other_unit"] == pytest.approx(2, rel=1e-3)


@pytest.mark.slow
def test_choices_coins_and_selections_are_exchanged_too() -> None:
    quantile = SPEC.replace(
        "total: {sum: income",
        "middle: {quantiles: income, at: [0.5], clip: [0, 200000], from: ranks}\n      total: {sum: income",
    )
    made = plan_of(quantile)
    (median,) = [at for at, step in enumerate(made.steps) if step.choosing is not None]
    one, other = made.events[median], exchanged(made)[median]
    assert isinstance(one, Repeated | BoundedRange)
    told = [event.event if isinstance(event, Repeated) else event for event in (one, other)]
    assert all(isinstance(each, BoundedRange) for each in told)
    selected = exchanged(villages())[0]
    assert isinstance(selected, KeySelection)
    assert selected.noise.sensitivity.l1 == 2
    assert (selected.keys, selected.delta) == (1, chosen(villages()).delta)
    coined = plan_of(VILLAGES.replace("delta: 1e-7}", "delta: 1e-7}\n  noise: laplace"))
    (at,) = [at for at, step in enumerate(coined.steps) if step.selecting is not None]
    if coined.steps[at].mechanism == "optimal_selection":
        alone, two = coined.events[at], exchanged(coined)[at]
        assert two == Repeated(event=alone, count=2)


# ---------------------------------------------------------------- bundles of older versions


def rows_of(made: ReleasePlan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(json.dumps(guarantee(made)["semantics"]))
    return rows


def test_what_an_older_version_said_too_much_stays_true() -> None:
    made = plan_of()
    said = rows_of(made)
    for row in said:
        row["loss"] = {**row["loss"], "epsilon": str(float(row["loss"]["epsilon"]) * 1.05)}
    assert untrue(said, rows_of(made), made) == []
    assert untrue(rows_of(made), rows_of(made), made) == []
    for row in said:
        row["loss"] = None
    assert untrue(said, rows_of(made), made) == []


def test_what_was_never_true_is_named_with_its_erratum() -> None:
    """The rows that were published: k times the delta of one unit."""
    made = villages()
    said = rows_of(made)
    groups = [row for row in said if row["kind"] == "group"]
    for row, epsilon in zip(groups, ("4.4059088", "9.4269087", "21.322147"), strict=True):
        row["loss"] = {"epsilon": epsilon, "delta": f"{row['size']}e-7"}
    told = untrue(said, rows_of(made), made)
    assert len(told) == 2 - (shown(made, 4) <= 4e-7) + (shown(made, 2) > 2e-7)
    assert all("erratum key-selection" in each and "false" in each for each in told)
    assert "8 at once" in told[-1]
    assert f"{shown(made, 8):.3g}" in told[-1]


def test_rows_that_claim_less_than_is_proved_or_make_no_sense_are_refused() -> None:
    made = plan_of()
    low = rows_of(made)
    low[1]["loss"]["epsilon"] = "0.001"
    assert "less than is proved" in untrue(low, rows_of(made), made)[0]
    bad = rows_of(made)
    bad[1]["loss"] = {"epsilon": "many"}
    assert "no loss" in untrue(bad, rows_of(made), made)[0]
    renamed = rows_of(made)
    renamed[1]["what"] = "nobody"
    for said in (None, [], renamed, ["text", *rows_of(made)[1:]]):
        assert untrue(said, rows_of(made), made) == ["it has other rows"]


def test_a_number_of_units_is_not_the_same_as_that_many_deltas() -> None:
    """The figure that was claimed, and the one that holds, side by side for a chain of sizes."""
    made = villages()
    one = chosen(made)
    grown = [group.of_event(one, k) for k in range(1, 13)]
    deltas = [event.delta for event in grown if isinstance(event, KeySelection)]
    assert deltas == sorted(deltas)
    assert len(deltas) == 12
    assert all(float(delta) >= shown(made, k) * (1 - 1e-9) for k, delta in enumerate(deltas, 1))
    assert math.isclose(float(deltas[7]), shown(made, 8), rel_tol=1e-6)
    assert isinstance(group.of_event(Composed(events=(one,)), 2), Composed)
