"""Bands of a series: the whole numbers, what they cost, and how far sums of periods err, held against other ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dprelease.catalog.series.aims import Aim
from dprelease.catalog.series.band import Band, SumOf, lengths_of
from dprelease.catalog.series.best_band import best_band, least_objective, least_variance
from dprelease.estimate.series import endless_variances, sum_variance, sum_weights, weights_of_periods

SUMS: tuple[SumOf, ...] = (3, 12, "ytd")
AIMS = {"relative": Aim.relative(SUMS), "alike": Aim.alike(SUMS)}
# aim, periods: the band, the square of its norm, and the standard errors of 1, 3, 6, 12 periods and ytd, at mu = 1.
BANDS: dict[tuple[str, int], tuple[tuple[int, ...], int, tuple[float, ...]]] = {
    ("relative", 12): (
        (3879, 989, 670, 301, 280, 237, 189, 150, 113, 78, 52, 18),
        16778934,
        (1.0967, 1.5415, 1.9174, 2.3881, 1.9269),
    ),
    ("relative", 6): ((3883, 1004, 681, 308, 282, 234), 16778610, (1.0971, 1.5347, 1.8865, 2.4567, 1.9385)),
    ("relative", 3): ((3891, 1054, 724), 16774973, (1.1004, 1.4919, 1.9560, 2.6378, 2.0234)),
    ("alike", 12): (
        (3591, 1405, 978, 524, 482, 407, 329, 274, 220, 151, 127, 76),
        16774762,
        (1.2342, 1.5739, 1.8549, 2.1632, 1.8437),
    ),
    ("alike", 6): ((3603, 1445, 1009, 546, 490, 394), 16781167, (1.2373, 1.5612, 1.7853, 2.2493, 1.8489)),
    ("alike", 3): ((3628, 1553, 1098), 16779797, (1.2543, 1.4636, 1.8838, 2.4739, 1.9494)),
}
# aim, number of periods: month, sums of 3 and 12, ytd, and all since the first (root of the mean variance).
FINITE: dict[tuple[str, int], tuple[float, ...]] = {
    ("relative", 12): (1.0926, 1.5332, 2.3303, 1.8627),
    ("relative", 24): (1.0947, 1.5377, 2.3824, 1.8951, 2.3620),
    ("relative", 60): (1.0959, 1.5401, 2.3866, 1.9142, 3.4408),
    ("relative", 120): (1.0963, 1.5408, 2.3874, 1.9206, 4.7168),
    ("alike", 12): (1.2254, 1.5584, 2.0466, 1.7111),
    ("alike", 24): (1.2298, 1.5669, 2.1527, 1.7786, 2.0763),
}


def _error(band: Band, variances: Sequence[Fraction]) -> float:
    """The root of the mean variance at mu = 1: the noise on a draw has the variance S."""
    return math.sqrt(band.squared * sum(variances) / len(variances))


@pytest.mark.parametrize(("aim", "periods"), BANDS)
def test_the_band_is_the_one_that_another_search_found(aim: str, periods: int) -> None:
    """By L-BFGS over the numbers of the band themselves, in doubles: every number within 1, and their squares exact."""
    numbers, squared, _ = BANDS[aim, periods]

    band = best_band(AIMS[aim], periods)

    assert max(abs(one - other) for one, other in zip(band.coefficients, numbers, strict=True)) <= 1
    assert band.squared == sum(each**2 for each in band.coefficients)
    assert Band(coefficients=numbers).squared == squared


@pytest.mark.parametrize(("aim", "periods"), BANDS)
def test_a_series_without_end_errs_as_told(aim: str, periods: int) -> None:
    numbers, _, errors = BANDS[aim, periods]
    band = Band(coefficients=numbers)
    year = [endless_variances(band, length)[-1] for length in range(1, 13)]

    found = [_error(band, [year[length - 1]]) for length in (1, 3, 6, 12)] + [_error(band, year)]

    assert found == pytest.approx(errors, abs=5.1e-5)


@pytest.mark.parametrize(("aim", "periods"), FINITE)
def test_a_series_of_so_many_periods_errs_as_told(aim: str, periods: int) -> None:
    band = Band(coefficients=BANDS[aim, 12][0])
    after = range(1, periods + 1)

    found = [_error(band, [sum_variance(band, t, length) for t in after if t >= length]) for length in (1, 3, 12)]
    found.append(_error(band, [sum_variance(band, t, (t - 1) % 12 + 1) for t in after]))
    if periods > 12:
        found.append(_error(band, [sum_variance(band, t, t) for t in after]))

    assert found == pytest.approx(FINITE[aim, periods], abs=5.1e-5)


def test_the_first_years_err_as_told() -> None:
    band = Band(coefficients=BANDS["relative", 12][0])
    first = (1.0560, 1.3169, 1.4789, 1.6221, 1.7411, 1.8436, 1.9364, 2.0222, 2.1031, 2.1808, 2.2561, 2.3303)
    second = (1.0967, 1.3795, 1.5415, 1.6916, 1.8144, 1.9174, 2.0094, 2.0930, 2.1709, 2.2453, 2.3169, 2.3881)

    assert [_error(band, [sum_variance(band, t, t)]) for t in range(1, 13)] == pytest.approx(first, abs=5.1e-5)
    found = [_error(band, [sum_variance(band, 12 + t, t)]) for t in range(1, 13)]
    assert found == pytest.approx(second, abs=1.01e-4)
    months = [_error(band, [sum_variance(band, t, 1)]) for t in (1, 2, 3, 6, 12)]
    assert months == pytest.approx((1.0560, 1.0898, 1.0957, 1.0966, 1.0967), abs=5.1e-5)


@pytest.mark.parametrize("aim", AIMS)
def test_variances_are_those_of_the_inverse_matrix(aim: str) -> None:
    """The rows of W C^-1, by numpy, for the matrix written out."""
    band, periods = best_band(AIMS[aim], 12), 30
    matrix = sum(np.diag([each] * (periods - lag), -lag) for lag, each in enumerate(map(float, band.coefficients)))
    inverse = np.linalg.inv(matrix)

    for length in (1, 3, 12, 30):
        row = inverse[periods - length :].sum(axis=0)
        assert float(sum_variance(band, periods, length)) == pytest.approx(float(row @ row), rel=1e-10)
        weights = [float(each) for each in sum_weights(band, periods, length)]
        assert weights == pytest.approx(row[::-1].tolist(), rel=1e-8, abs=1e-14)


def test_estimates_undo_the_draws_exactly() -> None:
    band = Band(coefficients=(3879, 989, -670))
    months = [17, 0, 4, -3, 250, 8]
    drawn = [
        sum(each * months[t - lag] for lag, each in enumerate(band.coefficients) if t >= lag)
        for t in range(len(months))
    ]

    for t, month in enumerate(months):
        weights = weights_of_periods(band, t + 1)
        assert sum(weight * drawn[t - lag] for lag, weight in enumerate(weights)) == month


@pytest.mark.parametrize("aim", AIMS)
def test_errors_rise_towards_those_without_end(aim: str) -> None:
    band = best_band(AIMS[aim], 12)

    for length in (1, 3, 12):
        found = [sum_variance(band, t, length) for t in range(length, 60)] + [endless_variances(band, length)[-1]]
        assert found == sorted(found)
        assert float(found[-2] / found[-1]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("aim", "value"), [("relative", "3.04068"), ("alike", "12.03716")])
def test_the_least_objective_is_nearly_reached_and_never_beaten(aim: str, value: str) -> None:
    least = least_objective(AIMS[aim])

    def objective(periods: int) -> float:
        band = best_band(AIMS[aim], periods)
        return float(
            sum(
                weight * band.squared * sum(endless_variances(band, each)[-1] for each in lengths) / len(lengths)
                for which, weight in AIMS[aim].weights.items()
                if (lengths := lengths_of(which, 12))
            )
        )

    reached = [objective(periods) for periods in (1, 2, 3, 6, 12)]
    assert round(least, 5) == Decimal(value)
    assert reached == sorted(reached, reverse=True)
    losses = [100 * (math.sqrt(each / float(least)) - 1) for each in reached]
    table = {"relative": (14.7, 5.4, 2.0, 0.48, 0.012), "alike": (36.7, 14.6, 6.4, 1.7, 0.17)}[aim]
    assert losses == pytest.approx(table, rel=0.03, abs=6e-4)
    assert min(losses) > -1e-6
    variances = [float(least_variance(AIMS[aim], length)) for length in range(1, 13)]
    told = {"relative": (1.097, 1.542, 2.385, 1.927), "alike": (1.238, 1.579, 2.146, 1.845)}[aim]
    found = [math.sqrt(each) for each in (variances[0], variances[2], variances[11], sum(variances) / 12)]
    assert found == pytest.approx(told, abs=5.1e-4)


@pytest.mark.parametrize(
    ("aim", "errors"),
    [
        (Aim.relative((4, 13, 52), 52), (1.108, 1.712, 2.411, 3.731)),
        (Aim.relative((2, 4), 4), (1.048, 1.326, 1.727)),
        (Aim.relative((7, 28), 365), (1.091, 2.022, 3.083)),
    ],
    ids=["weeks", "quarters", "days"],
)
def test_other_periods_than_months(aim: Aim, errors: tuple[float, ...]) -> None:
    found = [math.sqrt(least_variance(aim, int(which))) for which in aim.weights]

    assert found == pytest.approx(errors, abs=6e-4)


def test_a_band_has_an_inverse_and_a_fine_lattice() -> None:
    for numbers in ((), (0, 4096), (-4096, 1), (5, 3, 1), (4096,) * 25, (4096, 2**21)):
        with pytest.raises(ValueError, match=r"period|lattice"):
            Band(coefficients=numbers)


def test_a_band_whose_earlier_draws_do_not_fade_has_no_error_without_end() -> None:
    with pytest.raises(ValueError, match="do not fade"):
        endless_variances(Band(coefficients=(1024, 1024)), 1)
    with pytest.raises(ValueError, match="do not fade"):
        endless_variances(Band(coefficients=(1024, 100, 3000)), 1)


def test_an_aim_weighs_the_period_itself() -> None:
    with pytest.raises(ValueError, match="weighs something"):
        Aim({12: Fraction(1)})
    with pytest.raises(ValueError, match="weighs something"):
        Aim({1: Fraction(1), 12: Fraction(-1)})


def test_a_sum_is_of_periods_that_there_are() -> None:
    with pytest.raises(ValueError, match="sum of 3 periods after 2"):
        sum_weights(Band(coefficients=(4096,)), 2, 3)
    with pytest.raises(ValueError, match="24 at most"):
        best_band(AIMS["alike"], 25)


@pytest.mark.parametrize(
    ("aim", "costs"), [("relative", (2.591, 4.572, 11.65, 27.37)), ("alike", (2.921, 5.479, 15.33, 37.27))]
)
def test_a_unit_of_many_periods_costs_more_than_with_independent_noise(
    aim: str, costs: tuple[float, float, float, float]
) -> None:
    """The quadratic form of the autocorrelations; the figures are of a series of 12 periods, whose last draws are cut."""
    band = Band(coefficients=BANDS[aim, 12][0])

    for each, cost in zip((2, 3, 6, 12), costs, strict=True):
        matrix = np.zeros((12 + 11 + each, 12 + each))
        for period in range(12 + each):
            matrix[period : period + 12, period] = band.coefficients
        information = matrix.T @ matrix / band.squared
        assert float(band.over(each)) == pytest.approx(float(information[:each, :each].sum()))
        cut = matrix[:12, :12].T @ matrix[:12, :12] / band.squared
        assert max(float(cut[at : at + each, at : at + each].sum()) for at in range(13 - each)) == pytest.approx(
            cost, abs=6e-3
        )
        assert float(band.over(each)) >= cost - 6e-3
        assert band.over(each) > each


@pytest.mark.parametrize("path", ["proofs/series.md", "measures/series.md"])
def test_the_errors_on_pages_are_those_of_the_bands(path: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / path).read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")
    ]
    told = {row[0]: [float(each) for each in row[1:]] for row in rows if row[1] != "month"}
    names = ["band of 12, `relative`", "band of 12, `alike`"]
    names = names if path.startswith("proofs") else ["`relative` (12 months read)", "`alike` (12 months read)"]
    relative, alike = best_band(AIMS["relative"], 12), best_band(AIMS["alike"], 12)
    bands = {"independent noise": Band(coefficients=(4096,)), names[0]: relative, names[1]: alike}

    assert set(told) == set(bands)
    for name, band in bands.items():
        year = [endless_variances(band, length)[-1] for length in range(1, 13)]
        found = [_error(band, [year[0]]), _error(band, [year[2]]), _error(band, [year[11]]), _error(band, year)]
        assert told[name] == pytest.approx(found, abs=5.1e-4)
    assert f"{float(relative.over(12)):.1f}" in page
    # A change from one month to the next: 4 Var(month) - Var(two months).
    change = math.sqrt(relative.squared * (4 * endless_variances(relative, 1)[-1] - endless_variances(relative, 2)[-1]))
    assert change == pytest.approx(1.705, abs=6e-4)
    assert path.startswith("proofs") or f"({change:.1f} instead of {math.sqrt(2):.1f})" in page
