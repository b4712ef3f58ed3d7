"""The four real specs, end to end: what is published against the truth of the files themselves.

Two specs sample the rows of a unit. There the numbers that noise was added to can be known only from the aggregates
that the engine made for that release, so coverage is held against these; what the samples leave out is the difference
to the truth of the files, and is told apart. Where nothing is sampled, these aggregates are the truth of the files,
to the last digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from dprelease.measures.counted_quantile import CountedQuantile
from dprelease.measures.ranked_quantile import Quantile
from tests.e2e.real_data import FILES, QUESTIONS, Truth, country_sizes, product_sizes, sampled_customers, truth_of
from tests.e2e.real_releases import Line, Release, law_coverage, quantile_line, released, told

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not all(path.exists() for path in FILES.values()), reason="the data folder is not there"),
]

HEAD = (
    f"{'measure':38} {'cells':>6} {'margin':>6} {'covered':>7} {'law':>7} {'clip max':>9} {'median':>9} "
    f"{'bound max':>9} {'median':>9} {'error':>9} {'clips':>7} {'bounds':>7}"
)


@pytest.fixture(scope="module", params=sorted(FILES))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Release]:
    spec: str = request.param
    return spec, released(tmp_path_factory.mktemp(spec), spec)


@pytest.fixture(scope="module")
def truths() -> dict[tuple[str, str], Truth]:
    return {}


def truth(truths: dict[tuple[str, str], Truth], spec: str, query: str) -> Truth:
    if (spec, query) not in truths:
        truths[spec, query] = truth_of(spec, query)
    return truths[spec, query]


def measures(spec: str, release: Release) -> Iterator[tuple[str, str]]:
    """Every published number with public keys."""
    for query in release.plan.queries:
        if (spec, query.name) in QUESTIONS:
            names = list(release.rows(query.name)[0])
            yield from ((query.name, name) for name in names if name in query.measures)


def line(spec: str, release: Release, known: Truth, query: str, measure: str) -> Line:
    name = f"{spec} {query} {measure}"
    if isinstance(release.query(query).measures[measure], Quantile | CountedQuantile):
        return quantile_line(release, query, measure, known.values[measure.rpartition("_q")[0]], name)
    published = (release.column(query, measure), release.column(query, f"{measure}_margin"))
    bounded = release.bounded[query, measure]
    found = (known.raw[measure], known.clipped[measure], bounded)
    return told(name, published, found, law_coverage(release, query, measure))


def test_every_cell_of_the_public_keys_is_published_in_order(
    case: tuple[str, Release], truths: dict[tuple[str, str], Truth]
) -> None:
    spec, release = case
    asked = {query for name, query in QUESTIONS if name == spec}
    assert {query.name for query in release.plan.queries} - asked == (
        {"products", "markets"} if spec == "retail" else set()
    )
    for query in asked:
        wide = len(release.query(query).by)
        keys = tuple(tuple(row.values())[:wide] for row in release.rows(query))
        assert keys == truth(truths, spec, query).cells


def test_margins_hold_the_truth_as_often_as_the_law_says(
    case: tuple[str, Release], truths: dict[tuple[str, str], Truth], capsys: pytest.CaptureFixture[str]
) -> None:
    spec, release = case
    lines = [line(spec, release, truth(truths, spec, query), query, name) for query, name in measures(spec, release)]
    with capsys.disabled():
        print(f"\n{HEAD}", *lines, sep="\n")
    assert [str(each) for each in lines if not each.agrees] == []


def test_what_is_not_sampled_is_the_truth_of_the_file(
    case: tuple[str, Release], truths: dict[tuple[str, str], Truth]
) -> None:
    """Engine and file agree on every cell: counts and sums to the digit, means and spreads to rounding of doubles."""
    spec, release = case
    for query, name in measures(spec, release):
        known = truth(truths, spec, query)
        if not QUESTIONS[spec, query].exact:
            continue
        if isinstance(release.query(query).measures[name], Quantile | CountedQuantile):
            found = release.histogram(query, name)
            assert all(map(np.array_equal, found, known.values[name.rpartition("_q")[0]][1]))
        else:
            expected = known.clipped[name]
            # A ratio of nothing and nothing is blank, and so is the spread of nobody.
            assert np.allclose(release.bounded[query, name], expected, rtol=1e-9, atol=0, equal_nan=True)


def test_a_sample_adds_nothing(case: tuple[str, Release], truths: dict[tuple[str, str], Truth]) -> None:
    """Bounds only take away: no count over a sample is above the count over all rows."""
    spec, release = case
    for query, name in measures(spec, release):
        if name in ("customers", "orders", "sampled", "late", "aircraft"):
            assert (release.bounded[query, name] <= truth(truths, spec, query).raw[name]).all()


def test_a_sample_of_cells_is_fair(case: tuple[str, Release]) -> None:
    """Of a customer with m cells each is kept with probability 6 / m, whatever it holds: counted outside the engine.

    Seven standard deviations for 494 cells, and one customer of slack for each that the table's own bound shortens.
    """
    spec, release = case
    if spec != "retail":
        pytest.skip("only the web shop samples many cells")
    mean, deviation = sampled_customers(6)
    assert (np.abs(release.bounded["revenue", "customers"] - mean) <= 7 * deviation + 1).all()


def test_products_that_appear_are_real_and_bought_by_many(
    case: tuple[str, Release], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of them really has 20 customers or more, unless noise of many times its scale was drawn."""
    spec, release = case
    if spec != "retail":
        pytest.skip("only the web shop has private keys")
    sizes = product_sizes()
    shown = [row["StockCode"] for row in release.rows("products")]
    value, margin = release.column("products", "customers"), release.column("products", "customers_margin")
    bounded = release.bounded["products", "customers"]
    raw = np.array([sizes[code] for code in shown], dtype=np.float64)
    (selection,) = [step for step in release.plan.steps if step.selecting is not None]
    assert selection.selecting is not None
    threshold = selection.selecting.threshold
    enough = sum(size >= 20 for size in sizes.values())
    few = int((raw < 20).sum())
    with capsys.disabled():
        print(
            f"\nproducts: {len(shown)} appear (threshold {threshold}, scale {float(selection.scale):.4g}), of {len(sizes)} "
            f"in the file and {enough} with 20 customers or more; {few} with fewer; least customers of one that "
            f"appears {raw.min():.0f}; margin of customers holds {int((abs(value - bounded) <= margin).sum())} of "
            f"{len(shown)}; median error {np.median(abs(value - raw)):.0f}, by truncation {np.median(raw - bounded):.0f}"
        )
    assert shown == sorted(set(shown))
    assert few == 0
    assert (bounded <= raw).all()
    # A product of n counted customers appears where noise is at least threshold - n: at 10 scales, never.
    assert (bounded >= threshold - 10 * float(selection.scale)).all()


