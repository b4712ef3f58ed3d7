"""Series of prefixes and ranges: draws of combinations of cells, derived again, and their numbers of every period."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.estimate.series import PARTS
from dprelease.noise import Exact, Measurement
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.explain.series_terms import differing_terms
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.release.draw import hidden
from tests.planned import half_sensitivity

from .series_example import SERIES, problems, series_plan, with_step

AGES = 9
AGE = ("    columns:\n", f"    columns:\n      age: {{type: integer, keys: {{from: 0, to: {AGES - 1}}}}}\n")
SHORT = (SERIES, "series: {from: 2024-01, sums: [2, ytd], look_back: 2}")
MONTHS = ("2024-01", "2024-02", "2024-03")


def combined(which: str = "prefixes", period: str = "2024-03", *changes: tuple[str, str]) -> ReleasePlan:
    """The plan of a month of sums along an age, for each sex."""
    at = () if period == "2024-03" else (("period: 2024-03", f"period: {period}"),)
    ranges = ("    by: [sex]\n", f"    by: [sex, age]\n    ranges: {{of: age, which: {which}}}\n")
    return series_plan(AGE, SHORT, ranges, *at, *changes)


def only(plan: ReleasePlan) -> Step:
    (step,) = plan.steps
    return step


def along(step: Step) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """What one table is multiplied by: the matrix of the age for each sex."""
    matrix = np.eye(AGES) if step.factor is None else step.factor.matrix.astype(np.float64)
    return np.kron(np.eye(2), matrix)


def all_draws(step: Step, months: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The matrix of all draws of a series of so many months, written out: rows are draws, columns cells of months."""
    assert step.series is not None
    band = np.zeros((months, months))
    for later, each in enumerate(step.series.band.coefficients):
        band += np.diag([float(each)] * max(0, months - later), -later)
    return np.kron(band, along(step))


@pytest.mark.parametrize("which", ["prefixes", "all"])
@pytest.mark.parametrize("rows", [1, 2])
def test_one_unit_moves_all_draws_by_the_norm_of_the_whole_matrix(which: str, rows: int) -> None:
    """Every unit of two rows in every cell of one month, by the matrix written out: reached, and never exceeded."""
    several = (
        ("unit: {entity: row}", "unit: {entity: person, per: month}"),
        (
            "    time: {column: day, type: date}\n",
            "    time: {column: day, type: date}\n    unit_id: person\n"
            "    bounds: {max_rows: 2, truncate: first, order_by: [hours]}\n",
        ),
    )
    plan = combined(which, "2024-03", *(several if rows == 2 else ()))
    step = only(plan)
    matrix = all_draws(step, 5)[:, 2 * 2 * AGES : 3 * 2 * AGES]  # of the third month, which later draws read as well

    moves = [matrix[:, at] for at in range(2 * AGES)]
    if rows == 2:
        moves = [one + other for one in moves for other in moves]

    assert max(float(each @ each) for each in moves) == pytest.approx(float(step.sensitivity.l2_squared), rel=1e-12)
    assert max(float(np.abs(each).max()) for each in moves) <= step.sensitivity.linf
    assert verify(plan) == plan.loss[plan.certified]


def test_a_unit_in_the_place_of_another_moves_them_by_no_more_than_told() -> None:
    """Of any two months: 2 of one unit's squares are reached where they meet no more, and 4 are told."""
    step = only(combined("all", "2024-03", ("  budget:", "  neighboring: replace_one\n  budget:")))
    matrix = all_draws(step, 6)

    columns = matrix[:, 2 * 2 * AGES : 4 * 2 * AGES].T  # of two months in a row
    gram = columns @ columns.T
    squares = np.diag(gram)
    most = float((squares[:, None] + squares[None, :] - 2 * gram).max())

    assert most <= float(step.sensitivity.l2_squared)
    assert most > 0.45 * float(step.sensitivity.l2_squared)


@pytest.mark.parametrize("which", ["prefixes", "all"])
def test_errors_are_those_of_the_matrix_of_all_draws(which: str) -> None:
    """The worst sum of a month and of three, by solving with the matrix of all draws and all cells at once."""
    plan = combined(which)
    step = only(plan)
    inverse = np.linalg.inv(all_draws(step, 3)) * float(step.scale)
    lines = (
        np.tri(AGES)
        if which == "prefixes"
        else np.array([[float(a <= at <= b) for at in range(AGES)] for a in range(AGES) for b in range(a, AGES)])
    )
    sums = np.kron(np.eye(2), lines)
    told = {each.measure: each for each in plan.outputs}

    for name, length in {"visits": 1, "visits_last_2": 2, "visits_ytd": 3}.items():
        wanted = np.kron(np.array([[float(at >= 3 - length) for at in range(3)]]), sums) @ inverse
        worst = math.sqrt(float((wanted**2).sum(axis=1).max()))
        assert worst <= float(told[name].standard_error or 0) == pytest.approx(worst + length / 2000, rel=1e-3)
        assert float(told[name].margin or 0) == pytest.approx(1.96 * worst, rel=3e-3)


