"""Forms of one measure: shared quantities are equal values, and every form tells its accuracy alike."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.expressions.expression import parse
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.measures import PARTS, Measure, Noisy, expand_measures
from dprelease.measures.count import Count, CountDistinct
from dprelease.measures.mean import Mean
from dprelease.measures.ratio import Ratio
from dprelease.measures.sum import Sum
from dprelease.measures.variance import Stddev, Variance
from dprelease.noise import MECHANISMS
from tests.measures import measure_of
from tests.reference_expressions import evaluate

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
    Count(count="x", where="x > 3"),
    Sum(sum="even"),
    Stddev(stddev="x", clip=(Fraction(10), Fraction(500))),
    *(measure_of(kind, "x") for kind in PARTS),
]
QUOTIENTS = expand_measures(
    {
        "n": Count(count="rows"),
        "x": Count(count="x"),
        "s": Sum(sum="x"),
        "m": Mean(mean="x"),
        "filled": Ratio(ratio=("x", "n")),
        "mean": Ratio(ratio=("s", "x")),
        "odd": Ratio(ratio=("m", "s")),
    }
)
FORMS = [(measure, form) for measure in ALL for form in measure.alternatives(TABLE)]
by_form = pytest.mark.parametrize(
    ("measure", "form"), FORMS, ids=[f"{m.canonical()[:18]}-{len(form)}" for m, form in FORMS]
)


def test_a_mean_and_a_spread_of_one_column_and_clip_share_their_quantities() -> None:
    clip = (Fraction(100), Fraction(301, 2))
    mean = Mean(mean="x", clip=clip).quantities(TABLE)
    assert Variance(variance="x", clip=clip).quantities(TABLE)[1:] == mean
    assert Stddev(stddev="x", clip=clip).quantities(TABLE) == Variance(variance="x", clip=clip).quantities(TABLE)
    assert Sum(sum="x", clip=clip).alternatives(TABLE)[1] == mean


def test_a_condition_and_what_is_clipped_reach_every_quantity() -> None:
    many = TABLE.model_copy(update={"unit_id": "who"})
    for kind in PARTS:
        measure = measure_of(kind, "x", where="x > 3", clip_per="unit_cell")
        for form in measure.alternatives(many):
            limited = form[:1] if form[0].kind == "balance" else form  # beside a balance stand all rows
            assert all("x > 3" in str(quantity.where) for quantity in limited)
            assert {quantity.per for quantity in form} == {measure.per(many)}
            assert (measure.per(many) == "unit_cell") == ("clip_per" in type(measure).model_fields)
        assert {quantity.per for form in measure.alternatives(TABLE) for quantity in form} == {"row"}


def test_units_are_rows_unless_a_table_says_otherwise() -> None:
    many = TABLE.model_copy(update={"unit_id": "who"})
    assert Count(count="units").quantities(many) == (Quantity(kind="units"),)
    assert Count(count="units").quantities(TABLE) == Count(count="rows").quantities(TABLE) == (Quantity(kind="rows"),)


def test_a_ratio_has_every_form_of_its_two_measures() -> None:
    forms = QUOTIENTS["filled"].alternatives(TABLE)
    rows, values = Quantity(kind="rows"), Quantity(kind="nonnull", column="x")
    balance = Quantity(kind="balance", column="x")
    assert forms == ((values, rows), (balance, rows, rows))
    assert len(QUOTIENTS["mean"].alternatives(TABLE)) == 4
    assert QUOTIENTS["odd"].quantities(TABLE) == (*QUOTIENTS["m"].quantities(TABLE), *QUOTIENTS["s"].quantities(TABLE))


@pytest.mark.parametrize(("name", "expected"), [("filled", 5 / 7), ("mean", 1470.5 / 5), ("odd", 1470.5 / 5 / 1470.5)])
def test_without_noise_to_speak_of_every_form_of_a_ratio_gives_the_truth(name: str, expected: float) -> None:
    values: list[float | None] = [0.0, 10.5, 1000.0, None, 400.0, 60.0, None]
    law = MECHANISMS["discrete_laplace"].law(Fraction(1, 1000))
    for form in QUOTIENTS[name].alternatives(TABLE):
        noisy = [Noisy(each, np.array([total(each, values)]), law) for each in form]
        found = QUOTIENTS[name].estimate(noisy, LEVEL)
        assert found.value[0] == pytest.approx(expected)
        assert found.margin[0] < 1e-7


def test_forms_of_counts_and_sums() -> None:
    rows, values = Quantity(kind="rows"), Quantity(kind="nonnull", column="x")
    assert Count(count="rows").alternatives(TABLE) == ((rows,),)
    assert Count(count="x").alternatives(TABLE) == ((values,), (Quantity(kind="balance", column="x"), rows))
    old = Quantity(kind="balance", where="x > 3")
    assert Count(count="rows", where="x > 3").alternatives(TABLE)[1] == (old, rows)
    many = TABLE.model_copy(update={"unit_id": "who"})
    assert Count(count="units").alternatives(many) == ((Quantity(kind="units"),),)
    once = old.model_copy(update={"per": "unit_cell"})
    assert Count(count="units", where="x > 3").alternatives(many)[1] == (once, Quantity(kind="units"))
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
    noisy = [Noisy(each, np.array([total(each, values)]), law) for each in form]
    found = measure.estimate(noisy, LEVEL)
    assert found.margin[0] < 1e-7
    plain = [Noisy(each, np.array([total(each, values)]), law) for each in measure.quantities(TABLE)]
    assert found.value[0] == pytest.approx(measure.estimate(plain, LEVEL).value[0])
    if type(measure) in ORACLES:
        assert abs(found.value[0] - ORACLES[type(measure)](measure, values)) <= found.margin[0] + 1e-9


def total(quantity: Quantity, values: list[float | None]) -> int:
    if quantity.kind == "distinct":
        return len({value for value in values if value is not None})
    return sum(part(quantity, value) for value in values)


def part(quantity: Quantity, value: float | None) -> int:
    if quantity.where is not None and not evaluate(parse(quantity.where, {"x": "decimal"}), {"x": value}):
        return -1 if quantity.kind == "balance" else 0
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
    if isinstance(measure, CountDistinct):
        return float(len(set(given)))
    if isinstance(measure, Count):
        asked = given if measure.where is None else [value for value in given if value > 3]
        return float(len(values) if measure.count == "rows" else len(asked))
    if isinstance(measure, Sum):
        return float(clipped.sum())
    if isinstance(measure, Mean):
        return float(clipped.mean())
    return float(clipped.var() if isinstance(measure, Variance) else clipped.std())


ORACLES = dict.fromkeys((Count, CountDistinct, Sum, Mean, Variance, Stddev), truth)  # of other kinds: the forms agree


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
