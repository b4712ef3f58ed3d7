"""What is made of several numbers of a series: differences of periods and sums, and tables by SQL."""

from __future__ import annotations

import math
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest

from dprelease.catalog.series.aims import Aim
from dprelease.catalog.series.band import Band, BandDraw
from dprelease.catalog.series.best_band import best_band
from dprelease.estimate.series import endless_variances, law_of_change, law_of_sum
from dprelease.noise import Measurement
from dprelease.plan.document import ReleasePlan
from dprelease.plan.explain.differences import text_of
from dprelease.publish import Released, compare_releases
from dprelease.publish.comparing.series import margin_of_change, values_again, with_sums
from dprelease.publish.derive.replicate import periods_again
from dprelease.publish.derive.tables import derived_tables
from dprelease.publish.measured import inputs_of, queries_as_tables

from .series_example import SERIES, series_plan

BAND = Band(coefficients=(3879, 989, 670, 301, 280, 237, 189, 150, 113, 78, 52, 18))
SCALE = Fraction(5000)


def _by_the_matrix(periods: int, sums: tuple[tuple[int, int], tuple[int, int]], common: int) -> float:
    """The standard error of a difference, by solving with the matrix of all draws; each sum: (newest draw, length)."""
    rows, total = [], periods + max(each for each, _ in sums) - common
    for at, (newest, length) in enumerate(sums):
        matrix = np.zeros((newest, newest))
        for lag, each in enumerate(BAND.coefficients[:newest]):
            matrix += np.diag([float(each)] * (newest - lag), -lag)
        wanted = np.zeros(newest)
        wanted[-length:] = 1
        weights = np.linalg.solve(matrix.T, wanted)
        row = np.zeros(total + newest)
        row[:common] = weights[:common]
        own = slice(common, newest) if at == 0 else slice(total + common, total + newest)
        row[own] = weights[common:]
        rows.append(row)
    size = max(map(len, rows))
    one, two = (np.pad(row, (0, size - len(row))) for row in rows)
    return float(SCALE) * float(np.linalg.norm(one - two))


@pytest.mark.parametrize(
    ("sums", "common"),
    [
        (((24, 1), (23, 1)), 23),  # month on month
        (((24, 12), (12, 12)), 12),  # a year against the one before
        (((24, 12), (24, 1)), 24),  # parts of one release
        (((24, 1), (24, 1)), 23),  # the newest month drawn again
        (((7, 3), (7, 3)), 0),  # two series
    ],
)
def test_the_law_of_a_difference_is_that_of_the_matrix(
    sums: tuple[tuple[int, int], tuple[int, int]], common: int
) -> None:
    draws = tuple(BandDraw(band=BAND, number=newest) for newest, _ in sums)
    law = law_of_change((draws[0], draws[1]), SCALE, (sums[0][1], sums[1][1]), common)

    assert math.sqrt(law.noise.variance) == pytest.approx(_by_the_matrix(24, sums, common), rel=1e-9)


def test_changes_err_as_the_page_says() -> None:
    """1.705 of an independent month for month on month, 1.548 for the same month a year before (endless series)."""
    newest = BandDraw(band=BAND, number=60)
    month, year = (
        law_of_change((newest, BandDraw(band=BAND, number=60 - back)), SCALE, (1, 1), 60 - back) for back in (1, 12)
    )
    unit = float(SCALE) / math.sqrt(BAND.squared)

    assert math.sqrt(month.noise.variance) / unit == pytest.approx(1.705, abs=1e-3)
    assert math.sqrt(year.noise.variance) / unit == pytest.approx(1.548, abs=2e-3)


def test_a_number_less_itself_has_no_noise() -> None:
    draw = BandDraw(band=BAND, number=5)

    assert law_of_change((draw, draw), SCALE, (2, 2), 5).noise.variance == 0


def _months(last: int, *changes: tuple[str, str]) -> ReleasePlan:
    return series_plan(*((("period: 2024-03", f"period: 2024-{last:02d}"),) if last != 3 else ()), *changes)


