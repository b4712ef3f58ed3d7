"""K-norm noise on several tables: numbers of tables under caps, the law of cells and totals, the sampler's choices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

from dprelease.errors import BrokenPromiseError
from dprelease.noise import Exact
from dprelease.noise.mechanisms import tables_knorm
from dprelease.noise.mechanisms.lattice_tables import (
    dimension_of,
    numerator_of,
    point_under,
    products,
    rows_under,
    rows_within,
    squares_rows,
    sums_over_caps,
    tables_under,
    tail_rows,
    under,
)
from dprelease.noise.mechanisms.tables_knorm import TablesKNorm, TablesLaw, TablesSampler
from dprelease.plan.verify.tables import TablesNoise
from tests.tables_of_one_sum import listed

F = Fraction
SIZES = [(2, 2), (2, 3), (4, 2), (3, 3), (2, 2, 2), (2, 2, 3)]


def fits(table: tuple[int, ...], up: int, down: int) -> bool:
    return sum(table) == up - down and -sum(each for each in table if each < 0) <= down


@pytest.mark.parametrize("cells", [1, 2, 3, 4])
def test_numbers_of_tables_under_caps_are_those_that_are_listed(cells: int) -> None:
    for up, down in product(range(4), repeat=2):
        found = [table for table in product(range(-4, 5), repeat=cells) if fits(table, up, down)]
        assert under(cells, up, down) == len(found)
        assert rows_under([cells, cells, 2], [(up, 2), (up, 4)])[1][down] == len(found) ** 2 * under(2, up, down)
        if cells > 1:
            assert squares_rows(cells, 7)[up][down] == sum(table[0] ** 2 for table in found)
            for margin in range(5):
                over = tail_rows(cells, 7)[up - margin - 1][down] if up > margin else 0
                assert over == sum(table[0] > margin for table in found)


@pytest.mark.parametrize("sizes", SIZES)
def test_tables_of_a_norm_are_counted_by_caps(sizes: tuple[int, ...]) -> None:
    """Those with a norm of r fit under the caps of sum r, r + 2, ...: sums r and r - 1 have all of norm up to r."""
    largest = 6 if sum(sizes) < 7 else 5
    norms = Counter(listed(sizes, largest).norms.tolist())
    sums = [sum(tables_under(sizes, up, r - up) for up in range(r + 1)) for r in range(largest + 1)]
    for r in range(largest + 1):
        assert sums[r] + (sums[r - 1] if r else 0) == sum(count for norm, count in norms.items() if norm <= r)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((2,), (1, 2, 1)),
        ((2, 2), (1, 5, 5, 1)),
        ((2, 3), (1, 8, 14, 8, 1)),
        ((3, 3, 3), (1, 47, 417, 1083, 1083, 417, 47, 1)),
        ((6, 6), (1, 61, 1105, 8165, 28880, 53264, 53264, 28880, 8165, 1105, 61, 1)),
    ],
)
def test_the_numerator_of_the_balls_is_that_of_a_polytope_about_its_only_inner_point(
    sizes: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """The balls' own numerator is (1 + x) times ours, and reads the same from both ends."""
    own = numerator_of(sizes)
    assert len(own) == dimension_of(sizes)
    assert tuple(map(sum, zip((*own, 0), (0, *own), strict=True))) == expected == expected[::-1]


@pytest.mark.parametrize("sizes", [(2,) * 30, (6,) * 10, (30, 30, 6), (63, 2), (12, 6, 3), (2, 2, 60)])
def test_no_weight_is_negative_and_the_series_gives_the_numbers_back(sizes: tuple[int, ...]) -> None:
    weights, d = numerator_of(sizes), dimension_of(sizes)
    assert min(weights) >= 0
    assert weights[0] == 1
    for r in (d, d + 1, d + 7):
        counted = sum(tables_under(sizes, up, r - up) for up in range(r + 1))
        assert counted == sum(weight * comb(r - j + d, d) for j, weight in enumerate(weights))


@pytest.mark.parametrize("sizes", SIZES)
def test_variances_and_tails_are_those_of_the_listed_law(sizes: tuple[int, ...]) -> None:
    """At a scale so small that the box has all but a billionth."""
    scale = F(1, 4) if sum(sizes) < 7 else F(1, 5)
    found = listed(sizes, 8 if sum(sizes) < 7 else 6)
    weights, law = found.law(scale), TablesKNorm().law(scale, sizes)
    first = 0
    totals = found.points[:, : sizes[0]].sum(axis=1)
    assert law.total_variance == pytest.approx(float(weights @ totals**2), rel=1e-6)
    for margin in range(3):
        assert law.total_tail(margin) == pytest.approx(float(weights @ (np.abs(totals) > margin)), rel=1e-5)
    for cells in sizes:
        own = found.points[:, first]
        assert law.cell_variance(cells) == pytest.approx(float(weights @ own**2), rel=1e-6)
        for margin in range(3):
            assert law.cell_tail(cells, margin) == pytest.approx(float(weights @ (np.abs(own) > margin)), rel=1e-5)
        first += cells


