"""Series of ranges and marginals: draws of combinations of cells, derived again, and their numbers of every period."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.estimate.series import PARTS
from dprelease.noise import Exact, Measurement
from dprelease.plan.document import ReleasePlan, Step
from dprelease.plan.explain.series_terms import differing_terms
from dprelease.plan.verify.whole_plan import verify
from dprelease.publish.combined.tables_of_series import errors_over_periods, tables_of_series
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.release.draw import hidden
from tests.planned import half_sensitivity

from .series_example import SERIES, problems, series_plan, with_step

Floats = npt.NDArray[Any]
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


def along(step: Step) -> Floats:
    """What one table is multiplied by: the matrix of the age for each sex."""
    matrix = np.eye(AGES) if step.factor is None else step.factor.matrix.astype(np.float64)
    return np.kron(np.eye(2), matrix)


def all_draws(step: Step, months: int) -> Floats:
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


def test_a_weighted_table_has_sums_along_a_column_of_every_month() -> None:
    weight = (
        "    time: {column: day, type: date}\n",
        "    time: {column: day, type: date}\n    weight: {column: weight, clip: 5, step: 1}\n",
    )
    plan = combined("prefixes", "2024-03", weight, ("      hours:", "      weight: {type: integer}\n      hours:"))

    assert verify(plan) == plan.loss[plan.certified]
    assert only(plan).sensitivity.l2_squared == Fraction(25) * only(combined()).sensitivity.l2_squared


# Marginals: several draws of one workload, reconciled.

SETS = {"sex": (0,), "age": (1,), "sex__age": (0, 1)}
SHAPE = (2, 3)


def crossed(period: str = "2024-03", *changes: tuple[str, str]) -> ReleasePlan:
    """The plan of a month of tables by sex, by age and by both, consistent with one another."""
    at = () if period == "2024-03" else (("period: 2024-03", f"period: {period}"),)
    age = (AGE[0], AGE[1].replace(f"to: {AGES - 1}", f"to: {SHAPE[1] - 1}"))
    tables = ("    by: [sex]\n", "    marginals: {sets: [[sex], [age], [sex, age]]}\n")
    return series_plan(age, SHORT, tables, *at, *changes)


def contrasts(plan: ReleasePlan, step: Step) -> Floats:
    """What one table of sex by age is multiplied by for a draw: sums over the columns that it has not, then contrasts."""
    found: Floats = np.ones((1, 1))
    for at, (name, keys) in enumerate(zip(("sex", "age"), SHAPE, strict=True)):
        if name not in step.aggregate.by:
            found = np.kron(found, np.ones((1, keys)))
            continue
        contrasted = step.residual is not None and step.aggregate.by.index(name) in step.residual.axes
        found = np.kron(found, keys * np.eye(keys) - 1 if contrasted else np.eye(keys))
        assert at in (0, 1)
    return found * (1 if step.residual is None else step.residual.grain)


def band_matrix(step: Step, months: int) -> Floats:
    """The weights of months in draws."""
    assert step.series is not None
    found = np.zeros((months, months))
    for later, each in enumerate(step.series.band.coefficients):
        found += np.diag([float(each)] * max(0, months - later), -later)
    return found


@pytest.mark.parametrize("relation", ["", "  neighboring: replace_one\n"])
def test_one_unit_moves_every_draw_of_a_workload_by_no_more_than_told(relation: str) -> None:
    plan = crossed("2024-03", ("  budget:", f"{relation}  budget:"))

    assert verify(plan) == plan.loss[plan.certified]
    for step in plan.steps:
        whole = np.kron(band_matrix(step, 6), contrasts(plan, step)).T  # a row for each cell of each month
        cells = len(whole) // 6
        units = np.concatenate([whole[cells : 3 * cells], whole[3 * cells : 4 * cells]])  # of three months in a row
        gram = units @ units.T
        squares = np.diag(gram)
        told = float(step.sensitivity.l2_squared)
        if not relation:
            assert float(squares.max()) == told
        else:
            most = float((squares[:, None] + squares[None, :] - 2 * gram).max())
            assert 0.49 * told < most <= told


def test_tables_err_as_the_best_estimate_from_all_draws_of_all_months_at_once() -> None:
    """Least squares over every draw of three months, each with its own noise: never better than what is told, nor worse.

    Nothing of the reconciling of one month is used, and nothing of the weights of a series.
    """
    plan, months = crossed(), 3
    rows = [np.kron(band_matrix(step, months), contrasts(plan, step)) / float(step.scale) for step in plan.steps]
    whole = np.concatenate(rows)
    covariance = np.linalg.inv(whole.T @ whole)
    told = {(each.query, each.measure): each for each in plan.outputs}
    cells = SHAPE[0] * SHAPE[1]
    for name, axes in SETS.items():
        parts = [np.eye(keys) if at in axes else np.ones((1, keys)) for at, keys in enumerate(SHAPE)]
        table = np.kron(parts[0], parts[1])
        for number, length in {"visits": 1, "visits_last_2": 2, "visits_ytd": 3}.items():
            wanted = np.kron(np.array([[float(at >= months - length) for at in range(months)]]), table)
            assert wanted.shape[1] == months * cells
            worst = math.sqrt(float(np.diag(wanted @ covariance @ wanted.T).max()))
            output = told[f"visits__{name}", number]
            assert worst <= float(output.standard_error or 0) == pytest.approx(worst, rel=2e-3)
            assert float(output.margin or 0) == pytest.approx(1.96 * worst, rel=3e-3)


@pytest.mark.parametrize("change", ["half", "no series", "other band", "post", "told", "tables alone"])
def test_a_planted_fault_of_a_workload_is_refused(change: str) -> None:
    plan = crossed()
    first, *others = plan.steps
    assert first.series is not None
    (workload,) = plan.workloads
    less = first.series.model_copy(update={"number": 2})
    tables = tuple(each.model_copy(update={"series": None, "compare": {}}) for each in plan.queries)
    planted: dict[str, Any] = {
        "half": {"steps": (half_sensitivity(first), *others)},
        "no series": {"steps": (first.model_copy(update={"series": None}), *others)},
        "other band": {"steps": (first.model_copy(update={"series": less}), *others)},
        "post": {"workloads": (workload.model_copy(update={"post": ("consistent", "nonnegative")}),)},
        "told": {"outputs": tuple(each.model_copy(update={"standard_error": "1"}) for each in plan.outputs)},
        "tables alone": {"queries": tables},
    }

    with pytest.raises(BrokenPromiseError):
        verify(plan.model_copy(update=planted[change]))


def test_tables_of_months_agree_and_are_near_the_truth() -> None:
    counts = np.random.default_rng(7).integers(0, 900, (3, SHAPE[0] * SHAPE[1]))
    draws: dict[str, dict[str, list[int]]] = {}
    before: dict[str, Floats] = {}
    for at, period in enumerate(MONTHS):
        plan = crossed(period)
        measured = {}
        for step in plan.steps:
            assert step.series is not None
            axes = tuple(place for place, name in enumerate(("sex", "age")) if name not in step.aggregate.by)
            tables = [counts[at - lag].reshape(SHAPE).sum(axis=axes) for lag in range(len(step.series.read))]
            measured[step.id] = Measurement(
                step.id, hidden(step, [Exact(each.reshape(-1)) for each in tables], "native")
            )
        inputs = inputs_of(plan, measured, draws)
        draws[period] = {name: each.values.tolist() for name, each in measured.items()}

        for table in queries_as_tables(plan, inputs):
            found = {each.name: each for each in table.measures}
            axes = tuple(place for place in (0, 1) if place not in SETS[table.name.removeprefix("visits__")])
            own, since = (found[name].value for name in ("visits", "visits_ytd"))
            summed = own + before.get(table.name, np.zeros(len(own)))
            assert [round(float(each) * PARTS) for each in since] == [round(float(e) * PARTS) for e in summed]
            before[table.name] = since
            for name, length in {"visits": 1, "visits_ytd": at + 1}.items():
                true = counts[at + 1 - length : at + 1].sum(axis=0).reshape(SHAPE).sum(axis=axes).reshape(-1)
                assert float((np.abs(found[name].value - true) / found[name].standard_error).max()) < 7
        by_both = before["visits__sex__age"].reshape(SHAPE)
        assert np.abs(by_both.sum(axis=1) - before["visits__sex"]).max() < 0.005 * (at + 1)


def test_errors_of_every_sum_are_of_its_own_periods_alone() -> None:
    """By the tables themselves: what they are with errors on every draw, less what they are without."""
    plan, chance = crossed(), np.random.default_rng(11)
    (workload,) = plan.workloads
    sizes = {step.id: step.cells or 0 for step in plan.steps}
    numbers, errors = (
        {name: [chance.integers(-most, most, size) for _ in MONTHS] for name, size in sizes.items()}
        for most in (10**8, 10**5)
    )
    moved = {name: [one + other for one, other in zip(numbers[name], errors[name], strict=True)] for name in sizes}
    names = {f"visits__{name}" for name in SETS}
    before, after = (tables_of_series(plan, workload, each, names) for each in (numbers, moved))

    found = errors_over_periods(plan, workload, names, errors, 1)

    assert found.keys() == names
    for name, table in before.items():
        assert list(found[name]) == ["visits", "visits_last_2", "visits_ytd"]
        for one, other in zip(table.measures, after[name].measures, strict=True):
            told = found[name][one.name]
            assert np.abs(told).max() > 1
            assert np.abs(other.value - one.value - told).max() < 0.005  # periods are rounded to parts


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("queries:\n", "postprocess: [consistent, nonnegative]\nqueries:\n", "postprocess"),
    ],
)
def test_what_does_not_add_up_is_refused_beside_a_series_of_marginals(old: str, new: str, what: str) -> None:
    tables = ("    by: [sex]\n", "    marginals: {sets: [[sex], [sex, age]]}\n")
    found = problems(AGE, (SERIES, SHORT[1]), tables, (old, new))

    assert [(each.code, what in each.summary) for each in found] == [("DPR-S762", True)]
