"""Workloads as an author writes them: what they publish, and what stays the same."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.spec.fields.document import QuerySpec, ReleaseSpec
from dprelease.spec.fields.published_sets import all_key_columns, levels_of, published_sets, workload_shares
from dprelease.spec.fields.workloads import MarginalsSpec
from dprelease.spec.load import load
from tests.tiers import few

from .spec_example import SPEC, swapped
from .test_spec_workloads_wrong import CROSSTABS, GEOGRAPHY, LEVELS, POST, TOTAL, problems_of
from .units_example import UNITS
from .workloads_example import WORKLOADS

LOADED = load(WORKLOADS, "spec.yaml")


def query(name: str) -> QuerySpec:
    return LOADED.spec.queries[name]


def names(name: str, text: str = WORKLOADS) -> list[str]:
    spec = load(text, "spec.yaml").spec
    return [table.name for table in published_sets(name, spec.queries[name], spec.hierarchies)]


def test_the_tables_come_level_by_level_and_wider_ones_last() -> None:
    assert names("crosstabs") == [
        "crosstabs__total",
        "crosstabs__race",
        "crosstabs__sex",
        "crosstabs__band",
        "crosstabs__race__sex__band",
    ]
    assert names("redistricting") == [
        f"redistricting__{level}{rest}"
        for level in ("region", "state", "puma")
        for rest in ("", "__sex", "__race__sex")
    ]
    tables = published_sets("use", query("use"), LOADED.spec.hierarchies)
    assert [(table.level, table.columns, table.keys) for table in tables] == [
        ("topic", ("device",), ("topic", "device")),
        ("page", ("device",), ("page", "device")),
    ]


def test_columns_of_a_set_come_in_the_order_of_first_mention() -> None:
    marginals = query("redistricting").marginals

    assert marginals is not None
    assert marginals.attributes == ("race", "sex")
    assert MarginalsSpec(sets=(("b",), ("c", "a"), ("a", "b"))).tables == (("b",), ("c", "a"), ("b", "a"))
    assert all_key_columns(query("redistricting"), LOADED.spec.hierarchies) == (
        "region",
        "state",
        "puma",
        "race",
        "sex",
    )
    assert all_key_columns(query("income"), LOADED.spec.hierarchies) == ("state", "sex")
    assert levels_of(query("crosstabs"), LOADED.spec.hierarchies) == ()


def test_only_a_workload_has_sets() -> None:
    with pytest.raises(ValueError, match="only a query with marginals"):
        published_sets("income", query("income"), {})


@given(st.integers(0, 7), st.data())
def test_ways_are_all_combinations_of_so_many_columns(columns: int, data: st.DataObject) -> None:
    of = tuple("abcdefg"[:columns])
    ways = tuple(data.draw(st.lists(st.integers(0, columns), unique=True, min_size=1)))
    marginals = MarginalsSpec(of=of, ways=ways)

    assert set(marginals.tables) == {each for way in ways for each in combinations(of, way)}
    assert [len(each) for each in marginals.tables] == sorted(len(each) for each in marginals.tables)
    assert marginals.number == len(marginals.tables) == sum(comb(columns, way) for way in ways)


def test_shares_are_spelled_out_exactly() -> None:
    hierarchies = LOADED.spec.hierarchies
    given = workload_shares(query("redistricting"), hierarchies)

    assert given is not None
    assert given.levels == (Fraction(1, 7), Fraction(2, 7), Fraction(4, 7))
    assert given.tables == {
        (): (0, Fraction(1, 4), Fraction(1, 4)),
        ("sex",): (Fraction(2, 3), Fraction(1, 2), Fraction(1, 2)),
        ("race", "sex"): (Fraction(1, 3), Fraction(1, 4), Fraction(1, 4)),
    }
    by_age = workload_shares(query("by_age"), hierarchies)
    assert by_age is not None
    assert by_age.levels == (Fraction(1, 2), Fraction(1, 2))
    assert by_age.tables == {(): (Fraction(1, 3),) * 2, ("sex",): (Fraction(2, 3),) * 2}
    assert workload_shares(query("crosstabs"), hierarchies) is None
    assert workload_shares(query("income"), hierarchies) is None


def test_shares_of_levels_alone_leave_the_tables_alike() -> None:
    text = swapped(f"      {LEVELS}\n      tables: {{{TOTAL}, \"sex*race\": [1/3, 1/4, 1/4], sex: [2/3, 1/2, 1/2]}}\n",
                   f"      {LEVELS}\n", WORKLOADS)  # fmt: skip
    spec = load(text, "s").spec
    shares = workload_shares(spec.queries["redistricting"], spec.hierarchies)

    assert shares is not None
    assert set(shares.tables.values()) == {(Fraction(1, 3),) * 3}


def test_the_shares_of_the_census_of_2020_are_read_as_published() -> None:
    from ..golden.census_plan import FACTS

    facts: dict[str, Any] = FACTS["persons"]
    parts = facts["geolevel_proportions"]

    assert sum(map(Fraction, parts)) == 1
    for level in range(len(parts)):
        assert sum(Fraction(each[level] or 0) for each in facts["query_proportions"].values()) == 1


@settings(max_examples=few(20), deadline=None)
@given(st.lists(st.integers(1, 9), min_size=3, max_size=3), st.lists(st.integers(1, 9), min_size=3, max_size=3))
def test_parts_that_add_up_to_one_are_taken_and_others_are_not(top: list[int], parts: list[int]) -> None:
    def divided(of: list[int], whole: int) -> list[str]:
        return [f"{each}/{whole}" for each in of]

    region, state, puma = divided(top, sum(top))
    total, sex, both = divided(parts, sum(parts))
    text = swapped(LEVELS, f"levels: {{region: {region}, state: {state}, puma: {puma}}}", WORKLOADS)
    text = swapped('{total: [null, 1/4, 1/4], "sex*race": [1/3, 1/4, 1/4], sex: [2/3, 1/2, 1/2]}',
                   f'{{total: {total}, "race*sex": {both}, sex: {sex}}}', text)  # fmt: skip
    load(text, "s")

    found = problems_of(swapped(f"sex: {sex}}}", f"sex: {parts[1]}/{sum(parts) + 1}}}", text))
    assert [problem.code for problem in found] == ["DPR-S658"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("queries:\n", "postprocess: [consistent]\nqueries:\n"),
        ("queries:\n", "invariants: []\nqueries:\n"),
        (CROSSTABS, f"{CROSSTABS}\n    measures: {{count: {{count: rows}}}}"),
    ],
)
def test_what_is_left_out_means_what_is_said(old: str, new: str) -> None:
    plain = swapped(POST + "\ninvariants: []\n", "", WORKLOADS)

    assert load(plain, "s").spec.postprocess == ("consistent",)
    assert load(swapped(old, new, plain), "s").fingerprint == load(plain, "s").fingerprint


def test_the_order_of_ways_does_not_matter() -> None:
    assert names("crosstabs", swapped("ways: [0, 1, 3]", "ways: [3, 0, 1]", WORKLOADS)) == names("crosstabs")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ways: [0, 1, 3]", "ways: [0, 1, 2, 3]"),
        (POST, "postprocess: [consistent, integer]"),
        (GEOGRAPHY, "geography: [state, puma]"),
        ("{total: 1/3, sex: 2/3}", "{total: 2/3, sex: 1/3}"),
    ],
)
def test_what_is_published_moves_the_fingerprint(old: str, new: str) -> None:
    text = swapped(LEVELS, "levels: {state: 3/7, puma: 4/7}", WORKLOADS) if "geography" in old else WORKLOADS
    if "geography" in old:
        text = swapped('{total: [null, 1/4, 1/4], "sex*race": [1/3, 1/4, 1/4], sex: [2/3, 1/2, 1/2]}',
                       "{total: 1/3, sex: 1/3, race*sex: 1/3}", text)  # fmt: skip

    assert load(swapped(old, new, text), "s").fingerprint != LOADED.fingerprint


def test_specs_without_workloads_keep_the_fingerprints_that_they_had() -> None:
    assert load(SPEC, "s").fingerprint == "2e4616028b150e37ec64c46f6cfb7b2e0535113ad5766302bc71d5b190fcb32f"
    assert load(UNITS, "s").fingerprint == "6ef27508ab39f40cdfefbcc6b49d075e7cbd35ec6d0785411816e0e3c88ecb8b"


def test_it_comes_back_from_its_canonical_form() -> None:
    again = ReleaseSpec.from_canonical(LOADED.spec.canonical())

    assert again == LOADED.spec
    assert again.fingerprint() == LOADED.fingerprint
    assert again.postprocess == ("consistent", "nonnegative", "integer")
    assert load(SPEC, "s").spec.postprocess == ()
