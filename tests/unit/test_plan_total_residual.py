"""Plans that hide many counts by their total and residuals: when they do, what is said of them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.noise import JOINT_MECHANISMS, Measurement
from dprelease.noise.mechanisms.total_residual import TotalResidualMechanism, total_residual_std, total_share
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.explain.exchanges import exchanged
from dprelease.plan.verify.whole_plan import has_room, verify
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.accountants.rho import zcdp_rho
from dprelease.privacy.event import TotalResidual
from dprelease.privacy.unit import Neighboring
from dprelease.publish import render
from dprelease.publish.accounting.choices import draw_row, laws_of_loss
from tests.planned import plan_of
from tests.reference_comparisons import count_knorm_std, gaussian_sigma
from tests.unit.publish_example import facts
from tests.unit.test_allocate import account, counts, spec_of
from tests.unit.test_draw import CELLS, PURE, WIDE, Zeros, measured, reserved
from tests.unit.test_publish_pages import Outline

F = Fraction


def planned(number: int, by: str = "sex", privacy: str = "", budget: str = "{epsilon: 1, delta: 1e-6}") -> ReleasePlan:
    relation = Neighboring.REPLACE_ONE if "replace_one" in privacy else Neighboring.ADD_REMOVE
    return plan_of(spec_of(counts(number, by), privacy, budget), accounts=account("basic", relation))


@pytest.mark.parametrize(
    ("number", "deviation", "ball"), [(12, 5.8999, 5.9020), (20, 8.5091, 9.1742), (30, 11.6816, 13.2602)]
)
def test_many_counts_get_one_draw_with_less_noise_than_the_ball_of_counts(
    number: int, deviation: float, ball: float
) -> None:
    """Figures of another program, at epsilon 1: the standard error of a count, and what it is with a K-norm."""
    plan = planned(number)
    (step,) = plan.steps
    assert (step.mechanism, len(step.parts), step.gauge) == ("total_residual", number, F(1))
    assert step.event == TotalResidual(dimension=number, share=total_share(number), scale=step.scale, rows=1)
    assert [float(output.standard_error or 0) for output in plan.outputs] == pytest.approx(
        [deviation] * number, rel=2e-4
    )
    other = next(each for each in plan.considered if each.name == "K-norm counts, Laplace")
    assert float(other.noise) == pytest.approx(ball / deviation, abs=1.5e-3)
    assert verify(plan).epsilon <= 1
    assert has_room(step)


def test_fewer_counts_keep_the_plan_that_they_had() -> None:
    plan = planned(11)
    assert [step.mechanism for step in plan.steps] == ["count_knorm"]
    assert not [each.name for each in plan.considered if "residual" in each.name]


@pytest.mark.slow
def test_many_more_have_gaussian_noise() -> None:
    plan = plan_of(spec_of(counts(100)), accounts=account("zcdp"))
    assert {step.mechanism for step in plan.steps} == {"discrete_gaussian"}
    assert not [each.name for each in plan.considered if "residual" in each.name], "a plan without keeps its bytes"


def test_a_pure_budget_takes_it_too() -> None:
    plan = planned(20, budget="{epsilon: 1, delta: 0}")
    assert [(step.mechanism, step.scale) for step in plan.steps] == [("total_residual", F(1))]
    assert verify(plan).epsilon == 1


def test_a_replaced_row_is_two_rows_and_in_one_cell_takes_the_l_infinity_ball() -> None:
    plan = planned(20, privacy="neighboring: replace_one")
    assert [(step.mechanism, step.gauge) for step in plan.steps] == [("total_residual", F(2))]
    assert verify(plan).epsilon <= 1
    one = planned(20, by="", privacy="neighboring: replace_one")
    assert {step.mechanism for step in one.steps} == {"linf_knorm"}


def test_rows_are_one_of_the_counts() -> None:
    text = spec_of(counts(19).replace("measures: {", "measures: {all: {count: rows}, "))
    plan = plan_of(text, accounts=account("basic"))
    (step,) = plan.steps
    assert (step.mechanism, len(step.parts)) == ("total_residual", 20)
    verify(plan)


def changed(**fields: object) -> Callable[[Step], Step]:
    return lambda step: step.model_copy(update=fields)


FAULTS: dict[str, tuple[Callable[[Step], Step], str]] = {
    "half the gauge": (changed(gauge=F(1, 2)), "gauge"),
    "twice the gauge": (changed(gauge=F(2)), "gauge"),
    "half the noise": (lambda step: step.model_copy(update={"scale": step.scale / 2}), "loss"),
    "a part in a thousand less noise": (
        lambda step: step.model_copy(update={"scale": step.scale * F(999, 1000)}),
        "loss",
    ),
    "a count less": (lambda step: step.model_copy(update={"joined": step.joined[:-1]}), "sensitivity|part"),
    "a count twice": (lambda step: step.model_copy(update={"joined": (*step.joined, step.joined[0])}), "twice"),
    "another noise": (changed(mechanism="count_knorm"), "loss|accura"),
    "another relation's noise": (changed(mechanism="linf_knorm"), "loss|accura"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_refused(fault: str) -> None:
    plan = planned(20)
    change, why = FAULTS[fault]
    broken = plan.model_copy(update={"steps": tuple(change(step) for step in plan.steps)})
    with pytest.raises(BrokenPromiseError, match=why):
        verify(broken)


def test_half_a_loss_is_refused() -> None:
    plan = planned(20)
    for name, loss in plan.loss.items():
        half = {**plan.loss, name: loss.model_copy(update={"epsilon": loss.epsilon / 2})}
        with pytest.raises(BrokenPromiseError, match="loss"):
            verify(plan.model_copy(update={"loss": half}))


def test_a_smaller_error_than_that_of_the_noise_is_refused() -> None:
    plan = planned(20)
    output = plan.outputs[0]
    half = output.model_copy(update={"standard_error": str(float(output.standard_error or 0) / 2)})
    with pytest.raises(BrokenPromiseError):
        verify(plan.model_copy(update={"outputs": (half, *plan.outputs[1:])}))


@pytest.mark.slow
def test_what_is_drawn_is_the_plan_s_noise_and_is_kept(tmp_path: Path) -> None:
    columns = "".join(f"      c{at}: {{type: integer, range: [0, 9]}}\n" for at in range(12))
    asked = ", ".join(f"n{at}: {{count: c{at}}}" for at in range(12))
    head, tail = WIDE.split("queries:")
    text = head.rstrip() + "\n" + columns + "queries:" + tail.replace("{persons: {count: rows}}", "{" + asked + "}")
    plan, engine = plan_of(text, accounts=[PURE]), Zeros()
    (step,) = plan.steps
    assert (step.mechanism, len(step.parts)) == ("total_residual", 12)
    ledger = reserved(plan, tmp_path)
    (values,) = measured(plan, ledger, engine)
    noise = np.reshape(values, (12, CELLS))
    assert noise.std(axis=1) == pytest.approx([step.law.variance**0.5] * 12, rel=0.07)
    assert measured(plan, ledger, engine) == [values]
    assert engine.calls == 1
    assert ledger.check() == ()


def test_another_unit_in_its_place_is_two_rows() -> None:
    (event,) = exchanged(planned(20))
    assert isinstance(event, TotalResidual)
    assert event.rows == 2
    (twin,) = planned(20, privacy="neighboring: replace_one").steps
    assert isinstance(twin.event, TotalResidual)
    assert twin.event.rows == event.rows


def test_the_accounting_page_says_how_it_hides() -> None:
    plan = planned(20)
    (step,) = plan.steps
    row = draw_row(step)
    assert (row["mechanism"], row["sensitivity"], row["cells"]) == ("total and residuals", "gauge 1", "2 × 20")
    assert row["loss"].startswith("ε = 1")
    assert "gauge\u00a0/\u00a0scale for noise on a total and residuals" in laws_of_loss(plan)
    found = {step.id: Measurement(step.id, np.arange(1, (step.numbers or 0) + 1) * 1000)}
    page = Outline(render(plan, found, facts(plan, accounts=(), history=())).files["accounting.html"].decode()).text
    assert "the number of rows that one person can add or take away" in page
    assert "K-norm noise hides" not in page


def test_the_figures_of_the_record_and_of_the_pages() -> None:
    """docs/decisions/0051, the changelog and the accountants' pages, worked out again."""
    root = Path(__file__).resolve().parents[2]
    record = (root / "docs/decisions/0051-total-and-residuals.md").read_text(encoding="utf-8")
    rows = [
        line.strip("| ").split(" | ") for line in record.splitlines() if line.startswith(("| 1", "| 2", "| 3", "| 5"))
    ]
    assert [int(row[0]) for row in rows] == [12, 20, 30, 50]
    mu = 1 / float(gaussian_sigma(F(1), F(1), F(1, 10**6)))
    for row in rows:
        k = int(row[0])
        laws = [JOINT_MECHANISMS[name].law(F(1), k) for name in ("count_knorm", "total_residual")]
        exact = [*(law.variance**0.5 for law in laws), (1 + k**0.5) / (2 * mu)]
        assert [float(each) for each in row[1:]] == pytest.approx(exact, rel=5e-4)
    law = TotalResidualMechanism().law
    lost = {k: (law(F(1), k).variance / law(F(1), k - 1).variance) ** 0.5 - 1 for k in (12, 20)}
    assert {k: round(100 * each) for k, each in lost.items()} == {12: 6, 20: 4}
    assert "6 % of the noise at 12 counts and 4 % at 20" in " ".join(record.split())
    gains = {k: 1 - total_residual_std(k, 1) / count_knorm_std(k, 1) for k in (20, 30)}
    assert {k: round(100 * each) for k, each in gains.items()} == {20: 7, 30: 12}
    said = " ".join((root / "CHANGELOG.md").read_text(encoding="utf-8").split())
    assert "7 % less than a K-norm for 20 counts, 12 % for 30" in said
    event = TotalResidualMechanism().event(F(1), 20, F(1))
    assert round(float(zcdp_rho(event)), 2) == 0.33
    assert "0.33 for 20 counts at epsilon 1" in (root / "docs/accountants/zcdp.md").read_text(encoding="utf-8")
    advanced, pld = (ACCOUNTANTS[name].epsilon(event, F(1, 10**6)) for name in ("advanced", "pld"))
    assert 1 < advanced / pld < 1 + F(1, 10**5)