@pytest.mark.parametrize("sizes", SIZES)
def test_covariances_are_those_of_a_total_and_of_contrasts(sizes: tuple[int, ...]) -> None:
    """Cells of two tables have V / (n m), those of one V / n^2 + w ([same] - 1 / n)."""
    scale = F(1, 4) if sum(sizes) < 7 else F(1, 5)
    found = listed(sizes, 8 if sum(sizes) < 7 else 6)
    law, points = TablesKNorm().law(scale, sizes), found.points.astype(np.float64)
    exact = points.T @ (points * found.law(scale)[:, None])
    told = np.zeros_like(exact)
    edges = np.cumsum((0, *sizes))
    for i, n in enumerate(sizes):
        for j, m in enumerate(sizes):
            block = np.full((n, m), law.total_variance / (n * m))
            if i == j:
                block += law.contrast_variance(n) * (np.eye(n) - 1 / n)
            told[edges[i] : edges[i + 1], edges[j] : edges[j + 1]] = block
    assert np.allclose(exact, told, rtol=1e-5, atol=1e-7)


def test_the_figures_of_known_workloads() -> None:
    """Standard errors of a cell at epsilon 1."""
    for sizes, expected in {
        (6, 6): (2.288, 2.288),
        (6,) * 5: (4.973,) * 5,
        (6,) * 10: (9.401,) * 10,
        (2, 3): (2.124, 1.695),
        (5, 4, 3, 2): (2.664, 3.091, 3.667, 4.425),
        (3, 6, 12): (5.625, 3.651, 2.131),
        (2, 30): (9.145, 1.411),
    }.items():
        law = TablesKNorm().law(F(1), sizes)
        assert [law.cell_variance(n) ** 0.5 for n in sizes] == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize("sizes", [(6, 6), (6,) * 5, (2, 3), (3, 6, 12), (2,) * 12, (33, 32)])
@pytest.mark.parametrize("scale", [F(1, 3), F(2), F(10**6, 7)])
def test_the_verifier_finds_the_same_by_its_own_way(sizes: tuple[int, ...], scale: Fraction) -> None:
    law, again = TablesKNorm().law(scale, sizes), TablesNoise(scale, sizes)
    margin = int(2 * law.total_variance**0.5)
    assert again.total_tail(margin) == pytest.approx(law.total_tail(margin), rel=1e-9)
    check_cells(law, again)


@pytest.mark.nightly
@pytest.mark.parametrize("sizes", [(2,) * 319, (30,) * 10, (91, 91), (3,) * 159 + (2,)])
@pytest.mark.parametrize("scale", [F(1, 20), F(1), F(37), F(20_000)])
def test_of_the_largest_tables_too_whose_sums_are_beyond_any_float(sizes: tuple[int, ...], scale: Fraction) -> None:
    check_cells(TablesKNorm().law(scale, sizes), TablesNoise(scale, sizes))


def check_cells(law: TablesLaw, again: TablesNoise) -> None:
    assert again.total_variance() == pytest.approx(law.total_variance, rel=1e-10)
    for cells in set(law.sizes):
        assert again.cell_variance(cells) == pytest.approx(law.cell_variance(cells), rel=1e-10)
        margin = int(2 * law.cell_variance(cells) ** 0.5)
        assert again.cell_tail(cells, margin) == pytest.approx(law.cell_tail(cells, margin), rel=1e-9)


@pytest.mark.parametrize("sizes", [(6, 6), (2, 3), (3, 6, 12)])
def test_sums_over_all_caps_are_those_that_are_added_up_one_by_one(sizes: tuple[int, ...]) -> None:
    """Without the formula for polynomials that the law and the verifier share: caps up to a sum of 400 have all of it."""
    scale, cells = F(3, 2), sizes[0]
    weight = np.exp(-np.arange(400) / float(scale))

    def mean(values: list[int]) -> float:
        whole = sums_over_caps(rows_within(sizes, 400))
        return float(np.array(values, dtype=np.float64) @ weight) / float(np.array(whole, dtype=np.float64) @ weight)

    others = rows_within(sizes[1:], 400)
    moved = rows_under(sizes[1:], [(up + 4, 400 - up) for up in range(400)])
    over = mean(sums_over_caps(products(tail_rows(cells, 400), moved))) * 2 * float(weight[4])
    for law in (TablesKNorm().law(scale, sizes), TablesNoise(scale, sizes)):
        squares = mean(sums_over_caps(products(squares_rows(cells, 400), others)))
        assert law.cell_variance(cells) == pytest.approx(squares, rel=1e-10)
        assert law.cell_tail(cells, 3) == pytest.approx(over, rel=1e-10)


