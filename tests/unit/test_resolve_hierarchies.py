"""From the levels of a hierarchy to its tree, or to the first key that does not nest."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.catalog.table import Catalog, Hierarchy
from dprelease.errors import Problem, SpecError
from dprelease.plan.resolve.catalog import references_needed, resolve
from dprelease.spec.load import load
from tests.tiers import few

from .spec_example import PLACES, SPEC, swapped
from .workloads_example import GEO, WORKLOADS

HEAD = b"region,state,puma\n"


def catalog(text: str = WORKLOADS, geo: bytes | None = GEO) -> Catalog:
    return resolve(load(text, "spec.yaml"), {"geo": geo})


def problems_of(text: str = WORKLOADS, geo: bytes | None = GEO) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        catalog(text, geo)
    return caught.value.problems


def problem_of(text: str = WORKLOADS, geo: bytes | None = GEO) -> Problem:
    (problem,) = problems_of(text, geo)
    return problem


def test_levels_of_a_reference_nest_in_the_order_of_its_file() -> None:
    table = catalog().tables["persons"]
    tree = catalog().hierarchies["geography"]

    assert table.column("region").keys == ("S", "N")
    assert table.column("state").keys == ("06", "36", "48")
    assert table.column("puma").keys == ("0601", "3601", "0602", "4801", "3602")
    assert tree == Hierarchy(name="geography", levels=("region", "state", "puma"), parents=((0, 1, 0), (0, 1, 0, 2, 1)))


def test_levels_may_be_mapped_or_banded() -> None:
    hierarchies = catalog().hierarchies

    assert hierarchies["topics"].parents == ((0, 0, 1),)
    assert hierarchies["ages"].parents == ((0, 1, 1, 1, 1),)


def test_a_join_may_be_on_a_level_that_another_one_adds() -> None:
    text = swapped("  geo: {file: reference/geo.csv, columns: {region: text, state: text, puma: text}}",
                   "  geo: {file: reference/geo.csv, columns: {state: text, puma: text}}\n"
                   "  regions: {file: reference/regions.csv, columns: {region: text, state: text}}", WORKLOADS)  # fmt: skip
    text = swapped("join: [{reference: geo, on: puma, add: [state, region]}]",
                   "join: [{reference: geo, on: puma, add: [state]}, {reference: regions, on: state, add: [region]}]",
                   text)  # fmt: skip
    text = swapped("region: {type: text, keys: {reference: geo}}", "region: {type: text, keys: [N, S]}", text)
    found = resolve(load(text, "s"), {"geo": GEO, "regions": b"region,state\nS,06\nN,36\nS,48\n"})

    assert found.hierarchies["geography"].parents == ((1, 0, 1), (0, 1, 0, 2, 1))


def test_only_hierarchies_in_use_are_in_the_catalog() -> None:
    spare = swapped("hierarchies:\n", "hierarchies:\n  spare: [nowhere, neither]\n", WORKLOADS)

    assert set(catalog(spare).hierarchies) == {"geography", "topics", "ages"}
    assert references_needed(load(spare, "s").spec) == ("geo",)


def test_a_catalog_without_hierarchies_keeps_the_text_that_it_had() -> None:
    found = resolve(load(SPEC, "s"), {"places": PLACES})

    assert "hierarchies" not in found.canonical()
    assert Catalog.from_canonical(found.canonical()) == found
    assert Catalog.from_canonical(catalog().canonical()) == catalog()


@pytest.mark.parametrize(
    ("geo", "line", "says"),
    [
        (GEO + b"N,06,0603\n", 33, "state '06' lies in 'S' and in 'N' in reference/geo.csv"),
        (GEO + b"W,06,0603\n", 33, "state '06' lies in 'S' and in 'W' in reference/geo.csv"),
    ],
)
def test_a_key_with_two_parents_is_named_with_its_file(geo: bytes, line: int, says: str) -> None:
    problem = problem_of(geo=geo)

    assert (problem.code, problem.where.line if problem.where else 0) == ("DPR-S608", line)
    assert says in problem.summary
    assert problem.hint


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("puma: {type: text, keys: {reference: geo}}", "puma: {type: text, keys: ['0601', x, '3601']}",
         "puma 'x' lies in no state in reference/geo.csv"),
        ("state: {type: text, keys: {reference: geo}}", "state: {type: text, keys: ['06', '36']}",
         "puma '4801' lies in no state in reference/geo.csv: '48' is none of its keys"),
        ("state: {type: text, keys: {reference: geo}}", "state: {type: text, keys: ['06', '36', '48', '50']}",
         "no puma lies in state '50' in reference/geo.csv"),
        ("region: {type: text, keys: {reference: geo}}", "region: {type: text, keys: [N, S, W]}",
         "no state lies in region 'W' in reference/geo.csv"),
        ("to: {a: news, b: news}, otherwise: rest", "to: {a: news, b: news}", "page 'c' lies in no topic"),
        ("edges: [0, 18, 100]", "edges: [18, 65]", "band '[0,18)' lies in no adult"),
        ("edges: [0, 18, 35, 50, 65, 100]", "edges: [0, 18, 100, 120]", "band '[100,120)' lies in no adult"),
    ],
)  # fmt: skip
def test_the_first_key_that_does_not_nest_is_named(old: str, new: str, says: str) -> None:
    problem = problem_of(swapped(old, new, WORKLOADS))

    assert problem.code == "DPR-S608"
    assert says in problem.summary
    assert problem.hint


def test_a_reference_that_is_wrong_in_itself_is_told_alone() -> None:
    assert [problem.code for problem in problems_of(geo=None)] == ["DPR-S601"]
    assert [problem.code for problem in problems_of(geo=GEO + b"N,48,4801\n")] == ["DPR-S603"]
    assert {problem.code for problem in problems_of(geo=HEAD)} == {"DPR-S604"}


def test_one_hierarchy_has_one_tree_in_all_tables() -> None:
    other = swapped("      note: {type: text}\n", "      note: {type: text}\n  others:\n    account: census\n"
                    "    source: {file: data/others.csv}\n    columns:\n"
                    "      age: {type: integer, range: [0, 99]}\n"
                    "      band: {bin: age, edges: [0, 18, 35, 50, 65, 100]}\n"
                    "      adult: {bin: age, edges: [0, 18, 100]}\n", WORKLOADS)  # fmt: skip
    both = swapped("  by_age:\n", "  others:\n    table: others\n    levels: ages\n"
                   "    marginals: {sets: [[]]}\n  by_age:\n", other)  # fmt: skip
    assert set(catalog(both).hierarchies) == {"geography", "topics", "ages"}

    text = both[: both.index("  others:\n    account")] + both[both.index("  others:\n    account") :].replace(
        "[0, 18, 35, 50, 65, 100]", "[0, 18, 40, 100]", 1
    )
    problem = problem_of(text)
    assert problem.code == "DPR-S608"
    assert "other nodes in table 'persons' than in table 'others'" in problem.summary


def test_cells_are_counted_with_the_keys_of_references() -> None:
    lines = "".join(f"S,06,{number}\n" for number in range(1_000)).encode()
    text = swapped("race: {type: integer, keys: {from: 1, to: 9}, null: 9}",
                   "race: {type: integer, keys: {from: 1, to: 90000}}", WORKLOADS)  # fmt: skip
    problem = problem_of(text, HEAD + lines)

    assert problem.code == "DPR-S528"
    assert "180000000 cells, more than a hundred million in redistricting__puma__race__sex" in problem.summary


@settings(max_examples=few(30), deadline=None)
@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=4), st.integers(0, 2**32))
def test_every_tree_is_found_whatever_the_order_of_the_lines(children: list[list[int]], seed: int) -> None:
    lines = [
        (f"r{region}", f"s{region}.{state}", f"p{region}.{state}.{puma}")
        for region, states in enumerate(children)
        for state, pumas in enumerate(states)
        for puma in range(pumas)
    ]
    random.Random(seed).shuffle(lines)
    found = catalog(geo=HEAD + "".join(f"{','.join(line)}\n" for line in lines).encode())
    tree, table = found.hierarchies["geography"], found.tables["persons"]
    keys = [table.column(level).keys or () for level in tree.levels]

    for level in (1, 2):
        parents = tree.parents[level - 1]
        assert len(parents) == len(keys[level])
        for key, parent in zip(keys[level], parents, strict=True):
            assert (keys[level - 1][parent], key) in {(line[level - 1], line[level]) for line in lines}
        assert set(parents) == set(range(len(keys[level - 1])))


@settings(max_examples=few(30), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=12))
def test_what_is_no_tree_is_refused_and_nothing_else(pairs: list[tuple[int, int]]) -> None:
    """Held against a count of the parents of every state."""
    parents = defaultdict(set)
    for region, state in pairs:
        parents[state].add(region)
    geo = HEAD + "".join(f"r{region},s{state},p{at}\n" for at, (region, state) in enumerate(pairs)).encode()

    if all(len(found) == 1 for found in parents.values()):
        assert len(catalog(geo=geo).hierarchies["geography"].parents[0]) == len(parents)
    else:
        assert problem_of(geo=geo).code == "DPR-S608"
