"""Periods and sums of a series from its draws, their laws, and what they cover."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.catalog.series.band import Band, BandDraw
from dprelease.errors import BrokenPromiseError
from dprelease.estimate.series import PARTS, law_of_sum, periods_from_draws, sum_variance
from dprelease.noise import Exact, Measurement
from dprelease.noise.mechanisms.shared import draw_together
from dprelease.plan.document import PlannedSeries
from dprelease.publish.base import Content
from dprelease.publish.certificate.blocks import BlockText
from dprelease.publish.certificate.sections import certificate_blocks
from dprelease.publish.comparing.columns import compared_tables
from dprelease.publish.comparing.words import shared_words
from dprelease.publish.measured import inputs_of, queries_as_tables
from dprelease.words import speaking

from .publish_example import facts
from .series_example import SERIES, series_plan

BAND = Band(coefficients=(3879, 989, 670, 301, 280, 237, 189, 150, 113, 78, 52, 18))


def _drawn(months: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Without noise."""
    return [
        sum(
            (each * months[t - lag] for lag, each in enumerate(BAND.coefficients) if t >= lag), np.zeros_like(months[0])
        )
        for t in range(len(months))
    ]


def test_draws_without_noise_give_the_periods_exactly() -> None:
    months = np.random.default_rng(1).integers(-1000, 10**6, (30, 5))

    found = periods_from_draws(BAND, _drawn(months))

    assert all((one == PARTS * other).all() for one, other in zip(found, months, strict=True))


def test_huge_answers_are_held_and_never_wrap_around() -> None:
    drawn = [np.array([2**63 - 1, -(2**63)], dtype=np.int64)]

    (found,) = periods_from_draws(Band(coefficients=(1024,)), drawn)

    assert found.tolist() == [2**52, -(2**52)]


def test_estimates_and_sums_are_those_of_all_draws() -> None:
    plan = series_plan()
    rng = np.random.default_rng(2)
    draws = rng.integers(10**5, 10**7, (3, 2))
    earlier = {"2024-01": {"visits.visits": draws[0]}, "2024-02": {"visits.visits": draws[1]}}
    inputs = inputs_of(plan, {"visits.visits": Measurement("visits.visits", draws[2])}, earlier)

    (table,) = compared_tables(plan, queries_as_tables(plan, inputs), inputs, {})

    band = plan.queries[0].series.band if plan.queries[0].series else BAND
    exact: list[list[Fraction]] = []
    for drawn in draws.tolist():
        terms = list(zip(band.coefficients[1:], reversed(exact), strict=False))
        exact.append(
            [
                (each - sum(c * before[at] for c, before in terms)) / Fraction(band.coefficients[0])
                for at, each in enumerate(drawn)
            ]
        )
    found = {each.name: each for each in table.measures}
    assert list(found) == ["visits", "visits_last_3", "visits_last_12", "visits_ytd"]
    for at in range(2):
        assert found["visits"].value[at] == pytest.approx(float(exact[2][at]), abs=6e-4)
        assert found["visits_ytd"].value[at] == pytest.approx(float(sum(each[at] for each in exact)), abs=2e-3)
        thousandths = [round(1000 * float(each.value[at])) for each in (found["visits_ytd"], found["visits_last_3"])]
        assert thousandths[0] == thousandths[1] == sum(int(each[at]) for each in inputs.periods["visits.visits"])
    assert np.isnan(found["visits_last_12"].value).all()
    assert list(found["visits_last_12"].status) == ["blank", "blank"]
    assert found["visits"].places is None
    assert not found["visits"].integer


def test_without_earlier_draws_everything_is_blank() -> None:
    plan = series_plan()
    inputs = inputs_of(plan, {"visits.visits": Measurement("visits.visits", np.array([1, 2]))})

    (table,) = compared_tables(plan, queries_as_tables(plan, inputs), inputs, {})

    assert all(np.isnan(each.value).all() for each in table.measures)


def test_draws_of_another_size_are_refused() -> None:
    plan = series_plan()
    measured = {"visits.visits": Measurement("visits.visits", np.array([1, 2]))}

    with pytest.raises(ValueError, match="different sizes"):
        inputs_of(plan, measured, {"2024-01": {"visits.visits": (1,)}, "2024-02": {"visits.visits": (1, 2)}})


@pytest.mark.slow
def test_coverage_over_many_years() -> None:
    """30 months of 6,000 cells by the very sampler: every kind of sum is covered 95 %, and no less than 94.

    6,000 cells: the fraction has a standard error of 0.28 %, so that a right program fails once in 10^4 a figure at
    94 %, and one whose errors are told 6 % too small (95 % become 93.5 %) does not pass.
    """
    scale, cells, periods = Fraction(4096), 6000, 30
    months = np.random.default_rng(3).integers(0, 50, (periods, cells))
    drawn = [
        draw_together(
            [Exact(months[t - lag].copy()) for lag in range(min(12, t + 1))], BAND.coefficients[: t + 1], 2**40, scale
        )
        for t in range(periods)
    ]

    found = periods_from_draws(BAND, drawn)

    draw = BandDraw(band=BAND, number=periods)
    for length in (1, 3, 6, 12):
        error = sum(found[-length:]) / PARTS - months[-length:].sum(axis=0)
        law = law_of_sum(draw, scale, length)
        inside = float((np.abs(error) <= law.margin(Fraction(95, 100))).mean())
        assert 0.937 < inside < 0.963, length
        assert float(error.std()) == pytest.approx(
            float(scale) * math.sqrt(sum_variance(BAND, periods, length)), rel=0.05
        )
        assert math.sqrt(law.variance) == pytest.approx(
            float(scale) * math.sqrt(sum_variance(BAND, periods, length)), rel=0.01
        )
        assert abs(float(error.mean())) < 6 * float(error.std()) / math.sqrt(cells)


