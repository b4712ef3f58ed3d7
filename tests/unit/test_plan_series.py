"""Plans of series: what is drawn, what it costs, what is told of its accuracy; and what the verifier refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from dprelease.catalog.series.aims import Aim
from dprelease.catalog.series.band import Band, BandDraw
from dprelease.catalog.series.best_band import least_objective
from dprelease.errors import BrokenPromiseError
from dprelease.estimate.series import sum_variance
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.series_terms import differing_terms
from dprelease.plan.explain.shared_noise import series_facts
from dprelease.plan.verify.whole_plan import verify
from dprelease.privacy.event import DiscreteGaussian
from dprelease.release.data.earlier_periods import periods_read
from tests.planned import half_sensitivity

from .series_example import SERIES, series_plan, with_step

PERSONS = ("unit: {entity: row}", "unit: {entity: person, per: month}")
KEPT = (
    "    time: {column: day, type: date}\n",
    "    time: {column: day, type: date}\n    unit_id: person\n"
    "    bounds: {max_rows: 2, truncate: first, order_by: [hours]}\n",
)
REPLACED = ("  budget:", "  neighboring: replace_one\n  budget:")
SUM = ("{visits: {count: rows}}", "{visits: {sum: hours, clip: [-5, 20]}}")

WEIGHT = (
    "    columns:\n",
    "    weight: {column: weight, clip: 50, step: 1}\n    columns:\n      weight: {type: integer}\n",
)
WEIGHTED = "{visits: {count: rows}, seen: {count: rows, weighted: false}, hours: {sum: hours, clip: [-5, 20]}}"


def told(plan: ReleasePlan) -> dict[str, tuple[float | None, float | None]]:
    return {
        each.measure: (
            None if each.standard_error is None else float(each.standard_error),
            None if each.margin is None else float(each.margin),
        )
        for each in plan.outputs
    }


def test_the_plan_has_one_draw_whose_loss_is_that_of_all_readings_of_a_period() -> None:
    plan = series_plan()
    (step,) = plan.steps

    assert step.series is not None
    assert step.series.number == 3
    assert step.sensitivity.l2_squared == step.series.band.squared == 16778934
    assert isinstance(step.event, DiscreteGaussian)
    assert step.event.sensitivity == step.sensitivity
    assert verify(plan) == plan.loss[plan.certified]
    assert plan.loss[plan.certified].epsilon <= Fraction(1, 2)


def test_errors_are_those_of_the_matrix_and_blank_before_the_first_period() -> None:
    plan, found = series_plan(), told(series_plan())
    (step,) = plan.steps
    assert step.series is not None
    band = step.series.band

    for name, length in (("visits", 1), ("visits_last_3", 3), ("visits_ytd", 3)):
        error = float(step.scale) * math.sqrt(sum_variance(band, 3, length))
        assert found[name][0] == pytest.approx(error + 0.0005 * length, rel=1e-5)
        assert (found[name][1] or 0) >= 1.959963 * error
        assert found[name][1] == pytest.approx(1.959964 * error + 0.0005 * length, rel=5e-3)
    assert found["visits_last_12"] == (None, None)
    assert next(each for each in plan.outputs if each.measure == "visits_last_12").why_null


def test_a_year_later_every_sum_is_told() -> None:
    """At mu = 1: month 1.0967, 12 months 2.3881, year to date of May 1.8144 (the second year's)."""
    plan = series_plan(("period: 2024-03", "period: 2025-05"))
    (step,), found = plan.steps, told(plan)
    mu = math.sqrt(float(step.sensitivity.l2_squared)) / float(step.scale)

    errors = {name: (each[0] or math.nan) * mu for name, each in found.items()}
    wanted = {"visits": 1.0967, "visits_last_3": 1.5415, "visits_last_12": 2.3881, "visits_ytd": 1.8144}
    assert errors == pytest.approx(wanted, abs=6e-4)


def test_weighted_rows_move_a_series_by_their_clip() -> None:
    """A row that weighs 50 is 50 rows; a count that is said to have no weights is one of rows."""
    plan = series_plan(WEIGHT, ("{visits: {count: rows}}", WEIGHTED))
    squares = {step.id: step.sensitivity.l2_squared for step in plan.steps}
    (one,) = series_plan().steps

    assert verify(plan) == plan.loss[plan.certified]
    assert squares["visits.visits"] == 50**2 * one.sensitivity.l2_squared
    assert squares["visits.seen"] == one.sensitivity.l2_squared
    assert squares["visits.hours"] == 50**2 * 20**2 * one.sensitivity.l2_squared
    first = plan.steps[0]
    weight = first.aggregate.quantity.weight
    assert weight is not None
    light = first.aggregate.quantity.model_copy(update={"weight": weight.model_copy(update={"clip": 25})})
    lighter = (
        half_sensitivity(first),
        first.model_copy(update={"sensitivity": one.sensitivity}),
        first.model_copy(update={"aggregate": first.aggregate.model_copy(update={"quantity": light})}),
    )
    for step in lighter:
        with pytest.raises(BrokenPromiseError):
            verify(plan.model_copy(update={"steps": (step, *plan.steps[1:])}))


def test_independent_months_cost_the_same_and_sums_of_them_err_more() -> None:
    shared, alone = (
        series_plan(("period: 2024-03", "period: 2025-05"), *more) for more in ((), ((SERIES, "title: t"),))
    )

    months = told(alone)["visits"][0] or math.nan
    found = told(shared)
    assert alone.loss["zcdp"].epsilon == pytest.approx(float(shared.loss["zcdp"].epsilon), rel=1e-3)
    assert (found["visits"][0] or 0) / months == pytest.approx(1.097, abs=0.03)
    assert (found["visits_last_12"][0] or 0) / (math.sqrt(12) * months) == pytest.approx(0.69, abs=0.02)


def test_a_skipped_month_is_no_part_of_the_series_and_sums_with_it_are_blank() -> None:
    changes = (SERIES, SERIES.replace("}", ", skip: [2024-02, 2024-09]}")), ("period: 2024-03", "period: 2024-05")
    plan, whole = series_plan(*changes), series_plan(("period: 2024-03", "period: 2024-04"))
    (step,), (series,) = plan.steps, [query.series for query in plan.queries]

    assert verify(plan) == plan.loss[plan.certified]
    assert series is not None
    assert step.series is not None
    assert (series.periods, series.skipped) == (("2024-01", "2024-03", "2024-04", "2024-05"), ("2024-02",))
    assert periods_read("2024-05", step.series) == ("2024-05", "2024-04", "2024-03", "2024-01")
    assert step.sensitivity == whole.steps[0].sensitivity
    found, why = told(plan), {each.measure: each.why_null for each in plan.outputs}
    assert (found["visits"], found["visits_last_3"]) == (told(whole)["visits"], told(whole)["visits_last_3"])
    assert (found["visits_ytd"][0], why["visits_ytd"]) == (None, "has a period that was skipped")
    assert why["visits_last_12"] == "reaches back before the first period of the series"
    assert '"skipped"' in plan.canonical()
    assert '"skipped"' not in whole.canonical()


@pytest.mark.parametrize("measure", ["visits_ytd", "visits_last_3"])
def test_a_sum_with_a_skipped_month_is_told_by_no_plan(measure: str) -> None:
    plan = series_plan((SERIES, SERIES.replace("}", ", skip: [2024-02]}")))
    lied = tuple(
        each.model_copy(update={"standard_error": "99", "margin": "199"}) if each.measure == measure else each
        for each in plan.outputs
    )

    with pytest.raises(BrokenPromiseError, match="periods that are not there"):
        verify(plan.model_copy(update={"outputs": lied}))


TOTAL = (SERIES, "series: {from: 2024-01, sums: [12, total], horizon: 24}")


def test_a_sum_since_the_first_month_has_a_horizon_and_errs_less() -> None:
    plan, alone = series_plan(TOTAL, ("period: 2024-03", "period: 2025-12")), series_plan((SERIES, "title: t"))
    (step,), found = plan.steps, told(plan)

    assert verify(plan) == plan.loss[plan.certified]
    assert step.series is not None
    assert (step.series.band.periods, step.series.number) == (24, 24)
    error = float(step.scale) * math.sqrt(sum_variance(step.series.band, 24, 24))
    assert found["visits_total"][0] == pytest.approx(error, abs=0.013)  # half a thousandth for each period
    independent = math.sqrt(24) * (told(alone)["visits"][0] or math.nan)
    assert (found["visits_total"][0] or math.inf) < 0.6 * independent
    assert told(series_plan(TOTAL))["visits_total"][0] is not None
    gap = series_plan((SERIES, "series: {from: 2024-01, sums: [2, total], horizon: 24, skip: [2024-02]}"))
    assert {each.measure: each.why_null for each in gap.outputs}["visits_total"] == "has a period that was skipped"


@pytest.mark.parametrize("horizon", [None, 2, 129])
def test_a_total_beyond_its_horizon_is_refused(horizon: int | None) -> None:
    with pytest.raises(BrokenPromiseError, match="beyond its end"):
        verify(_series(series_plan(TOTAL), horizon=horizon))


def test_another_horizon_is_another_series() -> None:
    earlier, later = (
        series_plan(TOTAL),
        series_plan(("period: 2024-03", "period: 2024-04"), (SERIES, TOTAL[1].replace("24}", "25}"))),
    )

    assert differing_terms(later, later.queries[0], earlier) == "the horizon"


def test_weights_of_errors_make_another_band_of_another_series_and_only_their_ratios_count() -> None:
    plain, weighted, same = (
        series_plan((SERIES, SERIES.replace("}", each)))
        for each in ("}", ", minimize: {period: 4, 12: 1}}", ", minimize: {12: 1/2, period: 2}}")
    )

    assert verify(weighted) == weighted.loss[weighted.certified]
    assert ReleasePlan.from_canonical(weighted.canonical()) == weighted
    bands = [step.series.band for each in (plain, weighted, same) for step in each.steps if step.series is not None]
    assert bands[1] == bands[2] != bands[0]
    assert differing_terms(weighted, weighted.queries[0], plain) == "the band"
    assert differing_terms(weighted, weighted.queries[0], same) == ""
    # Of a series without end: what weighs errs less than by other bands, and what is not named more.
    (named,), (usual,) = series_facts(weighted), series_facts(plain)
    errors = [{which: float(told["shared"]) for which, told in each["errors"].items()} for each in (named, usual)]
    assert errors[0]["12"] < errors[1]["12"]
    # docs/decisions/0143, rounded up
    figures = [(round(each["12"], 3), round(each["period"], 3)) for each in errors]
    assert figures == [pytest.approx((2.248, 1.122), abs=1.1e-3), pytest.approx((2.388, 1.097), abs=1.1e-3)]
    assert errors[0]["3"] > errors[1]["3"]
    lost = [4 * each["period"] ** 2 + each["12"] ** 2 for each in errors]
    best = 5 * float(least_objective(Aim.of({"period": Fraction(4), "12": Fraction(1)}, (3, 12, "ytd"))))
    assert best < lost[0] < min(1.01 * best, lost[1])


def test_the_plan_is_the_same_every_time() -> None:
    assert series_plan().fingerprint() == ReleasePlan.from_canonical(series_plan().canonical()).fingerprint()


@pytest.mark.parametrize(
    "changes", [(), (REPLACED,), (SUM,), (SUM, REPLACED), (PERSONS, KEPT), (PERSONS, KEPT, REPLACED)]
)
def test_every_kind_of_unit_and_measure_is_verified(changes: tuple[tuple[str, str], ...]) -> None:
    plan = series_plan(*changes)
    (step,) = plan.steps
    assert step.series is not None
    one = 1 if SUM not in changes else 20
    rows = 2 if PERSONS in changes else 1
    pulls = (4 if SUM in changes else 2) if REPLACED in changes else 1

    verify(plan)

    assert step.sensitivity.l2_squared == pulls * (rows * one) ** 2 * step.series.band.squared
    with pytest.raises(BrokenPromiseError, match="another sensitivity"):
        verify(plan.model_copy(update={"steps": (half_sensitivity(step),)}))


def _query(plan: ReleasePlan, **changes: object) -> ReleasePlan:
    return plan.model_copy(update={"queries": (plan.queries[0].model_copy(update=changes),)})


def _series(plan: ReleasePlan, **changes: object) -> ReleasePlan:
    assert plan.queries[0].series is not None
    return _query(plan, series=plan.queries[0].series.model_copy(update=changes))


BAND = Band(coefficients=(4096,))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda plan: with_step(plan, series=BandDraw(band=BAND, number=3)), "another sensitivity"),
        (lambda plan: with_step(plan, series=plan.steps[0].series.model_copy(update={"number": 2})), "no draw of its"),
        (lambda plan: with_step(plan, series=None), "another sensitivity"),
        (lambda plan: with_step(plan, mechanism="discrete_laplace"), "another noise"),
        (lambda plan: with_step(plan, cells=3), "another number of cells"),
        (lambda plan: _query(plan, series=None), "sums periods of no series"),
        (lambda plan: _query(plan, compare={}), "other sums"),
        (lambda plan: _series(plan, periods=("2024-01", "2024-03")), "do not follow one another"),
        (lambda plan: _series(plan, periods=("2024-01", "2024-02")), "ends with another period"),
        (lambda plan: _series(plan, periods=("2024-02", "2024-03")), "no draw of its series"),
        (lambda plan: _series(plan, periods=("2024-01", "2024-03"), skipped=("2024-02",)), "no draw of its"),
        (lambda plan: _series(plan, skipped=("2023-12",)), "do not follow one another"),
        (lambda plan: _series(plan, year=4), "another year"),
        (lambda plan: _series(plan, band=BAND), "no draw of its series"),
        (lambda plan: plan.model_copy(update={"unit": plan.unit.model_copy(update={"entity": "person"})}), "all of them"),
    ],
)  # fmt: skip
def test_a_planted_half_is_refused(change: Callable[[ReleasePlan], ReleasePlan], says: str) -> None:
    with pytest.raises(BrokenPromiseError, match=says):
        verify(change(series_plan()))


