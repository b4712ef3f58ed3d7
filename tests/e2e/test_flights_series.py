"""A year of real flights by carrier, whose months share their noise: twelve bundles, and one page over all of them."""

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
    pytest.mark.nightly,
    pytest.mark.shared,
    pytest.mark.skipif(not FLIGHTS.exists(), reason="the file of flights is not beside the checkout"),
]
MONTHS = [f"2013-{month:02}" for month in range(1, 13)]
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


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The releases of departures of a project that released all months of 2013."""
    sql = f"SELECT make_date(year, month, day)::VARCHAR, carrier FROM read_parquet('{FLIGHTS}')"
    folder = one_table(tmp_path_factory.mktemp("year"), SPEC, "day,carrier", duckdb.sql(sql).fetchall(), POLICY)
    for period in MONTHS:
        command(folder, "run", "spec.yaml", "--direct", "--period", period)
    return folder


def test_every_number_is_near_the_truth_and_sums_agree(year: Path) -> None:
    truth, before = _truth(), dict.fromkeys(CARRIERS, Fraction(0))
    for at, period in enumerate(MONTHS):
        for row in _table(year / "releases/departures" / period / "tables/carriers.csv"):
            carrier = row["carrier"]
            lengths = {"": 1, "_last_3": 3, "_last_12": 12, "_ytd": at + 1}
            for name, length in lengths.items():
                told = row[f"departures{name}"]
                if length > at + 1:
                    assert told == ""
                    continue
                true = sum(truth.get((each, carrier), 0) for each in MONTHS[at + 1 - length : at + 1])
                assert abs(float(told) - true) < 6.5 * float(row[f"departures{name}_se"])
            assert Fraction(row["departures_ytd"]) == before[carrier] + Fraction(row["departures"])
            before[carrier] = Fraction(row["departures_ytd"])


def test_twelve_months_err_by_two_thirds_of_what_independent_months_would(year: Path) -> None:
    december = _table(year / "releases/departures/2013-12/tables/carriers.csv")[0]
    alone = _error(plan_of(SPEC.replace(SERIES, "")), "departures")

    assert float(december["departures_se"]) / alone == pytest.approx(1.0967, abs=2e-3)
    assert float(december["departures_last_12_se"]) / (alone * math.sqrt(12)) == pytest.approx(
        2.3303 / 12**0.5, abs=2e-3
    )
    assert float(december["departures_last_3_se"]) / (alone * math.sqrt(3)) == pytest.approx(1.5415 / 3**0.5, abs=2e-3)
    assert december["departures_ytd"] == december["departures_last_12"]


def test_all_bundles_and_the_ledger_are_sound(year: Path) -> None:
    assert "sound" in command(year, "ledger", "check")
    for period in (MONTHS[0], MONTHS[6], MONTHS[11]):
        assert "FAIL" not in command(year, "verify", f"releases/departures/{period}")


def test_one_page_and_one_file_have_all_months_of_all_carriers(year: Path) -> None:
    folder = year / "releases/departures/@periods"
    page = (folder / "carriers.html").read_text(encoding="utf-8")
    rows = _table(folder / "carriers.csv")

    assert [(row["period"], row["carrier"]) for row in rows] == [(each, key) for each in MONTHS for key in CARRIERS]
    assert page.count('<figure class="series">') == 4 * len(CARRIERS)
    assert page.count("<polyline") == 3 * len(CARRIERS) + len(CARRIERS)
    assert "Lines that are not drawn" not in page
