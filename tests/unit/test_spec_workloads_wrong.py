"""What is refused of workloads, one wrong spec each: its code, its place, and what it says to type next."""

from __future__ import annotations

import pytest

from dprelease.errors import Problem, SpecError
from dprelease.spec.fields.published_sets import published_sets
from dprelease.spec.load import load

from .spec_example import swapped
from .workloads_example import WORKLOADS

CROSSTABS = "marginals: {of: [race, sex, band], ways: [0, 1, 3]}"
LEVELS = "levels: {region: 1/7, state: 2/7, puma: 4/7}"
TOTAL = "total: [null, 1/4, 1/4]"
GEOGRAPHY = "geography: [region, state, puma]"
POST = "postprocess: [consistent, nonnegative, integer]"
PUMA = "puma: {type: text, keys: {reference: geo}}"


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
    (CROSSTABS, f"{CROSSTABS}\n    except: {{reference: geo}}", "DPR-S666", 46, "declare only columns"),
    (CROSSTABS, f"{CROSSTABS}\n    except: {{reference: goe}}", "DPR-S517", 46, "`geo`"),
    (CROSSTABS, f"{CROSSTABS}\n    except: {{references: geo}}", "DPR-S200", 46, "`reference`"),
    (CROSSTABS, f"{CROSSTABS}\n    top_k: sex\n    k: 2", "DPR-S653", 46, "one query for the list"),
    (CROSSTABS, f"{CROSSTABS}\n    k: 2", "DPR-S653", 46, "leave it out"),
    (CROSSTABS, f"{CROSSTABS}\n    of: rows", "DPR-S653", 46, "marginals: {of"),
    (CROSSTABS, f"{CROSSTABS}\n    suppress: {{measure: count, below: 3}}", "DPR-S653", 46, "add up"),
    (CROSSTABS, f"{CROSSTABS}\n    expect: {{count: 3}}", "DPR-S653", 46, "no one size"),
    (CROSSTABS, f"{CROSSTABS}\n    totals: [[sex]]", "DPR-S653", 46, "under `marginals`"),
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
        "invariants: [{query: income, measure: persons, why: Law}, {query: income, measure: persons, why: Law}]",
        "DPR-S663",
        67,
        "write it once",
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


@pytest.mark.slow
def test_no_message_speaks_the_jargon_of_the_validator() -> None:
    said = "\n".join(str(problem) for row in WRONG for problem in problems_of(swapped(row[0], row[1], WORKLOADS)))

    for word in ("Input should", "pydantic", "tuple", "Extra inputs", "NoneType", "Numeral(", "Constant("):
        assert word not in said


def test_too_many_tables_are_refused_without_being_made() -> None:
    columns = [f"c{number}" for number in range(60)]
    declared = "".join(f"      {name}: {{type: integer, keys: [1, 2]}}\n" for name in columns)
    text = swapped("      note: {type: text}\n", declared, swapped(POST, "", WORKLOADS))
    for ways, code in (("30", "DPR-S659"), ("3", "DPR-S659"), ("2", None)):
        new = swapped(CROSSTABS, f"marginals: {{of: [{', '.join(columns)}], ways: [{ways}]}}", text)
        if code is None:
            spec = load(new, "s").spec
            assert len(published_sets("crosstabs", spec.queries["crosstabs"], spec.hierarchies)) == 1770
        else:
            assert [problem.code for problem in problems_of(new)] == [code]


def test_too_many_cells_are_refused_by_table_and_in_all() -> None:
    race, sex = "race: {type: integer, keys: {from: 1, to: 9}, null: 9}", "sex: {type: integer, keys: [1, 2]}"
    wide = swapped(race, "race: {type: integer, keys: {from: 1, to: 5000}}", swapped(POST, "", WORKLOADS))
    wide = swapped(sex, "sex: {type: integer, keys: {from: 1, to: 4000}}", wide)
    assert load(wide, "s").spec  # 5,000 x 4,000 x 5 cells are a hundred million

    more = swapped("band: {bin: age, edges: [0, 18, 35, 50, 65, 100]}",
                   "band: {bin: age, edges: [0, 18, 20, 35, 50, 65, 100]}", wide)  # fmt: skip
    (problem,) = problems_of(more)
    assert problem.code == "DPR-S528"
    assert "120000000 cells, more than a hundred million" in problem.summary
    assert "crosstabs__race__sex__band" in problem.summary

    columns = [f"c{number}" for number in range(6)]
    declared = "".join(f"      {name}: {{type: integer, keys: {{from: 1, to: 4000}}}}\n" for name in columns)
    text = swapped("      note: {type: text}\n", declared, swapped(POST, "", WORKLOADS))
    (problem,) = problems_of(swapped(CROSSTABS, f"marginals: {{of: [{', '.join(columns)}], ways: [2]}}", text))
    assert problem.code == "DPR-S528"
    assert "240000000 cells in all" in problem.summary