def test_tables_of_a_series_are_held_against_the_plan() -> None:
    one = Exact(np.array([1, 2]))
    for tables, numbers in (([one], (1, 2)), ([one, Exact(np.array([1]))], (1, 2))):
        with pytest.raises(BrokenPromiseError, match="not as planned"):
            draw_together(tables, numbers, 2**40, Fraction(2**12))


def test_large_numbers_are_clamped_before_they_are_added() -> None:
    most = BAND.most_rows
    tables = [Exact(np.array([2**62, -(2**62)])) for _ in range(12)]

    found = draw_together(tables, BAND.coefficients, most, Fraction(2**12))

    assert abs(int(found[0]) - BAND.growth * most) < 2**20
    assert abs(int(found[1]) + BAND.growth * most) < 2**20
    assert BAND.growth * most <= 2**61


@pytest.mark.parametrize(
    ("periods", "year", "lengths"),
    [
        (("2023-11", "2023-12", "2024-01", "2024-02"), 12, {"ytd": 2, 3: 3, 12: None}),
        (("2024-02", "2024-03"), 12, {"ytd": None, 2: 2}),
        (("2023-Q4", "2024-Q1", "2024-Q2", "2024-Q3"), 4, {"ytd": 3, 4: 4}),
        (("2024-W01", "2024-W02"), None, {"ytd": None, 2: 2}),
    ],
)
def test_a_sum_is_of_as_many_periods_as_there_are(
    periods: tuple[str, ...], year: int | None, lengths: dict[int | str, int | None]
) -> None:
    series = PlannedSeries(periods=periods, sums=(3,), band=BAND, year=year)

    assert {which: series.length(which) for which in lengths} == lengths  # type: ignore[arg-type]  # `ytd` or a number


def test_pages_say_what_was_charged_when_in_every_language() -> None:
    plan = series_plan((SERIES, "series: {from: 2023-11, sums: [2, 3], look_back: 3}"))
    (query,) = plan.queries
    assert query.series is not None
    later = len(query.series.band.coefficients) - 1
    read = query.series.periods[-1 - later : -1]

    told = list(shared_words(plan, replaces=False))
    with speaking("de"):
        german = list(shared_words(plan, replaces=False))

    assert read == ("2024-01", "2024-02")
    assert len(told) == len(german) == 2
    assert f"its own, and those of as many as {later} periods after it" in told[0]
    assert f"bis zu {later} Zeiträumen danach" in german[0]
    assert all("rows of 2024-01, 2024-02 were" in each or "2024-03" in each for each in told)
    assert "Zeilen von 2024-01, 2024-02 noch einmal" in german[1]


def test_pages_of_a_release_that_replaces_another_say_which_months_were_charged_again() -> None:
    plan = series_plan((SERIES, "series: {from: 2024-01, sums: [2], look_back: 2}"))

    _, told = shared_words(plan, replaces=True)
    with speaking("fr"):
        _, french = shared_words(plan, replaces=True)

    assert "It replaces a release of 2024-03" in told
    assert "charged in full for 2024-02 again" in told
    assert "2024-02" in french
    assert told != french


def test_months_one_after_the_other_are_told_by_their_ends() -> None:
    plan = series_plan((SERIES, "series: {from: 2023-11, sums: [2, 3], look_back: 12}"))

    assert "rows of 2023-11 to 2024-02 were read again" in list(shared_words(plan, replaces=False))[1]
    (query,) = plan.queries
    assert query.series is not None
    gap = query.model_copy(update={"series": query.series.model_copy(update={"skipped": ("2023-10",)})})
    told = list(shared_words(plan.model_copy(update={"queries": (gap,)}), replaces=False))
    assert "rows of 2023-11, 2023-12, 2024-01, 2024-02 were" in told[1]


def test_the_first_period_reads_nothing_again() -> None:
    plan = series_plan((SERIES, "series: {from: 2024-03, sums: [2, 3]}"))

    assert len(list(shared_words(plan, replaces=False))) == 1
    told = facts(plan)
    account = told.accounts[0].model_copy(update={"name": "visits"})
    content = Content(plan=plan, tables=(), facts=told.model_copy(update={"accounts": (account,)}))
    text = [each.text for each in certificate_blocks(content) if isinstance(each, BlockText)]
    assert any("This release is charged now for all draws" in each for each in text)
    assert not any("read again" in each for each in text)
