"""Queries with ranges: what is read of them, and what is refused, one wrong spec each."""

from __future__ import annotations

import pytest

from dprelease.errors import Problem, SpecError
from dprelease.plan.resolve.catalog import resolve
from dprelease.spec.fields.queries import RangesSpec
from dprelease.spec.load import load

from .spec_example import SPEC as ORDINARY

SPEC = """\
dprelease: 1
release: {name: ages, period: 2024, title: Ages}
privacy:
  unit: {entity: person}
  budget: {epsilon: 1, delta: 1e-9}
references:
  places: {file: places.csv, columns: {place: text, floor: integer}}
tables:
  people:
    account: people
    source: {file: people.csv}
    columns:
      sex: {type: text, keys: [f, m]}
      age: {type: integer, keys: {from: 0, to: 99}}
      born: {type: date, keys: {from: 2024-02-27, to: 2024-03-01}}
      rooms: {type: integer, keys: [1, 2, 5]}
      day: {type: date, keys: [2024-01-01, 2024-02-01]}
      pay: {type: decimal, range: [0, 1000]}
      band: {bin: pay, edges: [0, 10, 100, 1000.1]}
      floor: {type: integer, keys: {reference: places}}
      seen: {type: boolean, keys: [false, true]}
      group: {map: age, to: {1: b, 2: a}}
      fine: {type: integer, keys: {from: 0, to: 4096}}
queries:
  distribution:
    table: people
    by: [sex, age]
    ranges: {of: age, which: prefixes}
    measures: {persons: {count: rows}}
"""
BY, RANGES, MEASURES = "by: [sex, age]", "ranges: {of: age, which: prefixes}", "measures: {persons: {count: rows}}"


def swapped(*changes: tuple[str, str]) -> str:
    text = SPEC
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def of(column: str, which: str = "prefixes") -> str:
    return swapped((BY, f"by: [sex, {column}]"), (RANGES, f"ranges: {{of: {column}, which: {which}}}"))


@pytest.mark.parametrize("which", ["prefixes", "all"])
@pytest.mark.parametrize("column", ["age", "born", "rooms", "day", "band"])
def test_spans_bins_and_rising_lists_are_in_order(column: str, which: str) -> None:
    query = load(of(column, which), "spec.yaml").spec.queries["distribution"]
    assert query.ranges == RangesSpec(of=column, which=which)  # type: ignore[arg-type]  # one of the two


@pytest.mark.parametrize(
    "more",
    [
        "where: 'pay > 3'",
        "share: 2",
        "budget: {epsilon: 1/2}",
        "target: {persons: {margin: 50}}",
        "expect: {persons: 1000}\n    target: {persons: {relative: 0.1}}",
        "title: People",
    ],
)
def test_what_other_queries_have_these_have_as_well(more: str) -> None:
    load(swapped((RANGES, f"{RANGES}\n    {more}")), "spec.yaml")


def test_a_spec_without_ranges_keeps_its_text() -> None:
    assert "ranges" not in load(ORDINARY, "spec.yaml").spec.canonical()
    assert "ranges" in load(SPEC, "spec.yaml").spec.canonical()


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        load(text, "spec.yaml")
    return caught.value.problems