def _released(plan: ReleasePlan, draws: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> Released:
    (series,) = (query.series for query in plan.queries)
    assert series is not None
    count = len(series.periods)
    earlier = {each: {"visits.visits": draws[at].tolist()} for at, each in enumerate(series.periods[:-1])}
    return Released(plan, {"visits.visits": Measurement("visits.visits", draws[count - 1])}, earlier)


def test_diff_takes_the_difference_of_two_months_and_not_two_margins() -> None:
    one, two = _months(3), _months(4)
    step = one.steps[0]
    draws = np.full((4, 2), 10**7, dtype=np.int64)
    sides = [
        (each.plan, inputs_of(each.plan, each.measurements, each.earlier))
        for each in (_released(one, draws), _released(two, draws))
    ]

    sums = {}
    for name, length in (("visits", 1), ("visits_last_3", 3), ("visits_ytd", 0)):
        sums[name] = margin_of_change(sides[0], sides[1], "visits", name, Fraction(95, 100)) or 0.0
        alone = [law_of_sum(BandDraw(band=step.series.band, number=n), step.scale, length or n) for n in (3, 4)]  # type: ignore[union-attr]  # it has one
        assert 0 < sums[name] < sum(law.margin(Fraction(95, 100)) for law in alone)
    # a year to date less that of the month before is the month: it errs as the month does, by thousandths more
    month = law_of_sum(BandDraw(band=step.series.band, number=4), step.scale, 1).margin(Fraction(95, 100))  # type: ignore[union-attr]  # it has one
    assert sums["visits_ytd"] == pytest.approx(month, abs=5e-3)


def test_diff_tells_a_series_by_its_ends() -> None:
    told = [text_of(_months(at).queries[0].series) for at in (1, 4)]

    assert told[0].startswith("periods 2024-01, sums 3, 12, ytd, minimize relative, band ")
    assert told[1].startswith("periods 2024-01 to 2024-04, sums 3, 12, ytd, minimize relative, band ")


def test_diff_names_what_moved_and_nothing_else() -> None:
    """Months without noise that are alike, then one that is larger in one cell by more than noise explains."""
    one, two = _months(3), _months(4)
    assert one.queries[0].series is not None
    band = one.queries[0].series.band
    months = np.full((4, 2), 10**5, dtype=np.int64)
    found = compare_releases(
        _released(one, _drawn(band, months)), _released(two, _drawn(band, months)), Fraction(95, 100)
    )
    assert {each.measure for each in found.changes} == {"visits_ytd"}  # four months are more than three
    assert found.compared == 6
    months[3, 1] += 10**4
    found = compare_releases(
        _released(one, _drawn(band, months)), _released(two, _drawn(band, months)), Fraction(95, 100)
    )
    moved = {(each.measure, each.keys) for each in found.changes}
    assert moved == {("visits", ("m",)), ("visits_last_3", ("m",)), ("visits_ytd", ("f",)), ("visits_ytd", ("m",))}


def _drawn(
    band: Band, months: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.stack(
        [
            sum(
                (c * months[at - lag] for lag, c in enumerate(band.coefficients) if lag <= at), np.zeros_like(months[0])
            )
            for at in range(len(months))
        ]
    )


def test_other_series_are_compared_by_both_margins() -> None:
    one, two = _months(3), _months(3, (SERIES, SERIES.replace("}", ", look_back: 3}")))
    draws = np.full((3, 2), 10**7, dtype=np.int64)
    sides = [
        (each.plan, inputs_of(each.plan, each.measurements, each.earlier))
        for each in (_released(one, draws), _released(two, draws))
    ]

    assert margin_of_change(sides[0], sides[1], "visits", "visits", Fraction(95, 100)) is None


DERIVED = (
    "queries:\n",
    """derive:
  before: {sql: "select sex, visits_ytd - visits as earlier, visits as own, visits_last_12 as year from visits"}
  all: {sql: "select sum(visits_ytd) as together from visits"}
queries:
""",
)


def test_tables_by_sql_take_the_sums_and_what_they_share() -> None:
    """January and February are what the year to date is more than March: their noise is no sum of two margins."""
    plan = _months(3, DERIVED)
    step = plan.steps[0]
    assert step.series is not None
    released = _released(plan, _drawn(step.series.band, np.full((3, 2), 10**5, dtype=np.int64)))
    inputs = inputs_of(plan, released.measurements, released.earlier)
    tables = with_sums(plan, queries_as_tables(plan, inputs), inputs)

    before, together = derived_tables(plan, tables, inputs, seed=1)

    numbers = {each.name: each for each in before.measures}
    assert numbers["earlier"].value == pytest.approx([2 * 10**5] * 2)
    exact = law_of_change((step.series, step.series), step.scale, (3, 1), 3)
    own, ytd = (math.sqrt(law_of_sum(step.series, step.scale, length).variance) for length in (1, 3))
    # 1,000 replicates: a standard error is known to 2.2 %, so that a right one is off by a tenth once in 10^5
    assert numbers["earlier"].standard_error == pytest.approx(math.sqrt(exact.variance), rel=0.1)
    assert numbers["own"].standard_error == pytest.approx(own, rel=0.1)
    assert math.sqrt(exact.variance) < 0.75 * math.hypot(own, ytd)
    assert np.isnan(numbers["year"].value).all()
    assert together.measures[0].standard_error == pytest.approx(math.sqrt(2) * ytd, rel=0.1)


def test_replicates_are_about_what_was_measured() -> None:
    plan = _months(3)
    step = plan.steps[0]
    assert step.series is not None
    released = _released(plan, _drawn(step.series.band, np.full((3, 2), 10**5, dtype=np.int64)))
    inputs = inputs_of(plan, released.measurements, released.earlier)
    periods = periods_again(plan, inputs, 4000, np.random.default_rng(2))
    found = values_again(plan, plan.queries[0], inputs, MappingProxyType(periods), 8000)

    error = math.sqrt(law_of_sum(step.series, step.scale, 3).variance)
    assert float(found["visits_ytd"].mean()) == pytest.approx(3 * 10**5, abs=6 * error / 80)
    assert float(found["visits_ytd"].std()) == pytest.approx(error, rel=0.05)
    assert np.allclose(found["visits_ytd"], found["visits_last_3"])


def test_a_sum_since_the_first_month_errs_as_the_page_says() -> None:
    """3.16 of an independent month in the mean over 60 of them, and a month 1.12 (docs/measures/series.md)."""
    band = best_band(Aim.relative((3, 12, "ytd", "total"), 12, 60), 24)
    month = endless_variances(band, 1)[-1] * band.squared
    total = sum(endless_variances(band, each)[-1] for each in range(1, 61)) / 60 * band.squared

    assert math.sqrt(month) == pytest.approx(1.12, abs=2e-3)
    assert math.sqrt(total) == pytest.approx(3.16, abs=5e-3)
    assert math.sqrt(sum(range(1, 61)) / 60) == pytest.approx(5.52, abs=5e-3)


def test_what_another_draw_of_a_month_would_cost_the_months_before_it() -> None:
    """90 % of its charge for the month itself, and 6 % for the one before it (decision 121)."""
    parts = [each * each / BAND.squared for each in BAND.coefficients]

    assert (round(100 * parts[0]), round(100 * parts[1])) == (90, 6)