@pytest.mark.parametrize("confidence", [F(1, 2), F(95, 100), F(999, 1000)])
def test_a_margin_is_the_least_that_holds(confidence: Fraction) -> None:
    law = TablesKNorm().law(F(3, 2), (4, 3, 2))
    for tail, margin in (
        (lambda m: law.cell_tail(4, m), law.cell_margin(4, confidence)),
        (lambda m: law.cell_tail(2, m), law.cell_margin(2, confidence)),
        (law.total_tail, law.total_margin(confidence)),
    ):
        assert tail(margin) <= 1 - confidence
        assert margin == 0 or tail(margin - 1) > 1 - confidence
    assert law.margin(confidence) == max(law.cell_margin(n, confidence) for n in (4, 3, 2))
    assert law.variance == law.cell_variance(2)


Choices = list[tuple[int, int]]


def walked(choose: Callable[[Callable[[int], int]], tuple[int, ...]]) -> dict[tuple[int, ...], Fraction]:
    """The law of what is made of uniform integers, by all of them; each list of choices has its own chance."""
    found: dict[tuple[int, ...], Fraction] = {}
    open_: list[Choices] = [[]]
    while open_:
        given = open_.pop()
        used: Choices = []

        def below(limit: int, given: Choices = given, used: Choices = used) -> int:
            value = given[len(used)][1] if len(used) < len(given) else 0
            used.append((limit, value))
            return value

        made = choose(below)
        for at in range(len(given), len(used)):
            open_ += [[*used[:at], (used[at][0], other)] for other in range(1, used[at][0])]
        chance = F(1)
        for limit, _ in used:
            chance /= limit
        found[made] = found.get(made, F(0)) + chance
    return found


@pytest.mark.parametrize(("cells", "up", "down"), [(2, 3, 2), (3, 2, 1), (3, 1, 2), (3, 0, 2), (4, 1, 1), (2, 0, 0)])
def test_every_table_under_the_caps_is_drawn_as_often(cells: int, up: int, down: int) -> None:
    found = walked(lambda below: tuple(point_under(below, cells, up, down)))
    assert sum(found.values()) == 1
    assert set(found) == {table for table in product(range(-4, 5), repeat=cells) if fits(table, up, down)}
    assert set(found.values()) == {F(1, under(cells, up, down))}


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (3, 3, 2)])
@pytest.mark.parametrize("total", [0, 1, 2, 5, 7])
def test_caps_are_drawn_by_their_numbers_of_tables(sizes: tuple[int, ...], total: int) -> None:
    """Sums below the dimension are added up, and those above known by differences."""
    sampler = TablesSampler(F(1), sizes)
    found = dict.fromkeys(range(total + 1), 0)
    limits: list[int] = []

    def at(rank: int) -> Callable[[int], int]:
        def below(limit: int) -> int:
            limits.append(limit)
            return rank

        return below

    number = sum(tables_under(sizes, up, total - up) for up in range(total + 1))
    for rank in range(number):
        found[sampler._up(at(rank), total)] += 1
    assert set(limits) == {number}
    assert found == {up: tables_under(sizes, up, total - up) for up in range(total + 1)}


def boxes(*tables: list[int]) -> Iterator[Exact]:
    for table in tables:
        yield Exact(np.array(table, dtype=np.int64))


def test_noisy_tables_keep_one_total_and_saturate_after_the_noise() -> None:
    mechanism = TablesKNorm()
    for scale in (F(1, 10), F(7, 2), F(10**5)):
        made = mechanism.draw_tables(list(boxes([3, 4], [7, 0, 0], [1, 1, 1, 4])), scale)
        assert [len(table) for table in made] == [2, 3, 4]
        assert len({int(table.sum()) for table in made}) == 1
    (high, other) = mechanism.draw_tables(list(boxes([2**63 - 1, -(2**63)], [-1, 0])), F(1000))
    assert high.dtype == other.dtype == np.int64


@pytest.mark.parametrize(
    ("tables", "scale"),
    [([[1, 2], [3, 1]], F(1)), ([[1, 2], [3]], F(1)), ([], F(1)), ([[1, 2], [3, 0]], F(0))],
)
def test_what_would_show_more_than_noise_hides_is_refused(tables: list[list[int]], scale: Fraction) -> None:
    """Tables with different totals do not count the same rows: without noise on the difference, it would be seen."""
    with pytest.raises(BrokenPromiseError):
        TablesKNorm().draw_tables(list(boxes(*tables)), scale)


def test_a_negative_weight_is_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_knorm, "numerator_of", lambda sizes: (1, -1, 1))
    with pytest.raises(BrokenPromiseError):
        TablesSampler(F(1), (2, 2))