@pytest.mark.parametrize("change", ["half", "scale", "grain", "other band", "no series", "told"])
def test_a_planted_fault_is_refused(change: str) -> None:
    plan = combined()
    step = only(plan)
    assert step.factor is not None
    assert step.series is not None
    less = step.series.model_copy(update={"number": 2})
    planted = {
        "half": plan.model_copy(update={"steps": (half_sensitivity(step),)}),
        "scale": with_step(plan, scale=step.scale / 2),
        "grain": with_step(plan, factor=step.factor.model_copy(update={"kind": "root", "rows": None})),
        "other band": with_step(plan, series=less),
        "no series": with_step(plan, series=None),
        "told": plan.model_copy(
            update={
                "outputs": tuple(
                    each.model_copy(update={"standard_error": "1"}) if each.measure == "visits_ytd" else each
                    for each in plan.outputs
                )
            }
        ),
    }[change]

    with pytest.raises(BrokenPromiseError):
        verify(planted)


def test_every_month_by_the_same_combinations() -> None:
    one, two = combined(period="2024-02"), combined(period="2024-03")
    (query,) = two.queries
    other = only(one).model_copy(update={"factor": only(combined("all")).factor})

    assert differing_terms(two, query, one) == ""
    assert "combinations" in differing_terms(two, query, one.model_copy(update={"steps": (other,)}))


def test_months_drawn_and_published_agree_and_are_near_the_truth() -> None:
    """Real noise on made-up months: within seven standard errors; prefixes since January are those of the months."""
    counts = np.random.default_rng(5).integers(0, 400, (3, 2 * AGES))
    draws: dict[str, dict[str, list[int]]] = {}
    before = np.zeros(2 * AGES)
    for at, period in enumerate(MONTHS):
        plan = combined(period=period)
        step = only(plan)
        assert step.series is not None
        read = [Exact(counts[at - lag]) for lag in range(len(step.series.read))]
        values = hidden(step, read, "native")
        inputs = inputs_of(plan, {step.id: Measurement(step.id, values)}, draws)
        draws[period] = {step.id: values.tolist()}

        (table,) = queries_as_tables(plan, inputs)
        found = {each.name: each for each in table.measures}

        assert list(found) == ["visits", "visits_last_2", "visits_ytd"]
        own, since = (found[name].value for name in ("visits", "visits_ytd"))
        assert [round(float(each) * PARTS) for each in since] == [round(float(e) * PARTS) for e in before + own]
        before = since
        for name, length in {"visits": 1, "visits_ytd": at + 1}.items():
            true = counts[at + 1 - length : at + 1].sum(axis=0).reshape(2, AGES).cumsum(axis=1).reshape(-1)
            apart = np.abs(found[name].value - true) / found[name].standard_error
            assert float(apart.max()) < 7
            assert float((apart**2).mean()) > 0.01
        assert np.isnan(found["visits_last_2"].value).all() == (at == 0)


def test_draws_of_earlier_months_that_are_not_there_leave_everything_blank() -> None:
    plan = combined()
    step = only(plan)

    (table,) = queries_as_tables(plan, inputs_of(plan, {step.id: Measurement(step.id, np.zeros(2 * AGES, np.int64))}))

    assert all(np.isnan(each.value).all() and set(each.status) == {"blank"} for each in table.measures)


def test_a_target_of_sums_along_a_column_is_refused() -> None:
    ranges = ("    by: [sex]\n", "    by: [sex, age]\n    ranges: {of: age, which: all}\n")
    found = problems(AGE, ranges, (SERIES, f"{SERIES}\n    target: {{visits: {{margin: 40}}}}"))

    assert [(each.code, each.hint is not None) for each in found] == [("DPR-S762", True)]


def test_a_weighted_table_has_sums_along_a_column_of_every_month() -> None:
    weight = (
        "    time: {column: day, type: date}\n",
        "    time: {column: day, type: date}\n    weight: {column: weight, clip: 5, step: 1}\n",
    )
    plan = combined("prefixes", "2024-03", weight, ("      hours:", "      weight: {type: integer}\n      hours:"))

    assert verify(plan) == plan.loss[plan.certified]
    assert only(plan).sensitivity.l2_squared == Fraction(25) * only(combined()).sensitivity.l2_squared
