"""``{{ period }}`` in a spec: where it may stand, what takes its place, and that nothing else does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import Problem, SpecError
from dprelease.plan.resolve.catalog import resolve
from dprelease.spec.load import Loaded, load
from dprelease.spec.period import nearly
from dprelease.spec.project import load_policy
from tests.tiers import few

from .spec_example import PLACES, SPEC, swapped

TITLE, FILE, RELEASE = "title: People", "people-*.csv", '"A monitor: population"'
MEASURE = "{count: income}"


def at(old: str, new: str, period: str | None = None, text: str = SPEC) -> Loaded:
    return load(swapped(old, new, text), "spec.yaml", period)


def where(condition: str, period: str | None = None, text: str = SPEC) -> Loaded:
    return at(TITLE, f'where: "{condition}"', period, text)


def problems_of(text: str, period: str | None = None) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        load(text, "spec.yaml", period)
    return tuple(caught.value.problems)


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        ("2024", "2024-01-01", "2025-01-01"),
        ("2024-Q4", "2024-10-01", "2025-01-01"),
        ("2024-02", "2024-02-01", "2024-03-01"),
        ("2025-W01", "2024-12-30", "2025-01-06"),
        ("2024-02-29", "2024-02-29", "2024-03-01"),
    ],
)
def test_the_three_texts_are_the_period_its_first_day_and_the_day_after(period: str, start: str, end: str) -> None:
    read = at(TITLE, 'title: "{{ period }}: {{period.start}} to {{  period.end }}."', period)

    assert read.spec.queries["population"].title == f"{period}: {start} to {end}."
    assert read.spec.release.period == period


def test_every_place_that_may_hold_one() -> None:
    text = swapped(RELEASE, '"In {{ period }}"')
    text = swapped(FILE, "{{ period }}/{{ period.start }}-*.csv", text)
    text = swapped(TITLE, "title: 'Seen in {{ period }}'\n    where: \"born >= DATE '{{ period.start }}'\"", text)
    text = swapped(MEASURE, "{count: income, where: \"code = '{{ period }}'\"}", text)
    text = swapped(
        "publish:\n", 'derive:\n  gap: {title: "Of {{ period }}", sql: select * from income}\npublish:\n', text
    )
    spec = load(text, "spec.yaml").spec

    assert spec.release.title == "In 2024-03"
    assert spec.tables["people"].source.file == "${env:DATA}/2024-03/2024-03-01-*.csv"
    assert spec.queries["population"].title == "Seen in 2024-03"
    assert spec.queries["population"].where == "born >= DATE '2024-03-01'"
    assert spec.queries["population"].measures["known"].where == "code = '2024-03'"
    assert spec.derive["gap"].title == "Of 2024-03"


def test_the_period_that_is_asked_for_takes_the_place_of_the_one_that_is_written() -> None:
    text = swapped(TITLE, 'title: "In {{ period }}"')
    own, other = load(text, "s"), load(text, "s", "2024-04")

    assert (own.spec.release.period, other.spec.release.period) == ("2024-03", "2024-04")
    assert other.spec.queries["population"].title == "In 2024-04"
    assert own.written_period == other.written_period == "2024-03"


def test_each_period_has_a_fingerprint_of_its_own_however_it_is_given() -> None:
    written = load(swapped("period: 2024-03", "period: 2024-04"), "s").fingerprint
    without = swapped("  period: 2024-03\n", "")

    assert load(SPEC, "s", "2024-04").fingerprint == written
    assert load(without, "s", "2024-04").fingerprint == written
    assert load(SPEC, "s").fingerprint != written
    assert load(without, "s", "2024-04").written_period is None


def test_what_was_filled_in_is_what_is_fingerprinted() -> None:
    text = swapped(TITLE, 'title: "In {{ period }}"')

    assert load(text, "s").fingerprint == load(swapped(TITLE, 'title: "In 2024-03"'), "s").fingerprint


def test_a_wrong_period_in_the_file_does_not_matter_when_another_one_is_asked_for() -> None:
    assert at("period: 2024-03", "period: 2024/03", "2024-03").spec.release.period == "2024-03"


def test_places_stay_those_of_the_file() -> None:
    read = at("  period: 2024-03\n", "", "2024-04")

    assert (read.where("release", "period").line, read.where("release", "period").column) == (2, 1)
    assert load(SPEC, "s", "2024-04").where("release", "period") == load(SPEC, "s").where("release", "period")


def test_a_filter_is_read_with_its_period() -> None:
    read = where("born >= DATE '{{ period.start }}' AND born < DATE '{{ period.end }}'", "2024-02")
    catalog = resolve(read, {"places": PLACES})

    assert catalog.tables["people"].name == "people"
    assert read.spec.queries["population"].where == "born >= DATE '2024-02-01' AND born < DATE '2024-03-01'"


def test_a_number_is_cast_from_its_text() -> None:
    assert where("race = CAST('{{ period }}' AS INTEGER)", "2024").spec.queries["population"].where


@pytest.mark.parametrize("period", ["spring", "2024.1_b-C", "a" * 50, "7"])
def test_free_text_is_put_in_as_it_is(period: str) -> None:
    assert str(at(FILE, "{{ period }}.csv", period).spec.tables["people"].source.file).endswith(f"/{period}.csv")


@pytest.mark.parametrize(
    "period",
    [
        *("", " ", "../x", "a/b", "a b", "*", "a*", "?", "[a]", ".", "..", "-", "-x", "a'b", 'a"', "a\n", "\u0661"),
        *("a" * 65, "{{ period }}", "${env:HOME}", "a\\b", "a;b", "%2e", "a\0"),
    ],
)
def test_no_other_text_reaches_a_path_or_a_filter(period: str) -> None:
    for text in (SPEC, swapped(FILE, "{{ period }}.csv")):
        (problem,) = problems_of(text, period)
        assert problem.code == "DPR-S217"


@settings(max_examples=few(200), deadline=None)
@given(st.text(max_size=70))
def test_a_period_is_taken_only_by_its_pattern(period: str) -> None:
    if nearly(period) is not None:
        assert [problem.code for problem in problems_of(SPEC, period)] == ["DPR-S917"]
    elif re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", period):
        assert load(SPEC, "s", period).spec.release.period == period
    else:
        assert [problem.code for problem in problems_of(SPEC, period)] == ["DPR-S217"]


def test_a_period_that_is_too_long_for_a_template_is_no_trouble_without_one() -> None:
    load(SPEC, "s", "a" * 64)
    (problem,) = problems_of(swapped(FILE, "{{ period }}.csv"), "a" * 51)

    assert (problem.code, problem.where.line if problem.where else 0) == ("DPR-S305", 4)


# What is replaced, by what, the code, the line, a fragment of what is said.
WRONG = [
    (TITLE, 'title: "{{ perid }}"', "DPR-S301", 31, "did you mean"),
    (TITLE, 'title: "{{ period.first }}"', "DPR-S301", 31, "period.first"),
    (TITLE, 'title: "{{ Period }}"', "DPR-S301", 31, "{{ period }}"),
    (TITLE, 'title: "{{ period . start }}"', "DPR-S301", 31, "{{ period.start }}"),
    (TITLE, 'title: "{{ 7 * 7 }}"', "DPR-S301", 31, "{{ period.end }}"),
    (TITLE, 'title: "{{ period | upper }}"', "DPR-S301", 31, "no template"),
    (TITLE, 'title: "{{ period() }}"', "DPR-S301", 31, "no template"),
    (TITLE, 'title: "{{{ period }}}"', "DPR-S301", 31, "no template"),
    (TITLE, 'title: "{{ }}"', "DPR-S301", 31, "no template"),
    (TITLE, 'title: "{{ period }"', "DPR-S301", 31, "in full"),
    (TITLE, 'title: "{ period }}"', "DPR-S301", 31, "in full"),
    (TITLE, 'title: "{{ period {{ period }}"', "DPR-S301", 31, "no template"),
    (FILE, "{{ env.HOME }}.csv", "DPR-S301", 16, "no template"),
    ("curator: x", 'curator: "{{ period }}"', "DPR-S302", 6, "`citation` and `identifier` of `release`"),
    ("name: regional-monitor", 'name: "m-{{ period }}"', "DPR-S302", 3, "the text itself"),
    ("period: 2024-03", 'period: "{{ period }}"', "DPR-S302", 4, "the text itself"),
    ("reference/places.csv", '"{{ period }}.csv"', "DPR-S302", 12, "references.places.file"),
    ("{1: Male,", '{1: "{{ x }}",', "DPR-S302", 22, "labels"),
    ('["", N, 99]', '["{{ period }}"]', "DPR-S302", 16, "null_values"),
    ("  population:\n", '  "p{{ period }}":\n', "DPR-S302", 30, "queries"),
    (TITLE, "where: \"code = '{{ period }}' OR race = {{ period }}\"", "DPR-S306", 31, "CAST('{{ period }}'"),
    (TITLE, 'where: "race = {{ period }}"', "DPR-S306", 31, "DATE '{{ period.start }}'"),
    (TITLE, "where: \"code = '' OR race = {{ period }} OR code = ''\"", "DPR-S306", 31, "computed with"),
    (TITLE, "where: \"code = 'it''s' OR race = {{ period }}\"", "DPR-S306", 31, "computed with"),
    (TITLE, "where: '\"{{ period }}\" = 1'", "DPR-S306", 31, "computed with"),
    (TITLE, "where: '\"a''{{ period }}''\" = 1'", "DPR-S306", 31, "computed with"),
    (MEASURE, '{count: income, where: "race = {{ period }}"}', "DPR-S306", 34, "computed with"),
    ("${env:DATA}", "${env:{{ period }}}", "DPR-S307", 16, "${env:NAME}"),
    ("${env:DATA}", "${env:A{{ period }}}", "DPR-S307", 16, "${env:NAME}"),
    ("${env:DATA}", "${{ period }}", "DPR-S307", 16, "${env:NAME}"),
]


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "says"), WRONG, ids=[f"{code}: {new}" for _, new, code, _, _ in WRONG]
)
def test_anything_else_is_one_problem_at_its_place(old: str, new: str, code: str, line: int, says: str) -> None:
    base = SPEC if old != "curator: x" else swapped(RELEASE + "\n", RELEASE + "\n  curator: x\n")
    (problem,) = problems_of(swapped(old, new, base))

    assert problem.where is not None
    assert (problem.code, problem.where.line) == (code, line)
    assert says in str(problem)


def test_a_column_is_that_of_the_text() -> None:
    (problem,) = problems_of(swapped(TITLE, 'title: "{{ x }}"'))

    assert problem.where is not None
    assert (problem.where.line, problem.where.column) == (31, 12)


@pytest.mark.parametrize("period", ["spring", "spring-2024", "2024-2025"])
def test_a_day_is_wanted_of_a_period_of_the_calendar(period: str) -> None:
    (problem,) = problems_of(swapped(FILE, "{{ period.start }}.csv"), period)

    assert problem.where is not None
    assert (problem.code, problem.where.line) == ("DPR-S304", 16)
    assert "2024-W09" in problem.hint


@pytest.mark.parametrize("text", [SPEC, swapped(FILE, "{{ period.start }}.csv")])
@pytest.mark.parametrize(
    "period", ["2024-13", "2024-00", "2024-02-30", "2024-W60", "2024-Q5", "9999", "2024-3", "2024q1"]
)
def test_a_period_that_is_nearly_one_of_the_calendar_is_none(text: str, period: str) -> None:
    """In the file or on the command line, with a template that needs its days or without one."""
    for problems in (problems_of(text, period), problems_of(text.replace("period: 2024-03", f"period: {period}"))):
        assert [problem.code for problem in problems] == ["DPR-S917"]
        assert "spring-2024" in problems[0].hint
        assert ("2024-03;" in problems[0].hint) == (period == "2024-3")
        assert ("last day of the calendar" in problems[0].summary) == (period == "9999")


def test_a_template_needs_a_period() -> None:
    (problem,) = problems_of(swapped("  period: 2024-03\n", "", swapped(FILE, "{{ period.start }}.csv")))

    assert problem.where is not None
    assert (problem.code, problem.where.line) == ("DPR-S303", 2)
    assert "--period 2024-03" in problem.hint


def test_a_scheduled_release_needs_a_period() -> None:
    schedule = 'schedule: {cron: "0 6 5 * *", timezone: UTC, period: month}\npublish:\n'
    text = swapped("publish:\n", schedule, swapped("  period: 2024-03\n", ""))

    assert [problem.code for problem in problems_of(text)] == ["DPR-S303"]
    assert load(text, "s", "2024-03").spec.release.period == "2024-03"
    timed = swapped("unit_id: none", "time: {column: when, type: date}", text)
    assert [problem.code for problem in problems_of(timed)] == ["DPR-S303"]


@pytest.mark.parametrize("period", ["2024/03", '""', "[a]", "{a: b}", "~"])
def test_a_period_that_is_wrong_in_itself_is_told_once(period: str) -> None:
    text = swapped("period: 2024-03", f"period: {period}", swapped(FILE, "{{ period.start }}.csv"))
    (problem,) = problems_of(text)

    assert problem.where is not None
    assert problem.where.line == 4
    assert problem.code in ("DPR-S203", "DPR-S215", "DPR-S217")


def test_all_problems_come_at_once_in_file_order() -> None:
    text = swapped(TITLE, 'title: "{{ x }}"', swapped(FILE, "{{ period }.csv", swapped("region, sex", "regoin, sex")))

    assert [problem.code for problem in problems_of(text)][:2] == ["DPR-S301", "DPR-S301"]
    assert len(problems_of(text)) == 3


@settings(max_examples=few(150), deadline=None)
@given(st.text("{} period.startend'\"$\n", max_size=30))
def test_no_brace_is_left_and_nothing_else_is_raised(text: str) -> None:
    quoted = "'" + text.replace("'", "''").replace("\n", " ") + "'"
    spec = swapped(TITLE, f"title: {quoted}")
    whole = re.sub(r"\{\{\s*period(\.start|\.end)?\s*\}\}", "", text.replace("\n", " "))
    if "{{" in whole or "}}" in whole:
        assert [problem.code for problem in problems_of(spec)] == ["DPR-S301"]
    elif re.search(r"\$(\{[^}]*)?\{\{", text):
        assert [problem.code for problem in problems_of(spec)] == ["DPR-S307"]
    elif "${" not in text:
        title = load(spec, "s").spec.queries["population"].title
        assert ("2024-0" in title) == ("{{" in text)


def test_a_policy_has_no_period() -> None:
    policy = 'accounts:\n  demo: {unit: "{{ period }}", composition: zcdp, lifetime: {epsilon: 4, delta: 1e-8}}\n'
    with pytest.raises(SpecError) as caught:
        load_policy(policy, "policy.yaml")

    assert [problem.code for problem in caught.value.problems] == ["DPR-S302"]
