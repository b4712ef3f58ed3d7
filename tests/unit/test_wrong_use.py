"""Wrong use is refused: with the reason, the place, and what to type next. Nothing is guessed and nothing claimed."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import pytest
from pydantic import ValidationError

from dprelease.errors import BudgetTooSmall, SpecError, UnsupportedEvent
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.accountants import ACCOUNTANTS, losses, smallest
from dprelease.privacy.budget import Budget
from dprelease.privacy.calibrate import largest_knob
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    KNorm,
    Laplace,
    Parallel,
    RandomScale,
    Repeated,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.theorems import gaussian
from tests.accountants import ANY_NOISE
from tests.reference_comparisons import classic_sigma, kov_epsilon
from tests.reference_textbook import textbook_epsilon

from ..planned import SPEC, plan_of

F = Fraction
DELTA = F(1, 10**6)
ONE = Sensitivity.of_one_cell(1)
BUDGET = "budget: {epsilon: 1, delta: 1e-9}"
SHARE = "    share: 2\n"
names = pytest.mark.parametrize("name", ANY_NOISE)
LAPLACE = DiscreteLaplace(scale=F(2), sensitivity=ONE)
GAUSSIANS: list[Event] = [
    Gaussian(scale=F(5), sensitivity=ONE),
    DiscreteGaussian(scale=F(5), sensitivity=ONE),
    Composed(events=(LAPLACE, Repeated(event=DiscreteGaussian(scale=F(5), sensitivity=ONE), count=3))),
]


def changed(*pairs: tuple[str, str]) -> str:
    text = SPEC
    for old, new in pairs:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def problem(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        plan_of(text)
    return caught.value


# Delta 0.


@names
@pytest.mark.parametrize("event", GAUSSIANS, ids=["continuous", "integer", "beside laplace"])
def test_gaussian_noise_at_delta_0(name: str, event: Event) -> None:
    with pytest.raises(UnsupportedEvent) as caught:
        ACCOUNTANTS[name].epsilon(event, F(0))
    assert "delta" in caught.value.summary
    assert caught.value.hint.startswith("give the budget a delta, such as 1e-9")
    assert losses(event, F(0)) == {}
    with pytest.raises(UnsupportedEvent) as caught:
        smallest(event, F(0))
    assert "give the budget a delta" in caught.value.hint


@names
def test_calibration_of_gaussian_noise_at_delta_0_says_the_same(name: str) -> None:
    for accounting in (name, "auto"):
        with pytest.raises(UnsupportedEvent) as caught:
            largest_knob(lambda knob: Gaussian(scale=1 / knob, sensitivity=ONE), accounting, Budget(epsilon=F(1)))
        assert "give the budget a delta" in caught.value.hint


@pytest.mark.parametrize("name", ["auto", *ANY_NOISE])
def test_a_spec_of_gaussian_noise_without_delta(name: str) -> None:
    found = problem(changed((BUDGET, f"budget: {{epsilon: 1}}\n  noise: gaussian\n  accounting: {name}")))
    first = found.problems[0]
    assert first.code == "DPR-S533"
    assert first.where is not None
    assert SPEC.splitlines()[first.where.line - 2].strip() == BUDGET  # it points at the noise, one line below
    assert "write `noise: laplace`" in first.hint


@pytest.mark.parametrize("event", [LAPLACE, *GAUSSIANS, Approximate(epsilon=F(1))], ids=range(5))
def test_advanced_composition_at_delta_0(event: Event) -> None:
    with pytest.raises(UnsupportedEvent, match="delta") as caught:
        ACCOUNTANTS["advanced"].epsilon(event, F(0))
    assert "give the budget a delta" in caught.value.hint
    found = problem(changed((BUDGET, "budget: {epsilon: 1}\n  accounting: advanced")))
    assert "accounting: basic" in found.problems[0].hint


@pytest.mark.parametrize("name", ["basic", "advanced"])
def test_parts_without_an_epsilon_of_their_own_are_no_boxes(name: str) -> None:
    event = Parallel(events=(LAPLACE, GAUSSIANS[0]))
    for call in (ACCOUNTANTS[name].epsilon, ACCOUNTANTS[name].delta):
        with pytest.raises(UnsupportedEvent, match="parallel") as caught:
            call(event, DELTA)
        assert caught.value.hint == "accountants that can: zcdp, rdp, pld"
    for other in ("zcdp", "rdp", "pld"):
        assert ACCOUNTANTS[other].epsilon(event, DELTA) > 0


# Theorems outside of what they were proved for.


@pytest.mark.parametrize("epsilon", [F(0), F(1), F(11, 10), F(5), F(-1)])
def test_the_classic_gaussian_from_epsilon_1_on(epsilon: Fraction) -> None:
    with pytest.raises(UnsupportedEvent, match="between 0 and 1") as caught:
        classic_sigma(epsilon, DELTA, F(1))
    assert "analytic Gaussian" in caught.value.hint


def test_the_classic_gaussian_would_claim_too_little_there() -> None:
    """Why it is refused: at a large epsilon its scale has a larger delta than it says."""
    inside = classic_sigma(F(9, 10), DELTA, F(1))
    assert gaussian.delta(1 / inside**2, F(9, 10)) <= DELTA
    epsilon = F(20)
    sigma = F((2 * 14.04) ** 0.5) / epsilon
    assert gaussian.delta(1 / sigma**2, epsilon) > DELTA


@pytest.mark.parametrize(("each", "count"), [(F(1), 1000), (F(1), 30), (F(1, 2), 1000), (F(-1), 10), (F(1, 10), 0)])
def test_the_textbook_form_outside_its_guard(each: Fraction, count: int) -> None:
    with pytest.raises(UnsupportedEvent, match="not proved") as caught:
        textbook_epsilon(each, count, DELTA)
    assert "accounting: advanced" in caught.value.hint
    assert "exp(epsilon) - 1" in caught.value.detail


@pytest.mark.parametrize("slack", [F(0), F(1), F(-1)])
def test_the_textbook_form_without_a_slack(slack: Fraction) -> None:
    with pytest.raises(UnsupportedEvent):
        textbook_epsilon(F(1, 100), 10, slack)


# Deltas that add up to too much.


@pytest.mark.parametrize("name", ["basic", "advanced", "pld"])
def test_deltas_of_draws_beyond_the_budget(name: str) -> None:
    box = Approximate(epsilon=F(1, 10), delta=F(1, 10**7))
    event = Repeated(event=box, count=50)
    with pytest.raises(UnsupportedEvent, match="deltas") as caught:
        ACCOUNTANTS[name].epsilon(event, DELTA)
    hinted = re.search(r"a delta of at least ([0-9.e-]+),", caught.value.hint)
    assert hinted
    least = F(hinted.group(1))
    assert float(least) == pytest.approx(5e-6, rel=1e-4)
    assert ACCOUNTANTS[name].epsilon(event, least * F(100001, 100000)) <= 5  # what the hint says is enough
    # a Gaussian beside them needs something to be left
    with pytest.raises(UnsupportedEvent):
        ACCOUNTANTS[name].epsilon(Composed(events=(event, GAUSSIANS[0])), F(49, 10**7))


def test_deltas_of_boxes_beyond_the_budget_of_the_optimal_composition() -> None:
    with pytest.raises(UnsupportedEvent) as caught:
        kov_epsilon(F(1, 10), F(1, 10**7), 50, DELTA)
    assert "delta of at least" in caught.value.hint


# Parameters that mean nothing.

WRONG: list[Callable[[Fraction], Event]] = [
    lambda x: DiscreteLaplace(scale=x, sensitivity=ONE),
    lambda x: DiscreteGaussian(scale=x, sensitivity=ONE),
    lambda x: Laplace(scale=x, sensitivity=ONE),
    lambda x: Gaussian(scale=x, sensitivity=ONE),
    lambda x: KNorm(ball="count", dimension=1, scale=x, gauge=F(1)),
    lambda x: KNorm(ball="count", dimension=int(x), scale=F(1), gauge=F(1)),
    lambda x: TotalResidual(dimension=2, share=F(1, 3), scale=x, rows=1),
    lambda x: TotalResidual(dimension=2, share=x, scale=F(1), rows=1),
    lambda x: TotalResidual(dimension=1 + int(x), share=F(1, 3), scale=F(1), rows=1),
    lambda x: RandomScale(dimension=2, total=F(1), scale=x, stretches=(F(1),), weights=(1,), rows=1),
    lambda x: RandomScale(dimension=2, total=x, scale=F(1), stretches=(F(1),), weights=(1,), rows=1),
    lambda x: RandomScale(dimension=2, total=F(1), scale=F(1), stretches=(x,), weights=(1,), rows=1),
    lambda x: RandomScale(dimension=2, total=F(1), scale=F(1), stretches=(F(1),), weights=(int(x),), rows=1),
    lambda x: Repeated(event=LAPLACE, count=int(x)),
]
NEGATIVE: list[Callable[[Fraction], Event]] = [
    lambda x: KNorm(ball="count", dimension=1, scale=F(1), gauge=x),
    lambda x: TotalResidual(dimension=2, share=F(1, 3), scale=F(1), rows=int(x)),
    lambda x: RandomScale(dimension=2, total=F(1), scale=F(1), stretches=(F(1),), weights=(1,), rows=int(x)),
    lambda x: Approximate(epsilon=x),
    lambda x: Approximate(epsilon=F(1), delta=x),
    lambda x: BoundedRange(epsilon=x),
    lambda x: Concentrated(rho=x),
]


@pytest.mark.parametrize("build", [*WRONG, *NEGATIVE], ids=range(len(WRONG) + len(NEGATIVE)))
def test_negative_parameters_make_no_event(build: Callable[[Fraction], Event]) -> None:
    with pytest.raises(ValidationError):
        build(F(-1))
    if build in WRONG:
        with pytest.raises(ValidationError):
            build(F(0))


def test_a_delta_of_one_is_no_mechanism_and_no_budget() -> None:
    with pytest.raises(ValidationError):
        Approximate(epsilon=F(1), delta=F(1))
    for wrong in (
        {"epsilon": F(1), "delta": F(1)},
        {"epsilon": F(1), "delta": F(-1, 10)},
        {"epsilon": F(0)},
        {"rho": F(-1)},
        {},
        {"epsilon": F(1), "rho": F(1)},
    ):
        with pytest.raises(ValidationError):
            Budget(**wrong)


@names
@pytest.mark.parametrize("event", [Composed(), LAPLACE, GAUSSIANS[0]], ids=["nothing", "laplace", "gaussian"])
def test_an_epsilon_below_0_and_a_delta_outside_0_and_1_are_refused(name: str, event: Event) -> None:
    """Read at a negative epsilon, the formulas would claim that nothing drawn costs nothing; that is false there."""
    accountant = ACCOUNTANTS[name]
    with pytest.raises(ValueError, match="epsilon is at least 0"):
        accountant.delta(event, F(-1, 10**9))
    for delta in (F(-1, 10), F(11, 10)):
        with pytest.raises(ValueError, match="delta is at least 0 and at most 1"):
            accountant.epsilon(event, delta)
    assert accountant.epsilon(event, F(1)) == 0 or name == "basic"  # the plain sum does not look at delta


# What a spec asks for and cannot have: one of each; the others are in test_spec_budget.


@pytest.mark.parametrize(
    ("new", "code", "place", "hint"),
    [
        ("    budget: {epsilon: 0.1}\n    target: {persons: {margin: 9}}\n", "DPR-S538", "target", "keep `budget`"),
        ("    share: 0\n", "DPR-S205", "0", "greater than 0"),
        ("    budget: {epsilon: 2}\n", "DPR-S544", "2", "pin less than 1"),
    ],
)
def test_pins_targets_and_shares_that_contradict(new: str, code: str, place: str, hint: str) -> None:
    text = changed((SHARE, new))
    (found,) = problem(text).problems
    assert found.code == code
    assert hint in found.hint
    assert found.where is not None
    assert text.splitlines()[found.where.line - 1][found.where.column - 1 :].startswith(place)


TARGET = "    target: {total: {margin: %d}}\n"
ONLY_TOTAL = [
    ("      persons: {count: rows}\n      total", "      total"),
    ("      average: {mean: income, clip: [0, 200000]}\n", ""),
    ("    expect: {persons: 12000}\n", ""),
]


def gaussian_at(epsilon: int) -> tuple[str, str]:
    return BUDGET, f"budget: {{epsilon: {epsilon}, delta: 1e-9}}\n  noise: gaussian"


@pytest.mark.slow
@pytest.mark.parametrize(
    "measures",
    [
        pytest.param(ONLY_TOTAL, id="one measure"),
        pytest.param(
            [],
            id="several measures",
        ),
    ],
)
def test_targets_beyond_the_budget_name_the_query_and_what_more_would_buy(measures: list[tuple[str, str]]) -> None:
    margin = 300_000
    with pytest.raises(BudgetTooSmall) as caught:
        plan_of(changed(*measures, gaussian_at(1), (SHARE, TARGET % margin)))
    error = caught.value
    assert error.code == "DPR-P103"
    assert "the budget is 1" in error.summary
    assert "'income' hurts most" in error.detail
    assert "--solve" in error.hint
    needed = re.search(r"need epsilon ([0-9.]+);", error.summary)
    found = re.search(r"to be ([0-9.]+) times as wide; with one unit of epsilon more, ([0-9.]+) times", error.detail)
    assert needed
    assert found
    assert float(needed.group(1)) > 2
    now, then = map(float, found.groups())
    assert 1 < then < now

    # Each figure is true: a little less wide does not fit, and a little wider does. The other query gets next to nothing.
    for factor, epsilon in ((now, 1), (then, 2)):
        with pytest.raises(BudgetTooSmall):
            plan_of(changed(*measures, gaussian_at(epsilon), (SHARE, TARGET % round(margin * factor * 0.99))))
    wide = changed(*measures, gaussian_at(1), (SHARE, TARGET % round(margin * now * 1.01)))
    assert verify(plan_of(wide)).epsilon <= 1


PINS = (SHARE, "    budget: {epsilon: 999/1000}\n"), ("  population: {", "  population: {budget: {epsilon: 1/2}, ")
OPEN = ("queries:\n", "queries:\n  open: {table: people, by: [sex], measures: {n: {count: rows}}}\n")


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param([OPEN], id="an open query"),
        pytest.param([], id="no other"),
    ],
)
def test_pins_that_add_up_to_too_much(beside: list[tuple[str, str]]) -> None:
    """Each is below the budget, and together they are above it."""
    with pytest.raises(BudgetTooSmall) as caught:
        plan_of(changed(*PINS, *beside))
    assert caught.value.code == "DPR-P103"
    assert "pinned queries" in caught.value.summary
    assert "the budget is 1" in caught.value.summary
