"""A right spec as a value: exact numbers, keys as written, places, and a fingerprint that layout cannot move."""

from __future__ import annotations

import random
import string
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import Problem, SpecError
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.sum import Sum
from dprelease.plan.resolve.catalog import resolve
from dprelease.plan.resolve.grouping import grouping_of, planned_measures
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Neighboring, PrivacyUnit
from dprelease.spec.fields.document import KeySpan, ReferenceKeys, ReleaseSpec
from dprelease.spec.load import load
from tests.tiers import few

from .spec_example import PLACES, SPEC, swapped
from .units_example import FILES, UNITS
from .workloads_example import GEO, WORKLOADS

LOADED = load(SPEC, "spec.yaml")


def fingerprint(text: str) -> str:
    return load(text, "other.yaml").fingerprint


def test_numbers_are_exact_from_their_digits() -> None:
    spec = LOADED.spec

    assert spec.privacy.budget == Budget(epsilon=Fraction(1, 2), delta=Fraction(1, 10**9))
    assert type(spec.privacy.budget) is Budget
    assert spec.queries["income"].share == Fraction(1, 2)
    assert spec.publish.confidence == Fraction(9, 10)
    assert spec.tables["people"].columns["income"].range == (Fraction(-10000), Fraction(500000))
    assert spec.privacy.at_most is not None
    assert spec.privacy.at_most.delta == Fraction(1, 10**8)


@pytest.mark.parametrize(
    ("budget", "value"),
    [
        ("{epsilon: 104/4099}", Budget(epsilon=Fraction(104, 4099))),
        ("{rho: 0.1, delta: 1e-9}", Budget(rho=Fraction(1, 10), delta=Fraction(1, 10**9))),
        ('{epsilon: "0.1"}', Budget(epsilon=Fraction(1, 10))),
    ],
)
def test_budgets_may_be_rationals_or_rho(budget: str, value: Budget) -> None:
    assert load(swapped("{epsilon: 1/2, delta: 1e-9}", budget), "s").spec.privacy.budget == value


def test_rho_may_be_spent_on_laplace_noise() -> None:
    load(swapped("budget: {epsilon: 1/2, delta: 1e-9}", "budget: {rho: 1}\n  noise: laplace"), "s")


@pytest.mark.parametrize(
    "period", ["2024", "2024-Q1", "2024-03", "2024-W09", "2024-03-07", "1e5", "0010", "true", '"2024"']
)
def test_a_period_is_text_as_it_is_written(period: str) -> None:
    assert load(swapped("2024-03\n", f"{period}\n"), "s").spec.release.period == period.strip('"')


def test_without_a_period_a_release_happens_once() -> None:
    assert load(swapped("  period: 2024-03\n", ""), "s").spec.release.period == "once"


def test_keys_are_read_by_the_type_of_their_column() -> None:
    columns = LOADED.spec.tables["people"].columns

    assert columns["code"].keys == ("06", "no", "true", "1.10")
    assert columns["code"].null == "no"
    assert [(key, type(key)) for key in columns["sex"].keys or ()] == [(1, int), (2, int)]
    assert columns["adult"].keys == (True, False)
    assert columns["district"].keys == ReferenceKeys(reference="places")
    assert columns["race"].keys == KeySpan(**{"from": 1, "to": 9})
    assert columns["income"].outside == "null"
    assert LOADED.spec.tables["people"].source.null_values == ("", "N", "99")


def test_measures_are_those_of_the_plan() -> None:
    queries = LOADED.spec.queries

    assert queries["population"].measures == {"persons": Count(count="rows"), "known": Count(count="income")}
    assert queries["income"].measures == {
        "total": Sum(sum="income", clip=(Fraction(0), Fraction(400001, 2)), clip_per="row"),
        "average": Mean(mean="income"),
    }


def test_unit_and_relation_are_those_of_the_plan() -> None:
    assert LOADED.spec.privacy.unit == PrivacyUnit(entity="person")
    assert LOADED.spec.privacy.neighboring is Neighboring.ADD_REMOVE
    monthly = load(swapped("{entity: person}", "{entity: person, per: month}"), "s")
    assert str(monthly.spec.privacy.unit) == "person-month"


@pytest.mark.parametrize(("file", "form"), [("x.csv", "csv"), ("X.CSV", "csv"), ("data/*.parquet", "parquet")])
def test_the_format_of_a_source_is_its_ending(file: str, form: str) -> None:
    spec = load(swapped('"${env:DATA}/people-*.csv"', file), "s").spec

    assert spec.tables["people"].source.format == form


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        (("privacy", "budget", "epsilon"), 9, 21),
        (("privacy", "budget"), 9, 3),
        (("privacy", "budget", "gone", "deeper"), 9, 3),
        (("tables", "people", "columns", "sex"), 22, 7),
        (("tables", "people", "columns", "sex", "keys", 1), 22, 38),
        (("tables", "people", "columns", "sex", "keys", 9), 22, 28),
        (("tables", "people", "account"), 15, 14),
        (("queries", "population", "by", 0), 33, 10),
        (("nowhere",), 1, 1),
        ((), 1, 1),
    ],
)
def test_every_part_has_a_place(path: tuple[str | int, ...], line: int, column: int) -> None:
    where = LOADED.where(*path)

    assert (where.file, where.line, where.column) == ("spec.yaml", line, column)


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\n\n" + SPEC,
        SPEC.replace("\n", "\r\n"),
        SPEC.replace("epsilon: 1/2", "epsilon: 0.5"),
        SPEC.replace("epsilon: 1/2", "epsilon: 5e-1"),
        SPEC.replace("{epsilon: 1/2, delta: 1e-9}", "{delta: 0.000000001, epsilon: 0.50}"),
        SPEC.replace("period: 2024-03", "period: '2024-03'"),
        SPEC.replace("  neighboring: add_remove\n", ""),
    ],
)
def test_layout_comments_order_of_names_and_spelled_out_defaults_do_not_move_the_fingerprint(text: str) -> None:
    assert text != SPEC
    assert fingerprint(text) == LOADED.fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("data/clicks.csv}\n", "data/clicks.csv}\n    null_id: drop\n"),
        ("top_k: page, k: 2}", "top_k: page, k: 2, of: units}"),
        ("top_k: page, k: 2}", "top_k: page, k: 2, measures: {}}"),
        ("bin: tenure, edges", "bin: tenure, type: text, edges"),
        ("below: 30", "below: 3e1"),
        ("at: [0.125, 0.5, 0.75]", "at: [1/8, 1/2, 3/4]"),
        ("bounds: {max_groups: 5}", "bounds: {max_groups: 05}"),
    ],
)
def test_what_is_left_out_of_a_spec_with_units_means_what_is_said(old: str, new: str) -> None:
    assert fingerprint(swapped(old, new, UNITS)) == fingerprint(UNITS)


