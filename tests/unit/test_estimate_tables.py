"""From noisy quantities to a published table."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.estimate import PublishedTable, estimate, ranking_table
from dprelease.measures import Measure, Noisy
from dprelease.measures.count import Count, CountDistinct
from dprelease.measures.mean import Mean
from dprelease.measures.ranked_quantile import Quantile
from dprelease.measures.sum import Sum
from dprelease.measures.variance import Stddev, Variance
from dprelease.noise import MECHANISMS
from dprelease.noise.mechanisms.exponential import ScoreLaw

STATE = Column(name="state", type="text", keys=("06", "08"))
SEX = Column(name="sex", type="integer", keys=(1, 2))
LAW = MECHANISMS["discrete_laplace"].law(Fraction(10))  # its margin at 95 % is 30
CONFIDENCE = Fraction(95, 100)


def counted(values: list[int], columns: tuple[Column, ...] = (STATE, SEX), **how: object) -> PublishedTable:
    noisy = [Noisy(Quantity(kind="rows"), np.array(values), LAW)]
    return estimate("q", "Q", columns, {"n": Count(count="rows")}, {"n": noisy}, confidence=CONFIDENCE, **how)  # type: ignore[arg-type] # the caller's keywords


def test_the_last_key_runs_fastest() -> None:
    assert counted([1, 2, 3, 4]).keys == (("06", "06", "08", "08"), (1, 2, 1, 2))


def test_no_key_is_one_cell() -> None:
    table = counted([7], columns=())
    assert (table.cells, table.keys, table.measures[0].value.tolist()) == (1, (), [7.0])


def test_a_cell_is_unreliable_only_where_its_margin_is_larger_than_the_limit() -> None:
    table = counted([60, 59, -59, 0], unreliable_above=Fraction(1, 2))
    assert table.measures[0].margin.tolist() == [30.0] * 4
    assert table.measures[0].status == ("ok", "unreliable", "unreliable", "unreliable")


def test_without_a_limit_nothing_is_unreliable() -> None:
    assert counted([0, 1, -1, 5]).measures[0].status == ("ok",) * 4


def test_show_blank_withholds_the_numbers_and_keeps_the_reason() -> None:
    (measure,) = counted([100, 3, 100, 100], unreliable_above=Fraction(1, 2), unreliable_show="blank").measures
    assert measure.status == ("ok", "unreliable", "ok", "ok")
    for numbers in (measure.value, measure.standard_error, measure.margin):
        assert np.isnan(numbers).tolist() == [False, True, False, False]


def test_a_mean_of_too_few_is_blank_and_never_unreliable() -> None:
    clip = (Fraction(0), Fraction(100))
    centred = Quantity(kind="sum", column="x", low=0, high=100, centre=50)
    noisy = [
        Noisy(centred, np.array([0, 0]), LAW),
        Noisy(Quantity(kind="nonnull", column="x"), np.array([0, 900]), LAW),
    ]
    table = estimate(
        "q",
        "Q",
        (SEX,),
        {"m": Mean(mean="x", clip=clip)},
        {"m": noisy},
        confidence=CONFIDENCE,
        unreliable_above=Fraction(1, 2),
    )
    assert table.measures[0].status == ("blank", "ok")
    assert np.isnan(table.measures[0].margin[0])
    assert table.measures[0].places is None


@pytest.mark.parametrize(
    ("step", "places"), [(Fraction(1), 0), (Fraction(1, 100), 2), (Fraction(1, 4), 2), (Fraction(1, 3), None)]
)
def test_a_sum_is_exact_in_the_decimals_of_its_step(step: Fraction, places: int | None) -> None:
    noisy = [Noisy(Quantity(kind="sum", column="x", step=step, high=9), np.array([3, 4]), LAW)]
    table = estimate("q", "Q", (SEX,), {"s": Sum(sum="x")}, {"s": noisy}, confidence=CONFIDENCE)
    assert table.measures[0].places == places
    assert not table.measures[0].integer


def test_a_count_is_whole_and_a_count_from_two_draws_ends_in_a_half() -> None:
    (whole,) = counted([1, 2, 3, 4]).measures
    assert (whole.places, whole.integer) == (0, True)
    noisy = [
        Noisy(Quantity(kind="balance", column="x"), np.array([3, -4]), LAW),
        Noisy(Quantity(kind="rows"), np.array([4, 4]), LAW),
    ]
    table = estimate("q", "Q", (SEX,), {"n": Count(count="x")}, {"n": noisy}, confidence=CONFIDENCE)
    (half,) = table.measures
    assert half.value.tolist() == [3.5, 0.0]
    assert (half.places, half.integer) == (1, False)
    assert np.all(half.margin * 2 == np.rint(half.margin * 2))


def test_a_sum_from_a_centred_sum_and_a_count_keeps_its_decimals() -> None:
    centred = Quantity(kind="sum", column="x", step=Fraction(1, 100), low=0, high=1000, centre=500)
    noisy = [
        Noisy(centred, np.array([3, -4]), LAW),
        Noisy(Quantity(kind="nonnull", column="x"), np.array([4, -1]), LAW),
    ]
    table = estimate("q", "Q", (SEX,), {"s": Sum(sum="x")}, {"s": noisy}, confidence=CONFIDENCE)
    assert table.measures[0].value.tolist() == [20.03, -5.04]
    assert table.measures[0].places == 2


@pytest.mark.parametrize("measure", [Variance(variance="x"), Stddev(stddev="x")])
def test_a_spread_has_no_grid_and_is_blank_where_too_few(measure: Measure) -> None:
    source = Source(file="t.csv", format="csv")
    x = Column(name="x", type="integer", range=Range(low=Fraction(0), high=Fraction(10)))
    quantities = measure.quantities(Table(name="t", account="a", source=source, columns=(x,)))
    noisy = [Noisy(each, np.array([0, 900]), LAW) for each in quantities]
    (found,) = estimate("q", "Q", (SEX,), {"v": measure}, {"v": noisy}, confidence=CONFIDENCE).measures
    assert found.status == ("blank", "ok")
    assert (found.places, found.integer) == (None, False)


def test_estimates_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="read-only"):
        counted([1, 2, 3, 4]).measures[0].value[0] = 5.0


def test_rows_that_noise_chose_are_the_rows_and_there_may_be_none() -> None:
    noisy = [Noisy(Quantity(kind="rows"), np.array([5, 7]), LAW)]
    found = estimate("q", "Q", (STATE, SEX), {"n": Count(count="rows")}, {"n": noisy}, confidence=CONFIDENCE, rows=(("x", 9), ("y", 1)))  # fmt: skip
    assert (found.cells, found.keys) == (2, (("x", "y"), (9, 1)))
    nothing = [Noisy(Quantity(kind="rows"), np.array([], dtype=np.int64), LAW)]
    empty = estimate("q", "Q", (STATE, SEX), {"n": Count(count="rows")}, {"n": nothing}, confidence=CONFIDENCE, rows=())
    assert (empty.cells, empty.keys, empty.measures[0].status) == (0, ((), ()), ())


def test_a_row_below_the_limit_is_blank_in_every_measure_and_stays() -> None:
    rows = [Noisy(Quantity(kind="rows"), np.array([29, 30, 31, -4]), LAW)]
    measures: dict[str, Measure] = {"n": Count(count="rows"), "again": Count(count="rows")}
    inputs = {"n": rows, "again": rows}
    found = estimate("q", "Q", (STATE, SEX), measures, inputs, confidence=CONFIDENCE, suppress_below=("n", Fraction(30)))  # fmt: skip
    assert (found.cells, found.suppressed) == (4, 2)
    for measure in found.measures:
        assert measure.status == ("blank", "ok", "ok", "blank")
        for numbers in (measure.value, measure.standard_error, measure.margin):
            assert np.isnan(numbers).tolist() == [True, False, False, True]


def test_a_row_whose_measure_is_unknown_is_suppressed_too() -> None:
    centred = Quantity(kind="sum", column="x", low=0, high=100, centre=50)
    inputs = {
        "m": [
            Noisy(centred, np.array([0, 0]), LAW),
            Noisy(Quantity(kind="nonnull", column="x"), np.array([0, 900]), LAW),
        ],
        "n": [Noisy(Quantity(kind="rows"), np.array([1, 900]), LAW)],
    }
    measures: dict[str, Measure] = {"m": Mean(mean="x"), "n": Count(count="rows")}
    found = estimate("q", "Q", (SEX,), measures, inputs, confidence=CONFIDENCE, suppress_below=("m", Fraction(10)))
    assert found.measures[1].status == ("blank", "ok")


def test_a_number_withheld_as_unreliable_still_decides_what_is_suppressed() -> None:
    table = counted([40, 10, 100, 100], unreliable_above=Fraction(1, 2), unreliable_show="blank", suppress_below=("n", Fraction(30)))  # fmt: skip
    assert table.measures[0].status == ("unreliable", "blank", "ok", "ok")


def test_a_ranking_has_ranks_keys_and_no_measures() -> None:
    found = ranking_table("q", "Q", STATE, (1, 0), confidence=CONFIDENCE)
    assert [column.name for column in found.key_columns] == ["rank", "state"]
    assert (found.keys, found.measures, found.cells) == (((1, 2), ("08", "06")), (), 2)


def test_a_quantile_is_exact_in_the_decimals_of_its_step_and_has_no_standard_error() -> None:
    half = Quantity(kind="quantile", column="x", step=Fraction(1, 100), low=0, high=500, at=Fraction(1, 2))
    noisy = [Noisy(half, np.array([7, 300]), ScoreLaw(Fraction(1), 501))]
    measure = Quantile(quantile="x", at=Fraction(1, 2), among=(Fraction(1, 2),))
    (found,) = estimate("q", "Q", (SEX,), {"m": measure}, {"m": noisy}, confidence=CONFIDENCE, unreliable_above=Fraction(1, 2)).measures  # fmt: skip
    assert (found.value.tolist(), found.places, found.status) == ([0.07, 3.0], 2, ("ok", "ok"))
    assert np.isnan(found.standard_error).all()
    assert np.isnan(found.margin).all()


def test_a_number_of_distinct_values_is_whole() -> None:
    noisy = [Noisy(Quantity(kind="distinct", column="x"), np.array([7, -1]), LAW)]
    (found,) = estimate("q", "Q", (SEX,), {"d": CountDistinct(count_distinct="x")}, {"d": noisy}, confidence=CONFIDENCE).measures  # fmt: skip
    assert (found.places, found.integer, found.value.tolist()) == (0, True, [7.0, -1.0])