def test_the_largest_markets_come_first(case: tuple[str, Release], capsys: pytest.CaptureFixture[str]) -> None:
    spec, release = case
    if spec != "retail":
        pytest.skip("only the web shop has a ranking")
    sizes = country_sizes()
    shown = [row["Country"] for row in release.rows("markets")]
    with capsys.disabled():
        print("\nmarkets:", ", ".join(f"{name} ({sizes.get(name, 0)})" for name in shown))
    assert len(set(shown)) == release.query("markets").ranking.k  # type: ignore[union-attr]
    (step,) = [step for step in release.plan.steps if step.mechanism == "exponential_top_k"]
    reach = step.law.margin(1 - Fraction(1, 10**9))
    left = sorted(sizes.values(), reverse=True)
    for at, name in enumerate(shown):
        assert sizes.get(name, 0) >= left[at] - reach


@pytest.mark.nightly
def test_margins_hold_in_forty_fresh_draws(
    case: tuple[str, Release], truths: dict[tuple[str, str], Truth], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every number of every cell, drawn anew from the same aggregates: enough draws to see half a percent."""
    spec, release = case
    asked = [
        (query, name)
        for query, name in measures(spec, release)
        if not isinstance(release.query(query).measures[name], Quantile | CountedQuantile)
    ]
    draws = [release.again() for _ in range(40 if spec != "crashes" else 3)]
    lines = []
    for query, name in asked:
        known = truth(truths, spec, query)
        value = np.concatenate([each[query, name][0] for each in draws])
        margin = np.concatenate([each[query, name][1] for each in draws])
        found = [np.tile(part, len(draws)) for part in
                 (known.raw[name], known.clipped[name], release.bounded[query, name])]  # fmt: skip
        law = law_coverage(release, query, name)
        lines.append(told(f"{spec} {query} {name}", (value, margin), (found[0], found[1], found[2]), law))
    with capsys.disabled():
        print(f"\n{len(draws)} draws", HEAD, *lines, sep="\n")
    assert [str(each) for each in lines if not each.agrees] == []
