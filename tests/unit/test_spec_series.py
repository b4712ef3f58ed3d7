"""Queries with series: what is read of them, and what is refused, one wrong spec each."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.spec.fields.series import SeriesSpec
from dprelease.spec.load import load

from .series_example import SERIES, SPEC, problems, swapped

BY, MEASURES, UNIT = "by: [sex]", "measures: {visits: {count: rows}}", "unit: {entity: row}"
TIME = "    time: {column: day, type: date}\n"


def test_a_series_is_read() -> None:
    found = load(SPEC, "spec.yaml").spec.queries["visits"].series

    assert found == SeriesSpec.model_validate({"from": "2024-01", "sums": (3, 12, "ytd")})
    assert found is not None
    assert (found.from_, found.look_back, found.minimize, found.periods_read(12)) == ("2024-01", None, "relative", 12)
    other = load(swapped((SERIES, SERIES.replace("}", ", look_back: 6, minimize: alike}"))), "spec.yaml").spec
    assert other.queries["visits"].series == found.model_copy(update={"look_back": 6, "minimize": "alike"})


def test_weights_are_read_exactly_and_written_as_they_were() -> None:
    text = swapped((SERIES, SERIES.replace("}", ", minimize: {period: 4, 12: 1/3}}")))

    found = load(text, "spec.yaml").spec.queries["visits"].series

    assert found is not None
    assert found.minimize == {"period": 4, "12": Fraction(1, 3)}
    assert SeriesSpec.from_canonical(found.canonical()) == found
    assert SeriesSpec.from_canonical(found.canonical()).canonical() == found.canonical()


def test_a_spec_without_one_has_the_fingerprint_that_it_had() -> None:
    text = swapped((f"    {SERIES}\n", ""))

    assert '"series"' not in load(text, "spec.yaml").spec.queries["visits"].canonical()


@pytest.mark.parametrize(
    ("written", "code", "says"),
    [
        ("{from: 2024-01, sums: []}", "DPR-S760", "is empty, no list of sums"),
        ("{from: 2024-01, sums: 12}", "DPR-S760", "no list of sums"),
        ("{from: 2024-01, sums: [1]}", "DPR-S760", "is 1, not from 2 to 60"),
        ("{from: 2024-01, sums: [61]}", "DPR-S760", "is 61, not from 2 to 60"),
        ("{from: 2024-01, sums: [1.5]}", "DPR-S760", "neither a number of periods nor `ytd`"),
        ("{from: 2024-01, sums: [year]}", "DPR-S760", "neither a number of periods nor `ytd`"),
        ("{from: 2024-01, sums: [3, 3]}", "DPR-S760", "has a sum twice"),
        ("{from: 2024-01, sums: [3, total]}", "DPR-S761", "no `horizon`"),
        ("{from: 2024-01, sums: [3], horizon: 12}", "DPR-S761", "no sum is `total`"),
        ("{from: 2024-01, sums: [3, total], horizon: 129}", "DPR-S761", "129"),
        ("{from: 2024-01, sums: [total], horizon: 2}", "DPR-S773", "later period"),
        ("{from: 2024-01, sums: [3], look_back: 25}", "DPR-S760", "is more than 24 periods"),
        ("{from: 2024-01, sums: [3], minimize: best}", "DPR-S751", "is the text 'best'"),
        ("{from: 2024-01, sums: [3], minimize: [period]}", "DPR-S751", "is a list"),
        ("{from: 2024-01, sums: [3], minimize: {}}", "DPR-S751", "no weight for `period`"),
        ("{from: 2024-01, sums: [3], minimize: {3: 1}}", "DPR-S751", "no weight for `period`"),
        ("{from: 2024-01, sums: [3], minimize: {period: 0, 3: 1}}", "DPR-S751", "not above 0"),
        ("{from: 2024-01, sums: [3], minimize: {period: 1, 3: 1e9}}", "DPR-S751", "10,000 times apart"),
        ("{from: 2024-01, sums: [3], minimize: {period: 1, 12: 1}}", "DPR-S751", "'12', which is not among"),
        ("{from: 2024-01, sums: [3], minimize: {period: 1, month: 1}}", "DPR-S751", "'month', which is not among"),
        ("{from: 2024, sums: [3]}", "DPR-S765", "the release is about a month"),
        ("{from: 2024-04, sums: [3]}", "DPR-S765", "after the period of the release"),
        ("{from: first, sums: [3]}", "DPR-S765", "the release is about a month"),
    ],
)
def test_a_wrong_series_is_refused(written: str, code: str, says: str) -> None:
    (found,) = problems((SERIES, f"series: {written}"))

    assert (found.code, says in found.summary) == (code, True), found
    assert found.hint


@pytest.mark.parametrize(
    ("field", "written"),
    [
        ("totals", "totals: all"),
        ("compare", "compare: {change: {measure: visits, change_from: previous}}"),
        ("suppress", "suppress: {measure: visits, below: 3}"),
        ("round", "round: 5"),
        ("bounds", "bounds: {max_groups: 1}"),
    ],
)
def test_what_does_not_go_with_a_series_is_refused_by_name(field: str, written: str) -> None:
    found = problems((SERIES, f"{SERIES}\n    {written}"))

    assert [each.summary for each in found if each.code == "DPR-S762"] == [
        f"`queries.visits.{field}` stands beside `series`"
    ]


@pytest.mark.parametrize(
    "written",
    [
        "invariants: [{query: visits, measure: visits, why: law}]",
        'schedule: {cron: "0 6 5 * *", timezone: UTC, period: month, not_before: 4d, revisions: [1m]}',
    ],
)
def test_what_of_the_release_does_not_go_with_a_series_is_refused(written: str) -> None:
    found = [each for each in problems(("queries:\n", f"{written}\nqueries:\n")) if each.code == "DPR-S762"]

    assert len(found) == 1
    assert found[0].hint


@pytest.mark.parametrize(
    ("measures", "kind"),
    [
        ("{visits: {variance: hours, clip: [0, 10]}}", "variance"),
        ("{visits: {count: rows}, mean: {mean: hours, clip: [0, 10]}, odd: {ratio: [mean, visits]}}", "'mean'"),
        ("{visits: {sum: hours, clip: {private: true, within: [0, 20]}}}", "clip"),
        ("{visits: {quantiles: hours, at: [0.5], clip: [0, 10]}}", "quantile"),
        ("{visits: {count_distinct: hours}}", "count_distinct"),
    ],
)
def test_only_what_follows_from_counts_and_sums_makes_a_series(measures: str, kind: str) -> None:
    found = [each for each in problems((MEASURES, f"measures: {measures}")) if each.code == "DPR-S763"]

    assert len(found) == 1
    assert kind in found[0].summary


def test_noise_without_delta_is_refused() -> None:
    assert [each.code for each in problems(("delta: 1e-9", "delta: 0"))] == ["DPR-S764"]
    found = problems((UNIT, f"{UNIT}\n  noise: laplace"))
    assert [each.code for each in found] == ["DPR-S764"]


def test_a_period_of_no_calendar_is_refused() -> None:
    found = problems(("period: 2024-03", "period: spring"), (TIME, ""))

    assert {"DPR-S765"} <= {each.code for each in found}


def test_weeks_have_no_year_to_date() -> None:
    weeks = (("period: 2024-03", "period: 2024-W09"), (SERIES, "series: {from: 2024-W01, sums: [4, ytd]}"))
    found = problems(*weeks)

    assert [each.code for each in found] == ["DPR-S765"]
    assert "a year is no whole number of weeks" in found[0].summary
    assert problems(weeks[0], (SERIES, "series: {from: 2024-W01, sums: [4, 13]}")) == []


def test_persons_of_all_time_are_refused_with_what_they_would_lose() -> None:
    """28.5 for a series without end, where independent noise costs 12 (docs/proofs/series.md, section 5)."""
    (found,) = problems((UNIT, "unit: {entity: person}"))

    assert found.code == "DPR-S766"
    assert (
        "12 in a row would lose 28.5 times what one month costs, and with independent noise 12 times" in found.summary
    )
    assert "unit: {entity: person, per: month}" in found.hint


def test_another_stretch_than_the_period_is_refused() -> None:
    assert [each.code for each in problems((UNIT, "unit: {entity: person, per: year}"))] == ["DPR-S766"]


def test_rows_need_a_time() -> None:
    (found,) = problems((TIME, ""))

    assert (found.code, "needs a `time`" in found.summary) == ("DPR-S767", True)


def test_rows_may_be_read_by_spark() -> None:
    assert problems((TIME, f"{TIME}    engine: spark\n")) == []


def test_a_sample_of_a_unit_would_be_another_one_each_time() -> None:
    person = (UNIT, "unit: {entity: person, per: month}")
    bounded = f"{TIME}    unit_id: person\n    bounds: {{max_rows: 2}}\n"
    kept = f"{TIME}    unit_id: person\n    bounds: {{max_rows: 2, truncate: first, order_by: [hours]}}\n"

    assert [each.code for each in problems(person, (TIME, bounded))] == ["DPR-S767"]
    assert problems(person, (TIME, kept)) == []


def test_a_sum_has_a_name_of_its_own() -> None:
    column = ("      hours:", "      visits_ytd: {type: text, keys: [a]}\n      hours:")
    found = problems(column, (BY, "by: [sex, visits_ytd]"))

    assert [each.code for each in found] == ["DPR-S768"]


@pytest.mark.parametrize(
    ("skip", "code"),
    [("[2023-12]", "S770"), ("[2024-Q1]", "S770"), ("[2024-03]", "S771"), ("[2024-01]", "S771"), ("[2024-02]", "")],
)
def test_periods_of_the_series_are_skipped_and_neither_the_first_nor_the_own_one(skip: str, code: str) -> None:
    found = problems((SERIES, SERIES.replace("}", f", skip: {skip}}}")))

    assert [each.code for each in found] == ([f"DPR-{code}"] if code else [])


@pytest.mark.parametrize("catch_up", ["latest", "none"])
def test_a_schedule_that_leaves_periods_out_is_refused(catch_up: str) -> None:
    schedule = 'schedule: {cron: "0 6 5 * *", period: month, timezone: UTC, not_before: 4d, catch_up: ' + catch_up + "}"
    found = problems((SERIES, f"{SERIES}\n{schedule}"))

    assert "DPR-S772" in [each.code for each in found]


def test_a_series_without_skipped_periods_has_the_fingerprint_that_it_had() -> None:
    """A running series has stored plans: what was added later is not written where it says nothing."""
    known = "0ea83ef6c5920b9072ca7e48d9198002b8c6e9aa6a398d8815b887584056c539"

    assert load(SPEC, "spec.yaml").spec.fingerprint() == known
    assert load(swapped((SERIES, SERIES.replace("}", ", skip: []}"))), "spec.yaml").spec.fingerprint() == known
