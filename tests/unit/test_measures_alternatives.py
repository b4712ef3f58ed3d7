"""Forms of one measure: shared quantities are equal values, and every form tells its accuracy alike."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.measures import MEASURES, Measure, Noisy
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.sum import Sum
from dprelease.measures.variance import Stddev, Variance
from dprelease.noise import MECHANISMS

TABLE = Table(
    name="t",
    account="a",
    source=Source(file="t.csv", format="csv"),
    columns=(
        Column(name="x", type="decimal", range=Range(low=Fraction(0), high=Fraction(1000)), step=Fraction(1, 2)),
        Column(name="even", type="integer", range=Range(low=Fraction(-9), high=Fraction(9))),
    ),
)
LEVEL = Fraction(95, 100)
ALL: list[Measure] = [
    Count(count="rows"),
    Count(count="x"),
    Sum(sum="x"),
    Sum(sum="even"),
    Mean(mean="x"),
    Variance(variance="x"),
    Stddev(stddev="x", clip=(Fraction(10), Fraction(500))),
]
FORMS = [(measure, form) for measure in ALL for form in measure.alternatives(TABLE)]
by_form = pytest.mark.parametrize(
    ("measure", "form"), FORMS, ids=[f"{m.canonical()[:18]}-{len(form)}" for m, form in FORMS]
)


def test_every_kind_of_measure_is_here() -> None:
    assert {type(measure) for measure in ALL} == set(MEASURES.values())


def test_a_mean_and_a_spread_of_one_column_and_clip_share_their_quantities() -> None:
    clip = (Fraction(100), Fraction(301, 2))
    mean = Mean(mean="x", clip=clip).quantities(TABLE)
    assert Variance(variance="x", clip=clip).quantities(TABLE)[1:] == mean
    assert Stddev(stddev="x", clip=clip).quantities(TABLE) == Variance(variance="x", clip=clip).quantities(TABLE)
    assert Sum(sum="x", clip=clip).alternatives(TABLE)[1] == mean


def test_forms_of_counts_and_sums() -> None:
    rows, values = Quantity(kind="rows"), Quantity(kind="nonnull", column="x")
    assert Count(count="rows").alternatives(TABLE) == ((rows,),)
    assert Count(count="x").alternatives(TABLE) == ((values,), (Quantity(kind="balance", column="x"), rows))
    assert len(Sum(sum="even").alternatives(TABLE)) == 1


@by_form
def test_the_first_form_is_the_plain_one_and_each_has_a_weight_per_quantity(
    measure: Measure, form: tuple[Quantity, ...]
) -> None:
    assert measure.alternatives(TABLE)[0] == measure.quantities(TABLE)
    for count in (None, 40):
        weights = measure.weights(form, count)
        assert len(weights) == len(form)
        assert all(weight > 0 for weight in weights)
    assert measure.weights(form, 1) == measure.weights(form, None)


@by_form
def test_weights_are_the_squared_slopes_of_the_expected_error(measure: Measure, form: tuple[Quantity, ...]) -> None:
    """A variance at its worst cell; a standard deviation only in proportion, for its slope there has no bound."""
    laws = [MECHANISMS["discrete_gaussian"].law(Fraction(50 + 20 * at)) for at in range(len(form))]
    weights = measure.weights(form, 500)
    first_order = float(sum(w * law.variance for w, law in zip(weights, laws, strict=True))) ** 0.5
    told = measure.expected(form, laws, LEVEL, 500).standard_error
    assert told is not None
    if isinstance(measure, Stddev):
        like = Variance(variance=measure.stddev, clip=measure.clip).weights(form, 500)
        assert [w / weights[0] for w in weights] == pytest.approx([w / like[0] for w in like])
    else:
        assert told == pytest.approx(first_order, rel=1e-9)


@by_form
def test_without_noise_to_speak_of_every_form_gives_the_truth(measure: Measure, form: tuple[Quantity, ...]) -> None:
    values = [0.0, 10.5, 999.5, 400.0, 30.5, 30.5, None]
    if "even" in measure.canonical():
        values = [-3.0, 4.0, None, 9.0]
    law = MECHANISMS["discrete_laplace"].law(Fraction(1, 1000))
    noisy = [Noisy(each, np.array([sum(part(each, value) for value in values)]), law) for each in form]
    found = measure.estimate(noisy, LEVEL)
    assert abs(found.value[0] - truth(measure, values)) <= found.margin[0] + 1e-9
    assert found.margin[0] < 1e-7


def part(quantity: Quantity, value: float | None) -> int:
    if quantity.kind == "rows":
        return 1
    if value is None:
        return -1 if quantity.kind == "balance" else 0
    if quantity.kind in ("nonnull", "balance"):
        return 1
    steps = round(Fraction(value) / quantity.step)
    centred = min(max(steps, quantity.low), quantity.high) - quantity.centre
    return quantity.in_grains(centred) - quantity.offset if quantity.kind == "square" else centred


def truth(measure: Measure, values: list[float | None]) -> float:
    given = [value for value in values if value is not None]
    clip = getattr(measure, "clip", None)
    clipped = np.clip(given, float(clip[0]), float(clip[1])) if clip else np.array(given)
    if isinstance(measure, Count):
        return float(len(values) if measure.count == "rows" else len(given))
    if isinstance(measure, Sum):
        return float(clipped.sum())
    if isinstance(measure, Mean):
        return float(clipped.mean())
    return float(clipped.var() if isinstance(measure, Variance) else clipped.std())


def test_a_count_of_two_draws_may_end_in_a_half() -> None:
    law = MECHANISMS["discrete_laplace"].law(Fraction(10))
    balance, rows = Count(count="x").alternatives(TABLE)[1]
    found = Count(count="x").estimate([Noisy(balance, np.array([5, -8]), law), Noisy(rows, np.array([10, 8]), law)], LEVEL)  # fmt: skip
    assert found.value.tolist() == [7.5, 0.0]
    assert found.margin.tolist() == [20.5, 20.5]
    assert found.standard_error[0] == pytest.approx((law.variance / 2) ** 0.5)
    told = Count(count="x").expected((balance, rows), (law, law), LEVEL, None)
    assert (told.standard_error, told.margin) == (found.standard_error[0], 20.5)


def test_counts_of_many_columns_from_balances_have_the_known_error() -> None:
    """(1 + sqrt k) / (2 mu) with the variances (1 + sqrt k) / mu^2 and sqrt k (1 + sqrt k) / mu^2 (Lebeda 2024)."""
    k, mu = 16, 0.01
    rows = MECHANISMS["discrete_gaussian"].law(Fraction(round((1 + k**0.5) ** 0.5 / mu)))
    each = MECHANISMS["discrete_gaussian"].law(Fraction(round((k**0.5 * (1 + k**0.5)) ** 0.5 / mu)))
    told = Count(count="x").expected(Count(count="x").alternatives(TABLE)[1], (each, rows), LEVEL, None)
    assert told.standard_error == pytest.approx((1 + k**0.5) / (2 * mu), rel=1e-3)
    assert 1 / rows.variance + k / each.variance == pytest.approx(mu**2, rel=1e-3)