def test_without_units_none_is_what_leaving_it_out_means() -> None:
    assert fingerprint(swapped("    unit_id: none\n", "")) == LOADED.fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("by: [region, sex]", "by: [sex, region]"),
        ("keys: [1, 2]", "keys: [2, 1]"),
        ("epsilon: 1/2", "epsilon: 0.51"),
        ("period: 2024-03", "period: 2024-04"),
        ("reference/places.csv", "reference/other.csv"),
        ("title: People", "title: Persons"),
        ("share: 0.5", "share: 0.6"),
        ('null_values: ["", N, 99]', 'null_values: ["", N]'),
    ],
)
def test_content_and_the_order_of_lists_move_the_fingerprint(old: str, new: str) -> None:
    assert fingerprint(swapped(old, new)) != LOADED.fingerprint


@pytest.mark.parametrize("text", [SPEC, UNITS, WORKLOADS], ids=["rows", "units", "workloads"])
def test_a_spec_comes_back_from_its_canonical_form(text: str) -> None:
    loaded = load(text, "spec.yaml")
    again = ReleaseSpec.from_canonical(loaded.spec.canonical())

    assert again == loaded.spec
    assert again.fingerprint() == loaded.fingerprint


def test_a_spec_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        LOADED.spec.privacy.noise = "laplace"  # type: ignore[misc]  # refused by the type as well


def test_bytes_and_text_are_the_same_spec() -> None:
    assert load(SPEC.encode(), "s").fingerprint == load(SPEC, "s").fingerprint


def test_extremes_are_warned_about_and_nothing_else() -> None:
    text = swapped("at: [0.125, 0.5, 0.75]", "at: [0, 0.5, 1]", UNITS)
    found = [(problem.code, problem.where.line if problem.where else 0) for problem in load(text, "s").warnings]

    assert found == [("DPR-S701", 65), ("DPR-S701", 65), ("DPR-S701", 66), ("DPR-S701", 67)]
    assert LOADED.warnings == ()


def only_spec_errors(text: str | bytes) -> None:
    """Either a spec that comes back from its canonical form, or problems that can be printed and located."""
    problems: tuple[Problem, ...] = ()
    try:
        loaded = load(text, "fuzz.yaml")
        catalog = resolve(loaded, {"places": PLACES, "geo": GEO, **FILES})
        for query in loaded.spec.queries.values():
            grouping_of(query, catalog)
            planned_measures(query, catalog.tables[query.table])
        assert isinstance(loaded.warnings, tuple)
        assert ReleaseSpec.from_canonical(loaded.spec.canonical()) == loaded.spec
        return
    except SpecError as error:
        problems = error.problems
    assert problems
    for problem in problems:
        assert problem.where is not None
        assert problem.code.startswith("DPR-S")
        assert str(problem).encode()


@settings(max_examples=few(150), deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200))
def test_random_input_raises_nothing_but_spec_errors(text: str | bytes) -> None:
    only_spec_errors(text)


WORDS = [
    "null",
    "true",
    "-1",
    "1e999999",
    "{}",
    "[]",
    '""',
    "{{ x }}",
    "&a",
    "*a",
    "!t",
    "<<",
    "0",
    ".nan",
    "[1, {a: b}]",
    "\t",
]


@settings(max_examples=few(200), deadline=None)
@given(st.sampled_from([SPEC, UNITS, WORKLOADS]), st.integers(min_value=0), st.integers(min_value=1, max_value=3))
def test_mutated_specs_raise_nothing_but_spec_errors(text: str, seed: int, changes: int) -> None:
    """Replaces values, drops lines, swaps letters: files that are nearly right."""
    draw = random.Random(seed)
    right = text
    for _ in range(changes):
        lines = text.splitlines(keepends=True)
        at = draw.randrange(len(lines))
        kind = draw.randrange(4)
        if kind == 0:
            lines.pop(at)
        elif kind == 1 and ": " in lines[at]:
            lines[at] = f"{lines[at].split(': ', 1)[0]}: {draw.choice(WORDS)}\n"
        elif kind == 2:
            place = draw.randrange(len(lines[at]))
            lines[at] = lines[at][:place] + draw.choice(string.printable) + lines[at][place + 1 :]
        else:
            words = lines[at].split(" ")
            words[draw.randrange(len(words))] = draw.choice(WORDS)
            lines[at] = " ".join(words) if words[-1].endswith("\n") else " ".join(words) + "\n"
        text = "".join(lines) or right
    only_spec_errors(text)
