"""Plans of workloads behind discrete Laplace noise: where they are chosen, what they are worth, and lies about them."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.plan.document import Account, ReleasePlan
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Neighboring
from tests.planned import plan_of
from tests.workloads import GEO, areas, crosstabs, ordinary, spec_of

HEAD = """
dprelease: 1
release: {name: survey, period: 2024, title: A survey}
privacy: {unit: {entity: person}, budget: BUDGET, noise: NOISE}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
COLUMNSqueries:
  t:
    table: people
    marginals: {of: [NAMES], ways: WAYS}
    measures: {n: {count: rows}}
"""
TIGHT = "{epsilon: 1, delta: 1e-6}"


def planned(
    sizes: tuple[int, ...], ways: str, budget: str = TIGHT, noise: str = "auto", composition: str = "pld"
) -> ReleasePlan:
    """All tables of columns with so many keys, paid by an account that adds up as told."""
    names = [f"c{at}" for at in range(len(sizes))]
    columns = "".join(
        f"      {name}: {{type: integer, keys: {{from: 1, to: {n}}}}}\n" for name, n in zip(names, sizes, strict=True)
    )
    text = HEAD.replace("COLUMNS", columns).replace("NAMES", ", ".join(names)).replace("WAYS", ways)
    account = Account(
        name="people",
        unit="person",
        neighboring=Neighboring.ADD_REMOVE,
        composition=composition,
        lifetime=Budget(epsilon=Fraction(100), delta=Fraction(1, 10**5)),
        selecting=Fraction(1, 2 * 10**5),
    )
    made = plan_of(text.replace("BUDGET", budget).replace("NOISE", noise), accounts=[account])
    verify(made)
    return made


def error(plan: ReleasePlan) -> float:
    """The root of the mean variance of a table."""
    return sqrt(sum(float(each.standard_error or 0) ** 2 for each in plan.outputs) / len(plan.outputs))


def noises(plan: ReleasePlan) -> set[str]:
    return {step.mechanism for step in plan.steps}


@pytest.mark.parametrize(
    ("sizes", "ways", "budget", "expected"),
    [
        ((2, 3), "[2]", TIGHT, 1.3570),
        ((5, 4, 3, 2), "[2]", TIGHT, 4.668),
        ((2, 3), "[1, 2]", TIGHT, 1.919),
        ((5, 4, 3, 2), "[2]", "{epsilon: 0.5, delta: 1e-9}", 9.629),
        ((2, 3), "[1, 2]", "{epsilon: 4, delta: 1e-10}", 0.276),
        ((2, 3), "[1, 2]", "{epsilon: 1}", 1.919),
    ],
)
def test_small_workloads_have_the_noise_of_the_best_pure_mechanism(
    sizes: tuple[int, ...], ways: str, budget: str, expected: float
) -> None:
    made = planned(sizes, ways, budget)
    assert noises(made) == {"discrete_laplace"}
    assert error(made) == pytest.approx(expected, rel=2e-3)
    if (sizes, ways, budget) == ((5, 4, 3, 2), "[2]", TIGHT):  # docs/measures/workloads.md
        assert error(planned(sizes, ways, noise="gaussian")) == pytest.approx(7.97, abs=0.005)
    gaussian = [each for each in made.considered if each.name == "discrete Gaussian"]
    assert all(float(each.noise) > 1.3 for each in gaussian)
    assert len(gaussian) == (0 if "delta" not in budget else 1)


def test_many_tables_stay_gaussian_and_their_plan_names_no_other_noise() -> None:
    made = planned((6,) * 20, "[1]")
    assert noises(made) == {"discrete_gaussian"}
    assert not [each for each in made.considered if "Laplace" in each.name]
    asked = planned((6,) * 20, "[1]", noise="gaussian")
    fields = ("queries", "steps", "workloads", "outputs", "considered", "loss", "certified")
    assert all(getattr(made, name) == getattr(asked, name) for name in fields)


def test_an_account_that_would_pay_too_much_is_named_beside_the_noise() -> None:
    made = planned((2, 3), "[2]", composition="zcdp")
    assert noises(made) == {"discrete_gaussian"}
    (other,) = (each for each in made.considered if each.name == "discrete Laplace")
    assert float(other.noise) == pytest.approx(0.3208, abs=1e-3)
    assert "charge an account epsilon" in other.why_not


def test_where_only_bounds_of_margins_are_known_they_decide_and_are_named() -> None:
    shares = "shares:\n  levels: {region: 1/7, state: 2/7, puma: 4/7}"
    account = Account(
        name="census",
        unit="person",
        neighboring=Neighboring.ADD_REMOVE,
        composition="pld",
        lifetime=Budget(epsilon=Fraction(100), delta=Fraction(1, 10**5)),
        selecting=Fraction(1, 2 * 10**5),
    )
    made = plan_of(spec_of(areas(shares)), files={"geo": GEO.encode()}, accounts=[account])
    assert noises(made) == {"discrete_gaussian"}
    (other,) = (each for each in made.considered if each.name == "discrete Laplace")
    assert float(other.noise) < 1
    assert "known by bounds alone" in other.why_not


@pytest.mark.parametrize(("tables", "expected"), [(2, 2.6800), (5, 6.5717), (10, 13.025)])
def test_laplace_noise_is_taken_wherever_it_is_asked_for(tables: int, expected: float) -> None:
    made = planned((6,) * tables, "[1]", noise="laplace", composition="zcdp")
    assert noises(made) == {"discrete_laplace"}
    assert error(made) == pytest.approx(expected, rel=1e-3)


def test_a_pure_budget_is_shared_with_other_queries_targets_and_levels() -> None:
    text = spec_of(crosstabs("share: 3"), areas("target: {count: {margin: 90}}"), ordinary(), budget="{epsilon: 2}")
    made = plan_of(text, files={"geo": GEO.encode()})
    verify(made)
    assert noises(made) == {"discrete_laplace"}
    assert made.loss[made.certified].delta == 0
    assert Fraction(1999, 1000) < made.loss[made.certified].epsilon <= 2
    margins = [float(each.margin or 0) for each in made.outputs if each.query.startswith("areas")]
    assert max(margins) == pytest.approx(90, rel=1e-4)


@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(99, 100)])
def test_a_draw_with_less_noise_is_refused(factor: Fraction) -> None:
    made = planned((6, 6), "[1]", noise="laplace")
    first = made.steps[0]
    steps = (first.model_copy(update={"scale": first.scale * factor}), *made.steps[1:])
    with pytest.raises(BrokenPromiseError):
        verify(made.model_copy(update={"steps": steps}))


@pytest.mark.parametrize("field", ["standard_error", "margin"])
def test_a_table_that_is_told_to_be_more_accurate_is_refused(field: str) -> None:
    made = planned((5, 4, 3, 2), "[1, 2]")
    for at, output in enumerate(made.outputs):
        told = f"{float(getattr(output, field)) * 0.9:.6f}"
        outputs = list(made.outputs)
        outputs[at] = output.model_copy(update={field: told})
        with pytest.raises(BrokenPromiseError, match="more accurate than it is"):
            verify(made.model_copy(update={"outputs": tuple(outputs)}))


def test_a_table_that_no_draw_tells_is_refused() -> None:
    made = planned((6, 6), "[1]")
    (workload,) = made.workloads
    short = workload.model_copy(update={"takes": workload.takes[:1]})
    with pytest.raises(BrokenPromiseError):
        verify(made.model_copy(update={"workloads": (short,)}))