@pytest.mark.parametrize("measure", ["visits", "visits_last_3", "visits_ytd"])
@pytest.mark.parametrize("figure", ["standard_error", "margin"])
def test_an_accuracy_that_is_told_too_good_is_refused(measure: str, figure: str) -> None:
    plan = series_plan()
    better = tuple(
        each.model_copy(update={figure: str(0.99 * float(getattr(each, figure)))}) if each.measure == measure else each
        for each in plan.outputs
    )

    with pytest.raises(BrokenPromiseError, match=r"too accurate|too small a margin|more accurate than it is"):
        verify(plan.model_copy(update={"outputs": better}))


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ((), ""),
        (((SERIES, "series: {from: 2024-01, sums: [3, 12]}"),), "the band"),
        (((SERIES, SERIES.replace("}", ", look_back: 3}")),), "the band"),
        (((SERIES, SERIES.replace("2024-01", "2024-02")),), "the first period"),
        ((("epsilon: 1/2", "epsilon: 1/3"),), "the noise"),
        ((("keys: [f, m]", "keys: [f, m, x]"),), "the table"),
        ((("by: [sex]", "by: [sex]\n    where: hours > 3"),), "the rows, cells or clips"),
        ((("{count: rows}", "{count: hours}"),), "the rows, cells or clips"),
        ((REPLACED,), "the unit"),
        ((("title: \"Visits", "title: \"Calls"),), ""),
        ((("file: people.csv", "file: others.csv"),), ""),
    ],
)  # fmt: skip
def test_terms_of_a_series_are_held_against_those_of_earlier_periods(
    changes: tuple[tuple[str, str], ...], differs: str
) -> None:
    earlier, later = series_plan(), series_plan(("period: 2024-03", "period: 2024-04"), *changes)

    assert differing_terms(later, later.queries[0], earlier) == differs


def test_a_filter_that_names_the_period_makes_no_series() -> None:
    """Rows of the month before would be read by the words of the month after."""
    named = ("by: [sex]", "by: [sex]\n    where: \"hours > MONTH(DATE '{{ period.start }}')\"")
    earlier, later = series_plan(named), series_plan(named, ("period: 2024-03", "period: 2024-04"))

    assert differing_terms(later, later.queries[0], earlier) == "the rows, cells or clips"
    assert differing_terms(earlier, earlier.queries[0], earlier) == ""
