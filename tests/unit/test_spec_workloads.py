"""Workloads as an author writes them: what they publish, what is refused with which words, and what stays the same."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import Problem, SpecError
from dprelease.spec.document import QuerySpec, ReleaseSpec
from dprelease.spec.load import load
from dprelease.spec.workloads import MarginalsSpec, key_columns, levels_of, published_sets, shares_of

from .spec_example import SPEC, swapped
from .units_example import UNITS
from .workloads_example import WORKLOADS

LOADED = load(WORKLOADS, "spec.yaml")
CROSSTABS = "marginals: {of: [race, sex, band], ways: [0, 1, 3]}"
LEVELS = "levels: {region: 1/7, state: 2/7, puma: 4/7}"
TOTAL = "total: [null, 1/4, 1/4]"
GEOGRAPHY = "geography: [region, state, puma]"
POST = "postprocess: [consistent, nonnegative, integer]"
PUMA = "puma: {type: text, keys: {reference: geo}}"
BUDGET = "budget: {epsilon: 2, delta: 1e-9}"


def query(name: str) -> QuerySpec:
    return LOADED.spec.queries[name]


def names(name: str, text: str = WORKLOADS) -> list[str]:
    spec = load(text, "spec.yaml").spec
    return [table.name for table in published_sets(name, spec.queries[name], spec.hierarchies)]


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        load(text, "spec.yaml")
    return caught.value.problems


# What is replaced, by what, the code, the line, a fragment of the message or its hint.
WRONG: list[tuple[str, str, str, int, str]] = [
    # which tables
    (CROSSTABS, "marginals: {of: [race, sex]}", "DPR-S227", 45, "`of` without `ways`"),
    (CROSSTABS, "marginals: {ways: [1]}", "DPR-S227", 45, "`ways` without `of`"),
    (CROSSTABS, "marginals: {}", "DPR-S227", 45, "neither"),
    (CROSSTABS, "marginals: {of: [race], ways: [1], sets: [[race]]}", "DPR-S227", 45, "beside"),
    (CROSSTABS, "marginals: [race, sex]", "DPR-S203", 45, "ways: [0, 1, 2]"),
    (CROSSTABS, "marginals: {of: race, ways: [1]}", "DPR-S203", 45, "[race]"),
    (CROSSTABS, "marginals: {sets: []}", "DPR-S210", 45, "at least 1"),
    (CROSSTABS, "marginals: {of: [race], ways: []}", "DPR-S210", 45, "ways: [0, 1, 2]"),
    (CROSSTABS, "marginals: {of: [race], ways: [1.5]}", "DPR-S209", 45, "digits"),
    (CROSSTABS, "marginals: {of: [race], ways: [0, 1, 2]}", "DPR-S652", 45, "from 0 to 1"),
    (CROSSTABS, "marginals: {of: [race], ways: [1, -1]}", "DPR-S652", 45, "from 0 to 1"),
    (CROSSTABS, "marginals: {of: [race], ways: [1, 1]}", "DPR-S652", 45, "once"),
    (CROSSTABS, "marginals: {of: [race, race], ways: [2]}", "DPR-S652", 45, "repeats 'race'"),
    (CROSSTABS, "marginals: {sets: [[race, race]]}", "DPR-S652", 45, "repeats 'race'"),
    (CROSSTABS, "marginals: {sets: [[race, sex], [sex, race]]}", "DPR-S652", 45, "there already"),
    (CROSSTABS, "marginals: {sets: [[race, sex], []], way: [1]}", "DPR-S200", 45, "`ways`"),
    (CROSSTABS, "marginals: {of: [race, sxe], ways: [2]}", "DPR-S504", 45, "`sex`"),
    (CROSSTABS, "marginals: {sets: [[race], [race, note]]}", "DPR-S505", 45, "public values"),
    # what cannot stand beside them
    (CROSSTABS, f"{CROSSTABS}\n    by: [sex]", "DPR-S653", 46, "leave it out"),
    (CROSSTABS, f"{CROSSTABS}\n    bounds: {{max_rows_per_group: 1}}", "DPR-S653", 46, "max_rows"),
    (CROSSTABS, f"{CROSSTABS}\n    keys: private", "DPR-S653", 46, "public keys"),
    (CROSSTABS, f"{CROSSTABS}\n    min_units: 5", "DPR-S653", 46, "every cell"),
    (CROSSTABS, f"{CROSSTABS}\n    except: {{reference: geo}}", "DPR-S653", 46, "every cell"),
    (CROSSTABS, f"{CROSSTABS}\n    top_k: sex\n    k: 2", "DPR-S653", 46, "one query for the list"),
    (CROSSTABS, f"{CROSSTABS}\n    k: 2", "DPR-S653", 46, "leave it out"),
    (CROSSTABS, f"{CROSSTABS}\n    of: rows", "DPR-S653", 46, "marginals: {of"),
    (CROSSTABS, f"{CROSSTABS}\n    suppress: {{measure: count, below: 3}}", "DPR-S653", 46, "add up"),
    (CROSSTABS, f"{CROSSTABS}\n    expect: {{count: 3}}", "DPR-S653", 46, "no one size"),
    (CROSSTABS, f"{CROSSTABS}\n    totals: [[sex]]", "DPR-S300", 46, "marginals"),
    (CROSSTABS, "by: [sex]\n    measures: {n: {count: rows}}\n    levels: geography", "DPR-S653", 47, "belongs"),
    (CROSSTABS, "by: [sex]\n    measures: {n: {count: rows}}\n    shares: {tables: {total: 1}}", "DPR-S653", 47, "no"),
    # the measure and its accuracy
    (CROSSTABS, f"{CROSSTABS}\n    measures: {{}}", "DPR-S210", 46, "count: rows"),
    (CROSSTABS, f"{CROSSTABS}\n    measures: {{a: {{count: rows}}, b: {{count: rows}}}}", "DPR-S654", 46, "2 measures"),
    (CROSSTABS, f"{CROSSTABS}\n    measures: {{a: {{count: units}}}}", "DPR-S654", 46, "count of rows"),
    (CROSSTABS, f"{CROSSTABS}\n    measures: {{a: {{mean: age}}}}", "DPR-S654", 46, "count of rows"),
    (CROSSTABS, f'{CROSSTABS}\n    measures: {{a: {{count: rows, where: "age > 3"}}}}', "DPR-S654", 46, "in the query"),
    (CROSSTABS, f"{CROSSTABS}\n    measures: {{a-b: {{count: rows}}}}", "DPR-S502", 46, "letters"),
    (CROSSTABS, f"{CROSSTABS}\n    measures: {{race: {{count: rows}}}}", "DPR-S523", 46, "key column race"),
    ("{persons: {margin: 500}}", "{persons: {relative: 0.1}}", "DPR-S540", 55, "margin"),
    ("{persons: {margin: 500}}", "{person: {margin: 500}}", "DPR-S539", 55, "`persons`"),
    ("budget: {epsilon: 1/2}", "budget: {epsilon: 1/2}\n    share: 1", "DPR-S537", 66, "keep `budget`"),
    ('where: "age >= 15"', 'where: "aeg >= 15"', "DPR-S561", 44, "did you mean age"),
    # units and noise
    ("    bounds: {max_rows: 10}\n", "", "DPR-S554", 58, "max_rows: 100"),
    # levels
    ("levels: geography", "levels: georgaphy", "DPR-S655", 49, "`geography`"),
    (GEOGRAPHY, "geography: [puma]", "DPR-S210", 33, "two or more"),
    (GEOGRAPHY, "geography: puma", "DPR-S203", 33, "[puma]"),
    (GEOGRAPHY, "geography: [region, state, state, puma]", "DPR-S650", 33, "once"),
    (GEOGRAPHY, "geography: [region, stat, puma]", "DPR-S504", 33, "`state`"),
    ("edges: [0, 18, 100]", "edges: [0, 21, 100]", "DPR-S656", 34, "edges are among"),
    (PUMA, f"{PUMA[:-1]}, null: '0601'}}", "DPR-S656", 14, "leave it out"),
    ("of: [device], ways: [1]", "of: [device, page], ways: [2]", "DPR-S657", 59, "take it out"),
    # shares
    (LEVELS, "levels: {region: 1/7, state: 2/7, puma: 3/7}", "DPR-S658", 53, "6/7 (0.857142857)"),
    (LEVELS, "levels: {region: 1/7, state: 6/7}", "DPR-S658", 53, "leaves out 'puma'"),
    (LEVELS, "levels: {region: 1/7, state: 6/7, puma: 0}", "DPR-S205", 53, "greater than 0"),
    (LEVELS, "levels: [1/7, 2/7, 4/7]", "DPR-S203", 53, "region: 1/3"),
    (TOTAL, "total: [null, 1/4]", "DPR-S658", 54, "there are 3 to give"),
    (TOTAL, "total: [0, 1/4, 1/4]", "DPR-S205", 54, "null"),
    (TOTAL, "total: [-1, 1/4, 1/4]", "DPR-S205", 54, "negative"),
    (TOTAL, "total: [null, x, 1/4]", "DPR-S204", 54, "1/2"),
    (TOTAL, "total: [1/9, 1/4, 1/4]", "DPR-S658", 54, "10/9 (1.11111111) at level 'region'"),
    (TOTAL, "totl: [null, 1/4, 1/4]", "DPR-S658", 54, "`total`"),
    (TOTAL, f'"race*sex": 1/4, {TOTAL}', "DPR-S658", 54, "the same table"),
    ("{total: 1/3, sex: 2/3}", "{total: 1/3}", "DPR-S658", 64, "1/3 (0.333333333), not to 1"),
    ("{total: 1/3, sex: 2/3}", "{total: 1/3, sex: 2/3, band: 1}", "DPR-S658", 64, "no table"),
    (CROSSTABS, f"{CROSSTABS}\n    shares: {{}}", "DPR-S658", 46, "divides nothing"),
    (CROSSTABS, f"{CROSSTABS}\n    shares: {{levels: {{region: 1}}}}", "DPR-S658", 46, "has none"),
    # names
    ("  income:\n", "  crosstabs__SEX:\n", "DPR-S660", 41, "query 'crosstabs__SEX'"),
    ("invariants: []", 'derive: {Use__page__device: {sql: "select a from b"}}', "DPR-S660", 56, "derived table"),
    # afterwards
    (POST, "postprocess: [consistent, integer, nonnegative]", "DPR-S662", 66, "[consistent, nonnegative, integer]"),
    (POST, "postprocess: [consistent, consistent]", "DPR-S662", 66, "once"),
    (POST, "postprocess: [integer]", "DPR-S662", 66, "[consistent, integer]"),
    (POST, "postprocess: []", "DPR-S210", 66, "[consistent]"),
    (POST, "postprocess: consistent", "DPR-S203", 66, "[consistent]"),
    (POST, "postprocess: [consistnt]", "DPR-S202", 66, "`consistent`"),
    (CROSSTABS, "marginals: {of: [race, sex, band], ways: [0, 2]}", "DPR-S662", 66, "add 3 to `ways`"),
    (CROSSTABS, "marginals: {sets: [[race], [sex]]}", "DPR-S662", 66, "add [race, sex] to `sets`"),
    (
        "invariants: []",
        "invariants: [{query: income, measure: persons, why: Law}]",
        "DPR-S300",
        67,
        "not available yet",
    ),
    ("invariants: []", "invariants: [{query: incom, measure: persons, why: Law}]", "DPR-S663", 67, "`income`"),
    ("invariants: []", "invariants: [{query: use, measure: count, why: Law}]", "DPR-S663", 67, "has `marginals`"),
    ("invariants: []", "invariants: [{query: income, measure: n, why: Law}]", "DPR-S663", 67, "persons"),
    ("invariants: []", "invariants: [{query: income, measure: persons}]", "DPR-S201", 67, "why"),
]


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "says"), WRONG, ids=[f"{row[2]}: {row[1][-60:]}" for row in WRONG]
)
def test_one_mistake_is_one_problem_with_code_line_and_hint(
    old: str, new: str, code: str, line: int, says: str
) -> None:
    problems = problems_of(swapped(old, new, WORKLOADS))

    assert [problem.code for problem in problems] == [code], "\n".join(map(str, problems))
    assert problems[0].where is not None
    assert problems[0].where.line == line
    assert says in f"{problems[0].summary}\n{problems[0].hint}"
    assert problems[0].hint


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        (GEOGRAPHY, "geo graphy: [region, state, puma]", ["DPR-S502", "DPR-S655"]),
        (GEOGRAPHY, "geography: [puma, region, state]", ["DPR-S656", "DPR-S656"]),
        ("topics: [topic, page]", "topics: [device, page]", ["DPR-S656", "DPR-S657"]),
        (BUDGET, "budget: {epsilon: 2}", ["DPR-S661"] * 4),
        (BUDGET, f"{BUDGET}\n  noise: laplace", ["DPR-S661"] * 4),
    ],
)
def test_one_mistake_is_told_of_everything_that_it_breaks(old: str, new: str, codes: list[str]) -> None:
    found = problems_of(swapped(old, new, WORKLOADS))

    assert [problem.code for problem in found] == codes, "\n".join(map(str, found))


def test_a_measure_cannot_have_the_name_of_a_level() -> None:
    text = swapped("marginals: {sets: [[race, sex], [sex], []]}\n    measures: {persons:",
                   "marginals: {sets: [[race, sex], [sex], []]}\n    measures: {state:", WORKLOADS)  # fmt: skip

    assert "DPR-S523" in [problem.code for problem in problems_of(text)]


def test_a_column_named_total_cannot_be_told_from_the_total() -> None:
    text = swapped("note: {type: text}", "Total: {type: text, keys: [a]}", WORKLOADS)
    (problem,) = problems_of(swapped("of: [race, sex, band]", "of: [race, sex, Total]", text))

    assert (problem.code, problem.hint) == ("DPR-S652", "rename the column")


def test_a_level_made_by_an_expression_is_not_known_to_nest() -> None:
    text = swapped(
        "adult: {bin: age, edges: [0, 18, 100]}",
        'adult: {sql: "age > 17", type: boolean, keys: [true, false]}',
        WORKLOADS,
    )
    (problem,) = problems_of(text)

    assert problem.code == "DPR-S656"
    assert "add: [adult]" in problem.hint


def test_a_number_at_a_level_has_no_range() -> None:
    text = swapped("puma: {type: text, keys", "puma: {type: integer, range: [1, 5], keys", WORKLOADS)
    text = swapped("puma: text}}", "puma: integer}}", text)
    (problem,) = problems_of(text)

    assert (problem.code, problem.where.line if problem.where else 0) == ("DPR-S656", 14)


def test_names_of_tables_are_short_enough_for_a_file() -> None:
    long = "c" * 50
    text = swapped("topics: [topic, page]", f"topics: [{long}, page]", WORKLOADS)
    text = swapped("      topic: {map", f"      {long}: {{map", text)
    (problem,) = problems_of(swapped("  use:\n", f"  {'u' * 50}:\n", text))

    assert problem.code == "DPR-S660"
    assert "110 letters" in problem.summary


def test_two_tables_of_one_workload_are_not_one_file() -> None:
    text = swapped("page: {type: text", "a__b: {type: text, keys: [x]}\n      a: {type: text, keys: [x]}\n"
                   "      b: {type: text, keys: [x]}\n      page: {type: text", WORKLOADS)  # fmt: skip
    text = swapped(POST, "", swapped("of: [device], ways: [1]", "sets: [[a__b], [a, b]]", text))

    assert [problem.code for problem in problems_of(text)] == ["DPR-S660"]


def test_no_message_speaks_the_jargon_of_the_validator() -> None:
    said = "\n".join(str(problem) for row in WRONG for problem in problems_of(swapped(row[0], row[1], WORKLOADS)))

    for word in ("Input should", "pydantic", "tuple", "Extra inputs", "NoneType", "Numeral(", "Constant("):
        assert word not in said


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
    assert key_columns(query("redistricting"), LOADED.spec.hierarchies) == ("region", "state", "puma", "race", "sex")
    assert key_columns(query("income"), LOADED.spec.hierarchies) == ("state", "sex")
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
    given = shares_of(query("redistricting"), hierarchies)

    assert given is not None
    assert given.levels == (Fraction(1, 7), Fraction(2, 7), Fraction(4, 7))
    assert given.tables == {
        (): (0, Fraction(1, 4), Fraction(1, 4)),
        ("sex",): (Fraction(2, 3), Fraction(1, 2), Fraction(1, 2)),
        ("race", "sex"): (Fraction(1, 3), Fraction(1, 4), Fraction(1, 4)),
    }
    by_age = shares_of(query("by_age"), hierarchies)
    assert by_age is not None
    assert by_age.levels == (Fraction(1, 2), Fraction(1, 2))
    assert by_age.tables == {(): (Fraction(1, 3),) * 2, ("sex",): (Fraction(2, 3),) * 2}
    assert shares_of(query("crosstabs"), hierarchies) is None
    assert shares_of(query("income"), hierarchies) is None


def test_shares_of_levels_alone_leave_the_tables_alike() -> None:
    text = swapped(f"      {LEVELS}\n      tables: {{{TOTAL}, \"sex*race\": [1/3, 1/4, 1/4], sex: [2/3, 1/2, 1/2]}}\n",
                   f"      {LEVELS}\n", WORKLOADS)  # fmt: skip
    spec = load(text, "s").spec
    shares = shares_of(spec.queries["redistricting"], spec.hierarchies)

    assert shares is not None
    assert set(shares.tables.values()) == {(Fraction(1, 3),) * 3}


def test_the_shares_of_the_census_of_2020_are_read_as_published() -> None:
    from ..golden.census_plan import FACTS

    facts: dict[str, Any] = FACTS["persons"]
    parts = facts["geolevel_proportions"]

    assert sum(map(Fraction, parts)) == 1
    for level in range(len(parts)):
        assert sum(Fraction(each[level] or 0) for each in facts["query_proportions"].values()) == 1


@settings(max_examples=20, deadline=None)
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


def test_what_is_left_out_means_what_is_said() -> None:
    plain = swapped(POST + "\ninvariants: []\n", "", WORKLOADS)
    for old, new in [
        ("queries:\n", "postprocess: [consistent]\nqueries:\n"),
        ("queries:\n", "invariants: []\nqueries:\n"),
        (CROSSTABS, f"{CROSSTABS}\n    measures: {{count: {{count: rows}}}}"),
        ("ways: [0, 1, 3]", "ways: [3, 0, 1]"),
        ("queries:\n", "queries:\n"),
    ]:
        if "ways" in old:
            assert names("crosstabs", swapped(old, new, plain)) == names("crosstabs", plain)
        else:
            assert load(swapped(old, new, plain), "s").fingerprint == load(plain, "s").fingerprint


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


def test_too_many_tables_are_refused_without_being_made() -> None:
    columns = [f"c{number}" for number in range(60)]
    declared = "".join(f"      {name}: {{type: integer, keys: [1, 2]}}\n" for name in columns)
    text = swapped("      note: {type: text}\n", declared, swapped(POST, "", WORKLOADS))
    for ways, code in (("30", "DPR-S659"), ("3", "DPR-S659"), ("2", None)):
        new = swapped(CROSSTABS, f"marginals: {{of: [{', '.join(columns)}], ways: [{ways}]}}", text)
        if code is None:
            assert len(names("crosstabs", new)) == 1770
        else:
            assert [problem.code for problem in problems_of(new)] == [code]


def test_too_many_cells_are_refused_by_table_and_in_all() -> None:
    wide = swapped("race: {type: integer, keys: {from: 1, to: 9}, null: 9}",
                   "race: {type: integer, keys: {from: 1, to: 999999}}", WORKLOADS)  # fmt: skip
    wide = swapped(POST, "", wide)
    assert load(wide, "s").spec  # 999,999 x 2 x 5 cells are below ten million

    more = swapped("band: {bin: age, edges: [0, 18, 35, 50, 65, 100]}",
                   "band: {bin: age, edges: [0, 18, 20, 35, 50, 65, 100]}", wide)  # fmt: skip
    (problem,) = problems_of(more)
    assert problem.code == "DPR-S528"
    assert "11999988 cells" in problem.summary
    assert "crosstabs__race__sex__band" in problem.summary

    columns = [f"c{number}" for number in range(6)]
    declared = "".join(f"      {name}: {{type: integer, keys: {{from: 1, to: 3000}}}}\n" for name in columns)
    text = swapped("      note: {type: text}\n", declared, swapped(POST, "", WORKLOADS))
    (problem,) = problems_of(swapped(CROSSTABS, f"marginals: {{of: [{', '.join(columns)}], ways: [2]}}", text))
    assert problem.code == "DPR-S528"
    assert "135000000 cells in all" in problem.summary
