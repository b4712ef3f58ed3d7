"""Quantiles: what an author's words become, order, and the interval that the draws of all ranks and a count prove."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.errors import BrokenPromiseError, PlanError
from dprelease.measures import AnyMeasure, AskedMeasure, Measure, Noisy, expand_measures
from dprelease.measures.count import Count
from dprelease.measures.quantile import Max, Min, Quantiles
from dprelease.measures.ranked_quantile import Quantile
from dprelease.noise import MECHANISMS
from dprelease.noise.mechanisms.exponential import ScoreLaw

LEVEL = Fraction(95, 100)
X = Column(name="x", type="decimal", range=Range(low=Fraction(0), high=Fraction(4)), step=Fraction(1, 2))
TABLE = Table(name="t", account="a", source=Source(file="t.csv", format="csv"), columns=(X,))


@dataclass(frozen=True)
class Reach:
    """A law whose margin is what it says, at any confidence."""

    reach: int
    variance: float = 1.0

    def margin(self, confidence: Fraction) -> int:
        return self.reach


def ranked(*ranks: str, where: str | None = None) -> dict[str, Measure]:
    return expand_measures({"m": Quantiles(quantiles="x", at=tuple(map(Fraction, ranks)), where=where)})


def test_each_rank_becomes_a_measure_that_knows_the_others() -> None:
    found = ranked("1/2", "1/4", "1", where="x > 1")
    assert list(found) == ["m_q50", "m_q25", "m_q100"]
    half = found["m_q50"]
    assert isinstance(half, Quantile)
    assert (half.at, half.among) == (Fraction(1, 2), (Fraction(1, 4), Fraction(1, 2), Fraction(1)))
    plain, counted = half.alternatives(TABLE)
    assert [quantity.at for quantity in plain] == list(half.among)
    assert {(q.kind, q.low, q.high, q.step, q.where) for q in plain} == {("quantile", 0, 8, Fraction(1, 2), "x > 1")}
    assert counted == (*plain, Quantity(kind="nonnull", column="x", where="x > 1"))
    assert half.weights(counted, None) == (0.0, 1.0, 0.0, 0.0)


def test_the_least_and_the_largest_are_quantiles_at_the_ends() -> None:
    found = expand_measures({"low": Min(min="x"), "high": Max(max="x", clip=(Fraction(1), Fraction(3)))})
    low, high = found["low"], found["high"]
    assert isinstance(low, Quantile)
    assert isinstance(high, Quantile)
    assert (low.at, low.among, high.at) == (Fraction(0), (Fraction(0),), Fraction(1))
    assert (high.quantities(TABLE)[0].low, high.quantities(TABLE)[0].high) == (2, 6)


def test_two_published_numbers_of_one_name_are_refused() -> None:
    with pytest.raises(PlanError, match="m_q50"):
        expand_measures({"m_q50": Count(count="rows"), "m": Quantiles(quantiles="x", at=(Fraction(1, 2),))})


def test_what_the_author_wrote_is_not_measured_as_it_is() -> None:
    for asked in (Min(min="x"), Max(max="x"), Quantiles(quantiles="x", at=(Fraction(1, 2),))):
        with pytest.raises(BrokenPromiseError):
            asked.quantities(TABLE)


def test_plans_read_what_authors_cannot_write() -> None:
    plans, authors = TypeAdapter(AnyMeasure), TypeAdapter(AskedMeasure)
    for measure in ranked("1/2", "3/4").values():
        assert plans.validate_json(measure.canonical()) == measure
        with pytest.raises(ValidationError):
            authors.validate_json(measure.canonical())
    assert plans.validate_python({"min": "x"}) == authors.validate_python({"min": "x"}) == Min(min="x")


def draws(values: list[list[int]], ranks: tuple[Fraction, ...], law: object, count: object = None) -> list[Noisy]:
    one = Quantity(kind="quantile", column="x", step=Fraction(1, 2), low=0, high=8)
    found = [
        Noisy(one.model_copy(update={"at": rank}), np.array(drawn), law)  # type: ignore[arg-type] # a law of the test
        for rank, drawn in zip(ranks, values, strict=True)
    ]
    if count is not None:
        found.append(Noisy(Quantity(kind="nonnull", column="x"), np.array(count), MECHANISMS["discrete_laplace"].law(Fraction(1, 1000))))  # fmt: skip
    return found


def test_draws_are_put_in_order_and_a_margin_needs_a_count() -> None:
    law = ScoreLaw(Fraction(1, 2), 9)
    values = [[6, 0], [2, 1], [4, 8]]
    ranks = (Fraction(0), Fraction(1, 2), Fraction(1))
    for at, expected in zip(ranks, ([1.0, 0.0], [2.0, 0.5], [3.0, 4.0]), strict=True):
        found = Quantile(quantile="x", at=at, among=ranks).estimate(draws(values, ranks, law), LEVEL)
        assert found.value.tolist() == expected
        assert np.isnan(found.margin).all()
        assert np.isnan(found.standard_error).all()
    told = Quantile(quantile="x", at=ranks[0], among=ranks).expected((), (), LEVEL, 100)
    assert told.why_null is not None


def test_few_values_leave_the_ends_of_the_clip() -> None:
    law = ScoreLaw(Fraction(1), 9)
    found = Quantile(quantile="x", at=Fraction(1, 2), among=(Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))).estimate(
        draws([[2, 2, 2], [3, 3, 3], [4, 4, 4]], (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)), law, [-4, 10, 1000]),
        LEVEL,
    )
    assert found.value.tolist() == [1.5] * 3
    assert found.margin.tolist() == [2.5, 2.5, 0.5]


def score(values: tuple[int, ...], rank: Fraction, x: int) -> Fraction:
    n = len(values)
    below, above = sum(v < x for v in values), sum(v > x for v in values)
    return max(below - rank * n, above - (1 - rank) * n, Fraction(0))


@pytest.mark.parametrize("reach", [0, 1, 2])
@pytest.mark.parametrize("ranks", [("0", "1/2", "1"), ("1/4", "1/3", "3/4"), ("1/2",)])
def test_the_interval_holds_every_quantile_whenever_every_score_is_within_its_reach(
    reach: int, ranks: tuple[str, ...]
) -> None:
    """All multisets of up to six of four values, all draws of scores within the reach, all numbers that are quantiles."""
    among = tuple(map(Fraction, ranks))
    largest, grid, tight = 0, range(4), 0
    for n in range(1, 7):
        for values in combinations_with_replacement(grid, n):
            able = [[x for x in grid if score(values, rank, x) <= reach] for rank in among]
            drawn = list(zip(*product(*able), strict=True))
            one = Quantity(kind="quantile", column="x", low=0, high=3)
            law = Reach(reach)
            noisy = [Noisy(one.model_copy(update={"at": rank}), np.array(each), law) for rank, each in zip(among, drawn, strict=True)]  # fmt: skip
            noisy.append(Noisy(Quantity(kind="nonnull", column="x"), np.full(len(drawn[0]), n), Reach(0)))
            for rank in among:
                found = Quantile(quantile="x", at=rank, among=among).estimate(noisy, LEVEL)
                right = [x for x in grid if score(values, rank, x) == 0 and min(values) <= x <= max(values)]
                for x in (min(right), max(right)):
                    assert (np.abs(found.value - x) <= found.margin).all()
                tight += int((found.margin < 3 - np.minimum(found.value, 3 - found.value)).sum())
                largest += len(found.value)
    assert largest > 0
    assert tight > 0 or len(among) == 1
