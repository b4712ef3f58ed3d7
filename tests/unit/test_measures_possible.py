"""What the true number of each measure can be: held against every small cell, and reached at each end that is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement

import pytest

from dprelease.catalog.table import Column, Range, Source, Table
from dprelease.measures import Measure, Possible, expand_measures
from dprelease.measures.count import Count, CountDistinct
from dprelease.measures.mean import Mean
from dprelease.measures.quantile import Max, Min, Quantiles
from dprelease.measures.ratio import Ratio
from dprelease.measures.sum import Sum
from dprelease.measures.variance import Stddev, Variance

Cell = Sequence[int | None]
"""Values of one column in steps of a half, before they are clipped; None is a null."""


def table(unit: bool = False) -> Table:
    half = Column(name="x", type="decimal", range=Range(low=Fraction(-2), high=Fraction(3)), step=Fraction(1, 2))
    columns = (half, Column(name="id", type="text")) if unit else (half,)
    return Table(
        name="t",
        account="a",
        source=Source(file="t.csv", format="csv"),
        columns=columns,
        unit_id="id" if unit else None,
    )


def cells() -> Iterator[Cell]:
    """Every multiset of up to four values on, inside and beyond the range."""
    for size in range(5):
        yield from combinations_with_replacement((None, -9, -4, -3, 0, 2, 5, 6, 11), size)


def clipped(cell: Cell, low: Fraction, high: Fraction) -> list[Fraction]:
    return [max(low, min(high, Fraction(value, 2))) for value in cell if value is not None]


def mean(values: Sequence[Fraction]) -> Fraction | None:
    return sum(values, Fraction(0)) / len(values) if values else None


def spread(values: Sequence[Fraction]) -> Fraction | None:
    middle = mean(values)
    return None if middle is None else mean([(value - middle) ** 2 for value in values])


def middle(values: Sequence[Fraction]) -> Fraction | None:
    return sorted(values)[len(values) // 2] if values else None


WHOLE = (Fraction(-2), Fraction(3))
UP, DOWN, ABOVE = (Fraction(0), Fraction(3)), (Fraction(-2), Fraction(0)), (Fraction(1), Fraction(3))
Truth = Callable[[list[Fraction]], Fraction | None]


def quarter(clip: tuple[Fraction, Fraction]) -> Fraction:
    return (clip[1] - clip[0]) ** 2 / 4


CASES: list[tuple[Measure, tuple[Fraction, Fraction], Truth, Possible]] = [
    (Sum(sum="x"), WHOLE, lambda values: sum(values, Fraction(0)), (None, None)),
    *((Mean(mean="x", clip=clip), clip, mean, clip) for clip in (WHOLE, UP, DOWN, ABOVE)),
    *((Variance(variance="x", clip=clip), clip, spread, (Fraction(0), quarter(clip))) for clip in (WHOLE, ABOVE)),
    *(
        (Sum(sum="x", clip=clip), clip, lambda values: sum(values, Fraction(0)), possible)
        for clip, possible in ((UP, (Fraction(0), None)), (ABOVE, (Fraction(0), None)), (DOWN, (None, Fraction(0))))
    ),
    (Min(min="x", clip=UP).planned("m", {})["m"], UP, lambda values: min(values, default=None), UP),
    (Max(max="x").planned("m", {})["m"], WHOLE, lambda values: max(values, default=None), WHOLE),
    (Quantiles(quantiles="x", at=(Fraction(1, 2),)).planned("m", {})["m_q50"], WHOLE, middle, WHOLE),
    (Count(count="x"), WHOLE, lambda values: Fraction(len(values)), (Fraction(0), None)),
    (CountDistinct(count_distinct="x"), WHOLE, lambda values: Fraction(len(set(values))), (Fraction(0), None)),
]


@pytest.mark.parametrize(("measure", "clip", "truth", "possible"), CASES)
def test_every_cell_is_within_what_is_possible_and_some_cell_is_at_each_end(
    measure: Measure, clip: tuple[Fraction, Fraction], truth: Truth, possible: Possible
) -> None:
    assert measure.possible(table()) == possible
    found = [number for cell in cells() if (number := truth(clipped(cell, *clip))) is not None]
    for end, reached, sign in ((possible[0], min(found), -1), (possible[1], max(found), 1)):
        assert end is None or end == reached
        if end is None:  # not at all: more rows go further
            assert sign * reached > 3


def test_a_standard_deviation_has_the_roots_of_what_a_variance_can_be() -> None:
    for clip in (WHOLE, ABOVE):
        low, high = Stddev(stddev="x", clip=clip).possible(table())
        assert low is not None
        assert high is not None
        assert (low**2, high**2) == Variance(variance="x", clip=clip).possible(table())


def test_every_form_of_a_measure_says_the_same() -> None:
    measures: dict[str, Measure] = {str(at): case[0] for at, case in enumerate(CASES)}
    measures |= {"n": Count(count="rows"), "sum": Sum(sum="x", clip=UP), "x": Count(count="x")}
    measures["per"] = Ratio(ratio=("sum", "x"))
    several = 0
    for measure in expand_measures(measures).values():
        forms = measure.alternatives(table())
        several += len(forms) > 1
        assert {measure.bounds(form) for form in forms} == {measure.possible(table())}
    assert several > 4


RATIOS: list[tuple[Measure, Measure, Possible]] = [
    (Count(count="rows", where="x > 0"), Count(count="rows"), (Fraction(0), Fraction(1))),
    (Count(count="x"), Count(count="rows"), (Fraction(0), Fraction(1))),
    (Count(count="units"), Count(count="rows"), (Fraction(0), Fraction(1))),
    (Count(count="units", where="x > 0"), Count(count="units"), (Fraction(0), Fraction(1))),
    (Count(count="rows"), Count(count="units"), (Fraction(0), None)),  # a unit has several rows
    (Count(count="rows"), Count(count="rows", where="x > 0"), (Fraction(0), None)),
    (Count(count="rows", where="x > 1"), Count(count="rows", where="x > 0"), (Fraction(0), None)),  # not read as a part
    (Count(count="rows"), Count(count="x"), (Fraction(0), None)),
    (CountDistinct(count_distinct="x"), Count(count="rows"), (Fraction(0), None)),
    (Sum(sum="x", clip=UP, clip_per="row"), Count(count="rows"), (Fraction(0), None)),
    (Sum(sum="x", clip=DOWN, clip_per="row"), Count(count="rows"), (None, Fraction(0))),
    (Sum(sum="x", clip_per="row"), Count(count="rows"), (None, None)),
    (Count(count="rows"), Sum(sum="x", clip_per="row"), (None, None)),
    (Count(count="rows"), Sum(sum="x", clip=UP, clip_per="unit_cell"), (Fraction(0), None)),
    (Mean(mean="x", clip=ABOVE, clip_per="row"), Count(count="rows"), (Fraction(0), None)),
    (Count(count="rows"), Mean(mean="x", clip_per="row"), (None, None)),
]


@pytest.mark.parametrize(("above", "below", "possible"), RATIOS)
def test_a_ratio_is_a_share_only_where_it_is_one_of_a_whole_by_its_form(
    above: Measure, below: Measure, possible: Possible
) -> None:
    made = expand_measures({"a": above, "b": below, "r": Ratio(ratio=("a", "b"))})["r"]
    assert made.possible(table(unit=True)) == possible


def test_with_clip_per_unit_cell_what_a_unit_adds_up_to_is_what_the_clip_is_about() -> None:
    per = Mean(mean="x", clip=ABOVE, clip_per="unit_cell")
    assert per.possible(table(unit=True)) == ABOVE
    assert Sum(sum="x", clip=ABOVE, clip_per="unit_cell").possible(table(unit=True)) == (Fraction(0), None)