# What is replaced, by what, the code, a fragment of what it says, a fragment of its hint.
WRONG: list[tuple[str, str, str, str]] = [
    (swapped((RANGES, "ranges: {of: age}")), "DPR-S201", "missing field `which`", "up to each key"),
    (swapped((RANGES, "ranges: {of: age, which: both}")), "DPR-S202", "both", "prefixes"),
    (swapped((RANGES, "ranges: age")), "DPR-S203", "", "{of: age, which: prefixes}"),
    (swapped((RANGES, "ranges: {of: age, which: all, upto: 3}")), "DPR-S200", "upto", ""),
    # the column
    (swapped((BY, "by: [sex]")), "DPR-S670", "no column of `by`", "sex"),
    (swapped((BY, "by: [sex, agee]")), "DPR-S504", "agee", "age"),
    (of("sex").replace("[sex, sex]", "[age, sex]"), "DPR-S670", "text column", "bin: COLUMN"),
    (of("seen"), "DPR-S670", "boolean column", "numbers or dates"),
    (of("group"), "DPR-S670", "text column", "bin: COLUMN"),
    (of("floor"), "DPR-S670", "from a file", "keys: {from: 0, to: 99}"),
    (of("rooms").replace("[1, 2, 5]", "[1, 5, 2]"), "DPR-S670", "do not rise", "from the least"),
    (of("pay"), "DPR-S505", "without keys", "declare"),
    (of("fine"), "DPR-S675", "4,097 keys, more than 4,096", "coarser bins"),
    (of("fine", "all").replace("to: 4096}", "to: 4095}"), "DPR-S675", "ten million", "which: prefixes"),
    # what cannot stand beside it
    (swapped((RANGES, f"{RANGES}\n    keys: private")), "DPR-S671", "stands beside", "public"),
    (swapped((RANGES, f"{RANGES}\n    min_units: 3")), "DPR-S671", "stands beside", "every sum"),
    (swapped((RANGES, f"{RANGES}\n    except: {{reference: places}}")), "DPR-S671", "stands beside", "every sum"),
    (swapped((RANGES, f"{RANGES}\n    suppress: {{measure: persons, below: 3}}")), "DPR-S671", "beside", "unreliable"),
    (swapped((RANGES, f"{RANGES}\n    top_k: sex\n    k: 1")), "DPR-S671", "stands beside", "one query for the list"),
    (swapped((RANGES, f"{RANGES}\n    marginals: {{of: [sex], ways: [1]}}")), "DPR-S671", "beside", "for the tables"),
    (swapped((RANGES, f"{RANGES}\n    levels: geography")), "DPR-S671", "stands beside", "one of `by`"),
    (swapped((RANGES, f"{RANGES}\n    shares: {{tables: {{total: 1}}}}")), "DPR-S671", "stands beside", "`share`"),
    (swapped((RANGES, f"{RANGES}\n    totals: [[sex]]")), "DPR-S712", "stands beside", "last prefix is the total"),
    # the measure
    (swapped((MEASURES, "measures: {a: {count: rows}, b: {count: rows}}")), "DPR-S672", "2 measures", "count: rows"),
    (swapped((MEASURES, "measures: {a: {mean: pay}}")), "DPR-S672", "no count of rows", "another query"),
    (swapped((MEASURES, "measures: {a: {count: units}}")), "DPR-S672", "no count of rows", "count: rows"),
    (swapped((MEASURES, "measures: {a: {count: rows, where: 'age > 3'}}")), "DPR-S672", "chooses rows", "in the query"),
    # names
    (swapped((MEASURES, "measures: {age_to: {count: rows}}")), "DPR-S674", "age_to", "rename"),
    (swapped((MEASURES, "measures: {Age: {count: rows}}")), "DPR-S523", "Age", "rename"),
    (swapped((BY, "by: [age_to, age]"), ("sex:", "age_to:")), "DPR-S674", "age_to", "rename"),
    # noise and units
    (swapped(("delta: 1e-9}", "delta: 1e-9}\n  noise: laplace")), "DPR-S673", "is laplace", "noise: auto"),
    (swapped((", delta: 1e-9}", "}")), "DPR-S673", "greater than 0", "1e-9"),
    (
        swapped(("source: {file: people.csv}", "source: {file: people.csv}\n    unit_id: id")),
        "DPR-S554",
        "",
        "max_rows",
    ),
]


@pytest.mark.parametrize(
    ("text", "code", "says", "hint"), WRONG, ids=[f"{at}-{each[1]}" for at, each in enumerate(WRONG)]
)
def test_one_wrong_thing_is_told_by_its_code_and_what_to_do(text: str, code: str, says: str, hint: str) -> None:
    found = [each for each in problems_of(text) if each.code == code]
    assert found, [str(each) for each in problems_of(text)]
    assert says in found[0].summary
    assert hint in found[0].hint
    assert found[0].where is not None


def test_rows_are_counted_again_where_a_reference_has_the_other_keys() -> None:
    text = swapped(
        ("sex: {type: text, keys: [f, m]}", "place: {type: text, keys: {reference: places}}"),
        (BY, "by: [place, age]"),
        ("which: prefixes", "which: all"),
    )
    places = "".join(f"p{at},1\n" for at in range(2000)).encode()
    with pytest.raises(SpecError) as caught:
        resolve(load(text, "spec.yaml"), {"places": b"place,floor\n" + places})
    assert [problem.code for problem in caught.value.problems] == ["DPR-S675"]


def test_an_invariant_is_no_sum_along_a_column() -> None:
    plain = "\n  plain: {table: people, measures: {n: {count: rows}}}"
    exact = "\ninvariants: [{query: distribution, measure: persons, why: x}]\n"
    (problem,) = (each for each in problems_of(SPEC.rstrip() + plain + exact) if each.code == "DPR-S663")
    assert "`ranges`" in problem.summary
