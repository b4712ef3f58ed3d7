"""Real flights by carrier, whose months share their noise: a bundle for each month, and one page over all of them.

By default four months, at night the year.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dprelease.plan.document import ReleasePlan
from tests.e2e.real_data import CARRIERS, FILES
from tests.planned import plan_of
from tests.project import command, one_table
from tests.unit.series_example import POLICY

FLIGHTS = FILES["flights"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not FLIGHTS.exists(), reason="the file of flights is not beside the checkout"),
]
YEAR = [f"2013-{month:02}" for month in range(1, 13)]
# The standard error since January after so many months, over that of one independent month (docs/proofs/series.md).
SINCE_JANUARY = {4: 1.6221, 12: 2.3303}
SERIES = "    series: {from: 2013-01, sums: [3, 12, ytd]}\n"
SPEC = f"""\
dprelease: 1
release: {{name: departures, period: 2013-12, title: "Departures from New York City in {{{{ period }}}}"}}
privacy:
  unit: {{entity: row}}
  budget: {{epsilon: 1/2, delta: 1e-9}}
tables:
  flights:
    account: visits
    source: {{file: people.csv}}
    time: {{column: day, type: date}}
    columns:
      carrier: {{type: text, keys: [{", ".join(CARRIERS)}]}}
queries:
  carriers:
    title: "Departures in {{{{ period }}}} by carrier"
    table: flights
    by: [carrier]
    measures: {{departures: {{count: rows}}}}
{SERIES}publish: {{formats: [csv, html], certificate: false}}
"""


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _truth() -> Mapping[tuple[str, str], int]:
    sql = f"SELECT printf('%d-%02d', year, month), carrier, count(*) FROM read_parquet('{FLIGHTS}') GROUP BY 1, 2"
    return {(period, carrier): rows for period, carrier, rows in duckdb.sql(sql).fetchall()}


def _error(plan: ReleasePlan, measure: str) -> float:
    return next(float(each.standard_error or "nan") for each in plan.outputs if each.measure == measure)


@pytest.fixture(scope="module", params=[4, pytest.param(12, marks=pytest.mark.nightly)])
def months(request: pytest.FixtureRequest) -> list[str]:
    """The months that are released."""
    return YEAR[: int(request.param)]


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory, months: list[str]) -> Path:
    """A project that released them one by one."""
    sql = f"SELECT make_date(year, month, day)::VARCHAR, carrier FROM read_parquet('{FLIGHTS}')"
    folder = one_table(tmp_path_factory.mktemp("year"), SPEC, "day,carrier", duckdb.sql(sql).fetchall(), POLICY)
    for period in months:
        command(folder, "run", "spec.yaml", "--direct", "--period", period)
    return folder


def test_every_number_is_near_the_truth_and_sums_agree(year: Path, months: list[str]) -> None:
    truth, before = _truth(), dict.fromkeys(CARRIERS, Fraction(0))
    for at, period in enumerate(months):
        for row in _table(year / "releases/departures" / period / "tables/carriers.csv"):
            carrier = row["carrier"]
            lengths = {"": 1, "_last_3": 3, "_last_12": 12, "_ytd": at + 1}
            for name, length in lengths.items():
                told = row[f"departures{name}"]
                if length > at + 1:
                    assert told == ""
                    continue
                true = sum(truth.get((each, carrier), 0) for each in months[at + 1 - length : at + 1])
                assert abs(float(told) - true) < 6.5 * float(row[f"departures{name}_se"])
            assert Fraction(row["departures_ytd"]) == before[carrier] + Fraction(row["departures"])
            before[carrier] = Fraction(row["departures_ytd"])


def test_sums_err_less_than_those_of_independent_months(year: Path, months: list[str]) -> None:
    last = _table(year / "releases/departures" / months[-1] / "tables/carriers.csv")[0]
    alone = _error(plan_of(SPEC.replace(SERIES, "")), "departures")

    assert float(last["departures_se"]) / alone == pytest.approx(1.0962, abs=2e-3)
    assert 1.4789 < float(last["departures_last_3_se"]) / alone < 1.5416  # of the third month, and in the end: it rises
    assert float(last["departures_ytd_se"]) / alone == pytest.approx(SINCE_JANUARY[len(months)], abs=2e-3)
    assert SINCE_JANUARY[len(months)] < 0.82 * len(months) ** 0.5
    assert (last["departures_ytd"] == last["departures_last_12"]) == (len(months) == 12)


def _by_another_route(plan: ReleasePlan, length: int) -> float:
    """The standard error of the sum of the last months of a year, from the whole numbers of the plan alone.

    The matrix of the year's draws is written out, its inverse is taken by elimination in rationals, and the squares of
    the weights of all twelve draws are added up: nothing of ``estimate.series`` and of ``plan.verify.series``.
    """
    (step,) = plan.steps
    assert step.series is not None
    band, months = step.series.band.coefficients, step.series.number
    rows = [
        [Fraction(band[at - to]) if 0 <= at - to < len(band) else Fraction(0) for to in range(months)]
        for at in range(months)
    ]
    inverse = [[Fraction(int(at == to)) for to in range(months)] for at in range(months)]
    for at in range(months):
        inverse[at] = [each / rows[at][at] for each in inverse[at]]
        for below in range(at + 1, months):
            times = rows[below][at]
            inverse[below] = [one - times * other for one, other in zip(inverse[below], inverse[at], strict=True)]
    weights = [sum(inverse[at][to] for at in range(months - length, months)) for to in range(months)]
    return math.sqrt(float(sum(each * each for each in weights) * step.scale**2))


def test_the_figures_of_the_year_are_those_of_the_matrix_written_out() -> None:
    """What `plan` tells for December, of one month and of twelve: 1.096 and .673 of independent months."""
    shared, alone = plan_of(SPEC), plan_of(SPEC.replace(SERIES, ""))
    (step,) = shared.steps
    assert step.series is not None
    ideal = float(step.scale) / math.sqrt(step.series.band.squared)  # of a month by itself, for the same loss
    figures = {}
    for name, length in {"": 1, "_last_3": 3, "_last_12": 12, "_ytd": 12}.items():
        found = _by_another_route(shared, length)
        assert _error(shared, f"departures{name}") == pytest.approx(found + length / 2000, rel=1e-5)
        figures[name] = found / ideal

    assert figures[""] == pytest.approx(1.0967, abs=1e-4)
    assert figures["_last_12"] == figures["_ytd"] == pytest.approx(SINCE_JANUARY[12], abs=1e-4)
    assert figures["_ytd"] / 12**0.5 == pytest.approx(0.6727, abs=1e-4)
    assert _error(alone, "departures") == pytest.approx(ideal, rel=1e-3)  # whose own lattice is coarser


@pytest.mark.nightly
def test_the_errors_of_the_year_are_as_large_as_told(year: Path, months: list[str]) -> None:
    """Sixteen carriers in December: the mean square of the errors of twelve months, in those that are told, is near 1.

    Of independent months with the same charge it would be 1 / .673^2 = 2.2. The chance that sixteen squares of normal
    errors, independent of one another, add up to more than 75, or to less than 0.6, is below 2 in 10^9.
    """
    truth, last = _truth(), _table(year / "releases/departures" / months[-1] / "tables/carriers.csv")
    for name in ("departures_ytd", "departures"):
        since = months if name == "departures_ytd" else months[-1:]
        errors = [
            (float(row[name]) - sum(truth.get((each, row["carrier"]), 0) for each in since)) / float(row[f"{name}_se"])
            for row in last
        ]
        assert 0.6 < sum(each**2 for each in errors) < 75


def test_bundles_and_the_ledger_are_sound(year: Path, months: list[str]) -> None:
    assert "sound" in command(year, "ledger", "check")
    for period in (months[0], months[len(months) // 2], months[-1]):
        assert "FAIL" not in command(year, "verify", f"releases/departures/{period}")


def test_one_page_and_one_file_have_all_months_of_all_carriers(year: Path, months: list[str]) -> None:
    folder = year / "releases/departures/@periods"
    page = (folder / "carriers.html").read_text(encoding="utf-8")
    rows = _table(folder / "carriers.csv")

    assert [(row["period"], row["carrier"]) for row in rows] == [(each, key) for each in months for key in CARRIERS]
    # The sum of twelve is not there before the twelfth month, and of one month there is no line.
    assert page.count('<figure class="series">') == page.count("<polyline") == 3 * len(CARRIERS)
    assert "Lines that are not drawn: 16" in page
